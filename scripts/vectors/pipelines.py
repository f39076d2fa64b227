"""Classical machine learning: the other operators of ai.onnx.ml, and pipelines as skl2onnx writes them.

The expected outputs of pipelines are those of onnx's reference evaluator, which is in onnx 1.14 and later. They must
agree with the formulas of this file.
"""
import sys

import numpy as np
import onnx
from case import CASES, INT64, graph, node
from estimators import POST, STRING, alone, both, classified, forest, ml, operands, scores, sigmoid, tree_attrs
from onnx import TensorProto, helper

r = np.random.default_rng(32)
x = operands(r, 23, 5)


def floats(*shape, low=-1.0, high=1.0):
    return r.uniform(low, high, shape).astype(np.float32)


def flat(a):
    return [float(v) for v in np.ravel(a)]


# Linear models.


def linear(x, w, b):
    return np.float64(x) @ np.float64(w).T + np.float64(b)


def linear_classes(x, w, b, labels, post=None):
    s, labels = linear(x, w, b), np.array(labels)
    if len(b) == 1:
        return labels[(s[:, 0] > 0) * 1], np.float32(both(s[:, 0], 1, post))
    return labels[s.argmax(1)], np.float32(POST[post](s))


for post in "NONE", "SOFTMAX", "LOGISTIC":
    w, b = floats(3, 5), floats(3)
    alone(post, "LinearRegressor", [x], [np.float32(POST[post](linear(x, w, b)))], targets=3, post_transform=post,
          coefficients=flat(w), intercepts=flat(b))
    alone("many." + post, "LinearClassifier", [x], linear_classes(x, w, b, [4, 2, 9], post), coefficients=flat(w),
          intercepts=flat(b), classlabels_ints=[4, 2, 9], post_transform=post)
    alone("single." + post, "LinearClassifier", [x], linear_classes(x, w[:1], b[:1], ["no", "yes"], post),
          coefficients=flat(w[0]), intercepts=flat(b[:1]), classlabels_strings=["no", "yes"], post_transform=post)
w = floats(1, 5)
alone("vector", "LinearRegressor", [x[0]], [np.float32(linear(x[:1], w, [0.0]))], coefficients=flat(w))
alone("double", "LinearRegressor", [np.float64(x)], [np.float32(linear(x, w, [0.5]))], coefficients=flat(w),
      intercepts=[0.5])


# Support vector machines.


def kernel(x, v, kind, gamma, coef0, degree):
    dot = np.float64(x) @ np.float64(v).T
    if kind == "POLY":
        return (gamma * dot + coef0) ** degree
    if kind == "SIGMOID":
        return np.tanh(gamma * dot + coef0)
    if kind == "RBF":
        return np.exp(-gamma * ((np.float64(x)[:, None] - np.float64(v)[None]) ** 2).sum(2))
    return dot


def f32(*list_):
    return [float(np.float32(v)) for v in list_]


def couple(pairs, k):
    """The second method of Wu, Lin and Weng, 2004, with the stopping rule of libsvm."""
    q, p = np.zeros((k, k)), np.full(k, 1 / k)
    for i in range(k):
        for j in range(k):
            if i != j:
                q[i, i] += pairs[j, i] ** 2
                q[i, j] = -pairs[j, i] * pairs[i, j]
    for _ in range(100):
        qp = q @ p
        pqp = p @ qp
        if np.abs(qp - pqp).max() < 0.005 / k:
            break
        for i in range(k):
            step = (pqp - qp[i]) / q[i, i]
            p[i] += step
            pqp = (pqp + step * (step * q[i, i] + 2 * qp[i])) / (1 + step) ** 2
            qp = (qp + step * q[i]) / (1 + step)
            p /= 1 + step
    return p


