"""Draws calls of pointwise ops, views and creation: op -> function from a Draw to operands and attributes."""
import torch

from draw import T, NAME

FORMAT = ("contiguous", "preserve")
UNARY = """abs acos acosh angle asin asinh atan atanh bitwise_not ceil conj_physical cos cosh erf erfc erfinv exp exp2
    expm1 floor frac isfinite isinf isnan isneginf isposinf lgamma log log10 log1p log2 log_sigmoid logical_not neg
    positive reciprocal relu relu6 rsqrt selu sgn sigmoid sign signbit silu sin sinh sqrt square tan tanh trunc
    hardsigmoid hardswish mish alias detach real imag view_as_real ravel numel t trace nonzero
    sinc special_entr special_ndtr special_spherical_bessel_j0 special_erfcx special_modified_bessel_k0
    special_modified_bessel_k1 special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1""".split()
BINARY = """mul eq ne lt le gt ge pow remainder fmod floor_divide bitwise_and bitwise_or bitwise_xor xlogy
    bitwise_left_shift bitwise_right_shift special_xlog1py""".split()
BINARY_TENSORS = """maximum minimum fmax fmin atan2 heaviside hypot copysign logaddexp logaddexp2 logical_and
    logical_or logical_xor gcd lcm nextafter""".split()

CALLS = {}


def call(*names):
    def put(f):
        for n in names:
            CALLS[n] = f
        return f
    return put


for name in UNARY:
    CALLS[name] = lambda r: ([T(r.shape())], {})


def two(r):
    a, b = r.broadcast(2)
    return [T(a), T(b, r.other_dtype())]


@call(*BINARY_TENSORS)
def _tensors(r):
    return two(r), {}


@call(*BINARY)
def _binary(r):
    ins = two(r)
    if r.flip(0.25):
        ins[1] = r.number()
    return ins, {}


@call(*["special_chebyshev_polynomial_%s" % k for k in "tuvw"])
def _chebyshev(r):
    a, b = r.broadcast(2)
    return [T(a, lo=-2, hi=2, plain=True), T(b, lo=-1, hi=9, plain=True)], {}


@call(*["special_shifted_chebyshev_polynomial_%s" % k for k in "tuvw"])
def _shifted_chebyshev(r):
    a, b = r.broadcast(2)
    return [T(a, plain=True), T(b, lo=-1, hi=9, plain=True)], {}


@call("add", "sub", "rsub")
def _add(r):
    return _binary(r)[0], r.some(alpha=(2, 1, 0, 0.5, -1, True, False))


@call("div")
def _div(r):
    return _binary(r)[0], r.some(rounding_mode=("floor", "trunc"))


@call("addcmul", "addcdiv")
def _addc(r):
    a, b, c = r.broadcast(3)
    return [T(a), T(b, r.other_dtype(0.1)), T(c)], r.some(value=(2, 0.5, -1))


@call("lerp")
def _lerp(r):
    a, b, c = r.broadcast(3)
    return [T(a), T(b), r.of(T(c), 0.25, 2)], {}


@call("where")
def _where(r):
    a, b, c = r.broadcast(3)
    ins = [T(a, torch.bool), T(b), T(c, r.other_dtype())]
    if r.flip(0.2):
        ins[r.of(1, 2)] = r.number()
    return ins, {}


@call("masked_fill")
def _masked_fill(r):
    a, b = r.broadcast(2)
    return [T(a), T(b, torch.bool), r.of(T([], r.other_dtype()), r.number())], {}


@call("complex")
def _complex(r):
    a, b = r.broadcast(2)
    return [T(a), T(b)], {}


@call("clamp")
def _clamp(r):
    a, b, c = r.broadcast(3)
    if r.flip(0.5):
        return [T(a)], {k: v for k, v in (("min", r.of(-1, 0.5, 2)), ("max", r.of(3, 1.5, -1))) if r.flip(0.7)}
    return [T(a), r.of(T(b), None), r.of(T(c), None)], {}


