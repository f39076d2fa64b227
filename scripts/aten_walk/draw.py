"""Draws operands: shapes with many ones and zeros, all kinds of layouts, and values including extremes."""
import numpy as np
import torch

DTYPES = {
    "float32": torch.float32, "int64": torch.int64, "bool": torch.bool, "complex64": torch.complex64,
    "uint8": torch.uint8, "float64": torch.float64, "int32": torch.int32, "bfloat16": torch.bfloat16,
    "int8": torch.int8, "complex128": torch.complex128, "float16": torch.float16, "int16": torch.int16,
}
NAME = {v: k for k, v in DTYPES.items()}
FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last,
           "channels_last_3d": torch.channels_last_3d, "preserve": torch.preserve_format}


class T:
    """A tensor operand: its shape, its dtype (None: the call's dtype) and the kind of its values."""

    def __init__(self, shape, dtype=None, lo=None, hi=None, pos=False, plain=False, rising=False, unit=False):
        self.shape, self.dtype, self.lo, self.hi, self.pos, self.plain = list(shape), dtype, lo, hi, pos, plain
        self.unit = unit                            # quarters from 0 to 1
        self.rising = rising                        # row-major, sorted integers from lo; whole: to hi - 1


class Draw:
    """The random choices of one call."""

    def __init__(self, rng, dtype, coarse=False):
        self.rng, self.dtype, self.coarse = rng, dtype, coarse

    def of(self, *choices):
        return self.rng.choice(choices)

    def flip(self, p=0.5):
        return self.rng.random() < p

    def size(self):
        return 0 if self.flip(0.06) else self.of(1, 1, 2, 3, 4)

    def shape(self, rank=None, least=0):
        if rank is None:
            rank = self.of(*[k for k in (0, 1, 1, 2, 2, 3, 3, 4, 4, 5) if k >= least])
        return [self.size() for _ in range(rank)]

    def dim(self, shape, extra=0):
        n = max(len(shape) + extra, 1)
        return self.rng.randrange(-n, n)

    def dims(self, shape):
        """Some dimensions, without duplicates."""
        n = len(shape)
        some = self.rng.sample(range(n), self.rng.randrange(0, n + 1))
        return [d - n if self.flip(0.3) else d for d in some]

    def broadcast(self, k):
        full = self.shape()
        out = []
        for _ in range(k):
            s = [1 if self.flip(0.2) else d for d in full]
            out.append(s[self.rng.randrange(len(s) + 1):] if self.flip(0.25) else s)
        return out

    def number(self):
        return self.of(2, 0.5, True, -3, 0, 1.5)

    def other_dtype(self, p=0.2):
        return self.of(*DTYPES.values()) if self.flip(p) else None

    def some(self, **choices):
        """Omits each attribute, or draws one of its values."""
        return {k: self.of(*v) for k, v in choices.items() if self.flip(0.6)}

    # ------------------------------------------------------------ tensors

    def fill(self, numel, dtype, t):
        r = np.random.default_rng(self.rng.randrange(1 << 60))
        if t.unit:
            return torch.from_numpy(r.integers(0, 5, numel) / 4).to(dtype)
        if t.lo is not None:
            return torch.from_numpy(r.integers(t.lo, max(t.hi, t.lo + 1), numel)).to(dtype)
        if dtype == torch.bool:
            return torch.from_numpy(r.integers(0, 2, numel).astype(np.bool_))
        odd = not t.plain and not t.pos and self.flip(0.12)
        if dtype.is_floating_point or dtype.is_complex:
            a = r.integers(2, 17, numel) / 8 if self.coarse else r.uniform(0.25, 2.0, numel)
            if not t.pos:
                a = a * r.choice([-1.0, 1.0], numel)
            if odd and not dtype.is_complex:
                a = np.where(r.random(numel) < 0.4, r.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0], numel), a)
            x = torch.from_numpy(a)
            if dtype.is_complex:
                x = torch.complex(x, torch.from_numpy(r.integers(-8, 9, numel) / 4 if self.coarse else r.uniform(-2, 2, numel)))
            return x.to(dtype)
        a = r.integers(1, 9, numel)
        if dtype != torch.uint8 and not t.pos:
            a *= r.choice([-1, 1], numel)
        x = torch.from_numpy(a).to(dtype)
        if odd and numel:
            info = torch.iinfo(dtype)
            x[r.integers(0, numel)] = int(r.choice([info.min, info.max]))
        return x

    def layout(self, shape):
        """Strides and an offset."""
        n, offset = len(shape), self.of(0, 0, 3)
        kinds = ["row", "row", "permuted", "reversed", "sliced", "expanded", "ones"]
        if n == 4:
            kinds += ["channels_last"] * 3
        if n == 5:
            kinds += ["channels_last_3d"] * 3
        kind = self.of(*kinds)
        meta = torch.empty(shape, device="meta")
        if kind in FORMATS:
            return list(meta.to(memory_format=FORMATS[kind]).stride()), offset
        if kind == "row":
            return list(meta.stride()), offset
        perm = list(range(n))
        if kind != "sliced":
            self.rng.shuffle(perm)
        else:
            perm.reverse()
        if kind == "reversed":
            perm = list(range(n))
        strides, step = [0] * n, 1
        for d in perm:
            if kind == "sliced" and self.flip(0.5):
                step *= 2
            strides[d] = step
            step *= max(shape[d], 1)
        for d in range(n):
            if kind == "expanded" and self.flip(0.4):
                strides[d] = 0
            if kind == "ones" and shape[d] == 1:
                strides[d] = self.of(0, 1, 7, 1000)
        return strides, offset

    def tensor(self, t):
        dtype = t.dtype or self.dtype
        if t.rising:
            x = self.fill(t.shape[0], dtype, t).sort().values
            if t.rising == "whole":
                x[-1:] = t.hi - 1
            x[:1] = t.lo
            return x
        strides, offset = self.layout(t.shape)
        last = offset + 1
        if 0 not in t.shape:
            last += sum((s - 1) * st for s, st in zip(t.shape, strides))
        return torch.as_strided(self.fill(last, dtype, t), t.shape, strides, offset)
