"""Operators that move, repeat or create elements."""
import numpy as np
from onnx import numpy_helper

from case import f, graph, i64, ints, node, op, scalar

x = f(2, 3, 4)
op("Shape", [x], i64(2, 3, 4), 13)
op("Shape", [x], i64(3, 4), 15, start=1)
op("Shape", [x], i64(2, 3), 15, start=-3, end=-1)
op("Size", [x], scalar(24), 13)
op("Reshape", [x], lambda v: v.reshape(4, 6), 1, shape=[4, 6])
for known in ((), (1,)):
    op("Reshape", [x, i64(4, -1)], lambda v, s: v.reshape(4, 6), 5, known=known)
    op("Reshape", [x, i64(0, 0, 2, -1)], lambda v, s: v.reshape(2, 3, 2, 2), 14, known=known)
    op("Expand", [f(3, 1), i64(2, 1, 4)], lambda v, s: np.broadcast_to(v, (2, 3, 4)), 13, known=known)
    op("Tile", [f(2, 3), i64(2, 3)], np.tile, 13, known=known)
    op("Squeeze", [f(1, 3, 1), i64(0, -1)], lambda v, a: v.reshape(3), 13, known=known)
    op("Unsqueeze", [f(3, 4), i64(3, 0)], lambda v, a: v.reshape(1, 3, 4, 1), 13, known=known)
    op("Slice", [x, i64(1, 0), i64(3, 100), i64(1, 2), i64(1, 2)], lambda v, *_: v[:, 1:3, ::2].copy(), 13, known=known)
    op("Slice", [x, i64(-1), i64(-100), i64(2), i64(-2)], lambda v, *_: v[:, :, ::-2].copy(), 10, known=known)
    op("Split", [f(2, 6), i64(1, 3, 2)], lambda v, s: [v[:, :1].copy(), v[:, 1:4].copy(), v[:, 4:].copy()], 13,
       known=known, axis=1)
op("Reshape", [np.zeros((0, 3), np.float32), i64(3, 0)], lambda v, s: v.reshape(3, 0), 14, known=(1,), allowzero=1)
op("Expand", [f(2, 3), i64(1)], lambda v, s: v, 8, known=(1,))
op("Flatten", [x], lambda v: v.reshape(2, 12), 13)
op("Flatten", [x], lambda v: v.reshape(1, 24), 9, axis=0)
op("Flatten", [x], lambda v: v.reshape(6, 4), 13, axis=-1)
op("Squeeze", [f(1, 3, 1)], lambda v: v.reshape(3), 13)
op("Squeeze", [f(1, 3, 1)], lambda v: v.reshape(1, 3), 11, axes=[-1])
op("Unsqueeze", [f(3)], lambda v: v.reshape(1, 3, 1), 11, axes=[0, 2])
op("Transpose", [x], lambda v: v.transpose(), 13)
op("Transpose", [x], lambda v: v.transpose(1, 0, 2), 1, perm=[1, 0, 2])
op("Tile", [f(2, 3), i64(3), i64(1)], lambda v, *_: np.tile(v, (1, 3)), 1, known=(1, 2))
op("Concat", [f(2, 1), f(2, 3)], lambda *v: np.concatenate(v, 1), 13, axis=1)
op("Concat", [ints(2), ints(3), ints(1)], lambda *v: np.concatenate(v), 4, axis=0)
op("Concat", [f(2, 1), f(2, 3)], lambda *v: np.concatenate(v, 1), 1)
op("Split", [f(6)], lambda v: list(v.reshape(3, 2)), 11)
op("Split", [f(2, 5)], lambda v: [v[:, :2].copy(), v[:, 2:].copy()], 2, axis=1, split=[2, 3])
op("Split", [f(7)], lambda v: [v[:3], v[3:6], v[6:]], 18, num_outputs=3)
op("Slice", [x], lambda v: v[:, 1:, 0:2].copy(), 9, starts=[1, 0], ends=[9, -2], axes=[1, 2])
op("Slice", [x, i64(1), i64(2)], lambda v, *_: v[1:2], 11, known=(1, 2))
op("Pad", [f(2, 3)], lambda v: np.pad(v, ((0, 0), (1, 2))), 2, pads=[0, 1, 0, 2])
for known in ((), (1,)):
    op("Pad", [f(2, 3), i64(1, 0, 0, 2)], lambda v, p: np.pad(v, ((1, 0), (0, 2))), 11, known=known)
    for mode in ("reflect", "edge"):
        op("Pad", [f(2, 4), i64(0, 2, 1, 1)], lambda v, p: np.pad(v, ((0, 1), (2, 1)), mode=mode), 13, known=known, mode=mode)
    op("Pad", [f(3), i64(2, 1)], lambda v, p: np.pad(v, (2, 1), mode="wrap"), 19, known=known, mode="wrap")
