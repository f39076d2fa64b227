"""Networks for speech and images: scripted control flow, recurrent networks, diffusion, matching."""
import math
from typing import Tuple

import torch
import torch.nn.functional as F
from torch import nn

from network import Network

SOUND = {"x0": {0: "N", 1: "T"}}


class Voice(nn.Module):
    """A voice-activity network with branches that depend on the sampling rate and the rank of the input."""

    def __init__(self, width=16):
        super().__init__()
        self.wide, self.narrow = nn.Conv1d(1, width, 16, 8), nn.Conv1d(1, width, 8, 4)
        self.cell, self.head = nn.LSTM(width, 8, 1), nn.Linear(8, 1)

    def forward(self, x, rate: int, h, c):
        if x.dim() == 1:
            x = x.unsqueeze(0)
        if x.dim() > 2:
            x = x.squeeze(1)
        if rate == 16000:
            y = self.wide(x.unsqueeze(1))
        else:
            if x.size(1) > 400:
                y = self.narrow(x[:, ::2].unsqueeze(1))
            else:
                y = self.narrow(x.unsqueeze(1))
        y = F.relu(y).permute(2, 0, 1)
        y, (h, c) = self.cell(y, (h, c))
        y = torch.sigmoid(self.head(F.relu(y))).squeeze(2).mean(0)
        return y, h, c


class Rated(nn.Module):
    """Passes the sampling rate as a tensor, as the model's input does."""

    def __init__(self):
        super().__init__()
        self.net = torch.jit.script(Voice())

    def forward(self, x, rate, h, c):
        return self.net(x, int(rate.item()), h, c)


def voice():
    def inputs(n, samples, rate):
        return torch.randn(n, samples), torch.tensor(rate), torch.randn(1, n, 8), torch.randn(1, n, 8)
    sets = [inputs(1, 512, 16000), inputs(2, 256, 8000), inputs(1, 600, 8000)]
    axes = {"x0": {0: "N", 1: "T"}, "x2": {1: "N"}, "x3": {1: "N"}}
    return Network(torch.jit.script(Rated()), *sets, axes=axes, opset=16, exact=False)


class Greedy(nn.Module):
    """Decodes until an end token, or up to a number of steps."""

    def __init__(self, width=16, vocab=11):
        super().__init__()
        self.embed, self.cell, self.head = nn.Embedding(vocab, width), nn.GRUCell(width, width), nn.Linear(width, vocab)

    def forward(self, h, steps: int):
        token = torch.zeros(h.size(0), dtype=torch.long)
        out = torch.zeros(h.size(0), 0, dtype=torch.long)
        total = torch.zeros(h.size(0))
        going = True
        i = 0
        while going:
            h = torch.tanh(h + self.embed(token) * 0.5)
            scores = F.log_softmax(self.head(h), -1)
            best, token = scores.max(-1)
            total = total + best
            out = torch.cat([out, token.unsqueeze(1)], 1)
            i += 1
            going = i < steps and bool((token != 1).any())
        return out, total


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.jit.script(Greedy())

    def forward(self, h, steps):
        return self.net(h, int(steps.item()))


def greedy():
    return Network(torch.jit.script(Steps()), (torch.randn(2, 16), torch.tensor(5)), (torch.randn(3, 16), torch.tensor(12)),
                   axes={"x0": {0: "N"}}, opset=16, exact=False)


class Beams(nn.Module):
    """Beam search: keeps the best label sequences in each step, reordered by topk and gather."""

    def forward(self, scores, width: int):
        steps, labels = scores.size(0), scores.size(1)
        paths = torch.zeros(1, 0, dtype=torch.long)
        total = torch.zeros(1)
        for i in range(steps):
            every = (total.unsqueeze(1) + scores[i].unsqueeze(0)).flatten()
            total, at = torch.topk(every, min(width, every.size(0)))
            paths = torch.cat([paths[torch.div(at, labels, rounding_mode="floor")], (at % labels).unsqueeze(1)], 1)
        return paths, total


