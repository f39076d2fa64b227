#!/usr/bin/python3
"""Writes the float64 outputs of a network that an export script has exported.

    exact.py EXPORT.py NAME DIR

DIR is the output of `EXPORT.py NAME --out DIR`. exact.py runs the script's main again with the same seed, intercepts
the network at the export, runs it in float64 on DIR/inputs.npz, and writes DIR/exact.npz.
"""
import importlib.util
import os
import sys
import warnings

import numpy as np
import torch

warnings.filterwarnings("ignore")


def module(path):
    spec = importlib.util.spec_from_file_location("export_script", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def rebuilt(script):
    """Runs the script's main and returns the network that it exports."""
    caught = []

    def keep(model, *args, **options):
        caught.append(model)
    torch.onnx.export = keep
    script.np.savez = lambda *args, **arrays: None
    script.main()
    return caught[0]


def main():
    path, name, folder = sys.argv[1:]
    save = np.savez
    sys.argv = [path, name, "--out", folder]
    net = rebuilt(module(path)).double()
    inputs = np.load(os.path.join(folder, "inputs.npz"))
    wants = np.load(os.path.join(folder, "outputs.npz"))
    with torch.no_grad():
        out = net(*[torch.tensor(inputs[k]).double() for k in inputs.files]).numpy()
    want = wants[wants.files[0]]
    # Checks that it is the same network: its float32 outputs may differ only by rounding.
    if out.shape != want.shape or np.abs(out - want).max(initial=0) > 1e-2 * np.abs(want).max(initial=0):
        sys.exit("exact.py: %s is not the exported network" % name)
    save(os.path.join(folder, "exact.npz"), **{wants.files[0]: out})


if __name__ == "__main__":
    main()