@call("clamp_min", "clamp_max")
def _clamp_min(r):
    return _binary(r)


for name, attrs in {
        "round": {"decimals": (0, 1, -1, 2)}, "hardtanh": {"min_val": (-2, 0.5), "max_val": (1, 0.75, 3)},
        "gelu": {"approximate": ("none", "tanh")}, "softplus": {"beta": (2, 0.5), "threshold": (1, 20)},
        "elu": {"alpha": (2, 0.5), "scale": (2,), "input_scale": (0.5,)}, "celu": {"alpha": (2, 0.5, -1)},
        "hardshrink": {"lambd": (1, 0)}, "softshrink": {"lambd": (1, 0)}, "leaky_relu": {"negative_slope": (0.2, 1, -1)},
        "logit": {"eps": (0.1,)}, "nan_to_num": {"nan": (1.0,), "posinf": (2.0,), "neginf": (-2.0,)},
        "tril": {"diagonal": (1, -1, 7, -9)}, "triu": {"diagonal": (1, -1, 7, -9)},
        "full_like": {"dtype": tuple(NAME.values()), "memory_format": FORMAT},
        "ones_like": {"dtype": tuple(NAME.values()), "memory_format": FORMAT},
        "zeros_like": {"dtype": tuple(NAME.values()), "memory_format": FORMAT}, "clone": {"memory_format": FORMAT},
        "flatten": {"start_dim": (0, 1, -1, -2), "end_dim": (-1, 1, 2)},
        "diagonal": {"offset": (1, -1, 5), "dim1": (0, 1, -1), "dim2": (1, 2, -1)}}.items():
    CALLS[name] = lambda r, attrs=attrs: ([T(r.shape())], r.some(**attrs))
CALLS["full_like"] = lambda r: ([T(r.shape())], dict(
    r.some(dtype=tuple(NAME.values()), memory_format=FORMAT), fill_value=r.of(2, 1.5, True, -1)))


@call("contiguous", "clone")
def _contiguous(r):
    s = r.shape()
    f = {4: ("channels_last", "contiguous"), 5: ("channels_last_3d", "contiguous")}.get(len(s), ("contiguous",))
    return [T(s)], r.some(memory_format=f)


@call("threshold")
def _threshold(r):
    return [T(r.shape())], {"threshold": r.of(0.5, 1, -1), "value": r.of(2, 0.5)}


@call("dropout")
def _dropout(r):
    return [T(r.shape())], {"p": r.of(0.5, 0), "train": r.of(False, False, True) and False}


@call("to")
def _to(r):
    s = r.shape()
    attrs = dict(r.some(copy=(True, False), non_blocking=(True,), memory_format=FORMAT), dtype=r.of(*NAME.values()))
    return [T(s)], attrs


@call("type_as", "view_as", "reshape_as", "expand_as")
def _as(r):
    s = r.shape()
    return [T(s), T(s if r.flip(0.8) else [2] + s, r.of(*NAME))], {}


# ---------------------------------------------------------------- views

def sizes_of(r, s):
    """Another shape with as many elements, or an invalid one."""
    n = 1
    for d in s:
        n *= d
    new = [n] + [1] * r.of(0, 1, 2)
    for f in (2, 3):
        if n and n % f == 0 and r.flip():
            new[0] //= f
            new.append(f)
            n //= f
    r.rng.shuffle(new)
    if r.flip(0.3):
        new[r.rng.randrange(len(new))] = -1
    return new


@call("view")
def _view(r):
    s = r.shape()
    if r.flip(0.4):
        return [T(s)], {"dtype": r.of(*[d for d in NAME.values() if d != "bool"])}
    return [T(s)], {"size": sizes_of(r, s)}


@call("reshape")
def _reshape(r):
    s = r.shape()
    return [T(s)], {"shape": sizes_of(r, s)}


@call("expand", "broadcast_to")
def _expand(r):
    s = r.shape()
    return [T(s)], {"size": [2] * r.of(0, 1) + [r.of(d, -1, d) if d != 1 else r.of(1, 3, -1, 0) for d in s]}


