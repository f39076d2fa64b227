#!/usr/bin/python3
"""Writes the outputs in float64 of a network that an export script has written.

    exact.py EXPORT.py NAME DIR

DIR is what `EXPORT.py NAME --out DIR` has written. The script's main is run once more, with its seed, up to where it
would export; the network that it has then is run in float64 on DIR/inputs.npz, which makes DIR/exact.npz.
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
    """The network as the script has it after its main has run: caught at the export."""
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
    # The same network, not another: float32 is as far off as rounding goes.
    if out.shape != want.shape or np.abs(out - want).max(initial=0) > 1e-2 * np.abs(want).max(initial=0):
        sys.exit("exact.py: %s came out as another network" % name)
    save(os.path.join(folder, "exact.npz"), **{wants.files[0]: out})


if __name__ == "__main__":
    main()
