"""Writes symbolic_views.json.gz: views, and ops that are a view at some sizes and a copy at others.

A case is a call whose operands and attributes depend on the symbols C and D; its answers are what PyTorch gives for
small sizes: shape, strides, offset and whether the result shares the operand's storage, or null where the call is
refused. Written with PyTorch 1.13.
"""
import gzip
import itertools
import json
import random

import torch

FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last,
           "channels_last_3d": torch.channels_last_3d, "preserve": torch.preserve_format}
SIZES = list(itertools.product(range(5), range(4)))  # of C and D
random.seed(7)
pick = random.choice
cases = []


def times(*factors):
    return "*".join("(%s)" % f for f in factors) or "1"


def packed(shape, order, grow=lambda s: s):
    """Strides of a dense value, the fastest dimension first in order."""
    strides = {d: times(*[grow(shape[e]) for e in order[:i]]) for i, d in enumerate(order)}
    return [strides[d] for d in range(len(shape))]


def operand():
    rank = pick([1, 2, 3, 3, 4, 4, 4, 5])
    shape = [pick(["C", "C", "D", "1", "2", "3", "4", "C*2", "C + 1"]) for _ in range(rank)]
    order = list(range(rank))[::-1]
    kind = random.randrange(6)
    if kind == 0 or rank < 4 and kind == 1:
        return shape, packed(shape, order, lambda s: "Max(1, %s)" % s), "0"
    if kind == 1 or rank >= 4 and kind == 2:
        return shape, packed(shape, [1, 4, 3, 2, 0] if rank == 5 else [1, 3, 2, 0]), pick(["0", "C"])
    if kind == 3:  # a slice of a dense value
        return shape, packed(shape, order, lambda s: "%s + 1" % s), pick(["0", "D"])
    if kind == 4:  # expanded
        strides = packed(shape, order)
        return shape, [pick([s, s, "0"]) for s in strides], "0"
    random.shuffle(order)
    return shape, packed(shape, order), "0"


def runs(shape):
    """The shape with runs of dimensions joined, in some of it with a -1."""
    out = []
    while shape:
        n = random.randint(1, min(3, len(shape)))
        out.append(times(*shape[:n]) if n > 1 else shape[0])
        shape = shape[n:]
    if random.randrange(2):
        out[random.randrange(len(out))] = -1
    if random.randrange(4) == 0:
        out.insert(random.randrange(len(out) + 1), 1)
    if random.randrange(4) == 0:
        random.shuffle(out)
    return out


