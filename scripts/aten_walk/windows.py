"""Draws calls of products, convolutions, pools, resizing, norms and recurrent layers."""
import torch

from draw import T
from pointwise import CALLS, call


def spatial(r, name):
    return {"1": 1, "2": 2, "3": 3}[name[-2]]


def sized(r, rank, batch=True):
    """A shape [N, C, ...] or [C, ...], occasionally with a size of 0."""
    s = [r.of(1, 1, 2, 2, 0)] if not batch or r.flip(0.8) else []
    return s + [r.of(1, 2, 4)] + [r.of(3, 4, 5, 6, 1) for _ in range(rank)]


def each(r, rank, *choices):
    return r.of(*choices) if r.flip() else [r.of(*choices) for _ in range(rank)]


def conv(rank, transposed):
    def draw(r):
        g, ci, co = r.of(1, 1, 2), r.of(1, 2), r.of(1, 3)
        lead = [r.of(1, 2, 0)] if r.flip(0.8) else []
        x = lead + [g * ci] + [r.of(3, 4, 5, 6) for _ in range(rank)]
        k = [r.of(1, 2, 3) for _ in range(rank)]
        w = [g * ci, co] + k if transposed else [g * co, ci] + k
        ins = [T(x), T(w)] + ([T([g * co])] if r.flip() else [])
        attrs = r.some(stride=(each(r, rank, 1, 2),), padding=(each(r, rank, 0, 1),), dilation=(each(r, rank, 1, 2),))
        if g > 1:
            attrs["groups"] = g
        if transposed and r.flip(0.3):
            attrs["output_padding"] = each(r, rank, 0, 1)
        if not transposed and r.flip(0.2):
            attrs["padding"] = r.of("same", "valid")
        return ins, attrs
    return draw


def pool(rank, kind):
    def draw(r):
        s = sized(r, rank)
        attrs = dict(r.some(stride=(each(r, rank, 1, 2),), padding=(each(r, rank, 0, 1),), ceil_mode=(True, False)),
                     kernel_size=each(r, rank, 1, 2, 3))
        if kind == "max" and r.flip(0.3):
            attrs["dilation"] = each(r, rank, 1, 2)
        if kind == "avg":
            attrs.update(r.some(count_include_pad=(True, False), divisor_override=(None, 3) if rank > 1 else (None,)))
            attrs = {k: v for k, v in attrs.items() if v is not None}
        return [T(s)], attrs
    return draw


def adaptive(rank):
    def draw(r):
        size = [1] * rank if r.flip(0.2) else [r.of(1, 2, 3, 7, 0) for _ in range(rank)]
        return [T(sized(r, rank))], {"output_size": size}
    return draw


def upsample(rank, align):
    def draw(r):
        s = sized(r, rank, batch=False)
        attrs = {"align_corners": r.of(True, False)} if align else {}
        if r.flip(0.3):
            return [T(s)], dict(attrs, output_size=None, scale_factors=[r.of(2.0, 0.6, 1.5) for _ in range(rank)])
        attrs["output_size"] = [r.of(1, 2, 3, 7) for _ in range(rank)]
        if r.flip(0.2):
            attrs.update({k: 1.7 for k in (["scales_d"], ["scales_h"], ["scales_w"])[-1]} if rank > 1 else {"scales": 1.7})
        return [T(s)], attrs
    return draw


for d in (1, 2, 3):
    call("conv%dd" % d)(conv(d, False))
    call("conv_transpose%dd" % d)(conv(d, True))
    call("max_pool%dd" % d, "max_pool%dd_with_indices" % d)(pool(d, "max"))
    call("avg_pool%dd" % d)(pool(d, "avg"))
    call("adaptive_avg_pool%dd" % d, "adaptive_max_pool%dd" % d)(adaptive(d))
    call("upsample_nearest%dd" % d, "_upsample_nearest_exact%dd" % d)(upsample(d, False))
call("upsample_linear1d")(upsample(1, True))
call("upsample_bilinear2d", "upsample_bicubic2d")(upsample(2, True))
call("upsample_trilinear3d")(upsample(3, True))


@call("max_unpool2d")
def _max_unpool2d(r):
    s = sized(r, 2)
    import torch
    return [T(s), T(s, torch.int64, 0, 1)], {"output_size": [8, 9]}


@call("pad")
def _pad_modes(r, constant=CALLS["pad"]):
    if r.flip(0.4):
        return constant(r)
    rank = r.of(1, 2, 3)
    s = sized(r, rank)
    p = [r.of(0, 1, 1, 2, -1) for _ in range(2 * rank)]
    return [T(s)], {"pad": p, "mode": r.of("reflect", "replicate", "circular", "constant")}


