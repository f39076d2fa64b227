#!/usr/bin/env python3
"""Compares the run times of networks between this and another checkout.

    scripts/speed.py BASE MODELS [--threads 1,2] [--rounds 3] [--for 1s] [NETWORK ...]

BASE is a checkout of the version to compare with. MODELS has a folder for each network, with its model.onnx
(scripts/networks/zoo.py). Both versions are built in three link orders, because the address of a loop changes its time
by some percent, and are measured alternately. The time of a version is the minimum over link orders and rounds of the
median. A line for each network has both times in ms and their ratio, this checkout / BASE; the last line has the
geometric mean. The machine should be idle."""
import argparse
import json
import math
import os
import subprocess
import tempfile

ORDERS = (0, 1, 2)  # for go build -ldflags=-randlayout; 0 is the linker's default


def build(checkout, folder, name):
    paths = []
    for k in ORDERS:
        paths.append(os.path.join(folder, f"{name}{k}"))
        subprocess.run(["go", "build", "-trimpath", f"-ldflags=-randlayout={k}", "-o", paths[-1], "./cmd/graphrun"],
                       cwd=checkout, check=True)
    return paths


def median(graphrun, model, threads, span):
    out = subprocess.run([graphrun, "bench", model, "--threads", str(threads), "--for", span, "--json"],
                         check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return json.loads(out)["median_ns"] / 1e6


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("base")
    p.add_argument("models")
    p.add_argument("networks", nargs="*")
    p.add_argument("--threads", default="1,2")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--for", dest="span", default="1s")
    a = p.parse_intermixed_args()
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    names = a.networks or sorted(n for n in os.listdir(a.models) if os.path.exists(f"{a.models}/{n}/model.onnx"))
    with tempfile.TemporaryDirectory() as folder:
        base, new = build(a.base, folder, "base"), build(here, folder, "new")
        for threads in map(int, a.threads.split(",")):
            logs = []
            print(f"threads {threads}: network, base ms, new ms, new / base", flush=True)
            for name in names:
                times = [[], []]
                for _ in range(a.rounds):
                    for pair in zip(base, new):
                        for side, graphrun in enumerate(pair):
                            times[side].append(median(graphrun, f"{a.models}/{name}/model.onnx", threads, a.span))
                least = [min(t) for t in times]
                logs.append(math.log(least[1] / least[0]))
                print(f"{name:24}{least[0]:9.3f}{least[1]:9.3f}{least[1] / least[0]:8.3f}", flush=True)
            print(f"{'geometric mean':42}{math.exp(sum(logs) / len(logs)):8.3f}", flush=True)


if __name__ == "__main__":
    main()
