"""Runs graphrun on calls and lists differences from PyTorch."""
import json
import os
import re
import subprocess

import numpy as np

from others import UNDEFINED

TOL = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 3e-5, "float64": 1e-10, "complex64": 1e-4, "complex128": 1e-9}


def write(folder, graph, data):
    with open(os.path.join(folder, "graph.json"), "w") as f:
        f.write('{"version": 1, "name": %s,\n"inputs": [' % json.dumps(graph["name"]))
        f.write(",\n".join(json.dumps(x) for x in graph["inputs"]) + '],\n"nodes": [\n')
        f.write(",\n".join(json.dumps(x) for x in graph["nodes"]) + '],\n"outputs": %s}\n' % json.dumps(graph["outputs"]))
    np.savez(os.path.join(folder, "inputs.npz"), **data)


def restrict(c, nodes):
    """The graph with some of the nodes, and the data of their inputs."""
    ins = {i for n in nodes for i in n["inputs"] if isinstance(i, str)}
    outs = {o for n in nodes for o in n.get("outputs", [n["name"]])}
    g = c.graph()
    g = dict(g, nodes=nodes, inputs=[x for x in g["inputs"] if x["name"] in ins], outputs=[o for o in g["outputs"] if o in outs])
    return g, {k: v for k, v in c.data.items() if k in ins}


def infer(tool, folder, c, late=None):
    """Values and errors by name. Nodes that the loader rejects are errors too, and are appended to late."""
    nodes, refused = list(c.nodes), {}
    while True:
        g, data = restrict(c, nodes)
        write(folder, dict(g, outputs=[]), data)
        r = subprocess.run([tool, "infer", os.path.join(folder, "graph.json"), "--json", "--keep-going"], capture_output=True, text=True)
        try:
            got = json.loads(r.stdout)
            break
        except ValueError:
            bad = dict(re.findall(r'node "(\w+)"[^:]*: (.*)', r.stderr))
            if not bad or not any(n["name"] in bad for n in nodes):
                raise SystemExit("%s: infer says nothing: %s" % (c.op, r.stderr[:2000]))
            refused.update(bad)
            nodes = [n for n in nodes if n["name"] not in bad]
    errors = {e["node"]: e["message"] for e in got.get("errors") or []}
    if late is not None:
        late.update(refused)
    errors.update(refused)
    return {v["name"]: v for v in got["values"]}, errors


def run(tool, folder, c, nodes):
    """Results by name. If a run fails, its halves are run separately."""
    if not nodes:
        return {}, {}
    g, data = restrict(c, nodes)
    write(folder, g, data)
    out = os.path.join(folder, "outputs.npz")
    if os.path.exists(out):
        os.remove(out)
    r = subprocess.run([tool, "run", os.path.join(folder, "graph.json"), "--inputs", os.path.join(folder, "inputs.npz"),
                        "--outputs", out, "--threads", "2"], capture_output=True, text=True)
    if r.returncode == 0 and os.path.exists(out):
        with np.load(out) as z:
            return {k: z[k] for k in z.files}, {}
    if len(nodes) == 1:
        return {}, {nodes[0]["name"]: r.stderr.strip()[-300:]}
    half = len(nodes) // 2
    (a, ea), (b, eb) = run(tool, folder, c, nodes[:half]), run(tool, folder, c, nodes[half:])
    return {**a, **b}, {**ea, **eb}


def numbers(x, dtype):
    """Converts an array with the bits of bfloat16 to floats; other dtypes are returned unchanged."""
    if dtype == "bfloat16" and x.dtype == np.uint16:
        return (np.atleast_1d(x).astype(np.uint32) << 16).view(np.float32).reshape(x.shape)
    return x


def differ(want, got, dtype, undefined=False):
    want, got = numbers(want, dtype), numbers(got, dtype)
    if want.shape != got.shape or want.dtype != got.dtype:
        return "%s%s, want %s%s" % (got.dtype, got.shape, want.dtype, want.shape)
    tol = TOL.get(dtype)
    if undefined:
        return None
    if tol is None:
        if np.array_equal(want, got):
            return None
    elif np.allclose(got, want, rtol=tol, atol=tol, equal_nan=True):
        return None
    k = np.flatnonzero(~np.isclose(got, want, rtol=tol or 0, atol=tol or 0, equal_nan=True))[0]
    return "at %d of %d: got %s, want %s" % (k, want.size, got.reshape(-1)[k], want.reshape(-1)[k])


