#!/usr/bin/python3
"""Writes statistics.json: drawn samples, and what SciPy computes from them. Debian's python3-scipy suffices.

    /usr/bin/python3 experiment/testdata/statistics.py
"""
import itertools
import json
import os

import numpy
import scipy
from scipy import stats

draw = numpy.random.default_rng(1)


def samples(n, values):
    """n times with a skewed distribution; of a coarse clock if values is not 0."""
    times = draw.lognormal(0, 0.3, n) * 1000
    return [float(x) for x in (numpy.round(times / 1000 * values) if values else numpy.round(times, 3))]


def mann_whitney():
    """Exact without ties, exact with ties by all permutations, and the normal approximation with ties."""
    for n1, n2, values, method in [(4, 5, 0, "exact"), (10, 10, 0, "exact"), (25, 20, 0, "exact"), (12, 25, 0, "exact"),
                                   (4, 5, 5, "permutations"), (6, 5, 4, "permutations"), (7, 6, 8, "permutations"),
                                   (26, 10, 0, "asymptotic"), (40, 30, 0, "asymptotic"), (40, 30, 12, "asymptotic"),
                                   (100, 26, 5, "asymptotic")]:
        for shift in (0, 0.2, 0.6):
            a, b = samples(n1, values), [x + round(shift * (values or 1000)) for x in samples(n2, values)]
            if method == "permutations":
                p = min(1, 2 * min(stats.permutation_test((a, b), lambda x, y: stats.mannwhitneyu(x, y).statistic,
                                                          alternative=side, n_resamples=numpy.inf).pvalue
                                   for side in ("less", "greater")))
            else:
                p = stats.mannwhitneyu(a, b, alternative="two-sided", method=method).pvalue
            yield {"a": a, "b": b, "p": float(p)}


def holm():
    """Holm's method by its definition as a closed test: the greatest Bonferroni p-value of all sets with a hypothesis."""
    for n in (1, 2, 3, 6, 10):
        for _ in range(4):
            values = [float(x) for x in draw.beta(0.4, 3, n)]
            corrected = [0.0] * n
            for size in range(1, n + 1):
                for chosen in itertools.combinations(range(n), size):
                    p = min(1, size * min(values[i] for i in chosen))
                    for i in chosen:
                        corrected[i] = max(corrected[i], p)
            yield {"values": values, "corrected": corrected}


def median_interval():
    """The order statistics that enclose the median with at least 95%, by the quantile of the binomial distribution."""
    for n in (5, 6, 9, 20, 41, 100, 333):
        times = samples(n, 0)
        below = int(stats.binom.ppf(0.025, n, 0.5))  # the least k with P(X <= k) >= 2.5%
        if 2 * stats.binom.cdf(below - 1, n, 0.5) > 0.05 or below == 0:
            yield {"times": times, "low": None, "high": None}
        else:
            yield {"times": times, "low": sorted(times)[below - 1], "high": sorted(times)[n - below]}


def trend():
    """Kendall's test against time, which is the Mann-Kendall test, and the Theil-Sen slope."""
    for n, values in [(4, 0), (10, 0), (10, 4), (33, 0), (33, 6), (120, 0), (120, 10)]:
        for slope in (0, 0.02, -0.1):
            times = [x + round(slope * i * (values or 1000)) for i, x in enumerate(samples(n, values))]
            yield {"times": times, "p": float(stats.kendalltau(range(n), times, method="asymptotic").pvalue),
                   "slope": float(stats.theilslopes(times)[0])}


def quantiles():
    for p in (1e-9, 0.001, 0.3, 0.8, 0.995, 1 - 1e-6):
        yield {"p": p, "z": float(stats.norm.ppf(p))}


with open(os.path.join(os.path.dirname(__file__), "statistics.json"), "w") as f:
    doc = {"scipy": scipy.__version__, "mann_whitney": list(mann_whitney()), "holm": list(holm()),
           "median_interval": list(median_interval()), "trend": list(trend()), "normal_quantile": list(quantiles())}
    parts = ['%s: %s' % (json.dumps(key), json.dumps(value) if isinstance(value, str) else
                         "[\n  " + ",\n  ".join(json.dumps(x) for x in value) + "]") for key, value in doc.items()]
    f.write("{" + ",\n ".join(parts) + "}\n")
