"""Attention and rotary embeddings, computed element by element in float64."""
import numpy as np

from case import bools, f, i64, op


def softmax(x):
    """The weights of a row; those of a row of -Inf are 0."""
    top = x.max(-1, keepdims=True)
    e = np.exp(x - np.where(np.isneginf(top), 0, top))
    return e / np.maximum(e.sum(-1, keepdims=True), 1e-300)


def heads(x, n):
    """Converts [batch, positions, n * elements] to [batch, n, positions, elements]."""
    return x if x.ndim == 4 else np.stack(np.split(x, n, -1), 1)


def attend(q, k, v, mask=None, pk=None, pv=None, count=None, qh=None, kh=None, causal=False, scale=None, cap=0, mode=0,
           precision=1, left=-1, right=-1):
    dtype, flat = q.dtype, q.ndim == 3
    q, k, v = heads(q, qh), heads(k, kh), heads(v, kh)
    past = 0
    if pk is not None:
        past = pk.shape[2]
        k, v = np.concatenate([pk, k], 2), np.concatenate([pv, v], 2)
    n, h, l, e = q.shape
    s = k.shape[2]
    scale = 1 / np.sqrt(e) if scale is None else scale
    y, told = np.zeros((n, h, l, v.shape[3])), np.zeros((n, h, l, s))
    for b in range(n):
        for i in range(h):
            of = i // (h // k.shape[1])
            x = q[b, i].astype(float) @ k[b, of].astype(float).T * scale
            steps = [x]
            if cap:
                x = cap * np.tanh(x / cap)
            steps.append(x)
            for p in range(l):
                for j in range(s):
                    before = past if count is None else count[b] - l
                    if (count is not None and j >= count[b] or causal and j > p + before or
                            left >= 0 and j < p + before - left or right >= 0 and j > p + before + right):
                        x = x.copy()
                        x[p, j] = -np.inf
            if mask is not None:
                m = np.broadcast_to(mask, np.broadcast_shapes(mask.shape, (n, h, l, mask.shape[-1])))[b, i]
                add = np.where(m, 0, -np.inf) if m.dtype == bool else m
                x = x + np.concatenate([add, np.full((l, s - m.shape[-1]), -np.inf)], -1)
            steps.append(x)
            w = softmax(x)
            steps.append(w)
            told[b, i], y[b, i] = steps[mode], w @ v[b, of].astype(float)
    if flat:
        y = np.concatenate(list(y.transpose(1, 0, 2, 3)), -1)
    return [x.astype(dtype) for x in (y, k, v, told)]


def case(operands, outputs=1, opset=23, **attrs):
    names = dict(qh="q_num_heads", kh="kv_num_heads", causal="is_causal", scale="scale", cap="softcap",
                 mode="qk_matmul_output_mode", precision="softmax_precision", left="left_window_size", right="right_window_size")
    want = attend(*operands, **attrs)
    op("Attention", operands, want[:outputs], opset, **{names[k]: int(v) if v is True else v for k, v in attrs.items()})


def seen(*shape):
    """A boolean mask in which every query attends to at least one key."""
    m = bools(*shape)
    m[..., 0] = True
    return m


q, k, v = f(2, 3, 4, 8), f(2, 3, 6, 8), f(2, 3, 6, 5)
case([q, k, v])
case([q, k, v], precision=11)
case([q.astype(np.float64), k.astype(np.float64), v.astype(np.float64)], scale=0.25)
case([q, k, v], causal=True)
case([q, k, v, f(4, 6)], cap=2.0)
case([q, k, v, seen(2, 1, 4, 6)])
case([q, k, v, seen(3, 1, 6)], causal=True)
case([q, k, v, f(1, 3, 4, 4)])
case([q, k, v, seen(4, 5)])
for m in range(4):
    case([q, k, v, f(2, 3, 4, 6)], 4, mode=m, cap=1.5)
    case([q, k, v, seen(4, 6)], 4, mode=m, causal=True)