@call("permute")
def _permute(r):
    s = r.shape()
    p = list(range(len(s)))
    r.rng.shuffle(p)
    return [T(s)], {"dims": [d - len(s) if r.flip(0.3) else d for d in p]}


@call("transpose", "swapdims")
def _transpose(r):
    s = r.shape()
    return [T(s)], {"dim0": r.dim(s), "dim1": r.dim(s)}


@call("swapaxes")
def _swapaxes(r):
    s = r.shape()
    return [T(s)], {"axis0": r.dim(s), "axis1": r.dim(s)}


@call("movedim", "moveaxis")
def _movedim(r):
    s = r.shape()
    d = r.dims(s)
    if r.flip():
        return [T(s)], {"source": r.dim(s), "destination": r.dim(s)}
    return [T(s)], {"source": d, "destination": r.rng.sample([x % max(len(s), 1) for x in d], len(d))}


@call("slice")
def _slice(r):
    s = r.shape()
    return [T(s)], r.some(dim=(r.dim(s),), start=(0, 1, -1, -9, 9), end=(1, 2, -1, 9, -9), step=(1, 2, 3))


@call("narrow")
def _narrow(r):
    s = r.shape()
    return [T(s)], {"dim": r.dim(s), "start": r.of(0, 1, -1), "length": r.of(0, 1, 2)}


@call("select")
def _select(r):
    s = r.shape()
    return [T(s)], {"dim": r.dim(s), "index": r.of(0, 0, -1, 1, 2)}


@call("squeeze")
def _squeeze(r):
    s = r.shape()
    return [T(s)], r.some(dim=(r.dim(s), r.dim(s)))


@call("unsqueeze")
def _unsqueeze(r):
    s = r.shape()
    return [T(s)], {"dim": r.dim(s, 1)}


@call("unfold")
def _unfold(r):
    s = r.shape()
    return [T(s)], {"dimension": r.dim(s), "size": r.of(0, 1, 2, 3), "step": r.of(1, 2)}


@call("unflatten")
def _unflatten(r):
    s = r.shape(least=1)
    d = r.dim(s)
    return [T(s)], {"dim": d, "sizes": r.of([s[d], 1], [-1, 1], [1, -1], [2, -1])}


@call("as_strided")
def _as_strided(r):
    return [T([r.of(6, 8), 4], plain=True)], dict(r.some(storage_offset=(0, 1)), size=r.of([2, 2], [], [0, 3], [3]),
                                                  stride=r.of([1, 2], [3, 1], [0, 1]))


@call("split")
def _split(r):
    s = r.shape()
    sizes, d = r.of(1, 2, 3, 0, 9), r.dim(s)
    if s and r.flip(0.3):
        a = r.rng.randrange(s[d] + 1)
        return [T(s)], {"split_size": [a, s[d] - a], "dim": d}
    return [T(s)], dict(r.some(dim=(d,)), split_size=sizes)


@call("chunk")
def _chunk(r):
    s = r.shape()
    return [T(s)], dict(r.some(dim=(r.dim(s),)), chunks=r.of(1, 2, 3, 7))


@call("split_with_sizes")
def _split_sizes(r):
    s = r.shape(least=1)
    d = r.dim(s)
    a = r.rng.randrange(s[d] + 1)
    return [T(s)], {"split_sizes": [a, s[d] - a], "dim": d}


@call("unbind")
def _unbind(r):
    s = r.shape()
    return [T(s)], r.some(dim=(r.dim(s),))


@call("view_as_complex")
def _view_as_complex(r):
    return [T(r.shape() + [r.of(2, 2, 3)])], {}


@call("flip")
def _flip(r):
    s = r.shape()
    return [T(s)], {"dims": r.dims(s)}


