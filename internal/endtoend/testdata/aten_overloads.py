"""Writes aten_overloads.json.gz: overloads of aten that an op answers beside its first one."""
import torch
import torch.nn.functional as F
from aten_cases import DTYPES, case, dump, seq

x = seq(5, 4)

# split by sizes
for t in (x, x.t(), seq(4, 3, 2, 2).contiguous(memory_format=torch.channels_last)):
    n = t.shape[0]
    for sizes in ([1, n - 1], [n], [0, n], [n, 0, 0], [1] * n, [2, 1], [n + 1, -1], []):
        case("split", [t], {"split_size": sizes}, lambda t: torch.split(t, sizes))
        case("split_with_sizes", [t], {"split_sizes": sizes}, lambda t: torch.split_with_sizes(t, sizes))
    for size in (1, 2, n, n + 5, 0, -1):
        case("split", [t], {"split_size": size}, lambda t: torch.split(t, size))
    case("split", [t], {"split_size": [1, t.shape[1] - 1], "dim": 1}, lambda t: torch.split(t, [1, t.shape[1] - 1], 1))
    case("split", [t], {"split_size": [1, t.shape[-1] - 1], "dim": -1}, lambda t: torch.split(t, [1, t.shape[-1] - 1], -1))
    case("split", [t], {"split_size": [1, 3], "dim": 9}, lambda t: torch.split(t, [1, 3], 9))

# max and min of two
nan = torch.tensor([1.0, float("nan"), -2.0, float("-inf")])
for d in DTYPES:
    for a, b in ((seq(3, 4, dtype=d), seq(3, 4, dtype=d, start=5)), (seq(4, 3, dtype=d).t(), seq(4, dtype=d, start=2)), (seq(4, dtype=d), seq(dtype=d)),
                 (seq(0, 4, dtype=d), seq(1, 4, dtype=d)), (seq(3, dtype=d), seq(4, dtype=d)), (seq(2, 2, dtype=d), seq(2, dtype=torch.float32))):
        case("max", [a, b], {}, torch.max)
        case("min", [a, b], {}, torch.min)
for a, b in ((nan, nan.flip(0)), (nan, torch.tensor(0.0)), (torch.tensor([1, 2]), nan[:2].bfloat16())):
    case("max", [a, b], {}, torch.max)
    case("min", [a, b], {}, torch.min)

# scatter with a value, and by reduction
for d in (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64):
    t, i = seq(3, 4, dtype=d), torch.tensor([[0, 1, 2, 0], [2, 2, 1, 0]])
    for value in (3, 1.5, True, -1, 2 + 1j):
        if isinstance(value, complex) and not d.is_complex:
            continue  # PyTorch drops the imaginary part with a warning
        case("scatter", [t, i], {"dim": 0, "value": value}, lambda t, i: torch.scatter(t, 0, i, value))
        case("scatter", [t, i, value], {"dim": 0}, lambda t, i, v: torch.scatter(t, 0, i, v))
    for how in ("add", "multiply"):
        if d in (torch.bool,) and how == "add":
            continue
        case("scatter", [t, i], {"dim": 0, "value": 3, "reduce": how}, lambda t, i: torch.scatter(t, 0, i, 3, reduce=how))
        case("scatter", [t, i, seq(2, 4, dtype=d, start=3)], {"dim": 0, "reduce": how}, lambda t, i, s: torch.scatter(t, 0, i, s, reduce=how))
case("scatter", [torch.tensor(1.0), torch.tensor(0)], {"dim": 0, "value": 7}, lambda t, i: torch.scatter(t, 0, i, 7))
case("scatter", [x.t(), torch.tensor([[1, 0]])], {"dim": 1, "value": float("-inf")}, lambda t, i: torch.scatter(t, 1, i, float("-inf")))

# to another tensor
image = seq(2, 3, 2, 2).contiguous(memory_format=torch.channels_last)
for d in DTYPES:
    if not d.is_complex:
        case("to", [image, seq(2, dtype=d)], {}, lambda t, o: t.to(o))
    case("to", [x.to(d).t(), torch.tensor(1.0)], {"copy": True}, lambda t, o: t.real.to(o, copy=True) if t.is_complex() else t.to(o, copy=True))
