"""Writes aten_listed.json.gz: calls of PyTorch that this project once answered otherwise."""
import torch
import torch.nn.functional as F
from aten_cases import DTYPES, case, dump, seq

# A 0-dim operand is rounded to the dtype of the others before a binary op sees it.
near = torch.tensor([0.1, 0.30000001, 1.0, 3.1415927], dtype=torch.float64)
compare = {"eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge}
others = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum, "fmod": torch.fmod,
          "remainder": torch.remainder, "pow": torch.pow, "atan2": torch.atan2, "hypot": torch.hypot, "copysign": torch.copysign}
for d in (torch.bfloat16, torch.float16, torch.float32):
    x = near.to(d)
    for y in (torch.tensor(0.1, dtype=torch.float64), torch.tensor(0.30000001, dtype=torch.float64), 0.1, 3.1415927):
        for name, f in compare.items():
            case(name, [x, y], {}, f)
            if isinstance(y, torch.Tensor):
                case(name, [y, x], {}, f)
    y = torch.tensor(1.1, dtype=torch.float64)
    for name, f in others.items():
        if name in ("hypot", "atan2") and d == torch.float16:
            continue  # later releases serve them
        case(name, [x, y], {}, f)
        case(name, [y, x], {}, f)

# Empty batches.
for shape in ((0, 2, 6), (2, 0, 6), (0, 6)):
    x = torch.zeros(shape)
    case("adaptive_avg_pool1d", [x], {"output_size": [3]}, lambda x: F.adaptive_avg_pool1d(x, 3))
    case("adaptive_max_pool1d", [x], {"output_size": [3]}, lambda x: torch.adaptive_max_pool1d(x, 3))
    case("avg_pool1d", [x], {"kernel_size": [2]}, lambda x: F.avg_pool1d(x, 2))
    case("max_pool1d", [x], {"kernel_size": [2]}, lambda x: torch.max_pool1d(x, 2))
    case("max_pool1d_with_indices", [x], {"kernel_size": [2]}, lambda x: torch.max_pool1d_with_indices(x, 2))
for n, sizes in ((2, (4, 6)), (3, (4, 5, 6))):
    for shape in ((0, 2) + sizes, (2, 0) + sizes, (0,) + sizes):
        for last in (torch.contiguous_format, torch.channels_last, torch.channels_last_3d):
            x = torch.zeros(shape)
            if last == torch.channels_last and len(shape) != 4 or last == torch.channels_last_3d and len(shape) != 5 or \
                    last == torch.channels_last and n == 3:
                continue
            x = x.contiguous(memory_format=last)
            nn = torch._C._nn
            two = {"kernel_size": [2] * n}
            case("adaptive_avg_pool%dd" % n, [x], {"output_size": [3] * n}, lambda x: getattr(F, "adaptive_avg_pool%dd" % n)(x, 3))
            case("adaptive_max_pool%dd" % n, [x], {"output_size": [3] * n}, lambda x: getattr(nn, "adaptive_max_pool%dd" % n)(x, [3] * n))
            case("avg_pool%dd" % n, [x], two, lambda x: getattr(nn, "avg_pool%dd" % n)(x, 2))
            case("max_pool%dd" % n, [x], two, lambda x: getattr(torch, "max_pool%dd" % n)(x, 2))
            case("max_pool%dd_with_indices" % n, [x], two, lambda x: getattr(nn, "max_pool%dd_with_indices" % n)(x, [2] * n))
