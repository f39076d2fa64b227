"""Writes aten_views.json.gz: views, copies and what makes tensors, in all their overloads, on odd operands."""
import warnings
import torch
import torch.nn.functional as F
from aten_cases import DTYPES, attr, case, dump, seq

warnings.simplefilter("ignore")
CL, CL3, CF, PF = torch.channels_last, torch.channels_last_3d, torch.contiguous_format, torch.preserve_format
image = seq(2, 3, 2, 4).contiguous(memory_format=CL)
odd = {
    "0-dim": seq(start=1), "vector": seq(4), "step": seq(6)[::2], "matrix": seq(3, 4), "turned": seq(4, 3).t(), "sliced": seq(4, 6)[1:, ::3],
    "expanded": seq(3, 1).expand(3, 4), "empty": seq(0, 3), "ones": seq(1, 3, 1), "volume": seq(2, 3, 4), "image": image,
    "one image": seq(1, 3, 2, 4).contiguous(memory_format=CL), "one channel": seq(2, 1, 2, 4), "permuted": seq(2, 3, 4).permute(2, 0, 1),
    "five": seq(1, 2, 3, 2, 2).contiguous(memory_format=CL3), "strided 1": seq(4, 3)[::4],
}


def functional_copy(x, src, **_):
    """aten::copy of PyTorch 2, which keeps the strides of x."""
    shares = any(n > 1 and step == 0 for n, step in zip(x.shape, x.stride()))
    result = torch.empty_like(x) if shares else torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
    return result.copy_(src)


def call(name, x, attrs, f):
    case(name, [x], attrs, f)