def svm_classes(x, v, counts, c, rho, a, b, labels, post, kind, params):
    k, n = kernel(x, v, kind, *params), len(counts)
    start = np.cumsum([0] + list(counts))
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    s, votes = np.zeros((len(x), len(pairs))), np.zeros((len(x), n))
    for p, (i, j) in enumerate(pairs):
        I, J = slice(start[i], start[i + 1]), slice(start[j], start[j + 1])
        s[:, p] = k[:, I] @ c[j - 1, I] + k[:, J] @ c[i, J] + rho[p]
        votes[s[:, p] > 0, i] += 1
        votes[s[:, p] <= 0, j] += 1
    y = np.array(labels)[votes.argmax(1)]
    if a is not None:
        z = np.zeros((len(x), n))
        for row in range(len(x)):
            m = np.zeros((n, n))
            for p, (i, j) in enumerate(pairs):
                m[i, j] = np.clip(sigmoid(-(s[row, p] * a[p] + b[p])), 1e-7, 1 - 1e-7)
                m[j, i] = 1 - m[i, j]
            z[row] = couple(m, n)
        return y, np.float32(POST[post](z))
    if n > 2:
        return y, np.float32(POST[post](s))
    return y, np.float32(both(s[:, 0], 0 if post == "NONE" else 1, post))


for kind, classes, chances, post in [("RBF", 3, True, "NONE"), ("POLY", 4, True, "NONE"), ("LINEAR", 3, False, "NONE"),
                                     ("SIGMOID", 2, True, "NONE"), ("RBF", 2, False, "NONE"),
                                     ("RBF", 2, False, "LOGISTIC"), ("RBF", 3, False, "LOGISTIC"),
                                     ("RBF", 2, False, "SOFTMAX"), ("RBF", 5, True, "SOFTMAX")]:
    params = f32(0.4, 0.5, 2)
    counts, pairs = [int(v) for v in r.integers(2, 5, classes)], classes * (classes - 1) // 2
    v, c, rho = floats(sum(counts), 5), floats(classes - 1, sum(counts)), floats(pairs)
    a, b = (-floats(pairs, low=0.5, high=2), floats(pairs)) if chances else (None, None)
    labels = ["c%d" % i for i in range(classes)] if kind == "RBF" else list(range(10, 10 + classes))
    key = "classlabels_strings" if kind == "RBF" else "classlabels_ints"
    alone("%s.%d.%s.%s" % (kind, classes, chances, post), "SVMClassifier", [x],
          svm_classes(x, v, counts, np.asarray(c, np.float64), np.asarray(rho, np.float64), a, b, labels, post, kind, params), kernel_type=kind,
          kernel_params=params, vectors_per_class=counts, support_vectors=flat(v), coefficients=flat(c), rho=flat(rho),
          prob_a=flat(a) if chances else None, prob_b=flat(b) if chances else None, post_transform=post, **{key: labels})
for classes in 2, 3:
    c = floats(classes, 5)
    s = kernel(x, c, "LINEAR", 0, 0, 0) + np.float32(0.1)
    y = s.argmax(1) if classes > 2 else np.where((s.max(1) > 0) | (s[:, 1] > s[:, 0]), 1, 0)
    alone("linear%d" % classes, "SVMClassifier", [x], [y + 7, np.float32(s)], kernel_type="LINEAR",
          kernel_params=[0.0, 0.0, 0.0], coefficients=flat(c), rho=f32(0.1), classlabels_ints=[7, 8, 9][:classes])
for kind in "LINEAR", "POLY", "RBF", "SIGMOID":
    v, c, params = floats(6, 5), floats(6), f32(0.3, 0.25, 3)
    s = (kernel(x, v, kind, *params) @ np.float64(c) + np.float32(0.2))[:, None]
    alone(kind, "SVMRegressor", [x], [np.float32(s)], kernel_type=kind, kernel_params=params, support_vectors=flat(v),
          coefficients=flat(c), rho=f32(0.2), n_supports=6)
alone("one_class", "SVMRegressor", [x], [np.where(s > 0, 1, -1).astype(np.float32)], kernel_type=kind,
      kernel_params=params, support_vectors=flat(v), coefficients=flat(c), rho=f32(0.2), n_supports=6, one_class=1)

# Encoders and scalers.

words = np.array([["red", "blue", "grün"], ["green", "red", "none"]])
numbers = np.array([[3, 7, -2], [100, 3, 8]])
names = ["red", "green", "grün", "blue"]


def look_up(data, keys, values, default):
    table = dict(zip(keys, values))
    return np.array([table.get(k, default) for k in np.ravel(data).tolist()]).reshape(np.shape(data))


