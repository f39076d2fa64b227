"""Random calls of operators of ONNX Runtime, computed in float64 from its specification (docs/ContribOperators.md).

OPERATORS has a function for each operator. It draws operands and attributes, and computes the results. The vectors of
microsoft.py are some of these calls; scripts/contrib compares more with ONNX Runtime.
"""
import math
import string

import numpy as np
from onnx import helper

DOMAIN = "com.microsoft"
OPERATORS = {}


class Call:
    """A node: its operands (None if omitted), its results in float64, and the operands that are initializers."""

    def __init__(self, operands, wants, known=(), domain=DOMAIN, runtime=True, magnitude=0.0, **attrs):
        self.operands, self.wants, self.known = operands, wants, tuple(known)
        self.magnitude = magnitude  # errors are relative to this number or to the largest element, if that is larger
        self.domain, self.runtime, self.attrs = domain, runtime, attrs  # runtime: the CPU kernels support the call


class Rounded:
    """A quantized result: the numbers before rounding, and the dtype."""

    def __init__(self, x, dtype):
        self.x, self.dtype = x, np.dtype(dtype)

    def value(self):
        i = np.iinfo(self.dtype)
        return np.clip(np.rint(self.x), i.min, i.max).astype(self.dtype)

    def near_tie(self):
        """Whether an element is so close to the middle of two integers that float32 may round it differently."""
        return bool(np.any(np.abs(np.abs(self.x - np.floor(self.x)) - 0.5) < 2e-3))


def operator(f):
    OPERATORS[f.__name__] = f
    return f


def floats(r, *shape, scale=1.0):
    return (scale * r.standard_normal(shape)).astype(np.float32)


def wide(x):
    return None if x is None else np.asarray(x, np.float64)


def sizes(r, least, most, low=1, high=7):
    return [int(n) for n in r.integers(low, high + 1, int(r.integers(least, most + 1)))]


def chance(r, p=0.5):
    return bool(r.random() < p)


def maybe(r, x, p=0.5):
    return x if chance(r, p) else None


def trimmed(operands):
    while operands and operands[-1] is None:
        operands = operands[:-1]
    return operands


_erf = np.vectorize(math.erf, otypes=[float])


def erf_gelu(x):
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def tanh_gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


# Activations.

@operator
def Gelu(r):
    x = floats(r, *sizes(r, 0, 4), scale=3)
    return Call([x], [erf_gelu(wide(x))], magnitude=np.abs(x).max())


@operator
def BiasGelu(r):
    x = floats(r, *sizes(r, 1, 4), scale=3)
    b = floats(r, x.shape[-1])
    return Call([x, b], [erf_gelu(wide(x) + wide(b))], magnitude=np.abs(x).max())


@operator
def FastGelu(r):
    x = floats(r, *sizes(r, 1, 4), scale=3)
    b = maybe(r, floats(r, x.shape[-1]))
    return Call(trimmed([x, b]), [tanh_gelu(wide(x) + (0 if b is None else wide(b)))],
                magnitude=np.abs(x).max())


@operator
def QuickGelu(r):
    x, alpha = floats(r, *sizes(r, 1, 4), scale=3), float(np.float32(r.uniform(-2, 3)))
    attrs = {"alpha": alpha} if chance(r) else {}
    return Call([x], [wide(x) * sigmoid(attrs.get("alpha", float(np.float32(1.702))) * wide(x))],
                magnitude=np.abs(x).max(), **attrs)


@operator
def BiasSplitGelu(r):
    n, s, d = sizes(r, 3, 3)
    x, b = floats(r, n, s, 2 * d), floats(r, 2 * d)
    left, right = np.split(wide(x) + wide(b), 2, -1)
    return Call([x, b], [left * erf_gelu(right)], runtime=False)


# Products.

@operator
def TransposeMatMul(r):
    return FusedMatMul(r, 0)


@operator
def FusedMatMul(r, moves=0.3):
    attrs = {k: int(chance(r)) for k in ("transA", "transB")}
    alpha = float(np.float32(r.uniform(-2, 2)))
    if chance(r):
        attrs["alpha"] = alpha
    m, k, n = sizes(r, 3, 3, 1, 9)
    batch = sizes(r, 0, 2, 1, 4)
    of = {}
    for name, rows, columns in (("A", m, k), ("B", k, n)):
        if attrs["trans" + name]:
            rows, columns = columns, rows
        shape = batch + [rows, columns]
        if batch and chance(r, moves):
            attrs["transBatch" + name] = 1
            shape = [rows] + batch + [columns]
        of[name] = floats(r, *shape)
    y = {}
    for name, x in of.items():
        w = wide(x)
        if attrs.get("transBatch" + name):
            w = np.moveaxis(w, 0, -2)
        y[name] = np.swapaxes(w, -1, -2) if attrs["trans" + name] else w
    known = [1] if chance(r) else []
    return Call([of["A"], of["B"]], [attrs.get("alpha", 1.0) * (y["A"] @ y["B"])], known, **attrs)


def transposed_pair(r, m, k, n, attrs):
    a, b = floats(r, m, k), floats(r, k, n)
    return (a.T.copy() if attrs["transA"] else a), (b.T.copy() if attrs["transB"] else b), wide(a) @ wide(b)


ACTIVATIONS = {
    "Silu": (lambda x, a, b: x * sigmoid(x), 0),
    "Relu": (lambda x, a, b: np.maximum(x, 0), 0), "Tanh": (lambda x, a, b: np.tanh(x), 0),
    "Sigmoid": (lambda x, a, b: sigmoid(x), 0), "LeakyRelu": (lambda x, a, b: np.where(x < 0, a * x, x), 1),
    "HardSigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), 2),
}


def activated(r, y, names=tuple(ACTIVATIONS)):
    """The name of an activation, its parameters, and the result."""
    name = str(r.choice(names))
    f, count = ACTIVATIONS[name]
    p = [float(np.float32(r.uniform(0.05, 0.6))) for _ in range(2)]
    return name, p[:count], f(y, *p)


@operator
def FusedGemm(r):
    m, k, n = sizes(r, 3, 3, 1, 9)
    attrs = {t: int(chance(r)) for t in ("transA", "transB")}
    attrs.update(alpha=float(np.float32(r.uniform(0.5, 2))), beta=float(np.float32(r.uniform(-2, 2))))
    a, b, y = transposed_pair(r, m, k, n, attrs)
    c = maybe(r, floats(r, *[[m, n], [n], [1, n], [m, 1]][int(r.integers(4))]), 0.8)
    y = attrs["alpha"] * y + (0 if c is None else attrs["beta"] * wide(c))
    attrs["activation"], p, y = activated(r, y, [k for k in ACTIVATIONS if k != "Silu"])
    attrs.update(zip(("activation_alpha", "activation_beta"), p))
    return Call(trimmed([a, b, c]), [y], [1] if chance(r) else [], **attrs)


