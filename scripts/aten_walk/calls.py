"""Creates the calls of one op: a graph of independent nodes, its inputs, and PyTorch's results."""
import random

import numpy as np
import torch
import torch._prims_common as prims

import bind
from draw import DTYPES, NAME, Draw, T

# Errors of PyTorch 1.13 that exist only on the CPU and not in later versions.
GAPS = ("not implemented for 'Half'", "not implemented for 'BFloat16'", "not implemented for 'ComplexHalf'", "ComplexHalf", "vml_cpu",
        "not implemented for Half", "not implemented for BFloat16")


def flags(t):
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


def array(t):
    a = t.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    return a.view(torch.int16).numpy().view(np.uint16) if t.dtype == torch.bfloat16 else a.numpy()


def spell(v):
    """Converts a value to its JSON representation."""
    if isinstance(v, (list, tuple)):
        return [spell(x) for x in v]
    if isinstance(v, complex):
        return str(v)
    if isinstance(v, float) and (v != v or v in (float("inf"), float("-inf"))):
        return "NaN" if v != v else "Infinity" if v > 0 else "-Infinity"
    if isinstance(v, torch.dtype):
        return NAME[v]
    return v


class Calls:
    """The calls of one op."""

    def __init__(self, op):
        self.op, self.inputs, self.nodes, self.outputs = op, [], [], []
        self.data, self.values, self.errors, self.results, self.again = {}, {}, {}, {}, {}
        self.got = {}
        self.unbound = self.drawn = 0

    def graph(self):
        return {"version": 1, "name": self.op, "inputs": self.inputs, "nodes": self.nodes, "outputs": self.outputs}

    def add_input(self, t, names):
        name = "x%d" % len(self.inputs)
        entry = {"name": name, "dtype": NAME[t.dtype], "shape": list(t.shape), "strides": list(t.stride())}
        if t.storage_offset():
            entry["offset"] = t.storage_offset()
        self.inputs.append(entry)
        self.data[name] = array(t)
        names.append((name, t))
        return name

    def add(self, operands, attrs):
        """Adds a call; False if PyTorch has no such overload, or a known gap."""
        found = bind.find(self.op, operands, attrs)
        if found is None:
            self.unbound += 1
            return False
        f, first, args = found
        why, res = None, None
        try:
            res = f(*first, **args)
        except Exception as e:
            why = str(e).split("\n")[0]
            if any(g in why for g in GAPS):
                return False
        if res is not None:
            res = list(res) if isinstance(res, (tuple, list)) else [torch.tensor(res)] if isinstance(res, (bool, int)) else [res]
            if not res or any(not isinstance(t, torch.Tensor) or t.dtype not in NAME for t in res):
                return False
        self.again["n%d" % len(self.nodes)] = found
        self.put(operands, attrs, res, why)
        return True

    def exact(self, name):
        """The results of a call computed in float64, or None if PyTorch cannot compute them."""
        def wide(v):
            if isinstance(v, (list, tuple)):
                return [wide(x) for x in v]
            if isinstance(v, torch.dtype):
                return torch.float64 if v.is_floating_point else torch.complex128 if v.is_complex else v
            return v.to(wide(v.dtype)) if isinstance(v, torch.Tensor) else v
        f, first, args = self.again[name]
        try:
            res = f(*wide(first), **{k: wide(v) for k, v in args.items()})
        except Exception:
            return None
        return [array(t) for t in (res if isinstance(res, (tuple, list)) else [res])]

    def put(self, operands, attrs, res, why):
        at, named = len(self.inputs), []
        name = "n%d" % len(self.nodes)
        ins = [self.add_input(x, named) if isinstance(x, torch.Tensor) else spell(x) for x in operands]
        while ins and ins[-1] is None:
            ins.pop()
        node = {"name": name, "op": self.op, "inputs": ins}
        attrs = {k: spell(v) for k, v in attrs.items() if v is not None}
        if attrs:
            node["attrs"] = attrs
        outs = [name] if res is None or len(res) == 1 else ["%s_%d" % (name, k) for k in range(len(res))]
        if len(outs) > 1:
            node["outputs"] = outs
        self.nodes.append(node)
        if why is not None:
            self.errors[name] = why
            return
        for n, t in zip(outs, res):
            src = None
            if t.numel():
                src = next((k for k, x in named if x.numel() and x.storage().data_ptr() == t.storage().data_ptr()), None)
            self.values[n] = {"dtype": NAME[t.dtype], "shape": list(t.shape), "strides": list(t.stride()),
                              "offset": t.storage_offset(), "flags": flags(t), "alias_of": src}
            self.results[n] = array(t)
            self.outputs.append(n)


def drawn(op, make, which, seed, coarse=False):
    """The calls of an op with the given numbers, cycling through dtypes; coarse calls have few distinct elements."""
    c = Calls(op)
    c.drawn = len(which)
    kinds = list(DTYPES.values())
    for i in which:
        rng = random.Random("%s/%s/%d" % (op, seed, i))
        r = Draw(rng, kinds[i % len(kinds)], coarse)
        torch.manual_seed(i)
        try:
            operands, attrs = make(r)
        except (ValueError, IndexError, ZeroDivisionError, TypeError):
            continue
        ok = c.add([r.tensor(x) if isinstance(x, T) else x for x in operands], attrs)
        if not ok:
            continue
    return c
