#!/usr/bin/python3
"""Exports networks with symbolic sizes, with PyTorch's outputs for many sizes.

    apt-get install --no-install-recommends python3-torch python3-torchvision python3-onnx
    /usr/bin/python3 scripts/dynamic.py [--out DIR] [NAME...]
    /usr/bin/python3 scripts/dynamic.py --check DIR [--converted] [NAME...] -- graphrun

The first form writes DIR/NAME.onnx and, for each set of sizes, DIR/NAME/SIZES/inputs.npz and outputs.npz, where SIZES
is for example N=2,L=5. Weights are random with a fixed seed. Sizes that PyTorch rejects, such as an empty batch for
some networks, are skipped and printed.

The second form runs the models and compares: shape and dtype must be PyTorch's, and elements may differ by at most 3e-4
of the largest magnitude in their tensor. With --converted each model is converted to a graph file first, which is then
run. Exits with 1 if there is a difference, or nothing to compare.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "networks"))
import zoo  # noqa: E402  (from that folder)
from compare import compare  # noqa: E402

warnings.filterwarnings("ignore")

BATCHES = [0, 1, 2, 3, 8]
IMAGE = {0: "N", 2: "H", 3: "W"}
SEQUENCE = {0: "N", 1: "L"}


def images(*sizes):
    """All batch sizes with the first image size, and some with the others."""
    first, others = sizes[0], sizes[1:]
    return [{"N": n, "H": first[0], "W": first[1]} for n in BATCHES] + [
        {"N": n, "H": h, "W": w} for h, w in others for n in (1, 2)]


def sequences(first, *others):
    return [{"N": n, "L": first} for n in BATCHES] + [{"N": n, "L": t} for t in others for n in (1, 3)]


# Torchvision's swin fixes the shifts of its windows at export, so that only sizes near the exported one are correct:
# its image size is fixed.
NETWORKS = {
    "resnet18": (IMAGE, images((224, 224), (64, 64), (97, 130), (225, 160))),
    "resnet50": (IMAGE, images((224, 224), (96, 64))),
    "mobilenet_v2": (IMAGE, images((224, 224), (64, 64), (97, 130), (225, 160))),
    "swin_t": ({0: "N"}, [{"N": n} for n in BATCHES]),
    "lstm": (SEQUENCE, sequences(32, 1, 2, 7, 50)),
    "encoder": (SEQUENCE, sequences(128, 1, 2, 17, 200)),
}


def network(name):
    """A network of the zoo in evaluation mode, and the shape of its input for one example."""
    torch.manual_seed(0)
    model, shape = zoo.build(name)
    with torch.no_grad():
        for p in model.parameters():  # heads that torchvision initializes with zero
            if p.dim() > 1 and not p.any():
                p.normal_(0, 0.02)
        norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
        for m in norms:
            m.momentum = None
        if norms:
            model.train()
            model(torch.randn(4, *shape))
    model.eval()
    return model, shape


def export(name, out):
    axes, sets = NETWORKS[name]
    model, shape = network(name)
    path = os.path.join(out, name + ".onnx")
    with torch.no_grad():
        # All sizes are 2, because the export would treat sizes of 1 as broadcast.
        torch.onnx.export(model, torch.randn(2, *shape), path + ".part", opset_version=14, input_names=["x"],
                          output_names=["y"], dynamic_axes={"x": axes, "y": {0: "N"}})
    os.rename(path + ".part", path)
    refused = []
    for sizes in sets:
        full = [2, *shape]
        for axis, symbol in axes.items():
            full[axis] = sizes[symbol]
        label = ",".join("%s=%d" % kv for kv in sizes.items())
        torch.manual_seed(1)
        x = torch.randn(*full)
        try:
            with torch.no_grad():
                y = model(x)
        except (RuntimeError, ValueError, ZeroDivisionError) as e:
            refused.append("%s (%s)" % (label, str(e).strip().split("\n")[0][:80]))
            continue
        where = os.path.join(out, name, label)
        os.makedirs(where, exist_ok=True)
        np.savez(os.path.join(where, "inputs.npz"), x=x.numpy())
        np.savez(os.path.join(where, "outputs.npz"), y=y.numpy())
    print("%s: %d sets of sizes%s" % (name, len(sets) - len(refused),
                                      "".join("; PyTorch refuses " + r for r in refused)), flush=True)


def run(tool, model, where, tmp):
    """Describes what is wrong with the outputs, or None."""
    out = os.path.join(tmp, "out.npz")
    r = subprocess.run(tool + ["run", model, "--inputs", os.path.join(where, "inputs.npz"), "--outputs", out],
                       capture_output=True, text=True)
    if r.returncode:
        return (r.stderr.strip().split("\n") or ["?"])[-1]
    wrong, _ = compare(os.path.join(where, "outputs.npz"), out)
    return ", ".join(wrong) or None


def check(folder, names, tool, converted):
    wrong = count = 0
    for name in names:
        model = os.path.join(folder, name + ".onnx")
        if not os.path.exists(model):
            continue
        with tempfile.TemporaryDirectory() as tmp:
            if converted:
                graph = os.path.join(tmp, "model.json")
                subprocess.run(tool + ["convert", model, graph], check=True)
                model = graph
            for label in sorted(os.listdir(os.path.join(folder, name))):
                why = run(tool, model, os.path.join(folder, name, label), tmp)
                count, wrong = count + 1, wrong + bool(why)
                print("%-14s %-20s %s" % (name, label, why or "ok"), flush=True)
    print("%d of %d agree" % (count - wrong, count))
    return 1 if wrong or not count else 0


def main():
    args, tool = sys.argv[1:], []
    if "--" in args:
        args, tool = args[:args.index("--")], args[args.index("--") + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", default="dynamic")
    parser.add_argument("--check", metavar="DIR")
    parser.add_argument("--converted", action="store_true")
    opts = parser.parse_args(args)
    names = opts.names or list(NETWORKS)
    for name in names:
        if name not in NETWORKS:
            sys.exit("there is no network %r: there are %s" % (name, ", ".join(NETWORKS)))
    if opts.check:
        sys.exit(check(opts.check, names, tool or ["graphrun"], opts.converted))
    os.makedirs(opts.out, exist_ok=True)
    for name in names:
        export(name, opts.out)


if __name__ == "__main__":
    main()
