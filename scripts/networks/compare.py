#!/usr/bin/python3
"""Compares outputs with PyTorch's, or runs exported networks and compares their outputs.

    compare.py [--times K] WANT.npz GOT.npz [EXACT.npz]    prints "ok" or the differences; exits with 1 if there are any
    compare.py DIR [--only TEXT] -- graphrun               runs all DIR/*/model.onnx and prints a line for each

Each output must have the dtype and shape of PyTorch's output; integers and booleans must be equal. Floating-point
elements may differ by at most 3e-4 of the largest magnitude in their tensor, from PyTorch's float32 output or, if
given, from the float64 output. In addition, the largest error relative to the float64 output may be at most K times
(default: twice) that of PyTorch's float32 output, or 1e-6 of the largest magnitude, if this is larger. The rounding
error of Winograd convolutions is three to nine times that of direct sums, each within 1e-5 of the largest magnitude;
networks with them use K = 4. A folder with layers.txt has a quantized network, which is compared layer by layer: see
layers.py.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np

SCALE, FLOOR = 3e-4, 1e-6


def largest(x):
    return float(np.max(np.abs(x), initial=0))


def differs(want, got, wide, times):
    """Describes how an output differs, or None; and returns its error relative to its scale."""
    if want.dtype != got.dtype or want.shape != got.shape:
        return "is %s%s, want %s%s" % (got.dtype, list(got.shape), want.dtype, list(want.shape)), 0
    if want.dtype.kind not in "fc":
        off = int(np.count_nonzero(want != got))
        return ("%d of %d differ" % (off, want.size) if off else None), 0
    finite = np.isfinite(want)
    if not np.array_equal(want[~finite], got[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
        return "infinities or NaN at other places", 0
    a, b = want[finite].astype(np.complex128), got[finite].astype(np.complex128)
    scale, off = largest(a), largest(a - b)
    exact = None
    if wide is not None and wide.shape == want.shape and np.array_equal(np.isfinite(wide), finite):
        exact = wide[finite]
        off = min(off, largest(exact - b))
    if off > SCALE * scale:
        return "off by %.2g of %.2g" % (off, scale), off / scale if scale else np.inf
    if exact is not None:
        ours, theirs = largest(exact - b), largest(exact - a)
        if ours > max(times * theirs, FLOOR * scale):
            return "off by %.2g from float64, PyTorch's float32 by %.2g" % (ours, theirs), off / scale
    return None, off / scale if scale else 0


def compare(want_path, got_path, exact_path=None, times=2):
    """Lists the differences, and returns the largest relative error. Having no outputs counts as a difference."""
    want, got = np.load(want_path), np.load(got_path)
    wide = np.load(exact_path) if exact_path and os.path.exists(exact_path) else {}
    wrong, worst = [], 0.0
    if not want.files:
        wrong.append("there is nothing to compare")
    for k in want.files:
        if k not in got.files:
            wrong.append("no output %s" % k)
            continue
        how, off = differs(want[k], got[k], wide[k] if k in wide else None, times)
        worst = max(worst, off)
        if how:
            wrong.append("%s %s" % (k, how))
    return wrong, worst


def run(folder, tool):
    if os.path.exists(os.path.join(folder, "layers.txt")):
        import layers  # requires torch and onnx, unlike the rest of this file
        return layers.run(folder, tool), 0.0
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, "out.npz")
        r = subprocess.run(tool + ["run", os.path.join(folder, "model.onnx"), "--inputs", os.path.join(folder, "inputs.npz"),
                                   "--outputs", out], capture_output=True, text=True)
        if r.returncode:
            return [(r.stderr.strip().split("\n") or ["?"])[-1]], 0.0
        return compare(os.path.join(folder, "outputs.npz"), out, os.path.join(folder, "exact.npz"))


def main(args):
    if "--" not in args:
        times = 2
        if args[:1] == ["--times"] and len(args) > 1:
            times, args = float(args[1]), args[2:]
        if len(args) not in (2, 3):
            sys.exit(__doc__)
        wrong, worst = compare(*args, times=times)
        print("%s (off by %.1e of the largest)" % (", ".join(wrong) or "ok", worst))
        sys.exit(1 if wrong else 0)
    cut = args.index("--")
    only = args[args.index("--only") + 1] if "--only" in args[:cut] else ""
    folders = sorted(d for d, _, files in os.walk(args[0]) if "model.onnx" in files and only in d)
    failed = 0
    for folder in folders:
        wrong, worst = run(folder, args[cut + 1:])
        failed += bool(wrong)
        print("%-44s %.1e  %s" % (os.path.basename(folder), worst, ", ".join(wrong) or "ok"), flush=True)
    print("%d of %d agree" % (len(folders) - failed, len(folders)))
    sys.exit(1 if failed or not folders else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
