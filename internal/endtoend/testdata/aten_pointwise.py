"""Writes aten_pointwise.json.gz: pointwise ops on every dtype, on odd operands, in all their overloads."""
import warnings
import torch
from aten_cases import DTYPES, case, dump, seq

warnings.simplefilter("ignore")
aten = torch.ops.aten
UNARY = """abs acos acosh angle asin asinh atan atanh bitwise_not ceil celu cos cosh elu erf erfc erfinv exp exp2 expm1 floor
frac gelu hardshrink hardsigmoid hardswish hardtanh isfinite isinf isnan isneginf isposinf leaky_relu lgamma log log10 log1p log2
log_sigmoid logical_not logit mish nan_to_num neg reciprocal relu relu6 round rsqrt selu sgn sigmoid sign signbit silu sin sinh
softplus softshrink sqrt square tan tanh trunc positive conj_physical real""".split()
BINARY = """add sub mul div fmod remainder floor_divide pow atan2 copysign eq ne lt le gt ge fmax fmin heaviside hypot logaddexp
logaddexp2 logical_and logical_or logical_xor maximum minimum bitwise_and bitwise_or bitwise_xor bitwise_left_shift
bitwise_right_shift xlogy rsub""".split()


def special(d):
    return torch.tensor([0.0, -0.0, float("nan"), float("inf"), -float("inf"), 0.5, -0.5, 2.5, -1e30], dtype=d)


for name in UNARY:
    f = getattr(aten, name)
    for d in DTYPES:
        if name == "softshrink" and d.is_floating_point:
            continue  # below, without NaN
        ins = [seq(2, 3, dtype=d).t(), seq(dtype=d, start=1), seq(0, 2, dtype=d), seq(4, dtype=d)[::2]]
        if d.is_floating_point:
            ins.append(special(d))
            ins.append(seq(6, dtype=d) / 16)
        for x in ins:
            case(name, [x], {}, f)

for name in BINARY:
    f = getattr(torch, name)  # not torch.ops, which takes True for 1
    for d in DTYPES:
        x, y = seq(2, 3, dtype=d).t(), seq(2, dtype=d, start=3)
        ins = [[x, y], [x, seq(3, 2, dtype=d, start=1) | 1 if not d.is_floating_point and not d.is_complex else seq(3, 2, dtype=d) + 9], [seq(dtype=d, start=1), seq(dtype=d, start=3)],
               [x, torch.tensor(1.3, dtype=torch.float64)], [x, torch.tensor(3)], [x, torch.tensor([2, 3], dtype=torch.uint8)],
               [x, seq(2, dtype=torch.bfloat16, start=3)], [seq(2, 0, dtype=d), y[:0]], [x, seq(5, dtype=d)]]
        for n in (2, -1, 2.5, True, 0):
            ins.append([x, n])
        if d.is_floating_point:
            v = special(d)
            ins += [[v, v.flip(0)], [v, 0.0], [v, float("nan")]]
        for pair in ins:
            if "shift" in name and not d.is_complex and any(torch.as_tensor(pair[1]).reshape(-1) < 0):
                continue  # undefined: it depends on the machine's vectors
            if d.is_complex and name == "div" and isinstance(pair[1], int) and pair[1] == 0:
                continue  # NaN or infinities, by release
            case(name, pair, {}, f)
        if name in ("pow", "eq", "xlogy", "copysign", "remainder", "bitwise_left_shift", "mul"):
            for n in (2, 2.5, True):
                if name in ("pow", "xlogy", "remainder"):
                    case(name, [n, x], {}, f)

# The factors of add and its kin.
for d in DTYPES:
    x, y, z = seq(2, 3, dtype=d), seq(3, dtype=d, start=2), seq(2, 1, dtype=d, start=5)
    if d.is_complex:
        z = z + 20
    for alpha in (2, -1, 0, 0.5, True):
        for name in ("add", "sub", "rsub"):
            case(name, [x, y], {"alpha": alpha}, lambda x, y: getattr(torch, name)(x, y, alpha=alpha))
            case(name, [x, 3], {"alpha": alpha}, lambda x, y: getattr(torch, name)(x, y, alpha=alpha))
        for name in ("addcmul", "addcdiv"):
            case(name, [x, y, z], {"value": alpha}, lambda x, y, z: getattr(torch, name)(x, y, z, value=alpha))
    for mode in (None, "trunc", "floor"):
        for other in (y, y * 0 + 2 if d != torch.bool else y, 2, -3, 2.5, True, 2 if d.is_complex else 0, torch.tensor(2.5, dtype=torch.float64)):
            case("div", [x, other], {"rounding_mode": mode}, lambda x, o: torch.div(x, o, rounding_mode=mode))
    case("div", [x, y], {"rounding_mode": "ceil"}, lambda x, o: torch.div(x, o, rounding_mode="ceil"))
    for weight in (0, 1, 0.25, 0.75):
        case("lerp", [x, y], {"weight": weight}, lambda x, y: torch.lerp(x, y, weight))
    case("lerp", [x, y, z], {}, torch.lerp)
    case("lerp", [x, y, seq(dtype=d)], {}, torch.lerp)

