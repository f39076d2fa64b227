"""Writes a few calls of every op, with PyTorch's results, as test vectors.

A folder gets graph.json.gz (one graph of independent nodes), expected.json.gz (metadata and errors), and inputs.npz and
outputs.npz. These have one array for each dtype with the elements of all values in order, each in logical order.
"""
import gzip
import json
import os
import tempfile

import numpy as np

import calls
import compare
import reasons

MOST = 40                                            # maximum number of elements of a value


def features(n, c):
    """The unusual features of a call."""
    f = {"refused"} if n["name"] in c.errors else set()
    for x in c.inputs:
        if x["name"] not in n["inputs"]:
            continue
        f.add(x["dtype"])
        if 0 in x["shape"]:
            f.add("empty")
        if not x["shape"]:
            f.add("0-dim")
        if 1 in x["shape"]:
            f.add("ones")
        if not reasons.dense(x):
            f.add("strided")
        if any(s == 0 and n > 1 for n, s in zip(x["shape"], x["strides"])):
            f.add("expanded")
        if x.get("offset"):
            f.add("offset")
    return f | {"%s=%s" % kv for kv in n.get("attrs", {}).items() if isinstance(kv[1], (bool, str))}


def small(n, c):
    ins = [x for x in c.inputs if x["name"] in n["inputs"]]
    outs = [c.values[o] for o in n.get("outputs", [n["name"]]) if o in c.values]
    return all(np.prod(x["shape"]) <= MOST for x in ins + outs)


def choose(op, make, count, seed, tool, before=None, mended_only=False):
    """Selects calls of an op that together cover the most features, among those without a difference.

    Calls on which the older command (--before) differs have priority, or are the only ones: they fail with older code.
    """
    c = calls.drawn(op, make, range((40 if mended_only else 10) * count), seed, op not in ("topk", "kthvalue"))
    if not c.nodes:
        return c
    with tempfile.TemporaryDirectory() as folder:
        late = {}
        wrong = {n["name"] for _, n, _ in compare.check(tool, folder, c, late)}
        mended = {n["name"] for _, n, _ in compare.check(before, folder, c)} if before else set()
    left = [n for n in c.nodes if n["name"] not in wrong and n["name"] not in late and small(n, c)]
    if mended_only:
        left = [n for n in left if n["name"] in mended]
    seen, chosen = set(), []
    while left and len(chosen) < count:
        best = max(left, key=lambda n: (n["name"] in mended, len(features(n, c) - seen)))
        left.remove(best)
        seen |= features(best, c)
        chosen.append(best)
    c.nodes, c.again, c.got = chosen, {}, {}
    return c


class Book:
    """The calls of all ops, with unique names."""

    def __init__(self):
        self.graph = {"version": 1, "name": "walk", "inputs": [], "nodes": [], "outputs": []}
        self.values, self.errors, self.ins, self.outs = {}, {}, {}, {}

    def read(self, folder):
        """Reads the existing calls of a folder."""
        def text(name):
            with gzip.open(os.path.join(folder, name + ".json.gz")) as f:
                return json.load(f)
        self.graph, expected = text("graph"), text("expected")
        self.values, self.errors = expected["values"], expected["errors"]
        for name, to in (("inputs", self.ins), ("outputs", self.outs)):
            with np.load(os.path.join(folder, name + ".npz")) as z:
                to.update({d: [z[d]] for d in z.files})

    def add(self, c, mark=""):
        """Adds calls; mark distinguishes them from other calls of the op."""
        names, op = {}, c.op + mark
        for x in c.inputs:
            if any(x["name"] in n["inputs"] for n in c.nodes):
                names[x["name"]] = "%s.%s" % (op, x["name"])
                self.graph["inputs"].append(dict(x, name=names[x["name"]]))
                self.ins.setdefault(x["dtype"], []).append(c.data[x["name"]].reshape(-1))
        for n in c.nodes:
            name = "%s.%s" % (op, n["name"])
            outs = n.get("outputs", [n["name"]])
            m = dict(n, name=name, inputs=[names[i] if isinstance(i, str) else i for i in n["inputs"]])
            if "outputs" in n:
                m["outputs"] = ["%s.%s" % (op, o) for o in outs]
            self.graph["nodes"].append(m)
            if n["name"] in c.errors:
                self.errors[name] = c.errors[n["name"]]
                continue
            for o in outs:
                v = c.values[o]
                self.values["%s.%s" % (op, o)] = {k: names[x] if k == "alias_of" and x else x for k, x in v.items() if k != "flags"}
                self.outs.setdefault(v["dtype"], []).append(c.results[o].reshape(-1))

    def write(self, folder):
        os.makedirs(folder, exist_ok=True)
        for name, what in (("graph", self.graph), ("expected", {"values": self.values, "errors": self.errors})):
            with gzip.GzipFile(os.path.join(folder, name + ".json.gz"), "wb", mtime=0) as f:
                f.write(json.dumps(what, separators=(",", ":")).encode())
        for name, data in (("inputs", self.ins), ("outputs", self.outs)):
            np.savez_compressed(os.path.join(folder, name + ".npz"), **{d: np.concatenate(a) for d, a in sorted(data.items())})