def error(x, exact):
    """The distances from exact numbers, 0 for equal NaNs and infinities."""
    same = (x == exact) | np.isnan(x) & np.isnan(exact)
    with np.errstate(all="ignore"):
        far = np.abs(np.where(same, 0, x) - np.where(same, 0, exact))
    return np.where(np.isnan(far), np.inf, far)


def judge(want, got, exact, dtype):
    """Describes which of two results is nearer to float64, in the elements that differ."""
    if dtype not in TOL or dtype in ("float64", "complex128") or exact is None or exact.shape != want.shape:
        return ""
    want, got = numbers(want, dtype), numbers(got, dtype)
    apart = ~np.isclose(got, want, rtol=TOL[dtype], atol=TOL[dtype], equal_nan=True)
    ours, theirs = error(got, exact)[apart], error(want, exact)[apart]
    if (ours <= theirs).all():
        return "; ours is nearer to float64's %s" % exact[apart][0]
    return "; float64 gives %s" % exact[apart][np.argmax(ours - theirs)]


def told(sizes, want):
    """Whether inferred sizes match; data-dependent sizes are names, which match any size."""
    return len(sizes) == len(want) and all(isinstance(a, str) or a == b for a, b in zip(sizes, want))


def check(tool, folder, c, late=None):
    """The differences: (kind, node, text). Nodes rejected only by the loader or the run are appended to late."""
    values, errors = infer(tool, folder, c, late)
    bad, good, later = [], [], []
    for n in c.nodes:
        name, outs = n["name"], n.get("outputs", [n["name"]])
        if name in c.errors:
            if name not in errors:
                later.append(n)
            continue
        if name in errors:
            bad.append(("refused", n, errors[name]))
            continue
        at = len(bad)
        for o in outs:
            w, g = c.values[o], values.get(o, {})
            # Sizes that depend on data, and strides, are known only after the run.
            if "dtype" in g and (g.get("strides") is None or any(isinstance(k, str) for k in g["shape"])):
                if g["dtype"] != w["dtype"]:
                    bad.append(("dtype", n, "%s: want %s, got %s" % (o, w["dtype"], g["dtype"])))
                elif g["shape"] is not None and not told(g["shape"], w["shape"]):
                    bad.append(("shape", n, "%s: want %s, got %s" % (o, w["shape"], g["shape"])))
                continue
            for key in ("dtype", "shape", "strides", "offset", "flags", "alias_of"):
                a, b = w[key], g.get(key, 0 if key == "offset" else None)
                if key == "alias_of" and 0 in w["shape"] or key == "offset" and 0 in w["shape"]:
                    continue
                if key == "flags":
                    a, b = sorted(a), sorted(b or [])
                if a != b:
                    bad.append((key, n, "%s: want %s, got %s" % (o, a, b)))
                    break
        if len(bad) == at or bad[-1][0] in ("strides", "flags", "alias_of", "offset"):
            good.append(n)
    for n in later:                                  # errors in the data are found only by the run
        names = n.get("outputs", [n["name"]])
        c.outputs += names
        if n["name"] not in run(tool, folder, c, [n])[1]:
            bad.append(("served", n, c.errors[n["name"]]))
        del c.outputs[-len(names):]
    got, failed = run(tool, folder, c, good)
    c.got = got
    for n in good:
        if n["name"] in failed:
            bad.append(("fails", n, failed[n["name"]]))
            continue
        for k, o in enumerate(n.get("outputs", [n["name"]])):
            d = c.values[o]["dtype"]
            why = differ(c.results[o], got[o], d, c.op in UNDEFINED) if o in got else "missing"
            if why and o in got and got[o].shape == c.results[o].shape:
                why += judge(c.results[o], got[o], (c.exact(n["name"]) or {k: None})[k], d)
            if why:
                bad.append(("value", n, "%s: %s" % (o, why)))
                break
    return bad