alone("v1", "LabelEncoder", [words], [look_up(words, names, range(4), -7)], 1, classes_strings=names, default_int64=-7)
alone("v1.back", "LabelEncoder", [numbers], [look_up(numbers, range(4), names, "?")], 1, classes_strings=names,
      default_string="?")
alone("text", "LabelEncoder", [words], [look_up(words, names, [5, 6, 7, 8], -1)], 2, keys_strings=names,
      values_int64s=[5, 6, 7, 8])
alone("texts", "LabelEncoder", [words], [look_up(words, names, ["r", "g", "g", "b"], "_Unused")], 2, keys_strings=names,
      values_strings=["r", "g", "g", "b"])
alone("integers", "LabelEncoder", [numbers], [look_up(numbers, [3, 100, -2], ["a", "b", "c"], "d")], 2,
      keys_int64s=[3, 100, -2], values_strings=["a", "b", "c"], default_string="d")
wide = numbers * 10 ** 9
alone("wide", "LabelEncoder", [wide], [look_up(wide, [3 * 10 ** 9, 10 ** 11], f32(0.5, 0.25), 9.0).astype(np.float32)],
      2, keys_int64s=[3 * 10 ** 9, 10 ** 11], values_floats=[0.5, 0.25], default_float=9.0)
reals = np.array([1.5, np.nan, -0.25, 4, 0], np.float32)
alone("floats", "LabelEncoder", [reals], [np.array([10, 30, 20, -1, -1])], 2, keys_floats=[1.5, -0.25, float("nan")],
      values_int64s=[10, 20, 30])


def tensor(a):
    a = np.asarray(a)
    kind = {"float32": TensorProto.FLOAT, "int64": INT64, "int32": TensorProto.INT32, "int16": TensorProto.INT16,
            "float64": TensorProto.DOUBLE}.get(str(a.dtype), STRING)
    return helper.make_tensor("t", kind, a.shape, [v.encode() for v in a.tolist()] if kind == STRING else a.tolist())


def i16(*v):
    return np.array(v, np.int16)


alone("tensors", "LabelEncoder", [i16(4, 9, 1, 4)], [np.array(["four", "other", "one", "four"])], 4,
      keys_tensor=tensor(i16(1, 4)), values_tensor=tensor(["one", "four"]), default_tensor=tensor(["other"]))
alone("tensors.int16", "LabelEncoder", [words], [look_up(words, names[:2], [8, 9], 0).astype(np.int16)], 4,
      keys_tensor=tensor(names[:2]), values_tensor=tensor(i16(8, 9)), default_tensor=tensor(i16(0)))
alone("tensors.double", "LabelEncoder", [np.float64([0.1, 0.2, 0.3])], [np.float64([7.5, -1, 2.5])], 4,
      keys_tensor=tensor(np.float64([0.1, 0.3])), values_tensor=tensor(np.float64([7.5, 2.5])),
      default_tensor=tensor(np.float64([-1])))
alone("texts", "CategoryMapper", [words], [look_up(words, names, [9, 8, 7, 6], -1)], cats_strings=names,
      cats_int64s=[9, 8, 7, 6])
alone("integers", "CategoryMapper", [numbers], [look_up(numbers, [3, 8], ["three", "eight"], "_Unused")],
      cats_strings=["three", "eight"], cats_int64s=[3, 8])
hot = (words[..., None] == np.array(names)).astype(np.float32)
alone("texts", "OneHotEncoder", [words], [hot], cats_strings=names)
alone("integers", "OneHotEncoder", [numbers], [(numbers[..., None] == [3, 8, 100]).astype(np.float32)],
      cats_int64s=[3, 8, 100])
alone("floats", "OneHotEncoder", [np.float32([[3, 8.7, 4]])], [np.float32([[[1, 0], [0, 1], [0, 0]]])],
      cats_int64s=[3, 8])
alone("strict", "OneHotEncoder", [np.int64([1, 0, 2])], [np.float32([[0, 1, 0], [1, 0, 0], [0, 0, 1]])],
      cats_int64s=[0, 1, 2], zeros=0)
