"""Operators that sets 23 to 28 added, computed in float64 or element by element."""
import math

import numpy as np
from onnx import TensorProto

from case import f, i64, ints, op, scalar


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rms(x, w, axis=-1, epsilon=1e-5, **_):
    v = x.astype(float)
    v = v / np.sqrt((v * v).mean(tuple(range(axis % x.ndim, x.ndim)), keepdims=True) + epsilon)
    return (v.astype(x.dtype) * w).astype(w.dtype)


def rms_case(x, w, **attrs):
    op("RMSNormalization", [x, w], rms(x, w, **attrs), 23, **attrs)


rms_case(f(2, 3, 8), f(8))
rms_case(f(2, 3, 8), f(3, 8), axis=1, epsilon=0.01)
rms_case(f(2, 3, 8), f(8), axis=-2)
rms_case(f(4, 6), f(1))
rms_case(f(4, 6).astype(np.float64), f(6).astype(np.float64), axis=0, stash_type=1)
rms_case(f(4, 6).astype(np.float16), f(6))

for kind in (np.float32, np.float64, np.float16):
    for attrs in ({}, {"alpha": -1.5}):
        alpha = attrs.get("alpha", 1.0)
        op("Swish", [f(3, 5).astype(kind)], lambda x: (x * sigmoid(alpha * x.astype(float))).astype(x.dtype), 24, **attrs)
        op("SwiGLU", [f(3, 5).astype(kind), f(3, 5).astype(kind)],
           lambda a, b: (a * sigmoid(alpha * a.astype(float)) * b).astype(a.dtype), 28, **attrs)


def products(x, axis, exclusive=0, reverse=0):
    y = np.flip(x, axis) if reverse else x
    y = np.moveaxis(y, axis, 0)
    if exclusive:
        y = np.concatenate([np.ones_like(y[:1]), y[:-1]])
    y = np.moveaxis(np.cumprod(y, 0, dtype=x.dtype), 0, axis)
    return np.flip(y, axis) if reverse else y


for exclusive in (0, 1):
    for reverse in (0, 1):
        how = {k: v for k, v in (("exclusive", exclusive), ("reverse", reverse)) if v}
        op("CumProd", [f(2, 4, 3), scalar(1)], lambda x, a: products(x, 1, **how), 26, known=(1,), **how)
        op("CumProd", [ints(3, 4, low=-3, high=4), scalar(-2, np.int32)], lambda x, a: products(x, 0, **how), 26, **how)

for source, target, kind in ((f(3, 2), np.int32, TensorProto.INT32), (ints(4), np.float64, TensorProto.DOUBLE),
                             (ints(5, dtype=np.int16), np.float16, TensorProto.FLOAT16),
                             (ints(2, 3, dtype=np.int8), np.uint8, TensorProto.UINT8),
                             (ints(4, low=0, high=1, dtype=np.uint8), np.bool_, TensorProto.BOOL),
                             (np.array(1.5, np.float32), np.uint32, TensorProto.UINT32)):
    op("BitCast", [source], lambda x: x.view(target), 26, to=kind)


def scattered(cache, update, first=None, axis=-2, mode="linear"):
    y, axis = cache.copy(), axis % cache.ndim
    for at in np.ndindex(*update.shape):
        i = at[axis] + (0 if first is None else int(first[at[0]]))
        y[at[:axis] + (i % cache.shape[axis] if mode == "circular" else i,) + at[axis + 1:]] = update[at]
    return y


def scatter_case(*operands, **attrs):
    op("TensorScatter", list(operands), lambda *o: scattered(*o, **attrs), 24, **attrs)


scatter_case(f(2, 3, 6, 4), f(2, 3, 2, 4))
scatter_case(f(2, 3, 6, 4), f(2, 3, 2, 4), i64(1, 4))
scatter_case(f(2, 3, 6, 4), f(2, 3, 3, 4), i64(5, 2), mode="circular")
scatter_case(ints(3, 5), ints(3, 2), i64(0, 3, 1), axis=1)
scatter_case(ints(2, 5, 2, dtype=np.int8), ints(2, 5, 2, dtype=np.int8), i64(3, 0), axis=1, mode="circular")


def causal(x, w, bias=None, past=None, activation="none"):
    k = w.shape[2]
    v = np.concatenate([np.zeros((*x.shape[:2], k - 1), x.dtype) if past is None else past, x], 2)
    y = sum(w[:, 0, i, None].astype(float) * v[:, :, i:i + x.shape[2]] for i in range(k))
    y += 0 if bias is None else bias[:, None]
    return [(y if activation == "none" else y * sigmoid(y)).astype(x.dtype), v[:, :, x.shape[2]:]]


def causal_case(*operands, **attrs):
    op("CausalConvWithState", list(operands), causal(*operands, **attrs), 27, **attrs)


causal_case(f(2, 3, 7), f(3, 1, 4))
causal_case(f(2, 3, 7), f(3, 1, 4), f(3), activation="silu")
causal_case(f(2, 3, 1), f(3, 1, 4), f(3), f(2, 3, 3), activation="swish")
causal_case(f(2, 3, 2), f(3, 1, 4), None, f(2, 3, 3))
causal_case(f(2, 3, 5), f(3, 1, 1))


def linear(q, k, v, past=None, decay=None, beta=None, q_num_heads=1, kv_num_heads=1, scale=0.0, update_rule="gated_delta"):
    b, t, _ = q.shape
    heads = lambda x, n: x.astype(float).reshape(b, t, n, -1)  # noqa: E731
    q4, k4, v4 = heads(q, q_num_heads), heads(k, kv_num_heads), heads(v, kv_num_heads)
    state = np.zeros((b, kv_num_heads, k4.shape[3], v4.shape[3])) if past is None else past.astype(float)
    out = np.zeros((b, t, q_num_heads, v4.shape[3]))
    for i, n, h in np.ndindex(t, b, kv_num_heads):
        s, key, row = state[n, h], k4[n, i, h], v4[n, i, h]
        if decay is not None:
            s = s * np.exp(heads(decay, kv_num_heads)[n, i, h])[:, None]
        if beta is not None:
            row = beta[n, i, h % beta.shape[2]] * (row - key @ s)
        state[n, h] = s + np.outer(key, row)
        for g in range(q_num_heads // kv_num_heads):
            at = h * (q_num_heads // kv_num_heads) + g
            out[n, i, at] = (scale or 1 / math.sqrt(k4.shape[3])) * (q4[n, i, at] @ state[n, h])
    return [out.reshape(b, t, -1).astype(q.dtype), state.astype(q.dtype if past is None else past.dtype)]


def unit(*shape):
    return f(*shape, low=-0.5, high=0.5)


for t in (1, 3, 300):
    for rule in ("linear", "gated", "delta", "gated_delta") if t < 300 else ("gated_delta",):
        for grouped in (False, True):
            n, heads = (2, (4, 2)) if t < 300 else (1, (2, 1))
            hq, hk = heads if grouped else (heads[1], heads[1])
            operands = [unit(n, t, hq * 3), unit(n, t, hk * 3), unit(n, t, hk * 2), unit(n, hk, 3, 2) if grouped else None,
                        f(n, t, hk * (3 if grouped else 1), low=-1, high=-0.01) if "gated" in rule else None,
                        f(n, t, 1 if grouped else hk, low=0.1, high=0.9) if "delta" in rule else None]
            while operands[-1] is None:
                operands.pop()
            attrs = dict(q_num_heads=hq, kv_num_heads=hk, update_rule=rule)
            if grouped:
                attrs["scale"] = 0.5
            op("LinearAttention", operands, linear(*operands, **attrs), 27, **attrs)
