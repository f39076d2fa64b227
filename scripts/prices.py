#!/usr/bin/env python3
"""Holds what steps of networks are priced at against what they take, and fits the prices of a profile to that.

    scripts/prices.py measure [--graphrun BINARY] [--strategies S,...] [--again] FOLDER MODEL.onnx...
    scripts/prices.py check [--profile PROFILE.json] [--by kernel|step] FOLDER...
    scripts/prices.py fit --profile PROFILE.json [--out PROFILE.json] [--rates PREFIX,...] FOLDER...

measure runs `graphrun plan --measure` for each network and strategy and keeps what it prints in FOLDER; what is there already is
measured again only with --again, so that a long list can be measured in parts. Nothing else should run meanwhile. check prices the
works of all steps by a profile (default: that by which they were planned) and prints the median error by network, by the inner kernels
that a step spends most time in, and with --by step the worst steps. fit changes the rates of kernels (those whose names begin with one
of --rates) and, with a prefix such as memory.dense, the levels of that curve, so that the logarithms of prices come nearest to those of
times, each network counting the same; a rate stays within a factor of 3 of what it was, so that what no step tells apart stays.
"""
import argparse
import collections
import glob
import json
import math
import os
import statistics
import subprocess
import sys


def network(path):
    base = os.path.basename(os.path.dirname(os.path.abspath(path))) if os.path.basename(path) == "model.onnx" else path
    return os.path.splitext(os.path.basename(base))[0]


class Step:
    """A measured step: its works, and how to price them."""

    def __init__(self, net, strategy, doc, kept, between):
        self.net, self.strategy, self.name, self.impl = net, strategy, doc["name"], doc.get("impl", "")
        self.ops, self.ns, self.was = doc["ops"], doc["measured_ns"], doc["cost_ns"]
        self.works, self.kept, self.between = doc["work"], kept, between

    def price(self, profile):
        """Nanoseconds, as machine.Profile.price has them."""
        return sum(max(0, price(w, profile, self.kept, self.between)) for w in self.works) / 1e3

    def parts(self, profile):
        """What of the price each kernel and each kind of access takes, where nothing overlaps."""
        parts = collections.Counter()
        for w in self.works:
            parts["step"] += w["steps"] * profile["step_ps"]
            for access, b in w["bytes"].items():
                touched = max(w["footprint"], self.kept) if access in ("kept", "panels") else w["footprint"] + self.between
                parts["memory." + access] += b * at(profile["memory"][access], touched)
            for kernels in (w["kernels"], w["waits"]):
                for k, u in kernels.items():
                    parts[k] += u * profile["kernels"].get(k, 0)
        return parts


def at(curve, size):
    if size <= curve[0]["bytes"]:
        return curve[0]["ps"]
    for a, b in zip(curve, curve[1:]):
        if size <= b["bytes"]:
            return a["ps"] + (b["ps"] - a["ps"]) * math.log(size / a["bytes"]) / math.log(b["bytes"] / a["bytes"])
    return curve[-1]["ps"]


def price(w, profile, kept, between):
    memory, rates = profile["memory"], profile["kernels"]
    ps, dense = w["steps"] * profile["step_ps"], 0
    for access, b in w["bytes"].items():
        if access == "dense":
            dense = b * at(memory["dense"], w["footprint"] + between)
        else:
            touched = max(w["footprint"], kept) if access in ("kept", "panels") else w["footprint"] + between
            ps += b * at(memory[access], touched)
    ps += sum(u * rates.get(k, 0) for k, u in w["waits"].items())
    compute = sum(u * rates.get(k, 0) for k, u in w["kernels"].items())
    return ps + (dense + compute if dense < 0 else max(dense, compute))


def load(folders):
    steps = []
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
            doc = json.load(open(path))
            m = doc["measured"]
            net, strategy = os.path.basename(path)[:-len(".json")].rsplit(".", 1)
            steps += [Step(net, strategy, s, m["kept_bytes"], m["between_bytes"]) for s in doc["steps"] if s.get("work")]
    if not steps:
        sys.exit(f"no measured steps in {' '.join(folders)}")
    return steps


