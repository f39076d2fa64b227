#!/usr/bin/env python3
"""Measures the errors of elementary functions, and of PyTorch's, for docs/accuracy.md.

    go build -o /tmp/graphrun ./cmd/graphrun
    python3 scripts/accuracy.py /tmp/graphrun                       # all functions, dtypes and paths
    python3 scripts/accuracy.py /tmp/graphrun --only exp,tanh --points 2000000
    python3 scripts/accuracy.py /tmp/graphrun --table

Errors are in units in the last place (ulp) of the true value in the dtype, or in subnormal ulps if it is subnormal.
Operands are distributed over all bit patterns of the domain, and additionally evenly over the interval where the
function is strongly curved. True values are computed in long double; for erf and related functions, in float64 for
float32, and by mpmath, with fewer points, for float64. "wrong" counts the results whose class (NaN, infinite, finite)
or sign is not that of the true value.
"""
import argparse
import json
import os
import subprocess
import tempfile

import mpmath
import numpy as np
import torch
import torch.nn.functional as F

L = np.longdouble
PATHS = {'AVX-512': {}, 'AVX2': {'GODEBUG': 'cpu.avx512f=off'}, 'portable': {'GRAPHRUN_JIT': 'off'}}
DTYPES = {'float32': np.float32, 'float64': np.float64}
ANY = (-np.inf, np.inf)
TAIL = (-87, np.inf)  # below, formulas with exp underflow before the true value does, in PyTorch and graphrun
HALF = (-0.67, np.inf)  # below, the sum of 1 and erf in gelu cancels, in PyTorch and graphrun
NEAR = (-9, 9)


def far(f):
    """Applies a function of mpmath element by element; the result is the sum of two float64 as long double."""
    def g(*x):
        out = np.empty(len(x[0]), L)
        with mpmath.workdps(50):
            for k, v in enumerate(zip(*x)):
                try:
                    y = f(*(mpmath.mpf(float(u)) for u in v))
                    hi = float(y)
                    out[k] = L(hi) + L(float(y - hi)) if np.isfinite(hi) else L(hi)
                except (ValueError, ZeroDivisionError, OverflowError):
                    out[k] = np.nan
        return out
    return g


def either(f32, f64):
    """The reference for float32 is a float64 function of PyTorch, for float64 a function of mpmath."""
    def g(*x):
        return L(f32(*(torch.from_numpy(np.asarray(v, np.float64)) for v in x)).numpy())

    def exact(*x):
        y, ends = far(f64)(*x), g(*x)
        return chosen(np.isfinite(ends) & (ends != 0), y, ends)  # poles, zeros and infinities are PyTorch's
    g.exact = exact
    return g


def chosen(c, yes, no):
    return np.where(c, yes, no)


SELU = L('1.6732632423543772848170429916717'), L('1.0507009873554804934193349852946')
LN2 = np.log(L(2))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return chosen(x < 0, e, L(1)) / (1 + e)


def mish(x):
    n = np.exp(np.minimum(x, 50)) * (np.exp(np.minimum(x, 50)) + 2)
    return x * (n / (n + 2))


def log_add(x, y, exp, log1p):
    return chosen(x == y, x + log1p(exp(x * 0)), np.maximum(x, y) + log1p(exp(-np.abs(x - y))))


def gelu_tanh(x):
    return x * sigmoid(2 * np.sqrt(2 / (4 * np.arctan(L(1)))) * (x + L('0.044715') * x ** 3))


