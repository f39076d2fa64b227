"""Writes selection.json: what PyTorch makes of indexing, sorting, resampling and the like.

Run it with a Python that has torch: python3 selection.py > selection.json
"""
import json
import torch
import torch.nn.functional as F

torch.manual_seed(7)
cases = []


def pack(t):
    if t is None:
        return None
    if t.is_complex():
        data = torch.view_as_real(t.resolve_conj()).reshape(-1).tolist()
    else:
        data = t.reshape(-1).tolist()
    if t.dtype in (torch.float32, torch.complex64):
        data = [float("%.8g" % x) for x in data]
    data = ["NaN" if x != x else int(x) if x == int(x) and not isinstance(x, bool) else x for x in data]
    return {"dtype": str(t.dtype)[6:], "shape": list(t.shape), "strides": list(t.stride()), "data": data}


def case(op, ins, attrs, outs, layout=True):
    if not isinstance(outs, (list, tuple)):
        outs = [outs]
    cases.append({"op": op, "attrs": attrs, "in": [pack(t) for t in ins], "out": [pack(t) for t in outs], "layout": layout})


def rnd(*shape):
    return (torch.randn(*shape) * 4).round() / 4


aten = torch.ops.aten
x = rnd(2, 3, 4, 5)
xc = x.contiguous(memory_format=torch.channels_last)

# resampling
for src in (x, xc, x.double()):
    for size in ([7, 3], [4, 9], [2, 2]):
        for align in (False, True):
            a = {"output_size": size, "align_corners": align}
            case("upsample_bilinear2d", [src], a, aten.upsample_bilinear2d(src, size, align))
            case("upsample_bicubic2d", [src], a, aten.upsample_bicubic2d(src, size, align))
        case("_upsample_nearest_exact2d", [src], {"output_size": size}, aten._upsample_nearest_exact2d(src, size))
case("upsample_bilinear2d", [x], {"align_corners": False, "scale_factors": [1.7, 0.6]}, F.interpolate(x, scale_factor=(1.7, 0.6), mode="bilinear"))
for align in (False, True):
    case("upsample_linear1d", [x[0]], {"output_size": [8], "align_corners": align}, aten.upsample_linear1d(x[0], [8], align))
    v = rnd(1, 2, 3, 2, 4)
    case("upsample_trilinear3d", [v], {"output_size": [2, 5, 3], "align_corners": align}, aten.upsample_trilinear3d(v, [2, 5, 3], align))
case("upsample_nearest1d", [x[0]], {"output_size": [7]}, aten.upsample_nearest1d(x[0], [7]))
case("upsample_nearest3d", [v], {"output_size": [2, 5, 3]}, aten.upsample_nearest3d(v, [2, 5, 3]))

# sampling
for mode in range(3):
    for pad in range(3):
        for align in (False, True):
            g = torch.rand(2, 3, 2, 2) * 3 - 1.5
            case("grid_sampler", [xc, g], {"interpolation_mode": mode, "padding_mode": pad, "align_corners": align}, torch.grid_sampler(xc, g, mode, pad, align))
            if mode < 2:
                v, g = rnd(1, 2, 3, 4, 5), torch.rand(1, 2, 3, 2, 3) * 3 - 1.5
                case("grid_sampler", [v, g], {"interpolation_mode": mode, "padding_mode": pad, "align_corners": align}, torch.grid_sampler(v, g, mode, pad, align))
for align in (False, True):
    th = rnd(2, 2, 3)
    case("affine_grid_generator", [th], {"size": [2, 1, 3, 4], "align_corners": align}, F.affine_grid(th, [2, 1, 3, 4], align), False)
    th = rnd(1, 3, 4)
    case("affine_grid_generator", [th], {"size": [1, 1, 2, 3, 4], "align_corners": align}, F.affine_grid(th, [1, 1, 2, 3, 4], align), False)

# order
y = rnd(3, 6)
y[0, 2] = float("nan")
for d in (False, True):
    v, i = torch.sort(y, dim=-1, descending=d, stable=True)
    case("sort", [y], {"descending": d, "stable": True}, [v, i])
    v, i = torch.sort(xc, dim=1, descending=d, stable=True)
    case("sort", [xc], {"dim": 1, "descending": d, "stable": True}, [v, i])
p = torch.stack([torch.randperm(20) for _ in range(3)]).float()
for k in (3, 15):
    for largest in (False, True):
        case("topk", [p], {"k": k, "largest": largest}, torch.topk(p, k, largest=largest))
case("kthvalue", [p], {"k": 4}, torch.kthvalue(p, 4))
z = torch.tensor([[3, 1, 3], [1, 1, 2]])
case("_unique2", [z], {"return_inverse": True, "return_counts": True}, aten._unique2(z, True, True, True))
case("unique_dim", [z.t()], {"dim": 0, "return_inverse": True, "return_counts": True}, aten.unique_dim(z.t(), 0, True, True, True), False)