grouped = [f(2, 6, 4, 8), f(2, 2, 5, 8), f(2, 2, 5, 8)]
case(grouped)
case(grouped + [f(2, 6, 4, 9), f(2, 2, 4, 8), f(2, 2, 4, 8)], 4, causal=True)
case([f(2, 6, 1, 8), f(2, 2, 1, 8), f(2, 2, 1, 8), None, f(2, 2, 7, 8), f(2, 2, 7, 8)], 3)
case([f(2, 4, 24), f(2, 6, 24), f(2, 6, 15)], 3, qh=3, kh=3)
case([f(2, 4, 24), f(2, 6, 8), f(2, 6, 5)], 4, qh=3, kh=1, causal=True)
case([f(2, 4, 24), f(2, 1, 8), f(2, 1, 5), None, f(2, 1, 6, 8), f(2, 1, 6, 5)], 3, qh=3, kh=1)
case([q, k, v, None, None, None, i64(4, 6)], 1, 24)
case([q, k, v, seen(4, 6), None, None, i64(5, 6)], 1, 24, causal=True)


def rotate(x, cos, sin, ids=None, interleaved=0, rotary_embedding_dim=0, num_heads=0):
    y = np.array(x, float)
    rows = y.reshape(*y.shape[:2], num_heads, -1) if x.ndim == 3 else y.transpose(0, 2, 1, 3)
    size = rotary_embedding_dim or rows.shape[3]
    for b, t, h, i in np.ndindex(*rows.shape[:3], size // 2):
        at = (ids[b, t],) if ids is not None else (b, t)
        c, s = cos[at][i], sin[at][i]
        u, w = (2 * i, 2 * i + 1) if interleaved else (i, i + size // 2)
        row = rows[b, t, h]
        row[u], row[w] = c * row[u] - s * row[w], s * row[u] + c * row[w]
    return (rows.reshape(x.shape) if x.ndim == 3 else rows.transpose(0, 2, 1, 3)).astype(x.dtype)


def rotary(operands, **attrs):
    op("RotaryEmbedding", operands, lambda *o: rotate(*o, **attrs), 23, **attrs)


ids = np.array([[0, 3, 1], [4, 2, 2]])
for paired in (0, 1):
    x, flat = f(2, 4, 3, 8), f(2, 3, 32)
    rotary([x, f(5, 4), f(5, 4), ids], interleaved=paired)
    rotary([x, f(2, 3, 4), f(2, 3, 4)], interleaved=paired)
    rotary([flat, f(5, 4), f(5, 4), ids], interleaved=paired, num_heads=4)
    rotary([x, f(5, 2), f(5, 2), ids], interleaved=paired, rotary_embedding_dim=4)
    rotary([flat, f(2, 3, 3), f(2, 3, 3)], interleaved=paired, rotary_embedding_dim=6, num_heads=4)

# Queries without a key, and windows of keys.
some = np.array([[1, 0, 0, 1, 0, 1], [0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]], bool)
for m in (0, 3):
    case([q, k, v, some], 4, mode=m)
    case([q, k, v, np.where(some, f(4, 6), -np.inf).astype(np.float32)], 4, mode=m)
    case([q, k, v, some[:, ::-1]], 4, 25, mode=m, causal=True, left=2)
case([f(2, 4, 24), f(2, 6, 24), f(2, 6, 15), some], 1, qh=3, kh=3)
case([q, k, v, None, None, None, i64(0, 6)], 1, 24)
case([q, k, v, None, None, None, i64(2, 6)], 1, 24, causal=True)
case([q, k, v], 1, 25, causal=True, left=2)
case([q, k, v], 1, 25, left=1, right=0)
case([q, k, v], 1, 25, left=0, right=2)
case([q, k, v], 1, 25, right=1)
case([f(2, 3, 6, 8), f(2, 3, 3, 8), f(2, 3, 3, 5)], 1, 25, causal=True, left=1)  # the last queries have no key
case([f(2, 4, 24), f(2, 1, 8), f(2, 1, 5), None, f(2, 1, 6, 8), f(2, 1, 6, 5)], 3, 25, qh=3, kh=1, causal=True, left=3)
case([q, k, v, f(4, 6), None, None, i64(4, 6)], 1, 25, causal=True, left=1)
