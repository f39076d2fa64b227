#!/usr/bin/python3
"""Random layout, dtype and value cases with the answers of a real PyTorch.

    apt-get install -y --no-install-recommends python3-torch python3-numpy
    /usr/bin/python3 torch_oracle.py FAMILY --seed S --cases N --out DIR [--values]

writes into DIR
    graph.json      one graph file, N independent nodes
    expected.json   {"values": {name: {dtype, shape, strides, offset, flags, alias_of}},
                     "errors": {name: "PyTorch's message"}}
    inputs.npz      (with --values) the graph's inputs, logical order (strides are in graph.json)
    outputs.npz     (with --values) the expected results, logical order

generate.py packs such folders for the tests; kernels/oracle_test.go tells how to run it on others.

Strides and offsets count elements, as in PyTorch. Ops, the order of their tensor operands and the
names of their attributes are those of aten's schema (native_functions.yaml).
"""
import argparse
import json
import os
import random
import warnings

import numpy as np
import torch
import torch._prims_common as prims

warnings.filterwarnings("ignore")
torch.set_num_threads(1)

DTYPES = {
    "bool": torch.bool, "uint8": torch.uint8, "int8": torch.int8, "int16": torch.int16,
    "int32": torch.int32, "int64": torch.int64, "float16": torch.float16,
    "bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64,
    "complex64": torch.complex64, "complex128": torch.complex128,
}
NAME = {v: k for k, v in DTYPES.items()}
FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last,
           "channels_last_3d": torch.channels_last_3d, "preserve": torch.preserve_format}


# ---------------------------------------------------------------- describing a tensor

def flags(t):
    """The layout predicates that hold, by PyTorch's own C++ answers where it gives them."""
    f = []
    if t.is_contiguous():
        f.append("contiguous")
    if t.dim() == 4 and t.is_contiguous(memory_format=torch.channels_last):
        f.append("channels_last")
    if t.dim() == 5 and t.is_contiguous(memory_format=torch.channels_last_3d):
        f.append("channels_last_3d")
    if f or prims.is_non_overlapping_and_dense(t):
        f.append("non_overlapping_and_dense")
    return f


def describe(t, alias_of=None):
    return {"dtype": NAME[t.dtype], "shape": list(t.shape), "strides": list(t.stride()),
            "offset": t.storage_offset(), "flags": flags(t), "alias_of": alias_of}


# ---------------------------------------------------------------- making tensors

