"""Draws calls of ops that are sequences of other ops, and of views that split, join and broadcast."""
import torch

from draw import T
from pointwise import DT, call
from folding import one


@call("numpy_T", "mT", "mH", "matrix_H", "fliplr", "flipud", "msort", "isreal",
      "deg2rad", "rad2deg", "softsign", "tanhshrink", "diagflat", "corrcoef")
def _unary(r):
    return one(r)[1], {}


@call("atleast_1d", "atleast_2d", "atleast_3d")
def _atleast(r):
    return [T(r.shape(), r.other_dtype(0.2)) for _ in range(r.of(1, 1, 2, 3))], {}


@call("hsplit", "vsplit", "dsplit")
def _hsplit(r):
    s, ins = one(r)
    return ins, r.of({"sections": r.of(1, 2, 3, 0)}, {"indices": [r.of(-2, 0, 1, 2, 5) for _ in range(r.of(0, 1, 2))]})


@call("tensor_split")
def _tensor_split(r):
    ins, attrs = _hsplit(r)
    if r.flip(0.4):
        ins, attrs = ins + [r.of(T([], torch.int64, lo=0, hi=4), T([r.of(0, 1, 3)], r.of(torch.int64, torch.int64, torch.int32), lo=-3, hi=6))], {}
    return ins, dict(attrs, **r.some(dim=(r.dim(ins[0].shape),)))


@call("rot90")
def _rot90(r):
    s, ins = one(r, 1)
    return ins, r.some(k=(0, 1, 2, 3, -1, 7), dims=([r.dim(s), r.dim(s)],))


@call("narrow_copy")
def _narrow_copy(r):
    s, ins = one(r)
    return ins, {"dim": r.dim(s), "start": r.of(0, 0, 1, -1), "length": r.of(0, 1, 2)}


@call("diag")
def _diag(r):
    s = r.shape(rank=r.of(1, 1, 2, 2, 3))
    return [T(s)], r.some(diagonal=(0, 1, -1, 3))


@call("diag_embed")
def _diag_embed(r):
    s = r.shape(rank=r.of(1, 2, 3))
    return [T(s)], r.some(offset=(0, 1, -1, 2), dim1=(-2, 0, 1), dim2=(-1, 1, 0))


@call("new_zeros", "new_ones")
def _new(r):
    return [T(r.shape())], dict(r.some(dtype=DT), size=r.shape())


@call("new_full")
def _new_full(r):
    ins, attrs = _new(r)
    return ins, dict(attrs, fill_value=r.of(2, 0.5, True, -3))


@call("sum_to_size")
def _sum_to_size(r):
    s, ins = one(r)
    size = [1 if r.flip(0.3) else n for n in s]
    return ins, {"size": size[r.rng.randrange(len(s) + 1):]}


@call("broadcast_tensors")
def _broadcast(r):
    return [T(s, r.other_dtype()) for s in r.broadcast(r.of(1, 2, 3))], {}


@call("meshgrid")
def _meshgrid(r):
    return [T(r.shape(rank=r.of(0, 1, 1, 1)), r.other_dtype(0.05)) for _ in range(r.of(1, 2, 3))], r.some(indexing=("ij", "xy"))


@call("cartesian_prod")
def _cartesian(r):
    return [T(r.shape(rank=1), r.other_dtype(0.1)) for _ in range(r.of(1, 2, 3))], {}


@call("block_diag", "column_stack", "dstack")
def _stack(r):
    n = r.size()
    return [T(r.of([n], [n, r.size()], [n, r.size()], []), r.other_dtype(0.1)) for _ in range(r.of(1, 2, 3))], {}


@call("diff")
def _diff(r):
    s, ins = one(r)
    attrs = r.some(n=(0, 1, 2, 5), dim=(r.dim(s),))
    if s and r.flip(0.3):
        other = list(s)
        other[attrs.get("dim", -1)] = r.size()
        ins += [T(other)] if r.flip() else [None, T(other)]
    return ins, attrs


@call("trapezoid", "trapz", "cumulative_trapezoid")
def _trapezoid(r):
    s, ins = one(r)
    attrs = r.some(dim=(r.dim(s),))
    if r.flip():
        return ins + [T([s[attrs.get("dim", -1)]] if s and r.flip() else s)], attrs
    return ins, dict(attrs, **r.some(dx=(0.5, 2.0)))


