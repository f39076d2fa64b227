#!/usr/bin/env python3
"""Kills graphrun batch with SIGKILL at random times, fills its disk, and checks that the outputs are complete and exact.

    scripts/batch_kills.py GRAPHRUN DIR [--inputs 20000] [--kills 20] [--seed 1] [--fill]

GRAPHRUN is the command; DIR is an empty directory for inputs and outputs. --fill first fills the file system of DIR, on
which the run must then fail; DIR should be a small file system of its own, for example a tmpfs of 200 MB. Afterwards
the space is released and the run continues. Requires numpy.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

MODEL = {"version": 1, "symbols": {"N": {}}, "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 8]}],
         "nodes": [{"name": "d", "op": "mul", "inputs": ["x", 3]}, {"name": "y", "op": "add", "inputs": ["d", 1]}],
         "outputs": ["y"]}


def values(i):
    """The input with number i."""
    return np.arange(8 * (1 + i % 3), dtype=np.float32).reshape(-1, 8) + np.float32(i)


def fill(path):
    """Writes a file until its file system is full, but for 4 MiB."""
    with open(path, "wb", buffering=0) as f:
        for size in (1 << 20, 1 << 12):
            try:
                while True:
                    f.write(bytes(size))
            except OSError:
                pass
        f.truncate(f.tell() - (4 << 20))


def check(out, count, complete=True):
    """Checks the outputs, and returns their number. complete says whether there must be an output for each input."""
    wrong, found = 0, 0
    for i in range(count):
        if not complete and not (out / f"{i:06}.npz").exists():
            continue
        found += 1
        with np.load(out / f"{i:06}.npz") as z:
            wrong += z["y"].tobytes() != (values(i) * np.float32(3) + np.float32(1)).tobytes()
    names = {p.name for p in out.iterdir() if p.name != ".graphrun"}
    extra = names - {f"{i:06}.npz" for i in range(count)}
    if wrong or extra:
        sys.exit(f"{wrong} outputs are wrong; {len(extra)} files are not outputs: {sorted(extra)[:3]}")
    return found


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("graphrun")
    ap.add_argument("dir", type=Path)
    ap.add_argument("--inputs", type=int, default=20000)
    ap.add_argument("--kills", type=int, default=20)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--fill", action="store_true")
    a = ap.parse_args()
    inputs, out, model = a.dir / "in", a.dir / "out", a.dir / "model.json"
    inputs.mkdir()
    model.write_text(json.dumps(MODEL))
    for i in range(a.inputs):
        np.save(inputs / f"{i:06}.npy", values(i))
    command = [a.graphrun, "batch", str(model), "--inputs", str(inputs / "*.npy"), "--outputs", str(out)]
    if a.fill:
        filler = a.dir / "filler"
        fill(filler)
        r = subprocess.run(command, capture_output=True, text=True)
        print("full disk: exit code", r.returncode, r.stderr.strip().splitlines()[-2:], flush=True)
        if r.returncode != 1 or not ("the disk is full" in r.stderr or "no space left" in r.stderr):
            sys.exit("the run on a full disk did not fail as expected")
        print(f"the {check(out, a.inputs, complete=False)} outputs on the full disk are exact", flush=True)
        os.remove(filler)
    rng, kills, limit = random.Random(a.seed), 0, 0.5
    while True:
        p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if kills < a.kills:
            try:
                p.wait(rng.uniform(0.01, limit))
            except subprocess.TimeoutExpired:
                p.kill()
                kills += 1
            else:
                limit /= 2  # it ended before the kill
        text, errors = p.communicate()
        if p.returncode == 0:
            print(f"after {kills} kills: {text.strip()}", flush=True)
            break
        if p.returncode != -9:
            sys.exit(f"exit code {p.returncode}: {errors}")
    if kills < a.kills:
        sys.exit(f"the run ended after {kills} kills: use more inputs")
    check(out, a.inputs)
    start = time.monotonic()
    again = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if again != f"done 0, skipped {a.inputs}, failed 0":
        sys.exit(f"the second run: {again}")
    print(f"{a.inputs} outputs are exact; the next run skips them in {time.monotonic() - start:.1f} s")


if __name__ == "__main__":
    main()
