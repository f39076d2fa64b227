#!/usr/bin/python3
"""Writes the vectors of package tensor's tests from real PyTorch and numpy.

Run it without arguments in any directory; it rewrites the JSON files beside itself. It
needs PyTorch 1.13 or newer. The seeds are fixed, so that a second run changes nothing.
"""
import base64
import hashlib
import itertools
import json
import os
import random
import warnings

import numpy as np
import torch

warnings.simplefilter("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
         "complex64", "complex128", "bool", "bfloat16"]
DTYPES = {n: getattr(torch, n) for n in NAMES}


def name_of(dtype):
    n = str(dtype).replace("torch.", "")
    return "complex64" if n == "complex32" else n   # this project has no complex32


def write(name, data):
    """One row a line: a change of the vectors shows as such in a diff."""
    with open(os.path.join(HERE, name), "w") as f:
        rows = [json.dumps(r, separators=(",", ":")) for r in data]
        f.write("[\n" + ",\n".join(rows) + "\n]\n")


def layout(rng, shape):
    """Random strides: permuted dense, with gaps, expanded or overlapping; and an offset."""
    order = list(range(len(shape)))
    rng.shuffle(order)
    if rng.random() < 0.35:
        order = list(range(len(shape)))[::-1]
    st, step = [0] * len(shape), 1
    for d in order:
        st[d] = step
        step *= max(shape[d], 1)
        if rng.random() < 0.12:
            step *= 2
    for d, s in enumerate(shape):
        if rng.random() < 0.1:
            st[d] = 0
        if s <= 1 and rng.random() < 0.3:
            st[d] = rng.choice([1, 2, 3, 7, 24])
    return st, rng.choice([0, 0, 0, 1, 5])


def shape_of(rng, rank=None):
    rank = rng.choice([0, 1, 2, 3, 3, 4, 4, 5]) if rank is None else rank
    return [rng.choice([1, 1, 2, 2, 3, 4, 4, 6, 0] if rng.random() < 0.25 else [1, 2, 3, 4]) for _ in range(rank)]


def value(dtype, shape, strides, offset):
    n = offset + 1 + sum((s - 1) * t for s, t in zip(shape, strides)) if all(shape) else 0
    base = torch.zeros(max(n, 0) + 3, dtype=DTYPES[dtype])
    return torch.as_strided(base, shape, strides, offset), base.numel()


def apply(op, t, a):
    if op == "slice":
        return torch.ops.aten.slice(t, a["dim"], a["start"], a["end"], a["step"])
    if op == "squeeze":
        return t.squeeze(a["dim"]) if "dim" in a else t.squeeze()
    if op == "split_sizes":
        return t.split(a["sizes"], a["dim"])
    if op == "broadcast":
        return torch.empty(a["a"], device="meta") + torch.empty(a["b"], device="meta")
    return getattr(t, op)(*a.values())


def row(op, dtype, shape, st, off, args):
    t, storage = value(dtype, shape, st, off)
    r = {"op": op, "dtype": dtype, "shape": shape, "strides": st, "offset": off, "storage": storage, "args": args}
    try:
        out = apply(op, t, args)
        outs = out if isinstance(out, (tuple, list)) else [out]
        r["out"] = [[list(o.shape), list(o.stride()), o.storage_offset()] for o in outs]
    except Exception as e:
        r["err"] = str(e).split("\nException")[0]
    return r


