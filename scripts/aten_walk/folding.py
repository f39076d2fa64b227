"""Draws calls of reductions, softmaxes, scans, sorting and indexing."""
import torch

from draw import T
from pointwise import DT, call

FLOATS = ("float32", "float64", "float16", "bfloat16", "complex64", "int64")


def one(r, least=0):
    s = r.shape(least=least)
    return s, [T(s)]


@call("sum", "mean")
def _sum(r):
    s, ins = one(r)
    return ins, r.some(dim=(r.dims(s), r.dim(s), []), keepdim=(True, False), dtype=DT)


@call("prod", "argmax", "argmin", "any", "all")
def _prod(r):
    s, ins = one(r)
    attrs = r.some(dim=(r.dim(s),))
    return ins, dict(attrs, **(r.some(keepdim=(True, False)) if attrs else {}))


@call("max", "min")
def _max(r):
    if r.flip(0.2):
        a, b = r.broadcast(2)
        return [T(a), T(b, r.other_dtype(0.1))], {}
    return _prod(r)


@call("amax", "amin")
def _amax(r):
    s, ins = one(r)
    return ins, r.some(dim=(r.dims(s), [], r.dim(s)), keepdim=(True, False))


@call("logsumexp")
def _logsumexp(r):
    s, ins = one(r)
    return ins, dict(r.some(keepdim=(True, False)), dim=r.of(r.dims(s), [], r.dim(s)))


@call("std", "var", "std_mean", "var_mean")
def _var(r):
    s, ins = one(r)
    kind = r.of("plain", "unbiased", "correction")
    if kind == "plain":
        return ins, r.some(unbiased=(True, False))
    attrs = dict(r.some(keepdim=(True, False)), dim=r.of(None, r.dims(s), r.dim(s), []))
    if kind == "unbiased":
        return ins, dict(attrs, dim=attrs["dim"] or [], **r.some(unbiased=(True, False)))
    return ins, dict(attrs, correction=r.of(0, 1, 2, 9))


@call("norm")
def _norm(r):
    s, ins = one(r)
    p = r.of(2, 1, 0, 3, 0.5, -1, float("inf"), float("-inf"))
    if r.flip(0.3):
        return ins, {"p": p} if r.flip(0.8) else {}
    if r.flip(0.2):
        return ins, {"p": p, "dtype": r.of(*FLOATS)}
    attrs = {"p": p, "dim": r.of(r.dims(s), r.dim(s)), "keepdim": r.of(True, False)}
    return ins, dict(attrs, **r.some(dtype=FLOATS) if r.flip(0.3) else {})


@call("linalg_vector_norm")
def _vector_norm(r):
    s, ins = one(r)
    return ins, r.some(ord=(2, 1, 0, 3, 0.5, -1, float("inf"), float("-inf")), dim=(r.dims(s), r.dim(s), []),
                       keepdim=(True, False), dtype=FLOATS if r.flip(0.3) else (None,))


@call("softmax", "log_softmax", "cumsum", "cumprod")
def _softmax(r):
    s, ins = one(r)
    return ins, dict(r.some(dtype=FLOATS) if r.flip(0.4) else {}, dim=r.dim(s))


@call("glu")
def _glu(r):
    s = r.shape(least=1)
    d = r.dim(s)
    s[d] = r.of(2, 4, 0, 3)
    return [T(s)], {"dim": d} if r.flip(0.8) or d not in (-1, len(s) - 1) else {}


# ---------------------------------------------------------------- order

@call("sort", "argsort")
def _sort(r):
    s, ins = one(r)
    return ins, dict(r.some(dim=(r.dim(s),), descending=(True, False)), stable=True)


@call("topk")
def _topk(r):
    s, ins = one(r)
    return ins, dict(r.some(dim=(r.dim(s),), largest=(True, False)), k=r.of(0, 1, 1, 2, 3))


@call("kthvalue")
def _kthvalue(r):
    s, ins = one(r)
    return ins, dict(r.some(dim=(r.dim(s),), keepdim=(True, False)), k=r.of(0, 1, 1, 2))


@call("_unique2")
def _unique2(r):
    _, ins = one(r)
    return ins, r.some(sorted=(True,), return_inverse=(True, False), return_counts=(True, False))


@call("unique_dim")
def _unique_dim(r):
    s, ins = one(r)
    return ins, dict(r.some(return_inverse=(True, False), return_counts=(True, False)), dim=r.dim(s))


# ---------------------------------------------------------------- indices

def index(shape, hi, lo=0, dtype=torch.int64):
    return T(shape, dtype, lo, hi)