for x in odd.values():
    n = x.dim()
    dims = sorted({0, 1, -1, n, -n, -n - 1})
    for d in dims:
        call("unsqueeze", x, {"dim": d}, lambda x: torch.unsqueeze(x, d))
        call("squeeze", x, {"dim": d}, lambda x: torch.squeeze(x, d))
        if not (-n <= d < n and x.shape[d] == 0):  # there is no node without values
            call("unbind", x, {"dim": d}, lambda x: torch.unbind(x, d))
        call("chunk", x, {"chunks": 2, "dim": d}, lambda x: torch.chunk(x, 2, d))
        call("select", x, {"dim": d, "index": -1}, lambda x: torch.select(x, d, -1))
        call("narrow", x, {"dim": d, "start": 1, "length": 1}, lambda x: torch.narrow(x, d, 1, 1))
        call("narrow", x, {"dim": d, "start": -1, "length": 1}, lambda x: torch.narrow(x, d, -1, 1))
        call("unfold", x, {"dimension": d, "size": 2, "step": 1}, lambda x: x.unfold(d, 2, 1))
        call("slice", x, {"dim": d, "start": 1, "end": None, "step": 2}, lambda x: torch.ops.aten.slice(x, d, 1, None, 2))
        call("slice", x, {"dim": d, "start": -2, "end": -1}, lambda x: torch.ops.aten.slice(x, d, -2, -1))
        call("slice", x, {"dim": d, "start": 5, "end": 2}, lambda x: torch.ops.aten.slice(x, d, 5, 2))
        for e in dims[:3]:
            call("transpose", x, {"dim0": d, "dim1": e}, lambda x: torch.transpose(x, d, e))
            call("movedim", x, {"source": d, "destination": e}, lambda x: torch.movedim(x, d, e))
            call("flatten", x, {"start_dim": d, "end_dim": e}, lambda x: torch.flatten(x, d, e))
            call("diagonal", x, {"dim1": d, "dim2": e}, lambda x: torch.diagonal(x, 0, d, e))
        for sizes in ([-1, 1], [1, -1], [2, -1], [2, 2], [-1, -1], []):
            call("unflatten", x, {"dim": d, "sizes": sizes}, lambda x: x.unflatten(d, sizes))
        call("flip", x, {"dims": [d]}, lambda x: torch.flip(x, [d]))
        call("roll", x, {"shifts": 1, "dims": d}, lambda x: torch.roll(x, 1, d))
        call("cat", x, {"dim": d}, lambda x: torch.cat([x], d))
        case("cat", [x, x], {"dim": d}, lambda x, y: torch.cat([x, y], d))
        case("cat", [x, x.double()], {"dim": d}, lambda x, y: torch.cat([x, y], d))
        case("stack", [x, x], {"dim": d}, lambda x, y: torch.stack([x, y], d))
        case("cat", [torch.zeros(0), x], {"dim": d}, lambda x, y: torch.cat([x, y], d))
    for op in ("flatten", "squeeze", "ravel", "t", "alias", "detach", "numel", "vstack", "hstack", "square", "positive", "trace"):
        if op == "vstack" or op == "hstack":
            case(op, [x, x], {}, lambda x, y: getattr(torch, op)([x, y]))
        elif op == "numel":
            continue
        elif op == "alias":
            call(op, x, {}, torch.ops.aten.alias)
        else:
            call(op, x, {}, lambda x: x.detach() if op == "detach" else getattr(torch, op)(x))
    for size in ([-1], [-1, 1], [2, -1], list(x.shape), [-1] * n, [1] + [-1] * n, [3, -1] + [-1] * max(0, n - 1), [2] + list(x.shape), [], [-1, -1]):
        call("expand", x, {"size": size}, lambda x: x.expand(size))
        call("view", x, {"size": size}, lambda x: x.view(size))
        call("reshape", x, {"shape": size}, lambda x: x.reshape(size))
        call("broadcast_to", x, {"size": size}, lambda x: torch.broadcast_to(x, size))
    for dims in ([], [0], list(range(n)), list(range(n))[::-1], list(range(-n, 0)), [0, 0]):
        call("permute", x, {"dims": dims}, lambda x: torch.permute(x, dims))
        call("flip", x, {"dims": dims}, lambda x: torch.flip(x, dims))
    for reps in ([], [2], [1, 2], [2] * n, [1] * n + [2], [0] * max(1, n)):
        call("repeat", x, {"repeats": reps}, lambda x: x.repeat(reps))
        call("tile", x, {"dims": reps}, lambda x: torch.tile(x, reps))
    for mf in (None, CF, CL, CL3, PF):
        a = {} if mf is None else {"memory_format": mf}
        call("clone", x, a, lambda x: torch.clone(x, **a))
        call("contiguous", x, a, lambda x: x.contiguous(**a))
        call("to", x, a, lambda x: x.to(**a) if a else x)
        call("to", x, {"dtype": torch.float64, **a}, lambda x: x.to(torch.float64, **a))
        call("to", x, {"copy": True, **a}, lambda x: x.to(x.dtype, copy=True, **a))
        for op in ("zeros_like", "ones_like", "empty_like"):
            f, values = getattr(torch, op), op != "empty_like"
            case(op, [x], a, lambda x: f(x, **a), values=values)
            case(op, [x], {"dtype": torch.int32, **a}, lambda x: f(x, dtype=torch.int32, **a), values=values)
        call("full_like", x, {"fill_value": 2.5, **a}, lambda x: torch.full_like(x, 2.5, **a))
        call("full_like", x, {"fill_value": 3, "dtype": torch.uint8, **a}, lambda x: torch.full_like(x, 3, dtype=torch.uint8, **a))
    for k in (0, 1, -1, 9):
        call("tril", x, {"diagonal": k}, lambda x: torch.tril(x, k))
        call("triu", x, {"diagonal": k}, lambda x: torch.triu(x, k))
        call("diagonal", x, {"offset": k}, lambda x: torch.diagonal(x, k))
    call("as_strided", x, {"size": [1, 2], "stride": [1, 0]}, lambda x: torch.as_strided(x, [1, 2], [1, 0]))
    for other in (seq(2, 6), seq(3, 4, dtype=torch.int32), seq(1, dtype=torch.float64)):
        case("view_as", [x, other], {}, lambda x, o: x.view_as(o))
        case("reshape_as", [x, other], {}, lambda x, o: x.reshape_as(o))
        case("expand_as", [x, other], {}, lambda x, o: x.expand_as(o))
        case("type_as", [x, other], {}, lambda x, o: x.type_as(o))
    for size in ([2, 3], [], [0, 2], [-1], [2, 1, 2, 2]):
        case("new_empty", [x], {"size": size}, lambda x: x.new_empty(size), values=False)
        case("new_empty", [x], {"size": size, "dtype": torch.int8}, lambda x: x.new_empty(size, dtype=torch.int8), values=False)
    sources = [seq(*x.shape), seq(*x.shape, dtype=torch.int32), seq(*x.shape[-1:]), seq(*[1] * n), seq(), seq(5), seq(*x.shape, 2),
               seq(*x.shape[::-1]).permute(list(range(n))[::-1]), seq(*x.shape[::-1], dtype=torch.float64).permute(list(range(n))[::-1]),
               seq(*[1 if i == 1 else s for i, s in enumerate(x.shape)][::-1]).permute(list(range(n))[::-1]), x]
    for src in sources:
        case("copy", [x, src], {}, functional_copy)
    case("copy", [x.int(), seq(*x.shape[1:], dtype=torch.complex64)], {"non_blocking": True}, functional_copy)
    for pad in ([1, 2], [1, 2, 0, 1], [0, 0], [-1, 0], [1, 1, 1, 1, 1, 1], [1], []):
        call("constant_pad_nd", x, {"pad": pad, "value": 1.5}, lambda x: torch.constant_pad_nd(x, pad, 1.5))
        for mode in ("constant", "reflect", "replicate", "circular"):
            call("pad", x, {"pad": pad, "mode": mode}, lambda x: F.pad(x, pad, mode))
    call("pad", x, {"pad": [1, 1], "value": -2}, lambda x: F.pad(x, [1, 1], value=-2))
    call("pad", x, {"pad": [1, 1], "mode": "mirror"}, lambda x: F.pad(x, [1, 1], "mirror"))

