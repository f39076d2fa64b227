"""Sequences, optionals, and control flow with conditions known at load time or only at run time."""
import numpy as np
from onnx import helper, numpy_helper

from case import BOOL, FLOAT, INT64, body, bools, f, graph, i64, node, scalar

x = f(2, 6)
zero, one, minus = scalar(0), scalar(1), scalar(-1)
yes, no = scalar(True, np.bool_), scalar(False, np.bool_)

graph("sequences", [
    node("SplitToSequence", "x", "s", axis=1, keepdims=0), node("SequenceAt", "s minus", "last"), node("SequenceErase", "s minus", "s1"),
    node("SequenceInsert", "s1 last zero", "s2"), node("SequenceLength", "s2", "n"), node("ConcatFromSequence", "s2", "y", axis=1, new_axis=1)],
    {"x": x}, {"y": np.roll(x, 1, 1), "n": scalar(6)}, 11, {"minus": minus, "zero": zero})
graph("sequences of parts", [
    node("SplitToSequence", "x sizes", "s", axis=1), node("SequenceAt", "s one", "b"), node("SequenceConstruct", "b x", "t"),
    node("ConcatFromSequence", "t", "y", axis=1), node("SequenceEmpty", "", "e", dtype=FLOAT), node("SequenceInsert", "e b", "e1"),
    node("SequenceLength", "e1", "n")],
    {"x": x}, {"y": np.concatenate([x[:, 2:], x], 1), "n": scalar(1)}, 17, {"sizes": i64(2, 4), "one": one})
graph("sequence map", [
    node("SplitToSequence", "x", "s", axis=0),
    helper.make_node("SequenceMap", ["s"], ["t"], body=body("b", [node("Neg", "v", "w")], {"v": (FLOAT, None)}, {"w": (FLOAT, None)})),
    node("ConcatFromSequence", "t", "y", axis=0)], {"x": x}, {"y": -x}, 17)
graph("optionals", [
    node("Optional", "x", "o"), node("OptionalHasElement", "o", "has"), node("OptionalGetElement", "o", "y")],
    {"x": x}, {"y": x, "has": yes}, 18)

then = body("then", [node("Add", "x one", "p")], {}, {"p": (FLOAT, None)}, {"one": scalar(1, np.float32)})
other = body("else", [node("Neg", "x", "q")], {}, {"q": (FLOAT, None)})
for name, flag, want in (("taken", yes, x + 1), ("not taken", no, -x)):
    choose = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    graph("if " + name, [choose], {"x": x, "c": flag}, {"y": want}, 13)
    graph("if known " + name, [choose], {"x": x}, {"y": want}, 16, {"c": flag})

# One branch keeps a dimension that the other drops, and later nodes depend on the rank.
drop = body("then", [node("Squeeze", "x at", "p")], {}, {"p": (FLOAT, None)}, {"at": i64(0)})
keep = body("else", [node("Identity", "x", "q")], {}, {"q": (FLOAT, None)})
row = f(1, 5)
for name, flag, want in (("dropped", yes, row[0]), ("kept", no, row)):
    graph("rank by branch, " + name, [
        helper.make_node("If", ["c"], ["z"], then_branch=drop, else_branch=keep), node("Transpose", "z", "t"), node("Shape", "t", "s"),
        node("ReduceSum", "t axis", "total", keepdims=0), node("Gather", "t zero", "first", axis=0)],
        {"x": row, "c": flag}, {"s": i64(*want.T.shape), "total": want.T.sum(-1), "first": want.T[0]}, 13, {"axis": i64(-1), "zero": zero})

# The branch that is not taken would convolve five dimensions with three.
w = f(4, 1, 3)
wave = f(1, 2, 16)[:, :1]
good = body("then", [node("Conv", "x w", "p", pads=[1, 1])], {}, {"p": (FLOAT, None)})
deep = body("inner", [node("Conv", "u w", "r", pads=[1, 1])], {}, {"r": (FLOAT, None)})
flat = body("else", [node("Identity", "x", "i")], {}, {"i": (FLOAT, None)})
bad = body("else", [node("Unsqueeze", "x ends", "u"), helper.make_node("If", ["d"], ["q"], then_branch=deep, else_branch=flat)], {},
           {"q": (FLOAT, None)}, {"ends": i64(0, 4)})
padded = np.pad(wave, ((0, 0), (0, 0), (1, 1)))
convolved = np.stack([sum(padded[0, 0, k:k + 16] * w[o, 0, k] for k in range(3)) for o in range(4)])[None]
for name, c, d, want in (("outer", yes, yes, convolved), ("inner", no, no, wave)):
    graph("branch that cannot be typed, " + name, [
        node("Equal", "rate high", "c"), helper.make_node("If", ["c"], ["z"], then_branch=good, else_branch=bad), node("Relu", "z", "y")],
        {"x": wave, "rate": scalar(16000 if c else 8000), "d": d}, {"y": np.maximum(want, 0)}, 13, {"w": w, "high": scalar(16000)})