def view_args(rng, op, shape):
    n = len(shape)
    lo, hi = (-n - 1, n + 1) if n else (-2, 2)
    dim = lambda: rng.randrange(lo, hi) if rng.random() < 0.15 else rng.randrange(-max(n, 1), max(n, 1))
    size = lambda d: shape[d] if n and -n <= d < n else 1
    if op == "permute":
        p = [rng.choice([d, d - n]) for d in rng.sample(range(n), n)]
        if rng.random() < 0.1:
            p = p + [0] if rng.random() < 0.5 or not p else [p[-1]] + p[1:]
        return {"dims": p}
    if op == "transpose":
        return {"dim0": dim(), "dim1": dim()}
    if op == "movedim":
        k = rng.randrange(0, n + 1)
        src, dst = rng.sample(range(n), k), rng.sample(range(-n, 0), k)
        if k and rng.random() < 0.15:
            dst = dst[1:] if rng.random() < 0.5 else [dst[-1]] * k
        return {"source": src, "destination": dst}
    if op == "expand":
        new = [rng.choice([1, 2, 3, 0, -1] if rng.random() < 0.1 else [1, 2]) for _ in range(rng.choice([0, 0, 1, 2]))]
        return {"size": new + [rng.choice([d, -1]) if d != 1 else rng.choice([1, 3, -1, 0]) if rng.random() < 0.95 else 7 for d in shape]}
    if op == "view":
        left, new = int(np.prod(shape)) if shape else 1, []
        zero = left == 0
        left = left or rng.choice([1, 2, 6])
        while left > 1 and len(new) < 5:
            f = rng.choice([d for d in range(1, left + 1) if left % d == 0])
            new.append(f)
            left //= f
        new += [left] + [1] * rng.choice([0, 0, 1])
        new += [0] if zero else []
        rng.shuffle(new)
        if rng.random() < 0.3:
            new[rng.randrange(len(new))] = -1
        if rng.random() < 0.06:
            new += [rng.choice([2, -1, -2, 0])]
        return {"size": list(shape) if rng.random() < 0.08 else new}
    if op == "slice":
        d = dim()
        s = size(d)
        pick = lambda: rng.choice([None, rng.randrange(-s - 2, s + 3), rng.randrange(-s - 1, s + 2)])
        return {"dim": d, "start": pick(), "end": pick(), "step": rng.choice([1, 1, 2, 3, 0])}
    if op == "select":
        d = dim()
        return {"dim": d, "index": rng.randrange(-size(d) - 1, size(d) + 1)}
    if op == "squeeze":
        return {"dim": dim()} if rng.random() < 0.6 else {}
    if op == "unsqueeze":
        return {"dim": rng.randrange(-n - 2, n + 2)}
    if op == "flatten":
        return {"start_dim": dim(), "end_dim": dim()}
    if op == "unfold":
        d = dim()
        return {"dimension": d, "size": rng.randrange(0, size(d) + 2), "step": rng.choice([1, 2, 3, 0])}
    if op == "diagonal":
        return {"offset": rng.randrange(-3, 4), "dim1": dim(), "dim2": dim()}
    if op == "split":
        return {"split_size": rng.randrange(-1, 5), "dim": dim()}
    if op == "chunk":
        return {"chunks": rng.randrange(0, 5), "dim": dim()}
    if op == "narrow":
        d = dim()
        return {"dim": d, "start": rng.randrange(-size(d) - 1, size(d) + 2), "length": rng.randrange(-1, size(d) + 1)}
    if op == "split_sizes":
        d = dim()
        left, sizes = size(d), []
        while left:
            sizes.append(rng.randrange(1, left + 1))
            left -= sizes[-1]
        if rng.random() < 0.15:
            sizes.append(rng.choice([0, 1, -1]))
        return {"sizes": sizes, "dim": d}
    if op == "as_strided":
        r = rng.randrange(0, 4)
        bad = rng.random() < 0.1
        return {"size": [rng.randrange(-1 if bad else 0, 4) for _ in range(r)],
                "stride": [rng.randrange(-1 if bad else 0, 4) for _ in range(r + (bad and rng.random() < 0.4))],
                "offset": rng.randrange(-1 if bad else 0, 8)}
    a = shape_of(rng)
    b = [rng.choice([d, d, d, 1]) if rng.random() < 0.95 else d + 1 for d in a[rng.randrange(0, len(a) + 1):]]
    return {"a": a, "b": b} if rng.random() < 0.5 else {"a": b, "b": a}


OPS = ["permute", "transpose", "movedim", "expand", "view", "view", "view", "slice", "slice", "select", "squeeze",
       "unsqueeze", "flatten", "unfold", "diagonal", "split", "chunk", "narrow", "split_sizes", "as_strided", "broadcast"]