op("Pad", [f(2, 3), i64(1, 1), scalar(5, np.float32), i64(-1)],
   lambda v, *_: np.pad(v, ((0, 0), (1, 1)), constant_values=5), 18, known=(1, 2, 3))
op("Pad", [f(2, 4), i64(0, -1, 0, -2)], lambda v, p: v[:, 1:2].copy(), 13, known=(1,))
op("Pad", [ints(3), i64(1, 0), scalar(9)], lambda v, *_: np.pad(v, (1, 0), constant_values=9), 13, known=(1, 2))
op("Pad", [f(3)], lambda v: np.pad(v, (1, 2)), 1, paddings=[1, 2])

const = np.arange(4, dtype=np.float32).reshape(2, 2)
for attrs, want in (({"value": numpy_helper.from_array(const)}, const), ({"value_float": 1.5}, scalar(1.5, np.float32)),
                    ({"value_int": -3}, scalar(-3)), ({"value_floats": [1.0, 2.0]}, np.array([1, 2], np.float32)),
                    ({"value_ints": [4, 5, 6]}, i64(4, 5, 6))):
    op("Constant", [], want, 13, **attrs)
op("ConstantOfShape", [i64(2, 3)], np.zeros((2, 3), np.float32), 9, known=(0,))
op("ConstantOfShape", [i64(3)], i64(7, 7, 7), 9, value=numpy_helper.from_array(i64(7)))
op("Range", [scalar(1), scalar(10), scalar(3)], i64(1, 4, 7), 11, known=(0, 1, 2))
op("Range", [scalar(5, np.float32), scalar(1, np.float32), scalar(-1.5, np.float32)],
   np.array([5, 3.5, 2], np.float32), 11)
op("EyeLike", [f(3, 4)], np.eye(3, 4, dtype=np.float32), 9)
op("EyeLike", [ints(3, 3)], np.eye(3, k=-1, dtype=np.float64), 9, k=-1, dtype=11)
for upper, fn in ((1, np.triu), (0, np.tril)):
    op("Trilu", [x], fn, 14, upper=upper)
    op("Trilu", [x, scalar(-1)], fn, 14, known=(1,), upper=upper)
    op("Trilu", [ints(3, 4), scalar(2)], fn, 14, upper=upper)

d = f(1, 8, 2, 3)
op("DepthToSpace", [d], lambda v: v.reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6), 11, blocksize=2)
op("DepthToSpace", [d], lambda v: v.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 6), 13,
   blocksize=2, mode="CRD")
op("SpaceToDepth", [f(1, 2, 4, 6)], lambda v: v.reshape(1, 2, 2, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 8, 2, 3), 13,
   blocksize=2)


def reversed_rows(v, lens):
    v = v.copy()
    for i, n in enumerate(lens):
        v[i, :n] = v[i, :n][::-1]
    return v


op("ReverseSequence", [f(3, 4), i64(4, 1, 3)], reversed_rows, 10, batch_axis=0, time_axis=1)
op("ReverseSequence", [f(4, 3), i64(4, 1, 3)], lambda v, n: reversed_rows(v.T, n).T, 10, known=(1,))
op("Crop", [f(1, 2, 5, 6)], lambda v: v[:, :, 2:4, 1:3].copy(), 6, border=[1, 2, 3, 1])
op("Crop", [f(1, 2, 5, 6)], lambda v: v[:, :, 2:4, 1:4].copy(), 6, border=[1, 2, 0, 0], scale=[2, 3])
op("CenterCropPad", [f(3, 5), i64(5, 2)], lambda v, s: np.pad(v, ((1, 1), (0, 0)))[:, 1:3].copy(), 18, known=(1,))
op("CenterCropPad", [f(3, 5), i64(3)], lambda v, s: v[:, 1:4].copy(), 18, known=(1,), axes=[-1])

# Shapes that the graph computes from symbolic sizes.
graph("view of open sizes", [
    node("Shape", "x", "s"), node("Gather", "s zero", "n", axis=0), node("Unsqueeze", "n at", "n1"),
    node("Concat", "n1 rest", "shape", axis=0), node("Reshape", "x shape", "y")],
    {"x": x}, {"y": x.reshape(2, 12)}, 13, {"zero": scalar(0), "at": i64(0), "rest": i64(-1)}, {"x": {0: "N", 1: "T"}})
