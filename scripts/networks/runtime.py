#!/usr/bin/python3
"""Compares networks with ONNX Runtime in the forms that its optimiser and quantiser write.

    /usr/bin/python3 scripts/networks/export.py --out NETWORKS transformer_bert transformer_gpt ...
    NODE_PATH=/path/to/node_modules runtime.py NETWORKS FORMS [--only TEXT] [--rounds 3] -- graphrun

The forms of each network are written to the folder FORMS unless they exist: extended (ONNX Runtime's optimised model),
fixed (this model, optimised again for the sizes of the first inputs: most fusions need known sizes), dynamic and 4bit
(of fixed, by scripts/quantize.py), static (of the exported model), dynamic+ and static+ (these, optimised); for encoders
fused (fused.py) and fused8 (this model, quantized). A row has the operators of ONNX Runtime's domain in a form, and the greatest error from the float64 outputs
over all inputs that fit, relative to the largest element: graphrun's, ONNX Runtime's, and the difference of the two. With
--rounds, rows have the times of a run on the first inputs, in alternation. The exit code is 1 if a form does not run, if
graphrun's error is more than twice that of ONNX Runtime and 2e-6, or if the difference is more than three times it.
"""
import argparse
import collections
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../contrib"))
import compare as contrib  # noqa: E402

FORMS = ["float", "extended", "fixed", "dynamic", "dynamic+", "static", "static+", "4bit", "fused", "fused8"]
FIXED = {"fixed", "dynamic", "dynamic+", "4bit"}
FLOOR = 2e-6


class Network:
    """An exported network: its folders with inputs and outputs, and its forms."""

    def __init__(self, name, options):
        self.name, self.options = name, options
        self.folders = sorted(glob.glob(os.path.join(options.networks, name + ".*")))

    def load(self, i, file):
        return dict(np.load(os.path.join(self.folders[i], file)))

    def form(self, form, folder):
        """The path of a form, which is written if it does not exist."""
        if form == "float":
            return os.path.join(self.folders[0], "model.onnx")
        path = os.path.join(self.options.forms, "%s.%s.onnx" % (self.name, form))
        if os.path.exists(path):
            return path
        if form == "fused":
            import fused  # requires torch
            fused.torch.manual_seed(0)
            module = fused.transformers.NETWORKS[self.name]().module
            if not isinstance(module, fused.transformers.Encoder):
                return None
            fused.save(module, path)
            return path
        source = self.form({"extended": "float", "fixed": "extended", "static": "float", "static+": "static",
                            "dynamic+": "dynamic", "fused8": "fused"}.get(form, "fixed"), folder)
        if source is None:
            return None
        if form in ("extended", "fixed") or form.endswith("+"):
            if form == "fixed":
                source = self.fix(source, os.path.join(folder, "fixed.onnx"))
            contrib.run_ort(self.options, folder, source, self.load(0, "inputs.npz"), level="extended", optimized=path)
            return path
        inputs = [os.path.join(f, "inputs.npz") for f in self.folders]
        r = subprocess.run([sys.executable, os.path.join(HERE, "../quantize.py"), source, path, "--form",
                            "dynamic" if form == "fused8" else form, "--reduce-range",
                            "--graphrun", self.options.graphrun, "--inputs", *inputs], capture_output=True, text=True)
        if r.returncode:
            raise RuntimeError(r.stderr.strip().split("\n")[-1])
        return path

    def fix(self, source, path):
        """Writes a model whose sizes are those of the first inputs."""
        model, inputs = onnx.load(source), self.load(0, "inputs.npz")
        for v in model.graph.input:
            for d, n in zip(v.type.tensor_type.shape.dim, inputs[v.name].shape):
                d.dim_value = n
        for v in model.graph.output:
            v.type.tensor_type.ClearField("shape")
        onnx.save(model, path)
        return path

    def errors(self, form, path, folder):
        """The errors of graphrun and ONNX Runtime, and their difference."""
        worst = [0.0] * 3
        for i in range(1 if form in FIXED else len(self.folders)):
            inputs, exact = self.load(i, "inputs.npz"), self.load(i, "exact.npz")
            ours = contrib.run_graphrun(self.options, folder, path, inputs)
            theirs = contrib.run_ort(self.options, folder, path, inputs, level="all")
            for k, want in exact.items():
                scale = np.abs(want).max(initial=1e-30)
                pairs = ((ours[k], want), (theirs[k], want), (ours[k], theirs[k]))
                worst = [max(w, float(np.abs(a - b).max() / scale)) for w, (a, b) in zip(worst, pairs)]
        return worst

    def times(self, path, folder):
        """The times of graphrun and ONNX Runtime in milliseconds."""
        o, inputs, times = self.options, self.load(0, "inputs.npz"), []
        for _ in range(o.rounds):
            r = subprocess.run([o.graphrun, "bench", path, "--inputs", os.path.join(self.folders[0], "inputs.npz"), "--threads",
                                str(o.threads), "--for", "%gs" % o.seconds, "--json"], capture_output=True, text=True, check=True)
            _, theirs = contrib.run_ort(o, folder, path, inputs, level="all", seconds=o.seconds, threads=o.threads)
            times.append((json.loads(r.stdout)["released"]["median_ns"] / 1e6, theirs))
        return [statistics.median(t) for t in zip(*times)]


def operators(path):
    nodes = onnx.load(path).graph.node
    counts = collections.Counter(n.op_type for n in nodes if n.domain == "com.microsoft" or n.op_type.endswith("Integer"))
    return " ".join("%s %d" % c for c in sorted(counts.items()))


def main():
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks")
    parser.add_argument("forms")
    parser.add_argument("--only", default="")
    parser.add_argument("--select", nargs="*", default=FORMS, choices=FORMS)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--node", default="node")
    options = parser.parse_args(sys.argv[1:cut])
    options.graphrun = (sys.argv[cut + 1:] or ["graphrun"])[0]
    os.makedirs(options.forms, exist_ok=True)
    names = sorted({os.path.basename(f)[:-2] for f in glob.glob(os.path.join(options.networks, "*.0")) if options.only in f})
    bad, ratios = not names, collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            network = Network(name, options)
            for form in options.select:
                row = "%-26s %-9s" % (name, form)
                try:
                    path = network.form(form, folder)
                    if path is None:
                        continue
                    if options.rounds:
                        ours, theirs = network.times(path, folder)
                        ratios[form].append(ours / theirs)
                        print("%s %8.2f ms %8.2f ms %6.2f" % (row, ours, theirs, ours / theirs), flush=True)
                        continue
                    ours, theirs, apart = network.errors(form, path, folder)
                except (RuntimeError, subprocess.CalledProcessError) as e:
                    print("%s %s" % (row, e), flush=True)
                    bad = True
                    continue
                wrong = ours > max(2 * theirs, FLOOR) or apart > max(3 * theirs, FLOOR)
                bad = bad or wrong
                print("%s %8.1e %8.1e %8.1e %-5s %s" % (row, ours, theirs, apart, "WRONG" if wrong else "ok", operators(path)),
                      flush=True)
    for form, r in ratios.items():
        print("%-26s %-9s %27.2f" % ("geometric mean", form, np.exp(np.mean(np.log(r)))))
    sys.exit(bad)


if __name__ == "__main__":
    main()
