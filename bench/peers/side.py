"""Measures PyTorch or NumPy once. `side.py torch|numpy ROW THREADS SECONDS` prints {"ms": median} of the fastest
variant of a row. `side.py network SCRIPT:NAME THREADS SECONDS` does so for a network, which build(NAME) in the script
returns with the shape of an input: the variants are eager and, for images, channels-last.

run.py sets the environment, because threads and instruction set must be set before the libraries are loaded."""
import json
import statistics
import sys
import time

import rows

WARM = 2


def median_of(form, seconds):
    for _ in range(WARM):
        form()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        t = time.perf_counter()
        form()
        times.append(time.perf_counter() - t)
    return statistics.median(times) * 1e3


def torch_forms(row, threads):
    import torch
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    values = {}
    for name, i in row.inputs.items():
        dtype = getattr(torch, i.dtype)
        x = torch.randn(*i.shape) if dtype.is_floating_point else torch.randint(-1000, 1000, i.shape)
        x = x.to(dtype)
        values[name] = x.contiguous(memory_format=torch.channels_last) if i.channels_last else x
    return row.torch(torch, values)


def numpy_forms(row, _threads):
    import numpy as np
    random = np.random.default_rng(0)
    values = {}
    for name, i in row.inputs.items():
        x = random.standard_normal(i.shape, np.float32)
        x = x.astype(i.dtype) if i.dtype.startswith("float") else (1000 * x).astype(i.dtype)
        if i.channels_last:
            x = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        values[name] = x
    return row.numpy(np, values)


def network_forms(name, threads):
    import importlib.util
    import torch
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    path, _, name = name.rpartition(":")
    spec = importlib.util.spec_from_file_location("networks", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    model, shape = script.build(name)
    model.eval()
    x = torch.randn(1, *shape)
    yield lambda: model(x)
    if x.dim() == 4:
        last = model.to(memory_format=torch.channels_last)
        images = x.contiguous(memory_format=torch.channels_last)
        yield lambda: last(images)


def main():
    side, name, threads, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    if side == "network":
        print(json.dumps({"ms": min(median_of(f, seconds / 2) for f in network_forms(name, threads))}))
        return
    row = next(r for r in rows.all_rows() if r.name == name)
    forms = (torch_forms if side == "torch" else numpy_forms)(row, threads)
    print(json.dumps({"ms": min(median_of(f, seconds / len(forms)) for f in forms)}))


if __name__ == "__main__":
    main()
