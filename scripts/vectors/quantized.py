"""Quantized operators, computed with exact integers."""
import numpy as np

from case import f, ints, op, scalar


def quantize(x, s, z):
    info = np.iinfo(z.dtype)
    return np.clip(np.round(x / s) + z.astype(np.int64), info.min, info.max).astype(z.dtype)


x = f(2, 3, 4)
scale = np.float32(0.05)
for z in (np.uint8(100), np.int8(-3)):
    op("QuantizeLinear", [x, scale, z], quantize, 10)
    op("QuantizeLinear", [x, scale, z], quantize, 13, known=(1, 2))
op("QuantizeLinear", [np.abs(x), scale], lambda v, s: np.clip(np.round(v / s), 0, 255).astype(np.uint8), 13)
halves = np.array([0.25, 0.75, 1.25, 1.75, -0.25, 500, -500], np.float32)
op("QuantizeLinear", [halves, np.float32(0.5), np.int8(0)], np.array([0, 2, 2, 4, 0, 127, -128], np.int8), 13, name="ties and bounds")
op("QuantizeLinear", [x, np.array([0.05, 0.1, 0.2], np.float32), np.array([1, 2, 3], np.uint8)],
   lambda v, s, z: quantize(v, s.reshape(3, 1), z.reshape(3, 1)), 13)
for d in (np.uint8, np.int8):
    q = ints(2, 3, low=0, high=120, dtype=d)
    op("DequantizeLinear", [q, scale, d(7)], lambda v, s, z: ((v.astype(np.int32) - z) * s).astype(np.float32), 10)
q = ints(2, 3, 4, low=-99, high=99, dtype=np.int32)
op("DequantizeLinear", [q, scale], lambda v, s: (v * s).astype(np.float32), 13)
q = ints(2, 3, 4, low=-99, high=99, dtype=np.int8)
op("DequantizeLinear", [q, np.array([0.5, 2, 4], np.float32), np.array([1, 0, -2], np.int8)],
   lambda v, s, z: ((v.astype(np.int32) - z.reshape(3, 1)) * s.reshape(3, 1)).astype(np.float32), 13, known=(1, 2))


def dynamic(v):
    lo, hi = min(v.min(), np.float32(0)), max(v.max(), np.float32(0))
    s = np.float32((hi - lo) / np.float32(255))
    z = np.uint8(np.clip(np.round(-lo / s), 0, 255))
    return [quantize(v, s, z), s, z]


op("DynamicQuantizeLinear", [f(3, 4)], dynamic, 11)
op("DynamicQuantizeLinear", [f(3, 4, low=1, high=5)], dynamic, 11)
a, b = ints(3, 4, low=0, high=255, dtype=np.uint8), ints(4, 2, low=-128, high=127, dtype=np.int8)


def product(a, b, za=0, zb=0):
    return (a.astype(np.int32) - za) @ (b.astype(np.int32) - zb)


op("MatMulInteger", [a, b], product, 10)
op("MatMulInteger", [a, b, np.uint8(12), np.int8(3)], lambda a, b, p, q: product(a, b, np.int32(p), np.int32(q)), 10)
op("MatMulInteger", [a, b, np.uint8(12), np.array([3, -5], np.int8)], lambda a, b, p, q: product(a, b, np.int32(p), q.astype(np.int32)), 10)


def convolved(x, w, zx=0, zw=0, pad=0):
    x, w = np.pad(x.astype(np.int32) - int(zx), ((0, 0), (0, 0), (pad, pad), (pad, pad))), w.astype(np.int32) - int(zw)
    h, v = x.shape[2] - w.shape[2] + 1, x.shape[3] - w.shape[3] + 1
    out = np.zeros((x.shape[0], w.shape[0], h, v), np.int32)
    for i in range(w.shape[2]):
        for j in range(w.shape[3]):
            out += np.einsum("nchw,oc->nohw", x[:, :, i:i + h, j:j + v], w[:, :, i, j])
    return out


x, w = ints(1, 2, 5, 5, low=0, high=255, dtype=np.uint8), ints(3, 2, 3, 3, low=0, high=255, dtype=np.uint8)
op("ConvInteger", [x, w], convolved, 10)
op("ConvInteger", [x, w, np.uint8(9), np.uint8(4)], lambda x, w, p, q: convolved(x, w, p, q, 1), 10, pads=[1, 1, 1, 1])


def back(y, s, z):
    return np.clip(np.round(y * np.float64(s)) + int(z), np.iinfo(z.dtype).min, np.iinfo(z.dtype).max).astype(z.dtype)


sa, sb, sy = np.float32(0.0625), np.float32(0.03125), np.float32(0.5)
b8 = ints(4, 2, low=0, high=255, dtype=np.uint8)
op("QLinearMatMul", [a, sa, np.uint8(128), b8, sb, np.uint8(64), sy, np.uint8(110)],
   lambda a, p, za, b, q, zb, r, zy: back(product(a, b, 128, 64), np.float64(p) * q / r, zy), 10)
bias = ints(3, low=-900, high=900, dtype=np.int32)
for more, extra in (([], 0), ([bias], bias.reshape(3, 1, 1))):
    for known in ((), (3, 4, 5)):
        op("QLinearConv", [x, sa, np.uint8(128), w, sb, np.uint8(64), np.float32(2), np.uint8(110)] + more,
           back(convolved(x, w, 128, 64, 1) + extra, np.float64(sa) * sb / 2, np.uint8(110)), 10, known=known, pads=[1, 1, 1, 1])
q = ints(2, 3, low=-128, high=127, dtype=np.int8)
op("DequantizeLinear", [q, np.float32(0.5), np.int8(3)], ((q.astype(float) - 3) * 0.5).astype(np.float64), 23, output_dtype=11)
op("DequantizeLinear", [q, np.float32(0.5), np.int8(3)], ((q.astype(float) - 3) * 0.5).astype(np.float32), 24, output_dtype=0)
op("QuantizeLinear", [x, scale, np.int8(-3)], quantize(x.astype(float), float(scale), np.int8(-3)), 23, precision=11)