off, by = floats(5), floats(5)
alone("columns", "Scaler", [x], [(x - off) * by], offset=flat(off), scale=flat(by))
alone("one", "Scaler", [np.int64([[1, 2], [3, 5]])], [np.float32([[0.25, 0.75], [1.25, 2.25]])], offset=[0.5],
      scale=[0.5])
positive = np.abs(x)
positive[3] = 0
alone("MAX", "Normalizer", [positive], [positive / np.where(positive.max(1) == 0, 1, positive.max(1))[:, None]])
for norm, size in ("L1", np.abs(x).sum(1)), ("L2", np.sqrt((x * x).sum(1))):
    alone(norm, "Normalizer", [x], [x / size[:, None]], norm=norm)
holes = x.copy()
holes[r.random(x.shape) < 0.3] = np.nan
alone("nan", "Imputer", [holes], [np.where(np.isnan(holes), np.arange(5, dtype=np.float32), holes)],
      imputed_value_floats=flat(np.arange(5)), replaced_value_float=float("nan"))
alone("value", "Imputer", [np.float32([[1, -1, 2]])], [np.float32([[1, 7, 2]])], imputed_value_floats=[7.0],
      replaced_value_float=-1.0)
alone("integers", "Imputer", [numbers], [np.where(numbers == 3, 55, numbers)], imputed_value_int64s=[55],
      replaced_value_int64=3)
alone("floats", "Binarizer", [x], [(x > 0.25).astype(np.float32)], threshold=0.25)
alone("integers", "Binarizer", [numbers], [(numbers > 3) * 1], threshold=3.0)
alone("parts", "FeatureVectorizer", [np.int64([[1, 2]]), np.float32([3, 4, 5])], [np.float32([[1, 2, 3, 4, 5]])],
      inputdimensions=[2, 3])
alone("columns", "ArrayFeatureExtractor", [x, np.array([[3, 0, 3]])], [x[:, [3, 0, 3]]])
alone("vector", "ArrayFeatureExtractor", [np.array([7, 8, 9]), np.array([2, 0])], [np.array([[9, 7]])])

# Maps. A map is an input of two vectors.


def mapped(name, nodes, keys, values, want):
    types = {np.dtype(np.int64): INT64, np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float64): TensorProto.DOUBLE}
    kind = onnx.TypeProto()
    kind.map_type.key_type = types.get(keys.dtype, STRING)
    kind.map_type.value_type.tensor_type.elem_type = types.get(values.dtype, STRING)
    graph(name, nodes, {"m.keys": keys, "m.values": values}, {"y": want}, ml=1, maps={"m": kind})


mapped("DictVectorizer.texts", [ml("DictVectorizer", "m", "y", string_vocabulary=["a", "c", "b", "z"])],
       np.array(["c", "a"]), np.float32([8, 4]), np.float32([[4, 8, 0, 0]]))
mapped("DictVectorizer.integers", [ml("DictVectorizer", "m", "y", int64_vocabulary=[7, 1, 5])], np.array([5, 9, 7]),
       np.array([-np.inf, 3.0, 2.5]), np.array([[2.5, 0, -np.inf]]))
mapped("CastMap.dense", [ml("CastMap", "m", "y", cast_to="TO_INT64")], np.array([5, 1, 3]), np.float32([50, 10, 30]),
       np.array([[10, 30, 50]]))
mapped("CastMap.sparse", [ml("CastMap", "m", "y", map_form="SPARSE", max_map=6)], np.array([5, 1, 3]),
       np.float32([50, 10, 30]), np.float32([[0, 10, 0, 30, 0, 50]]))
mapped("CastMap.texts", [ml("CastMap", "m", "t", cast_to="TO_STRING"), ml("CategoryMapper", "t", "y", cats_strings=["a"],
                                                                          cats_int64s=[3])],
       np.array([5, 1]), np.array(["a", "b"]), np.array([[-1, 3]]))

# Pipelines.

try:
    from onnx.reference import ReferenceEvaluator
except ImportError:
    sys.exit("pipelines: the reference evaluator is not in onnx " + onnx.__version__)