class Case:
    """Collects inputs and nodes of one graph, and PyTorch's answers."""

    def __init__(self, rng, values):
        self.rng, self.values = rng, values
        self.graph = {"version": 1, "name": "oracle", "inputs": [], "nodes": [], "outputs": []}
        self.expected = {"values": {}, "errors": {}}
        self.in_data, self.out_data = {}, {}
        self.tensors = {}

    def fill(self, numel, dtype):
        r = np.random.default_rng(self.rng.randrange(1 << 60))
        if dtype == torch.bool:
            return torch.from_numpy(r.integers(0, 2, numel).astype(np.bool_))
        if dtype.is_floating_point or dtype.is_complex:
            base = torch.from_numpy(r.uniform(0.25, 2.0, numel) * r.choice([-1.0, 1.0], numel))
            return base.to(dtype)
        a = r.integers(1, 9, numel)                  # no zeros: what divides by one fails only when run
        if dtype != torch.uint8:
            a *= r.choice([-1, 1], numel)
        return torch.from_numpy(a).to(dtype)

    def input(self, shape, strides=None, offset=0, dtype=torch.float32):
        shape = list(shape)
        if strides is None:
            strides = list(torch.empty(shape, device="meta").stride())
        strides = list(strides)
        last = offset + sum((s - 1) * st for s, st in zip(shape, strides) if s > 0) + 1
        if any(s == 0 for s in shape):
            last = offset + 1
        t = torch.as_strided(self.fill(max(last, 1), dtype), shape, strides, offset)
        return self.add_input(t)

    def add_input(self, t):
        name = "x%d" % len(self.graph["inputs"])
        entry = {"name": name, "dtype": NAME[t.dtype], "shape": list(t.shape),
                 "strides": list(t.stride())}
        if t.storage_offset():
            entry["offset"] = t.storage_offset()
        self.graph["inputs"].append(entry)
        self.tensors[name] = t
        self.expected["values"][name] = describe(t)
        if self.values:
            a = t.clone(memory_format=torch.contiguous_format)
            self.in_data[name] = (a.view(torch.int16).numpy().view(np.uint16)
                                  if t.dtype == torch.bfloat16 else a.numpy())
        return name

    def node(self, op, inputs, attrs, fn, outs=1, alias=False):
        """Adds a node; fn(*tensors) is PyTorch's answer. Names in inputs are resolved."""
        name = "n%d" % len(self.graph["nodes"])
        entry = {"name": name, "op": op, "inputs": inputs}
        if attrs:
            entry["attrs"] = attrs
        names = [name]
        if outs > 1:
            names = ["%s_%d" % (name, i) for i in range(outs)]
            entry["outputs"] = names
        self.graph["nodes"].append(entry)
        args = [self.tensors[i] if isinstance(i, str) else i for i in inputs]
        try:
            res = fn(*args)
        except Exception as e:                       # PyTorch refuses the case: so must the project,
            why = str(e).split("\n")[0]              # but for gaps of PyTorch's own CPU kernels
            if "vml_cpu" in why or "ComplexHalf" in why or "ZeroDivision" in why:
                self.graph["nodes"].pop()
            else:
                self.expected["errors"][name] = why
            return None
        res = list(res) if isinstance(res, (tuple, list)) else [res]
        if any(t.dtype not in NAME for t in res):    # complex32, which the project has not
            self.graph["nodes"].pop()
            return None
        values = res
        if op == "gelu":                             # 1.13's oneDNN path reads past odd strides of size-1 dims
            values = [fn(args[0].double()).to(res[0].dtype)]
        for n, t, val in zip(names, res, values):
            src = None
            if alias or any(isinstance(i, str) and t.numel() and t.data_ptr() and
                            t.storage().data_ptr() == self.tensors[i].storage().data_ptr()
                            for i in inputs):
                src = next(i for i in inputs if isinstance(i, str))
            self.expected["values"][n] = describe(t, src)
            self.tensors[n] = t
            if self.values:
                a = val.clone(memory_format=torch.contiguous_format)
                self.out_data[n] = (a.view(torch.int16).numpy().view(np.uint16)
                                    if t.dtype == torch.bfloat16 else a.numpy())
                self.graph["outputs"].append(n)
        return names[0]


def rand_shape(rng, rank=None, sizes=(1, 1, 2, 2, 3, 4, 5)):
    rank = rng.choice([0, 1, 2, 3, 4, 4, 4, 5, 5, 6]) if rank is None else rank
    sizes = list(sizes) + ([0] if rng.random() < 0.04 else [])
    return [rng.choice(sizes) for _ in range(rank)]


def rand_layout(rng, shape, dense=False):
    """Strides and offset for a shape, drawn from the kinds that real programs make."""
    n = len(shape)
    kinds = ["contiguous", "contiguous", "permuted", "permuted"]
    if n == 4:
        kinds += ["channels_last"] * 4
    if n == 5:
        kinds += ["channels_last_3d"] * 4
    if not dense:
        kinds += ["sliced", "padded", "expanded", "odd_ones"]
    kind = rng.choice(kinds)
    meta = torch.empty(shape, device="meta")
    offset = rng.choice([0, 0, 0, 3])
    if kind in ("channels_last", "channels_last_3d"):
        return list(meta.to(memory_format=FORMATS[kind]).stride()), offset
    if kind == "contiguous":
        return list(meta.stride()), offset
    perm = list(range(n))
    rng.shuffle(perm)
    strides, step = [0] * n, 1
    for d in perm:
        if kind == "sliced" and rng.random() < 0.4:
            step *= 2
        strides[d] = step
        step *= max(shape[d], 1)
        if kind == "padded" and rng.random() < 0.5:
            step += rng.randrange(1, 3) * max(1, strides[d])
    if kind == "expanded":
        for d in range(n):
            if rng.random() < 0.4:
                strides[d] = 0
    if kind == "odd_ones":
        for d in range(n):
            if shape[d] == 1:
                strides[d] = rng.choice([0, 1, 7, 1000, strides[d]])
    return strides, offset


def broadcast_operands(rng, k):
    """k shapes that broadcast together."""
    full = rand_shape(rng)
    out = []
    for i in range(k):
        s = list(full)
        if rng.random() < 0.5:
            s = [1 if rng.random() < 0.3 else d for d in s]
        if rng.random() < 0.3 and s:
            s = s[rng.randrange(len(s)):]
        out.append(s)
    return out


