#!/usr/bin/python3
"""Compares operators of ONNX Runtime's domain with ONNX Runtime, on random calls.

    go build -o graphrun ./cmd/graphrun
    NODE_PATH=/path/to/node_modules /usr/bin/python3 scripts/contrib/compare.py --graphrun ./graphrun

The calls and their results in float64 come from scripts/vectors/runtime_calls.py. One row for each operator has the
number of calls, the number that ONNX Runtime supports on a processor, for these the greatest errors of graphrun and of
ONNX Runtime from float64 and their ratio, the ratio of the mean errors of all results with a z-score, and the greatest
error of graphrun in the other calls. Errors are relative to the largest element of a result, for gelu to that of the
operand. Errors of quantized results are in quantization steps: rounding alone is half a step. The greatest error is
that of one call, in which terms cancel, so its ratio varies by a factor of 2 and more with the seed. The mean is the
error of an operator. Its z-score is the mean difference of the two errors of a result, divided by its standard error:
below 3, the errors do not differ significantly. ONNX Runtime rounds less often where it fuses multiplication and
addition. The exit code is 1 if results have wrong shapes, if an error is greater than --limit times that of ONNX
Runtime, or times the error of four roundings where that is more, or if the mean error is significantly greater than
1.25 times that of ONNX Runtime.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../vectors"))
import case  # noqa: E402
from runtime_calls import OPERATORS, Rounded, draw, node_of  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
FLOOR = 2.0 ** -22  # four roundings of the largest element


def model_of(nodes, inputs, weights, wants, path):
    def info(k, a):
        return helper.make_tensor_value_info(k, case.kind(np.asarray(a)), np.asarray(a).shape)
    outs = [helper.make_tensor_value_info(k, case.kind(np.zeros(0, dtype_of(w))), None) for k, w in wants.items()]
    g = helper.make_graph(nodes, "calls", [info(k, a) for k, a in inputs.items()], outs,
                          [numpy_helper.from_array(a, k) for k, a in weights.items()])
    model = helper.make_model(g, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    model.ir_version = 8
    onnx.save(model, path)


def dtype_of(want):
    if isinstance(want, Rounded):
        return want.dtype
    return np.dtype(np.int32) if want.dtype.kind == "i" else np.dtype(np.float32)


def run_graphrun(options, folder, model, inputs):
    np.savez(os.path.join(folder, "in.npz"), **inputs)
    p = subprocess.run([options.graphrun, "run", model, "--inputs", os.path.join(folder, "in.npz"), "--outputs",
                        os.path.join(folder, "out.npz"), "--strategy", "propagate"], capture_output=True, text=True)
    if p.returncode:
        raise RuntimeError("graphrun: " + p.stderr.strip())
    return dict(np.load(os.path.join(folder, "out.npz")))


def run_ort(options, folder, model, inputs, **more):
    """The outputs by name; with more["seconds"] also the time of a run. ort.js documents more."""
    spec = {"model": model, "data": os.path.join(folder, "in.bin"), "out": os.path.join(folder, "out.bin"), "inputs": [],
            **more}
    with open(spec["data"], "wb") as f:
        for name, a in inputs.items():
            raw = np.ascontiguousarray(a).tobytes()
            spec["inputs"].append([name, str(a.dtype), list(a.shape), f.tell(), len(raw)])
            f.write(raw)
    path = os.path.join(folder, "spec.json")
    with open(path, "w") as f:
        json.dump(spec, f)
    p = subprocess.run([options.node, os.path.join(HERE, "ort.js"), path], capture_output=True, text=True)
    if p.returncode:
        raise RuntimeError("ONNX Runtime: " + p.stderr.strip())
    with open(spec["out"], "rb") as f:
        data = f.read()
    lines = p.stdout.splitlines()
    outputs = {name: np.frombuffer(data, type_, int(np.prod(dims)), offset).reshape(dims)
               for name, type_, dims, offset, _ in json.loads(lines[-1])}
    return (outputs, float(lines[-2])) if "seconds" in more else outputs


def error(got, want, magnitude):
    """The greatest error, in steps for a quantized result. Errors of floats are relative to the largest element."""
    exact = want.x if isinstance(want, Rounded) else want
    if got.shape != exact.shape or got.dtype != dtype_of(want):
        raise RuntimeError("%s%s, want %s%s" % (got.dtype, got.shape, dtype_of(want), exact.shape))
    if isinstance(want, Rounded):
        i = np.iinfo(want.dtype)
        exact, scale = np.clip(exact, i.min, i.max), 1.0
    else:
        finite = np.isfinite(exact)
        if not np.array_equal(exact[~finite], got[~finite]):
            raise RuntimeError("infinities differ")
        got, exact = got[finite], exact[finite]
        scale = max(magnitude, float(np.abs(exact).max()) if exact.size else 1.0)
    return float(np.abs(got.astype(float) - exact).max()) / (scale or 1.0) if exact.size else 0.0


class Errors:
    def __init__(self):
        self.calls = 0  # that ONNX Runtime supports
        self.pairs = []  # the errors of a result: graphrun's and ONNX Runtime's
        self.alone, self.floor, self.mismatches, self.elements = 0.0, FLOOR, 0, 0

    def add(self, ours, theirs, want, magnitude):
        a, self.floor = error(ours, want, magnitude), 0.5 if isinstance(want, Rounded) else FLOOR
        if theirs is None:
            self.alone = max(self.alone, a)
            return
        self.pairs.append((a, error(theirs, want, magnitude)))
        if isinstance(want, Rounded):
            self.mismatches += int(np.count_nonzero(ours != theirs))
            self.elements += ours.size

    def statistics(self):
        """The greatest errors, the ratio of the means (of errors below a tenth of a rounding, 1), and the z-score."""
        if not self.pairs:
            return 0.0, 0.0, 1.0, 0.0
        pairs = np.array(self.pairs)
        (ours, theirs), mean, least = pairs.max(0), pairs.mean(0), self.floor / 40
        difference = pairs[:, 0] - pairs[:, 1]
        deviation = difference.std() / np.sqrt(len(pairs))
        z = difference.mean() / deviation if deviation else 0.0
        return ours, theirs, max(mean[0], least) / max(mean[1], least), z


class Together:
    """Calls that are nodes of a model."""

    def __init__(self):
        self.nodes, self.inputs, self.weights, self.wants = [], {}, {}, {}

    def add(self, node, inputs, weights, wants):
        self.nodes.append(node)
        self.inputs.update(inputs), self.weights.update(weights)
        self.wants.update({k: w for k, w in wants.items() if k})

    def run(self, run, options, folder):
        model = os.path.join(folder, "model.onnx")
        model_of(self.nodes, self.inputs, self.weights, self.wants, model)
        return run(options, folder, model, self.inputs) if self.nodes else {}


def compare(options, name, folder):
    """Compares all calls of an operator, several in a model."""
    errors = Errors()
    for start in range(0, options.cases, options.together):
        every, runtime, magnitudes = Together(), Together(), {}
        for i in range(start, min(start + options.together, options.cases)):
            call = draw(name, options.seed + i, ties=True)
            parts = node_of(name, call, "c%d" % i)
            every.add(*parts)
            if call.runtime:
                runtime.add(*parts)
            magnitudes.update({k: float(call.magnitude) for k in parts[3]})
        ours, theirs = every.run(run_graphrun, options, folder), runtime.run(run_ort, options, folder)
        errors.calls += len(runtime.nodes)
        for k, w in every.wants.items():
            try:
                errors.add(ours[k], theirs.get(k), w, magnitudes[k])
            except RuntimeError as e:
                raise RuntimeError("output %s: %s" % (k, e)) from e
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphrun", default="graphrun")
    parser.add_argument("--node", default="node")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--together", type=int, default=20, help="calls in a model")
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--limit", type=float, default=4.0)
    parser.add_argument("operators", nargs="*")
    options = parser.parse_args()
    print("%-34s %5s %5s %10s %10s %6s %6s %6s %10s  %s" % ("operator", "calls", "ORT's", "graphrun", "ORT", "ratio",
                                                           "mean", "z", "others", "quantized: differ from ORT"))
    bad = False
    with tempfile.TemporaryDirectory() as folder:
        for name in options.operators or OPERATORS:
            try:
                e = compare(options, name, folder)
            except RuntimeError as err:
                print("%-34s %s" % (name, err))
                bad = True
                continue
            ours, theirs, mean, z = e.statistics()
            ratio = ours / max(theirs, e.floor)
            bad = bad or ratio > options.limit or e.alone > options.limit * e.floor or mean > 1.25 and z >= 3
            print("%-34s %5d %5d %10.3g %10.3g %6.2f %6.2f %6.1f %10.3g  %s" % (
                name, options.cases, e.calls, ours, theirs, ratio, mean, z, e.alone,
                "%d of %d" % (e.mismatches, e.elements) if e.elements else ""), flush=True)
    sys.exit(int(bad))


if __name__ == "__main__":
    main()
