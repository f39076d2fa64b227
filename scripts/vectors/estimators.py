"""Estimators of classical machine learning, in float64 from the specification of ai.onnx.ml."""
import numpy as np
from case import graph, node
from onnx import TensorProto, helper

ML = "ai.onnx.ml"
STRING = TensorProto.STRING


def ml(kind, inputs, outputs, **attrs):
    return node(kind, inputs, outputs, domain=ML, **{k: v for k, v in attrs.items() if v is not None})


def alone(name, kind, inputs, wants, version=1, **attrs):
    """Adds a case with one node. inputs and wants are lists of arrays."""
    names = ["x%d" % i for i in range(len(inputs))]
    results = ["y%d" % i for i in range(len(wants))]
    graph("%s.%s" % (kind, name), [ml(kind, names, " ".join(results), **attrs)], dict(zip(names, inputs)),
          dict(zip(results, wants)), ml=version)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax_zero(x):
    e = np.where(np.abs(x) > 1e-7, np.exp(x - x.max(-1, keepdims=True)), 0)
    return e / e.sum(-1, keepdims=True)


def probit(x):
    """The inverse of the normal distribution function with Winitzki's approximation of erfinv."""
    y = 2 * x - 1
    log = np.log((1 - y) * (1 + y))
    v = 2 / (3.14159 * 0.147) + 0.5 * log
    return 1.41421356 * np.where(y < 0, -1, 1) * np.sqrt(np.sqrt(v * v - log / 0.147) - v)


POST = {None: lambda x: x, "NONE": lambda x: x, "LOGISTIC": sigmoid, "SOFTMAX": softmax, "SOFTMAX_ZERO": softmax_zero,
        "PROBIT": probit}


def both(s, sum_, post=None):
    if post == "LOGISTIC":
        return np.stack([sigmoid(-s), sigmoid(s)], 1)
    return np.stack([sum_ - s, s], 1)


# Trees.

COMPARE = {"BRANCH_LEQ": np.less_equal, "BRANCH_LT": np.less, "BRANCH_GT": np.greater, "BRANCH_GTE": np.greater_equal,
           "BRANCH_EQ": np.equal, "BRANCH_NEQ": np.not_equal}


class Tree:
    """A random tree of nodes (mode, feature, value, yes, no, nan is yes), and the weights of its leaves."""

    def __init__(self, r, depth, columns, targets, modes, grid=None, weights=None, lopsided=False):
        self.nodes, self.leaves = [], {}
        self.r, self.columns, self.targets, self.modes, self.grid = r, columns, targets, modes, grid
        self.weights = weights or (lambda: r.standard_normal())
        self.grow(depth, lopsided)

    def grow(self, depth, lopsided):
        i = len(self.nodes)
        self.nodes.append(None)
        if depth == 0:
            self.nodes[i] = ("LEAF", 0, 0.0, 0, 0, 0)
            self.leaves[i] = [(t, np.float32(self.weights())) for t in self.targets]
            return i
        value = self.r.choice(self.grid) if self.grid is not None else self.r.standard_normal()
        mode, feature = str(self.r.choice(self.modes)), int(self.r.integers(self.columns))
        yes = self.grow(depth - 1, lopsided)
        no = self.grow(0 if lopsided else depth - 1, lopsided)
        self.nodes[i] = (mode, feature, np.float32(value), yes, no, int(self.r.integers(2)))
        return i

    def leaf(self, row):
        i = 0
        while self.nodes[i][0] != "LEAF":
            mode, feature, value, yes, no, nan = self.nodes[i]
            x = row[feature]
            i = yes if COMPARE[mode](x, value) or nan and np.isnan(x) else no
        return self.leaves[i]


def scores(trees, x, targets, aggregate="SUM"):
    out = np.zeros((len(x), targets))
    for r, row in enumerate(x):
        lists = [[] for _ in range(targets)]
        for t in trees:
            for k, w in t.leaf(row):
                lists[k].append(float(w))
        fold = {"SUM": sum, "AVERAGE": lambda l: sum(l) / len(trees), "MIN": min, "MAX": max}[aggregate]
        out[r] = [fold(l) if l else 0 for l in lists]
    return out