def evaluated(c):
    """The outputs of a case by the reference evaluator, which lacks ZipMap: its operand takes its place."""
    model = onnx.ModelProto.FromString(c.model.SerializeToString())
    for zip_ in [n for n in model.graph.node if n.op_type == "ZipMap"]:
        model.graph.node.remove(zip_)
        model.graph.node.append(helper.make_node("Identity", zip_.input, zip_.output))
    results = ReferenceEvaluator(model).run(list(c.outputs), c.inputs)
    return {k: np.asarray(a) for k, a in zip(c.outputs, results)}


def same(got, want):
    """Whether the evaluator and the formulas agree. The evaluator has strings as objects, and float64 scores."""
    if got.shape != want.shape or want.dtype.kind in "iU":
        return np.array_equal(got.astype(want.dtype), want)
    return got.dtype.kind == "f" and np.abs(got - want).max() < 1e-5


class Pipeline:
    """Nodes, and the arrays that the values have."""

    def __init__(self, **inputs):
        self.nodes, self.inputs = [], inputs

    def add(self, kind, inputs, outputs, **attrs):
        standard = attrs.pop("standard", False)
        self.nodes.append(node(kind, inputs, outputs, **attrs) if standard else ml(kind, inputs, outputs, **attrs))

    def case(self, name, evaluator=True, **outputs):
        """Adds the case. evaluator=False: the reference evaluator is wrong, and the outputs are those of the formulas."""
        graph("pipeline." + name, self.nodes, self.inputs, outputs, ml=3,
              open_sizes={k: {0: "N"} for k in self.inputs})
        c = CASES[-1]
        c.source, results = "formulas of scripts/vectors/pipelines.py", evaluated(c)
        if all(same(results[k], want) for k, want in c.outputs.items()) != evaluator:
            sys.exit("%s: the reference evaluator has %s, the formulas have %s" % (name, results, c.outputs))
        if evaluator:
            c.source = "onnx.reference.ReferenceEvaluator"
            c.outputs = {k: results[k].astype(want.dtype) for k, want in c.outputs.items()}

    def scaled(self):
        """Adds a scaler, and returns the scaled rows."""
        x, off, by = self.inputs["x"], floats(5), floats(5, low=0.5, high=2)
        self.add("Scaler", "x", "scaled", offset=flat(off), scale=flat(by))
        return (x - off) * by

    def classify(self, name, labels, scores_, raw="raw", keys=None, evaluator=True):
        """Adds what skl2onnx writes after a classifier: a normalization, and maps of probabilities."""
        p = np.abs(scores_).sum(1, keepdims=True)
        if raw != "p":
            self.add("Normalizer", raw, "p", norm="L1")
            scores_ = scores_ / np.where(p == 0, 1, p)
        self.add("ZipMap", "p", "output_probability", **keys)
        self.case(name, evaluator, output_label=labels, output_probability=np.float32(scores_))


def text_keys(*k):
    return {"classlabels_strings": list(k)}


def int_keys(*k):
    return {"classlabels_int64s": list(k)}


for post, keys in (("SOFTMAX", text_keys("a", "b", "c")), ("LOGISTIC", int_keys(0, 1, 2))):  # logistic regression
    p = Pipeline(x=x)
    z, w, b = p.scaled(), floats(3, 5), floats(3)
    labels = list(keys.values())[0]
    y, s = linear_classes(z, w, b, labels, post)
    ints_or_texts = "classlabels_strings" if isinstance(labels[0], str) else "classlabels_ints"
    p.add("LinearClassifier", "scaled", "output_label raw", coefficients=flat(w), intercepts=flat(b),
          post_transform=post, **{ints_or_texts: labels})
    p.classify("logistic." + post, y, s, keys=keys)
p, w, b = Pipeline(x=x), floats(1, 5), floats(1)
w2, b2 = np.concatenate([-w, w]), np.concatenate([-b, b])
y, s = linear_classes(x, w2, b2, [0, 1], "LOGISTIC")
p.add("LinearClassifier", "x", "output_label raw", coefficients=flat(w2), intercepts=flat(b2), post_transform="LOGISTIC",
      classlabels_ints=[0, 1])
