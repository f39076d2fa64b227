"""Draws calls of ops whose elements are random or uninitialized, of vision, and of functions outside aten."""
import torch

from draw import T
from folding import one
from pointwise import DT, FORMAT, call
from windows import sized

REDUCTION = (0, 1, 2)


# ---------------------------------------------------------------- elements that PyTorch does not define

@call("empty_like", "rand_like", "randn_like")
def _like(r):
    return one(r)[1], r.some(dtype=DT, memory_format=FORMAT)


@call("new_empty")
def _new_empty(r):
    return one(r)[1], dict(r.some(dtype=DT), size=r.shape())


@call("empty_strided")
def _empty_strided(r):
    s = r.shape()
    strides, _ = r.layout(s)
    return [], dict(r.some(dtype=DT), size=s, stride=strides if r.flip(0.9) else strides + [r.of(1, -1)])


@call("rand", "randn")
def _rand(r):
    return [], dict(r.some(dtype=DT), size=r.shape())


@call("randint")
def _randint(r):
    return [], dict(r.some(dtype=DT, low=(0, 1, -3, 9)), high=r.of(5, 2, 0, 300), size=r.shape())


@call("bernoulli")
def _bernoulli(r):
    return [T(r.shape(), lo=0, hi=2)], {}


@call("multinomial")
def _multinomial(r):
    s = r.shape(rank=r.of(1, 2, 2, 0, 3))
    return [T(s, lo=r.of(1, 1, 1, 0, -1), hi=4)], dict(r.some(replacement=(True, False)), num_samples=r.of(1, 1, 2, 3, 0))


# ---------------------------------------------------------------- shapes and copies

@call("_shape_as_tensor")
def _shape(r):
    return one(r)[1], {}


@call("copy")
def _copy(r):
    a, b = r.broadcast(2)
    return [T(a if r.flip() else b), T(b, r.other_dtype(0.4))], r.some(non_blocking=(True, False))


# ---------------------------------------------------------------- losses and norms

@call("gaussian_nll_loss")
def _gaussian_nll_loss(r):
    s = r.shape()
    var = r.of(s, s, s[:-1], s[:-1] + [1] * bool(s), [], s + [1])
    target = s if r.flip(0.9) else r.broadcast(1)[0]
    return [T(s), T(target, r.other_dtype(0.1)), T(var, pos=True)], r.some(full=(True, False), eps=(1e-6, 0.5), reduction=REDUCTION)


@call("multilabel_soft_margin_loss")
def _multilabel_soft_margin_loss(r):
    s = r.shape()
    ins = [T(s), T(s if r.flip(0.9) else s[1:], r.other_dtype(0.1), lo=0, hi=2)]
    if r.flip(0.4):
        ins.append(T(r.of(s, s[-1:]), r.other_dtype(0.1), pos=True))
    return ins, r.some(reduction=REDUCTION)


def scores(r):
    """The shape of scores of classes, and the number of classes."""
    c = r.of(1, 2, 4)
    return r.of([r.size(), c], [r.size(), c], [r.size(), c], [c], []), c


@call("multi_margin_loss")
def _multi_margin_loss(r):
    s, c = scores(r)
    ins = [T(s), T(s[:-1] if r.flip(0.9) else [1], torch.int64, 0, c if s else 1)]
    if r.flip(0.4):
        ins.append(T([c if s else 1], pos=True))
    return ins, r.some(p=(1, 2, 2), margin=(1, 0.5), reduction=REDUCTION)


@call("multilabel_margin_loss")
def _multilabel_margin_loss(r):
    s, c = scores(r)
    return [T(s), T(s if r.flip(0.9) else s[1:], torch.int64, -1, c if s else 1)], r.some(reduction=REDUCTION)


@call("local_response_norm")
def _local_response_norm(r):
    s = r.shape(rank=r.of(3, 3, 4, 5, 2, 1))
    return [T(s)], dict(r.some(alpha=(1e-4, 0.5), beta=(0.75, 1.0), k=(1.0, 2.0)), size=r.of(1, 2, 3, 5, 0))


