#!/usr/bin/env python3
"""Solves the layout problems of a data set with toulbar2, and compares the optima with those that graphrun proves.

    graphrun study studies/layoutbench.json --models MODELS --problems DIR > times.csv
    scripts/toulbar2.py DIR [--times times.csv] [--limit 60] [--toulbar2 BINARY]

Prints a row for each problem that toulbar2 does not prove within the limit (seconds of CPU time), or whose optimum
differs, and then the totals. Exits with 1 if an optimum differs.
"""
import argparse
import csv
import os
import re
import statistics
import subprocess
import sys

OPTIMUM = re.compile(r"^Optimum: (\d+) in .* and ([\d.]+) seconds", re.M)


def solve(binary, path, limit):
    """The optimum that toulbar2 proves, and its time in seconds; None if it proves none in time."""
    run = subprocess.run([binary, path, f"-timer={limit}"], capture_output=True, text=True, errors="replace")
    found = OPTIMUM.search(run.stdout)
    return (int(found[1]), float(found[2])) if found else (None, None)


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("folder")
    flags.add_argument("--times", help="the output of graphrun study --problems")
    flags.add_argument("--limit", type=int, default=60)
    flags.add_argument("--toulbar2", default="toulbar2")
    args = flags.parse_args()
    ours = {}
    if args.times:
        with open(args.times) as f:
            ours = {row["problem"]: float(row["solve_ms"]) / 1e3 for row in csv.DictReader(f)}
    equal, different, unproved, open_, theirs = [], 0, 0, 0, {}
    with open(os.path.join(args.folder, "optima.csv")) as f:
        rows = list(csv.DictReader(f))
    for row in rows:
        name, least, bound = row["problem"], int(row["optimum_ps"]), int(row["lower_bound_ps"])
        cost, took = solve(args.toulbar2, os.path.join(args.folder, name + ".cfn.gz"), args.limit)
        if cost is None:
            unproved += 1
            print(f"{name}: toulbar2 proves no optimum in {args.limit} s; ours: {least}", flush=True)
        elif least != bound:
            open_ += 1
            print(f"{name}: ours is {least} with the bound {bound}; toulbar2 proves {cost}", flush=True)
        elif cost != least:
            different += 1
            print(f"{name}: DIFFERENT: ours is {least}; toulbar2 proves {cost}", flush=True)
        else:
            equal.append(name)
            theirs[name] = took
    print(f"{len(rows)} problems: {len(equal)} equal optima, {different} different, {unproved} not proved by toulbar2 in "
          f"{args.limit} s, {open_} not proved by graphrun")
    both = [n for n in equal if n in ours]
    for solver, times in (("toulbar2", theirs), ("graphrun", ours)):
        if both:
            print(f"{solver}: {sum(times[n] for n in both):.1f} s for the {len(both)} equal ones, median "
                  f"{1e3 * statistics.median(times[n] for n in both):.1f} ms, most {max(times[n] for n in both):.2f} s")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
