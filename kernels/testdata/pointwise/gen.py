#!/usr/bin/python3
"""Writes PyTorch's answers for every pointwise op: dtypes, layouts, refusals and values.

    /usr/bin/python3 gen.py [DIR]

graph.json.gz and inputs.npz are as ../oracle/torch_oracle.py writes them. expected.json.gz has the
meta of each result, as tensor.Meta prints it, and each refusal. outputs.npz holds one flat
array a dtype: the results, each in logical order, in the order of nodes.
"""
import gzip
import json
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../oracle"))
import numpy as np
import torch
import torch.nn.functional as F
import torch_oracle as oracle

SPECIAL = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 0.5, 1.5, 2.5, -0.5, 1.0, -1.0, 3.25]


class Case(oracle.Case):
    plain = False

    def fill(self, numel, dtype):
        t = super().fill(numel, dtype)
        if dtype.is_floating_point and not self.plain:
            for i in range(0, numel, 2):
                t[i] = self.rng.choice(SPECIAL)
        return t

    def node(self, op, inputs, attrs, fn):
        """As in the oracle, but drops what PyTorch 1.13 alone does not serve."""
        n = len(self.graph["nodes"])
        name = super().node(op, inputs, attrs, fn)
        why = self.expected["errors"].get("n%d" % n, "")
        if "'Half'" in why or op == "mish" and "'BFloat16'" in why:
            self.graph["nodes"].pop()
            del self.expected["errors"]["n%d" % n]
        return name


def pool(c, dtype):
    """Inputs of one dtype: first plain ones, then odd layouts."""
    x = [c.input([4, 5], None, 0, dtype), c.input([4, 5], [1, 4], 0, dtype), c.input([5], [2], 1, dtype)]
    x += [c.input([], [], 2, dtype)]
    return x


def layouts(c, dtype):
    return [c.input(s, st, off, dtype) for s, st, off in [
        ([2, 3, 2, 2], [12, 1, 6, 3], 0), ([1, 3, 1, 2], [1000, 1, 7, 3], 0), ([2, 1, 3], [0, 5, 2], 1),
        ([2, 3], [1, 4], 0), ([0, 3, 2], [1, 0, 9], 0), ([2, 1, 1, 3], [3, 3, 3, 1], 0), ([1, 2, 1, 3], [2, 1, 2, 2], 0),
        ([3, 1, 2, 1, 2], [4, 1, 2, 1, 1], 0)]]


UNARY = """neg abs sign sgn reciprocal sqrt rsqrt square exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos
atan sinh cosh tanh asinh acosh atanh erf erfc sigmoid relu floor ceil round trunc frac isnan isinf isfinite isposinf
isneginf signbit erfinv lgamma positive logical_not bitwise_not real imag conj_physical angle logit nan_to_num""".split()
NN = {"relu6": "relu6", "silu": "silu", "mish": "mish", "log_sigmoid": "logsigmoid", "hardswish": "hardswish",
      "hardsigmoid": "hardsigmoid", "gelu": "gelu", "elu": "elu", "selu": "selu", "celu": "celu",
      "leaky_relu": "leaky_relu", "hardtanh": "hardtanh", "softplus": "softplus", "hardshrink": "hardshrink"}
BINARY = """add sub rsub mul div floor_divide remainder fmod pow eq ne lt le gt ge atan2 maximum minimum fmax fmin logical_and
logical_or logical_xor bitwise_and bitwise_or bitwise_xor heaviside hypot copysign logaddexp logaddexp2 xlogy""".split()
NUMBERS = "add sub rsub mul div floor_divide remainder fmod pow eq lt bitwise_and copysign xlogy".split()
A = torch.ops.aten
ATTRS = [("div", 2, {"rounding_mode": "floor"}), ("div", 2, {"rounding_mode": "trunc"}), ("add", 2, {"alpha": 2}),
         ("sub", 2, {"alpha": 2.5}), ("round", 1, {"decimals": 1}), ("round", 1, {"decimals": -1}), ("logit", 1, {"eps": 0.1}),
         ("nan_to_num", 1, {"nan": 1.5, "posinf": 3.0}), ("gelu", 1, {"approximate": "tanh"}), ("elu", 1, {"alpha": 2.0, "scale": 0.5, "input_scale": 1.5}),
         ("celu", 1, {"alpha": 0.5}), ("leaky_relu", 1, {"negative_slope": 0.2}), ("softplus", 1, {"beta": 2.0, "threshold": 1.0}),
         ("hardtanh", 1, {"min_val": 0, "max_val": 2}), ("hardtanh", 1, {"min_val": 2, "max_val": 1}), ("threshold", 1, {"threshold": 1, "value": 7}),
         ("clamp", 1, {"min": 0, "max": 2}), ("clamp", 1, {"min": 0.5}), ("clamp", 1, {"max": 1}), ("clamp", 1, {"min": 3, "max": 1}),
         ("clamp", 1, {}), ("clamp", 1, {"max": 300}), ("clamp_min", 1, {"min": 1}), ("clamp_max", 1, {"max": 1.5}),
         ("addcmul", 3, {"value": 2}), ("addcmul", 3, {"value": 0.5}), ("addcdiv", 3, {"value": 2}), ("lerp", 3, {}), ("clamp", 3, {})]
