#!/usr/bin/python3
"""Writes the guards that PyTorch's symbolic shapes record, as reference data for package internal/contiguity.

    apt-get install --no-install-recommends python3-torch python3-sympy
    /usr/bin/python3 scripts/guards.py > internal/contiguity/testdata/guards.json

Sizes and strides are symbols of torch.fx.experimental.symbolic_shapes (1.13), x1, x2, ... and y1, y2, ..., with hints.
The predicates copy those of c10/core/TensorImpl.cpp, branch by branch; their results are compared with those of a
tensor with the hinted sizes and strides. PyTorch specializes sizes 0 and 1 and assumes that all others are greater.
Here all sizes are symbols with the lower bound 0, so that the environment decides less and records more guards.
"""
import itertools
import json

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import PySymInt, ShapeEnv


class Env(ShapeEnv):
    """A shape environment whose symbols may be 0 or 1."""

    def symbol(self, name, hint):
        s = sympy.Symbol(name, nonnegative=True, integer=True)
        self.var_to_val[s] = sympy.Integer(hint)
        return PySymInt(s, self)

    def _maybe_evaluate_static(self, expr):
        expr = self.simplify(expr)
        return None if expr.free_symbols else expr


def numel(sizes):
    n = sizes[0]
    for s in sizes[1:]:
        n = n * s
    return n


def differ(a, b):
    return not (a == b)


def dense(sizes, strides, order):
    number = sizes[0].wrap
    z = number(1)
    for d in order:
        if differ(sizes[d], number(1)):
            if differ(strides[d], z):
                return False
            z = z * sizes[d]
    return True


def contiguous(sizes, strides):
    if numel(sizes) == sizes[0].wrap(0):
        return True
    return dense(sizes, strides, range(len(sizes) - 1, -1, -1))


def channels_last(sizes, strides):
    return dense(sizes, strides, [1, 3, 2, 0])


def like_channels_last(sizes, strides):
    number = sizes[0].wrap
    least = number(0)
    if strides[1] == number(0):
        return False
    for d in [1, 3, 2, 0]:
        if sizes[d] == number(0):
            return False
        if strides[d] < least:
            return False
        if d == 0 and least == strides[1]:
            return False
        least = strides[d]
        if sizes[d] > number(1):
            least = least * sizes[d]
    return True


RULES = {
    "contiguous": (contiguous, lambda t: t.is_contiguous(), (1, 2, 3)),
    "channels_last": (channels_last, lambda t: t.is_contiguous(memory_format=torch.channels_last), (4,)),
    "strides_like_channels_last": (like_channels_last, None, (4,)),
}


RELATIONS = {sympy.Eq: "Eq", sympy.Ne: "Ne", sympy.Gt: "Gt", sympy.Ge: "Ge", sympy.Lt: "Lt", sympy.Le: "Le"}


def text(guard, value):
    """A guard in the syntax of package sym."""
    g = guard if value else sympy.Not(guard)
    return f"{RELATIONS[type(g)]}({g.lhs}, {g.rhs})"


def case(rule, sizes, strides):
    path, native, _ = RULES[rule]
    env = Env()
    x = [env.symbol(f"x{i + 1}", n) for i, n in enumerate(sizes)]
    y = [env.symbol(f"y{i + 1}", n) for i, n in enumerate(strides)]
    holds = bool(path(x, y))
    if native is not None and 0 not in sizes:
        assert native(torch.empty_strided(sizes, strides)) == holds, (rule, sizes, strides)
    return {"rule": rule, "sizes": sizes, "strides": strides, "holds": holds,
            "guards": [text(g, v) for g, v, _ in env.guards]}


def row_major(sizes, order):
    strides, z = [0] * len(sizes), 1
    for d in order:
        strides[d] = z
        z *= max(sizes[d], 1)
    return strides


def main():
    cases = [case("contiguous", [3, 1, 5], [5, 99999, 1])]
    for rule, (_, _, ranks) in RULES.items():
        for rank in ranks:
            for sizes in itertools.product([0, 1, 3, 5] if rank < 4 else [1, 4], repeat=rank):
                sizes = list(sizes)
                orders = [range(rank - 1, -1, -1)] + ([[1, 3, 2, 0]] if rank == 4 else [range(rank)])
                for order in orders:
                    strides = row_major(sizes, order)
                    cases.append(case(rule, sizes, strides))
                    cases.append(case(rule, sizes, [s + (7 if i == rank - 1 else 0) for i, s in enumerate(strides)]))
    seen, kept = set(), []
    for c in cases:
        key = json.dumps(c)
        if key not in seen:
            seen.add(key)
            kept.append(c)
    print("[\n" + ",\n".join(json.dumps(c) for c in kept) + "\n]")


main()