# By op: PyTorch's function, the reference, the domain, the interval of strong curvature, and attributes.
ONE = {
    'exp': (torch.exp, np.exp, ANY, (-104, 89)), 'exp2': (torch.exp2, np.exp2, ANY, (-150, 128)),
    'expm1': (torch.expm1, np.expm1, ANY, (-20, 89)), 'log': (torch.log, np.log, (0, np.inf), (0, 3)),
    'log2': (torch.log2, np.log2, (0, np.inf), (0, 3)), 'log10': (torch.log10, np.log10, (0, np.inf), (0, 3)),
    'log1p': (torch.log1p, np.log1p, (-1, np.inf), (-1, 2)), 'sin': (torch.sin, np.sin, ANY, (-20, 20)),
    'cos': (torch.cos, np.cos, ANY, (-20, 20)), 'tan': (torch.tan, np.tan, ANY, (-20, 20)),
    'asin': (torch.asin, np.arcsin, (-1, 1), (-1, 1)), 'acos': (torch.acos, np.arccos, (-1, 1), (-1, 1)),
    'atan': (torch.atan, np.arctan, ANY, NEAR), 'sinh': (torch.sinh, np.sinh, ANY, (-90, 90)),
    'cosh': (torch.cosh, np.cosh, ANY, (-90, 90)), 'tanh': (torch.tanh, np.tanh, ANY, NEAR),
    'asinh': (torch.asinh, np.arcsinh, ANY, NEAR), 'acosh': (torch.acosh, np.arccosh, (1, np.inf), (1, 9)),
    'atanh': (torch.atanh, np.arctanh, (-1, 1), (-1, 1)), 'sqrt': (torch.sqrt, np.sqrt, (0, np.inf), (0, 9)),
    'rsqrt': (torch.rsqrt, lambda x: 1 / np.sqrt(x), (0, np.inf), (0, 9)),
    'reciprocal': (torch.reciprocal, lambda x: 1 / x, ANY, NEAR),
    'erf': (torch.erf, either(torch.erf, mpmath.erf), ANY, (-6, 6)),
    'erfc': (torch.erfc, either(torch.erfc, mpmath.erfc), ANY, (-6, 28)),
    'erfinv': (torch.erfinv, either(torch.erfinv, mpmath.erfinv), (-1, 1), (-1, 1)),
    'lgamma': (torch.lgamma, either(torch.lgamma, lambda x: mpmath.log(abs(mpmath.gamma(x)))
                                    if x < 1e5 else mpmath.loggamma(x)), (-100, np.inf), (-5, 9)),
    'sigmoid': (torch.sigmoid, sigmoid, TAIL, (-87, 89)),
    'silu': (F.silu, lambda x: x * sigmoid(x), TAIL, (-87, 89)),
    'log_sigmoid': (F.logsigmoid, lambda x: -softplus(-x), TAIL, (-87, 89)),
    'softplus': (F.softplus, softplus, TAIL, (-87, 89)),
    'mish': (F.mish, mish, TAIL, (-87, 89)),
    'gelu': (F.gelu, either(lambda x: 0.5 * x * torch.erfc(-x * 0.5 ** 0.5),
                            lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2), HALF, (-0.67, 9)),
    'gelu tanh': (lambda x: F.gelu(x, approximate='tanh'), gelu_tanh, HALF, (-0.67, 9), {'approximate': 'tanh'}),
    'elu': (F.elu, lambda x: chosen(x > 0, x, np.expm1(x)), ANY, (-20, 9)),
    'selu': (F.selu, lambda x: SELU[1] * chosen(x > 0, x, SELU[0] * np.expm1(x)), ANY, (-20, 9)),
    'celu': (F.celu, lambda x: chosen(x > 0, x, np.expm1(x)), ANY, (-20, 9)),
    'hardswish': (F.hardswish, lambda x: x * np.clip(x + 3, 0, 6) / 6, ANY, NEAR),
    'hardsigmoid': (F.hardsigmoid, lambda x: np.clip(x + 3, 0, 6) / 6, ANY, NEAR),
    'logit': (torch.logit, lambda x: np.log(x / (1 - x)), (0, 1), (0, 1)),
}
PAIR = (0.01, 30)
TWO = {
    'pow': (torch.pow, np.power, (0, np.inf), PAIR), 'atan2': (torch.atan2, np.arctan2, ANY, NEAR),
    'hypot': (torch.hypot, np.hypot, ANY, NEAR), 'xlogy': (torch.xlogy, lambda x, y: x * np.log(y), (0, np.inf), PAIR),
    'logaddexp': (torch.logaddexp, lambda x, y: log_add(x, y, np.exp, np.log1p), ANY, NEAR),
    'logaddexp2': (torch.logaddexp2, lambda x, y: log_add(x, y, np.exp2, lambda v: np.log1p(v) / LN2), ANY, NEAR),
}


def spread(dtype, domain, n, rng):
    """Numbers distributed over the bit patterns of a domain, and special values."""
    word = {np.float32: np.uint32, np.float64: np.uint64}[dtype]
    step = np.iinfo(word).max // n
    x = (np.arange(n, dtype=np.uint64) * np.uint64(step) + rng.integers(0, max(1, step), n, dtype=np.uint64)).astype(word)
    x = x.view(dtype)
    return x[(x >= domain[0]) & (x <= domain[1])]