def along(r, s):
    """A dimension and its size, which is 1 for a 0-dim operand."""
    d = r.dim(s)
    return d, s[d] if s else 1


@call("gather")
def _gather(r):
    s, ins = one(r)
    d, size = along(r, s)
    i = [x - 1 if x and r.flip(0.2) else x for x in s]
    if i:
        i[d] = r.of(0, 1, 2, 5)
    return ins + [index(i, size)], dict(r.some(sparse_grad=(False, True)), dim=d)


@call("take_along_dim")
def _take_along_dim(r):
    s, ins = one(r)
    d, size = along(r, s)
    i = [1 if r.flip(0.3) else x for x in s]
    if i:
        i[d] = r.of(0, 1, 2, 5)
    if r.flip(0.2):
        n = 1
        for x in s:
            n *= x
        return ins + [index([r.of(0, 1, 3)], n)], {}
    return ins + [index(i, size)], {"dim": d}


def scattered(r):
    s, ins = one(r)
    d, size = along(r, s)
    i = [x - 1 if x > 1 and r.flip(0.2) else x for x in s]
    if i and r.flip():
        i[d] = r.of(0, 1, 2, 4)
    src = [x + r.of(0, 0, 1) for x in i]
    return ins, d, index(i, size), T(src)


@call("scatter")
def _scatter(r):
    ins, d, i, src = scattered(r)
    i.shape = [min(x, 1) if k == d % len(i.shape) else x for k, x in enumerate(i.shape)]   # at most one source for each position
    attrs = {"dim": d}
    if r.flip(0.3):
        attrs["reduce"] = r.of("add", "multiply")
    return ins + [i, r.of(src, src, 2, 0.5)], attrs


@call("scatter_add")
def _scatter_add(r):
    ins, d, i, src = scattered(r)
    return ins + [i, src], {"dim": d}


@call("scatter_reduce")
def _scatter_reduce(r):
    ins, d, i, src = scattered(r)
    return ins + [i, src], dict(r.some(include_self=(True, False)), dim=d,
                                reduce=r.of("sum", "prod", "mean", "amax", "amin"))


@call("index_select")
def _index_select(r):
    s, ins = one(r)
    d, size = along(r, s)
    return ins + [index(r.of([], [0], [1], [3]), size, 0, r.of(torch.int64, torch.int32))], {"dim": d}


@call("index_add", "index_copy")
def _index_add(r):
    s, ins = one(r)
    d, size = along(r, s)
    n = r.of(0, 1, 1, 2)
    src = list(s)
    if src:
        src[d] = n
    i = index([] if r.flip(0.1) and n == 1 else [n], size)
    return ins + [i, T(src)], {"dim": d}


@call("index_fill")
def _index_fill(r):
    s, ins = one(r)
    d, size = along(r, s)
    return ins + [index(r.of([], [0], [1], [3]), size), r.of(2, 0.5, True, T([]), T([], r.other_dtype()))], {"dim": d}


@call("index")
def _index(r):
    s = r.shape(least=1)
    shapes, ins, k = r.broadcast(len(s)), [T(s)], 0
    while k < len(s):
        kind = r.of("no", "index", "index", "mask")
        if kind == "mask" and k + 1 < len(s) and r.flip():
            ins.append(T(s[k:k + 2], torch.bool))
            k += 2
            continue
        one_shape = [1 if x > 3 else x for x in shapes[k][-2:]]
        ins.append({"no": None, "mask": T(s[k:k + 1], torch.bool, 1, 2), "index": index(one_shape, s[k], -s[k])}[kind])
        k += 1
        if r.flip(0.3):
            break
    return ins, {}


@call("take")
def _take(r):
    s, ins = one(r)
    n = 1
    for x in s:
        n *= x
    return ins + [index(r.shape(r.of(0, 1, 2)), n, -n)], {}


@call("masked_select")
def _masked_select(r):
    a, b = r.broadcast(2)
    return [T(a), T(b, torch.bool)], {}


@call("embedding")
def _embedding(r):
    rows = r.of(1, 3, 5)
    w = [rows, r.of(0, 1, 4)]
    return [T(w), index(r.shape(r.of(0, 1, 2, 3)), rows, r.of(0, 0, -1), r.of(torch.int64, torch.int32))], r.some(
        padding_idx=(-1, 0, 1), sparse=(False, True))


