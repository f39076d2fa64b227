"""Sequences in loops, with a length that is known only at run time."""
import numpy as np
from onnx import helper

from case import BOOL, FLOAT, INT64, body, f, graph, i64, node, scalar

zero, minus = scalar(0), scalar(-1)


def sequence(rank=None):
    shape = None if rank is None else [None] * rank
    return helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, shape))


def loop_body(nodes, carried, out, known=None):
    """A loop body; carried and out are (dtype, shape) or sequence types by name."""
    def plain(d):
        return {k: t for k, t in d.items() if isinstance(t, tuple)}
    g = body("body", nodes, {"i": (INT64, []), "c": (BOOL, []), **plain(carried)}, {"go": (BOOL, []), **plain(out)}, known)
    for infos, types in ((g.input, {"i": 0, "c": 0, **carried}), (g.output, {"go": 0, **out})):
        have = {v.name: v for v in infos}
        order = [have[k] if k in have else helper.make_value_info(k, types[k]) for k in types]
        copies = [type(v).FromString(v.SerializeToString()) for v in order]
        del infos[:]
        infos.extend(copies)
    return g


def loop(inputs, outputs, b):
    return helper.make_node("Loop", inputs.split(" "), outputs.split(), body=b)


keep = node("Identity", "c", "go")
empty = node("SequenceEmpty", "", "e", dtype=FLOAT)
x = f(2, 3)

# The usual export of a loop that appends to a list.
append = loop_body([keep, node("Add", "v v", "w"), node("SequenceInsert", "s w", "t")],
                   {"v": (FLOAT, [2, 3]), "s": sequence(2)}, {"w": (FLOAT, [2, 3]), "t": sequence(2)})
bare = loop_body([keep, node("Add", "v v", "w"), node("SequenceInsert", "s w", "t")],
                 {"v": (FLOAT, None), "s": sequence()}, {"w": (FLOAT, None), "t": sequence()})
for trips in (1, 4):
    steps = [x * 2 ** (k + 1) for k in range(trips)]
    for axis in range(3):
        graph("stacked %d along %d" % (trips, axis), [
            empty, loop("n  x e", "last all", append), node("ConcatFromSequence", "all", "y", axis=axis, new_axis=1),
            node("SequenceLength", "all", "count")], {"n": scalar(trips), "x": x}, {"y": np.stack(steps, axis), "count": scalar(trips)})
    for axis in range(2):
        graph("joined %d along %d" % (trips, axis), [
            empty, loop("n  x e", "last all", bare), node("ConcatFromSequence", "all", "y", axis=axis)],
            {"n": scalar(trips), "x": x}, {"y": np.concatenate(steps, axis)})
graph("no member", [empty, loop("n  x e", "last all", bare), node("SequenceLength", "all", "count")],
      {"n": scalar(0), "x": x}, {"count": scalar(0)})

# Sizes differ between iterations.
growing = loop_body([keep, node("Concat", "v v", "w", axis=1), node("SequenceInsert", "s w", "t")],
                    {"v": (FLOAT, [2, None]), "s": sequence(2)}, {"w": (FLOAT, [2, None]), "t": sequence(2)})
steps = [np.concatenate([x] * 2 ** (k + 1), 1) for k in range(3)]
graph("sizes that differ", [
    empty, loop("n  x e", "last all", growing), node("ConcatFromSequence", "all", "y", axis=1), node("SequenceAt", "all k", "at"),
    node("SequenceErase", "all k", "rest"), node("SequenceAt", "rest k", "behind"), node("SequenceInsert", "all x k", "more"),
    node("SequenceAt", "more k", "inserted"), node("SequenceAt", "more minus", "last_one"),
    node("SequenceErase", "more", "less"), node("SequenceLength", "less", "count")],
    {"n": scalar(3), "x": x, "k": scalar(1)},
    {"y": np.concatenate(steps, 1), "at": steps[1], "behind": steps[2], "inserted": x, "last_one": steps[2], "count": scalar(3)},
    known={"minus": minus})
front = loop_body([keep, node("Add", "v v", "w"), node("SequenceInsert", "s w zero", "t")],
                  {"v": (FLOAT, [2, 3]), "s": sequence()}, {"w": (FLOAT, [2, 3]), "t": sequence()}, {"zero": zero})
graph("inserted in front", [empty, loop("n  x e", "last all", front), node("ConcatFromSequence", "all", "y", axis=0)],
      {"n": scalar(3), "x": x}, {"y": np.concatenate([x * 8, x * 4, x * 2], 0)})
before = loop_body([keep, node("Add", "v v", "w"), node("SequenceInsert", "s w minus", "t")],
                   {"v": (FLOAT, [2, 3]), "s": sequence(2)}, {"w": (FLOAT, [2, 3]), "t": sequence(2)}, {"minus": minus})