@call("normalize")
def _normalize(r):
    s, ins = one(r)
    return ins, r.some(p=(2.0, 1.0, 3.0), dim=(r.dim(s),), eps=(1e-3,))


@call("softmin")
def _softmin(r):
    s, ins = one(r)
    return ins, dict(r.some(dtype=("float32", "float64")), dim=r.dim(s))


@call("cosine_similarity")
def _cosine_similarity(r):
    a, b = r.broadcast(2)
    return [T(a), T(b, r.other_dtype(0.1))], r.some(dim=(r.dim(a), -1), eps=(1e-3,))


@call("pairwise_distance")
def _pairwise_distance(r):
    a, b = r.broadcast(2)
    return [T(a), T(b)], r.some(p=(2.0, 1.0, 3.0), keepdim=(True, False), eps=(1e-3,))


@call("dist")
def _dist(r):
    a, b = r.broadcast(2)
    return [T(a), T(b)], r.some(p=(2, 1, 0, float("inf"), 3.0))


@call("cdist")
def _cdist(r):
    m = r.size()
    batch = r.shape(rank=r.of(0, 0, 1, 2))
    return [T(batch + [r.size(), m]), T(([] if r.flip(0.2) else batch) + [r.size(), m])], r.some(
        p=(2.0, 1.0, 0.0, 3.0, float("inf")), compute_mode=(None, 0, 1, 2))


@call("pdist")
def _pdist(r):
    return [T(r.shape(rank=r.of(2, 2, 2, 2, 1)))], r.some(p=(2.0, 1.0, 0.0, 3.0, float("inf")))


@call("cross", "linalg_cross")
def _cross(r):
    s = r.shape(least=1)
    d = r.dim(s)
    s[d] = 3
    other = [1 if r.flip(0.1) and i != d % len(s) else n for i, n in enumerate(s)]
    return [T(s), T(other, r.other_dtype(0.1))], {} if r.flip(0.3) else {"dim": d}


@call("linalg_vecdot")
def _vecdot(r):
    a, b = r.broadcast(2)
    return [T(a), T(b)], r.some(dim=(r.dim(a), -1))


@call("float_power")
def _float_power(r):
    a, b = r.broadcast(2)
    x, y = T(a, pos=True), T(b, r.other_dtype(), lo=0, hi=4)
    return r.of([x, y], [x, r.number()], [2.5, y]), {}


@call("ldexp")
def _ldexp(r):
    a, b = r.broadcast(2)
    return [T(a), T(b, lo=0, hi=4)], {}


@call("polar")
def _polar(r):
    a, b = r.broadcast(2)
    return [T(a), T(b, r.other_dtype(0.05))], {}


@call("isclose", "allclose")
def _isclose(r):
    a, b = r.broadcast(2)
    return [T(a, lo=0, hi=3), T(b, lo=0, hi=3)], r.some(rtol=(1e-5, 0.0, 0.5), atol=(1e-8, 0.0, 1.0), equal_nan=(True, False))


@call("equal")
def _equal(r):
    s = r.shape()
    return [T(s, lo=0, hi=2), T(r.of(s, s, s, s[1:]), lo=0, hi=2)], {}


@call("isin")
def _isin(r):
    x, y = T(r.shape(), lo=0, hi=5), T(r.shape(), r.other_dtype(0.2), lo=0, hi=5)
    return r.of([x, y], [x, y], [x, 2], [3, y]), r.some(assume_unique=(True, False), invert=(True, False))


@call("aminmax")
def _aminmax(r):
    s, ins = one(r)
    return ins, r.some(dim=(r.dim(s),), keepdim=(True, False))


@call("frexp")
def _frexp(r):
    return one(r)[1], {}


@call("count_nonzero")
def _count_nonzero(r):
    s, _ = one(r)
    return [T(s, lo=0, hi=2)], r.some(dim=(r.dim(s), r.dims(s)))


@call("nansum", "nanmean")
def _nansum(r):
    s, ins = one(r)
    return ins, r.some(dim=(r.dims(s), r.dim(s)), keepdim=(True, False), dtype=("float32", "float64", "int64"))