def convolved(x, w, stride, pads, dilation, groups):
    """A convolution over two dimensions, element by element."""
    x = np.pad(wide(x), ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    o, c, kh, kw = w.shape
    oh = (x.shape[2] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (x.shape[3] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    y = np.zeros((x.shape[0], o, oh, ow))
    for g in range(groups):
        part, rows = x[:, g * c:(g + 1) * c], slice(g * o // groups, (g + 1) * o // groups)
        for i, j in np.ndindex(kh, kw):
            top, left = i * dilation[0], j * dilation[1]
            seen = part[:, :, top:top + (oh - 1) * stride[0] + 1:stride[0], left:left + (ow - 1) * stride[1] + 1:stride[1]]
            y[:, rows] += np.einsum("nchw,oc->nohw", seen, wide(w[rows, :, i, j]))
    return y


@operator
def FusedConv(r):
    n, c, o = sizes(r, 3, 3, 1, 4)
    groups = int(r.choice([1, 2]))
    kernel, stride, dilation = ([int(v) for v in r.integers(1, 4 - (i > 0), 2)] for i in range(3))
    pads = [int(v) for v in r.integers(0, 2, 4)]
    h, w = (int(r.integers(7, 12)) for _ in range(2))
    x, f = floats(r, n, groups * c, h, w), floats(r, groups * o, c, *kernel)
    y = convolved(x, f, stride, pads, dilation, groups)
    bias = maybe(r, floats(r, groups * o), 0.7)
    z = maybe(r, floats(r, *y.shape)) if bias is not None else None
    y += 0 if bias is None else wide(bias).reshape(-1, 1, 1)
    y += 0 if z is None else wide(z)
    attrs = dict(kernel_shape=kernel, strides=stride, dilations=dilation, pads=pads, group=groups)
    if chance(r, 0.8):
        attrs["activation"], p, y = activated(r, y)
        if p:
            attrs["activation_params"] = p
    if chance(r, 0.2):
        attrs["activation"], attrs["activation_params"] = "Clip", [-1.0, 0.75]
        y = convolved(x, f, stride, pads, dilation, groups)
        y = np.clip(y + (0 if bias is None else wide(bias).reshape(-1, 1, 1)) + (0 if z is None else wide(z)), -1, 0.75)
    runtime = attrs.get("activation") != "Silu"  # ONNX Runtime 1.30 lacks it
    return Call(trimmed([x, f, bias, z]), [y], [1], runtime=runtime, **attrs)


# Normalizations.

def layer_norm(x, w, b, eps):
    y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * wide(w)
    return y if b is None else y + wide(b)


def rms_norm(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * wide(w)


def epsilon(r, default):
    """The attribute epsilon, and its value."""
    eps = float(np.float32(10 ** r.uniform(-6, -2)))
    return ({"epsilon": eps}, eps) if chance(r, 0.8) else ({}, default)


def skips(r, simplified):
    b, s, h = *sizes(r, 2, 2, 1, 5), int(r.integers(2, 40))
    x = floats(r, b, s, h)
    skip = floats(r, *[[b, s, h], [1, s, h], [s, h]][int(r.integers(3))])
    gamma, beta, bias = floats(r, h), maybe(r, floats(r, h)), maybe(r, floats(r, h))
    attrs, eps = epsilon(r, 1e-12)
    total = wide(x) + wide(skip) + (0 if bias is None else wide(bias))
    if simplified:
        operands, y = [x, skip, gamma, bias], rms_norm(total, gamma, eps)
    else:
        operands, y = [x, skip, gamma, beta, bias], layer_norm(total, gamma, beta, eps)
    return Call(trimmed(operands), [y, None, None, total] if chance(r) else [y], [2] if chance(r) else [], **attrs)


@operator
def SkipLayerNormalization(r):
    return skips(r, False)


@operator
def SkipSimplifiedLayerNormalization(r):
    return skips(r, True)


@operator
def SimplifiedLayerNormalization(r):
    x = floats(r, *sizes(r, 1, 3, 2, 9))
    w = floats(r, x.shape[-1])
    attrs, eps = epsilon(r, float(np.float32(1e-5)))
    wants = [rms_norm(wide(x), w, eps)]
    if chance(r):
        wants.append(1 / np.sqrt((wide(x) ** 2).mean(-1, keepdims=True) + eps))
    return Call([x, w], wants, domain="", axis=-1, **attrs)


@operator
def EmbedLayerNormalization(r):
    b, s, h = *sizes(r, 2, 2, 1, 6), int(r.integers(2, 24))
    words, places, kinds = floats(r, 9, h), floats(r, s + 2, h), floats(r, 2, h)
    ids = r.integers(0, 9, (b, s)).astype(np.int32)
    segments = maybe(r, r.integers(0, 2, (b, s)).astype(np.int32), 0.7)
    gamma, beta = floats(r, h), floats(r, h)
    mask = maybe(r, np.array([[j < n for j in range(s)] for n in r.integers(0, s + 1, b)], np.int32))
    positions = maybe(r, r.integers(0, s + 2, (b if chance(r) else 1, s)).astype(np.int32))
    attrs, eps = epsilon(r, 1e-12)
    total = wide(words)[ids] + wide(places)[np.arange(s)[None] if positions is None else positions]
    if segments is not None:
        total = total + wide(kinds)[segments]
    wants = [layer_norm(total, gamma, beta, eps), np.zeros(b, np.int32) if mask is None else mask.sum(1, dtype=np.int32)]
    if chance(r):
        wants.append(total)
    table = None if segments is None else kinds
    operands = trimmed([ids, segments, words, places, table, gamma, beta, mask, positions])
    return Call(operands, wants, [i for i in (2, 3, 4, 5, 6) if operands[i] is not None] if chance(r) else [], **attrs)


@operator
def QEmbedLayerNormalization(r):
    call = EmbedLayerNormalization(r)
    ids, segments, *tables = call.operands[:7]
    dtype = np.uint8 if chance(r) else np.int8
    tables = [quantized(r, *t.shape, dtype=dtype) if t is not None else (None, None, None) for t in tables]
    words, places, kinds, gamma, beta = (real(*t) if t[0] is not None else None for t in tables)
    total = words[ids] + places[np.arange(ids.shape[1])][None]
    if segments is not None:
        total = total + kinds[segments]
    mask = call.operands[7] if len(call.operands) > 7 else None
    levels, scales, zeros = zip(*tables)
    operands = [ids, segments, *levels, mask, *scales, *zeros]
    known = [i for i, x in enumerate(operands) if x is not None and i not in (0, 1, 7)]
    return Call(operands, [layer_norm(total, gamma, beta, call.attrs.get("epsilon", 1e-12)), call.wants[1]], known, **call.attrs)


@operator
def GroupNorm(r):
    n, h, w, groups, c = sizes(r, 5, 5, 1, 5)
    c, last = groups * c, chance(r, 0.7)
    x, gamma, beta = floats(r, n, c, h, w), floats(r, c), floats(r, c)
    attrs, eps = epsilon(r, float(np.float32(1e-5)))
    part = wide(x).reshape(n, groups, -1)
    y = (part - part.mean(-1, keepdims=True)) / np.sqrt(part.var(-1, keepdims=True) + eps)
    y = y.reshape(x.shape) * wide(gamma).reshape(-1, 1, 1) + wide(beta).reshape(-1, 1, 1)
    attrs.update(groups=groups, activation=int(chance(r)))
    y = y * sigmoid(y) if attrs["activation"] else y
    if last:
        x, y = x.transpose(0, 2, 3, 1).copy(), y.transpose(0, 2, 3, 1)
    else:
        attrs["channels_last"] = 0
    return Call([x, gamma, beta], [y], runtime=False, **attrs)


# Attention.

@operator
def RotaryEmbedding(r):
    b, s, n = sizes(r, 3, 3, 1, 5)
    e = 2 * int(r.integers(1, 9))
    rotated = 2 * int(r.integers(1, e // 2 + 1)) if chance(r, 0.4) else 0
    half, most = (rotated or e) // 2, s + 3
    x = floats(r, b, n, s, e)
    cos, sin = (floats(r, most, half) for _ in range(2))
    ids = r.integers(0, most, (b, s)) if chance(r) else r.integers(0, 4, 1)
    attrs = {"interleaved": int(chance(r))}
    if rotated:
        attrs["rotary_embedding_dim"] = rotated
    at = ids if ids.ndim == 2 else np.broadcast_to(ids[0] + np.arange(s), (b, s))
    c, d = wide(cos)[at][:, None], wide(sin)[at][:, None]
    y = wide(x).copy()
    u, v = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if attrs["interleaved"] else (slice(0, half), slice(half, 2 * half))
    y[..., u], y[..., v] = c * wide(x)[..., u] - d * wide(x)[..., v], d * wide(x)[..., u] + c * wide(x)[..., v]
    if chance(r):
        x, y = (t.transpose(0, 2, 1, 3).reshape(b, s, n * e) for t in (x, y))
        if rotated or chance(r, 0.3):
            attrs["num_heads"] = n
    elif rotated:
        attrs["num_heads"] = n
    return Call([np.ascontiguousarray(x), ids.astype(np.int64), cos, sin], [y], [2, 3] if chance(r) else [], **attrs)


def heads(x, n):
    b, s, e = x.shape
    return x.reshape(b, s, n, e // n).transpose(0, 2, 1, 3)


def attend(q, k, v, scale, added, causal, past):
    """Scores before softmax and the result, of queries [b, n, s, e]."""
    scores = q @ k.swapaxes(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1])) + added
    s, t = scores.shape[-2:]
    if causal and s > 1:
        scores = np.where(np.arange(t) > np.arange(s)[:, None] + past, -np.inf, scores)
    y = softmax(scores) @ v
    b, n, s, e = y.shape
    return scores, y.transpose(0, 2, 1, 3).reshape(b, s, n * e)


def masks(r, b, s, t, vectors=True):
    """A mask and the numbers that it adds; each query sees a key."""
    kind, filtered = str(r.choice(["ends", "ranges", "keys", "pairs"] if vectors else ["keys", "pairs"])), -10000.0
    if kind in ("ends", "ranges"):
        ends = r.integers(1, t + 1, b)
        starts = np.array([r.integers(0, e) for e in ends]) if kind == "ranges" else np.zeros(b, int)
        keep = (np.arange(t) < ends[:, None]) & (np.arange(t) >= starts[:, None])
        mask = np.concatenate([ends, starts]) if kind == "ranges" else ends
        return mask.astype(np.int32), np.where(keep, 0, filtered)[:, None, None]
    shape = (b, t) if kind == "keys" else (b, s, t)
    keep = r.random(shape) < 0.7
    keep[..., 0] = True
    return keep.astype(np.int32), np.where(keep, 0, filtered)[:, None, None] if kind == "keys" else \
        np.where(keep, 0, filtered)[:, None]


def score_attrs(r, causal):
    attrs = {"unidirectional": 1} if causal else {}
    if chance(r, 0.3):
        attrs["scale"] = float(np.float32(r.uniform(0.1, 1)))
    return attrs


def score_bias(r, b, n, s, t):
    return maybe(r, floats(r, *[[b, n, s, t], [1, n, s, t], [b, 1, s, t], [1, 1, s, t]][int(r.integers(4))]), 0.4)


def projected(r, columns, sizes_of, n, bias_of):
    """Attention of queries, keys and values in columns: operands mask, past and bias, results, and attributes."""
    b, s, _ = columns.shape
    q, k, v = (heads(p, n) for p in np.split(columns, np.cumsum(sizes_of)[:-1], -1))
    past = None
    if sizes_of[0] == sizes_of[2] and chance(r, 0.4):
        past = floats(r, 2, b, n, int(r.integers(1, 5)), k.shape[-1])
        k, v = np.concatenate([wide(past[0]), k], 2), np.concatenate([wide(past[1]), v], 2)
    t, causal = k.shape[2], chance(r, 0.4)
    mask, added = masks(r, b, s, t) if chance(r, 0.6) else (None, 0.0)
    attrs = {"num_heads": n, **score_attrs(r, causal)}
    bias = score_bias(r, b, n, s, t) if bias_of and past is None else None
    before = 0 if past is None else past.shape[3]
    if causal and mask is not None and mask.ndim == 1 and mask.size == 2 * b:
        mask, added = None, 0.0  # a query could see no key
    _, y = attend(q, k, v, attrs.get("scale"), added + (0 if bias is None else wide(bias)), causal, before)
    wants = [y] if past is None and chance(r) or sizes_of[0] != sizes_of[2] else [y, np.stack([k, v])]
    return mask, past, bias, wants, attrs


@operator
def Attention(r):
    b, s, n, e = sizes(r, 4, 4, 1, 5)
    d = int(r.integers(1, 12))
    hidden = [n * e, n * e, n * int(r.integers(1, 6)) if chance(r, 0.3) else n * e]
    x, w = floats(r, b, s, d), floats(r, d, sum(hidden))
    bias = maybe(r, floats(r, sum(hidden)), 0.8)
    columns = wide(x) @ wide(w) + (0 if bias is None else wide(bias))
    mask, past, added, wants, attrs = projected(r, columns, hidden, n, True)
    if hidden[2] != hidden[0] or chance(r, 0.2):
        attrs["qkv_hidden_sizes"] = hidden
    known = [1] if chance(r) else []
    runtime = bias is not None  # ONNX Runtime 1.30 ends without a message
    return Call(trimmed([x, w, bias, mask, past, added]), wants, known, runtime=runtime, **attrs)


@operator
def MultiHeadAttention(r):
    b, s, n, e = sizes(r, 4, 4, 1, 5)
    cross = chance(r)
    length = int(r.integers(1, 7)) if cross else s
    last = int(r.integers(1, 6)) if chance(r, 0.3) else e
    q, k, v = floats(r, b, s, n * e), floats(r, b, length, n * e), floats(r, b, length, n * last)
    bias = maybe(r, floats(r, n * (2 * e + last)), 0.4)
    parts = [wide(t) for t in (q, k, v)]
    if bias is not None:
        parts = [p + c for p, c in zip(parts, np.split(wide(bias), [n * e, 2 * n * e]))]
    q1, k1, v1 = (heads(p, n) for p in parts)
    keys = values = None
    before = 0
    if last == e and chance(r, 0.4):
        before = int(r.integers(1, 5))
        keys, values = floats(r, b, n, before, e), floats(r, b, n, before, last)
        k1, v1 = np.concatenate([wide(keys), k1], 2), np.concatenate([wide(values), v1], 2)
    elif bias is None and last == e and chance(r, 0.2):
        k, v = (np.ascontiguousarray(heads(t, n)) for t in (k, v))
    causal = not cross and chance(r, 0.4)
    mask, added = masks(r, b, s, before + length, False) if chance(r, 0.5) else (None, 0.0)
    attrs = {"num_heads": n, **score_attrs(r, causal)}
    extra = score_bias(r, b, n, s, before + length)
    scores, y = attend(q1, k1, v1, attrs.get("scale"), added + (0 if extra is None else wide(extra)), causal, before)
    wants, used = [y, k1, v1] if keys is not None or chance(r, 0.3) else [y], None
    if keys is not None and chance(r):
        used, room = np.array([before], np.int32), int(r.integers(0, 4))
        (keys, wants[1]), (values, wants[2]) = roomy(keys, k1, room, r), roomy(values, v1, room, r)
    if len(wants) == 3 and not causal and chance(r, 0.3):
        wants.append(scores)
    # The CPU kernel of ONNX Runtime 1.30 reads uninitialized memory unless past and present are one buffer.
    return Call(trimmed([q, k, v, bias, mask, extra, keys, values, used]), wants, runtime=used is None, **attrs)


def roomy(past, present, room, r):
    """A cache with room for the new positions and more, before and after the run."""
    b, n, before, e = past.shape
    cache = floats(r, b, n, present.shape[2] + room, e)
    cache[:, :, :before] = past
    after = wide(cache)
    after[:, :, :present.shape[2]] = present
    return cache, after


@operator
def DecoderMaskedMultiHeadAttention(r):
    width, n, e = int(r.integers(1, 4)), int(r.integers(1, 4)), 8 * int(r.integers(1, 3))
    b = width * int(r.integers(1, 3))
    q = floats(r, b, 1, n * e)
    attrs = {"num_heads": n, **score_attrs(r, False)}
    bias = maybe(r, floats(r, 3 * n * e), 0.4)
    if chance(r, 0.3):  # cross attention
        t = int(r.integers(1, 7))
        k, v = floats(r, b, n, t, e), floats(r, b, n, t, e)
        mask, added = padding(r, b, t)
        _, y = attend(wide(heads(q, n)), wide(k), wide(v), attrs.get("scale"), added, False, 0)
        return Call(trimmed([q, k, v, mask]), [y], **attrs)
    k, v = floats(r, b, 1, n * e), floats(r, b, 1, n * e)
    parts = [wide(x) for x in (q, k, v)]
    if bias is not None:
        parts = [p + c for p, c in zip(parts, np.split(wide(bias), 3))]
    q1, k1, v1 = (heads(p, n) for p in parts)
    before = int(r.integers(1, 6))
    t = before + 1
    pasts, beams, used = [floats(r, b, n, before, e) for _ in range(2)], None, None
    k2, v2 = (np.concatenate([wide(p), x], 2) for p, x in zip(pasts, (k1, v1)))
    caches, presents = pasts, [k2, v2]
    if chance(r, 0.8):
        attrs["past_present_share_buffer"], used = 1, np.array([before], np.int32)
        room = int(r.integers(0, 4))
        caches, presents = zip(*(roomy(p, x, room, r) for p, x in zip(pasts, presents)))
        if width > 1 and chance(r, 0.3):
            beams = r.integers(0, width, (b // width, width, t + room)).astype(np.int32)
            rows = np.arange(b)[:, None] // width * width + beams.reshape(b, -1)
            k2, v2 = (np.stack([np.stack([p[rows[i, j], :, j] if j < before else p[i, :, j] for j in range(t)], 1)
                                for i in range(b)]) for p in presents)
    mask, added = padding(r, b, t)
    extra = maybe(r, floats(r, b if chance(r) else 1, n, 1, t), 0.4)
    scores, y = attend(q1, k2, v2, attrs.get("scale"), added + (0 if extra is None else wide(extra)), False, 0)
    wants = [y, *presents]
    if chance(r, 0.3):
        attrs["output_qk"] = 1
        wants.append(scores)
    if chance(r, 0.3):
        q, k, v = np.concatenate([q, k, v], -1), None, None
    lone = np.array([width], np.int32) if beams is not None else None
    return Call(trimmed([q, k, v, mask, extra, *caches, used, lone, beams, bias]), wants,
                runtime=used is not None and beams is None and k is not None, **attrs)


def padding(r, b, t):
    """A mask of keys, or none, and the numbers that it adds; each query sees a key."""
    if chance(r):
        return None, 0.0
    keep = r.random((b, t)) < 0.7
    keep[..., 0] = True
    return keep.astype(np.int32), np.where(keep, 0, -10000.0)[:, None, None]


# Quantized operators.

def quantized(r, *shape, dtype=None):
    """Bytes, their scale and their zero point."""
    dtype = dtype or (np.uint8 if chance(r) else np.int8)
    i = np.iinfo(dtype)
    q = r.integers(i.min, i.max + 1, shape).astype(dtype)
    zero = np.array(r.integers(i.min, i.max + 1) if dtype == np.uint8 else r.integers(-20, 21), dtype)
    return q, np.float32(r.uniform(0.005, 0.1)), zero


def real(q, scale, zero):
    return (wide(q) - (0 if zero is None else wide(zero))) * wide(scale)


def result(r, y, dtype):
    """The scale and the zero point of a quantized result, and the result."""
    i = np.iinfo(dtype)
    spread = float(np.abs(y).max()) if y.size else 1.0
    scale = np.float32(max(spread, 1e-3) / r.uniform(60, 160))
    zero = np.array(r.integers(80, 170) if dtype == np.uint8 else r.integers(-30, 31), dtype)
    return scale, zero, Rounded(y / float(scale) + int(zero), dtype)


def quantized_binary(r, f):
    shape = sizes(r, 1, 4)
    other = [n if chance(r, 0.7) else 1 for n in shape][int(r.integers(0, len(shape))) if chance(r, 0.3) else 0:]
    dtype = np.uint8 if chance(r) else np.int8
    a, b = quantized(r, *shape, dtype=dtype), quantized(r, *other, dtype=dtype)
    scale, zero, y = result(r, f(real(*a), real(*b)), dtype)
    return Call([*a, *b, scale, zero], [y], [1, 2, 4, 5, 6, 7])


@operator
def QLinearAdd(r):
    return quantized_binary(r, np.add)


@operator
def QLinearMul(r):
    return quantized_binary(r, np.multiply)


@operator
def QLinearWhere(r):
    call = quantized_binary(r, np.add)
    a, b = call.operands[:3], call.operands[3:6]
    where = r.integers(0, 2, a[0].shape).astype(bool)
    scale, zero, y = result(r, np.where(where, real(*a), real(*b)), a[0].dtype)
    return Call([where, *a, *b, scale, zero], [y], [2, 3, 5, 6, 7, 8])


def quantized_unary(r, x, f, zeros=True, **attrs):
    scale, zero, y = result(r, f(real(*x)), x[0].dtype)
    return Call([*x, scale, zero], [y], [1, 2, 3, 4], **attrs)


@operator
def QLinearSigmoid(r):
    return quantized_unary(r, quantized(r, *sizes(r, 1, 4)), sigmoid)


@operator
def QLinearLeakyRelu(r):
    alpha = float(np.float32(r.uniform(0.01, 0.6)))
    return quantized_unary(r, quantized(r, *sizes(r, 1, 4)), lambda x: np.where(x < 0, alpha * x, x), alpha=alpha)


@operator
def QLinearSoftmax(r):
    x = quantized(r, *sizes(r, 1, 4, 2, 6))
    opset, axis = int(r.choice([12, 13])), int(r.integers(-x[0].ndim, x[0].ndim))

    def f(v):
        if opset >= 13:
            return softmax(v, axis)
        return softmax(v.reshape(math.prod(v.shape[:axis % v.ndim]), -1)).reshape(v.shape)
    zero = np.array(0 if x[0].dtype == np.uint8 else -128, x[0].dtype)
    return Call([*x, np.float32(1 / 256), zero], [Rounded(f(real(*x)) * 256 + int(zero), x[0].dtype)], [1, 2, 3, 4],
                opset=opset, axis=axis)


def averages(x, kernel, stride, pads, include):
    y = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    ones = np.pad(np.ones(x.shape[2:]), ((pads[0], pads[2]), (pads[1], pads[3])), constant_values=float(include))
    oh, ow = ((y.shape[2 + i] - kernel[i]) // stride[i] + 1 for i in range(2))
    out = np.zeros((*x.shape[:2], oh, ow))
    for i, j in np.ndindex(oh, ow):
        at = slice(i * stride[0], i * stride[0] + kernel[0]), slice(j * stride[1], j * stride[1] + kernel[1])
        out[:, :, i, j] = y[(slice(None), slice(None), *at)].sum((2, 3)) / ones[at].sum()
    return out


def last_channels(r, x, y):
    """Moves the channels to the end in half of the calls."""
    if not chance(r):
        return x, y, 0
    return (x[0].transpose(0, 2, 3, 1).copy(), *x[1:]), Rounded(y.x.transpose(0, 2, 3, 1), y.dtype), 1


@operator
def QLinearAveragePool(r):
    x = quantized(r, *sizes(r, 2, 2, 1, 4), *(int(n) for n in r.integers(4, 9, 2)))
    kernel, stride = ([int(n) for n in r.integers(1, 4, 2)] for _ in range(2))
    pads, include = [int(r.integers(0, kernel[i % 2])) for i in range(4)], int(chance(r))
    scale, zero, y = result(r, averages(real(*x), kernel, stride, pads, include), x[0].dtype)
    x, y, last = last_channels(r, x, y)
    return Call([*x, scale, zero], [y], [1, 2, 3, 4], kernel_shape=kernel, strides=stride, pads=pads,
                count_include_pad=include, channels_last=last)


@operator
def QLinearGlobalAveragePool(r):
    x = quantized(r, *sizes(r, 4, 4, 1, 7))
    scale, zero, y = result(r, real(*x).mean((2, 3), keepdims=True), x[0].dtype)
    x, y, last = last_channels(r, x, y)
    return Call([*x, scale, zero], [y], [1, 2, 3, 4], channels_last=last)


@operator
def QLinearConcat(r):
    shape, dtype = sizes(r, 1, 4), np.uint8 if chance(r) else np.int8
    axis = int(r.integers(-len(shape), len(shape)))
    parts = []
    for _ in range(int(r.integers(1, 5))):
        shape = list(shape)
        shape[axis] = int(r.integers(1, 5))
        parts.append(quantized(r, *shape, dtype=dtype))
    scale, zero, y = result(r, np.concatenate([real(*p) for p in parts], axis), dtype)
    operands = [scale, zero] + [o for p in parts for o in p]
    return Call(operands, [y], [0, 1] + [i for i in range(2, len(operands)) if i % 3 != 2], axis=axis)


def quantization(r, shape):
    """A dtype, an axis or None, and scales and zero points for all elements or along the axis."""
    dtype = [np.uint8, np.int8, np.uint16, np.int16][int(r.integers(4))]
    i, axis = np.iinfo(dtype), maybe(r, int(r.integers(0, len(shape))))
    size = () if axis is None else (shape[axis],)
    scale = r.uniform(0.005, 0.1, size).astype(np.float32)
    zero = r.integers(i.min // 4, i.max // 4 + 1, size).astype(dtype)
    wide_shape = [1] * len(shape)
    if axis is not None:
        wide_shape[axis] = -1
    attrs = {} if axis is None else {"axis": axis - len(shape) * int(chance(r))}
    return dtype, attrs, scale, zero, wide(scale).reshape(wide_shape), wide(zero).reshape(wide_shape)


@operator
def QuantizeLinear(r):
    shape = sizes(r, 1, 4)
    dtype, attrs, scale, zero, s, z = quantization(r, shape)
    x = floats(r, *shape, scale=float(s.max()) * 100)
    return Call([x, scale, zero], [Rounded(wide(x) / s + z, dtype)], [1, 2] if chance(r) else [], **attrs)


@operator
def DequantizeLinear(r):
    shape = sizes(r, 1, 4)
    dtype, attrs, scale, zero, s, z = quantization(r, shape)
    i = np.iinfo(dtype)
    x = r.integers(i.min, i.max + 1, shape).astype(dtype)
    zero = maybe(r, zero, 0.7)
    y = (wide(x) - (0 if zero is None else z)) * s
    return Call(trimmed([x, scale, zero]), [y], [1, 2][:1 + (zero is not None)] if chance(r) else [], **attrs)


def columns_of(r, k, n, per_column=None, dtype=None):
    """A quantized matrix with scales and zero points for all columns, or for each column."""
    b, _, zero = quantized(r, k, n, dtype=dtype)
    if per_column if per_column is not None else chance(r):
        scale = r.uniform(0.005, 0.1, n).astype(np.float32)
        zero = r.integers(100, 150, n).astype(b.dtype) if b.dtype == np.uint8 else np.zeros(n, np.int8)
        return b, scale, zero
    return b, np.float32(r.uniform(0.005, 0.1)), zero


@operator
def QGemm(r):
    m, k, n = sizes(r, 3, 3, 1, 12)
    a, b = quantized(r, m, k, dtype=np.uint8), columns_of(r, k, n, dtype=np.int8 if chance(r) else np.uint8)
    attrs = {t: int(chance(r)) for t in ("transA", "transB")}
    alpha = float(np.float32(r.uniform(0.5, 2))) if chance(r) else 1.0
    if alpha != 1:
        attrs["alpha"] = alpha
    sums = (wide(a[0]) - wide(a[2])) @ (wide(b[0]) - wide(b[2]))
    c = maybe(r, r.integers(-20000, 20000, [[n], [m, n], [1, n]][int(r.integers(3))]).astype(np.int32), 0.7)
    y = alpha * float(a[1]) * wide(b[1]) * (sums + (0 if c is None else wide(c)))
    qa, qb = (np.ascontiguousarray(t[0].T if attrs[f] else t[0]) for t, f in ((a, "transA"), (b, "transB")))
    operands = [qa, a[1], a[2], qb, b[1], b[2], c]
    if chance(r, 0.7):
        scale, zero, y = result(r, y, np.uint8)
        operands += [scale, zero]
    operands = trimmed(operands)
    known = [i for i in (1, 2, 3, 4, 5, 6, 7, 8) if i < len(operands) and operands[i] is not None]
    return Call(operands, [y], known, **attrs)


@operator
def MatMulIntegerToFloat(r):
    m, k, n = sizes(r, 3, 3, 1, 12)
    a = quantized(r, *sizes(r, 0, 2, 1, 3), m, k)
    b = columns_of(r, k, n, dtype=np.int8 if a[0].dtype == np.int8 else None)
    a_zero, b_zero = maybe(r, a[2], 0.7), maybe(r, b[2], 0.7)
    bias = maybe(r, floats(r, n))
    y = real(a[0], a[1], a_zero) @ real(b[0], b[1], b_zero) + (0 if bias is None else wide(bias))
    operands = trimmed([a[0], b[0], a[1], b[1], a_zero, b_zero, bias])
    return Call(operands, [y], [i for i in (1, 3, 5) if i < len(operands) and operands[i] is not None])


def dynamic(x):
    """DynamicQuantizeLinear in float32: the numbers that the bytes stand for."""
    low, high = min(np.float32(0), x.min()), max(np.float32(0), x.max())
    scale = np.float32(high - low) / np.float32(255)
    zero = np.clip(np.rint(-low / scale), 0, 255)
    return (np.clip(np.rint(x / scale) + zero, 0, 255).astype(float) - float(zero)) * float(scale)


@operator
def DynamicQuantizeMatMul(r):
    m, k, n = sizes(r, 3, 3, 1, 12)
    x, b = floats(r, *sizes(r, 0, 2, 1, 3), m, k), columns_of(r, k, n)
    b_zero, bias = maybe(r, b[2], 0.7), maybe(r, floats(r, n))
    y = dynamic(x) @ real(b[0], b[1], b_zero) + (0 if bias is None else wide(bias))
    operands = trimmed([x, b[0], b[1], b_zero, bias])
    return Call(operands, [y], [i for i in (1, 2, 3) if i < len(operands) and operands[i] is not None])


@operator
def QAttention(r):
    b, s, n, e = sizes(r, 4, 4, 1, 5)
    d = int(r.integers(1, 12))
    x, w = quantized(r, b, s, d, dtype=np.uint8), columns_of(r, d, 3 * n * e)
    bias, w_zero = floats(r, 3 * n * e), maybe(r, w[2], 0.7)
    scale = np.float32(0.02)
    columns = real(x[0], scale, x[2]) @ real(w[0], w[1], w_zero) + wide(bias)
    mask, past, _, wants, attrs = projected(r, columns, [n * e] * 3, n, False)
    operands = [x[0], w[0], bias, scale, w[1], mask, x[2], w_zero, past]
    return Call(trimmed(operands), wants, [1, 2, 3, 4], **attrs)


@operator
def DynamicQuantizeLSTM(r):
    t, n, i, h = sizes(r, 4, 4, 1, 6)
    direction = str(r.choice(["forward", "reverse", "bidirectional"]))
    d, columns = 2 if direction == "bidirectional" else 1, chance(r)
    w, q = (r.integers(-127, 128, (d, k, 4 * h)).astype(np.int8) for k in (i, h))
    shape = (d, 4 * h) if columns else (d,)
    ws, rs = (r.uniform(0.002, 0.01, shape).astype(np.float32) for _ in range(2))
    zero = np.zeros(shape, np.int8)
    x, bias = floats(r, t, n, i), maybe(r, floats(r, d, 8 * h))
    h0, c0 = (maybe(r, floats(r, d, n, h, scale=0.5)) for _ in range(2))
    spread = (lambda s: wide(s).reshape(d, 1, -1))
    y, last_h, last_c = [], [], []
    for k in range(d):
        back = direction == "reverse" or k == 1
        wk, qk = wide(w[k]) * spread(ws)[k], wide(q[k]) * spread(rs)[k]
        hidden = np.zeros((n, h)) if h0 is None else wide(h0[k])
        cell = np.zeros((n, h)) if c0 is None else wide(c0[k])
        rows = [None] * t
        for at in (reversed(range(t)) if back else range(t)):
            g = wide(x[at]) @ wk + hidden @ qk + (0 if bias is None else wide(bias[k, :4 * h]) + wide(bias[k, 4 * h:]))
            gi, go, gf, gc = np.split(g, 4, -1)
            cell = sigmoid(gf) * cell + sigmoid(gi) * np.tanh(gc)
            hidden = sigmoid(go) * np.tanh(cell)
            rows[at] = hidden
        y.append(np.stack(rows)), last_h.append(hidden), last_c.append(cell)
    return Call([x, w, q, bias, None, h0, c0, None, ws, zero, rs, zero],
                [np.stack(y, 1), np.stack(last_h), np.stack(last_c)], [1, 2, 8, 9, 10, 11], hidden_size=h,
                direction=direction)


# Weights that are quantized by blocks.

def packed(q, bits):
    """Elements as bytes along the last dimension, the first in the lowest bits."""
    count = 8 // bits
    q = np.pad(q, [(0, 0)] * (q.ndim - 1) + [(0, -q.shape[-1] % count)]).reshape(*q.shape[:-1], -1, count)
    return sum(q[..., i].astype(np.uint8) << (i * bits) for i in range(count)).astype(np.uint8)


def blocks(r, rows, columns, bits, block):
    """A quantized matrix: elements, scales, zero points (None: the middle) and the numbers."""
    count = -(-columns // block)
    q, zero = r.integers(0, 1 << bits, (rows, columns)), maybe(r, r.integers(0, 1 << bits, (rows, count)))
    scale = r.uniform(0.005, 0.1, (rows, count)).astype(np.float32)
    at = np.arange(columns) // block
    return q, scale, zero, (q - ((1 << bits - 1) if zero is None else zero[:, at])) * wide(scale)[:, at]


@operator
def MatMulNBits(r):
    bits, block = int(r.choice([2, 4, 8])), int(r.choice([16, 32, 64]))
    n, k = int(r.integers(1, 20)), int(r.integers(1, 100))
    q, scale, zero, w = blocks(r, n, k, bits, block)
    x, bias = floats(r, *sizes(r, 1, 3, 1, 5), k), maybe(r, floats(r, n))
    b = packed(np.pad(q, ((0, 0), (0, -k % block))).reshape(n, -1, block), bits)
    operands = trimmed([x, b, scale, None if zero is None else packed(zero, bits), None, bias])
    return Call(operands, [wide(x) @ w.T + (0 if bias is None else wide(bias))],
                [i for i in range(1, len(operands)) if operands[i] is not None], K=k, N=n, bits=bits,
                block_size=block)


@operator
def GatherBlockQuantized(r):
    bits, block = int(r.choice([4, 8])), int(r.choice([16, 32]))
    rows, columns = int(r.integers(1, 12)), 2 * int(r.integers(1, 50))
    q, scale, zero, w = blocks(r, rows, columns, bits, block)
    ids = r.integers(-rows, rows, sizes(r, 1, 3, 1, 4)).astype(np.int64 if chance(r) else np.int32)
    operands = trimmed([packed(q, bits), ids, scale, None if zero is None else packed(zero, bits)])
    attrs = {} if bits == 4 and chance(r) else {"bits": bits}
    return Call(operands, [w[ids]], [i for i in (0, 2, 3) if i < len(operands)], block_size=block, **attrs)


@operator
def GroupQueryAttention(r):
    groups, times = int(r.integers(1, 4)), int(r.integers(1, 4))
    e, old = 16 * int(r.integers(1, 3)), int(r.integers(0, 7))
    b, s = (int(r.integers(1, 4)), 1) if old and chance(r) else (1, int(r.integers(1, 6)))
    n, total = groups * times, old + s
    q, k, v = (floats(r, b, s, h * e) for h in (n, groups, groups))
    room = total + int(r.integers(0, 4)) if chance(r) else old
    pasts = [np.zeros((b, groups, room, e), np.float32) for _ in range(2)]
    for p in pasts:
        p[:, :, :old] = floats(r, b, groups, old, e)
    q1, k1, v1 = (wide(heads(x, h)) for x, h in ((q, n), (k, groups), (v, groups)))
    attrs, cos, sin, places = {"num_heads": n, "kv_num_heads": groups}, None, None, None
    norms = [floats(r, e), floats(r, e)] if chance(r, 0.15) else [None, None]
    if norms[0] is not None:
        attrs["qk_norm_epsilon"] = float(np.float32(10 ** r.uniform(-6, -2)))
        q1, k1 = (rms_norm(x, w, attrs["qk_norm_epsilon"]) for x, w in zip((q1, k1), norms))
    if chance(r):
        half = int(r.choice([8, e // 2]))
        cos, sin = (f(floats(r, total + 2, half)) for f in (np.cos, np.sin))
        attrs.update(do_rotary=1, rotary_interleaved=int(chance(r)))
        if chance(r):
            places = r.integers(0, total + 2, (b, s))
        at = np.broadcast_to(np.arange(old, total), (b, s)) if places is None else places
        if places is not None and old == 0:
            places[0, 0] = min(places[0, 0], 2)
            at = np.broadcast_to(places[0, 0] + np.arange(s), (b, s))
        c, d = (wide(x)[at][:, None] for x in (cos, sin))
        pair = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if attrs["rotary_interleaved"] else \
            (slice(0, half), slice(half, 2 * half))
        for x in (q1, k1):
            left, right = x[..., pair[0]].copy(), x[..., pair[1]].copy()
            x[..., pair[0]], x[..., pair[1]] = c * left - d * right, d * left + c * right
    presents = []
    for p, x in zip(pasts, (k1, v1)):
        present = np.zeros((b, groups, max(room, total), e))
        present[:, :, :old], present[:, :, old:total] = p[:, :, :old], x
        presents.append(present)
    keys, values = (np.repeat(p[:, :, :total], times, 1) for p in presents)
    if chance(r, 0.3):
        attrs["scale"] = float(np.float32(r.uniform(0.1, 1)))
    scores = q1 @ keys.swapaxes(-1, -2) * attrs.get("scale", 1 / math.sqrt(e))
    if chance(r, 0.3):
        attrs["softcap"] = float(np.float32(r.uniform(1, 5)))
        scores = attrs["softcap"] * np.tanh(scores / attrs["softcap"])
    bias = maybe(r, floats(r, b if chance(r) else 1, n if chance(r) else 1, s, total), 0.3)
    if bias is not None:
        scores = scores + wide(bias)
    sink = maybe(r, floats(r, n), 0.3)
    if sink is None and chance(r, 0.2):
        attrs["smooth_softmax"] = 1
    end = np.arange(old, total)[:, None] + 1
    hidden = np.arange(total) >= end
    if chance(r, 0.3):
        attrs["local_window_size"] = int(r.integers(1, 5))
        hidden |= np.arange(total) < end - attrs["local_window_size"]
    scores = np.where(hidden, -np.inf, scores)
    if sink is not None or "smooth_softmax" in attrs:
        column = np.broadcast_to(wide(np.zeros(n) if sink is None else sink)[:, None, None], (b, n, s, 1))
        weights = softmax(np.concatenate([scores, column], -1))[..., :-1]
    else:
        weights = softmax(scores)
    y = weights @ values
    qk = weights if chance(r, 0.2) else None
    if qk is not None:
        attrs["qk_output"] = 2
    if chance(r):
        q, k, v = np.concatenate([q, k, v], -1), None, None
    operands = [q, k, v, *(pasts if room or chance(r) else (None, None)), np.full(b, total - 1, np.int32),
                np.array(total, np.int32), cos, sin, places, bias, sink, None, None, *norms]
    wants = [y.transpose(0, 2, 1, 3).reshape(b, s, n * e), *presents] + ([] if qk is None else [qk])
    return Call(trimmed(operands), wants, [6] if cos is None else [6, 7, 8], runtime=norms[0] is None, **attrs)


@operator
def QMoE(r):
    bits, block = int(r.choice([4, 8])), int(r.choice([0, 16, 32]))
    experts, tokens = int(r.integers(2, 5)), int(r.integers(1, 6))
    k, hidden, inner = int(r.integers(1, experts + 1)), 32 * int(r.integers(1, 3)), 32 * int(r.integers(1, 3))
    activation = str(r.choice(["relu", "gelu", "silu", "identity", "swiglu"]))
    fused = 2 if activation == "swiglu" else 1
    attrs = {"k": k, "expert_weight_bits": bits, "activation_type": activation}
    if block:
        attrs["block_size"] = block

    def layer(out, columns):
        """The weight, scales, bias and zero points of a layer, and its numbers."""
        parts = [blocks(r, out, columns, bits, block or columns) for _ in range(experts)]
        if any(p[2] is None for p in parts):
            zero = None
            numbers = [(p[0] - (1 << bits - 1)) * np.repeat(wide(p[1]), block or columns, 1) for p in parts]
        else:
            zero = np.stack([packed(p[2] if block else p[2][:, 0], bits) for p in parts])
            numbers = [p[3] for p in parts]
        scale = np.stack([p[1] if block else p[1][:, 0] for p in parts])
        return np.stack([packed(p[0], bits) for p in parts]), scale, maybe(r, floats(r, experts, out)), zero, numbers
    w1, s1, b1, z1, n1 = layer(fused * inner, hidden)
    w2, s2, b2, z2, n2 = layer(hidden, inner)
    x, router = floats(r, tokens, hidden), floats(r, tokens, experts)
    if activation == "swiglu":
        attrs.update(swiglu_fusion=1, activation_alpha=float(np.float32(r.uniform(1, 2))),
                     activation_beta=float(r.integers(0, 2)), swiglu_limit=float(np.float32(r.uniform(2, 7))))

    def activate(h):
        if activation == "swiglu":
            limit = attrs["swiglu_limit"]
            gate, linear = np.minimum(h[0::2], limit), np.clip(h[1::2], -limit, limit)
            return gate * sigmoid(attrs["activation_alpha"] * gate) * (linear + attrs["activation_beta"])
        return {"relu": lambda v: np.maximum(v, 0), "gelu": tanh_gelu, "silu": lambda v: v * sigmoid(v),
                "identity": lambda v: v}[activation](h)
    y = np.zeros((tokens, hidden))
    for t in range(tokens):
        chosen = np.argsort(-router[t])[:k]
        for e, share in zip(chosen, softmax(wide(router[t])[chosen])):
            h = activate(n1[e] @ wide(x[t]) + (0 if b1 is None else wide(b1[e])))
            y[t] += share * (n2[e] @ h + (0 if b2 is None else wide(b2[e])))
    operands = [x, router, w1, s1, b1, w2, s2, b2, None, None, None, z1, z2]
    known = [i for i in range(2, 13) if operands[i] is not None]
    runtime = not block or hidden > block  # else ONNX Runtime 1.30 wants one block in each row of fc2, too
    return Call(trimmed(operands), [y], known, magnitude=np.abs(x).max(), runtime=runtime, **attrs)


def draw(name, seed, ties=False):
    """A call. Unless ties is true, its quantized results are not near a tie."""
    for attempt in range(200):
        r = np.random.default_rng([ord(c) for c in name] + [seed, attempt])
        call = OPERATORS[name](r)
        if ties or not any(isinstance(w, Rounded) and w.near_tie() for w in call.wants):
            return call
    raise ValueError("%s: every draw is near a tie" % name)


def value(want):
    """A result in the dtype of the operator, or None if the call does not ask for it."""
    if isinstance(want, Rounded):
        return want.value()
    return want if want is None or want.dtype.kind == "i" else want.astype(np.float32)


def node_of(name, call, prefix=""):
    """The node of a call, its inputs and its initializers."""
    names = ["" if o is None else prefix + string.ascii_lowercase[i] for i, o in enumerate(call.operands)]
    results = ["" if w is None else "%sy%d" % (prefix, i) for i, w in enumerate(call.wants)]
    node = helper.make_node(name, names, results, domain=call.domain, **call.attrs)
    arrays = {n: np.asarray(o) for n, o in zip(names, call.operands) if n}
    weights = {names[i]: arrays.pop(names[i]) for i in call.known}
    return node, arrays, weights, dict(zip(results, call.wants))
