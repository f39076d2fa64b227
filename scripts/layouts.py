#!/usr/bin/env python3
"""Prints the table of docs/layouts.md: what plans of networks cost under every strategy, and how far that is from the least.

    scripts/layouts.py [--graphrun BINARY] [--runs R] MODEL.onnx...

Each MODEL is planned under all strategies on one thread; the certificate of the optimal plan is checked by `graphrun verify`. With
--runs R, `graphrun compare` measures them too, R runs each in rounds, for one thread and for two, and what the prices say of each
pair of strategies is held against the measured order wherever times differ by more than 5%.
"""
import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile

STRATEGIES = ["propagate", "contiguous", "channels_last", "greedy", "favourite", "push", "optimal"]


def name(path):
    base = os.path.basename(os.path.dirname(os.path.abspath(path))) if os.path.basename(path) == "model.onnx" else path
    return os.path.splitext(os.path.basename(base))[0]


def document(args):
    run = subprocess.run(args + ["--json"], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{' '.join(args)}: exit {run.returncode}\n{run.stderr}")
    return json.loads(run.stdout)


def certified(binary, model):
    """The report of the optimal plan, and whether its certificate holds."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "certificate.json")
        report = document([binary, "plan", model, "--strategy", "optimal", "--certificate", path])
        check = subprocess.run([binary, "verify", model, path], capture_output=True, text=True)
        if check.returncode:
            print(f"{model}: {check.stdout}{check.stderr}", file=sys.stderr)
        return report, check.returncode == 0, os.path.getsize(path)


def row(binary, model):
    best, holds, size = certified(binary, model)
    layout = next(p["ms"] for p in best["passes"] if p["pass"] == "layout")
    low = best["lower_bound_ns"]
    cells = [name(model), str(len(best["steps"])), f"{best['cost_ns'] / 1e3:.0f}",
             "yes" if best["optimal"] and holds else f"gap {100 * (best['cost_ns'] / low - 1):.2f}%" if holds else "NO"]
    for s in STRATEGIES[:-1]:
        other = document([binary, "plan", model, "--strategy", s])
        cells.append(f"{round(100 * (other['cost_ns'] / best['cost_ns'] - 1), 1) + 0.0:.1f}")
    return cells + [str(len(best["copies"])), f"{layout:.1f}", f"{size / 1024:.0f}"]


def order(binary, model, runs, threads):
    """Pairs of strategies whose times differ by more than 5%, surely, and those that prices order otherwise."""
    rows = document([binary, "compare", model, "--runs", str(runs), "--threads", threads])["strategies"]
    wrong, pairs = [], 0
    for a, b in itertools.combinations(rows, 2):
        if max(a["median_ns"], b["median_ns"]) < 1.05 * min(a["median_ns"], b["median_ns"]):
            continue
        pairs += 1
        if (a["cost_ns"] - b["cost_ns"]) * (a["median_ns"] - b["median_ns"]) <= 0:
            wrong.append(f"{a['strategy']} {a['median_ns'] / 1e6:.3f} ms, {b['strategy']} {b['median_ns'] / 1e6:.3f} ms")
    times = {r["strategy"]: r["median_ns"] / 1e6 for r in rows}
    return times, pairs, wrong


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--graphrun", default="graphrun")
    flags.add_argument("--runs", type=int, default=0)
    flags.add_argument("models", nargs="+")
    args = flags.parse_args()
    heads = ["network", "steps", "least, us", "proved"] + [s + " %" for s in STRATEGIES[:-1]] + ["copies", "layout ms", "certificate KiB"]
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads), flush=True)
    for model in args.models:
        print("| " + " | ".join(row(args.graphrun, model)) + " |", flush=True)
    if not args.runs:
        return
    for threads in ("1", "2"):
        heads = ["network"] + [s + " ms" for s in STRATEGIES] + ["pairs apart by 5%", "priced otherwise"]
        print(f"\n{threads} thread(s)\n\n| " + " | ".join(heads) + " |\n|" + "---|" * len(heads), flush=True)
        for model in args.models:
            times, pairs, wrong = order(args.graphrun, model, args.runs, threads)
            print(f"| {name(model)} | " + " | ".join(f"{times[s]:.3f}" for s in STRATEGIES) +
                  f" | {pairs} | {'; '.join(wrong) or 'none'} |", flush=True)


if __name__ == "__main__":
    main()