for n in (1, 2, 3):
    for shape in ((0, 4) + (5,) * n, (2, 4) + (5,) * n):
        x, w, b = torch.zeros(shape), seq(2, 4, *(3,) * n), seq(2)
        conv, turned = getattr(F, "conv%dd" % n), getattr(F, "conv_transpose%dd" % n)
        case("conv%dd" % n, [x, w, b], {}, conv)
        if shape[0]:  # refused for a reason that is none: a view of nothing
            case("conv%dd" % n, [x, w[:, :2], b], {"groups": 2}, lambda x, w, b: conv(x, w, b, groups=2))
        case("conv_transpose%dd" % n, [x, w.transpose(0, 1).contiguous(), b], {}, turned)
    # A result of the input's shape keeps strides of its own.
    for t in (torch.zeros((0, 2) + (5,) * n), torch.zeros((0,) + (5,) * n + (2,)).movedim(-1, 1), torch.empty_strided((0, 2) + (5,) * n, (1, 5) + (1,) * n)):
        w = seq(2, 2, *(3,) * n)
        case("conv%dd" % n, [t, w], {"padding": 1}, lambda t, w: conv(t, w, padding=1))
        case("conv_transpose%dd" % n, [t, w, seq(2)], {"padding": 1}, lambda t, w, b: turned(t, w, b, padding=1))
    x = torch.zeros((0, 4) + (5,) * n)
    case("batch_norm", [x, seq(4), seq(4), seq(4), seq(4).abs()], {"training": False}, lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b))
    case("batch_norm", [x, None, None, seq(4), seq(4).abs()], {"training": False}, lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b))
    case("group_norm", [x, seq(4), seq(4)], {"num_groups": 2}, lambda x, w, b: torch.group_norm(x, 2, w, b))
    case("layer_norm", [x, seq(5), seq(5)], {"normalized_shape": [5]}, lambda x, w, b: F.layer_norm(x, [5], w, b))
    case("instance_norm", [x, seq(4), seq(4), None, None], {"use_input_stats": True, "momentum": 0.1, "eps": 1e-5, "cudnn_enabled": False},
         lambda x, w, b, m, v: torch.instance_norm(x, w, b, m, v, True, 0.1, 1e-5, False))

# Convolutions of complex numbers and of integers. Later releases serve transposed ones of
# complex planes and volumes: by parts, as this one those of lines.


def by_parts(turned):
    def f(x, w, b, **attrs):
        if not x.is_complex():
            return turned(x, w, b, **attrs)
        re = turned(x.real, w.real, None, **attrs) - turned(x.imag, w.imag, None, **attrs)
        im = turned(x.real, w.imag, None, **attrs) + turned(x.imag, w.real, None, **attrs)
        y = torch.complex(re, im)
        return y if b is None else y + b.reshape(-1, *(1,) * (x.dim() - 2))
    return f


for n in (1, 2, 3):
    conv, turned = getattr(torch, "conv%dd" % n), by_parts(getattr(torch, "conv_transpose%dd" % n))
    for d in (torch.complex64, torch.complex128, torch.int64, torch.int32, torch.uint8, torch.bool):
        x, w, b = seq(2, 4, *(6,) * n, dtype=d), seq(2, 4, *(2,) * n, dtype=d, start=3), seq(2, dtype=d)
        if n == 3:
            x, w = x[:1, :2, :4], w[:, :2]
        groups = {"groups": 2}
        half = w[:, :w.shape[1] // 2]
        case("conv%dd" % n, [x, w, b], {}, conv)
        case("conv%dd" % n, [x, w, b], {"dilation": 2}, lambda x, w, b: conv(x, w, b, dilation=2))
        case("conv%dd" % n, [x, half, b], groups, lambda x, w, b: conv(x, w, b, groups=2))
        case("conv%dd" % n, [x, w, None], {"stride": 2, "padding": 1}, lambda x, w, b: conv(x, w, stride=2, padding=1))
        w = w.transpose(0, 1).contiguous()
        case("conv_transpose%dd" % n, [x, w, b], {}, turned)
        case("conv_transpose%dd" % n, [x, w, b], {"dilation": 2}, lambda x, w, b: turned(x, w, b, dilation=2))
        case("conv_transpose%dd" % n, [x, w[:, :1], b], groups, lambda x, w, b: turned(x, w, b, groups=2))
        case("conv_transpose%dd" % n, [x, w, None], {"stride": 2, "padding": 1, "output_padding": 1},
             lambda x, w, b: turned(x, w, b, stride=2, padding=1, output_padding=1))

# The factor of bools.
p, q = torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False])
for alpha in (True, False, 1, 0, 2):
    case("add", [p, q], {"alpha": alpha}, lambda p, q: torch.add(p, q, alpha=alpha))
    case("index_add", [p, torch.tensor([3, 0, 1, 1]), q], {"dim": 0, "alpha": alpha},
         lambda p, i, q: torch.index_add(p, 0, i, q, alpha=alpha))
