"""Reductions, cumulative sums, and maximum searches."""
import numpy as np

from case import f, i64, ints, op, scalar


def lse(x, axis, keepdims):
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


REDUCE = {"ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceMin": np.min, "ReduceProd": np.prod,
          "ReduceL1": lambda x, axis, keepdims: np.sum(np.abs(x), axis=axis, keepdims=keepdims),
          "ReduceL2": lambda x, axis, keepdims: np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims)),
          "ReduceLogSum": lambda x, axis, keepdims: np.log(np.sum(x, axis=axis, keepdims=keepdims)),
          "ReduceLogSumExp": lse, "ReduceSumSquare": lambda x, axis, keepdims: np.sum(x * x, axis=axis, keepdims=keepdims)}
for name, fn in REDUCE.items():
    x = f(2, 3, 4, low=0.2, high=2)
    wide = x.astype(np.float64)

    def want(axis, keep, fn=fn, wide=wide):
        return np.asarray(fn(wide, axis=axis, keepdims=keep)).astype(np.float32)
    old = 11 if name == "ReduceSum" else 13
    op(name, [x], want((0, 1, 2), True), old)
    op(name, [x], want((1,), True), old, axes=[1])
    op(name, [x], want((0, 2), False), old, axes=[0, -1], keepdims=0)
    op(name, [x, i64(-2)], want((1,), False), 18, known=(1,), keepdims=0)
    op(name, [x, i64(2, 0)], want((0, 2), True), 18, known=(1,))
    op(name, [x], want((0, 1, 2), False), 18, keepdims=0)
op("ReduceSum", [f(2, 3)], lambda x: x, 13, noop_with_empty_axes=1)
op("ReduceSum", [f(2, 3), i64(1)], lambda x, a: x.sum(1, keepdims=True), 13, name="computed axes")
op("ReduceSum", [ints(2, 5, dtype=np.int32)], lambda x: x.sum(1, dtype=np.int32, keepdims=True), 11, axes=[1])
op("ReduceMax", [ints(2, 5, dtype=np.uint8, low=0)], lambda x: x.max(1), 13, axes=[1], keepdims=0)
op("ReduceProd", [ints(2, 3)], lambda x: x.prod(0), 13, axes=[0], keepdims=0)
op("ReduceMean", [ints(2, 4) * 4], lambda x: x.sum(1) // 4, 13, axes=[1], keepdims=0)

x = f(3, 4)
tied = np.array([[1, 3, 3], [2, 2, 0]], np.float32)
for name, fn in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
    op(name, [x], lambda v: np.expand_dims(fn(v, 0), 0), 13)
    op(name, [x], lambda v: fn(v, 1), 11, axis=-1, keepdims=0)
    op(name, [tied], lambda v: 2 - fn(v[:, ::-1], 1), 12, axis=1, keepdims=0, select_last_index=1)
    op(name, [ints(9, dtype=np.int32)], lambda v: fn(v, 0), 13, keepdims=0)
for exclusive in (0, 1):
    for reverse in (0, 1):
        def sums(v, a):
            v = v[:, ::-1] if reverse else v
            y = np.cumsum(v, 1, dtype=v.dtype)
            y = y - v if exclusive else y
            return y[:, ::-1].copy() if reverse else y
        op("CumSum", [ints(2, 5), scalar(1)], sums, 11, known=(1,), exclusive=exclusive, reverse=reverse)
        op("CumSum", [ints(2, 5, dtype=np.int32), i64(-1)], sums, 14, exclusive=exclusive, reverse=reverse)


def top(v, k, axis, largest=True):
    order = np.argsort(-v if largest else v, axis, kind="stable")
    order = np.take(order, np.arange(k), axis)
    return [np.take_along_axis(v, order, axis), order.astype(np.int64)]


op("TopK", [x], lambda v: top(v, 2, 1), 9, k=2)
op("TopK", [x, i64(3)], lambda v, k: top(v, 3, 1), 10, known=(1,))
op("TopK", [x, i64(2)], lambda v, k: top(v, 2, 0, False), 11, axis=0, largest=0)
op("TopK", [f(2, 7), i64(1)], lambda v, k: top(v, 1, 1), 11, known=(1,))
op("LpNormalization", [x], lambda v: v / np.sqrt((v * v).sum(1, keepdims=True)), 1)
op("LpNormalization", [x], lambda v: v / np.abs(v).sum(0, keepdims=True), 1, axis=0, p=1)
zeros = np.float32([[3, 0, 1], [4, 0, 0]])
op("LpNormalization", [zeros], np.float32([[.6, 0, 1], [.8, 0, 0]]), 22, axis=0)
op("LpNormalization", [zeros.T], np.float32([[3 / 7, 4 / 7], [0, 0], [1, 0]]), 22, p=1)
for keep in (0, 1):
    op("ReduceProd", [f(2, 3, 4), i64(-1, 0)], lambda v, a: v.prod((0, 2), keepdims=bool(keep)), 18, keepdims=keep)
