"""What the generators of vectors share: a case is a call of an op and what PyTorch makes of it.

A generator calls case() for each and dump(__file__) at its end. Written with PyTorch 1.13.
"""
import gzip
import json
import math
import torch

cases = []


def number(x):
    if isinstance(x, bool):
        return x
    if isinstance(x, complex):
        return [number(x.real), number(x.imag)]
    if isinstance(x, float):
        if x != x:
            return "NaN"
        if math.isinf(x):
            return "Infinity" if x > 0 else "-Infinity"
    return x


def short(x, digits):
    if isinstance(x, float) and x == x and not math.isinf(x):
        x = float("%.*g" % (digits, x))
        return int(x) if x == int(x) and abs(x) < 1e15 and math.copysign(1, x) > 0 else x
    return number(x)


def pack(t, digits=None):
    t = t.detach().resolve_conj().resolve_neg()
    if digits is None:
        digits = 17 if t.dtype in (torch.float64, torch.complex128) else 9
    flat = t.reshape(-1)
    if t.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    return {"dtype": str(t.dtype)[6:], "shape": list(t.shape), "strides": list(t.stride()),
            "data": [short(x, digits) for x in flat.tolist()]}


def packed_input(x):
    if x is None:
        return None
    if isinstance(x, torch.Tensor):
        return pack(x)
    return {"number": number(x)}


def attr(x):
    if isinstance(x, torch.dtype):
        return str(x)[6:]
    if isinstance(x, torch.memory_format):
        return {torch.contiguous_format: "contiguous", torch.channels_last: "channels_last",
                torch.channels_last_3d: "channels_last_3d", torch.preserve_format: "preserve"}[x]
    if isinstance(x, (list, tuple)):
        return [attr(y) for y in x]
    return number(x)


def case(op, ins, attrs, f, layout=True, values=True):
    """Records op on ins (tensors, numbers, None) with attrs; f takes the ins as arguments.

    Where f raises, the call must be refused; but not where a kernel lacks a 16-bit float, as
    later releases do not. layout=False: strides are not compared;
    values=False: nor are values, which PyTorch leaves open."""
    c = {"op": op, "in": [packed_input(x) for x in ins], "attrs": {k: attr(v) for k, v in attrs.items()}}
    try:
        outs = f(*ins)
    except (RuntimeError, IndexError, ValueError, TypeError) as e:
        if not ("not implemented for" in str(e) and ("'Half'" in str(e) or "'BFloat16'" in str(e))):
            c["error"] = str(e).split("\n")[0][:120]
            cases.append(c)
        return
    outs = list(outs) if isinstance(outs, (tuple, list)) else [outs]
    c["out"] = [pack(t, 9) for t in outs]
    if not layout:
        c["any_layout"] = True
    if not values:
        c["any_values"] = True
    cases.append(c)


def seq(*shape, dtype=torch.float32, start=0):
    """Numbers of both signs that are easily told apart, and exact in every dtype."""
    n = math.prod(shape)
    v = [((start + i) * 5 % 13 - 4) for i in range(n)]
    if dtype == torch.bool:
        return torch.tensor([x % 3 == 0 for x in v], dtype=dtype).reshape(shape)
    if dtype == torch.uint8:
        return torch.tensor([abs(x) for x in v], dtype=dtype).reshape(shape)
    if dtype.is_complex:
        return torch.tensor([complex(x / 2, (x * 3 % 7) / 4) for x in v], dtype=dtype).reshape(shape)
    if dtype.is_floating_point:
        return torch.tensor([x / 2 for x in v], dtype=dtype).reshape(shape)
    return torch.tensor(v, dtype=dtype).reshape(shape)


DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
          torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128]


def dump(script):
    """Writes what was recorded beside the script, under its name."""
    text = "[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n"
    with open(script.removesuffix(".py") + ".json.gz", "wb") as f:
        f.write(gzip.compress(text.encode(), 9, mtime=0))
    print(len(cases), "cases,", sum("error" in c for c in cases), "refused")