case("add", [p, True], {"alpha": False}, lambda p, q: torch.add(p, q, alpha=False))
case("add", [p, q], {"alpha": 0.5}, lambda p, q: torch.add(p, q, alpha=0.5))

# linspace to integers, as far as PyTorch agrees with itself: from eight elements on its results
# depend on the width of the machine's vectors.
for d in DTYPES:
    for a, b, n in ((0.5, 4.9, 5), (-2.7, 3.9, 4), (0, 10, 7), (9.9, 0.2, 6), (-3, 3, 1), (1.5, 1.5, 3), (0, 1, 0), (-1, -9.5, 7)):
        if (a < 0 or b < 0) and d == torch.uint8:
            continue
        case("linspace", [], {"start": a, "end": b, "steps": n, "dtype": d}, lambda: torch.linspace(a, b, n, dtype=d))

# Results without elements.
for shape in ((0, 8, 2, 4), (2, 0, 2, 4), (2, 8, 0, 4), (2, 8, 4, 0), (8, 0, 2), (0, 2, 8, 2, 4)):
    x = torch.zeros(shape)
    for t in (x, x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x.transpose(-1, -2)):
        case("pixel_unshuffle", [t], {"downscale_factor": 2}, lambda t: F.pixel_unshuffle(t, 2))
        case("pixel_shuffle", [t], {"upscale_factor": 2}, lambda t: F.pixel_shuffle(t, 2))
        case("channel_shuffle", [t], {"groups": 2}, lambda t: F.channel_shuffle(t, 2))

# A dimension of size 1 with another stride.
one = torch.zeros(2)[::2]
for t in (one, torch.zeros(4, 3)[::4, ::3], torch.zeros(1, 3, 1).transpose(0, 2), seq(2, 3, 2, 2).contiguous(memory_format=torch.channels_last),
          seq(3, 2).t(), seq(4, 3)[:, 1:], seq(3, 1).expand(3, 2)):
    i = torch.tensor([0])
    case("index_fill", [t, i], {"dim": 0, "value": 2}, lambda t, i: torch.index_fill(t, 0, i, 2))
    case("index_fill", [t, i, torch.tensor(3.0)], {"dim": 0}, lambda t, i, v: torch.index_fill(t, 0, i, v))
    case("index_fill", [t, i, 2.5], {"dim": 0}, lambda t, i, v: torch.index_fill(t, 0, i, v))
    s = t[:1]
    case("index_add", [t, i, s], {"dim": 0}, lambda t, i, s: torch.index_add(t, 0, i, s))
    case("index_copy", [t, i, s], {"dim": 0}, lambda t, i, s: torch.index_copy(t, 0, i, s))
    case("index_select", [t, i], {"dim": 0}, lambda t, i: torch.index_select(t, 0, i))
    case("scatter", [t, torch.zeros(t.shape, dtype=torch.int64), t], {"dim": 0}, lambda t, i, s: torch.scatter(t, 0, i, s))
    case("gather", [t, torch.zeros(t.shape, dtype=torch.int64)], {"dim": 0}, lambda t, i: torch.gather(t, 0, i))
    case("masked_fill", [t, t == 0, 1.5], {}, torch.masked_fill)

# An index without elements may be of any dtype.
for d in (torch.float32, torch.int32, torch.int64, torch.bool):
    for x in (seq(3), seq(3, 2), torch.tensor(1.0)):
        for shape in ((0,), (0, 2), (2, 0)):
            i = torch.zeros(shape, dtype=d)
            case("gather", [x, i], {"dim": 0}, lambda x, i: torch.gather(x, 0, i))
            case("scatter", [x, i, x], {"dim": 0}, lambda x, i, s: torch.scatter(x, 0, i, s))
            case("scatter_add", [x, i, x], {"dim": 0}, lambda x, i, s: torch.scatter_add(x, 0, i, s))
            if x.dim():
                case("index_select", [x, i], {"dim": 0}, lambda x, i: torch.index_select(x, 0, i))
            if d == torch.int32:
                continue  # served here as elsewhere
            case("take", [x, i], {}, torch.take)
            case("take_along_dim", [x, i], {"dim": 0}, lambda x, i: torch.take_along_dim(x, i, 0))
            case("index_fill", [x, i], {"dim": 0, "value": 2}, lambda x, i: torch.index_fill(x, 0, i, 2))
dump(__file__)