BIG = 1 << 62
FIXED = [("expand", [1, 3], {"size": [-3, 3]}), ("expand", [2], {"size": []}), ("expand", [], {"size": [-1]}),
         ("expand", [], {"size": [1, 0]}), ("expand", [2, 3, 4], {"size": [-1, 2, 3, 4]}),
         ("view", [2, 3, 4], {"size": [BIG, 4]}), ("view", [2, 0, 3], {"size": [0, -1]}), ("view", [2, 3], {"size": [-1, -1]}),
         ("slice", [2, 3], {"dim": 1, "start": BIG, "end": 2 * BIG - 1, "step": 2}),
         ("diagonal", [2, 3], {"offset": BIG, "dim1": 0, "dim2": 1}),
         ("diagonal", [2, 3], {"offset": -2 * BIG, "dim1": 0, "dim2": 1}),
         ("chunk", [2, 3], {"chunks": BIG, "dim": 1}), ("narrow", [2, 3], {"dim": 1, "start": 0, "length": 2 * BIG - 1}),
         ("split", [2, 3], {"split_size": 2 * BIG - 1, "dim": 1}),
         ("as_strided", [4], {"size": [5], "stride": [BIG], "offset": 0}),
         ("as_strided", [4], {"size": [1, 0], "stride": [9, 9], "offset": 99})]


def views():
    rng = random.Random("views")
    rows = []
    for op, shape, args in FIXED:
        rows.append(row(op, "float32", shape, list(torch.empty(shape).stride()), 0, args))
    # Without elements the strides of an equal shape stay, odd as they may be.
    rows.append(row("view", "float32", [2, 0, 3], [7, 5, 2], 0, {"size": [2, 0, 3]}))
    rows.append(row("view", "float32", [2, 0, 3], [7, 5, 2], 0, {"size": [2, 3, 0]}))
    while len(rows) < 760:
        op = rng.choice(OPS)
        shape = shape_of(rng)
        st, off = layout(rng, shape)
        rows.append(row(op, rng.choice(NAMES + ["float32"] * 20), shape, st, off, view_args(rng, op, shape)))
    write("views.json", rows)


def resembles(x):
    """suggest_memory_format by way of an operator that gives its result that format."""
    up = {4: torch.ops.aten.upsample_nearest2d, 5: torch.ops.aten.upsample_nearest3d}.get(x.dim())
    if up is None or 0 in x.shape[1:]:
        return None
    if x.dim() == 4:
        out = up(x, [2, 2], None, None)
        return "channels_last" if out.stride(1) == 1 else "contiguous"
    out = up(x, [2, 2, 2], None, None, None)
    return "channels_last_3d" if out.stride(1) == 1 else "contiguous"


def formats():
    rng = random.Random("formats")
    rows = []
    fixed = [([3, 4], [1, 3]), ([4, 2, 3], [8, 3, 1]), ([1, 1, 1, 1], [1, 1, 1, 1]), ([2, 1, 1, 1], [1, 1, 1, 1]),
             ([2, 4, 1, 1], [4, 1, 4, 4]), ([2, 4, 1, 1], [4, 1, 1, 1]), ([2, 1, 3, 4], [12, 1, 4, 1]),
             ([2, 1, 3, 4], [12, 12, 4, 1]), ([1, 3, 4, 4], [48, 1, 12, 3]), ([0, 3, 2, 2], [12, 1, 6, 3])]
    while len(rows) < 420:
        if fixed:
            shape, st = fixed.pop(0)
        else:
            shape = shape_of(rng, rng.choice([0, 1, 2, 3, 4, 4, 4, 4, 5, 5]))
            st, _ = layout(rng, shape)
            if len(shape) in (4, 5) and all(shape) and rng.random() < 0.5:
                f = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
                t = torch.empty(shape).contiguous(memory_format=f)
                st = [s if rng.random() < 0.9 else rng.choice([0, 1, s * 2]) for s in t.stride()]
        t, _ = value("float32", shape, st, 0)
        is_ = lambda rank, f: len(shape) == rank and t.is_contiguous(memory_format=f)
        rows.append({"shape": shape, "strides": st,
                     "c": t.is_contiguous(), "cl": is_(4, torch.channels_last), "cl3": is_(5, torch.channels_last_3d),
                     "like": list(torch.empty_like(t).stride()), "suggest": resembles(t)})
    write("formats.json", rows)