@call("embedding_bag")
def _embedding_bag(r):
    rows, n = r.of(1, 3, 5), r.of(0, 1, 4, 6)
    kinds = (torch.int64, torch.int64, torch.int32)
    d = r.of(None, torch.float32, torch.float32, torch.float64, torch.float16)
    w, attrs = T([rows, r.of(0, 1, 4)], d), r.some(mode=(0, 1, 2), padding_idx=(0, -1, 9), scale_grad_by_freq=(False, False, True))
    if r.flip(0.3):
        shape, offsets = [r.size(), r.of(1, 2, 3)], []
    else:
        # 1.13 writes out of bounds if indices follow the last offset.
        shape, bags, how = [n], r.of(1, 1, 2, 4), r.of(True, True, True, "whole", "whole", False)
        offsets = [T([bags], r.of(*kinds), lo=0, hi=n + 1, rising=how)]
        attrs.update({"include_last_offset": True} if how == "whole" and (bags > 1 or n == 0) else {})
    scales = [T(shape, r.other_dtype(0.1) or d)] if r.flip(0.3) else []
    return [w, index(shape, rows, 0, r.of(*kinds))] + (offsets or [None] * bool(scales)) + scales, attrs


@call("one_hot")
def _one_hot(r):
    return [index(r.shape(r.of(0, 1, 2, 3)), 3)], {"num_classes": r.of(3, 4, -1)}


@call("repeat_interleave")
def _repeat_interleave(r):
    s, ins = one(r)
    d, size = along(r, s)
    how = r.of("int", "tensor", "flat", "alone")
    if how == "alone":
        return [index([r.of(0, 1, 3)], 4)], {}
    if how == "tensor":
        return ins + [index(r.of([1], [size]), 4)], {"dim": d}
    attrs = {"repeats": r.of(0, 1, 2, 3)}
    return ins, attrs if how == "flat" else dict(attrs, dim=d)


# ---------------------------------------------------------------- losses

@call("nll_loss", "cross_entropy_loss")
def _nll_loss(r):
    c = r.of(1, 2, 4)
    kind = r.of("one", "rows", "rows", "planes")
    s = {"one": [c], "rows": [r.size(), c], "planes": [r.size(), c, r.size()]}[kind]
    t = [x for k, x in enumerate(s) if k != (0 if kind == "one" else 1)]
    ins = [T(s), index(t, c)]
    if r.flip(0.4):
        ins.append(T([c], pos=True))
    return ins, r.some(reduction=(0, 1, 2), ignore_index=(-100, 0, 1))


@call("cross_entropy_loss")
def _cross_entropy(r):
    ins, attrs = _nll_loss(r)
    if r.flip(0.25):
        ins[1] = T(ins[0].shape, pos=True)
        attrs.pop("ignore_index", None)
    return ins, dict(attrs, **r.some(label_smoothing=(0.0, 0.1)) if r.flip(0.3) else {})



REDUCTION = (0, 1, 2)


def loss(name, operands=2, weights=0, **attrs):
    @call(name)
    def _loss(r):
        shapes = r.broadcast(operands) if name != "binary_cross_entropy" and r.flip(0.3) else [r.shape()] * operands
        ins = [T(s, lo=0, hi=1, plain=True) for s in shapes]
        if weights and r.flip(0.3):
            ins += [T(r.of(shapes[0], shapes[0][1:]), pos=True) for _ in range(r.of(1, weights))]
        return ins, r.some(reduction=REDUCTION, **attrs)


for name in "mse_loss l1_loss soft_margin_loss".split():
    loss(name)
loss("smooth_l1_loss", beta=(1.0, 0.5, 0.0, -1.0))
loss("huber_loss", delta=(1.0, 0.5, 0.0))
loss("hinge_embedding_loss", margin=(1.0, 0.5))
loss("margin_ranking_loss", operands=3, margin=(0.0, 0.5))
loss("triplet_margin_loss", operands=3, margin=(1.0, 0.5), p=(1.0, 2.0, 3.0), swap=(True, False))
loss("kl_div", log_target=(True, False))
loss("binary_cross_entropy", weights=1)
loss("binary_cross_entropy_with_logits", weights=2)


@call("poisson_nll_loss")
def _poisson_nll_loss(r):
    s = r.broadcast(2)
    return [T(x, pos=True) for x in s], dict(log_input=r.of(True, False), full=r.of(True, False), eps=1e-8,
                                             reduction=r.of(*REDUCTION))


@call("cosine_embedding_loss")
def _cosine_embedding_loss(r):
    s = r.shape(rank=r.of(1, 2, 2))
    return [T(s), T(s), T(s[:-1])], r.some(margin=(0.0, 0.5), reduction=REDUCTION)