def draw():
    shape, strides, offset = operand()
    n = len(shape)
    d, e = random.randrange(n), random.randrange(n)
    start, end = min(d, e), max(d, e)
    other = None
    op = pick(["reshape", "reshape", "flatten", "flatten", "view", "unflatten", "ravel", "contiguous", "to", "reshape_as",
               "view_as", "squeeze", "expand", "expand_as", "broadcast_to", "narrow", "slice", "select", "unfold", "chunk",
               "split", "unbind", "transpose", "permute", "unsqueeze", "diagonal", "type_as"])
    f = getattr(torch.Tensor, op, None)
    mf = pick(list(FORMATS)[:(1, 1, 1, 1, 2, 3)[n]] + ["contiguous"])
    if op in ("reshape", "view"):
        size = runs(shape)
        attrs, f = {"shape" if op == "reshape" else "size": size}, lambda x, a: getattr(x, op)(list(a.values())[0])
    elif op == "flatten":
        attrs, f = {"start_dim": start, "end_dim": end}, lambda x, a: torch.flatten(x, start, end)
    elif op == "unflatten":
        attrs = {"dim": d, "sizes": pick([[-1, 2], [2, -1], ["C", -1], [1, -1], [-1, "D"], [shape[d], 1]])}
        f = lambda x, a: x.unflatten(d, a["sizes"])
    elif op == "contiguous":
        attrs, f = {"memory_format": mf}, lambda x, a: x.contiguous(memory_format=FORMATS[mf])
    elif op == "to":
        mf = pick([mf, "preserve"])
        attrs, f = {"memory_format": mf}, lambda x, a: x.to(x.dtype, memory_format=FORMATS[mf])
    elif op in ("reshape_as", "view_as"):
        attrs, other = {}, [str(s) if s != -1 else times(*shape) for s in runs(shape)]
        f = lambda x, a, o: getattr(x, op)(o)
    elif op == "type_as":
        attrs, other = {}, ["C"]
        f = lambda x, a, o: x.type_as(o)
    elif op == "squeeze":
        attrs = pick([{}, {"dim": d}])
        f = lambda x, a: x.squeeze(**a)
    elif op in ("expand", "broadcast_to"):
        size = [pick(["C", 2][:1 + random.randrange(2)]) for _ in range(random.randrange(2))]
        size += [pick([s, s, "C", "D", -1 if op == "expand" else s]) for s in shape]
        attrs, f = {"size": size}, lambda x, a: torch.broadcast_to(x, a["size"]) if op == "broadcast_to" else x.expand(a["size"])
    elif op == "expand_as":
        attrs, other = {}, ["2"] * random.randrange(2) + [pick([s, s, "C"]) for s in shape]
        f = lambda x, a, o: x.expand_as(o)
    elif op == "narrow":
        attrs = {"dim": d, "start": pick([0, 1, "C - 1"]), "length": pick([1, "C", "D", 2])}
        f = lambda x, a: torch.narrow(x, d, a["start"], a["length"])
    elif op == "slice":
        attrs = {"dim": d, "start": pick([0, 1, "D", -1]), "end": pick(["C", 3, 2**40, -1]), "step": pick([1, 2])}
        f = lambda x, a: torch.ops.aten.slice(x, d, a["start"], a["end"], a["step"])
    elif op == "select":
        attrs = {"dim": d, "index": pick([0, -1, "D"])}
        f = lambda x, a: torch.select(x, d, a["index"])
    elif op == "unfold":
        attrs = {"dimension": d, "size": pick([1, 2, "D"]), "step": pick([1, 2])}
        f = lambda x, a: x.unfold(d, a["size"], a["step"])
    elif op == "chunk":
        attrs, f = {"chunks": pick([1, 2]), "dim": d}, lambda x, a: torch.chunk(x, a["chunks"], d)
    elif op == "split":
        attrs, f = {"split_size": pick([2, shape[d]]), "dim": d}, lambda x, a: torch.split(x, a["split_size"], d)
    elif op == "unbind":
        attrs, f = {"dim": d}, lambda x, a: torch.unbind(x, d)
    elif op == "transpose":
        attrs, f = {"dim0": d, "dim1": e}, lambda x, a: torch.transpose(x, d, e)
    elif op == "permute":
        dims = random.sample(range(n), n)
        attrs, f = {"dims": dims}, lambda x, a: torch.permute(x, dims)
    elif op == "unsqueeze":
        attrs, f = {"dim": d}, lambda x, a: torch.unsqueeze(x, d)
    elif op == "diagonal":
        attrs = {"offset": pick([0, 1]), "dim1": d, "dim2": e}
        f = lambda x, a: torch.diagonal(x, a["offset"], d, e)
    elif op == "ravel":
        attrs, f = {}, lambda x, a: torch.ravel(x)
    return op, attrs, shape, strides, offset, other, f


def plain(v):
    """Numbers where draw() has their digits."""
    if isinstance(v, list):
        return [plain(x) for x in v]
    return int(v) if isinstance(v, str) and v.isdigit() else v


def record():
    op, attrs, shape, strides, offset, other, f = draw()
    answers = []
    for c, d in SIZES:
        def at(v):
            if isinstance(v, list):
                return [at(x) for x in v]
            return eval(v, {"C": c, "D": d, "Max": max}) if isinstance(v, str) and not v.islower() else v

        sizes, steps, off = at(shape), at(strides), at(offset)
        x = torch.empty(0)
        x.set_(torch.zeros(4096).storage(), off, sizes, steps)
        try:
            y = f(x, {k: at(v) for k, v in attrs.items()}, *([torch.zeros(at(other))] if other is not None else []))
        except (RuntimeError, IndexError, ValueError, TypeError):
            answers.append(None)
            continue
        outs = list(y) if isinstance(y, (tuple, list)) else [y]
        answers.append([[list(t.shape), list(t.stride()), t.storage_offset(), t is x or t._base is x] for t in outs])
    c = {"op": op, "attrs": {k: plain(v) for k, v in attrs.items()}, "shape": shape, "strides": strides, "offset": offset, "answers": answers}
    if other is not None:
        c["other"] = other
    cases.append(c)


while len(cases) < 1500:
    record()
head = {"sizes": SIZES, "cases": cases}
with open(__file__.removesuffix(".py") + ".json.gz", "wb") as out:
    out.write(gzip.compress(json.dumps(head, separators=(",", ":")).encode(), 9, mtime=0))
shared = [len({a[0][3] for a in c["answers"] if a}) > 1 for c in cases]
print(len(cases), "cases, of which", sum(shared), "are views at some sizes and copies at others")