p.classify("logistic.binary", y, s, keys=int_keys(0, 1))
weights = {"weights": lambda: r.uniform(0.01, 0.1)}
for name, labels, targets in (("forest", ["x", "y", "z"], [0, 1, 2]), ("forest.binary", [3, 4], [0])):
    p = Pipeline(x=x)
    z, t = p.scaled(), forest(r, 10, 5, 5, targets, **weights)
    y, s = classified(z, t, labels)
    keys = text_keys(*labels) if isinstance(labels[0], str) else int_keys(*labels)
    p.add("TreeEnsembleClassifier", "scaled", "output_label p", **keys, **tree_attrs(t, "class"))
    p.classify(name, y, s, "p", keys)
for name, labels, targets, post, base in (("boosting", [0, 1, 2], [0, 1, 2], "SOFTMAX", [0.1, -0.2, 0.3]),
                                          ("boosting.binary", [0, 1], [0], "LOGISTIC", [0.25])):
    p, t = Pipeline(x=x), forest(r, 12, 3, 5, targets, ("BRANCH_LT",), each=True)
    y, s = classified(x, t, labels, post, base)
    p.add("TreeEnsembleClassifier", "x", "output_label p", post_transform=post, base_values=base, **int_keys(*labels),
          **tree_attrs(t, "class"))
    p.classify(name, y, s, "p", int_keys(*labels))
for classes in 2, 4:  # support vector machines
    p = Pipeline(x=x)
    z, params = p.scaled(), f32(0.2, 0, 0)
    counts, pairs = [3] * classes, classes * (classes - 1) // 2
    v, c, rho = floats(sum(counts), 5), floats(classes - 1, sum(counts)), floats(pairs)
    a, b = -floats(pairs, low=0.5, high=2), floats(pairs)
    y, s = svm_classes(z, v, counts, np.asarray(c, np.float64), np.asarray(rho, np.float64), a, b, list(range(classes)),
                       "NONE", "RBF", params)
    p.add("SVMClassifier", "scaled", "output_label p", kernel_type="RBF", kernel_params=params, vectors_per_class=counts,
          support_vectors=flat(v), coefficients=flat(c), rho=flat(rho), prob_a=flat(a), prob_b=flat(b),
          classlabels_ints=list(range(classes)))
    # For more than two classes, the evaluator has one dot product in place of the products of two probabilities.
    p.classify("svc%d" % classes, y, s, "p", int_keys(*range(classes)), evaluator=classes == 2)
holes = x.copy()
holes[r.random(x.shape) < 0.2] = np.nan
filled = np.where(np.isnan(holes), np.float32([1, 2, 3, 4, 5]) / 4, holes)
p, t = Pipeline(x=holes), forest(r, 8, 4, 5, [0])
p.add("Imputer", "x", "filled", imputed_value_floats=flat(np.arange(1, 6) / 4), replaced_value_float=float("nan"))
p.add("TreeEnsembleRegressor", "filled", "variable", n_targets=1, **tree_attrs(t, "target"))
p.case("imputer.forest", variable=np.float32(scores(t, filled, 1)))
p, t = Pipeline(x=holes), forest(r, 8, 4, 5, [0], ("BRANCH_LT",))
p.add("TreeEnsembleRegressor", "x", "variable", n_targets=1, base_values=[0.5], **tree_attrs(t, "target"))
# The evaluator has the base value in place of its sum with the weights.
p.case("boosting.nan", evaluator=False, variable=np.float32(scores(t, holes, 1) + 0.5))
p, w = Pipeline(x=x), floats(1, 5)
unit = x / np.sqrt((x * x).sum(1, keepdims=True))
p.add("Normalizer", "x", "unit", norm="L2")
p.add("LinearRegressor", "unit", "variable", coefficients=flat(w), intercepts=[0.5])
p.case("normalizer.linear", variable=np.float32(linear(unit, w, [0.5])))
p, w = Pipeline(x=x), floats(1, 3)
bits = (x > 0.1).astype(np.float32)
p.add("Binarizer", "x", "bits", threshold=0.1)
p.add("ArrayFeatureExtractor", "bits columns", "part")
p.nodes.insert(0, node("Constant", [], "columns", value=tensor(np.array([4, 0, 1]))))
p.add("LinearRegressor", "part", "variable", coefficients=flat(w), intercepts=[0.0])
p.case("binarizer.columns", variable=np.float32(linear(bits[:, [4, 0, 1]], w, [0.0])))
colour, size = np.array([["red"], ["pink"], ["blue"], ["red"]]), np.array([[1.0], [2], [3], [-4]], np.float32)
onehot, w = (colour == np.array(["blue", "red"])).astype(np.float32), floats(1, 3)
joined = np.concatenate([onehot, (size - 0.5) * 2], 1)
for name in "texts", "column":  # a column transformer
    p = Pipeline(colour=colour, size=size)
    p.add("OneHotEncoder", "colour", "hot", cats_strings=["blue", "red"])
    p.nodes.append(helper.make_node("Constant", [], ["shape"], value=tensor(np.array([-1, 2]))))
    p.nodes.append(helper.make_node("Reshape", ["hot", "shape"], ["flat"]))
    p.add("Scaler", "size", "scaled", offset=[0.5], scale=[2.0])
    if name == "texts":
        p.add("FeatureVectorizer", "flat scaled", "all", inputdimensions=[2, 1])
    else:
        p.nodes.append(helper.make_node("Concat", ["flat", "scaled"], ["all"], axis=1))
    s = linear(joined, w, [0.1])
    p.add("LinearClassifier", "all", "output_label raw", coefficients=flat(w), intercepts=f32(0.1),
          classlabels_strings=["cheap", "dear"], post_transform="LOGISTIC")
    p.classify("columns." + name, np.where(s[:, 0] > 0, "dear", "cheap"), both(s[:, 0], 1, "LOGISTIC"),
               keys=text_keys("cheap", "dear"))
