#!/usr/bin/env python3
"""Makes the vectors of kernels.TestAccuracy, and the table of errors in docs/accuracy.md.

    python3 scripts/accuracy.py vectors                    # writes kernels/testdata/accuracy.npz
    go build -o /tmp/graphrun ./cmd/graphrun
    python3 scripts/accuracy.py table /tmp/graphrun        # rewrites the table, for the operands of the vectors
    python3 scripts/accuracy.py show /tmp/graphrun --only exp,tanh --factor 10    # 10 times as many operands

Operands cover all exponents of float64, float32, bfloat16 and float16, both signs, the limits of each dtype, and for
each function the intervals where it is curved, and the neighbours of its zeros and poles. True values are computed by
mpmath, in twice and more the precision until two precisions agree. Zeros, infinities and NaN are PyTorch's.

Errors are in units in the last place (ulp) of the true value in the dtype, or in subnormal ulps if it is subnormal.
An infinity counts as the number that follows the greatest. "wrong" counts results that are NaN or of the other sign, signs of zeros included.
"""
import argparse
import json
import os
import re
import subprocess
import tempfile
import zlib

import mpmath as mp
import numpy as np
import torch
import torch.nn.functional as F

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VECTORS = os.path.join(ROOT, 'kernels/testdata/accuracy.npz')
PATHS = {'machine code': {}, 'portable': {'GRAPHRUN_JIT': 'off'}}
# By dtype: PyTorch's, the bits of a number, and the exponents of the least and the greatest power of 2.
DTYPES = {'float32': (torch.float32, 24, -149, 127), 'float64': (torch.float64, 53, -1074, 1023),
          'float16': (torch.float16, 11, -24, 15), 'bfloat16': (torch.bfloat16, 8, -133, 127)}
S = torch.special
ANY, UNIT = (-8, 8), (-1, 1)


def log_gamma(x):
    if x <= 0 and x == mp.floor(x):
        return mp.inf
    return mp.re(mp.loggamma(x)) if x > 0 else mp.log(mp.pi / abs(mp.sinpi(x))) - mp.re(mp.loggamma(1 - x))


def digamma(x):
    return mp.psi(0, x) if x > 0 else mp.psi(0, 1 - x) - mp.pi * mp.cospi(x) / mp.sinpi(x)


def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def softplus(x, beta=1, threshold=20):
    return x if x * beta > threshold else mp.log1p(mp.exp(x * beta)) / beta