# clamp by numbers, tensors and both.
for d in DTYPES:
    x, lo, hi = seq(2, 3, dtype=d).t(), seq(2, dtype=d, start=2), seq(3, 2, dtype=d, start=7)
    for a, b in ((0, 1), (None, 1), (1, None), (-0.5, 1.5), (None, 1.5), (3, -3), (None, None), (True, None), (float("nan"), 1), (0, float("inf"))):
        case("clamp", [x], {"min": a, "max": b}, lambda x: torch.clamp(x, a, b))
    for a, b in ((lo, hi), (lo, None), (None, hi), (hi.double() if not d.is_complex else hi, lo), (torch.tensor(1), None), (torch.tensor(0.5), torch.tensor(2))):
        case("clamp", [x, a, b], {}, lambda x, a, b: torch.clamp(x, a, b))
    for name in ("clamp_min", "clamp_max"):
        f, attr = getattr(torch, name), name[6:]
        for n in (1, 0.5, True):
            case(name, [x], {attr: n}, lambda x: f(x, n))
        case(name, [x, lo], {}, f)
v = special(torch.float32)
case("clamp", [v], {"min": -1, "max": 1}, lambda x: torch.clamp(x, -1, 1))
case("clamp", [v, v.flip(0), v], {}, torch.clamp)

# where with tensors and numbers.
c = torch.tensor([[True, False, True], [False, False, True]])
for d in DTYPES:
    x, y = seq(2, 3, dtype=d), seq(3, dtype=d, start=3)
    for a, b in ((x, y), (x, 2), (x, 2.5), (True, x), (2.5, x), (x, seq(dtype=torch.float64)), (seq(dtype=torch.float32), x), (x, seq(2, 1, dtype=torch.int64)), (x, seq(2, dtype=d))):
        case("where", [c, a, b], {}, torch.where)
    case("where", [c.t(), x.t(), y[0]], {}, torch.where)
for cond in (c.byte(), c.long(), c.float()):
    case("where", [cond, seq(2, 3), seq(3)], {}, torch.where)
for a, b in ((1, 2), (1, 2.5), (True, False), (2.5, 1)):
    case("where", [c, a, b], {}, torch.where)

# What takes attributes.
for d in (torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool, torch.complex64):
    x = seq(2, 3, dtype=d).t()
    for op, attrs in (("elu", {"alpha": 0.5, "scale": 2, "input_scale": 0.3}), ("celu", {"alpha": 0.5}), ("leaky_relu", {"negative_slope": 0.2}),
                      ("hardtanh", {"min_val": -2, "max_val": 0.5}), ("hardtanh", {"min_val": 1, "max_val": 2}), ("threshold", {"threshold": 0.5, "value": -3}), ("threshold", {"threshold": 1, "value": 20}),
                      ("softplus", {"beta": 2, "threshold": 3}), ("softshrink", {"lambd": 1}), ("hardshrink", {"lambd": 1}), ("hardshrink", {"lambd": 0}),
                      ("gelu", {"approximate": "tanh"}), ("logit", {"eps": 0.2}), ("round", {"decimals": 1}), ("round", {"decimals": -1}),
                      ("nan_to_num", {"nan": 1.5, "posinf": 2, "neginf": None})):
        f = getattr(torch.nn.functional if op in ("elu", "celu") else aten, op)
        if op == "elu":
            f = torch._C._nn.elu
        if op == "celu":
            f = torch.celu
        case(op, [x], attrs, lambda x: f(x, **attrs))
        if d.is_floating_point and op != "softshrink":  # of NaN it was 0 once
            case(op, [special(d)], attrs, lambda x: f(x, **attrs))
dump(__file__)
