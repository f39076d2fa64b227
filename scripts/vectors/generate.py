#!/usr/bin/python3
"""Writes the ONNX conformance vectors under onnx/testdata: small models, inputs, and expected outputs.

    apt-get install --no-install-recommends python3-torch python3-onnx
    /usr/bin/python3 scripts/vectors/generate.py [--out onnx/testdata] [--unpack DIR]

The expected outputs come from numpy, PyTorch or explicit formulas in the other files of this folder, never from
graphrun. Each family of cases is one zip: NAME/model.onnx, NAME/inputs.npz, NAME/outputs.npz. A case without a model
uses the model of the case before it. Pipelines also have NAME/source.txt, which tells the outputs of onnx's reference
evaluator from those of formulas; they need onnx 1.14 or later. The bytes of an archive are reproducible. --unpack
writes folders instead.
"""
import argparse
import importlib
import io
import os
import sys
import warnings
import zipfile

import numpy as np

import case

warnings.filterwarnings("ignore")  # about operators that PyTorch considers experimental
FAMILIES = ["elements", "activations", "reductions", "shapes", "places", "products", "pools", "norms", "images",
            "recurrent", "quantized", "signals", "control", "sequences", "texts", "strings", "sounds", "sizes",
            "attention", "microsoft", "recent", "learning", "pipelines"]
EPOCH = (1980, 1, 1, 0, 0, 0)


def npz(arrays):
    """An .npz file whose bytes depend only on the arrays. Strings are code points: an array NAME.texts [..., length]."""
    buf = io.BytesIO()
    with zipfile.ZipFile(buf, "w", zipfile.ZIP_STORED) as z:
        for name, a in arrays.items():
            if a.dtype.kind == "U":
                name, a = name + ".texts", np.array(a, order="C").reshape(a.shape + (1,)).view(np.uint32)
            z.writestr(zipfile.ZipInfo(name + ".npy", EPOCH), case.npy(a))
    return buf.getvalue()


def files(c):
    content = {"model.onnx": c.model.SerializeToString(), "inputs.npz": npz(c.inputs), "outputs.npz": npz(c.outputs)}
    return {**content, "source.txt": c.source.encode()} if c.source else content


def pack(path, cases):
    before = None
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for c in cases:
            content = files(c)
            if content["model.onnx"] == before:
                del content["model.onnx"]
            else:
                before = content["model.onnx"]
            for name, data in content.items():
                info = zipfile.ZipInfo("%s/%s" % (c.name, name), EPOCH)
                info.compress_type = zipfile.ZIP_DEFLATED
                z.writestr(info, data)


def unpack(folder, cases):
    for c in cases:
        where = os.path.join(folder, c.name)
        os.makedirs(where, exist_ok=True)
        for name, data in files(c).items():
            with open(os.path.join(where, name), "wb") as f:
                f.write(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.join(os.path.dirname(__file__), "../../onnx/testdata"))
    parser.add_argument("--unpack")
    parser.add_argument("families", nargs="*")
    opts = parser.parse_args()
    os.makedirs(opts.out, exist_ok=True)
    total = 0
    for family in opts.families or FAMILIES:
        case.begin()
        importlib.import_module(family)
        names = [c.name for c in case.CASES]
        if not names or len(set(names)) != len(names):
            sys.exit("%s: no cases, or two of one name" % family)
        total += len(names)
        if opts.unpack:
            unpack(os.path.join(opts.unpack, family), case.CASES)
        else:
            pack(os.path.join(opts.out, family + ".zip"), case.CASES)
    print("%d cases" % total)


if __name__ == "__main__":
    main()