def ndtr(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def log_ndtr(x):
    return mp.log1p(-ndtr(-x)) if x > 0 else mp.log(ndtr(x)) if x > -1e8 else (
        -x * x / 2 - mp.log(-x * mp.sqrt(2 * mp.pi)) + mp.log1p(-1 / x ** 2))


def ndtri(p):
    """The root of log_ndtr(x) = log(p), by Newton's method from an approximation for the tail."""
    if p > 0.5:
        return -ndtri(1 - p)
    if p == 0.5:
        return mp.mpf(0)
    goal = mp.log(p)
    x = -mp.sqrt(-2 * goal) if p < 0.01 else -mp.sqrt(2) * mp.mpf(float(torch.erfinv(torch.tensor(
        float(1 - 2 * p), dtype=torch.float64)))) or (p - 0.5) * mp.sqrt(2 * mp.pi)
    for _ in range(200):
        density = mp.exp(-x * x / 2 - log_ndtr(x)) / mp.sqrt(2 * mp.pi)
        step = (log_ndtr(x) - goal) / density
        x -= step
        if abs(step) <= abs(x) * mp.eps * 8:
            break
    return x


def erfinv(y):
    if abs(y) < mp.mpf('1e-30'):
        return y * mp.sqrt(mp.pi) / 2
    return mp.sign(y) * -ndtri((1 - abs(y)) / 2) / mp.sqrt(2)


def bessel_i(order, scaled):
    def f(x):
        a = abs(x)
        if a < mp.mpf('1e-20'):
            y = (a / 2) ** order
        elif a > 200:  # the asymptotic series, whose terms fall below the precision
            return (-1 if order and x < 0 else 1) * asymptotic(4 * order ** 2, -8 * a) / mp.sqrt(2 * mp.pi * a) * (
                1 if scaled else mp.exp(a))
        else:
            y = mp.besseli(order, a)
        return (-1 if order and x < 0 else 1) * y * (mp.exp(-a) if scaled else 1)
    return f


def bessel_k(order, scaled):
    def f(x):
        if x > 200:
            return asymptotic(4 * order ** 2, 8 * x) * mp.sqrt(mp.pi / (2 * x)) * (1 if scaled else mp.exp(-x))
        if x < mp.mpf('1e-30'):
            return 1 / x if order else mp.log(2) - mp.euler - mp.log(x)
        return mp.besselk(order, x) * (mp.exp(x) if scaled else 1)
    return f


def asymptotic(mu, x8):
    term = total = mp.mpf(1)
    for k in range(1, 400):
        term *= (mu - (2 * k - 1) ** 2) / (k * x8)
        total += term
        if abs(term) < mp.eps * abs(total):
            break
    return total


def erfcx(x):
    if x < 1e6:
        return mp.exp(x * x) * mp.erfc(x)
    return (1 - 1 / (2 * x * x)) / (x * mp.sqrt(mp.pi))


def chebyshev(kind, shifted=False):
    def f(x, n):
        n = int(n)
        if n < 0:
            return mp.mpf(0)
        if shifted:
            x = 2 * x - 1
        before, now = mp.mpf(1), {'t': x, 'u': 2 * x, 'v': 2 * x - 1, 'w': 2 * x + 1}[kind]
        if n == 0:
            return before
        for _ in range(n - 1):
            before, now = now, 2 * x * now - before
        return now
    return f


def elu(alpha, scale=1, input_scale=1):
    alpha, scale, input_scale = mp.mpf(alpha), mp.mpf(scale), mp.mpf(input_scale)
    return lambda x: x * scale if x > 0 else alpha * scale * mp.expm1(x * input_scale)


def power(x, y):
    if x < 0 and y != mp.floor(y):
        return mp.nan
    r = mp.exp(y * mp.log(abs(x)))
    return -r if x < 0 and mp.floor(y) % 2 else r


def log_add(x, y):
    return max(x, y) + mp.log1p(mp.exp(-abs(x - y)))


def clip6(x):
    return min(max(x + 3, mp.mpf(0)), mp.mpf(6))


def mish(x):
    n = mp.exp(x) * (mp.exp(x) + 2)
    return x * n / (n + 2) if x < 1e4 else x


def real(f, low=-mp.inf, high=mp.inf):
    return lambda x: f(x) if low <= x <= high else mp.nan


def sin_over(x, p):
    return mp.sin(p) / p


def half_tanh(x):
    return x * sigmoid(2 * mp.sqrt(2 / mp.pi) * (x + mp.mpf('0.044715') * x ** 3))


def theirs(name, *rest):
    return lambda *x: getattr(S, name)(*x, *rest)


# The cases, by name: PyTorch's function, the true value, intervals where the function is curved, zeros and poles that
# are no limits of the intervals, and the op's attributes. The op is the name up to a blank.
CASES = {
    'exp': (torch.exp, mp.exp, [(-104, 89), ANY, (-746, 710)]),
    'exp2': (torch.exp2, lambda x: mp.mpf(2) ** x, [(-150, 128), ANY, (-1075, 1024)]),
    'expm1': (torch.expm1, mp.expm1, [(-40, 89), ANY, (-40, 710)]),
    'log': (torch.log, real(mp.log, 0), [(0, 3)], [1]),
    'log2': (torch.log2, real(lambda x: mp.log(x) / mp.log(2), 0), [(0, 3)], [1]),
    'log10': (torch.log10, real(mp.log10, 0), [(0, 3)], [1]),
    'log1p': (torch.log1p, real(mp.log1p, -1), [(-1, 2)], [-1]),
    'sin': (torch.sin, mp.sin, [(-20, 20), (-1e5, 1e5)], [np.pi, 2 * np.pi, 355, 1e22]),
    'cos': (torch.cos, mp.cos, [(-20, 20), (-1e5, 1e5)], [np.pi / 2, 1.5 * np.pi, 11]),
    'tan': (torch.tan, mp.tan, [(-20, 20), (-1e5, 1e5)], [np.pi / 2, np.pi]),
    'asin': (torch.asin, real(mp.asin, -1, 1), [UNIT], [1, -1]),
    'acos': (torch.acos, real(mp.acos, -1, 1), [UNIT], [1, -1]),
    'atan': (torch.atan, mp.atan, [ANY]),
    'sinh': (torch.sinh, mp.sinh, [ANY, (-90, 90), (-711, 711)]),
    'cosh': (torch.cosh, mp.cosh, [ANY, (-90, 90), (-711, 711)]),
    'tanh': (torch.tanh, mp.tanh, [ANY, (-20, 20)]),
    'asinh': (torch.asinh, mp.asinh, [ANY]),
    'acosh': (torch.acosh, real(mp.acosh, 1), [(1, 9), (1, 1.1)], [1]),
    'atanh': (torch.atanh, real(mp.atanh, -1, 1), [UNIT], [1, -1]),
    'sqrt': (torch.sqrt, real(mp.sqrt, 0), [(0, 9)]),
    'rsqrt': (torch.rsqrt, real(lambda x: 1 / mp.sqrt(x), 0), [(0, 9)]),
    'reciprocal': (torch.reciprocal, lambda x: 1 / x, [ANY]),
    'square': (torch.square, lambda x: x * x, [ANY]),
    'erf': (torch.erf, mp.erf, [(-6, 6), UNIT]),
    'erfc': (torch.erfc, mp.erfc, [(-6, 28), (0, 10.1)]),
    'erfinv': (torch.erfinv, real(erfinv, -1, 1), [UNIT], [1, -1]),
    'lgamma': (torch.lgamma, log_gamma, [(-20, 20), (0, 4)], [1, 2, -1, -2, -2.4570247382208006, -2.7476826467274127]),
    'digamma': (torch.digamma, digamma, [(-20, 20), (0, 4)], [1.4616321449683623, -0.504083008264455, -1, -2]),
    'sigmoid': (torch.sigmoid, sigmoid, [(-87, 89), ANY, (-110, -80), (-750, 40)]),
    'silu': (F.silu, lambda x: x * sigmoid(x), [(-87, 89), ANY, (-110, -80), (-750, 40)]),
    'log_sigmoid': (F.logsigmoid, lambda x: -mp.log1p(mp.exp(-x)), [(-87, 89), ANY, (-750, 750)]),
    'softplus': (F.softplus, softplus, [(-110, 30), ANY, (-750, 40)], [20]),
    'softplus beta': (lambda x: F.softplus(x, 2, 5), lambda x: softplus(x, 2, 5), [(-60, 10), ANY], [2.5],
                      {'beta': 2, 'threshold': 5}),
    'mish': (F.mish, mish, [(-110, 30), ANY, (-750, 40)]),
    'gelu': (F.gelu, lambda x: x * mp.erfc(-x / mp.sqrt(2)) / 2, [(-15, 9), UNIT, (-38, 9)]),
    'gelu tanh': (lambda x: F.gelu(x, approximate='tanh'), half_tanh, [(-10, 9), UNIT], [], {'approximate': 'tanh'}),
    'elu': (F.elu, elu(1), [(-20, 9), UNIT]),
    'elu scaled': (lambda x: torch._C._nn.elu(x, 2, 0.5, 1.5), elu(2, 0.5, 1.5), [(-20, 9), UNIT], [],
                   {'alpha': 2, 'scale': 0.5, 'input_scale': 1.5}),
    'selu': (F.selu, lambda x: elu('1.6732632423543772848170429916717', '1.0507009873554804934193349852946')(x),
             [(-20, 9), UNIT]),
    'celu': (F.celu, elu(1), [(-20, 9), UNIT]),
    'celu half': (lambda x: F.celu(x, 0.5), elu(0.5, 1, 2), [(-20, 9), UNIT], [], {'alpha': 0.5}),
    'hardswish': (F.hardswish, lambda x: x * clip6(x) / 6, [ANY], [-3, 3]),
    'hardsigmoid': (F.hardsigmoid, lambda x: clip6(x) / 6, [ANY], [-3, 3]),
    'logit': (torch.logit, real(lambda x: mp.log(x / (1 - x)), 0, 1), [(0, 1)], [0.5, 1]),
    'logit eps': (lambda x: torch.logit(x, 0.1), lambda x: mp.log(1 / (1 / min(max(x, mp.mpf(0.1)), 1 - mp.mpf(0.1)) - 1)),
                  [(0, 1)], [0.5], {'eps': 0.1}),
    'i0': (torch.i0, bessel_i(0, False), [ANY, (-90, 90), (-715, 715)], [8, -8]),
    'special_i0e': (S.i0e, bessel_i(0, True), [ANY, (-90, 90)], [8]),
    'special_i1': (S.i1, bessel_i(1, False), [ANY, (-90, 90), (-715, 715)], [8, -8]),
    'special_i1e': (S.i1e, bessel_i(1, True), [ANY, (-90, 90)], [8]),
    'special_modified_bessel_k0': (S.modified_bessel_k0, real(bessel_k(0, False), 0), [(0, 8), (0, 110), (0, 750)], [2]),
    'special_modified_bessel_k1': (S.modified_bessel_k1, real(bessel_k(1, False), 0), [(0, 8), (0, 110), (0, 750)], [2]),
    'special_scaled_modified_bessel_k0': (S.scaled_modified_bessel_k0, real(bessel_k(0, True), 0), [(0, 8), (0, 90)], [2]),
    'special_scaled_modified_bessel_k1': (S.scaled_modified_bessel_k1, real(bessel_k(1, True), 0), [(0, 8), (0, 90)], [2]),
    'special_erfcx': (S.erfcx, erfcx, [(-10, 12), (-27, 50)], [10]),
    'special_ndtr': (S.ndtr, ndtr, [(-15, 6), UNIT, (-39, 9)]),
    'special_log_ndtr': (S.log_ndtr, log_ndtr, [(-40, 15), UNIT, (-1, 39)], [-1, -30]),
    'special_ndtri': (S.ndtri, real(ndtri, 0, 1), [(0, 1), (0, 0.2), (0, 1e-6)], [0.5, 1, np.exp(-2), 1 - np.exp(-2)]),
    'special_entr': (S.entr, lambda x: -x * mp.log(x) if x > 0 else mp.nan, [(0, 3)], [1]),
    'sinc': (torch.sinc, lambda x: mp.sinpi(x) / (mp.pi * x), [(-20, 20), (-1e5, 1e5)], [1, 2, 100]),
    'special_spherical_bessel_j0': (S.spherical_bessel_j0, lambda x: sin_over(x, x), [(-20, 20), UNIT], [np.pi]),
    'pow': (torch.pow, power, [(0.01, 30), (-5, 5)]),
    'atan2': (torch.atan2, mp.atan2, [ANY]),
    'hypot': (torch.hypot, mp.hypot, [ANY]),
    'xlogy': (torch.xlogy, lambda x, y: x * mp.log(y) if y > 0 else mp.nan, [(0.01, 30)]),
    'special_xlog1py': (S.xlog1py, lambda x, y: x * mp.log1p(y) if y > -1 else mp.nan, [(0.01, 30), UNIT]),
    'logaddexp': (torch.logaddexp, log_add, [ANY]),
    'logaddexp2': (torch.logaddexp2, lambda x, y: log_add(x * mp.log(2), y * mp.log(2)) / mp.log(2), [ANY]),
    'div': (torch.div, lambda x, y: x / y, [ANY]),
}
for _kind in 'tuvw':
    for _shift in ('', 'shifted_'):
        _name = 'special_%schebyshev_polynomial_%s' % (_shift, _kind)
        CASES[_name] = (getattr(S, _name[8:]), chebyshev(_kind, bool(_shift)), [UNIT if not _shift else (0, 1)])
for _text, _theirs, _true, *_near in (
        ('tanhshrink(x)', lambda x: x - torch.tanh(x), lambda x: x - mp.tanh(x), [ANY, UNIT]),
        ('softsign(x)', F.softsign, lambda x: x / (1 + abs(x)), [ANY]),
        ('deg2rad(x)', torch.deg2rad, lambda x: x * mp.pi / 180, [(-400, 400)]),
        ('rad2deg(x)', torch.rad2deg, lambda x: x * 180 / mp.pi, [ANY]),
        ('hypot(x, y)', torch.hypot, mp.hypot, [ANY])):
    CASES['pointwise ' + _text] = (_theirs, _true, *_near, [], {'expr': _text})

# The cases of complex numbers: PyTorch's function, or None for the op's name, and the true value.
COMPLEX = {
    'exp': (None, mp.exp), 'log': (None, mp.log), 'log2': (None, lambda z: mp.log(z) / mp.log(2)),
    'log10': (None, lambda z: mp.log(z) / mp.log(10)), 'sqrt': (None, mp.sqrt), 'rsqrt': (None, lambda z: 1 / mp.sqrt(z)),
    'reciprocal': (None, lambda z: 1 / z), 'square': (None, lambda z: z * z), 'sin': (None, mp.sin),
    'cos': (None, mp.cos), 'tan': (None, mp.tan), 'sinh': (None, mp.sinh), 'cosh': (None, mp.cosh),
    'tanh': (None, mp.tanh), 'asin': (None, mp.asin), 'acos': (None, mp.acos), 'atan': (None, mp.atan),
    'asinh': (None, mp.asinh), 'acosh': (None, mp.acosh), 'atanh': (None, mp.atanh),
    'sigmoid': (None, lambda z: 1 / (1 + mp.exp(-z))), 'silu': (F.silu, lambda z: z / (1 + mp.exp(-z))),
    'sinc': (None, lambda z: mp.sin(mp.pi * z) / (mp.pi * z)), 'sgn': (None, lambda z: z / abs(z)),
    'abs': (None, abs), 'angle': (None, mp.arg), 'mul': (None, lambda x, y: x * y), 'div': (None, lambda x, y: x / y),
    'pow': (None, lambda x, y: mp.exp(y * mp.log(x)))}


def complex_vectors(name, count=60):
    """Operands whose parts are of float32 and not 0, and true values."""
    rng = np.random.default_rng(zlib.crc32(name.encode()) + 1)

    def part(n, greatest):
        x = np.ldexp(rng.uniform(1, 2, n), rng.integers(-greatest, greatest, n)) * rng.choice([-1, 1], n)
        return np.float32(x).astype(float)
    operands = []
    for _ in range(2 if name in ('mul', 'div', 'pow') else 1):
        real, imag = ([part(count, 2), part(count // 2, 20), part(count // 4, 60)] for _ in range(2))
        near = [np.nextafter(np.float32(v), np.float32(4)) for v in (1, -1, 1, -1)], [1e-3, -1e-4, 1e-7, 1e-20]
        real, imag = np.concatenate(real + list(near)), np.concatenate(imag + list(near[::-1]))
        operands.append(np.float32(real).astype(float) + 1j * np.float32(imag))
    y = []
    for args in zip(*operands):
        with mp.workdps(120):
            y.append(mp.mpc(COMPLEX[name][1](*(mp.mpc(z) for z in args))))
    return np.stack(operands), np.array([complex(z) for z in y])


def complex_errors(y, want, dtype):
    """The largest distance of results, in ulps of the true value's magnitude."""
    bits, limit = (24, 2.0 ** 128) if dtype == 'complex64' else (53, np.inf)
    with np.errstate(all='ignore'):
        at = (np.abs(want) < limit / 4) & (np.abs(want) > 2.0 ** -100)
        return float(np.max(np.where(at, np.abs(y - want) / np.ldexp(1.0, np.frexp(np.abs(want))[1] - bits), 0)))


def operand_count(name):
    return 2 if 'hebyshev' in name or name.split()[0] in (
        'pow', 'atan2', 'hypot', 'xlogy', 'special_xlog1py', 'logaddexp', 'logaddexp2', 'div') or '(x, y)' in name else 1


def rounded(x, bits, least):
    """Rounds numbers to a number of bits, with subnormal numbers, exactly and without overflow."""
    x = np.asarray(x, np.float64)
    m, e = np.frexp(x)
    bits = np.minimum(bits, e - least)
    with np.errstate(all='ignore'):
        return np.where(np.isfinite(x) & (bits > 0), np.ldexp(np.rint(np.ldexp(m, np.maximum(bits, 0))), e - bits), x * 0)


def spread(n, bits, least, greatest, rng):
    """Numbers of both signs whose exponents are distributed over those of a dtype."""
    e = np.linspace(least, greatest + 1, n, endpoint=False).astype(int)
    x = rounded(np.ldexp(rng.uniform(1, 2, n), np.minimum(e, greatest)), bits, least)
    x = np.where(x < np.ldexp(2.0 - 2.0 ** (1 - bits), greatest), x, np.ldexp(1.0, greatest))
    return np.where(rng.integers(0, 2, n) > 0, x, -x)


def neighbours(x, bits, least):
    m, e = np.frexp(float(x))
    ulp = np.ldexp(1.0, max(int(e) - bits, least))
    return [rounded(x, bits, least) + k * ulp for k in (-7, -2, -1, 0, 1, 2)]


SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan]
SMALL = [1, 2, 3, 4, 5, 6, 7, 10, 0.5, 0.25, 1.5, 2.5]


def common(factor, rng):
    x = [v * s for v in SMALL for s in (1, -1)]
    for n, d in ((70, 'float64'), (90, 'float32'), (70, 'bfloat16'), (50, 'float16')):
        _, bits, least, greatest = DTYPES[d]
        x += list(spread(n * factor, bits, least, greatest, rng))
        normal = least + bits - 1
        for v in (np.ldexp(1, least), np.ldexp(1, normal), np.ldexp(1, normal) - np.ldexp(1, least),
                  np.ldexp(2 - 2.0 ** (1 - bits), greatest), 1 - 2.0 ** -bits, 1 + 2.0 ** (1 - bits), 2.0 ** -bits):
            x += [v, -v]
    return SPECIAL + x


def operands(name, factor, rng):
    """Operands of a case: a list of arrays of float64, whose numbers have the bits of one of the dtypes."""
    _, _, near, *rest = CASES[name]
    dtypes = [DTYPES[d][1:3] for d in ('float64', 'float32', 'float32', 'bfloat16', 'float16')]

    def close():
        x = [float(rounded(v, *d)) for low, high in near for d in dtypes for v in rng.uniform(low, high, 16 * factor)]
        return x + [v for root in (rest[0] if rest else []) for d in dtypes[1:] + dtypes[:1] for v in neighbours(root, *d)]
    if operand_count(name) == 1:
        return [np.array(common(factor, rng) + close())]
    if 'hebyshev' in name:
        x = np.array(close() + common(factor, rng)[4::3] + [0, 1, -1, 2, -2, 3, 0.75, np.nan] * 4)
        return [x, rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 17, 40, 101], len(x)).astype(float)]
    wide, few = np.array(common(factor, rng)), SPECIAL + [1, -1, 2, -3, 0.5, -0.5, 3]
    first = list(wide) + close() + [v for v in few for _ in few]
    second = list(rng.permutation(wide)) + list(rng.permutation(close())) + few * len(few)
    if name.startswith('logaddexp'):  # where the terms cancel
        first += [float(rounded(-v, *d)) for d in dtypes for v in rng.uniform(0.1, 2, 16 * factor)]
        second += [float(rounded(np.log1p(-np.exp(-v)), *d)) for d in dtypes for v in rng.uniform(0.1, 2, 16 * factor)]
    return [np.array(first), np.array(second)]


def truth(f, args):
    """The true value: a float64 and the rest in units of 1/256 ulp, or NaN if the function has no finite value."""
    dps = 40
    while dps < 6000:
        values = []
        for digits in (dps, 2 * dps):
            with mp.workdps(digits):
                try:
                    values.append(mp.mpf(f(*(mp.mpf(v) for v in args))))
                except (ZeroDivisionError, ValueError, TypeError, OverflowError):
                    values.append(mp.nan)
        a, b = values
        with mp.workdps(60):
            if mp.isnan(a) and mp.isnan(b) or a == b or abs(a - b) <= abs(b) * mp.mpf('1e-25'):
                break
        dps *= 4
    else:
        raise ArithmeticError('no digits of %s' % (args,))
    if b == 0:
        return 0.0, 0
    if not mp.isfinite(b):
        return np.nan, 0
    with mp.workdps(60):
        if abs(b) > mp.mpf(2) ** 1024:
            return float(mp.sign(b)) * np.inf, 0
        hi = float(b) if abs(b) > mp.mpf(2) ** -1022 else np.ldexp(float(mp.nint(mp.ldexp(b, 1074))), -1074)
        if np.isinf(hi):
            hi = np.sign(hi) * np.finfo(float).max
        if hi == 0:
            return float(mp.sign(b)) * 0.0, 0
        ulp = mp.ldexp(1, max(int(mp.floor(mp.log(abs(mp.mpf(hi)), 2))) - 52, -1074))
        return hi, int(max(min(mp.nint((b - hi) / ulp * 256), 127), -128))


def torch_results(name, ins, dtype):
    try:
        y = CASES[name][0](*(torch.from_numpy(v).to(DTYPES[dtype][0]) for v in ins))
    except RuntimeError:
        return None
    return y.double().numpy() if y.dtype == DTYPES[dtype][0] else None


def vectors(name, factor):
    """Operands, true values and the rests. Where a true value is not finite or 0, PyTorch's stands."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    ins = operands(name, factor, rng)
    hi, lo = np.empty(len(ins[0])), np.zeros(len(ins[0]), np.int8)
    theirs = torch_results(name, ins, 'float64')
    if 'elu' in name and not 'gelu' in name:  # PyTorch 2 gives -0 for -0
        theirs = np.where(ins[0] == 0, ins[0], theirs)
    for k, args in enumerate(zip(*ins)):
        hi[k] = theirs[k]
        if np.all(np.isfinite(args)):
            number, rest = truth(CASES[name][1], [float(v) for v in args])
            if number and not np.isnan(number) and not (np.any(np.equal(args, 0)) and np.sign(number) != np.sign(theirs[k])):
                hi[k], lo[k] = number, rest  # otherwise the sign of a zero may count
            elif theirs[k] != 0 and np.isfinite(theirs[k]) and np.all(args):
                hi[k] = number  # an error of PyTorch
    return ins, hi, lo


def measured(y, ins, hi, lo, dtype):
    """The largest error, its operands, and the number of results that are NaN, or of the other sign."""
    _, bits, least, greatest = DTYPES[dtype]
    at = np.all([rounded(v, bits, least) == v for v in ins], axis=0)  # without infinities and NaN
    at &= np.all([np.abs(v) < 2.0 ** greatest * 2 if greatest < 1023 else True for v in ins], axis=0)
    limit = np.ldexp(1.0, greatest) * 2 if greatest < 1023 else np.inf
    with np.errstate(all='ignore'):
        wrong = at & (np.isnan(y) != np.isnan(hi)) | at & ~np.isnan(hi) & (np.signbit(y) != np.signbit(hi)) & (
            (hi != 0) | (y == 0))
        at = at & ~wrong & ~np.isnan(hi)
        ulp = np.ldexp(1.0, np.maximum(np.frexp(np.where(np.isfinite(hi), hi, 1))[1] - bits, least))
        scale = np.where(np.abs(hi) > 1, 2.0 ** -3, 1) if greatest == 1023 else 1.0
        inside = [np.sign(v) * np.minimum(np.abs(v) * scale, limit * scale if greatest < 1023 else 2.0 ** 1021)
                  for v in (y, np.where(np.abs(hi) > limit, np.inf * np.sign(hi), hi))]
        ulp = np.where(np.abs(hi) >= limit, np.ldexp(1.0, greatest - bits + 1), ulp)
        e = np.abs(inside[0] - inside[1]) / (ulp * scale)
        if dtype == 'float64':
            e = np.abs((inside[0] - inside[1]) / (ulp * scale) - lo / 256)
    e = np.where(at & ~np.isnan(e), e, 0)
    k = int(np.argmax(e))
    return float(e[k]), [float(v[k]) for v in ins], int(wrong.sum())


def run(binary, dtype, cases, env):
    """Runs a graph with an op for each case; returns the results by case."""
    wide = 'complex128' if dtype.startswith('complex') else 'float64'
    with tempfile.TemporaryDirectory() as folder:
        graph = {'version': 1, 'name': 'accuracy', 'inputs': [], 'nodes': [], 'outputs': []}
        values, labels = {}, {name: 'v%d' % k for k, name in enumerate(cases)}
        for name, ins in cases.items():
            names = ['%s_%d' % (labels[name], k) for k in range(len(ins))]
            attrs = CASES[name][4] if wide == 'float64' and len(CASES[name]) > 4 else {}
            for label, v in zip(names, ins):
                values[label] = v.astype(wide)
                graph['inputs'].append({'name': label, 'dtype': wide, 'shape': [len(v)]})
                graph['nodes'].append({'name': label + 'c', 'op': 'to', 'inputs': [label], 'attrs': {'dtype': dtype}})
            graph['nodes'].append({'name': labels[name] + 'r', 'op': name.split()[0], 'inputs': [n + 'c' for n in names],
                                   **({'attrs': attrs} if attrs else {})})
            graph['nodes'].append({'name': labels[name], 'op': 'to', 'inputs': [labels[name] + 'r'],
                                   'attrs': {'dtype': wide}})
            graph['outputs'].append(labels[name])
        path, out = os.path.join(folder, 'graph.json'), os.path.join(folder, 'out.npz')
        with open(path, 'w') as f:
            json.dump(graph, f)
        np.savez(os.path.join(folder, 'in.npz'), **values)
        subprocess.run([binary, 'run', path, '--inputs', os.path.join(folder, 'in.npz'), '--outputs', out], check=True,
                       env={**os.environ, **env}, stdout=subprocess.DEVNULL)
        got = np.load(out)
        return {name: got[labels[name]] for name in cases}


def table(binary, names, factor, dtypes):
    """Yields by case and dtype a list of (name of the path or PyTorch, error, operands, wrong results)."""
    stored = np.load(VECTORS)
    made = {name: vectors(name, factor) if factor > 1 or name + '/x' not in stored else (
        list(stored[name + '/x']), stored[name + '/true'], stored[name + '/rest']) for name in names}
    for dtype in dtypes:
        found = {path: run(binary, dtype, {n: v[0] for n, v in made.items()}, env) for path, env in PATHS.items()}
        for name, (ins, hi, lo) in made.items():
            rows = [(path, found[path][name]) for path in PATHS] + [('PyTorch', torch_results(name, ins, dtype))]
            yield name, dtype, [(path, *measured(y, ins, hi, lo, dtype)) for path, y in rows if y is not None]


def complex_table(binary):
    """Returns by case the cells for complex64 and complex128, each of machine code, portable and PyTorch."""
    stored = np.load(VECTORS)
    made = {name: (stored['complex ' + name + '/x'], stored['complex ' + name + '/true']) for name in COMPLEX}
    cells = {name: [] for name in COMPLEX}
    for dtype in ('complex64', 'complex128'):
        results = [run(binary, dtype, {n: list(x) for n, (x, _) in made.items()}, env) for env in PATHS.values()]
        for name, (x, want) in made.items():
            theirs = (COMPLEX[name][0] or getattr(torch, name))(*(torch.from_numpy(v.astype(dtype)) for v in x)).numpy()
            cells[name] += ['%.3g' % complex_errors(y, want, dtype) for y in [r[name] for r in results] + [theirs]]
    return cells


def main():
    p = argparse.ArgumentParser()
    p.add_argument('what', choices=['vectors', 'table', 'show'])
    p.add_argument('binary', nargs='?')
    p.add_argument('--only', default='')
    p.add_argument('--factor', type=int, default=1)
    p.add_argument('--dtypes', default='float32,float64,float16,bfloat16')
    a = p.parse_args()
    torch.set_num_threads(1)
    names = [n for n in CASES if not a.only or n in a.only.split(',') or n.split()[0] in a.only.split(',')]
    if a.what == 'vectors':
        arrays = {}
        for name in names:
            ins, arrays[name + '/true'], arrays[name + '/rest'] = vectors(name, a.factor)
            arrays[name + '/x'] = np.stack(ins)
        for name in COMPLEX if not a.only else []:
            arrays['complex ' + name + '/x'], arrays['complex ' + name + '/true'] = complex_vectors(name)
        return np.savez_compressed(VECTORS, **arrays)
    dtypes = a.dtypes.split(',')
    cells = {}
    for name, dtype, rows in table(a.binary, names, a.factor, dtypes):
        if a.what == 'show':
            print('%-34s %-8s' % (name, dtype), '  '.join('%s %.4g%s' % (path, e, ' (%d wrong)' % w if w else '')
                  for path, e, _, w in rows), [at for _, _, at, _ in rows] if a.only else '', flush=True)
        for path, e, _, w in rows:
            cells[name, dtype, path] = '%.3g' % e + (', %d wrong' % w if w else '')
    if a.what == 'table':
        columns = [(d, path) for d in dtypes for path in (*PATHS, 'PyTorch') if d.startswith('float') and d != 'float16' or
                   path != 'portable']
        short = {'machine code': 'code', 'portable': 'portable', 'PyTorch': 'PyTorch'}
        lines = ['| function | ' + ' | '.join('%s %s' % (d, short[q]) for d, q in columns) + ' |',
                 '|---' + '|---:' * len(columns) + '|']
        lines += ['| %s | %s |' % (n, ' | '.join(cells.get((n, *c), '-') for c in columns)) for n in names]
        names = [d + ' ' + q for d in ('complex64', 'complex128') for q in short.values()]
        lines += ['', '| function | ' + ' | '.join(names) + ' |', '|---' + '|---:' * len(names) + '|']
        lines += ['| %s | %s |' % (n, ' | '.join(row)) for n, row in complex_table(a.binary).items()]
        path = os.path.join(ROOT, 'docs/accuracy.md')
        text = open(path).read()
        with open(path, 'w') as f:
            f.write(re.sub(r'(?s)(?<=## Errors\n).*', '\n' + '\n'.join(lines) + '\n', text))


main()