# lists of dimensions
v = seq(2, 1, 3, 1)
call("movedim", v, {"source": [0, 1], "destination": [-1, 0]}, lambda x: torch.movedim(x, [0, 1], [-1, 0]))
call("movedim", v, {"source": [0, 0], "destination": [1, 2]}, lambda x: torch.movedim(x, [0, 0], [1, 2]))
call("roll", v, {"shifts": [1, 2], "dims": [0, 2]}, lambda x: torch.roll(x, [1, 2], [0, 2]))
call("roll", v, {"shifts": 4}, lambda x: torch.roll(x, 4))
for e in (torch.empty_strided((0,), (2,)), seq(0, 2, 3).permute(2, 0, 1)):
    call("roll", e, {"shifts": 5}, lambda x: torch.roll(x, 5))
    call("roll", e, {"shifts": 5, "dims": 0}, lambda x: torch.roll(x, 5, 0))
call("roll", v, {"shifts": [1, 2], "dims": [0]}, lambda x: torch.roll(x, [1, 2], [0]))

# complex views
for z in (seq(2, 3, dtype=torch.complex64), seq(3, 2, dtype=torch.complex128).t(), seq(dtype=torch.complex64)):
    call("view_as_real", z, {}, torch.view_as_real)
    call("real", z, {}, torch.real)
    call("imag", z, {}, torch.imag)
    call("conj_physical", z, {}, torch.conj_physical)
for x in (seq(3, 2), seq(2), seq(3, 4)[:, ::2], seq(3, 3), seq(2, 2).t(), torch.tensor(1.0), seq(2, 2, dtype=torch.int64)):
    call("view_as_complex", x, {}, torch.view_as_complex)

