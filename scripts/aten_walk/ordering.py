"""Draws calls of ops that rank, search, count and run along a dimension, and of special functions."""
import torch

from draw import T
from pointwise import call
from folding import one


@call("cummax", "cummin", "logcumsumexp")
def _running(r):
    s, ins = one(r)
    return ins, {"dim": r.dim(s)}


@call("median", "nanmedian")
def _median(r):
    s, ins = one(r)
    return ins, {} if r.flip(0.3) else dict(r.some(keepdim=(True, False)), dim=r.dim(s))


@call("mode")
def _mode(r):
    s, _ = one(r)
    return [T(s, lo=0, hi=3)], r.some(dim=(r.dim(s),), keepdim=(True, False))


@call("quantile", "nanquantile")
def _quantile(r):
    s, ins = one(r)
    q = r.of(0.25, 0.5, 1.0, 1.5, T([], lo=0, hi=2), T([r.of(1, 2, 3)], unit=True), T([r.of(1, 2)], r.other_dtype(0.1), unit=True))
    return ins + [q], r.some(dim=(r.dim(s),), keepdim=(True, False), interpolation=("linear", "lower", "higher", "midpoint", "nearest"))


@call("searchsorted")
def _searchsorted(r):
    n, lead = r.of(0, 1, 4, 7), r.shape(rank=r.of(0, 0, 1, 2))
    sequence, x = T(lead + [n], lo=0, hi=9), T((lead if lead else r.shape(rank=r.of(0, 1, 2))) + [r.size()], r.other_dtype(0.05), lo=0, hi=9)
    return [sequence, x if lead or r.flip(0.8) else 2], r.some(out_int32=(True, False), right=(True, False))


@call("bucketize")
def _bucketize(r):
    x, boundaries = T(r.shape(), lo=0, hi=9), T(r.of([4], [0], [1], [2, 3]), r.other_dtype(0.05), lo=0, hi=9)
    return [x if r.flip(0.9) else 3, boundaries], r.some(out_int32=(True, False), right=(True, False))


@call("histc")
def _histc(r):
    s, ins = one(r)
    return ins, dict(r.some(bins=(1, 4, 10)), **r.of({}, {"min": -1, "max": 1.5}, {"min": 2, "max": 1}, {"min": 1, "max": 1}))


@call("renorm")
def _renorm(r):
    s, ins = one(r, 1)
    return ins, {"p": r.of(2, 1, 0.5, 3.0), "dim": r.dim(s), "maxnorm": r.of(1, 0.25, 0)}


@call("gradient")
def _gradient(r):
    s = [r.of(2, 3, 4, 5) if r.flip(0.9) else r.size() for _ in r.shape(least=1)]
    ins, dims = [T(s)], r.of({}, {"dim": [r.dim(s)]}, {"dim": [0, -1]})
    if r.flip():  # coordinates; PyTorch crashes if there is one vector for several dimensions
        vectors = []
        for d in dims.get("dim", range(len(s))):
            dtype, shape = r.other_dtype() or r.dtype, [s[d]] if r.flip(0.95) else r.shape()
            rising = r.flip(0.8) and len(shape) == 1 and not dtype.is_complex
            vectors.append(T(shape, dtype, lo=0, hi=99, rising=rising))
        return ins + vectors, dict(r.some(edge_order=(1, 2)), **dims)
    steps = [r.of(2, 0.5, -1, 2j) for _ in dims.get("dim", s)]
    return ins, dict(r.some(spacing=(2, 0.5, 1j, steps, steps), edge_order=(1, 2)), **dims)


@call("masked_scatter")
def _masked_scatter(r):
    a, b = r.broadcast(2)
    n = 1
    for k in a + b:
        n *= k
    return [T(a), T(b, torch.bool), T([max(1, n)], r.other_dtype(0.05))], {}


@call("i0", "special_i0e", "special_i1", "special_i1e", "digamma", "special_log_ndtr", "special_ndtri")
def _special(r):
    return one(r)[1], {}


@call("bincount")
def _bincount(r):
    n = r.size()
    x = T([n] if r.flip(0.95) else r.shape(), r.of(None, torch.int64), lo=r.of(0, 0, 0, -1), hi=9)
    return [x] + r.of([], [], [T([n], r.of(None, torch.float32))]), r.some(minlength=(0, 3, 20))


@call("unique_consecutive")
def _unique_consecutive(r):
    s = r.shape()
    return [T(s, lo=0, hi=2)], r.some(return_inverse=(True, False), return_counts=(True, False), dim=(r.dim(s),))


@call("index_put")
def _index_put(r):
    s = r.shape(least=1)
    first = r.rng.randrange(len(s))
    count = r.rng.randrange(1, len(s) - first + 1)
    lead = r.shape(rank=r.of(1, 1, 2))
    ins = [None] * first
    for d in range(first, first + count):
        if r.flip(0.1):
            ins.append(None)
        elif r.flip(0.1):
            ins.append(T([s[d]], torch.bool))
        else:
            ins.append(T([1 if r.flip(0.2) else k for k in lead], torch.int64, lo=-s[d], hi=s[d]))
    whole = r.flip(0.3)
    values = T([] if whole else r.of([1], lead + s[first + count:], s[:first] + lead + s[first + count:]), r.other_dtype(0.05))
    return [T(s), values] + ins, r.some(accumulate=(True, False))


@call("select_scatter")
def _select_scatter(r):
    s = r.shape(least=1)
    d = r.dim(s)
    at = d % len(s)
    return [T(s), T(s[:at] + s[at + 1:], r.other_dtype(0.1))], {"dim": d, "index": r.of(0, 0, -1, 1)}


@call("slice_scatter")
def _slice_scatter(r):
    s = r.shape(least=1)
    d = r.dim(s)
    attrs = r.some(start=(0, 1, -2, 9), end=(1, 3, -1, 9), step=(1, 2))
    n = len(range(s[d])[attrs.get("start"):attrs.get("end"):attrs.get("step")])
    src = list(s)
    src[d] = n if r.flip(0.95) else n + 1
    return [T(s), T(src, r.other_dtype(0.1))], dict(attrs, dim=d)


@call("diagonal_scatter")
def _diagonal_scatter(r):
    s = r.shape(rank=r.of(2, 2, 3))
    k, (i, j) = r.of(0, 1, -1), r.rng.sample(range(len(s)), 2)
    n = max(min(s[i] + min(k, 0), s[j] - max(k, 0)), 0)
    return [T(s), T([m for d, m in enumerate(s) if d not in (i, j)] + [n], r.other_dtype(0.1))], {"offset": k, "dim1": i, "dim2": j}


@call("as_strided_scatter")
def _as_strided_scatter(r):
    s = r.shape(rank=r.of(1, 2, 3))
    size = r.shape(rank=r.of(0, 1, 2))
    steps = [r.of(1, 2, 3, 4, 0) for _ in size]
    if r.flip():
        steps.sort(reverse=True)
    return [T(s), T(size if r.flip(0.95) else size + [2], r.other_dtype(0.1))], dict(
        r.some(storage_offset=(0, 0, 1, 3)), size=size, stride=steps)