# ---------------------------------------------------------------- families

def elementwise(c, cases):
    """Output strides of pointwise ops on 1 to 3 operands of any layout (the perm rule)."""
    two = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div,
           "maximum": torch.maximum, "minimum": torch.minimum, "atan2": torch.atan2,
           "lt": torch.lt, "eq": torch.eq}
    one = {"neg": torch.neg, "relu": torch.relu, "exp": torch.exp, "tanh": torch.tanh,
           "sigmoid": torch.sigmoid, "abs": torch.abs, "silu": torch.nn.functional.silu,
           "gelu": torch.nn.functional.gelu}
    three = {"addcmul": torch.addcmul, "lerp": torch.lerp}
    for _ in range(cases):
        rng = c.rng
        k = rng.choice([1, 2, 2, 2, 2, 3])
        op, fn = rng.choice(sorted({1: one, 2: two, 3: three}[k].items()))
        ins = []
        for s in broadcast_operands(rng, k):
            st, off = rand_layout(rng, s)
            ins.append(c.input(s, st, off))
        takes_number = op in ("add", "sub", "mul", "div", "lt", "eq")
        if takes_number and rng.random() < 0.15:     # a plain number: a 0-dim operand, so never one shape
            ins[1] = rng.choice([2, 0.5])
        elif k == 2 and rng.random() < 0.15:         # two dtypes: the cast operand's layout takes part
            s = broadcast_operands(rng, 2)
            st, off = rand_layout(rng, s[0])
            ins[0] = c.input(s[0], st, off, rng.choice([torch.int32, torch.float64, torch.int64]))
            st, off = rand_layout(rng, s[1])
            ins[1] = c.input(s[1], st, off)
        elif k == 2 and rng.random() < 0.05:         # one operand twice
            ins[1] = ins[0]
        if k == 3 and rng.random() < 0.3:
            st, off = rand_layout(rng, c.graph["inputs"][-1]["shape"])
            cond = c.input(c.graph["inputs"][-1]["shape"], st, off, torch.bool)
            c.node("where", [cond, ins[0], ins[1]], None, torch.where)
        else:
            c.node(op, ins, None, fn)


def pairs(c, cases):
    """The ambiguous corner: small rank-4 and rank-5 shapes full of ones, all layout pairs."""
    rng = c.rng
    for _ in range(cases):
        rank = rng.choice([4, 4, 4, 5])
        shape = rand_shape(rng, rank, (1, 1, 1, 2, 3))
        a = [1 if rng.random() < 0.25 else d for d in shape]
        b = [1 if rng.random() < 0.25 else d for d in shape]
        ins = []
        for s in (a, b):
            st, off = rand_layout(rng, s, dense=rng.random() < 0.7)
            ins.append(c.input(s, st, off))
        c.node("add", ins, None, torch.add)


def copies(c, cases):
    """contiguous / clone / to with a memory format: what is a no-op, and the strides of what is not."""
    rng = c.rng
    for _ in range(cases):
        shape = rand_shape(rng)
        st, off = rand_layout(rng, shape)
        x = c.input(shape, st, off)
        fmts = ["contiguous", "preserve"]
        if len(shape) == 4 or rng.random() < 0.05:
            fmts += ["channels_last"] * 2
        if len(shape) == 5 or rng.random() < 0.05:
            fmts += ["channels_last_3d"] * 2
        f = rng.choice(fmts)
        op = rng.choice(["contiguous", "clone", "to"])
        mf = FORMATS[f]
        if op == "contiguous":
            if f == "preserve":
                continue
            c.node("contiguous", [x], {"memory_format": f}, lambda t: t.contiguous(memory_format=mf))
        elif op == "clone":
            c.node("clone", [x], {"memory_format": f}, lambda t: t.clone(memory_format=mf))
        else:
            d = rng.choice(["float32", "float64", "float16"])
            c.node("to", [x], {"dtype": d, "memory_format": f},
                   lambda t: t.to(DTYPES[d], memory_format=mf))


