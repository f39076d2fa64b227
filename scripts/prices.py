#!/usr/bin/env python3
"""Compares the prices of networks' steps with their measured times, and fits the prices of a profile to the times.

    scripts/prices.py measure [--graphrun BINARY] [--strategies S,...] [--again] FOLDER MODEL.onnx...
    scripts/prices.py check [--profile PROFILE.json] [--by kernel|step] FOLDER...
    scripts/prices.py fit --profile PROFILE.json [--out PROFILE.json] [--ship PROFILE.json] [--rates PREFIX,...] FOLDER...

measure runs `graphrun plan --measure` for each network and strategy and stores the output in FOLDER. Existing
measurements are repeated only with --again, so that a long list can be measured in parts. The machine should be idle.

check computes the prices of all steps with a profile (default: the one they were planned with) and prints the median
error by network, by the inner kernels that take most of a step's time, and with --by step the worst steps. fit changes
the rates of kernels whose names begin with one of --rates, and, with a prefix such as memory.dense, the levels of that
curve, to minimize the differences between the logarithms of prices and times, with equal weight for each network. A
rate stays within a factor of 3 of its old value, and rates that the steps do not determine stay unchanged.
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
    """A measured step, with its works and their prices."""

    def __init__(self, net, strategy, doc, kept):
        self.net, self.strategy, self.name, self.impl = net, strategy, doc["name"], doc.get("impl", "")
        self.ops, self.ns, self.was = doc["ops"], doc["measured_ns"], doc["cost_ns"]
        self.works, self.kept = doc["work"], kept

    def price(self, profile):
        """The price in nanoseconds, like machine.Profile.price."""
        return sum(max(0, price(w, profile, self.kept)) for w in self.works) / 1e3

    def parts(self, profile):
        """The share of each kernel and each kind of access in the price, assuming that nothing overlaps."""
        parts = collections.Counter()
        for w in self.works:
            parts["step"] += w["steps"] * profile["step_ps"]
            for access, b in w["bytes"].items():
                touched = max(w["footprint"], self.kept) if access in ("kept", "panels") else w["footprint"]
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


def price(w, profile, kept):
    memory, rates = profile["memory"], profile["kernels"]
    ps, dense = w["steps"] * profile["step_ps"], 0
    for access, b in w["bytes"].items():
        if access == "dense":
            dense = b * at(memory["dense"], w["footprint"])
        else:
            touched = max(w["footprint"], kept) if access in ("kept", "panels") else w["footprint"]
            ps += b * at(memory[access], touched)
    ps += sum(u * rates.get(k, 0) for k, u in w["waits"].items())
    compute = sum(u * rates.get(k, 0) for k, u in w["kernels"].items())
    return ps + (dense + compute if dense < 0 else max(dense, compute))


def load(folders):
    """Loads the steps with a cost. A concatenation whose operands were all written in place has none."""
    steps = []
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
            doc = json.load(open(path))
            net, strategy = os.path.basename(path)[:-len(".json")].rsplit(".", 1)
            steps += [Step(net, strategy, s, doc["constants_bytes"]) for s in doc["steps"] if any(w["bytes"] for w in s.get("work") or [])]
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


class Terms:
    """The prices of many steps as functions of a profile's rates: linear, except for max(memory, arithmetic)."""

    def __init__(self, steps, profile):
        import numpy as np
        self.np, self.profile = np, profile
        self.keys = ["step_ps"] + [("kernel", k) for k in sorted(profile["kernels"])]
        self.keys += [(a, i) for a in profile["memory"] for i in range(len(profile["memory"][a]))]
        place = {k: i for i, k in enumerate(self.keys)}
        rows = [(n, s, w) for n, s in enumerate(steps) for w in s.works]
        # For each work: latencies, sequential memory accesses, and the arithmetic that overlaps with these.
        self.waits, self.dense, self.compute = (np.zeros((len(rows), len(self.keys))) for _ in range(3))
        self.step = np.array([n for n, _, _ in rows])
        for r, (_, s, w) in enumerate(rows):
            self.waits[r, 0] = w["steps"]
            for access, b in w["bytes"].items():
                touched = max(w["footprint"], s.kept) if access in ("kept", "panels") else w["footprint"]
                for i, share in between(profile["memory"][access], touched):
                    (self.dense if access == "dense" else self.waits)[r, place[access, i]] += b * share
            for kernels, part in ((w["waits"], self.waits), (w["kernels"], self.compute)):
                for k, u in kernels.items():
                    part[r, place["kernel", k]] += u
        self.count, self.ps = len(steps), np.array([1e3 * s.ns for s in steps])
        nets = collections.Counter(s.net for s in steps)
        self.weight = np.array([1 / math.sqrt(nets[s.net]) for s in steps])
        self.weight /= self.weight.sum()

    def rates(self):
        p = self.profile
        return self.np.array([p["step_ps"] if k == "step_ps" else p["kernels"][k[1]] if k[0] == "kernel" else
                              p["memory"][k[0]][k[1]]["ps"] for k in self.keys])

    def put(self, rates):
        for k, x in zip(self.keys, rates):
            x = float(f"{x:.4g}")
            if k == "step_ps":
                self.profile["step_ps"] = x
            elif k[0] == "kernel":
                self.profile["kernels"][k[1]] = x
            else:
                self.profile["memory"][k[0]][k[1]]["ps"] = x

    def price(self, rates):
        """The prices of steps, and their derivatives with respect to the rates."""
        np = self.np
        dense, compute = self.dense @ rates, self.compute @ rates
        both = (dense < 0)[:, None]
        chosen = np.where(both, self.dense + self.compute, np.where((dense > compute)[:, None], self.dense, self.compute))
        slopes = self.waits + chosen
        each = slopes @ rates
        slopes[each < 0] = 0
        prices, change = np.zeros(self.count), np.zeros((self.count, len(rates)))
        np.add.at(prices, self.step, np.maximum(each, 0))
        np.add.at(change, self.step, slopes)
        return np.maximum(prices, 1e3), change


