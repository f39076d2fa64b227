#!/usr/bin/python3
"""Exports networks from PyTorch to ONNX, with inputs of several sizes and PyTorch's outputs.

    apt-get install --no-install-recommends python3-torch python3-torchvision python3-onnx
    /usr/bin/python3 scripts/networks/export.py [--out DIR] [NAME...]
    /usr/bin/python3 scripts/networks/compare.py DIR -- graphrun

writes, for each network and each set of inputs, DIR/NAME.I/model.onnx, inputs.npz, outputs.npz (float32) and, if the
network supports it, exact.npz (float64); layers.txt marks quantized networks. Weights are random with a fixed seed.
Without names all networks are written, about 3 GB; `--list` prints the names.
"""
import argparse
import copy
import os
import sys
import warnings

import numpy as np
import torch

import language
import speech
import transformers
import vision

warnings.filterwarnings("ignore")


def flat(value):
    """The tensors in nested lists and dicts, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in flat(v)]
    return []


def double(value):
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, (list, tuple)):
        return type(value)(double(v) for v in value)
    return value


def arrays(values, prefix):
    return {"%s%d" % (prefix, i): t.detach().numpy() for i, t in enumerate(flat(values))}


def exact(net, args):
    """The outputs in float64; none if the network requires float32."""
    try:
        return copy.deepcopy(net.module).double()(*double(args))
    except (RuntimeError, NotImplementedError):
        return None


def save(net, folder):
    """Writes one network; returns its folders."""
    made = []
    outputs = None
    for i, args in enumerate(net.inputs):
        torch.manual_seed(1)
        with torch.no_grad():
            outputs = net.module(*args)
        where = os.path.join(folder, "%s.%d" % (net.name, i))
        os.makedirs(where, exist_ok=True)
        model = os.path.join(where, "model.onnx")
        if i == 0:
            first = model
            names = list(arrays(args, "x"))
            torch.onnx.export(net.module, args, model, opset_version=net.opset, input_names=names,
                              output_names=list(arrays(outputs, "y")),
                              dynamic_axes={k: v for k, v in net.axes.items() if k in names} or None)
        else:
            if os.path.exists(model):
                os.remove(model)
            os.link(first, model)
        np.savez(os.path.join(where, "inputs.npz"), **arrays(args, "x"))
        np.savez(os.path.join(where, "outputs.npz"), **arrays(outputs, "y"))
        if net.layers:
            with open(os.path.join(where, "layers.txt"), "w") as f:
                f.write("see layers.py\n")
        with torch.no_grad():
            wide = exact(net, args) if net.exact else None
        if wide is not None:
            np.savez(os.path.join(where, "exact.npz"), **arrays(wide, "y"))
        made.append(where)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", default="networks")
    parser.add_argument("--list", action="store_true")
    opts = parser.parse_args()
    makers = {**vision.NETWORKS, **language.NETWORKS, **speech.NETWORKS, **transformers.NETWORKS}
    if opts.list:
        print(" ".join(makers))
        return
    failed = 0
    for name in opts.names or makers:
        if name not in makers:
            sys.exit("there is no network %r: see --list" % name)
        torch.manual_seed(0)
        try:
            net = makers[name]()
            net.name = name
            print("%s: %d" % (name, len(save(net, opts.out))), flush=True)
        except Exception as e:  # if torch cannot export one network, the others continue
            failed += 1
            print("%s: not exported: %s" % (name, str(e).strip().split("\n")[-1]), file=sys.stderr, flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