p, t = Pipeline(colour=colour), forest(r, 5, 2, 1, [0], ("BRANCH_EQ",), grid=[0, 1, 2])
codes = look_up(colour, ["red", "blue"], [0, 1], 2)
p.add("LabelEncoder", "colour", "code", keys_strings=["red", "blue"], values_int64s=[0, 1], default_int64=2)
p.nodes.append(helper.make_node("Cast", ["code"], ["real"], to=TensorProto.FLOAT))  # else the evaluator's sum is int64
p.add("TreeEnsembleRegressor", "real", "variable", n_targets=1, **tree_attrs(t, "target"))
p.case("labels.forest", variable=np.float32(scores(t, codes, 1)))
p, t = Pipeline(x=x), forest(r, 5, 3, 5, [0, 1, 2])
y, s = classified(x, t, [0, 1, 2])
p.add("TreeEnsembleClassifier", "x", "index p", **int_keys(0, 1, 2), **tree_attrs(t, "class"))
p.add("LabelEncoder", "index", "output_label", keys_int64s=[0, 1, 2], values_strings=["one", "two", "three"])
p.case("forest.labels", output_label=np.array(["one", "two", "three"])[y], p=s)
p, t = Pipeline(x=x), forest(r, 5, 3, 5, [0])
low = scores(t, x, 1)
p.add("TreeEnsembleRegressor", "x", "a", n_targets=1, **tree_attrs(t, "target"))
p.add("LinearRegressor", "x", "b", coefficients=flat(w2[0]), intercepts=[0.5])
p.nodes.append(helper.make_node("Mean", ["a", "b"], ["variable"]))
p.case("voting", variable=np.float32((low + linear(x, w2[:1], [0.5])) / 2))
p = Pipeline(x=x)
v, c, params = floats(6, 5), floats(6), f32(0.3, 0, 0)
s = (kernel(p.scaled(), v, "RBF", *params) @ np.float64(c))[:, None]
p.add("SVMRegressor", "scaled", "variable", kernel_type="RBF", kernel_params=params, support_vectors=flat(v),
      coefficients=flat(c), rho=f32(0.0), n_supports=6)