@call("roll")
def _roll(r):
    s = r.shape()
    d = r.dims(s)
    if not d or r.flip(0.3):
        return [T(s)], {"shifts": [r.of(1, -1, 5)]}
    return [T(s)], {"shifts": [r.of(1, -2, 7) for _ in d], "dims": d}


@call("repeat")
def _repeat(r):
    s = r.shape()
    return [T(s)], {"repeats": [r.of(1, 2, 0, 3) for _ in range(len(s) + r.of(0, 1))]}


@call("tile")
def _tile(r):
    s = r.shape()
    return [T(s)], {"dims": [r.of(1, 2, 0) for _ in range(r.of(0, 1, 2, 3))]}


@call("cat", "concat", "concatenate")
def _cat(r):
    s = r.shape(least=1)
    d, ins = r.dim(s), []
    for _ in range(r.of(1, 2, 3)):
        one = list(s)
        one[d] = r.size()
        ins.append(T([0] if r.flip(0.1) else one, r.other_dtype(0.15)))
    return ins, r.some(dim=(d,)) if d == 0 else {"dim": d}


@call("stack")
def _stack(r):
    s = r.shape()
    return [T(s, r.other_dtype(0.1)) for _ in range(r.of(1, 2, 3))], {"dim": r.dim(s, 1)}


@call("hstack", "vstack")
def _hstack(r):
    s = r.shape()
    return [T(s, r.other_dtype(0.1)) for _ in range(r.of(1, 2))], {}


@call("pad", "constant_pad_nd")
def _pad(r):
    s = r.shape()
    p = [r.of(0, 1, 2, -1) for _ in range(2 * r.rng.randrange(0, len(s) + 1))]
    return [T(s)], dict(r.some(value=(0.5, 2, True)), pad=p)


@call("pixel_shuffle")
def _pixel_shuffle(r):
    s = r.shape(r.of(3, 4, 4, 5))
    s[-3] *= 4
    return [T(s)], {"upscale_factor": r.of(2, 2, 1)}


@call("pixel_unshuffle")
def _pixel_unshuffle(r):
    s = r.shape(r.of(3, 4, 4, 5))
    return [T(s[:-2] + [2 * s[-2], 2 * s[-1]])], {"downscale_factor": r.of(2, 2, 1)}


@call("channel_shuffle")
def _channel_shuffle(r):
    s = r.shape(r.of(3, 4, 4, 5))
    s[1] *= 4
    return [T(s)], {"groups": r.of(2, 1, 4)}


# ---------------------------------------------------------------- creation

DT = tuple(NAME.values())


@call("zeros", "ones")
def _zeros(r):
    return [], dict(r.some(dtype=DT), size=r.shape())


@call("full")
def _full(r):
    return [], dict(r.some(dtype=DT), size=r.shape(), fill_value=r.of(2, 1.5, True, -1))


@call("arange")
def _arange(r):
    if r.flip(0.3):
        return [], dict(r.some(dtype=DT), end=r.of(5, 2.5, 0, 3.0))
    return [], dict(r.some(dtype=DT), start=r.of(0, 1, -2.5), end=r.of(5, 7.25, 1), step=r.of(1, 2, 0.5, 3))


@call("linspace")
def _linspace(r):
    return [], dict(r.some(dtype=DT), start=r.of(0, 1.5, -2.5, 3), end=r.of(5, 7.25, -1), steps=r.of(0, 1, 2, 5, 8))


@call("eye")
def _eye(r):
    return [], dict(r.some(dtype=DT, m=(0, 1, 4)), n=r.of(0, 1, 3))


@call("blackman_window", "hann_window", "hamming_window")
def _window(r):
    return [], dict(r.some(dtype=("float32", "float64", "float16"), periodic=(True, False)), window_length=r.of(0, 1, 2, 7))


@call("tril_indices", "triu_indices")
def _triangle_indices(r):
    return [], dict(r.some(dtype=DT, offset=(0, 1, -1, 2, -3, 9)), row=r.of(0, 1, 3, 4, -1), col=r.of(0, 1, 3, 5, -1))