def views(c, cases):
    """View ops on any layout: strides and offset, what must copy, and what is refused."""
    rng = c.rng
    for _ in range(cases):
        shape = rand_shape(rng)
        st, off = rand_layout(rng, shape)
        x = c.input(shape, st, off)
        n = len(shape)
        op = rng.choice(["permute", "transpose", "reshape", "view", "expand", "slice", "select",
                         "squeeze", "unsqueeze", "flatten", "unfold", "diagonal", "movedim", "split",
                         "as_strided"])
        dim = rng.randrange(-n, n) if n else 0
        if op == "permute":
            p = list(range(n))
            rng.shuffle(p)
            c.node(op, [x], {"dims": p}, lambda t: t.permute(p))
        elif op == "transpose" and n:
            d1 = rng.randrange(-n, n)
            c.node(op, [x], {"dim0": dim, "dim1": d1}, lambda t: t.transpose(dim, d1))
        elif op in ("reshape", "view"):
            numel = int(np.prod(shape)) if shape else 1
            new, left = [], numel
            while left > 1 and len(new) < 5:
                f = rng.choice([d for d in range(1, left + 1) if left % d == 0])
                new.append(f)
                left //= f
            new.append(left)
            rng.shuffle(new)
            if numel and rng.random() < 0.3:
                new[rng.randrange(len(new))] = -1
            if rng.random() < 0.06:
                new = new + [2]
            c.node(op, [x], {"shape" if op == "reshape" else "size": new}, lambda t: getattr(t, op)(new))
        elif op == "expand":
            lead = [rng.choice([1, 2, 3]) for _ in range(rng.choice([0, 0, 1, 2]))]
            new = lead + [rng.choice([d, -1]) if d != 1 else rng.choice([1, 3, -1]) for d in shape]
            c.node(op, [x], {"size": new}, lambda t: t.expand(new))
        elif op == "slice" and n:
            size = shape[dim]
            a, b, s = rng.randrange(-size - 1, size + 2), rng.randrange(-size - 1, size + 3), rng.choice([1, 1, 2, 3])
            c.node(op, [x], {"dim": dim, "start": a, "end": b, "step": s},
                   lambda t: torch.ops.aten.slice(t, dim, a, b, s))
        elif op == "select" and n:
            i = rng.randrange(-shape[dim] - 1, shape[dim] + 1)
            c.node(op, [x], {"dim": dim, "index": i}, lambda t: t.select(dim, i))
        elif op == "squeeze":
            if n and rng.random() < 0.6:
                c.node(op, [x], {"dim": dim}, lambda t: t.squeeze(dim))
            else:
                c.node(op, [x], None, lambda t: t.squeeze())
        elif op == "unsqueeze":
            d = rng.randrange(-n - 1, n + 1)
            c.node(op, [x], {"dim": d}, lambda t: t.unsqueeze(d))
        elif op == "flatten":
            a = rng.randrange(n) if n else 0
            b = rng.randrange(a, n) if n else -1
            c.node(op, [x], {"start_dim": a, "end_dim": b}, lambda t: t.flatten(a, b))
        elif op == "unfold" and n:
            size = rng.randrange(0, max(shape[dim], 1) + 2)
            step = rng.choice([1, 2])
            c.node(op, [x], {"dimension": dim, "size": size, "step": step}, lambda t: t.unfold(dim, size, step))
        elif op == "diagonal" and n >= 2:
            d2 = rng.choice([d for d in range(n) if d != dim % n])
            o = rng.choice([-1, 0, 1])
            c.node(op, [x], {"offset": o, "dim1": dim, "dim2": d2}, lambda t: t.diagonal(o, dim, d2))
        elif op == "movedim" and n:
            d = rng.randrange(-n, n)
            c.node(op, [x], {"source": dim, "destination": d}, lambda t: t.movedim(dim, d))
        elif op == "split" and n and shape[dim]:
            k = rng.randrange(1, shape[dim] + 1)
            outs = -(-shape[dim] // k)
            if outs > 1:
                c.node(op, [x], {"split_size": k, "dim": dim}, lambda t: t.split(k, dim), outs=outs)


def reductions(c, cases):
    """Result layout of reductions over any dims of any layout."""
    rng = c.rng
    for _ in range(cases):
        shape = rand_shape(rng)
        st, off = rand_layout(rng, shape)
        x = c.input(shape, st, off)
        n = len(shape)
        op = rng.choice(["sum", "mean", "amax", "amin", "argmax", "any", "prod", "var", "softmax", "cumsum"])
        keep = rng.random() < 0.5
        if op in ("argmax", "any", "prod", "softmax", "cumsum"):
            if not n:
                continue
            d = rng.randrange(-n, n)
            if op == "softmax":
                c.node(op, [x], {"dim": d}, lambda t: torch.softmax(t, d))
            elif op == "cumsum":
                c.node(op, [x], {"dim": d}, lambda t: torch.cumsum(t, d))
            else:
                c.node(op, [x], {"dim": d, "keepdim": keep}, lambda t: getattr(torch, op)(t, d, keepdim=keep))
        else:
            dims = sorted(rng.sample(range(n), rng.randrange(1, n + 1))) if n else []
            if not dims:
                continue
            c.node(op, [x], {"dim": dims, "keepdim": keep}, lambda t: getattr(torch, op)(t, dims, keepdim=keep))


def promotion(c, cases):
    """Result dtype of mixed operands: tensors, 0-dim tensors and plain numbers."""
    rng = c.rng
    ops = {"add": torch.add, "mul": torch.mul, "div": torch.div, "sub": torch.sub, "eq": torch.eq,
           "maximum": torch.maximum, "pow": torch.pow, "exp": torch.exp, "sum": torch.sum,
           "mean": torch.mean, "abs": torch.abs, "sqrt": torch.sqrt, "logical_and": torch.logical_and,
           "bitwise_and": torch.bitwise_and, "floor_divide": torch.floor_divide}
    for _ in range(cases):
        op, fn = rng.choice(sorted(ops.items()))
        k = 1 if op in ("exp", "sum", "mean", "abs", "sqrt") else 2
        ins = []
        for _ in range(k):
            dt = rng.choice(list(DTYPES.values()))
            ins.append(c.input(rng.choice([[2, 3], [2, 3], [3], []]), dtype=dt))
        if k == 2 and rng.random() < 0.25 and op not in ("maximum", "logical_and"):   # take tensors only
            ins[1] = rng.choice([2, 2.5, True])
        c.node(op, ins, None, lambda *a: fn(*a))


def nn(c, cases):
    """Layout that convolution, pooling, normalisation, resizing and joining hand on."""
    rng, F = c.rng, torch.nn.functional
    for _ in range(cases):
        op = rng.choice(["conv2d", "max_pool2d", "avg_pool2d", "batch_norm", "cat", "upsample_nearest2d",
                         "adaptive_avg_pool2d", "pad", "stack", "matmul", "linear", "layer_norm", "group_norm"])
        n, ch, h, w = rng.choice([1, 2]), rng.choice([1, 2, 4]), rng.choice([4, 5, 6]), rng.choice([4, 6, 7])
        if op in ("matmul", "linear"):
            r = rng.choice([2, 3, 4])
            a = [rng.choice([1, 2, 3]) for _ in range(r - 2)] + [rng.choice([2, 3]), 4]
            b = a[:-2] + [4, 5]
            sa, oa = rand_layout(rng, a)
            x = c.input(a, sa, oa)
            if op == "matmul":
                sb, ob = rand_layout(rng, b)
                c.node(op, [x, c.input(b, sb, ob)], None, torch.matmul)
            else:
                c.node(op, [x, c.input([5, 4]), c.input([5])], None, F.linear)
            continue
        shape = [n, ch, h, w]
        st, off = rand_layout(rng, shape, dense=True)
        x = c.input(shape, st, off)
        if op == "conv2d":
            k = rng.choice([1, 3])
            wst, _ = rand_layout(rng, [3, ch, k, k], dense=True)
            wt = c.input([3, ch, k, k], wst)
            s, p = rng.choice([1, 2]), rng.choice([0, 1])
            c.node(op, [x, wt], {"stride": [s, s], "padding": [p, p]}, lambda a, b: F.conv2d(a, b, None, s, p))
        elif op in ("max_pool2d", "avg_pool2d"):
            c.node(op, [x], {"kernel_size": [2, 2], "stride": [2, 2]}, lambda t: getattr(F, op)(t, 2, 2))
        elif op == "batch_norm":
            ps = [c.input([ch]) for _ in range(4)]   # weight, bias, running_mean, running_var
            c.tensors[ps[3]].abs_()
            if c.values:
                c.in_data[ps[3]] = np.abs(c.in_data[ps[3]])
            c.node(op, [x] + ps, {"eps": 1e-5}, lambda t, g, b, m, v: F.batch_norm(t, m, v, g, b, False, 0.1, 1e-5))
        elif op == "cat":
            st2, off2 = rand_layout(rng, shape, dense=True)
            y = c.input(shape, st2, off2)
            d = rng.randrange(4)
            c.node(op, [x, y], {"dim": d}, lambda a, b: torch.cat([a, b], d))
        elif op == "stack":
            st2, off2 = rand_layout(rng, shape, dense=True)
            y = c.input(shape, st2, off2)
            c.node(op, [x, y], {"dim": 1}, lambda a, b: torch.stack([a, b], 1))
        elif op == "upsample_nearest2d":
            c.node(op, [x], {"scale_factors": [2.0, 2.0]}, lambda t: F.interpolate(t, scale_factor=2.0, mode="nearest"))
        elif op == "adaptive_avg_pool2d":
            c.node(op, [x], {"output_size": [2, 2]}, lambda t: F.adaptive_avg_pool2d(t, 2))
        elif op == "pad":
            c.node(op, [x], {"pad": [1, 0, 2, 1], "value": 0.5}, lambda t: F.pad(t, [1, 0, 2, 1], value=0.5))
        elif op == "layer_norm":
            c.node(op, [x, c.input([h, w]), c.input([h, w])], {"normalized_shape": [h, w], "eps": 1e-5},
                   lambda t, g, b: F.layer_norm(t, [h, w], g, b, 1e-5))
        elif op == "group_norm":
            c.node(op, [x, c.input([ch]), c.input([ch])], {"num_groups": 1, "eps": 1e-5},
                   lambda t, g, b: F.group_norm(t, 1, g, b, 1e-5))


def broken(c, cases):
    """Shapes that do not broadcast, formats of the wrong rank, views that cannot be: all must be refused."""
    rng = c.rng
    for _ in range(cases):
        kind = rng.choice(["broadcast", "rank", "view", "permute", "cat"])
        if kind == "broadcast":
            s = rand_shape(rng, rng.choice([1, 2, 3, 4]), (2, 3, 4, 5))
            t = list(s)
            t[rng.randrange(len(t))] += 1
            c.node("add", [c.input(s), c.input(t)], None, torch.add)
        elif kind == "rank":
            s = rand_shape(rng, rng.choice([2, 3, 5]), (2, 3))
            c.node("contiguous", [c.input(s)], {"memory_format": "channels_last"},
                   lambda t: t.contiguous(memory_format=torch.channels_last))
        elif kind == "view":
            c.node("view", [c.input([4, 6], [1, 4])], {"size": [24]}, lambda t: t.view(24))
        elif kind == "permute":
            c.node("permute", [c.input([2, 3, 4])], {"dims": [0, 0, 1]}, lambda t: t.permute(0, 0, 1))
        else:
            c.node("cat", [c.input([2, 3]), c.input([2, 4])], {"dim": 0}, lambda a, b: torch.cat([a, b], 0))


FAMILIES = {f.__name__: f for f in
            (elementwise, pairs, copies, views, reductions, promotion, nn, broken)}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("family", choices=sorted(FAMILIES))
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--cases", type=int, default=500)
    ap.add_argument("--out", required=True)
    ap.add_argument("--values", action="store_true", help="also write inputs.npz and outputs.npz")
    a = ap.parse_args()
    c = Case(random.Random("%s/%d" % (a.family, a.seed)), a.values)
    FAMILIES[a.family](c, a.cases)
    if not a.values:
        c.graph["outputs"] = [n for n in c.expected["values"] if n.startswith("n")]
    os.makedirs(a.out, exist_ok=True)
    with open(os.path.join(a.out, "graph.json"), "w") as f:
        json.dump(c.graph, f, indent=None, separators=(",", ":"))
    with open(os.path.join(a.out, "expected.json"), "w") as f:
        json.dump(c.expected, f, indent=None, separators=(",", ":"))
    if a.values:
        np.savez(os.path.join(a.out, "inputs.npz"), **c.in_data)
        np.savez(os.path.join(a.out, "outputs.npz"), **c.out_data)
    print("%s: %d nodes, %d refused by PyTorch" % (a.family, len(c.graph["nodes"]), len(c.expected["errors"])))


if __name__ == "__main__":
    main()
