"""Graphs that depend on symbolic sizes, run with sizes on both sides of each decision."""
import numpy as np
from onnx import helper

from case import BOOL, FLOAT, INT64, body, f, graph, i64, node, scalar

first = [node("Shape", "x", "shape"), node("Gather", "shape zero", "n", axis=0), node("Unsqueeze", "n at", "n1")]
KNOWN = {"zero": scalar(0), "at": i64(0)}


def case(name, nodes, x, y, opset=17, known=None, sizes=None):
    name = "%s, %s" % (name, "x".join(map(str, x.shape)))
    graph(name, first + nodes, {"x": x}, {"y": y}, opset, {**KNOWN, **(known or {})}, {"x": sizes or {0: "N"}})


for n in (0, 1, 2, 9, 10, 11, 40):
    x = f(n)
    case("expand to the least of a size and ten", [node("Min", "n1 ten", "least"), node("Expand", "one least", "y")],
         x, np.ones(min(n, 10), np.float32), known={"ten": i64(10), "one": np.ones(1, np.float32)})
    case("expand to a size", [node("Expand", "c n1", "y")], x, np.full(n, 3, np.float32),
         known={"c": np.full(1, 3, np.float32)})

then = body("then", [node("Add", "x one", "p")], {}, {"p": (FLOAT, None)}, {"one": scalar(1, np.float32)})
other = body("else", [node("Neg", "x", "q")], {}, {"q": (FLOAT, None)})
for n in (1, 99, 100, 101, 300):
    x = f(n, 2)
    choose = helper.make_node("If", ["c"], ["z"], then_branch=then, else_branch=other)
    case("if more than a hundred", [node("Greater", "n hundred", "c"), choose, node("Relu", "z", "y")], x,
         np.maximum(x + 1 if n > 100 else -x, 0), known={"hundred": scalar(100)}, sizes={0: "N", 1: "M"})

# Nested Ifs: the outer condition bounds the size in its branch; the results differ in rank.
deep = helper.make_node("If", ["small"], ["d"], then_branch=other, else_branch=body("two", [
    node("Concat", "x x", "r", axis=0)], {}, {"r": (FLOAT, None)}))
pairs = body("pairs", [node("Reshape", "x halves", "s")], {}, {"s": (FLOAT, None)})
for n in (1, 2, 3, 6, 8, 12):
    x = f(n)
    y = -x if n < 3 else np.concatenate([x, x]) if n <= 6 else x.reshape(n // 2, 2)
    case("if within an if", [
        node("Greater", "n six", "c"), node("Less", "n three", "small"), node("Div", "n two", "h"),
        node("Unsqueeze", "h at", "h1"), node("Concat", "h1 pair", "halves", axis=0),
        helper.make_node("If", ["c"], ["y"], then_branch=pairs,
                         else_branch=body("else", [deep], {}, {"d": (FLOAT, None)}))],
        x, y, known={"six": scalar(6), "three": scalar(3), "two": scalar(2), "pair": i64(2)})

# As torch exports functional.interpolate: computed in floating point and rounded down.
for n in (0, 1, 2, 5, 8):
    for factor in (0.5, 1.5, 2.0, 1 / 3):
        x = f(n)
        k = int(np.floor(np.float32(n) * np.float32(factor)))
        case("first part, times %.2g" % factor, [
            node("Cast", "n", "a", to=FLOAT), node("Mul", "a factor", "b"), node("Floor", "b", "c"),
            node("Cast", "c", "k", to=INT64), node("Unsqueeze", "k at", "k1"), node("Slice", "x at k1 at", "y")],
            x, x[:k], known={"factor": scalar(factor, np.float32)})

step = body("step", [node("Identity", "going", "on"), node("ConstantOfShape", "n1", "zeros"),
                     node("Add", "zeros v", "w"), node("Add", "v one", "next")],
            {"i": (INT64, []), "going": (BOOL, []), "v": (FLOAT, [1])},
            {"on": (BOOL, []), "next": (FLOAT, [1]), "w": (FLOAT, None)}, {"one": np.ones(1, np.float32)})
for n in (0, 1, 2, 5):
    y = np.repeat(np.arange(n, dtype=np.float32)[:, None], n, 1)
    loop = helper.make_node("Loop", ["n", "", "start"], ["last", "y"], body=step)
    case("loop as often as the size", [loop], f(n), y, known={"start": np.zeros(1, np.float32)})

for n, m in ((1, 1), (1, 4), (3, 1), (2, 5)):
    x = f(n, m)
    case("padded to an even size", [
        node("Gather", "shape one", "m", axis=0), node("Add", "m one", "m1"), node("Mod", "m1 two", "odd"),
        node("Range", "zero n one", "count"), node("Unsqueeze", "odd at", "o1"),
        node("Concat", "zeros o1", "widths", axis=0), node("Pad", "x widths", "p"),
        node("Cast", "count", "c", to=FLOAT), node("Unsqueeze", "c one1", "c1"), node("Add", "p c1", "y")],
        x, np.pad(x, ((0, 0), (0, (m + 1) % 2))) + np.arange(n, dtype=np.float32)[:, None], known={
            "one": scalar(1), "two": scalar(2), "zeros": i64(0, 0, 0), "one1": i64(1)}, sizes={0: "N", 1: "M"})
