"""Writes overlap.json: what PyTorch says of an output and an input that share storage.

Run with the PyTorch that the package follows (1.13): python3 overlap.py > overlap.json

Each case is [op, [dtype, shape, strides, offset] of the output, the same of the input, verdict].
op: "copy" is a.copy_(b), "neg" is torch.neg(b, out=a), "add" is a.add_(b). The verdict is "" where
PyTorch runs, "internal" or "partial" where it refuses.
"""
import itertools
import json
import random
import sys
import warnings

import torch

warnings.simplefilter("ignore")
DTYPES = {"uint8": torch.uint8, "int16": torch.int16, "int32": torch.int32, "float32": torch.float32,
          "int64": torch.int64, "float64": torch.float64, "complex64": torch.complex64}
BYTES = 1 << 14


def extent(shape, strides, offset):
    return 0 if 0 in shape else offset + sum((n - 1) * s for n, s in zip(shape, strides)) + 1


def verdict(op, a, b):
    base = torch.zeros(BYTES, dtype=torch.uint8)
    # A typed tensor over the same bytes for each dtype; PyTorch compares storages.
    typed = {d: base.view(DTYPES[d]) for d in DTYPES}
    x = typed[a[0]].as_strided(a[1], a[2], a[3])
    y = typed[b[0]].as_strided(b[1], b[2], b[3])
    try:
        if op == "copy":
            x.copy_(y)
        elif op == "neg":
            torch.neg(y, out=x)
        else:
            x.add_(y)
    except RuntimeError as e:
        s = str(e)
        if "more than one element" in s:
            return "internal"
        if "some elements of the input" in s:
            return "partial"
        return None
    return ""


def dense(rng, shape):
    perm = list(range(len(shape)))
    if rng.random() < 0.5:
        rng.shuffle(perm)
    strides, step = [0] * len(shape), 1
    for d in reversed(perm):
        strides[d] = step
        step *= max(shape[d], 1)
        if shape[d] == 1 and rng.random() < 0.3:
            strides[d] = rng.randint(1, 12)
    return strides


def operand(rng, dtype, shape):
    kind = rng.random()
    if kind < 0.6:
        strides = dense(rng, shape)
    elif kind < 0.8:
        strides = [2 * s for s in dense(rng, shape)]
    else:
        strides = [rng.randint(0, 8) for _ in shape]
    return [dtype, list(shape), strides, rng.choice([0, 0, 0, 1, 2, rng.randint(0, 12)])]


def case(rng):
    op = rng.choice(["copy", "neg", "add"])
    d = rng.choice(list(DTYPES))
    e = d if op == "neg" or rng.random() < 0.6 else rng.choice(list(DTYPES))
    n = rng.choice([2, 3, 4])
    shape = rng.choice([[], [n], [1], [n, n], [1, n], [n, 1], [2, n], [n, 2], [2, 1, n], [n, n, n], [2, 3, 2], [0, n]])
    a = operand(rng, d, shape)
    other = list(shape)
    if op != "neg":
        while other and rng.random() < 0.15:
            other = other[1:]
        other = [1 if rng.random() < 0.1 else s for s in other]
    b = operand(rng, e, other)
    if rng.random() < 0.3 and len(a[1]) == len(b[1]):
        b[2], b[3] = list(a[2]), a[3]
    if rng.random() < 0.2 and len(shape) == 2 and b[1] == a[1] and shape[0] == shape[1]:
        b[2], b[3] = a[2][::-1], a[3]
    return op, a, b


def main():
    rng = random.Random(13)
    named = [
        ("add", ["float32", [64, 64], [64, 1], 0], ["float32", [64, 64], [1, 64], 0]),
        ("neg", ["float32", [64, 64], [64, 1], 0], ["float32", [64, 64], [1, 64], 0]),
        ("copy", ["float32", [8, 8], [8, 1], 0], ["float32", [8, 8], [1, 8], 0]),
        ("add", ["float32", [8], [1], 0], ["int32", [8], [1], 0]),
        ("neg", ["float32", [5], [2], 0], ["float32", [5], [2], 1]),
        ("neg", ["float32", [5], [1], 0], ["float32", [5], [1], 5]),
        ("neg", ["float32", [9], [1], 1], ["float32", [9], [1], 0]),
        ("neg", ["float32", [1, 5], [5, 1], 0], ["float32", [1, 5], [1, 1], 0]),
        ("add", ["float32", [1, 5], [5, 1], 0], ["float32", [5], [1], 0]),
        ("add", ["float32", [1, 5], [10, 2], 0], ["float32", [5], [2], 0]),
        ("neg", ["float32", [1], [1], 0], ["float32", [], [], 0]),
        ("copy", ["float32", [3, 4], [0, 1], 0], ["float32", [3, 4], [0, 1], 0]),
        ("add", ["float32", [2, 5], [5, 1], 0], ["float32", [2, 5], [0, 1], 0]),
    ]
    out = []
    for op, a, b in itertools.chain(named, (case(rng) for _ in range(4000))):
        sizes = {d: torch.empty(0, dtype=t).element_size() for d, t in DTYPES.items()}
        if max(extent(*x[1:]) * sizes[x[0]] for x in (a, b)) > BYTES:
            continue
        v = verdict(op, a, b)
        if v is not None:
            out.append([op, a, b, v])
    sys.stdout.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in out) + "\n]\n")


if __name__ == "__main__":
    main()