# indexing
idx, src = torch.randint(0, 3, (2, 3, 2, 5)), rnd(2, 3, 4, 5)
case("gather", [xc, idx], {"dim": 1}, torch.gather(xc, 1, idx))
case("scatter", [xc, idx[:, :1], src], {"dim": 1}, torch.scatter(xc, 1, idx[:, :1], src))
case("scatter_add", [x, idx, src], {"dim": 1}, torch.scatter_add(x, 1, idx, src))
for red in ("sum", "prod", "mean", "amax", "amin"):
    for inc in (False, True):
        case("scatter_reduce", [x, idx, src], {"dim": 1, "reduce": red, "include_self": inc}, torch.scatter_reduce(x, 1, idx, src, red, include_self=inc))
        n, s = (x * 4).long(), (src * 4).long()
        case("scatter_reduce", [n, idx, s], {"dim": 1, "reduce": red, "include_self": inc}, torch.scatter_reduce(n, 1, idx, s, red, include_self=inc))
i, j = torch.tensor([[0, -1], [1, 1]]), torch.tensor([2, 0])
for s in (x, xc, x.permute(3, 1, 0, 2)):
    case("index", [s, None, i], {}, s[:, i])
    case("index", [s, None, i % 2, j], {}, s[:, i % 2, j] if s.shape[2] > 2 else s[:, i % 2, j % 2]) if s.shape[2] > 2 else None
    case("index", [s, i % 2, None, j % 2], {}, s[i % 2, :, j % 2])
    case("index", [s, None, None, None, j], {}, s[:, :, :, j])
    case("index_select", [s, j], {"dim": 1}, torch.index_select(s, 1, j))
mask = rnd(2, 1, 4, 5) > 0
case("masked_fill", [xc, mask], {}, torch.masked_fill(xc, mask, 1.5))
case("masked_select", [xc, mask], {}, torch.masked_select(xc, mask))
case("nonzero", [mask], {}, torch.nonzero(mask), False)
case("index", [x, None, None, mask[0, 0]], {}, x[:, :, mask[0, 0]], False)
one = torch.randint(0, 3, (1, 2, 4, 5))
case("take_along_dim", [xc, one], {"dim": 1}, torch.take_along_dim(xc, one, 1))

# the rest
w = rnd(2, 8, 3, 4)
for s in (w, w.contiguous(memory_format=torch.channels_last)):
    case("pixel_shuffle", [s], {"upscale_factor": 2}, F.pixel_shuffle(s, 2))
    case("pixel_unshuffle", [s[:, :, :2]], {"downscale_factor": 2}, F.pixel_unshuffle(s[:, :, :2], 2))
    case("channel_shuffle", [s], {"groups": 4}, F.channel_shuffle(s, 4), False)
case("repeat_interleave", [x], {"repeats": 2, "dim": 2}, x.repeat_interleave(2, 2))
a, b, c = rnd(2, 3, 4), rnd(2, 4, 5), rnd(5, 2)
for eq, ops in (("bij,bjk->bik", [a, b]), ("bij,bjk", [a, b]), ("bij,bjk,kb->i", [a, b, c]), ("...ij->...ji", [a]), ("bij->j", [a]), ("ij,kl->kjil", [c, a[0]]),
                ("ii->i", [rnd(3, 3)]), ("ii", [rnd(3, 3)]), ("bij,bij->b", [a, a]), ("i...,j...->ij", [a, rnd(3, 3, 4)]), ("bij,j->bi", [a, rnd(4)]), ("iB,Bj", [rnd(2, 3), rnd(3, 4)])):
    case("einsum", ops, {"equation": eq}, torch.einsum(eq, *ops), False)
m = torch.randn(2, 5, 5, dtype=torch.float64)
case("linalg_det", [m], {}, torch.linalg.det(m))
f = torch.randn(3, 12, dtype=torch.complex64)
for n in (None, 5, 7, 16, 30):
    for norm in ("backward", "ortho", "forward"):
        case("fft_fft", [f], {"n": n, "norm": norm}, torch.fft.fft(f, n, norm=norm))
        case("fft_ifft", [f], {"n": n, "dim": 0, "norm": norm}, torch.fft.ifft(f, n, 0, norm), False)
        case("fft_rfft", [f.real.contiguous()], {"n": n, "norm": norm}, torch.fft.rfft(f.real, n, norm=norm))
        case("fft_irfft", [f], {"n": n, "norm": norm}, torch.fft.irfft(f, n, norm=norm))
for periodic in (False, True):
    a = {"window_length": 9, "periodic": periodic}
    case("hann_window", [], a, torch.hann_window(9, periodic))
    case("hamming_window", [], a, torch.hamming_window(9, periodic))
    case("blackman_window", [], a, torch.blackman_window(9, periodic))
case("complex", [x, xc], {}, torch.complex(x, xc))
print("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]")
