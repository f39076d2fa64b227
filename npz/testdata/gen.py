#!/usr/bin/python3
"""Writes the files of package npz's tests with numpy.

Every array holds 0, 1, 2, ... in logical order: of complex dtypes k + (k+10)i, of bool
whether k is odd. Its key says dtype, order and layout.
"""
import io
import os
import zipfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
CODES = ["b1", "u1", "i1", "i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


def make(code, shape, order="C"):
    n = int(np.prod(shape))
    k = np.arange(n)
    v = k % 2 if code == "b1" else k + 1j * (k + 10) if code[0] == "c" else k
    return np.array(v.reshape(shape).astype(code), order=order).astype(code, order=order)


def arrays():
    out = {}
    for c in CODES:
        out["little/" + c] = make(c, (2, 3))
        out["big/" + c] = make(c, (2, 3)).astype(">" + c)
    out["fortran"] = make("f4", (2, 3, 4), "F")
    out["fortran/big"] = make("i8", (2, 3, 4), "F").astype(">i8", order="F")
    out["scalar"] = make("f8", ())
    out["empty"] = make("f4", (0, 3))
    out["vector"] = make("i2", (5,))
    return out


def written():
    """What TestWritesAsNumpyDoes writes too: numpy's bytes are what ours are compared with."""
    return {
        "b": np.array([0x3F80, 0xC000], "u2"),   # bfloat16
        "e": np.zeros((2, 0), "b1"),
        "s": np.zeros((), "c16"),
        "t": np.arange(6, dtype="f4").reshape(3, 2).T.copy(order="C"),
        "v": np.arange(5, dtype="i8"),
    }


def write(path, compression, items):
    with zipfile.ZipFile(path, "w", compression) as z:
        for name, data in items:
            info = zipfile.ZipInfo(name + ".npy", (1980, 1, 1, 0, 0, 0))   # the same bytes in every run
            info.compress_type = compression
            z.writestr(info, data)


def npy(a, version=None):
    b = io.BytesIO()
    np.lib.format.write_array(b, a, version)
    return b.getvalue()


if __name__ == "__main__":
    items = [(n, npy(a)) for n, a in arrays().items()]
    write(os.path.join(HERE, "stored.npz"), zipfile.ZIP_STORED, items)
    write(os.path.join(HERE, "written.npz"), zipfile.ZIP_STORED, [(n, npy(a)) for n, a in written().items()])
    items += [("version%d" % v, npy(make("f4", (2, 3)), (v, 0))) for v in (1, 2, 3)]
    write(os.path.join(HERE, "deflated.npz"), zipfile.ZIP_DEFLATED, items)