@call("grid_sampler")
def _grid_sampler(r):
    rank = r.of(2, 2, 3)
    s = sized(r, rank, batch=False)
    return [T(s), T([s[0]] + [r.of(1, 2, 3) for _ in range(rank)] + [rank])], {
        "interpolation_mode": r.of(0, 1, 2 if rank == 2 else 0), "padding_mode": r.of(0, 1, 2), "align_corners": r.of(True, False)}


@call("affine_grid_generator")
def _affine_grid(r):
    n, rank = r.of(1, 2, 0), r.of(2, 3)
    return [T([n, rank, rank + 1])], {"size": [n, 2] + [r.of(1, 2, 3) for _ in range(rank)], "align_corners": r.of(True, False)}


# ---------------------------------------------------------------- norms

@call("batch_norm")
def _batch_norm(r):
    s = r.shape(r.of(2, 3, 4, 5))
    c = s[1]
    train = r.flip(0.3)
    ins = [T(s)] + r.of([None, None], [T([c]), T([c])], [T([c]), None])
    ins += [None, None] if train and r.flip() else [T([c]), T([c], pos=True)]
    return ins, {"training": train, "momentum": 0.1, "eps": r.of(1e-5, 0.1), "cudnn_enabled": True}


@call("instance_norm")
def _instance_norm(r):
    s = r.shape(r.of(3, 4, 5))
    c = s[1]
    ins = [T(s)] + r.of([None, None], [T([c]), T([c])])
    stats = r.flip(0.7)
    ins += [None, None] if stats else [T([c]), T([c], pos=True)]
    return ins, {"use_input_stats": stats, "momentum": 0.1, "eps": 1e-5, "cudnn_enabled": True}


@call("layer_norm")
def _layer_norm(r):
    s = r.shape(least=1)
    n = s[r.rng.randrange(len(s)):]
    return [T(s)] + r.of([], [T(n)], [T(n), T(n)], [None, T(n)]), dict(r.some(eps=(1e-5, 0.1)), normalized_shape=n)


@call("group_norm")
def _group_norm(r):
    s = r.shape(r.of(2, 3, 4, 5))
    s[1] = r.of(2, 4, 6, 0)
    c = s[1]
    return [T(s)] + r.of([], [T([c])], [T([c]), T([c])], [None, T([c])]), dict(r.some(eps=(1e-5, 0.1)), num_groups=r.of(1, 2, 2))


# ---------------------------------------------------------------- products

@call("matmul")
def _matmul(r):
    k = r.size()
    batch = r.broadcast(2)
    a, b = [s[-2:] if len(s) > 2 else s for s in batch]
    return [T(r.of([k], [r.size(), k], a + [r.size(), k])), T(r.of([k], [k, r.size()], b + [k, r.size()]))], {}


@call("mm")
def _mm(r):
    k = r.size()
    return [T([r.size(), k]), T([k, r.size()])], {}


@call("bmm")
def _bmm(r):
    k, n = r.size(), r.size()
    return [T([n, r.size(), k]), T([n, k, r.size()])], {}


@call("mv")
def _mv(r):
    k = r.size()
    return [T([r.size(), k]), T([k])], {}


@call("dot")
def _dot(r):
    k = r.size()
    return [T([k]), T([k])], {}


@call("outer")
def _outer(r):
    return [T([r.size()]), T([r.size()], r.other_dtype())], {}


@call("linear")
def _linear(r):
    k, o = r.size(), r.size()
    x = r.shape(r.of(0, 1, 2)) + [k]
    w = [o, k] if r.flip(0.9) else [k]
    return [T(x), T(w)] + ([T([o])] if r.flip() and len(w) == 2 else []), {}


@call("addmm")
def _addmm(r):
    m, k, n = r.size(), r.size(), r.size()
    return [T(r.of([m, n], [n], [1, n], [m, 1], [])), T([m, k]), T([k, n])], r.some(beta=(0, 2, 0.5), alpha=(0, 3, 0.5))


@call("baddbmm")
def _baddbmm(r):
    b, m, k, n = r.size(), r.size(), r.size(), r.size()
    if r.flip(0.1):
        m = k = n = 8                                # from 400 products on PyTorch uses another algorithm
    return [T(r.of([b, m, n], [n], [1, m, n], [])), T([b, m, k]), T([b, k, n])], r.some(beta=(0, 2), alpha=(0, 3))