def measure(args):
    os.makedirs(args.folder, exist_ok=True)
    for model in args.models:
        for strategy in args.strategies.split(","):
            path = os.path.join(args.folder, f"{network(model)}.{strategy}.json")
            if os.path.exists(path) and not args.again:
                continue
            command = [args.graphrun, "plan", model, "--strategy", strategy, "--measure", "--json"]
            run = subprocess.run(command + (["--costs", args.profile] if args.profile else []), capture_output=True, text=True)
            if run.returncode:
                sys.exit(f"{model}, {strategy}: exit {run.returncode}\n{run.stderr}")
            with open(path + ".part", "w") as f:
                f.write(run.stdout)
            os.rename(path + ".part", path)


def shipped(binary):
    """No profile given: prices are those of the plan."""
    return None


def cost(step, profile):
    return step.was if profile is None else step.price(profile)


def errors(steps, profile):
    return [abs(cost(s, profile) / s.ns - 1) for s in steps]


def table(title, groups, profile):
    print(f"{title:44} {'steps':>6} {'measured us':>12} {'priced us':>12} {'ratio':>6} {'median error':>13} {'p10':>6} {'p50':>6} {'p90':>6}")
    for name, steps in groups:
        ratios = sorted(cost(s, profile) / s.ns for s in steps)
        total, priced = sum(s.ns for s in steps) / 1e3, sum(cost(s, profile) for s in steps) / 1e3
        quantile = lambda q: ratios[min(len(ratios) - 1, int(q * len(ratios)))]
        print(f"{name:44} {len(steps):6} {total:12.1f} {priced:12.1f} {priced / total:6.2f} "
              f"{100 * statistics.median(errors(steps, profile)):12.1f}% {quantile(.1):6.2f} {quantile(.5):6.2f} {quantile(.9):6.2f}")


def check(args):
    steps = load(args.folders)
    profile = json.load(open(args.profile)) if args.profile else None
    by = collections.defaultdict(list)
    for s in steps:
        by[s.net + " " + s.strategy].append(s)
    table("network", sorted(by.items()), profile)
    prices = profile or json.load(open(args.terms))
    by = collections.defaultdict(list)
    for s in steps:
        parts = s.parts(prices)
        by[f"{s.impl or '-'} {max(parts, key=parts.get)}"].append(s)
    print()
    table("implementation, largest part", sorted(by.items(), key=lambda x: -sum(s.ns for s in x[1])), profile)
    print(f"\nover all steps the median error is {100 * statistics.median(errors(steps, profile)):.1f}%")
    if args.by != "step":
        return
    print()
    for s in sorted(steps, key=lambda s: -abs(cost(s, profile) - s.ns))[:args.worst]:
        parts = ", ".join(f"{k} {v / 1e3:.0f}" for k, v in s.parts(prices).most_common(6))
        print(f"{s.net} {s.strategy} {s.name} {s.impl}: {s.ns / 1e3:.1f} us, priced {cost(s, profile) / 1e3:.1f}: {parts}")


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = flags.add_subparsers(dest="command", required=True)
    m = commands.add_parser("measure")
    m.add_argument("--graphrun", default="graphrun")
    m.add_argument("--strategies", default="optimal,propagate")
    m.add_argument("--profile")
    m.add_argument("--again", action="store_true")
    m.add_argument("folder")
    m.add_argument("models", nargs="+")
    c = commands.add_parser("check")
    c.add_argument("--profile")
    c.add_argument("--terms", default=os.path.join(os.path.dirname(__file__), "../internal/machine/profiles/avx512.json"))
    c.add_argument("--by", choices=["kernel", "step"], default="kernel")
    c.add_argument("--worst", type=int, default=60)
    c.add_argument("folders", nargs="+")
    args = flags.parse_args()
    {"measure": measure, "check": check}[args.command](args)


if __name__ == "__main__":
    main()