case("to", [image, seq(2)], {"memory_format": torch.contiguous_format}, lambda t, o: t.to(o, memory_format=torch.contiguous_format))
case("to", [seq(2, 3, 2, 2), seq(2).half()], {"memory_format": torch.channels_last}, lambda t, o: t.to(o, memory_format=torch.channels_last))

# repeat_interleave
for t in (x, x.t(), seq(2, 5, 2, 3).contiguous(memory_format=torch.channels_last), seq(5, 3)[:, ::2], seq(5), seq(0, 5), seq(5, dtype=torch.bool)):
    for d in (None, 0, 1, -1):
        for n in (0, 1, 3):
            case("repeat_interleave", [t], {"repeats": n, "dim": d}, lambda t: torch.repeat_interleave(t, n, d))
        size = t.numel() if d is None else t.shape[d] if d < t.dim() else 1
        for r in (torch.arange(size) % 3, torch.zeros(size, dtype=torch.int32), torch.tensor([2]), torch.tensor(3), torch.ones(size + 2, dtype=torch.int64),
                  -torch.ones(size, dtype=torch.int64), torch.ones(size), torch.ones(1, size, dtype=torch.int64), (torch.arange(2 * size) % 4)[::2]):
            case("repeat_interleave", [t, r], {"dim": d}, lambda t, r: torch.repeat_interleave(t, r, d))
            if r.dtype == torch.int64 and r.dim() == 1 and r.numel() == size and size and r.min() >= 0:
                n = int(r.sum())
                case("repeat_interleave", [t, r], {"dim": d, "output_size": n}, lambda t, r: torch.repeat_interleave(t, r, d, output_size=n))
case("repeat_interleave", [torch.tensor(2.5)], {"repeats": 3}, lambda t: torch.repeat_interleave(t, 3))
case("repeat_interleave", [torch.tensor(2.5), torch.tensor([3])], {}, torch.repeat_interleave)
case("repeat_interleave", [x], {"repeats": -1}, lambda t: torch.repeat_interleave(t, -1))
for r in (torch.tensor([2, 0, 3]), torch.tensor([1, 1], dtype=torch.int32), torch.tensor([], dtype=torch.int64), torch.tensor([-1]), torch.tensor([[1]]),
          torch.tensor([1.0]), (torch.arange(6) % 3)[::2]):
    case("repeat_interleave", [r], {}, torch.repeat_interleave)
case("repeat_interleave", [torch.tensor([2, 0, 3])], {"output_size": 5}, lambda r: torch.repeat_interleave(r, output_size=5))

# one_hot
for i in (torch.tensor([0, 2, 1]), torch.tensor([[1], [4]]), torch.tensor(3), torch.tensor([[0, 1], [2, 0]]).t(), torch.tensor([-1]), torch.tensor([1.0]),
          torch.tensor([], dtype=torch.int64), torch.tensor([0, 0])):
    case("one_hot", [i], {}, lambda i: F.one_hot(i))
    for n in (-1, 0, 5, 3, -2):
        case("one_hot", [i], {"num_classes": n}, lambda i: F.one_hot(i, n))

