#!/usr/bin/python3
"""Compares all ops with PyTorch: schemas with aten's, and calls with unusual operands of every dtype.

    go build -o /tmp/graphrun ./cmd/graphrun
    scripts/aten_walk/walk.py schemas --tool /tmp/graphrun
    scripts/aten_walk/walk.py vectors --tool /tmp/graphrun --out kernels/testdata/walk
    scripts/aten_walk/walk.py vectors --tool /tmp/graphrun --out kernels/testdata/walk --add --before /tmp/older --seed 7 OP...
    scripts/aten_walk/walk.py calls   --tool /tmp/graphrun [--count 240] [--seed 1] [OP...]

calls draws every op's operands (empty, 0-dim, size-1, strided, expanded, channels-last) and attributes, runs PyTorch,
and compares dtypes, layouts, aliases, errors and values. Deliberate differences are listed in reasons.py and counted at
the end, followed by the ops without a counterpart in PyTorch. vectors stores a few calls of each op for a test.
Requires a Python with torch 1.13, torchvision 0.14 and numpy.
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
import composites  # noqa: F401  fills CALLS
import folding    # noqa: F401
import linalg     # noqa: F401
import ordering   # noqa: F401
import others
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


def examine(a, op, calls_of):
    """The calls of an op, the differences, and the deliberate differences."""
    c = calls.drawn(op, CALLS[op], calls_of, a.seed)
    with tempfile.TemporaryDirectory() as folder:
        bad = compare.check(a.tool, folder, c) if c.nodes else []
    why = [reasons.reason(kind, n, text, c) for kind, n, text in bad]
    c.data, c.results, c.again, c.got = {}, {}, {}, {}
    return [(c, [b for b, w in zip(bad, why) if not w], [(b, w) for b, w in zip(bad, why) if w])]


def survive(a, op, calls_of):
    """Runs examine, on halves of the calls if PyTorch crashes: 1.13 does for the minimum integer divided by -1."""
    done = apart(lambda: examine(a, op, calls_of))
    if done is not None:
        return done
    if len(calls_of) == 1:
        return []
    half = len(calls_of) // 2
    return survive(a, op, calls_of[:half]) + survive(a, op, calls_of[half:])


def apart(f):
    """Computes f's result in another process, because 1.13 sometimes writes out of bounds. None if it crashed."""
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


def covered(known, silent):
    """Prints how many ops were walked, and the reasons for the others. Returns whether each of them has a reason."""
    left = known - set(CALLS)
    for why, ops in reasons.UNWALKED.items():
        ops = left & set(ops.split())
        left -= ops
        print("not walked, %s: %s" % (why, " ".join(sorted(ops))))
    print("walked %d of %d ops; without a reason: %s; PyTorch accepts no call of: %s" % (
        len(known & set(CALLS) - silent), len(known), " ".join(sorted(left)) or "none", " ".join(sorted(silent)) or "none"))
    return not left and not silent


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("what", choices=["schemas", "calls", "vectors"])
    ap.add_argument("ops", nargs="*")
    ap.add_argument("--tool", default="graphrun")
    ap.add_argument("--out", help="folder for vectors")
    ap.add_argument("--before", help="an older graphrun: vectors that it gets wrong are kept first")
    ap.add_argument("--add", action="store_true", help="keep the vectors in --out, and add those that --before gets wrong")
    ap.add_argument("--count", type=int, default=240)
    ap.add_argument("--seed", default="1")
    ap.add_argument("--show", type=int, default=3, help="differences of a kind and op to print")
    a = ap.parse_intermixed_args()
    if a.what == "schemas":
        sys.exit(schemas.walk(names(a.tool)))
    if a.what == "vectors":
        book = vectors.Book()
        if a.add:
            book.read(a.out)
        for op in a.ops or sorted(set(CALLS) - others.UNDEFINED):
            c = apart(lambda: vectors.choose(op, CALLS[op], 8, a.seed, a.tool, a.before, a.add))
            if c is None:
                sys.exit("PyTorch crashed in %s: use another --seed" % op)
            book.add(c, ".%s" % a.seed if a.add else "")
        book.write(a.out)
        sys.exit(0)
    known = {k[3:] for k in names(a.tool) if k.startswith("op.")}
    tried = failed = died = 0
    silent = set()                                   # ops without a call that PyTorch accepts
    meant = collections.Counter()
    for op in a.ops or sorted(CALLS):
        if op not in known:
            print("%s: unknown op" % op)
            continue
        done = survive(a, op, range(a.count))
        lost = a.count - sum(c.drawn for c, _, _ in done)
        bad = [(c, b) for c, some, _ in done for b in some]
        kept = [w for _, _, some in done for _, w in some]
        tried, failed, died = tried + sum(len(c.nodes) for c, _, _ in done), failed + len(bad), died + lost
        meant.update("%s: %s" % (op, w) for w in kept)
        if not any(len(c.errors) < len(c.nodes) for c, _, _ in done):
            silent.add(op)
        by = collections.defaultdict(list)
        for c, (kind, n, text) in bad:
            by[kind].append((c, n, text))
        print("== %s: %d calls, %d rejected by PyTorch, %d without an overload, %d crash PyTorch, %d deliberate differences; %s" % (
            op, sum(len(c.nodes) for c, _, _ in done), sum(len(c.errors) for c, _, _ in done), sum(c.unbound for c, _, _ in done),
            lost, len(kept), ", ".join("%s %d" % (k, len(v)) for k, v in by.items()) or "all agree"), flush=True)
        for kind, some in by.items():
            for c, n, text in some[:a.show]:
                print("   %s: %s: %s" % (kind, show(n, c), text))
    for why, times in sorted(meant.items()):
        print("%6d %s" % (times, why))
    print("%d calls, %d differ, %d more deliberately; PyTorch crashed in %d" % (tried, failed, sum(meant.values()), died))
    sys.exit(1 if failed or not a.ops and not covered(known, silent) else 0)


if __name__ == "__main__":
    main()
