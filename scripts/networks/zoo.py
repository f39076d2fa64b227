#!/usr/bin/python3
"""Exports a well-known network to ONNX, with an input and PyTorch's output for it.

    apt-get install -y --no-install-recommends python3-torch python3-torchvision python3-onnx
    /usr/bin/python3 zoo.py resnet18 [--batch 1] [--seed 0] [--dynamic 0=N,1=L] --out DIR

writes DIR/model.onnx, DIR/inputs.npz, DIR/outputs.npz. The architecture is torchvision's (or one of the
small transformers and recurrent networks below). The weights are random with a fixed seed; batch-norm
statistics come from a few forward passes, so that activations stay in range.
`zoo.py list` prints the names. --dynamic names dimensions of the input that are symbolic in the model.
"""
import argparse
import os
import warnings

import numpy as np
import torch
import torchvision

warnings.filterwarnings("ignore")


class Encoder(torch.nn.Module):
    """A pre-norm transformer encoder of basic ops: linear, matmul, softmax, layer_norm, gelu."""

    def __init__(self, layers=4, width=256, heads=8):
        super().__init__()
        nn = torch.nn
        self.heads = heads
        self.blocks = nn.ModuleList([nn.ModuleDict({
            "n1": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width),
            "n2": nn.LayerNorm(width), "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)})
            for _ in range(layers)])

    def forward(self, x):
        b, t, w = x.shape
        for m in self.blocks:
            q, k, v = m["qkv"](m["n1"](x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
            a = torch.softmax(q @ k.transpose(-1, -2) * (w // self.heads) ** -0.5, -1)
            x = x + m["out"]((a @ v).transpose(1, 2).reshape(b, t, w))
            x = x + m["down"](torch.nn.functional.gelu(m["up"](m["n2"](x))))
        return x


OWN = {
    "encoder": (lambda: Encoder(), (128, 256)),
    "lstm": (lambda: Last(torch.nn.LSTM(64, 128, num_layers=2, batch_first=True)), (32, 64)),
    "gru": (lambda: Last(torch.nn.GRU(64, 128, batch_first=True)), (32, 64)),
    "mlp": (lambda: torch.nn.Sequential(torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512),
                                        torch.nn.ReLU(), torch.nn.Linear(512, 10)), (784,)),
    "unet": (lambda: UNet(), (3, 96, 96)),
    "hrnet": (lambda: HRNet(), (3, 224, 224)),
}


def conv(cin, cout, size=3, stride=1, relu=True):
    nn = torch.nn
    layers = [nn.Conv2d(cin, cout, size, stride, size // 2, bias=False), nn.BatchNorm2d(cout)]
    return nn.Sequential(*layers, *([nn.ReLU()] if relu else []))


class Residual(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = torch.nn.Sequential(conv(width, width), conv(width, width, relu=False))

    def forward(self, x):
        return torch.relu(x + self.body(x))


class Exchange(torch.nn.Module):
    """A module of HRNet: residual blocks in each branch, then each branch receives the sum of all branches."""

    def __init__(self, widths, blocks=4):
        super().__init__()
        nn = torch.nn
        self.branches = nn.ModuleList([nn.Sequential(*[Residual(w) for _ in range(blocks)]) for w in widths])
        self.fuse = nn.ModuleList([nn.ModuleList([self.way(widths, j, i) for j in range(len(widths))])
                                   for i in range(len(widths))])

    def way(self, widths, j, i):
        nn = torch.nn
        if j == i:
            return nn.Identity()
        if j > i:
            return nn.Sequential(conv(widths[j], widths[i], 1, relu=False), nn.Upsample(scale_factor=2 ** (j - i)))
        return nn.Sequential(*[conv(widths[j], widths[i] if k == i - 1 else widths[j], 3, 2, relu=k < i - 1)
                               for k in range(j, i)])

    def forward(self, xs):
        xs = [b(x) for b, x in zip(self.branches, xs)]
        return [torch.relu(sum(w(x) for w, x in zip(ways, xs))) for ways in self.fuse]


class HRNet(torch.nn.Module):
    """HRNet-W18 (Wang et al., 2020) for classification, without the bottlenecks in its head."""

    def __init__(self, width=18, modules=(1, 4, 3), classes=1000):
        super().__init__()
        nn = torch.nn
        self.stem = nn.Sequential(conv(3, 64, stride=2), conv(64, 64, stride=2), *[Residual(64) for _ in range(4)])
        self.new, self.stages, before = nn.ModuleList(), nn.ModuleList(), [64]
        for n, count in enumerate(modules, 2):
            widths = [width << i for i in range(n)]
            self.new.append(nn.ModuleList([conv(b, w) if b != w else nn.Identity() for b, w in zip(before, widths)] +
                                          [conv(before[-1], widths[-1], stride=2)]))
            self.stages.append(nn.ModuleList([Exchange(widths) for _ in range(count)]))
            before = widths
        self.head = nn.Linear(sum(before), classes)

    def forward(self, x):
        xs = [self.stem(x)]
        for new, stage in zip(self.new, self.stages):
            xs = [m(x) for m, x in zip(new, xs)] + [new[-1](xs[-1])]
            for module in stage:
                xs = module(xs)
        return self.head(torch.cat([x.mean((2, 3)) for x in xs], 1))


class Last(torch.nn.Module):
    def __init__(self, rnn):
        super().__init__()
        self.rnn = rnn

    def forward(self, x):
        return self.rnn(x)[0]


class UNet(torch.nn.Module):
    """Down, up and skip connections: conv, batch_norm, max_pool, conv_transpose, cat."""

    def __init__(self, width=16):
        super().__init__()
        nn = torch.nn

        def block(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(),
                                 nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())
        self.d = nn.ModuleList([block(3, width), block(width, 2 * width), block(2 * width, 4 * width)])
        self.t = nn.ModuleList([nn.ConvTranspose2d(4 * width, 2 * width, 2, 2),
                                nn.ConvTranspose2d(2 * width, width, 2, 2)])
        self.u = nn.ModuleList([block(4 * width, 2 * width), block(2 * width, width)])
        self.head = nn.Conv2d(width, 4, 1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        a = self.d[0](x)
        b = self.d[1](self.pool(a))
        c = self.d[2](self.pool(b))
        y = self.u[0](torch.cat([self.t[0](c), b], 1))
        return self.head(self.u[1](torch.cat([self.t[1](y), a], 1)))


def build(name):
    if name in OWN:
        make, shape = OWN[name]
        return make(), shape
    make = getattr(torchvision.models, name)
    kw = {"weights": None}
    if name in ("googlenet", "inception_v3"):
        kw.update(aux_logits=False, init_weights=True)
    return make(**kw), (3, 299, 299) if name == "inception_v3" else (3, 224, 224)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("name")
    ap.add_argument("--batch", type=int, default=1)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--dynamic", default="")
    ap.add_argument("--out")
    a = ap.parse_args()
    if a.name == "list":
        print(" ".join(sorted(list(OWN) + [n for n in dir(torchvision.models) if n.islower() and
              callable(getattr(torchvision.models, n)) and n[0] != "_" and not n.startswith("get_")])))
        return
    torch.manual_seed(a.seed)
    model, shape = build(a.name)
    with torch.no_grad():
        for p in model.parameters():                 # heads that torchvision initializes with zero
            if p.dim() > 1 and not p.any():
                p.normal_(0, 0.02)
        norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
        if norms:
            for m in norms:
                m.momentum = None
            model.train()
            for _ in range(2):
                model(torch.randn(2, *shape))
        model.eval()
        for m in model.modules():
            if isinstance(m, torch.nn.Dropout):
                m.p = 0.0
        x = torch.randn(a.batch, *shape)
        y = model(x)
    os.makedirs(a.out, exist_ok=True)
    torch.onnx.export(model, x, os.path.join(a.out, "model.onnx"), opset_version=14,
                      input_names=["x"], output_names=["y"],
                      dynamic_axes={"x": {int(d.split("=")[0]): d.split("=")[1] for d in a.dynamic.split(",")}}
                      if a.dynamic else None)
    np.savez(os.path.join(a.out, "inputs.npz"), x=x.numpy())
    np.savez(os.path.join(a.out, "outputs.npz"), y=y.numpy())
    print(a.name, list(x.shape), "->", list(y.shape), "range %.3g..%.3g" % (float(y.min()), float(y.max())))


if __name__ == "__main__":
    main()