def between(curve, size):
    """The points of a curve between which a size lies, and their weights."""
    if size <= curve[0]["bytes"]:
        return [(0, 1)]
    for i, (a, b) in enumerate(zip(curve, curve[1:])):
        if size <= b["bytes"]:
            t = math.log(size / a["bytes"]) / math.log(b["bytes"] / a["bytes"])
            return [(i, 1 - t), (i + 1, t)]
    return [(len(curve) - 1, 1)]


def fit(args):
    """Gauss-Newton iterations on the logarithms of rates, with weights that limit the influence of a single step."""
    profile = json.load(open(args.profile))
    for k, x in profile["kernels"].items():
        profile["kernels"][k] = x or 20.0  # otherwise it could not grow
    terms = Terms(load(args.folders), profile)
    np, first = terms.np, terms.rates()
    prefixes = tuple(args.rates.split(","))
    name = lambda k: k if isinstance(k, str) else k[1] if k[0] == "kernel" else "memory." + k[0]
    free = np.array([name(k).startswith(prefixes) and x > 0 for k, x in zip(terms.keys, first)])
    start = np.log(np.where(free, first, 1))
    x = start.copy()
    for _ in range(args.turns):
        rates = np.where(free, np.exp(x), first)
        prices, change = terms.price(rates)
        off = np.log(prices / terms.ps)
        weight = terms.weight / np.maximum(np.abs(off), args.bound)  # minimizes the sum of errors instead of squares
        slopes = (change * rates / prices[:, None])[:, free]
        a = slopes.T @ (weight[:, None] * slopes) + args.keep * np.eye(free.sum())
        b = slopes.T @ (weight * off) + args.keep * (x - start)[free]
        for i, k in enumerate(k for k, f in zip(terms.keys, free) if f):  # neighbors on a curve are coupled
            if i and not isinstance(k, str) and k[0] != "kernel" and k[1] > 0 and terms.keys[np.flatnonzero(free)[i - 1]][0] == k[0]:
                d = (x - start)[free][i] - (x - start)[free][i - 1]
                for u, v in ((i, i - 1), (i - 1, i)):
                    a[u, u] += args.smooth
                    a[u, v] -= args.smooth
                    b[u] += args.smooth * (d if u == i else -d)
        x[free] -= .5 * np.linalg.solve(a, b)
        x = np.clip(x, start - math.log(args.most), start + math.log(args.most))
    terms.put(np.where(free, np.exp(x), first))
    for k, was, now in zip(terms.keys, first, terms.rates()):
        if free[terms.keys.index(k)] and abs(math.log(now / was)) > .25:
            print(f"{k if isinstance(k, str) else k[0] + ' ' + str(k[1]):28} {was:12.5g} -> {now:12.5g}")
    for curve in profile["memory"].values():  # the curve must not fall with the number of bytes
        for i in range(len(curve) - 2, -1, -1):
            curve[i]["ps"] = min(curve[i]["ps"], curve[i + 1]["ps"])
    if args.ship:
        was = json.load(open(args.ship))
        profile["cpu"] = was["cpu"]
        profile.pop("measured", None)
        profile = {k: profile.get(k, x) for k, x in was.items()}
    for path in filter(None, (args.out, args.ship)):
        with open(path, "w") as f:
            json.dump(profile, f, indent=2)
            f.write("\n")


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
    c.add_argument("--terms", default=os.path.join(os.path.dirname(__file__), "../pricing/profiles/avx512.json"))
    c.add_argument("--by", choices=["kernel", "step"], default="kernel")
    c.add_argument("--worst", type=int, default=60)
    c.add_argument("folders", nargs="+")
    f = commands.add_parser("fit")
    f.add_argument("--profile", required=True)
    f.add_argument("--out")
    f.add_argument("--ship", help="a shipped profile to replace: it keeps its cpu name, without the time of measurement")
    f.add_argument("--rates", default="")
    f.add_argument("--turns", type=int, default=40)
    f.add_argument("--keep", type=float, default=1e-3, help="the weight of a rate's old value")
    f.add_argument("--smooth", type=float, default=1e-3, help="the weight of the coupling of neighboring levels of a curve")
    f.add_argument("--bound", type=float, default=.05, help="the relative error below which errors count quadratically")
    f.add_argument("--most", type=float, default=3, help="the factor by which a rate may change")
    f.add_argument("folders", nargs="+")
    args = flags.parse_args()
    {"measure": measure, "check": check, "fit": fit}[args.command](args)


if __name__ == "__main__":
    main()
