"""Trees of ai.onnx.ml."""
import numpy as np
from case import FLOAT
from estimators import (COMPARE, POST, alone, classified, ensemble5, forest, operands, probit, scores, tree_attrs,
                        with_doubles)
from onnx import TensorProto

r = np.random.default_rng(31)
ALL, GRID = list(COMPARE), [-1.5, -1.0, 0.0, 0.5, 2.0]
x = operands(r, 37, 4)
t = forest(r, 7, 4, 4, [0])
alone("sum", "TreeEnsembleRegressor", [x], [np.float32(scores(t, x, 1))], n_targets=1, **tree_attrs(t, "target", False))
for aggregate in "AVERAGE", "MIN", "MAX":
    t = forest(r, 5, 3, 4, [0, 2, 1], each=aggregate == "AVERAGE")
    base = [0.5, -1.0, 2.0]
    alone(aggregate.lower(), "TreeEnsembleRegressor", [x], [np.float32(scores(t, x, 3, aggregate) + base)], n_targets=3,
          aggregate_function=aggregate, base_values=base, **tree_attrs(t, "target"))
g = operands(r, 50, 3, GRID)
n = operands(r, 50, 3, GRID, nan=True)
for data, label in ((g, "modes"), (n, "nan"), (np.int64(g), "int64"), (np.float64(g) / 3, "double")):
    t = forest(r, 9, 4, 3, [0, 1], ALL, grid=GRID)
    a = tree_attrs(t, "target")
    if label == "double":
        a = with_doubles(a, "nodes_values", "target_weights")
    alone(label, "TreeEnsembleRegressor", [data], [np.float32(scores(t, data, 2))], 3, n_targets=2, **a)
t = forest(r, 3, 9, 4, [0], lopsided=True)
alone("deep", "TreeEnsembleRegressor", [x], [np.float32(scores(t, x, 1))], n_targets=1, **tree_attrs(t, "target"))
t = forest(r, 2, 0, 4, [0])
alone("leaves", "TreeEnsembleRegressor", [x], [np.float32(scores(t, x, 1))], n_targets=1, **tree_attrs(t, "target"))
t = forest(r, 4, 3, 4, [0, 1, 2])
for post in "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO":
    alone(post.lower(), "TreeEnsembleRegressor", [x], [np.float32(POST[post](scores(t, x, 3)))], n_targets=3,
          post_transform=post, **tree_attrs(t, "target"))
t = forest(r, 4, 3, 4, [0], weights=lambda: r.uniform(0.05, 0.2))
alone("probit", "TreeEnsembleRegressor", [x], [np.float32(probit(scores(t, x, 1)))], n_targets=1,
      post_transform="PROBIT", **tree_attrs(t, "target"))


for d, t_ in (np.float32, FLOAT), (np.float64, TensorProto.DOUBLE):
    data = n.astype(d)
    t = forest(r, 6, 4, 3, [0, 1], ALL, grid=GRID, each=True)
    alone("five%d" % (np.dtype(d).itemsize * 8), "TreeEnsemble", [data], [scores(t, data, 2).astype(d)], 5, n_targets=2,
          aggregate_function=1, **ensemble5(t, t_))
COMPARE["BRANCH_EQ"] = lambda a, b: a == b or a in (-1.0, 2.0)
t = forest(r, 6, 3, 3, [0], ["BRANCH_EQ", "BRANCH_LEQ"], grid=GRID)
alone("member", "TreeEnsemble", [n], [np.float32(scores(t, n, 1, "MAX"))], 5, n_targets=1, aggregate_function=3,
      **ensemble5(t, FLOAT, (2.0, -1.0, 2.0)))
COMPARE["BRANCH_EQ"] = np.equal


def classifier(name, x, trees, labels, post=None, base=None):
    key = "classlabels_strings" if isinstance(labels[0], str) else "classlabels_int64s"
    alone(name, "TreeEnsembleClassifier", [x], classified(x, trees, labels, post, base), 3, post_transform=post,
          base_values=base, **{key: labels}, **tree_attrs(trees, "class"))


positive = {"weights": lambda: r.uniform(0.05, 0.2)}
for post in "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO":
    classifier("many." + post, x, forest(r, 6, 3, 4, [0, 1, 2], each=post == "LOGISTIC"), [5, 3, 8], post)
    classifier("mixed." + post, x, forest(r, 6, 3, 4, [0]), [5, 3], post)
    classifier("positive." + post, x, forest(r, 6, 3, 4, [0], **positive), ["no", "yes"], post, [0.05])
    classifier("second." + post, x, forest(r, 6, 3, 4, [1], **positive), ["no", "yes"], post)
classifier("base", x, forest(r, 6, 3, 4, [0, 1, 2]), ["a", "b", "c"], "SOFTMAX", [0.5, 0.25, 1.0])
classifier("two", x, forest(r, 6, 3, 4, [0, 1]), [5, 3], "NONE", [0.5, 0.75])
