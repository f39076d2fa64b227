"""Modules for scripts/from_torch.py: each function returns a module and a tuple of its inputs."""
import torch
from torch import nn
from torch.nn import functional as F


class Function(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, f):
        super().__init__()
        self.forward = f


class Block(nn.Module):
    """Convolutions around an addition, and a classifier."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.narrow, self.wide = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 3, padding=1, groups=4)
        self.up, self.head = nn.ConvTranspose2d(8, 4, 2, stride=2), nn.Linear(12, 5)
        self.act = nn.ReLU(inplace=True)

    def forward(self, image):
        x = self.act(self.norm(self.stem(image)))
        x = self.act(x + self.wide(self.narrow(x)))
        low = F.max_pool2d(x, 2)
        x = torch.cat([F.interpolate(low, size=x.shape[2:], mode="nearest"), self.up(low)], 1)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


def block():
    return Block(), (torch.randn(2, 3, 8, 8),)


def views():
    """Views, copies by reshape, sizes of 1 and 0, and writes to parts of a tensor."""
    def f(x, y, image):
        x = x + y.transpose(1, 2)
        parts = torch.split(x, [1, 0, 2], dim=1) + x.chunk(2, 2) + x.unbind(0)
        square = x.permute(2, 0, 1)
        flat = square.reshape(4, -1)                    # a view
        copied = x.transpose(0, 1).reshape(2, -1)       # a copy
        table = torch.zeros(4, 6)
        table[1:3] += flat[:2]
        table[:, ::2].mul_(2)
        one = image[:, :1] * 2                          # a channel: all of its orders are dense
        same = [image.contiguous(), image[..., 1:].contiguous(memory_format=torch.channels_last), image.flip(3)]
        wide = x[:, None, :, -1].expand(2, 4, 3) + x.select(2, 0).unsqueeze(1)
        empty = x[:, 3:] @ torch.ones(4, 0)
        return [*parts, flat, square.reshape(4, 2, 3, 1).squeeze(3), copied, table, one, *same, wide, empty,
                torch.roll(x, 1, 0), x.mT.tril(),
                image.mean((2, 3), keepdim=True) + image, F.pad(image, (1, 0, 2, 1)), x.unfold(2, 2, 1)]
    return Function(f), (torch.randn(2, 3, 4), torch.randn(2, 4, 3),
                         torch.randn(2, 3, 2, 4).contiguous(memory_format=torch.channels_last))


def numbers():
    """Promotion, numbers, reductions and indices."""
    def f(x, h, n):
        i = torch.argsort(n.flatten()).view(n.shape)
        positions = torch.arange(n.shape[1]) * 0.5
        mask = (n > 1) | n.eq(0)
        filled = x.masked_fill(mask, float("-inf"))
        y = [x * n, x + 1, 1 - n, n / 2, 2 ** x, h * 2.5, h + n, x.half() + h, n // 2, x.double() * x, n.float(),
             x.clamp(min=0), x.clamp(0, 1), torch.where(mask, x, 0.0), torch.lerp(x, x.exp(), 0.5),
             x.to(torch.bfloat16)]
        z = [x.sum(0), x.sum((0, 1)), x.mean(1, keepdim=True), x.var(1, unbiased=False), x.amax(0), *x.max(1),
             x.cumsum(0), x.norm(dim=1), n.any(1), filled.softmax(-1), x.log_softmax(0), *x.topk(2, 1), *x.sort(0)]
        w = [x[i[0] % 2], x[:, i[1] % 3], x.gather(0, i % 2), x.index_select(1, i[0] % 3), positions, x.T[i[1] % 3],
             torch.einsum("ij,kj->ik", x, x), x.repeat(2, 1), torch.stack([x.T, x.T], 1), x.scatter(0, i % 2, x)]
        return y + z + w
    return Function(f), (torch.randn(2, 3), torch.randn(2, 3).half(), torch.arange(6).view(2, 3))


class Decoder(nn.Module):
    """A decoder that reads one token, with caches of keys and values that grow."""

    def __init__(self, vocabulary=32, width=16, heads=2, layers=2):
        super().__init__()
        self.heads = heads
        self.tokens, self.final = nn.Embedding(vocabulary, width), nn.LayerNorm(width)
        self.blocks = nn.ModuleList(nn.ModuleDict({
            "before": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width),
            "between": nn.LayerNorm(width), "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width),
        }) for _ in range(layers))

    def forward(self, token, past):
        x = self.tokens(token)
        n, length, width = x.shape
        present = []
        angle = (past[0].shape[2] + torch.arange(length))[:, None] / 10 ** torch.arange(0, 4)
        for b, keys, values in zip(self.blocks, past[::2], past[1::2]):
            q, k, v = (t.view(n, length, self.heads, -1).transpose(1, 2) for t in b["qkv"](b["before"](x)).chunk(3, -1))
            q, k = (torch.cat([t[..., ::2] * angle.cos() - t[..., 1::2] * angle.sin(),
                               t[..., ::2] * angle.sin() + t[..., 1::2] * angle.cos()], -1) for t in (q, k))
            keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
            present += [keys, values]
            scores = (q @ keys.transpose(-1, -2)) / q.shape[-1] ** 0.5
            x = x + b["out"]((scores.softmax(-1) @ values).transpose(1, 2).reshape(n, length, width))
            x = x + b["down"](F.gelu(b["up"](b["between"](x))))
        return [self.final(x) @ self.tokens.weight.T, *present]


def decoder():
    return Decoder(), (torch.tensor([[3]]), [torch.randn(1, 2, 7, 8) for _ in range(4)])


def encoder():
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return nn.TransformerEncoder(layer, 2), (torch.randn(2, 10, 64),)