def suggest():
    """suggest_memory_format of all small sizes in all orders of dimensions, and in the strides of channels-last, by way
    of an operator that takes sizes of 0. A row has the places of the values for which it is channels-last."""
    def dense(shape, order):
        st, step = [0] * len(shape), 1
        for d in order:
            st[d] = step
            step *= max(1, shape[d])
        return st

    rows = []
    for rank, sizes, f in (4, 4, torch.channels_last), (5, 3, torch.channels_last_3d):
        storage, last, at = torch.empty(10 ** 4), [], 0
        for shape in itertools.product(range(sizes), repeat=rank):
            layouts = [dense(shape, order) for order in itertools.permutations(range(rank))]
            for st in layouts + [torch.empty(shape, memory_format=f).stride()]:
                t = storage.as_strided(shape, st)
                if torch.constant_pad_nd(t, [1] * (2 * rank)).stride(1) == 1:
                    last.append(at)
                at += 1
        rows.append({"rank": rank, "sizes": sizes, "values": at, "channels_last": last})
    write("suggest.json", rows)


def guards():
    """The guards that PyTorch's ShapeEnv records where compute_contiguous of TensorImpl runs on unknown sizes and
    strides. It takes no size for 0 or 1, and so would not ask; here it may."""
    import sympy
    from torch.fx.experimental import symbolic_shapes

    class Unspecialised(symbolic_shapes.ShapeEnv):
        def _maybe_evaluate_static(self, expr):
            return None if expr.free_symbols else expr

    def row(shape, strides):
        env = Unspecialised()

        def number(n):
            return symbolic_shapes.PySymInt(sympy.Integer(n), env)

        def symbol(name, n):
            s = sympy.Symbol(name, integer=True, nonnegative=True)
            env.var_to_val[s] = sympy.Integer(n)
            return symbolic_shapes.PySymInt(s, env)

        x = [symbol(f"x{i + 1}", n) for i, n in enumerate(shape)]
        y = [symbol(f"y{i + 1}", n) for i, n in enumerate(strides)]

        def contiguous():
            numel = x[0]
            for n in x[1:]:
                numel = numel * n
            if bool(numel == number(0)):
                return True
            step = number(1)
            for size, stride in zip(reversed(x), reversed(y)):
                if not bool(size == number(1)):
                    if not bool(stride == step):
                        return False
                    step = size * step
            return True

        answer = contiguous()
        return {"shape": shape, "strides": strides, "contiguous": answer,
                "guards": [str(g if v else sympy.Ne(g.lhs, g.rhs)) for g, v, _ in env.guards]}

    rng = random.Random("guards")
    rows = [row([3, 1, 5], [5, 99999, 1])]
    while len(rows) < 60:
        shape = [rng.choice([1, 2, 3, 4, 5, 7]) for _ in range(rng.choice([2, 3, 4]))]
        strides = list(torch.empty(shape).stride())
        if rng.random() < 0.5:
            strides[rng.randrange(len(shape))] += rng.choice([1, 8])
        rows.append(row(shape, strides))
    write("guards.json", rows)


SCALARS = {"bool": True, "int": 2, "float": 2.5, "complex": 1j}


def promotion():
    """Operands are d:, z: (0-dim) or n: (number) and a name."""
    def operand(o):
        k, n = o.split(":")
        return SCALARS[n] if k == "n" else torch.zeros([2] if k == "d" else [], dtype=DTYPES[n])

    every = ["d:" + n for n in NAMES] + ["z:" + n for n in NAMES] + ["n:" + n for n in SCALARS]
    rows = []
    for i, a in enumerate(every):
        for b in every[:i + 1]:
            if a[0] == "n" and b[0] == "n":
                want = torch.result_type(SCALARS[a[2:]], SCALARS[b[2:]])
            else:
                want = torch.result_type(operand(a), operand(b))
            rows.append([a, b, name_of(want)])
    write("promotion.json", rows)
    write("cancast.json", [[f, "".join("01"[torch.can_cast(DTYPES[f], DTYPES[t])] for t in NAMES)] for f in NAMES])