class Widths(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.jit.script(Beams())

    def forward(self, scores, width):
        return self.net(scores, int(width.item()))


def beams():
    sets = [(F.log_softmax(torch.randn(n, 5), -1), torch.tensor(w)) for n, w in ((6, 3), (11, 4), (2, 9))]
    return Network(torch.jit.script(Widths()), *sets, axes={"x0": {0: "T"}}, opset=16, exact=False)


class Labels(nn.Module):
    """CTC decoding: drops repeated frames and blanks, by masks."""

    def forward(self, scores):
        best = scores.argmax(-1)
        new = torch.cat([torch.ones(1, dtype=torch.bool), best[1:] != best[:-1]])
        keep = new & (best != 0)
        return best[keep], keep.nonzero().squeeze(1), torch.masked_select(scores.max(-1)[0], keep)


def ctc_labels():
    return Network(Labels(), (torch.randn(9, 4),), (torch.randn(20, 4),), axes={"x0": {0: "T"}}, opset=16)


class Whisper(nn.Module):
    """Convolutions over a spectrogram, sinusoidal positions, an encoder, and a decoder with cross attention."""

    def __init__(self, width=32, heads=4, vocab=29):
        super().__init__()
        self.c1, self.c2 = nn.Conv1d(8, width, 3, padding=1), nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.encoder = nn.TransformerEncoderLayer(width, heads, 64, 0.0, "gelu", batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoderLayer(width, heads, 64, 0.0, "gelu", batch_first=True, norm_first=True)
        self.embed, self.width = nn.Embedding(vocab, width), width

    def places(self, n):
        scale = torch.exp(-math.log(10000) / (self.width // 2 - 1) * torch.arange(self.width // 2))
        at = torch.arange(n)[:, None] * scale[None, :]
        return torch.cat([at.sin(), at.cos()], 1)

    def forward(self, mel, tokens):
        x = F.gelu(self.c2(F.gelu(self.c1(mel)))).permute(0, 2, 1)
        x = self.encoder(x + self.places(x.shape[1]).to(x.dtype))
        t = tokens.shape[1]
        hidden = torch.full((t, t), float("-inf")).triu_(1).to(x.dtype)
        y = self.decoder(self.embed(tokens), x, tgt_mask=hidden)
        return y @ self.embed.weight.t()


def whisper():
    def inputs(n, frames, t):
        return torch.randn(n, 8, frames), torch.randint(0, 29, (n, t))
    axes = {"x0": {0: "N", 2: "F"}, "x1": {0: "N", 1: "T"}}
    net = Network(Whisper(), inputs(1, 20, 4), inputs(2, 31, 7), axes=axes, opset=14)
    net.module.train()  # the fused layers of eval mode cannot be exported
    return net


class Diffusion(nn.Module):
    """A small UNet: time-step embeddings, group norms, attention over pixels, skip connections, nearest upsampling."""

    def __init__(self, width=16):
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
        self.start, self.down = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, width, 3, 2, 1)
        self.norms = nn.ModuleList([nn.GroupNorm(4, width) for _ in range(3)] + [nn.GroupNorm(4, 2 * width)])
        self.a, self.b = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.qkv, self.out = nn.Conv1d(width, 3 * width, 1), nn.Conv1d(width, width, 1)
        self.end = nn.Conv2d(2 * width, 3, 3, padding=1)

    def forward(self, x, t, context):
        half = self.width // 2
        freqs = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32) / half)
        args = t[:, None].float() * freqs[None]
        e = self.time(torch.cat([torch.cos(args), torch.sin(args)], -1).to(x.dtype))
        first = self.start(x)
        h = self.down(first)
        h = h + self.b(F.silu(self.norms[1](self.a(F.silu(self.norms[0](h))) + e[:, :, None, None])))
        b, c, height, w = h.shape
        q, k, v = torch.chunk(self.qkv(self.norms[2](h).reshape(b, c, -1)), 3, 1)
        a = torch.einsum("bct,bcs->bts", q * c ** -0.25, k * c ** -0.25).softmax(-1)
        h = h + self.out(torch.einsum("bts,bcs->bct", a, v)).reshape(b, c, height, w) + context.mean(1)[:, :, None, None]
        h = F.interpolate(h, size=first.shape[2:], mode="nearest")
        return self.end(F.silu(self.norms[3](torch.cat([h, first], 1))))


def diffusion():
    def inputs(n, h, w):
        return torch.randn(n, 3, h, w), torch.randint(0, 1000, (n,)), torch.randn(n, 5, 16)
    axes = {"x0": {0: "N", 2: "H", 3: "W"}, "x1": {0: "N"}, "x2": {0: "N"}}
    return Network(Diffusion(), inputs(1, 16, 16), inputs(2, 24, 15), axes=axes)


class Pieces(nn.Module):
    """Size-dependent squeezes, reflection padding, and frames of a signal."""

    def forward(self, x, w) -> Tuple[torch.Tensor, torch.Tensor]:
        x = F.pad(x.unsqueeze(1), [4, 4], mode="reflect").squeeze(1)
        at = torch.arange((x.size(1) - 8) // 4 + 1).unsqueeze(1) * 4 + torch.arange(8).unsqueeze(0)
        frames = x[:, at] * w
        power = (frames ** 2).sum(-1)
        if power.size(1) > 6:
            power = power[:, :6]
        return frames @ w, power.squeeze(0)


def pieces():
    net = Network(torch.jit.script(Pieces()), (torch.randn(2, 32), torch.hann_window(8)),
                  (torch.randn(1, 16), torch.hann_window(8)), (torch.randn(3, 20), torch.hann_window(8)), axes=SOUND, opset=16)
    return net


def recurrent(kind):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = kind(6, 8, num_layers=2, bidirectional=True, batch_first=True)

        def forward(self, x):
            return self.rnn(x)
    return Network(Net(), (torch.randn(1, 5, 6),), (torch.randn(1, 9, 6),), axes={"x0": {1: "T"}})


NETWORKS = {"voice": voice, "greedy": greedy, "beams": beams, "labels": ctc_labels, "whisper": whisper, "diffusion": diffusion, "pieces": pieces,
            "lstm_both_ways": lambda: recurrent(nn.LSTM), "gru_both_ways": lambda: recurrent(nn.GRU)}