# ---------------------------------------------------------------- images

def unpooled(r, rank):
    s = sized(r, rank)
    size = [r.of(8, 9) for _ in range(rank)]
    n = 1
    for k in size:
        n *= k
    return [T(s), T(s if r.flip(0.95) else s[:-1] + [7], r.of(*[torch.int64] * 9, torch.int32), 0, n + r.of(*[0] * 9, 1))], {"output_size": size}


@call("max_unpool1d")
def _max_unpool1d(r):
    return unpooled(r, 1)


@call("max_unpool3d")
def _max_unpool3d(r):
    ins, attrs = unpooled(r, 3)
    return ins, dict(attrs, stride=[r.of(*[1] * 9, 0)] * 3, padding=[0] * 3)


@call("nms")
def _nms(r):
    n = r.of(0, 1, 4, 9)
    return [T([n, 4 if r.flip(0.95) else 5], lo=0, hi=6), T([n] if r.flip(0.95) else [n + 1], r.other_dtype(0.1), lo=0, hi=50)], {
        "iou_threshold": r.of(0.0, 0.25, 0.5, 1.0)}


@call("roi_align")
def _roi_align(r):
    n = r.of(1, 2, 3)
    x = T([n] + [r.size()] + [r.of(1, 3, 5) for _ in range(2)])
    rois = T([r.of(0, 1, 3), 5 if r.flip(0.95) else 4], r.other_dtype(0.05), lo=0, hi=n)
    return [x, rois], dict(r.some(aligned=(True, False), sampling_ratio=(0, 1, 2)), spatial_scale=r.of(1.0, 0.5, 2.0),
                           pooled_height=r.of(1, 2, 3), pooled_width=r.of(1, 2))


@call("deform_conv2d")
def _deform_conv2d(r):
    g, o = r.of(1, 1, 2), r.of(1, 1, 2)
    ci, co, n = g * o * r.of(1, 2), g * r.of(1, 2), r.of(1, 2, 2, 0)
    sizes, window = [r.of(3, 4, 5) for _ in "hw"], [r.of(1, 2, 3) for _ in "hw"]
    attrs = r.some(stride=(1, 2, [1, 2]), padding=(0, 1, [1, 0]), dilation=(1, [1, 2]))
    s, p, d = ([v, v] if isinstance(v, int) else v for v in (attrs.get(k, z) for k, z in (("stride", 1), ("padding", 0), ("dilation", 1))))
    out = [(sizes[i] + 2 * p[i] - d[i] * (window[i] - 1) - 1) // s[i] + 1 for i in range(2)]
    if min(out) < 0:
        raise ValueError("the window is larger than the image")
    if r.flip(0.05):
        out[0] += 1
    k = window[0] * window[1]
    ins = [T([n, ci] + sizes), T([co, ci // g] + window), T([n, 2 * o * k] + out, plain=True), None, None]
    if r.flip():
        ins[3] = T([n, o * k] + out, plain=True)
    if r.flip():
        ins[4] = T([co])
    return ins, dict(attrs, groups=g, offset_groups=o)


@call("scaled_dot_product_attention")
def _attention(r):
    lead, e, v = r.shape(rank=r.of(1, 2, 2, 0)), r.of(1, 2, 4), r.of(1, 2, 4)
    length, keys = r.of(1, 2, 3, 0), r.of(1, 2, 3)
    ins, attrs = [T(lead + [length, e]), T(lead + [keys, e]), T(lead + [keys, v], r.other_dtype(0.03))], {}
    how = r.of("none", "none", "causal", "bool", "float")
    if how == "causal":
        attrs = {"is_causal": True}
    elif how != "none":
        mask = r.of([length, keys], lead + [length, keys], [1, keys])
        ins.append(T(mask, torch.bool if how == "bool" else None))
    return ins, attrs


# Ops whose elements are random or uninitialized: the walk compares only shapes, dtypes, layouts and errors.
UNDEFINED = set("empty_like rand_like randn_like new_empty empty_strided rand randn randint bernoulli multinomial".split())