@call("cov")
def _cov(r):
    s = r.shape(rank=r.of(1, 2, 2, 2, 0, 3))
    ins = [T(s)]
    if r.flip(0.5):
        n = s[-1:] or [1]
        counts, weights = T(n, torch.int64, lo=1, hi=4), T(n, torch.float32, pos=True)
        ins += r.of([counts], [None, weights], [counts, weights])
    return ins, r.some(correction=(0, 1, 2))


@call("tensordot")
def _tensordot(r):
    a, b = r.shape(rank=r.of(1, 2, 3)), r.shape(rank=r.of(1, 2, 3))
    k = r.rng.randrange(0, min(len(a), len(b)) + 1)
    da, db = r.rng.sample(range(len(a)), k), r.rng.sample(range(len(b)), k)
    for i, j in zip(da, db):
        b[j] = a[i] if r.flip(0.95) else b[j]
    return [T(a), T(b)], {"dims_self": da, "dims_other": db}


@call("inner")
def _inner(r):
    a, b = r.shape(rank=r.of(0, 1, 2, 3)), r.shape(rank=r.of(0, 1, 2, 3))
    if a and b:
        b[-1] = a[-1]
    return [T(a), T(b)], {}


@call("vdot")
def _vdot(r):
    n = r.size()
    return [T([n]), T([n])], {}


@call("kron")
def _kron(r):
    return [T(r.shape(rank=r.of(0, 1, 2, 3))), T(r.shape(rank=r.of(0, 1, 2, 3)), r.other_dtype(0.1))], {}


SCALE = (0, 1, 2, 0.5)


@call("addmv")
def _addmv(r):
    n, m = r.size(), r.size()
    return [T(r.of([n], [n], [1], [])), T([n, m]), T([m])], r.some(beta=SCALE, alpha=SCALE)


@call("addr")
def _addr(r):
    n, m = r.size(), r.size()
    return [T(r.of([n, m], [n, m], [m], [1], [])), T([n]), T([m])], r.some(beta=SCALE, alpha=SCALE)


@call("addbmm")
def _addbmm(r):
    b, n, k, m = (r.size() for _ in range(4))
    return [T(r.of([n, m], [n, m], [m], [])), T([b, n, k]), T([b, k, m])], r.some(beta=SCALE, alpha=SCALE)


@call("mvlgamma")
def _mvlgamma(r):
    return [T(r.shape(), pos=True)], {"p": r.of(1, 2, 3, 0)}


@call("bilinear")
def _bilinear(r):
    lead, i, j, k = r.shape(rank=r.of(0, 1, 1, 2)), r.size(), r.size(), r.size()
    return [T(lead + [i], plain=True), T((lead if r.flip(0.95) else [7]) + [j], plain=True), T([k, i, j], plain=True)] + r.of(
        [], [T([k], plain=True)]), {}


@call("logspace")
def _logspace(r):
    return [], dict(r.some(dtype=DT, base=(2.0, 10.0, 0.5)), start=r.of(0, 1.5, -2.5, 3), end=r.of(5, 2.25, -1), steps=r.of(0, 1, 2, 5, 8))


@call("native_layer_norm")
def _native_layer_norm(r):
    s = r.shape(least=1)
    n = s[r.rng.randrange(len(s)):]
    return [T(s)] + r.of([None, None], [T(n), None], [T(n), T(n)], [None, T(n)]), {"eps": r.of(1e-5, 0.1), "normalized_shape": n}


@call("put")
def _put(r):
    s, ins = one(r)
    numel = 1
    for n in s:
        numel *= n
    at = r.shape()
    source = at if r.flip() else [k for k in at[::-1]]
    return ins + [T(at, torch.int64, lo=-numel, hi=numel), T(source, r.other_dtype(0.05))], r.some(accumulate=(True, False))


@call("index_reduce")
def _index_reduce(r):
    s, ins = one(r)
    d = r.dim(s)
    n = r.of(0, 1, 1, 2, 3)
    source = list(s)
    if source:
        source[d] = n
    at = T([] if r.flip(0.1) and n == 1 else [n], r.of(torch.int64, torch.int32), lo=0, hi=s[d] if s else 1)
    return ins + [at, T(source)], dict(r.some(include_self=(True, False)), dim=d, reduce=r.of("prod", "mean", "amax", "amin"))
