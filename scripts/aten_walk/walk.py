#!/usr/bin/python3
"""Walks the catalogue beside PyTorch: schemas against aten's, and calls with odd operands of every dtype.

    go build -o /tmp/graphrun ./cmd/graphrun
    scripts/aten_walk/walk.py schemas --tool /tmp/graphrun
    scripts/aten_walk/walk.py vectors --tool /tmp/graphrun --out kernels/testdata/walk
    scripts/aten_walk/walk.py calls   --tool /tmp/graphrun [--count 240] [--seed 1] [OP...]

calls draws every op's operands (empty, 0-dim, size-1, strided, expanded, channels-last) and attributes,
asks PyTorch, and compares dtypes, layouts, aliases, refusals and values; what differs
on purpose is in reasons.py. vectors keeps a few calls of each op for a test. A Python with torch 1.13 and numpy is wanted.
"""
import argparse
import collections
import json
import os
import pickle
import subprocess
import sys
import tempfile
import warnings

import torch

import calls
import compare
import folding    # noqa: F401  fills CALLS
import windows    # noqa: F401
import reasons
import schemas
import vectors
from pointwise import CALLS

warnings.filterwarnings("ignore")
torch.set_num_threads(1)


def names(tool):
    text = subprocess.run([tool, "schema"], capture_output=True, text=True, check=True).stdout
    return json.loads(text)["$defs"]


def show(n, c):
    ins = {x["name"]: x for x in c.inputs}

    def one(i):
        if not isinstance(i, str):
            return json.dumps(i)
        x = ins[i]
        return "%s%s@%s" % (x["dtype"], x["shape"], x["strides"]) + ("+%d" % x["offset"] if "offset" in x else "")
    return "%s(%s) %s" % (n["op"], ", ".join(one(i) for i in n["inputs"]), json.dumps(n.get("attrs", {})))


def examine(a, op):
    """An op's calls and what differs."""
    c = calls.drawn(op, CALLS[op], a.count, a.seed)
    with tempfile.TemporaryDirectory() as folder:
        bad = compare.check(a.tool, folder, c) if c.nodes else []
    c.data, c.results, c.again = {}, {}, {}
    return c, bad


def apart(f):
    """f's result, computed in another process: 1.13 writes out of bounds here and there. None if it died."""
    with tempfile.NamedTemporaryFile() as out:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with open(out.name, "wb") as to:
                    pickle.dump(f(), to)
                code = 0
            except SystemExit as e:
                print(e)
            finally:
                sys.stdout.flush()
                os._exit(code)
        if os.waitpid(child, 0)[1] != 0:
            return None
        return pickle.load(out)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("what", choices=["schemas", "calls", "vectors"])
    ap.add_argument("ops", nargs="*")
    ap.add_argument("--tool", default="graphrun")
    ap.add_argument("--out", help="folder for vectors")
    ap.add_argument("--before", help="an older graphrun: vectors that it gets wrong are kept first")
    ap.add_argument("--count", type=int, default=240)
    ap.add_argument("--seed", default="1")
    ap.add_argument("--show", type=int, default=3, help="differences of a kind and op to print")
    a = ap.parse_intermixed_args()
    if a.what == "schemas":
        sys.exit(schemas.walk(names(a.tool)))
    if a.what == "vectors":
        book = vectors.Book()
        for op in sorted(CALLS):
            c = apart(lambda: vectors.choose(op, CALLS[op], 8, a.seed, a.tool, a.before))
            if c is None:
                sys.exit("PyTorch died at %s: take another --seed" % op)
            book.add(c)
        book.write(a.out)
        sys.exit(0)
    known = {k[3:] for k in names(a.tool) if k.startswith("op.")}
    tried = failed = meant = 0
    for op in a.ops or sorted(CALLS):
        if op not in known:
            print("%s: not in the catalogue" % op)
            continue
        done = apart(lambda: examine(a, op))
        if done is None:
            print("== %s: PyTorch died" % op, flush=True)
            failed += 1
            continue
        c, bad = done
        tried += len(c.nodes)
        known_bad = [b for b in bad if reasons.reason(b[0], b[1], b[2], c)]
        bad = [b for b in bad if not reasons.reason(b[0], b[1], b[2], c)]
        failed, meant = failed + len(bad), meant + len(known_bad)
        by = collections.defaultdict(list)
        for kind, n, text in bad:
            by[kind].append((n, text))
        print("== %s: %d calls, %d refused by PyTorch, %d without an overload, %d differ for a reason; %s" % (
            op, len(c.nodes), len(c.errors), c.unbound, len(known_bad), ", ".join("%s %d" % (k, len(v)) for k, v in by.items()) or "all agree"), flush=True)
        for kind, some in by.items():
            for n, text in some[:a.show]:
                print("   %s: %s: %s" % (kind, show(n, c), text))
    print("%d calls, %d differ, %d more for a reason" % (tried, failed, meant))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
