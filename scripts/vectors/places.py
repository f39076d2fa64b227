"""Gather and scatter operators."""
import numpy as np
import torch

from case import bools, f, i64, ints, op, scalar

x = f(3, 4, 2)
for index in (scalar(1), scalar(-1), i64(2, 0, 2), i64(0, 1, 2, 2).reshape(2, 2)):
    for known in ((), (1,)):
        op("Gather", [x, index], lambda v, i: np.take(v, i, 0), 13, known=known)
op("Gather", [x, np.array([[1, 3]], np.int32)], lambda v, i: np.take(v, i, 1), 11, axis=1)
op("Gather", [x, i64(-1, 0)], lambda v, i: np.take(v, i, 2), 1, axis=-1)
op("GatherElements", [f(3, 3), i64(1, 2, 0, 2, 0, -1).reshape(2, 3)], lambda v, i: np.take_along_axis(v, i % 3, 0), 13)
op("GatherElements", [f(2, 2), i64(0, 0, 1, 0).reshape(2, 2)], lambda v, i: np.take_along_axis(v, i, 1), 11, axis=1)
op("GatherND", [x, i64(0, 1, 2, 3).reshape(2, 2)], lambda v, i: np.stack([v[0, 1], v[2, 3]]), 11)
op("GatherND", [x, i64(2, 3, 1)], lambda v, i: v[2, 3, 1], 13)
op("GatherND", [x, i64(1, 0, 3).reshape(3, 1)], lambda v, i: np.stack([v[0, 1], v[1, 0], v[2, 3]]), 12, batch_dims=1)


def scattered(v, i, u, axis=0, how=None):
    t, i, u = torch.tensor(v), torch.tensor(i % v.shape[axis]), torch.tensor(u)
    return (t.scatter(axis, i, u) if how is None else t.scatter_reduce(axis, i, u, how)).numpy()


index = i64(1, 0, 2, 0, 2, -2).reshape(2, 3)
for name, opset in (("Scatter", 9), ("ScatterElements", 11), ("ScatterElements", 16)):
    op(name, [f(3, 3), index, f(2, 3)], scattered, opset)
    op(name, [f(1, 5), i64(1, 3).reshape(1, 2), f(1, 2)], lambda v, i, u: scattered(v, i, u, 1), opset, axis=1)
twice = i64(1, 1, 0).reshape(1, 3)
for how, ours, opset in (("add", "sum", 16), ("mul", "prod", 16), ("max", "amax", 18), ("min", "amin", 18)):
    op("ScatterElements", [f(1, 5), twice, f(1, 3)], lambda v, i, u, h=ours: scattered(v, i, u, 1, h), opset, axis=1, reduction=how)


def placed(v, i, u, fn):
    v = v.copy()
    for at in np.ndindex(*i.shape[:-1]):
        v[tuple(i[at])] = fn(v[tuple(i[at])], u[at])
    return v


points = i64(4, 3, 1, 7).reshape(4, 1)
for how, fn, opset in (("none", lambda a, b: b, 13), ("add", np.add, 16), ("mul", np.multiply, 16),
                       ("max", np.maximum, 18), ("min", np.minimum, 18)):
    attrs = {} if how == "none" else {"reduction": how}
    op("ScatterND", [f(8), points, f(4)], lambda v, i, u, fn=fn: placed(v, i, u, fn), opset, **attrs)
op("ScatterND", [f(4, 3, 2), i64(0, 2).reshape(2, 1), f(2, 3, 2)], lambda v, i, u: placed(v, i, u, lambda a, b: b), 11)

op("Compress", [f(3, 2), np.array([0, 1, 1], bool)], lambda v, c: v[1:], 9, axis=0)
op("Compress", [f(3, 2), np.array([0, 1], bool)], lambda v, c: v[:, 1:].copy(), 11, axis=1)
op("Compress", [f(3, 2), np.array([0, 1, 0, 0, 1], bool)], lambda v, c: v.ravel()[[1, 4]], 9)
for v in (bools(3, 4), ints(2, 3, low=-1, high=1), np.array([0, 1.5, 0, -2], np.float32)):
    op("NonZero", [v], lambda a: np.stack(np.nonzero(a)), 13)
many = np.array([2, 1, 1, 3, 4, 3], np.float32)
op("Unique", [many], lambda v: list(np.unique(v, True, True, True)), 11)
op("Unique", [many], [np.array([2, 1, 3, 4], np.float32), i64(0, 1, 3, 4), i64(0, 1, 1, 2, 3, 2), i64(1, 2, 2, 1)], 11, sorted=0)
rows = np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4]], np.float32)
op("Unique", [rows], lambda v: np.unique(v, axis=0), 11, axis=0)
op("Unique", [rows], lambda v: np.unique(v), 11)


def hot(i, d, values, axis=-1):
    at = np.where(i < 0, i + int(d), i)[..., None]
    y = np.where(at == np.arange(int(d)), values[1], values[0])
    return np.moveaxis(y, -1, axis)


for known in ((), (1, 2)):
    op("OneHot", [ints(2, 3, low=0, high=4), scalar(5), np.array([2, 7], np.float32)], hot, 11, known=known)
    op("OneHot", [ints(3, low=-4, high=3), scalar(4), i64(0, 1)], lambda i, d, v: hot(i, d, v, 0), 9, known=known, axis=0)
for known in ((), (1, 2)):
    op("OneHot", [i64(5, -6, -1), scalar(5, np.float32), np.array([1, 3], np.float32)],
       lambda i, d, v: hot(i, d, v, 1), 11, known=known, axis=1)