p.case("scaler.svr", variable=np.float32(s))
tint = np.array([["red"], ["tan"], ["sky"], ["red"]])  # the evaluator's texts have one length
p = Pipeline(tint=tint)
p.nodes.append(helper.make_node("Constant", [], ["word"], value_string="red"))
p.nodes.append(helper.make_node("Equal", ["tint", "word"], ["same"]))
p.nodes.append(helper.make_node("Constant", [], ["words"], value_strings=["any"]))
p.nodes.append(helper.make_node("Where", ["same", "word", "words"], ["y"]))
p.case("text.where", y=np.where(tint == "red", "red", "any"))
for name, nan, normalized in ("imputer.logistic", True, False), ("normalizer.logistic", False, True):
    p, rows = Pipeline(x=holes if nan else x), x
    source = "x"
    if nan:
        p.add("Imputer", "x", "filled", imputed_value_floats=flat(np.arange(1, 6) / 4), replaced_value_float=float("nan"))
        source, rows = "filled", filled
    if normalized:
        p.add("Normalizer", "x", "unit", norm="L1")
        source, rows = "unit", x / np.abs(x).sum(1, keepdims=True)
    off, by, w, b = floats(5), floats(5, low=0.5, high=2), floats(4, 5), floats(4)
    p.add("Scaler", source, "scaled", offset=flat(off), scale=flat(by))
    y, s = linear_classes((rows - off) * by, w, b, [3, 5, 7, 9], "SOFTMAX")
    p.add("LinearClassifier", "scaled", "output_label raw", coefficients=flat(w), intercepts=flat(b),
          post_transform="SOFTMAX", classlabels_ints=[3, 5, 7, 9])
    p.classify(name, y, s, keys=int_keys(3, 5, 7, 9))
p = Pipeline(x=x, size=operands(r, 23, 2))  # numbers of two sources
both_ = np.concatenate([p.scaled(), np.float32(p.inputs["size"] > 0)], 1)
p.add("Binarizer", "size", "bits", threshold=0.0)
p.add("FeatureVectorizer", "scaled bits", "all", inputdimensions=[5, 2])
t = forest(r, 10, 4, 7, [0, 1, 2], **weights)
y, s = classified(both_, t, ["low", "middle", "high"])
p.add("TreeEnsembleClassifier", "all", "output_label p", **text_keys("low", "middle", "high"), **tree_attrs(t, "class"))
p.classify("union.forest", y, s, "p", text_keys("low", "middle", "high"))
p, t = Pipeline(x=x), forest(r, 12, 3, 3, [0], ("BRANCH_LT",), each=True)  # selected columns
p.nodes.append(node("Constant", [], "columns", value=tensor(np.array([3, 1, 0]))))
p.add("ArrayFeatureExtractor", "x columns", "part")
y, s = classified(x[:, [3, 1, 0]], t, [0, 1], "LOGISTIC", [0.25])
p.add("TreeEnsembleClassifier", "part", "index p", post_transform="LOGISTIC", base_values=[0.25], **int_keys(0, 1),
      **tree_attrs(t, "class"))
p.add("LabelEncoder", "index", "output_label", keys_int64s=[0, 1], values_strings=["no", "yes"])
p.classify("columns.boosting", np.array(["no", "yes"])[y], s, "p", text_keys("no", "yes"))
gaps = np.array([[1.0, np.nan], [np.nan, 2], [3, 0.5], [-4, np.nan]], np.float32)  # numbers and texts
p = Pipeline(colour=colour, gaps=gaps)
p.add("Imputer", "gaps", "filled", imputed_value_floats=[0.25, 1.5], replaced_value_float=float("nan"))
p.add("Scaler", "filled", "scaled", offset=[0.5, -0.5], scale=[2.0, 0.75])
p.add("OneHotEncoder", "colour", "hot", cats_strings=["blue", "red"])
p.nodes.append(node("Constant", [], "shape", value=tensor(np.array([-1, 2]))))
p.nodes.append(node("Reshape", "hot shape", "flat"))
p.nodes.append(node("Concat", "scaled flat", "all", axis=1))
filled = (np.where(np.isnan(gaps), np.float32([0.25, 1.5]), gaps) + np.float32([-0.5, 0.5])) * np.float32([2, 0.75])
t = forest(r, 20, 3, 4, [0], ("BRANCH_LT",), each=True)
y, s = classified(np.concatenate([filled, onehot], 1), t, ["cheap", "dear"], "LOGISTIC", [-0.5])
p.add("TreeEnsembleClassifier", "all", "output_label p", post_transform="LOGISTIC", base_values=[-0.5],
      **text_keys("cheap", "dear"), **tree_attrs(t, "class"))
p.classify("imputer.columns.boosting", y, s, "p", text_keys("cheap", "dear"))