# complex numbers as attributes and operands
z = seq(2, 3, dtype=torch.complex64)
w = seq(2, 3, dtype=torch.complex64, start=4)
c = 1.5 - 2j
for t, u in ((z, w), (z.to(torch.complex128), w.to(torch.complex128)), (z.real.contiguous(), w.real.contiguous())):
    case("add", [t, u], {"alpha": c}, lambda t, u: torch.add(t, u, alpha=c))
    case("sub", [t, u], {"alpha": c}, lambda t, u: torch.sub(t, u, alpha=c))
    case("rsub", [t, u], {"alpha": c}, lambda t, u: torch.rsub(t, u, alpha=c))
    case("addcmul", [t, u, t], {"value": c}, lambda t, u, v: torch.addcmul(t, u, v, value=c))
    case("addcdiv", [t, u, u + 9], {"value": c}, lambda t, u, v: torch.addcdiv(t, u, v, value=c))
    case("lerp", [t, u], {"weight": c}, lambda t, u: torch.lerp(t, u, c))
    case("full_like", [t], {"fill_value": c}, lambda t: torch.full_like(t, c))
    case("masked_fill", [t, t == u], {"value": c}, lambda t, m: torch.masked_fill(t, m, c))
    case("index_fill", [t, torch.tensor([1])], {"dim": 0, "value": c}, lambda t, i: torch.index_fill(t, 0, i, c))
    case("index_add", [t, torch.tensor([1, 0]), u], {"dim": 0, "alpha": c}, lambda t, i, u: torch.index_add(t, 0, i, u, alpha=c))
    case("where", [t == u, t, c], {}, torch.where)
    for name in ("add", "sub", "mul", "div", "eq", "ne", "pow"):
        case(name, [t, c], {}, getattr(torch, name))
        case(name, [t], {"other" if name != "pow" else "exponent": c}, lambda t: getattr(torch, name)(t, c))
    case("pow", [c, t], {}, torch.pow)
    case("pow", [t], {"self": c}, lambda t: torch.pow(c, t))
    a = t.t().contiguous()
    case("addmm", [t[:, :2].contiguous(), t, a], {"beta": c, "alpha": 2j}, lambda s, t, a: torch.addmm(s, t, a, beta=c, alpha=2j))
    case("constant_pad_nd", [t], {"pad": [1, 2], "value": c}, lambda t: torch.constant_pad_nd(t, [1, 2], c))
case("full", [], {"size": [2, 2], "fill_value": c}, lambda: torch.full([2, 2], c))
case("full", [], {"size": [2], "fill_value": c, "dtype": torch.complex128}, lambda: torch.full([2], c, dtype=torch.complex128))
case("linspace", [], {"start": 0, "end": 2 + 4j, "steps": 5}, lambda: torch.linspace(0, 2 + 4j, 5))

# a value of another dtype than self's
for d in DTYPES:
    x, m, i = seq(2, 3, dtype=d), torch.tensor([True, False, True]), torch.tensor([1])
    for e, v in ((torch.bool, True), (torch.uint8, 3), (torch.int64, -3), (torch.int64, 300), (torch.float64, 2.7), (torch.float64, float("inf")),
                 (torch.float64, 1e300), (torch.complex64, 2 + 1j), (torch.bfloat16, 0.1)):
        if d == torch.uint8 and v == -3:
            continue  # wrapped, or refused by later releases
        case("masked_fill", [x, m, torch.tensor(v, dtype=e)], {}, torch.masked_fill)
        case("index_fill", [x, i, torch.tensor(v, dtype=e)], {"dim": 0}, lambda x, i, v: torch.index_fill(x, 0, i, v))
case("masked_fill", [seq(2, 3), seq(2, 3) > 0, seq(1)], {}, torch.masked_fill)

# plain numbers among the attributes, as aten's schemas have them
x = seq(5, 4)
m = x > 0
case("masked_fill", [x, m], {"value": -3}, lambda x, m: torch.masked_fill(x, m, -3))
case("masked_fill", [x.t(), m.t()], {"value": float("-inf")}, lambda x, m: torch.masked_fill(x, m, float("-inf")))
case("masked_fill", [x.long(), m], {"value": 2.5}, lambda x, m: torch.masked_fill(x, m, 2.5))
for name, f in (("mul", torch.mul), ("add", torch.add), ("sub", torch.sub), ("div", torch.div), ("fmod", torch.fmod), ("remainder", torch.remainder),
                ("eq", torch.eq), ("lt", torch.lt), ("floor_divide", torch.floor_divide), ("bitwise_and", torch.bitwise_and), ("rsub", torch.rsub)):
    for t in (x, x.long()):
        for v in (2, 2.5, True):
            case(name, [t], {"other": v}, lambda t: f(t, v))
            case(name, [t, v], {}, f)
case("pow", [x], {"self": 2}, lambda x: torch.pow(2, x))
case("where", [m, x], {"self": 1.5}, lambda m, x: torch.where(m, 1.5, x))
case("where", [m, x], {"other": 1.5}, lambda m, x: torch.where(m, x, 1.5))
case("where", [m], {"self": 1, "other": 2.5}, lambda m: torch.where(m, 1, 2.5))
dump(__file__)