# what makes tensors
for d in [None] + DTYPES:
    a = {} if d is None else {"dtype": d}
    for size in ([2, 3], [], [0, 2], [1], [-1]):
        for op in ("zeros", "ones"):
            case(op, [], {"size": size, **a}, lambda: getattr(torch, op)(size, **a))
        for value in (2, 2.5, True, -1, float("inf")):
            if value == -1 and d == torch.uint8:
                continue  # refused or wrapped, by release
            case("full", [], {"size": size, "fill_value": value, **a}, lambda: torch.full(size, value, **a))
    for n, m in ((3, None), (2, 3), (0, 2), (3, 1)):
        case("eye", [], {"n": n, "m": m, **a}, lambda: torch.eye(n, n if m is None else m, **a))
    for args in ((0, 5, 1), (1, 7, 2), (5, 0, -2), (0, 1, 0.25), (0.5, 3, 1), (3, 3, 1), (0, 5, -1), (0, 5, 0), (-3, 2, 1)):
        if d == torch.uint8 and min(args) < 0:
            continue
        case("arange", [], {"start": args[0], "end": args[1], "step": args[2], **a}, lambda: torch.arange(*args, **a))
    case("arange", [], {"end": 4, **a}, lambda: torch.arange(4, **a))
    case("arange", [], {"end": 2.5, **a}, lambda: torch.arange(2.5, **a))
    case("linspace", [], {"start": 0, "end": 3, "steps": 4, **a}, lambda: torch.linspace(0, 3, 4, **a))
    for op in ("hann_window", "hamming_window", "blackman_window"):
        case(op, [], {"window_length": 5, **a}, lambda: getattr(torch, op)(5, **a))
        case(op, [], {"window_length": 4, "periodic": False, **a}, lambda: getattr(torch, op)(4, False, **a))

strides = (([2, 3], [1, 2]), ([2, 3], [3, 1]), ([2, 3], [0, 1]), ([2, 3], [8, 2]), ([0, 2], [5, 7]), ([], []), ([4], [3]), ([2, 2], [1]),
           ([2, -1], [1, 1]), ([2, 2], [1, -1]), ([1, 3, 2, 2], [1, 1, 6, 3]), ([2**62, 2], [1, 1]), ([2, 2], [2**61, 2**61]))
for size, stride in strides:
    for a in ({}, {"dtype": torch.bool}, {"dtype": torch.complex64}):
        case("empty_strided", [], {"size": size, "stride": stride, **a}, lambda: torch.empty_strided(size, stride, **a), values=False)

# every dtype through copies
for d in DTYPES:
    x = seq(2, 3, dtype=d).t()
    for e in DTYPES:
        if d.is_floating_point and e == torch.uint8:
            x = x.abs()
        call("to", x, {"dtype": e}, lambda x: x.to(e))
        case("type_as", [x, seq(dtype=e)], {}, lambda x, o: x.type_as(o))
        case("cat", [x, seq(1, 2, dtype=e)], {}, lambda x, y: torch.cat([x, y]))
        case("stack", [x, seq(3, 2, dtype=e)], {}, lambda x, y: torch.stack([x, y]))
    for e in DTYPES:
        case("copy", [seq(2, 3, 2, dtype=e), x], {}, functional_copy)
        case("copy", [x, seq(1, 2, dtype=e)], {}, functional_copy)
        case("copy", [x, seq(3, 2, dtype=e)], {}, functional_copy)
    call("contiguous", x, {}, lambda x: x.contiguous())
    call("flip", x, {"dims": [0, 1]}, lambda x: torch.flip(x, [0, 1]))
    call("tril", x, {}, torch.tril)
    call("pad", x, {"pad": [1, 1]}, lambda x: F.pad(x, [1, 1]))
    for mode in ("reflect", "replicate", "circular"):
        call("pad", x, {"pad": [1, 1], "mode": mode}, lambda x: F.pad(x, [1, 1], mode))
    call("repeat", x, {"repeats": [2, 1]}, lambda x: x.repeat(2, 1))
    if d != torch.bool:
        call("trace", x, {}, torch.trace)
    call("roll", x, {"shifts": 1}, lambda x: torch.roll(x, 1))
dump(__file__)