DEFAULT = {"alpha": 1}


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else HERE
    c = Case(random.Random(7), True)
    pools = {n: pool(c, t) for n, t in oracle.DTYPES.items()}
    odd = {n: layouts(c, oracle.DTYPES[n]) for n in ("float32", "complex64", "int32", "bool")}

    def unary(op, x):
        if op in NN:
            return c.node(op, [x], None, lambda t: getattr(F, NN[op])(t))
        return c.node(op, [x], None, lambda t: getattr(torch, op)(t))

    for n, p in pools.items():
        c.plain = False
        for op in UNARY + sorted(NN):
            unary(op, p[1])
        for op in BINARY:
            c.node(op, [p[0], p[2]], None, lambda a, b: getattr(torch, op)(a, b))
        for op, k, attrs in ATTRS:
            def fn(*a):
                b = {x: v for x, v in attrs.items()}
                if op == "threshold":
                    return F.threshold(a[0], b["threshold"], b["value"])
                return getattr(A, op)(*a, **b)
            c.node(op, p[:k], attrs or None, fn)
        for b in ("bool", "uint8", "float32", n):
            c.node("where", [pools[b][1], p[0], p[2]], None, torch.where)
    for n in ("float32", "complex64", "int32", "bool"):
        for x in odd[n]:
            for op in UNARY + sorted(NN):
                if n == "float32" or op in ("abs", "angle", "isinf", "isfinite", "square", "sgn", "clamp", "positive", "real", "conj_physical", "exp"):
                    unary(op, x)
            for attrs in ({"min": 0.5}, {"min": 0, "max": 2}):
                c.node("clamp", [x], attrs, lambda t: torch.clamp(t, **attrs))
            c.node("pow", [x, 2], None, lambda t, k: torch.pow(t, 2))
            c.node("pow", [x, 0.5], None, lambda t, k: torch.pow(t, 0.5))
            c.node("pow", [2, x], None, lambda k, t: torch.pow(2, t))
            c.node("lerp", [x, x, 0.25], None, lambda a, b, w: torch.lerp(a, b, 0.25))
            c.node("lerp", [x, x], {"weight": 0.75}, lambda a, b: torch.lerp(a, b, 0.75))
            c.node("where", [x if n == "bool" else odd["bool"][odd[n].index(x)], x, 2.5], None, lambda m, a, b: torch.where(m, a, 2.5))
            if n != "bool":
                f = odd["float32"][odd[n].index(x)]
                c.node("where", [odd["bool"][odd[n].index(x)], x, f], None, torch.where)
                c.node("clamp", [x, f, f], None, torch.clamp)
                c.node("clamp", [x, None, f], None, lambda t, lo, hi: torch.clamp(t, None, hi))
                c.node("clamp_min", [x, f], None, torch.clamp_min)
                c.node("addcmul", [x, f, f], None, torch.addcmul)
    for n, p in pools.items():
        for op in NUMBERS:
            for k in (2, 2.5, True, -1):
                c.node(op, [p[1], k], None, lambda t, k: getattr(torch, op)(t, k))
        c.node("pow", [2, p[1]], None, lambda k, t: torch.pow(k, t))
        c.node("pow", [2.5, p[1]], None, lambda k, t: torch.pow(k, t))
        c.node("pow", [p[1], 3], None, lambda t, k: torch.pow(t, k))
        c.node("remainder", [7, p[1]], None, lambda k, t: torch.remainder(k, t))
        m = pools[c.rng.choice(sorted(pools))]
        for op in BINARY:
            c.node(op, [p[0], m[3]], None, lambda a, b: getattr(torch, op)(a, b))
            c.node(op, [p[2], m[1]], None, lambda a, b: getattr(torch, op)(a, b))
        c.node("where", [pools["bool"][2], p[0], m[3]], None, torch.where)
        c.node("clamp", [p[0], m[3], p[2]], None, torch.clamp)
        c.node("lerp", [p[0], p[1], m[3]], None, torch.lerp)
    shifts = {n: c.add_input(torch.arange(5).to(oracle.DTYPES[n])) for n in pools if "int" in n}
    for n, s in shifts.items():
        for op in ("bitwise_left_shift", "bitwise_right_shift"):
            c.node(op, [pools[n][0], s], None, lambda a, b: getattr(torch, op)(a, b))
            c.node(op, [pools[n][0], 2], None, lambda a, b: getattr(torch, op)(a, b))
    metas = {n: "%s[%s]@(%s)%s%s" % (v["dtype"], ",".join(map(str, v["shape"])), ",".join(map(str, v["strides"])),
                                     "+%d" % v["offset"] if v["offset"] else "", " of " + v["alias_of"] if v["alias_of"] else "")
             for n, v in c.expected["values"].items() if n[0] == "n"}
    del c.graph["outputs"][1:]
    flat = {}
    for name, a in c.out_data.items():
        flat.setdefault(c.expected["values"][name]["dtype"], []).append(np.ravel(a))
    for name, data in (("graph", c.graph), ("expected", {"values": metas, "errors": c.expected["errors"]})):
        with open(os.path.join(out, name + ".json.gz"), "wb") as f:
            f.write(gzip.compress(json.dumps(data).encode(), mtime=0))
    np.savez_compressed(os.path.join(out, "inputs.npz"), **c.in_data)
    np.savez_compressed(os.path.join(out, "outputs.npz"), **{k: np.concatenate(v) for k, v in flat.items()})
    print("%d nodes, %d refused" % (len(c.graph["nodes"]), len(c.expected["errors"])))


main()