def tree_attrs(trees, prefix, nan=True):
    a = {"nodes_" + k: [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
                                    "missing_value_tracks_true")}
    for k in ("treeids", "nodeids", "ids", "weights"):
        a["%s_%s" % (prefix, k)] = []
    for t, tree in enumerate(trees):
        for i, (mode, feature, value, yes, no, is_yes) in enumerate(tree.nodes):
            for k, v in (("treeids", t), ("nodeids", i), ("featureids", feature), ("values", float(value)),
                         ("modes", mode), ("truenodeids", yes), ("falsenodeids", no),
                         ("missing_value_tracks_true", is_yes)):
                a["nodes_" + k].append(v)
            for k, w in tree.leaves.get(i, []):
                for name, v in (("treeids", t), ("nodeids", i), ("ids", k), ("weights", float(w))):
                    a["%s_%s" % (prefix, name)].append(v)
    if not nan:
        del a["nodes_missing_value_tracks_true"]
    return a


def forest(r, count, depth, columns, targets, modes=("BRANCH_LEQ",), **options):
    """Trees that share the targets; with each=True, tree i has the weights of one target."""
    each = options.pop("each", False)
    return [Tree(r, depth, columns, [targets[i % len(targets)]] if each else targets, modes, **options)
            for i in range(count)]


def operands(r, rows, columns, grid=None, nan=False):
    x = (r.choice(grid, (rows, columns)) if grid is not None else r.standard_normal((rows, columns))).astype(np.float32)
    if nan:
        x[r.random(x.shape) < 0.2] = np.nan
    return x


def with_doubles(attrs, *names):
    for n in names:
        attrs[n + "_as_tensor"] = helper.make_tensor(n, TensorProto.DOUBLE, [len(attrs[n])], attrs.pop(n))
    return attrs


def ensemble5(trees, d, members=()):
    """The attributes of TreeEnsemble. Nodes with mode BRANCH_EQ become memberships of the value and `members`."""
    branch, leaf, a = {}, {}, {k: [] for k in ("featureids", "truenodeids", "falsenodeids", "trueleafs", "falseleafs",
                                               "missing_value_tracks_true")}
    modes, splits, member, targets, weights, roots = [], [], [], [], [], []
    for t, tree in enumerate(trees):
        for i, nd in enumerate(tree.nodes):
            if nd[0] == "LEAF":
                leaf[t, i] = len(targets)
                targets.append(tree.leaves[i][0][0])
                weights.append(tree.leaves[i][0][1])
            else:
                branch[t, i] = len(branch)
    names = list(COMPARE)
    number = {"BRANCH_LEQ": 0, "BRANCH_LT": 1, "BRANCH_GTE": 2, "BRANCH_GT": 3, "BRANCH_EQ": 6 if members else 4,
              "BRANCH_NEQ": 5}
    assert len(number) == len(names)
    for t, tree in enumerate(trees):
        roots.append(branch[t, 0])
        for i, (mode, feature, value, yes, no, is_yes) in enumerate(tree.nodes):
            if mode == "LEAF":
                continue
            modes.append(number[mode])
            splits.append(value)
            if mode == "BRANCH_EQ" and members:
                member += [value, *members, np.nan]
            for k, v in (("featureids", feature), ("missing_value_tracks_true", is_yes),
                         ("truenodeids", branch.get((t, yes), leaf.get((t, yes)))), ("trueleafs", int((t, yes) in leaf)),
                         ("falsenodeids", branch.get((t, no), leaf.get((t, no)))), ("falseleafs", int((t, no) in leaf))):
                a[k].append(v)

    def values(name, list_):
        return helper.make_tensor(name, d, [len(list_)], [float(v) for v in list_])
    out = {"nodes_" + k: v for k, v in a.items()}
    out.update(tree_roots=roots, nodes_modes=helper.make_tensor("m", TensorProto.UINT8, [len(modes)], modes),
               nodes_splits=values("s", splits), leaf_targetids=targets, leaf_weights=values("w", weights))
    if members:
        out["membership_values"] = values("v", member)
    return out


def classified(x, trees, labels, post=None, base=None, sums=None):
    """Labels and scores of TreeEnsembleClassifier."""
    ids = {k for tree in trees for l in tree.leaves.values() for k, _ in l}
    low = min(w for tree in trees for l in tree.leaves.values() for _, w in l)
    s = scores(trees, x, len(labels)) + (base if base is not None and len(base) > 1 else 0)
    labels = np.array(labels)
    if len(labels) == 2 and len(ids) == 1:
        limit = 0.5 if low >= 0 else 0
        k = max(ids)
        p = s[:, k] + (base[0] if base is not None else 0)
        z = both(p, 2 * limit, post) if k == 0 else POST[post](s)
        return labels[(p > limit) * 1], np.float32(z)
    return labels[s.argmax(1)], np.float32(POST[post](s))
