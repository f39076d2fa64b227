"""Transformers in the style of model libraries: masks, caches, rotary positions, experts, windows."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from network import Network

TEXT = {"x0": {0: "N", 1: "T"}}


def ids(*shape, vocab=97):
    return torch.randint(0, vocab, shape)


def padding(*lengths):
    """A mask with ones up to each length, and zeros after it."""
    return (torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]).long()


def split_heads(x, heads):
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def merge_heads(x):
    return x.transpose(1, 2).contiguous().view(x.shape[0], x.shape[2], -1)


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def rotate_half(x):
    return torch.cat((-x[..., x.shape[-1] // 2:], x[..., :x.shape[-1] // 2]), -1)


class Llama(nn.Module):
    """Rotary positions, grouped heads (by expand), a causal mask of finfo.min, gated layers, and a KV cache."""

    def __init__(self, width=48, heads=6, groups=2, layers=2, vocab=97, repeat=False, hidden=96):
        super().__init__()
        self.heads, self.groups, self.size, self.repeat = heads, groups, width // heads, repeat
        self.embed = nn.Embedding(vocab, width)
        kv = groups * self.size
        self.layers = nn.ModuleList([nn.ModuleDict({
            "n1": RMSNorm(width), "q": nn.Linear(width, width, bias=False), "k": nn.Linear(width, kv, bias=False),
            "v": nn.Linear(width, kv, bias=False), "o": nn.Linear(width, width, bias=False), "n2": RMSNorm(width),
            "gate": nn.Linear(width, hidden, bias=False), "up": nn.Linear(width, hidden, bias=False),
            "down": nn.Linear(hidden, width, bias=False)}) for _ in range(layers)])
        self.norm, self.head = RMSNorm(width), nn.Linear(width, vocab, bias=False)
        self.register_buffer("inv", 1.0 / 10000 ** (torch.arange(0, self.size, 2).float() / self.size))

    def grouped(self, x):
        n = self.heads // self.groups
        if self.repeat:
            return x.transpose(1, 2).repeat_interleave(n, 2).transpose(1, 2)
        b, g, t, s = x.shape
        return x[:, :, None].expand(b, g, n, t, s).reshape(b, g * n, t, s)

    def forward(self, tokens, keys, values):
        x = self.embed(tokens)
        b, t = tokens.shape
        past = keys.shape[3]
        at = torch.arange(past, past + t)
        angles = torch.cat((at[:, None] * self.inv,) * 2, -1)
        cos, sin = angles.cos(), angles.sin()
        lowest = torch.finfo(x.dtype).min
        mask = torch.full((t, t + past), lowest, dtype=x.dtype)
        mask = torch.triu(mask, diagonal=1) if past == 0 else mask.masked_fill(
            torch.arange(t + past)[None] <= at[:, None], 0.0)
        new_keys, new_values = [], []
        for i, m in enumerate(self.layers):
            h = m["n1"](x)
            q = split_heads(m["q"](h), self.heads)
            k, v = split_heads(m["k"](h), self.groups), split_heads(m["v"](h), self.groups)
            q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
            k, v = torch.cat((keys[i], k), 2), torch.cat((values[i], v), 2)
            new_keys.append(k)
            new_values.append(v)
            a = q @ self.grouped(k).transpose(2, 3) / math.sqrt(self.size) + mask
            a = F.softmax(a, -1, dtype=torch.promote_types(a.dtype, torch.float32)).to(q.dtype)
            x = x + m["o"](merge_heads(a @ self.grouped(v)))
            h = m["n2"](x)
            x = x + m["down"](F.silu(m["gate"](h)) * m["up"](h))
        return self.head(self.norm(x)), torch.stack(new_keys), torch.stack(new_values)


def llama(repeat=False):
    def cache(n, past):
        return torch.randn(2, n, 2, past, 8), torch.randn(2, n, 2, past, 8)
    sets = [(ids(1, 4), *cache(1, 3)), (ids(2, 1), *cache(2, 9)), (ids(3, 7), *cache(3, 5))]
    axes = {"x0": {0: "N", 1: "T"}, "x1": {1: "N", 3: "P"}, "x2": {1: "N", 3: "P"}}
    return Network(Llama(repeat=repeat), *sets, axes=axes)


class GPT(nn.Module):
    """A causal mask as a sliced buffer, masked_fill with -inf, learned positions, tanh gelu."""

    def __init__(self, width=32, heads=4, length=64, vocab=97):
        super().__init__()
        self.heads = heads
        self.tokens, self.places = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.n1, self.n2, self.n3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

    def forward(self, tokens):
        t = tokens.size(1)
        x = self.tokens(tokens) + self.places(torch.arange(0, t, dtype=torch.long).unsqueeze(0))
        q, k, v = (split_heads(p, self.heads) for p in self.qkv(self.n1(x)).split(x.size(2), 2))
        a = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        a = a.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")).softmax(-1)
        x = x + self.out(merge_heads(a @ v))
        h = self.up(self.n2(x))
        h = 0.5 * h * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (h + 0.044715 * torch.pow(h, 3.0))))
        x = x + self.down(h)
        return self.n3(x) @ self.tokens.weight.t()


def gpt():
    return Network(GPT(), (ids(1, 9),), (ids(3, 5),), (ids(2, 64),), axes=TEXT)


class Bert(nn.Module):
    """Extended attention masks, token types, a pooler."""

    def __init__(self, width=32, heads=4, vocab=97):
        super().__init__()
        self.heads = heads
        self.words, self.types, self.places = nn.Embedding(vocab, width), nn.Embedding(2, width), nn.Embedding(64, width)
        self.norm, self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down, self.pool = nn.Linear(width, 64), nn.Linear(64, width), nn.Linear(width, width)
        self.register_buffer("position_ids", torch.arange(64).expand((1, -1)))

    def forward(self, tokens, mask):
        x = self.words(tokens) + self.types(torch.zeros_like(tokens)) + self.places(self.position_ids[:, :tokens.size(1)])
        x = self.norm(x)
        wide = mask[:, None, None, :].to(dtype=x.dtype)
        wide = (1.0 - wide) * torch.finfo(x.dtype).min
        q, k, v = (split_heads(m(x), self.heads) for m in (self.q, self.k, self.v))
        a = F.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.size(-1)) + wide, -1)
        x = self.n1(x + self.o(merge_heads(a @ v)))
        x = self.n2(x + self.down(F.gelu(self.up(x))))
        mean = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1e-9)
        return x, torch.tanh(self.pool(x[:, 0])), F.normalize(mean, p=2.0, dim=1)


def bert():
    axes = {"x0": {0: "N", 1: "T"}, "x1": {0: "N", 1: "T"}}
    return Network(Bert(), (ids(2, 7), padding(7, 4)), (ids(1, 12), padding(12)), (ids(3, 5), padding(2, 5, 1)), axes=axes)


class T5(nn.Module):
    """Relative position buckets, cross attention, no scaling."""

    def __init__(self, width=32, heads=4, vocab=97):
        super().__init__()
        self.heads = heads
        self.embed, self.bias = nn.Embedding(vocab, width), nn.Embedding(32, heads)
        self.n1, self.n2, self.n3 = RMSNorm(width), RMSNorm(width), RMSNorm(width)
        self.first = nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(4)])
        self.cross = nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(4)])
        self.up, self.down = nn.Linear(width, 64, bias=False), nn.Linear(64, width, bias=False)

    def bucket(self, distance, both, buckets=32, longest=128):
        at = 0
        if both:
            buckets //= 2
            at = (distance > 0).to(torch.long) * buckets
            distance = torch.abs(distance)
        else:
            distance = -torch.min(distance, torch.zeros_like(distance))
        exact = buckets // 2
        far = exact + (torch.log(distance.float() / exact) / math.log(longest / exact) * (buckets - exact)).to(torch.long)
        far = torch.min(far, torch.full_like(far, buckets - 1))
        return at + torch.where(distance < exact, distance, far)

    def attend(self, layers, x, memory, bias):
        q = split_heads(layers[0](x), self.heads)
        k, v = split_heads(layers[1](memory), self.heads), split_heads(layers[2](memory), self.heads)
        a = torch.matmul(q, k.transpose(3, 2)) + bias
        return layers[3](merge_heads(F.softmax(a.float(), -1).type_as(a) @ v))

    def forward(self, source, target):
        m, x = self.embed(source), self.embed(target)
        at = torch.arange(x.shape[1])
        distance = at[None, :] - at[:, None]
        bias = self.bias(self.bucket(distance, False)).permute([2, 0, 1]).unsqueeze(0)
        causal = (at[None, :] <= at[:, None]).to(x.dtype)
        bias = bias + (1.0 - causal[None, None]) * -1e9
        x = x + self.attend(self.first, self.n1(x), self.n1(x), bias)
        across = torch.arange(m.shape[1])[None, :] - at[:, None]
        x = x + self.attend(self.cross, self.n2(x), m, self.bias(self.bucket(across, True)).permute(2, 0, 1)[None])
        return self.down(F.relu(self.up(self.n3(x)))) + x


def t5():
    axes = {"x0": {0: "N", 1: "S"}, "x1": {0: "N", 1: "T"}}
    return Network(T5(), (ids(2, 9), ids(2, 5)), (ids(1, 40), ids(1, 33)), axes=axes)


class Alibi(nn.Module):
    """ALiBi: distances times a slope per head as bias, positions by cumsum of a mask, fused qkv split by view."""

    def __init__(self, width=32, heads=4, vocab=97):
        super().__init__()
        self.heads = heads
        self.embed, self.qkv, self.out = nn.Embedding(vocab, width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("slopes", 2.0 ** (-8.0 / heads * torch.arange(1, heads + 1)))

    def forward(self, tokens, mask):
        x = self.embed(tokens)
        b, t = tokens.shape
        place = ((mask.cumsum(-1) - 1) * mask)[:, None, :]
        alibi = (self.slopes[..., None] * place).reshape(b * self.heads, 1, t).to(x.dtype)
        q, k, v = self.qkv(x).view(b, t, self.heads, 3, -1).unbind(3)
        q, k, v = (p.transpose(1, 2).reshape(b * self.heads, t, -1) for p in (q, k, v))
        a = alibi.baddbmm(q, k.transpose(1, 2), beta=1.0, alpha=1.0 / math.sqrt(q.shape[-1])).view(b, self.heads, t, t)
        hidden = torch.ones(t, t, dtype=torch.bool).triu(1)[None, None] | (mask[:, None, None, :] == 0)
        a = torch.where(hidden, torch.tensor(torch.finfo(a.dtype).min, dtype=a.dtype), a).softmax(-1)
        a = a.masked_fill(hidden, 0.0)
        y = torch.bmm(a.view(b * self.heads, t, t), v).view(b, self.heads, t, -1)
        return self.out(merge_heads(y)) + x


def alibi():
    axes = {"x0": {0: "N", 1: "T"}, "x1": {0: "N", 1: "T"}}
    return Network(Alibi(), (ids(2, 6), padding(6, 3)), (ids(1, 11), padding(11)), axes=axes)


class Experts(nn.Module):
    """Top-k routing: each expert selects its tokens by nonzero and adds its results by index_add."""

    def __init__(self, width=16, experts=4):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(width, 32), nn.SiLU(), nn.Linear(32, width))
                                      for _ in range(experts)])

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        weights, chosen = torch.topk(F.softmax(self.gate(flat), 1), 2, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        y = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            rows, cols = torch.where(chosen == i)
            y = y.index_add(0, rows, expert(flat[rows]) * weights[rows, cols, None])
        return y.reshape(x.shape)


def experts():
    return Network(Experts(), (torch.randn(2, 5, 16),), (torch.randn(1, 3, 16),), (torch.randn(1, 1, 16),), axes=TEXT, opset=16)


class Updates(nn.Module):
    """A cache of fixed length, written at given positions by scatter, index_put and slices."""

    def forward(self, cache, new, at):
        a = cache.scatter(1, at[..., None].expand(-1, -1, cache.shape[2]), new)
        b = cache.clone()
        b[:, at[0]] = new
        c = cache.clone()
        c[:, :new.shape[1]] += new
        pick = torch.gather(a, 1, at[..., None].expand(-1, -1, a.shape[2]))
        return a, b, c, pick, torch.einsum("bth,bsh->bts", a, new)


def updates():
    axes = {"x0": {0: "N", 1: "L"}, "x1": {0: "N", 1: "T"}, "x2": {0: "N", 1: "T"}}

    def inputs(n, length, *at):
        return torch.randn(n, length, 4), torch.randn(n, len(at), 4), torch.tensor([at] * n)
    return Network(Updates(), inputs(2, 8, 3, 4, 6), inputs(1, 5, 0), axes=axes, opset=16)


class Windows(nn.Module):
    """Shifted-window attention: roll, windows by permute, a bias by relative position, a mask of regions."""

    def __init__(self, width=16, heads=2, window=4, shift=2):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.patch, self.norm = nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads))
        at = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        far = (at[:, :, None] - at[:, None, :]).permute(1, 2, 0) + window - 1
        self.register_buffer("index", far[..., 0] * (2 * window - 1) + far[..., 1])

    def windows(self, x):
        b, h, w, c = x.shape
        s = self.window
        return x.view(b, h // s, s, w // s, s, c).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, s * s, c)

    def mask(self, h, w):
        regions = torch.zeros(1, h, w, 1)
        cuts = (slice(0, -self.window), slice(-self.window, -self.shift), slice(-self.shift, None))
        for i, rows in enumerate(cuts):
            for j, cols in enumerate(cuts):
                regions[:, rows, cols] = 3 * i + j
        parts = self.windows(regions).squeeze(-1)
        far = parts[:, None] - parts[:, :, None]
        return far.masked_fill(far != 0, -100.0).masked_fill(far == 0, 0.0)

    def forward(self, image):
        x = self.patch(image).permute(0, 2, 3, 1)
        b, h, w, c = x.shape
        y = self.windows(torch.roll(self.norm(x), (-self.shift, -self.shift), (1, 2)))
        q, k, v = self.qkv(y).view(y.shape[0], -1, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        n = self.window ** 2
        a = q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5
        a = a + self.table[self.index.view(-1)].view(n, n, -1).permute(2, 0, 1)
        mask = self.mask(h, w).to(a.dtype)
        a = a.view(b, mask.shape[0], self.heads, n, n) + mask[:, None]
        y = self.out((a.view(-1, self.heads, n, n).softmax(-1) @ v).transpose(1, 2).reshape(-1, n, c))
        s = self.window
        y = y.view(b, h // s, w // s, s, s, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return x + torch.roll(y, (self.shift, self.shift), (1, 2))


def windows():
    return Network(Windows(), (torch.randn(1, 3, 32, 32),), (torch.randn(3, 3, 32, 32),), axes={"x0": {0: "N"}}, opset=16)


NETWORKS = {"llama": llama, "llama_repeat": lambda: llama(True), "gpt": gpt, "bert": bert, "t5": t5, "alibi": alibi,
            "experts": experts, "updates": updates, "windows": windows}