def operands(dtype, domain, near, n, rng, two):
    if two:
        wide = [spread(dtype, domain, 2 * n, rng) for _ in range(2)]
        k = min(len(w) for w in wide)
        wide = [rng.permutation(w)[:min(k, n // 2)] for w in wide]
        low = [rng.uniform(*near, n // 2).astype(dtype) for _ in range(2)]
        return [np.concatenate(p) for p in zip(wide, low)]
    wide = spread(dtype, domain, 2 * n, rng)
    wide = wide[rng.permutation(len(wide))[:n // 2]]
    low = np.linspace(*near, n - len(wide)).astype(dtype)
    ends = np.array([v for v in (0.0, -0.0, 1, -1, *domain) if domain[0] <= v <= domain[1]], dtype)
    return [np.concatenate([wide, low, ends])]


def errors(ins, y, want, dtype):
    """The largest error, and the number of results of another class or sign."""
    info = np.finfo(dtype)
    y = y.astype(L)
    with np.errstate(all='ignore'):
        rounded = want.astype(dtype)
        kind = (np.isnan(y) != np.isnan(want)) | (np.isinf(y) != np.isinf(rounded)) & (
            np.abs(want) < L(info.max) * (1 - 4 * L(info.eps))) | (np.isinf(want) & (y != want))
        kind |= (np.signbit(y) != np.signbit(want)) & ~np.isnan(want) & ((rounded != 0) | (ins[0] == 0) & (want == 0))
        ok = np.isfinite(y) & np.isfinite(rounded) & ~kind
        _, e = np.frexp(np.abs(want[ok]))
        place = np.ldexp(L(1), np.maximum(e - 1, info.minexp) - info.nmant)
        ulp = np.abs(y[ok] - want[ok]) / place
    worst = int(np.argmax(ulp)) if len(ulp) else 0
    return float(ulp.max(initial=0)), int(np.where(ok)[0][worst]) if len(ulp) else 0, int(kind.sum())


def run(binary, dtype, cases, env):
    """Runs a graph with several ops; returns the results by op."""
    with tempfile.TemporaryDirectory() as dir:
        graph = {'version': 1, 'name': 'accuracy', 'inputs': [], 'nodes': [], 'outputs': []}
        values = {}
        for name, (ins, attrs) in cases.items():
            label = name.replace(' ', '_')
            for k, v in enumerate(ins):
                values['%s_%d' % (label, k)] = v
                graph['inputs'].append({'name': '%s_%d' % (label, k), 'dtype': dtype, 'shape': [len(v)]})
            node = {'name': label, 'op': name.split()[0], 'inputs': ['%s_%d' % (label, k) for k in range(len(ins))]}
            graph['nodes'].append({**node, **({'attrs': attrs} if attrs else {})})
            graph['outputs'].append(label)
        path = os.path.join(dir, 'graph.json')
        with open(path, 'w') as f:
            json.dump(graph, f)
        np.savez(os.path.join(dir, 'in.npz'), **values)
        out = os.path.join(dir, 'out.npz')
        subprocess.run([binary, 'run', path, '--inputs', os.path.join(dir, 'in.npz'), '--outputs', out], check=True,
                       env={**os.environ, **env}, stdout=subprocess.DEVNULL)
        got = np.load(out)
        return {name: got[name.replace(' ', '_')] for name in cases}


def measure(binary, only, dtypes, points):
    """Returns rows: dtype, op, and for each path and PyTorch the largest error, its operand, and the wrong results."""
    rows = []
    for d in dtypes:
        dtype, rng = DTYPES[d], np.random.default_rng(1)
        cases, want, theirs = {}, {}, {}
        for two, table in ((False, ONE), (True, TWO)):
            for name, (theirf, f, domain, near, *attrs) in table.items():
                if only and name not in only:
                    continue
                exact = getattr(f, 'exact', None) if d == 'float64' else None
                ins = operands(dtype, domain, near, 2000 if exact else points, rng, two)
                with np.errstate(all='ignore'):
                    want[name] = exact(*ins) if exact else f(*(v.astype(L) for v in ins))
                cases[name] = ins, attrs[0] if attrs else {}
                theirs[name] = theirf(*(torch.from_numpy(v) for v in ins)).numpy()
        found = {path: run(binary, d, cases, env) for path, env in PATHS.items()}
        for name in cases:
            row = {'dtype': d, 'op': name}
            for path, got in [*((p, found[p][name]) for p in PATHS), ('PyTorch', theirs[name])]:
                ulp, at, kind = errors(cases[name][0], got, want[name], dtype)
                row[path] = {'ulp': ulp, 'at': [float(v[at]) for v in cases[name][0]], 'wrong': kind}
            rows.append(row)
    return rows


def main():
    p = argparse.ArgumentParser()
    p.add_argument('binary')
    p.add_argument('--only', default='')
    p.add_argument('--dtypes', default='float32,float64')
    p.add_argument('--points', type=int, default=200000)
    p.add_argument('--table', action='store_true')
    a = p.parse_args()
    torch.set_num_threads(1)
    rows = measure(a.binary, a.only.split(',') if a.only else None, a.dtypes.split(','), a.points)
    names = [*PATHS, 'PyTorch']
    if a.table:
        print('| function | dtype | ' + ' | '.join(names) + ' |\n|---|---' + '|---:' * len(names) + '|')
    for r in rows:
        cells = ['%.3g' % r[k]['ulp'] + (', %d wrong' % r[k]['wrong'] if r[k]['wrong'] else '') for k in names]
        if a.table:
            print('| %s | %s | %s |' % (r['op'], r['dtype'], ' | '.join(cells)))
            continue
        bad = any(r[k]['ulp'] > max(2, r['PyTorch']['ulp'] * 1.03) or r[k]['wrong'] > r['PyTorch']['wrong']
                  for k in PATHS)
        print('%-12s %-8s' % (r['op'], r['dtype']), '  '.join('%16s' % c for c in cells), '<--' if bad else '',
              [r[k]['at'] for k in names] if bad else '')


main()