ALL = NAMES + ["uint16", "uint32", "uint64"]


def raw(a):
    if isinstance(a, torch.Tensor):
        a = a.view(torch.int16).numpy() if a.dtype == torch.bfloat16 else a.numpy()
    return base64.b64encode(np.ascontiguousarray(a).tobytes()).decode()


def source(n):
    """Values that every dtype can hold after truncation, with fractions and signs where n has them."""
    base = [0, 1, 2, 3, 7, 60, 100, 127]
    if n in ("uint8", "uint16", "uint32", "uint64"):
        v = base
    elif n == "bool":
        v = [0, 1]
    elif n.startswith("int"):
        v = base + [-1, -2, -100, -128]
    else:
        v = base + [0.5, 1.5, 0.1, 2.75, 99.9, -0.0, -0.25, -1.75, -100.5, 1 / 3, -2 / 3, 0.0009765625]
        if n.startswith("complex"):
            v = v + [0j, 1j, 2 + 3j, -0.5 - 0.25j, 1 / 3 + 2j / 3, 0.1j]
    return v


def convert():
    rows = []
    for s in ALL:
        vals = source(s)
        bare = s.startswith("uint") and s != "uint8"
        src = np.array(vals, dtype=s) if bare else torch.tensor(vals, dtype=DTYPES[s])
        for d in ALL:
            to_bare = d.startswith("uint") and d != "uint8"
            if d == "bool" and s.startswith("complex"):
                out = src != 0   # PyTorch 1.13 looked at the real part alone; PyTorch 2 does not
            elif not bare and not to_bare:
                out = src.to(DTYPES[d])
            elif bare and not to_bare:
                out = torch.from_numpy(src.astype(np.float64)).to(DTYPES[d])
            else:
                a = src if bare else src.float().numpy() if s == "bfloat16" else src.numpy()
                if a.dtype.kind in "fc":   # negative values have no defined unsigned form
                    a = np.where(a.real < 0, np.zeros_like(a), a)
                out = a.real.astype(d) if a.dtype.kind == "c" else a.astype(d)
            rows.append([s, d, raw(src), raw(out)])
    write("convert.json", rows)


def halves():
    rng = np.random.RandomState(7)
    bits = np.arange(1 << 16, dtype=np.uint16)

    def digest(f):
        f = f.copy()
        u = f.view(np.uint32)
        u[np.isnan(f)] = 0x7fc00000
        return hashlib.sha256(u.tobytes()).hexdigest()

    half = torch.from_numpy(bits.view(np.float16).copy()).float().numpy()
    brain = torch.from_numpy(bits.view(np.int16).copy()).view(torch.bfloat16).float().numpy()
    u = rng.randint(0, 1 << 32, 700, dtype=np.uint64).astype(np.uint32)
    small = np.concatenate([half[rng.randint(0, 1 << 16, 300)], brain[rng.randint(0, 1 << 16, 200)]]).view(np.uint32)
    half_steps = small + rng.choice([0, 1, 0xfff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001], len(small)).astype(np.uint32)
    edge = np.array([65504, 65519.996, 65520, 65536, 6.1e-5, 5.96e-8, 2.98e-8, 2.981e-8, 8.9e-8, -2.98e-8, 1e38, 3.4e38,
                     0.0, -0.0, np.inf, -np.inf], np.float32).view(np.uint32)
    f = np.concatenate([u, half_steps, edge]).view(np.float32)
    f = f[~np.isnan(f)]
    t = torch.from_numpy(f.copy())
    write("halves.json", [{"half_sha256": digest(half), "brain_sha256": digest(brain), "floats": raw(f),
                           "half": raw(t.half()), "brain": raw(t.bfloat16())}])


if __name__ == "__main__":
    views()
    formats()
    suggest()
    guards()
    promotion()
    convert()
    halves()
