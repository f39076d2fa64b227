#!/usr/bin/env python3
"""Compares graphrun's strides, results and copies with PyTorch's, for networks with random weights.

    GRAPHRUN=./graphrun scripts/torch_table.py [NETWORK...]

prints the table of docs/pytorch.md. Each network is exported twice (scripts/from_torch.py): row-major, and with weights
and images in channels-last order; of a pair a / b, a is row-major. Copies of PyTorch are its calls of clone, copy_ and
_to_copy, also inside contiguous and reshape, but not those inside kernels. Copies of the plan are those of `graphrun
plan`. Needs torchvision, numpy, 1 GB of disk, and 15 minutes. The exit code is 1 if a value or a result differs.
"""
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import warnings

import torch

import from_torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "networks"))
from compare import compare  # noqa: E402
from network import settle  # noqa: E402

IMAGE, VIDEO = (1, 3, 224, 224), (1, 3, 16, 112, 112)
NETWORKS = {"alexnet": IMAGE, "vgg11_bn": IMAGE, "resnet18": IMAGE, "resnet50": IMAGE, "resnext50_32x4d": IMAGE,
            "densenet121": IMAGE, "googlenet": IMAGE, "inception_v3": (1, 3, 299, 299), "squeezenet1_1": IMAGE,
            "mobilenet_v2": IMAGE, "mobilenet_v3_large": IMAGE, "mnasnet1_0": IMAGE, "shufflenet_v2_x1_0": IMAGE,
            "efficientnet_b0": IMAGE, "regnet_y_400mf": IMAGE, "convnext_tiny": IMAGE, "vit_b_32": IMAGE,
            "swin_t": IMAGE, "swin_v2_t": IMAGE, "maxvit_t": IMAGE, "segmentation.deeplabv3_resnet50": IMAGE,
            "segmentation.lraspp_mobilenet_v3_large": IMAGE, "video.r3d_18": VIDEO, "video.mc3_18": VIDEO,
            "encoder": None, "decoder": None}  # the last two are in torch_modules.py


def network(name):
    """The module and its inputs."""
    if NETWORKS[name] is None:
        return from_torch.load("%s:%s" % (os.path.join(HERE, "torch_modules.py"), name), {})
    folder, _, function = ("torchvision.models." + name).rpartition(".")
    options = {"weights_backbone": None} if folder.endswith("segmentation") else {}
    module, _ = from_torch.load("%s:%s" % (folder, function), options)
    shape = NETWORKS[name]
    return settle(module, torch.randn(2, *shape[1:])), (torch.randn(shape),)


def graphrun(*args):
    return subprocess.run([os.environ.get("GRAPHRUN", "graphrun"), *args], capture_output=True, text=True)


def row(name, channels_last):
    """The number of values, and of those that differ; the error of the results; copies and bytes of both."""
    module, inputs = network(name)
    if channels_last:
        inputs = from_torch.channels_last(module, inputs)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "g")
        from_torch.export(module, inputs, path + ".json", values=True)
        infer = graphrun("infer", path + ".json", "--expect", path + ".strides.json")
        counts = re.match("([0-9,]+) of ([0-9,]+) values", infer.stdout)
        if infer.returncode:
            print("%s: %s" % (name, infer.stderr.strip()), file=sys.stderr)
        equal, values = (int(n.replace(",", "")) for n in counts.groups()) if counts else (0, 0)
        run = graphrun("run", path + ".json", "--inputs", path + ".inputs.npz", "--outputs", path + ".npz")
        wrong, off = compare(path + ".outputs.npz", path + ".npz") if run.returncode == 0 else ([run.stderr.strip()], 1)
        if wrong:
            print("%s: %s" % (name, "; ".join(wrong)), file=sys.stderr)
        plan = json.loads(graphrun("plan", path + ".json", "--json").stdout)["copies"]
        with open(path + ".strides.json") as f:
            eager = [v for v in json.load(f)["values"] if re.match(r"aten\.(clone|copy_|_to_copy)\.", v["aten"])]
        sizes = [math.prod(v["shape"]) * torch.empty(0, dtype=getattr(torch, v["dtype"])).element_size()
                 for v in eager]
        return values, values - equal, off, (len(eager), sum(sizes)), (len(plan), sum(c["bytes"] for c in plan))


def main():
    warnings.filterwarnings("ignore")
    failed = False
    print("| network | values | differ | results off by | copies in PyTorch | copies in the plan |")
    print("|---|---|---|---|---|---|")
    for name in sys.argv[1:] or NETWORKS:
        pair = [row(name, last) for last in (False, True)]
        failed |= any(r[1] or not r[0] or r[2] > 3e-4 for r in pair)
        texts = ["{:,} / {:,}".format(*(r[0] for r in pair)), "%d / %d" % tuple(r[1] for r in pair),
                 "%.0e / %.0e" % tuple(r[2] for r in pair)]
        for i in (3, 4):
            texts.append(" / ".join("%d (%.2f MB)" % (r[i][0], r[i][1] / 1e6) if r[i][0] else "0" for r in pair))
        print("| %s | %s |" % (name.rpartition(".")[2], " | ".join(texts)), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
