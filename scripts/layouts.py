#!/usr/bin/env python3
"""Prints the table of docs/layouts.md: the plan costs of networks under every strategy, and their distances from the
optimum.

    scripts/layouts.py [--graphrun BINARY] [--strategies A,B] MODEL.onnx...

Plans each MODEL under the strategies, by default all, for one thread, and checks the certificate of the optimal plan
with `graphrun verify`. scripts/prices.py measures the times of the strategies.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile


def strategies(binary):
    """The names that --strategy accepts, without optimal."""
    args = [binary, "__complete", "plan", "--strategy", ""]
    run = subprocess.run(args, capture_output=True, text=True)
    names = [line for line in run.stdout.splitlines() if line and not line.startswith(":")]
    if run.returncode or not names:
        sys.exit(f"{' '.join(args)}: exit {run.returncode}\n{run.stderr}")
    return [name for name in names if name != "optimal"]


def name(path):
    base = os.path.basename(os.path.dirname(os.path.abspath(path))) if os.path.basename(path) == "model.onnx" else path
    return os.path.splitext(os.path.basename(base))[0]


def document(args):
    run = subprocess.run(args + ["--json"], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{' '.join(args)}: exit {run.returncode}\n{run.stderr}")
    return json.loads(run.stdout)


def certified(binary, model):
    """The report of the optimal plan, and whether its certificate is valid."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "certificate.json")
        report = document([binary, "plan", model, "--strategy", "optimal", "--certificate", path])
        check = subprocess.run([binary, "verify", model, path], capture_output=True, text=True)
        if check.returncode:
            print(f"{model}: {check.stdout}{check.stderr}", file=sys.stderr)
        return report, check.returncode == 0, os.path.getsize(path)


def row(binary, names, model):
    best, holds, size = certified(binary, model)
    layout = next(p["ms"] for p in best["passes"] if p["pass"] == "layout")
    low = best["lower_bound_ns"]
    cells = [name(model), str(len(best["steps"])), f"{best['cost_ns'] / 1e3:.0f}",
             "yes" if best["optimal"] and holds else f"gap {100 * (best['cost_ns'] / low - 1):.2f}%" if holds else "NO"]
    for s in names:
        other = document([binary, "plan", model, "--strategy", s])
        cells.append(f"{round(100 * (other['cost_ns'] / best['cost_ns'] - 1), 1) + 0.0:.1f}")
    return cells + [str(len(best["copies"])), f"{layout:.1f}", f"{size / 1024:.0f}"]


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--graphrun", default="graphrun")
    flags.add_argument("--strategies", type=lambda text: text.split(","))
    flags.add_argument("models", nargs="+")
    args = flags.parse_args()
    names = args.strategies or strategies(args.graphrun)
    heads = ["network", "steps", "least, us", "proved"] + [s + " %" for s in names] + ["copies", "layout ms", "certificate KiB"]
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads), flush=True)
    for model in args.models:
        print("| " + " | ".join(row(args.graphrun, names, model)) + " |", flush=True)


if __name__ == "__main__":
    main()
