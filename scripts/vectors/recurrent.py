"""RNN, GRU and LSTM, computed in float64 from their definitions."""
import numpy as np

from case import f, i64, op


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def cell(kind, x, h, c, w, r, b, linear_before_reset=0, peephole=None, clip=None, act=np.tanh):
    """One step for one direction; ONNX orders the gates i o f c (LSTM) and z r h (GRU)."""
    n = h.shape[-1]
    bound = (lambda v: v) if clip is None else (lambda v: np.clip(v, -clip, clip))
    wb, rb = b[:len(w)], b[len(w):]
    if kind == "RNN":
        h = act(bound(x @ w.T + wb + h @ r.T + rb))
        return h, h
    if kind == "GRU":
        gx, gh = x @ w.T + wb, h @ r.T + rb
        z, reset = sigmoid(bound(gx[:, :n] + gh[:, :n])), sigmoid(bound(gx[:, n:2 * n] + gh[:, n:2 * n]))
        if linear_before_reset:
            new = np.tanh(bound(gx[:, 2 * n:] + reset * gh[:, 2 * n:]))
        else:
            new = np.tanh(bound(gx[:, 2 * n:] + (reset * h) @ r[2 * n:].T + rb[2 * n:]))
        return (1 - z) * new + z * h, h
    g = x @ w.T + wb + h @ r.T + rb
    i, o, forget, new = np.split(g, 4, 1)
    p = np.zeros(3 * n) if peephole is None else peephole
    i, forget = sigmoid(bound(i + p[:n] * c)), sigmoid(bound(forget + p[2 * n:] * c))
    c = forget * c + i * np.tanh(bound(new))
    return sigmoid(bound(o + p[n:2 * n] * c)) * np.tanh(c), c


def network(kind, x, w, r, b=None, lens=None, h0=None, c0=None, p=None, direction="forward", **options):
    t, n, _ = x.shape
    dirs, size = w.shape[0], r.shape[2]
    y = np.zeros((t, dirs, n, size))
    hs, cs = np.zeros((dirs, n, size)), np.zeros((dirs, n, size))
    wide = [None if v is None else v.astype(np.float64) for v in (x, w, r, b, h0, c0, p)]
    x, w, r, b, h0, c0, p = wide
    lens = np.full(n, t) if lens is None else lens
    for d in range(dirs):
        bias = np.zeros(2 * w.shape[1]) if b is None else b[d]
        for k in range(n):
            h = np.zeros((1, size)) if h0 is None else h0[d, k:k + 1]
            c = np.zeros((1, size)) if c0 is None else c0[d, k:k + 1]
            steps = range(lens[k])
            for at in reversed(steps) if direction == "reverse" or d else steps:
                h, c2 = cell(kind, x[at, k:k + 1], h, c, w[d], r[d], bias, peephole=None if p is None else p[d], **options)
                c = c2 if kind == "LSTM" else c
                y[at, d, k] = h
            hs[d, k], cs[d, k] = h, c
    out = [y, hs] + ([cs] if kind == "LSTM" else [])
    return [v.astype(np.float32) for v in out]


for kind, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
    for opset in (7, 14):
        for direction, dirs in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            x, w, r = f(4, 2, 3), f(dirs, gates * 5, 3, low=-0.7, high=0.7), f(dirs, gates * 5, 5, low=-0.7, high=0.7)
            b, lens, h0, c0 = f(dirs, 2 * gates * 5, low=-0.5, high=0.5), np.array([4, 2], np.int32), f(dirs, 2, 5), f(dirs, 2, 5)
            op(kind, [x, w, r], network(kind, x, w, r, direction=direction), opset, known=(1, 2), hidden_size=5, direction=direction)
            more = [c0] if kind == "LSTM" else []
            op(kind, [x, w, r, b, lens, h0] + more, network(kind, x, w, r, b, lens, h0, *more, direction=direction), opset,
               known=(1, 2, 3), hidden_size=5, direction=direction, name=direction + " lengths")
    x, w, r = f(3, 1, 3), f(1, gates * 4, 3), f(1, gates * 4, 4)
    b = f(1, 2 * gates * 4)
    op(kind, [x, w, r, b], network(kind, x, w, r, b, clip=0.6), 14, hidden_size=4, clip=0.6, name="clip")
    turned = [v.swapaxes(0, 1) if i else v.transpose(2, 0, 1, 3) for i, v in enumerate(network(kind, x, w, r, b))]
    op(kind, [x.swapaxes(0, 1).copy(), w, r, b], turned, 14, hidden_size=4, layout=1, name="layout")
x, w, r, b = f(3, 2, 3), f(1, 12, 3), f(1, 12, 4), f(1, 24)
op("GRU", [x, w, r, b], network("GRU", x, w, r, b, linear_before_reset=1), 14, hidden_size=4, linear_before_reset=1, name="linear")
x, w, r, b, p = f(3, 2, 3), f(1, 16, 3), f(1, 16, 4), f(1, 32), f(1, 12)
op("LSTM", [x, w, r, b, None, None, None, p], network("LSTM", x, w, r, b, p=p), 14, hidden_size=4, name="peephole")
x, w, r = f(3, 2, 3), f(1, 4, 3), f(1, 4, 4, low=-0.5, high=0.5)
op("RNN", [x, w, r], network("RNN", x, w, r, act=lambda v: np.maximum(v, 0)), 14, hidden_size=4, activations=["Relu"], name="relu")
