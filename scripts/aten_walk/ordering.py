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
    q = r.of(0.25, 0.5, 1.0, T([], pos=True), T([r.of(1, 2, 3)], pos=True))
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
    s, ins = one(r, 1)
    return ins, dict(r.some(spacing=(2, 0.5), edge_order=(1, 2)), **r.of({}, {"dim": [r.dim(s)]}, {"dim": [0, -1]}))


@call("masked_scatter")
def _masked_scatter(r):
    a, b = r.broadcast(2)
    n = 1
    for k in a + b:
        n *= k
    return [T(a), T(b, torch.bool), T([max(1, n)], r.other_dtype(0.05))], {}


@call("i0", "special_i0e", "special_i1", "special_i1e", "digamma", "special_log_ndtr")
def _special(r):
    return one(r)[1], {}
