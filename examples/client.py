#!/usr/bin/env python3
"""Sends arrays to a model behind graphrun serve, with the standard library and numpy.

    graphrun serve resnet18.onnx &
    examples/client.py http://127.0.0.1:8000 resnet18 image.npz result.npz

The archive image.npz has an array for each input of the model; result.npz gets the outputs. The environment variable
TOKEN, if set, is sent as the bearer token that `graphrun serve` requires with --token-file. `infer` may be copied: it
uses the binary extension of the Open Inference Protocol, version 2, and works with other servers of this protocol too.
"""
import json
import os
import sys
import urllib.error
import urllib.request

import numpy as np

DTYPES = {"BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "i1", "INT16": "<i2",
          "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8"}
NAMES = {np.dtype(v): k for k, v in DTYPES.items()}
HEADER = "Inference-Header-Content-Length"  # bytes of JSON before the arrays


def strings(data):
    """Returns the strings of a BYTES tensor: a length of four bytes precedes each."""
    found, at = [], 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at:at + 4], "little")
        found.append(data[at + 4:end].decode())
        at = end
    return found


def infer(url, model, inputs, token=None, timeout=60):
    """Returns the outputs of a model by name. inputs has arrays by name, of numbers. Raises RuntimeError with the
    server's message if the server rejects the request."""
    data = {name: np.ascontiguousarray(a, np.asarray(a).dtype.newbyteorder("<")) for name, a in inputs.items()}
    doc = {"inputs": [{"name": name, "shape": a.shape, "datatype": NAMES[a.dtype],
                       "parameters": {"binary_data_size": a.nbytes}} for name, a in data.items()],
           "parameters": {"binary_data_output": True}}
    text = json.dumps(doc).encode()
    body = b"".join([text, *(a.tobytes() for a in data.values())])
    request = urllib.request.Request(f"{url}/v2/models/{model}/infer", body,
                                     {HEADER: str(len(text)), "Content-Type": "application/octet-stream"})
    if token:
        request.add_header("Authorization", "Bearer " + token)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            body, length = response.read(), response.headers.get(HEADER)
    except urllib.error.HTTPError as e:
        text = e.read().decode(errors="replace")
        try:
            text = json.loads(text)["error"]
        except (ValueError, KeyError, TypeError):
            pass  # a proxy may answer with another document
        raise RuntimeError(f"{e.code}: {text}") from None
    at = int(length) if length else len(body)
    outputs = {}
    for t in json.loads(body[:at])["outputs"]:
        size = t.get("parameters", {}).get("binary_data_size")
        if size is None:
            values = np.array(t["data"], DTYPES.get(t["datatype"], object))  # object: strings
        elif t["datatype"] == "BYTES":
            values, at = np.array(strings(body[at:at + size]), object), at + size
        else:
            dtype = np.dtype(DTYPES[t["datatype"]])
            values = np.frombuffer(body, dtype, size // dtype.itemsize, at)
            at += size
        outputs[t["name"]] = values.reshape(t["shape"])
    return outputs


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    url, model, source, target = sys.argv[1:]
    with np.load(source) as archive:
        outputs = infer(url, model, dict(archive), os.environ.get("TOKEN"))
    np.savez(target, **outputs)
    for name, a in outputs.items():
        print(f"{name}: {a.dtype}{list(a.shape)}")


if __name__ == "__main__":
    main()
