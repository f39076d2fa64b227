#!/usr/bin/env python3
"""Compares the plans of networks between two builds of graphrun.

    scripts/plans.py BASE NEW MODELS [NETWORK ...]

BASE and NEW are binaries. MODELS has a folder for each network, with its model.onnx (scripts/networks/zoo.py). Each
network is planned under every strategy of both binaries, and under the default strategy with --exact. Steps (names, implementations,
strides), copies and the estimated cost must be equal. Prints the differences of each network, and exits with 1 if there
are any."""
import json
import os
import subprocess
import sys


def strategies(binary):
    """The names of all strategies, as the shell completes them."""
    out = subprocess.run([binary, "__complete", "plan", "--strategy", ""], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, check=True)
    return [line for line in out.stdout.decode().splitlines() if not line.startswith(":")]


def plan(binary, model, options):
    p = subprocess.run([binary, "plan", model, "--json", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if p.returncode:
        raise SystemExit(f"{binary} plan {model} {' '.join(options)}: {p.stderr.decode()}")
    return json.loads(p.stdout)


def steps(p):
    return {(s["name"], s["impl"], str(s["strides"])) for s in p["steps"]}


def copies(p):
    return sorted((c["value"], str(c["from"]), str(c["to"])) for c in p["copies"])


def difference(a, b):
    """The differences of two plans in words; "" if there are none."""
    words = []
    removed, added = steps(a) - steps(b), steps(b) - steps(a)
    if removed or added:
        words.append(f"{len(removed)} steps became {len(added)} others: {sorted(removed)[:2]} > {sorted(added)[:2]}")
    if copies(a) != copies(b):
        words.append(f"copies {len(a['copies'])} > {len(b['copies'])}")
    if abs(a["cost_ns"] - b["cost_ns"]) > 1e-9 * a["cost_ns"]:
        words.append(f"cost {a['cost_ns'] / 1e6:.4f} > {b['cost_ns'] / 1e6:.4f} ms")
    return "; ".join(words)


def main():
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    base, new, models = sys.argv[1:4]
    names = sys.argv[4:] or sorted(n for n in os.listdir(models) if os.path.exists(f"{models}/{n}/model.onnx"))
    known = strategies(new)
    choices = [("--strategy", s) for s in strategies(base) if s in known] + [("--exact",)]
    failed = False
    for name in names:
        model, equal = f"{models}/{name}/model.onnx", 0
        for options in choices:
            d = difference(plan(base, model, options), plan(new, model, options))
            if d:
                print(f"{name} {' '.join(options)}: {d}", flush=True)
            equal += not d
        print(f"{name}: {equal} of {len(choices)} plans are equal", flush=True)
        failed |= equal < len(choices)
    return failed


if __name__ == "__main__":
    sys.exit(main())
