"""Pooling, computed by PyTorch."""
import numpy as np
import torch
import torch.nn.functional as F

from case import f, i64, ints, op


def by(fn):
    return lambda *a: fn(*[torch.tensor(x).double() for x in a]).numpy().astype(a[0].dtype)


highest = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
mean = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
for rank, size in ((1, (9,)), (2, (7, 8)), (3, (5, 6, 4))):
    x = f(2, 3, *size)
    k, one = [2] * rank, [1] * rank
    op("MaxPool", [x], by(lambda x, r=rank: highest[r](x, 2)), 12, kernel_shape=k, strides=k)
    op("MaxPool", [x], by(lambda x, r=rank: highest[r](x, 3, 2, 1)), 8, kernel_shape=[3] * rank, strides=k, pads=one * 2)
    op("AveragePool", [x], by(lambda x, r=rank: mean[r](x, 2)), 11, kernel_shape=k, strides=k)
    op("AveragePool", [x], by(lambda x, r=rank: mean[r](x, 3, 2, 1, False, False)), 7, kernel_shape=[3] * rank, strides=k, pads=one * 2)
    op("AveragePool", [x], by(lambda x, r=rank: mean[r](x, 3, 2, 1)), 11, kernel_shape=[3] * rank, strides=k, pads=one * 2,
       count_include_pad=1)
    dims = tuple(range(2, 2 + rank))
    op("GlobalAveragePool", [x], lambda v, d=dims: v.mean(d, keepdims=True), 1)
    op("GlobalMaxPool", [x], lambda v, d=dims: v.max(d, keepdims=True), 1)
    op("GlobalLpPool", [x], lambda v, d=dims: np.sqrt((v * v).sum(d, keepdims=True)), 2)
    op("GlobalLpPool", [x], lambda v, d=dims: (np.abs(v) ** 3).sum(d, keepdims=True) ** np.float32(1 / 3), 2, p=3)
    op("LpPool", [x], by(lambda x, r=rank: mean[r](x * x, 2).mul(2 ** r).sqrt()), 11, kernel_shape=k, strides=k)
x = f(1, 2, 6, 6)
flat = np.arange(36).reshape(1, 1, 6, 6) + np.array([0, 36]).reshape(1, 2, 1, 1)


def with_places(v, columns=False):
    y, at = F.max_pool2d(torch.tensor(v), 2, return_indices=True)
    at = at.numpy()
    if columns:
        at = at // 6 + at % 6 * 6
    return [y.numpy(), at + np.array([0, 36]).reshape(1, 2, 1, 1)]


op("MaxPool", [x], with_places, 12, kernel_shape=[2, 2], strides=[2, 2])
op("MaxPool", [x], lambda v: with_places(v, True), 12, kernel_shape=[2, 2], strides=[2, 2], storage_order=1)
op("MaxPool", [f(1, 1, 7, 7)], by(lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True)), 10, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
op("MaxPool", [x], by(lambda x: F.max_pool2d(x, 2, 1, dilation=2)), 10, kernel_shape=[2, 2], dilations=[2, 2])
op("MaxPool", [x], by(lambda x: F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=-9), 2, 1)), 8, kernel_shape=[2, 2], auto_pad="SAME_UPPER")
op("MaxPool", [x], by(lambda x: F.max_pool2d(F.pad(x, (1, 0, 1, 0), value=-9), 2, 1)), 1, kernel_shape=[2, 2], auto_pad="SAME_LOWER")
op("MaxPool", [ints(1, 1, 4, 4, low=0, high=255, dtype=np.uint8)],
   lambda v: v.reshape(1, 1, 2, 2, 2, 2).max((3, 5)), 12, kernel_shape=[2, 2], strides=[2, 2])
op("AveragePool", [x], by(lambda x: F.avg_pool2d(x, 4, 3, ceil_mode=True, count_include_pad=False)), 10, kernel_shape=[4, 4], strides=[3, 3],
   ceil_mode=1)


def unpool(v, at, shape=(1, 2, 6, 6)):
    y = np.zeros(72, np.float32)
    y[at.ravel()] = v.ravel()
    y = y.reshape(1, 2, 6, 6)
    return np.pad(y, [(0, b - a) for a, b in zip(y.shape, shape)])


pooled, where = with_places(x)
op("MaxUnpool", [pooled, where], unpool, 9, kernel_shape=[2, 2], strides=[2, 2])
for known in ((), (2,)):
    op("MaxUnpool", [pooled, where, i64(1, 2, 7, 7)], lambda v, at, s: unpool(v, at, (1, 2, 7, 7)), 11, known=known,
       kernel_shape=[2, 2], strides=[2, 2])
rois = np.array([[0, 0, 0, 3, 3], [0, 2, 1, 5, 4]], np.float32)


def cells(v, rois):
    out = np.zeros((2, 2, 2, 2), np.float32)
    for r, (_, x0, y0, x1, y1) in enumerate(rois.astype(int)):
        h, w = (y1 - y0 + 1) // 2, (x1 - x0 + 1) // 2
        for i in range(2):
            for j in range(2):
                out[r, :, i, j] = v[0, :, y0 + i * h:y0 + (i + 1) * h, x0 + j * w:x0 + (j + 1) * w].max((1, 2))
    return out


op("MaxRoiPool", [x, rois], cells, 1, known=(1,), pooled_shape=[2, 2])