@call("einsum")
def _einsum(r):
    sizes = {c: r.size() for c in "abcdAB"}
    dots = [r.size() for _ in range(r.of(1, 2))]
    terms, shapes = [], []
    for _ in range(r.of(1, 2, 2, 2, 3)):
        labels = [r.of(*sizes) for _ in range(r.of(0, 1, 2, 2, 3))]
        shape = [1 if r.flip(0.1) else sizes[c] for c in labels]
        text = "".join(labels)
        if r.flip(0.25):
            at = r.rng.randrange(len(labels) + 1)
            text, shape = text[:at] + "..." + text[at:], shape[:at] + dots + shape[at:]
        terms.append(text)
        shapes.append(shape)
    seen = sorted(set("".join(terms)) - {"."})
    out = r.rng.sample(seen, r.rng.randrange(len(seen) + 1))
    if any("." in t for t in terms) and r.flip(0.9):
        out.insert(r.rng.randrange(len(out) + 1), "...")
    eq = ",".join(terms) + ("->" + "".join(out) if r.flip(0.8) else "")
    return [T(s, plain=True) for s in shapes], {"equation": eq}


@call("linalg_det", "det")
def _det(r):
    n = r.of(0, 1, 2, 3)
    return [T(r.shape(r.of(0, 0, 1, 2)) + [n, n], plain=True)], {}


@call("fft_fft", "fft_ifft", "fft_rfft", "fft_irfft", "fft_hfft", "fft_ihfft")
def _fft(r):
    s = r.shape(least=1)
    return [T(s)], r.some(n=(1, 2, 4, 5), dim=(r.dim(s),), norm=("forward", "ortho", "backward"))


@call(*["fft_%s%s" % (f, n) for f in "fft ifft rfft irfft hfft ihfft".split() for n in "2n"])
def _fft_n(r):
    s = r.shape(least=2)
    dims = r.dims(s) or [-1]    # 1.13 does not initialize the result for no dimensions
    attrs = dict(dim=dims, **({"s": [r.of(1, 2, 4, 5, -1) for _ in dims]} if r.flip() else {})) if r.flip() else {}
    return [T(s)], dict(attrs, **r.some(norm=("forward", "ortho", "backward")))


@call("fft_fftshift", "fft_ifftshift")
def _fft_shift(r):
    s = r.shape()
    return [T(s)], r.some(dim=(r.dims(s),))


@call("prelu")
def _prelu(r):
    s = r.shape()
    c = s[1] if len(s) > 1 else 1
    return [T(s), T(r.of([1], [c]))], {}


# ---------------------------------------------------------------- recurrent

def recurrent(gates, states):
    def draw(r):
        n, t, i, h = r.of(1, 2, 0), r.of(1, 3), r.of(1, 3), r.of(1, 2)
        layers, both, first, bias = r.of(1, 2), r.flip(0.4), r.flip(), r.flip(0.7)
        d = 2 if both else 1
        x = ([n, t] if first else [t, n]) + [i]
        ins = [T(x)] + [T([layers * d, n, h]) for _ in range(states)]
        for k in range(layers):
            for _ in range(d):
                ins += [T([gates * h, i if k == 0 else h * d]), T([gates * h, h])]
                ins += [T([gates * h]), T([gates * h])] if bias else []
        return ins, {"has_biases": bias, "num_layers": layers, "dropout": 0.0, "train": False, "bidirectional": both, "batch_first": first}
    return draw


call("lstm")(recurrent(4, 2))
call("gru")(recurrent(3, 1))
call("rnn_tanh", "rnn_relu")(recurrent(1, 1))


@call("stft")
def _stft(r):
    n, hop = r.of(4, 5, 8, 1, 2), r.of(None, 1, 3, 5, 0)
    win = r.of(None, None, n, 3, 1, 9)
    ins = [T(r.of([], [2], [3], [0], [1], [1, 2]) + [r.of(3, 12, 17, 20, 1, 8)], plain=True)]
    if r.flip(0.5):
        ins.append(T([r.of(win or n, win or n, 3)], r.of(None, None, torch.float64, torch.complex64), plain=True))
    attrs = r.some(pad_mode=("reflect", "constant", "replicate"), normalized=(True, False), onesided=(True, False), return_complex=(True, True, False))
    return ins, dict(attrs, n_fft=n, hop_length=hop, win_length=win, center=r.flip())


@call("istft")
def _istft(r):
    n, hop = r.of(4, 5, 8), r.of(None, 1, 2)
    win = r.of(None, None, n, 4)
    onesided = r.of(None, True, False)
    s = r.of([], [2]) + [n if onesided is False else n // 2 + 1, r.of(1, 4, 7)]
    ins = [T(s, plain=True) if r.flip(0.7) else T(s + [2], torch.float32, plain=True)]
    if r.flip(0.4):
        ins.append(T([win or n], r.of(torch.float32, torch.float64), pos=True))
    attrs = r.some(normalized=(True, False), center=(True, False), length=(3, 9, 40), return_complex=(True, False, False))
    return ins, dict(attrs, n_fft=n, hop_length=hop, win_length=win, onesided=onesided)