graph("inserted before the last", [
    node("SequenceConstruct", "x", "e"), loop("n  x e", "last all", before), node("ConcatFromSequence", "all", "y", axis=0)],
    {"n": scalar(3), "x": x}, {"y": np.concatenate([x * 2, x * 4, x * 8, x], 0)})
numbers = loop_body([keep, node("ReduceSum", "v", "w", keepdims=0), node("SequenceInsert", "s w", "t"), node("Add", "v one", "u")],
                    {"v": (FLOAT, [2, 3]), "s": sequence()}, {"u": (FLOAT, [2, 3]), "t": sequence()}, {"one": scalar(1, np.float32)})
graph("members without dimensions", [empty, loop("n  x e", "last all", numbers), node("ConcatFromSequence", "all", "y", axis=0, new_axis=1)],
      {"n": scalar(3), "x": x}, {"y": np.stack([(x + k).sum() for k in range(3)]).astype(np.float32)})

# A queue: parts are removed from one list and appended to another.
queue = loop_body([
    node("SequenceAt", "s zero", "v"), node("SequenceErase", "s zero", "s1"), node("Neg", "v", "w"), node("SequenceInsert", "t w", "t1"),
    node("SequenceLength", "s1", "left"), node("Less", "zero left", "go")],
    {"s": sequence(2), "t": sequence(2)}, {"s1": sequence(2), "t1": sequence(2)}, {"zero": zero})
for opens in (None, {"x": {0: "N"}}):
    graph("a queue" + (" of open length" if opens else ""), [
        node("SplitToSequence", "x", "parts", axis=0), empty, loop(" true parts e", "none all", queue),
        node("ConcatFromSequence", "all", "y", axis=1), node("SequenceLength", "none", "count")],
        {"x": x}, {"y": np.concatenate([-x[:1], -x[1:]], 1), "count": scalar(0)}, 17, {"true": scalar(True, np.bool_)}, opens)
graph("split of open length", [
    node("SplitToSequence", "x", "parts", axis=1, keepdims=0), node("SequenceAt", "parts minus", "last"),
    node("ConcatFromSequence", "parts", "y", axis=0)],
    {"x": x}, {"last": x[:, 2], "y": x.T.reshape(-1)}, 17, {"minus": minus}, {"x": {1: "N"}})

# Nested loops append to one list, and read another of the enclosing graph.
inner = helper.make_graph([
    node("Identity", "c2", "go2"), node("SequenceAt", "given zero", "g"), node("Add", "v2 g", "w2"), node("SequenceInsert", "s2 w2", "t2")],
    "inner", [helper.make_tensor_value_info("j", INT64, []), helper.make_tensor_value_info("c2", BOOL, []),
              helper.make_tensor_value_info("v2", FLOAT, None), helper.make_value_info("s2", sequence())],
    [helper.make_tensor_value_info("go2", BOOL, []), helper.make_tensor_value_info("w2", FLOAT, None), helper.make_value_info("t2", sequence())])
nested = loop_body([keep, helper.make_node("Loop", ["m", "", "v", "s"], ["w", "t"], body=inner)],
                   {"v": (FLOAT, None), "s": sequence()}, {"w": (FLOAT, None), "t": sequence()})
graph("nested loops", [
    empty, node("SequenceInsert", "e x k", "given"), loop("n  x e", "last all", nested), node("ConcatFromSequence", "all", "y", axis=0)],
    {"n": scalar(2), "m": scalar(2), "x": x, "k": zero}, {"y": np.concatenate([x * 2, x * 3, x * 4, x * 5], 0)}, known={"zero": zero})

# Some iterations append.
yes = helper.make_graph([node("SequenceInsert", "s w", "more")], "yes", [], [helper.make_value_info("more", sequence(2))])
no = helper.make_graph([node("Identity", "s", "same")], "no", [], [helper.make_value_info("same", sequence(2))])
some = loop_body([keep, node("Add", "v v", "w"), node("Mod", "i two", "odd"), node("Cast", "odd", "is", to=BOOL),
                  helper.make_node("If", ["is"], ["t"], then_branch=yes, else_branch=no)],
                 {"v": (FLOAT, [2, 3]), "s": sequence(2)}, {"w": (FLOAT, [2, 3]), "t": sequence(2)}, {"two": scalar(2)})
graph("appended by branches", [empty, loop("n  x e", "last all", some), node("ConcatFromSequence", "all", "y", axis=0)],
      {"n": scalar(4), "x": x}, {"y": np.concatenate([x * 4, x * 16], 0)})