double = body("body", [
    node("Add", "v v", "w"), node("ReduceSum", "w", "sum", keepdims=0), node("Less", "sum bound", "go"), node("Identity", "w", "seen")],
    {"i": (INT64, []), "c": (BOOL, []), "v": (FLOAT, [2])}, {"go": (BOOL, []), "w": (FLOAT, [2]), "seen": (FLOAT, [2])})
start = np.array([1, 2], np.float32)
for trips, bound, steps in ((3, 1000, 3), (10, 20, 3), (0, 1, 0)):
    seen = np.stack([start * 2 ** (k + 1) for k in range(steps)]) if steps else np.zeros((0, 2), np.float32)
    graph("loop %d %d" % (trips, bound), [helper.make_node("Loop", ["trips", "", "x"], ["last", "all"], body=double)],
          {"trips": scalar(trips), "x": start, "bound": scalar(bound, np.float32)}, {"last": start * 2 ** steps, "all": seen}, 13)
grow = body("body", [node("Concat", "v more", "w", axis=0), node("Identity", "c", "d")],
            {"i": (INT64, []), "c": (BOOL, []), "v": (FLOAT, [None])}, {"d": (BOOL, []), "w": (FLOAT, [None])}, {"more": f(1)})
more = numpy_helper.to_array(grow.initializer[0])
for name, known in (("", {}), (" of known length", {"trips": scalar(3)})):
    inputs = {"x": start, **({} if known else {"trips": scalar(3)})}
    graph("loop that grows" + name, [helper.make_node("Loop", ["trips", "", "x"], ["y"], body=grow)], inputs,
          {"y": np.concatenate([start] + [more] * 3)}, 11, known)

run = body("body", [node("Add", "s row", "t"), node("Identity", "t", "out")], {"s": (FLOAT, [2]), "row": (FLOAT, [2])},
           {"t": (FLOAT, [2]), "out": (FLOAT, [2])})
rows = f(4, 2)
for opens in (None, {"x": {0: "T"}}):
    graph("scan backwards" + (" of open length" if opens else ""), [
        helper.make_node("Scan", ["zero", "x"], ["sum", "sums"], body=run, num_scan_inputs=1, scan_input_directions=[1], scan_output_axes=[1])],
        {"zero": np.zeros(2, np.float32), "x": rows}, {"sum": rows.sum(0), "sums": np.cumsum(rows[::-1], 0).T}, 13, open_sizes=opens)
batch = f(3, 4, 2)
graph("scan of a batch", [helper.make_node("Scan", ["", "zero", "x"], ["sum", "sums"], body=run, num_scan_inputs=1)],
      {"zero": np.zeros((3, 2), np.float32), "x": batch}, {"sum": batch.sum(1), "sums": np.cumsum(batch, 1)}, 8)

# The post-processing of a detector: masks, indices, the best score of each, and the boxes at these indices.
scores = f(20, low=0, high=1)
boxes = f(20, 4, low=0, high=9)
keep = scores > 0.6
order = np.argsort(-scores[keep], kind="stable")[:5]
graph("places from a mask", [
    node("Greater", "scores least", "m"), node("NonZero", "m", "nz"), node("Transpose", "nz", "at", perm=[1, 0]), node("GatherND", "scores at", "s"),
    node("GatherND", "boxes at", "b"), node("Shape", "s", "n"), node("Min", "n five", "k"), node("TopK", "s k", "best order"),
    node("Gather", "b order", "picked", axis=0), node("Split", "picked", "a c", axis=1), node("Sub", "c a", "sizes"),
    node("ReduceProd", "sizes", "area", axes=[1], keepdims=0)],
    {"scores": scores, "boxes": boxes}, {"best": scores[keep][order], "picked": boxes[keep][order],
                                         "area": (boxes[keep][order][:, 2:] - boxes[keep][order][:, :2]).prod(1)},
    11, {"least": scalar(0.6, np.float32), "five": i64(5)})
few = np.zeros(20, np.float32)
graph("no places", [
    node("NonZero", "x", "nz"), node("Transpose", "nz", "at"), node("GatherND", "y at", "g"), node("ReduceSum", "g", "sum", keepdims=0),
    node("Concat", "g y", "all", axis=0)], {"x": few, "y": scores}, {"sum": scalar(0, np.float32), "all": scores}, 13)
mask = bools(3, 4)
table = f(3, 4, 2)
rows = table[mask].astype(np.float64)
spread = np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
graph("norm of what a mask leaves", [
    node("Compress", "flat m", "rows", axis=0), node("LayerNormalization", "rows w", "n", axis=-1), node("Shape", "n", "s"),
    node("Gather", "s one", "width", axis=0), node("Unsqueeze", "width at", "w1"), node("Concat", "minus w1", "shape", axis=0),
    node("Reshape", "n shape", "y")],
    {"flat": table.reshape(12, 2), "m": mask.ravel()}, {"y": ((rows - rows.mean(-1, keepdims=True)) / spread * [1, 2]).astype(np.float32)}, 17,
    {"w": np.array([1, 2], np.float32), "one": one, "at": i64(0), "minus": i64(-1)})
