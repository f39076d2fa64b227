"""Ten transformers of moderate size, in the forms in which model libraries write them."""
import math

import torch
import torch.nn.functional as F
import torchvision
from torch import nn

from language import T5 as Buckets, TEXT, Llama, RMSNorm, ids, padding
from network import Network

WIDTH, HEADS, DEPTH, WORDS, LENGTH = 256, 8, 4, 2000, 160
MASKED = {"x0": {0: "N", 1: "T"}, "x1": {0: "N", 1: "T"}}


def split_heads(x):
    return x.view(x.shape[0], x.shape[1], HEADS, WIDTH // HEADS).permute(0, 2, 1, 3)


def merge_heads(x):
    x = x.permute(0, 2, 1, 3).contiguous()
    return x.view(x.shape[0], x.shape[1], WIDTH)


def gelu_new(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class Attention(nn.Module):
    """Scaled products of heads; bias is added to the products. Without bias the layers have none, as in T5."""

    def __init__(self, bias=True, scaled=True):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=bias) for _ in range(4))
        self.scale = math.sqrt(WIDTH // HEADS) if scaled else 1

    def products(self, q, k, bias):
        a = torch.matmul(q, k.transpose(-1, -2)) / self.scale if self.scale != 1 else torch.matmul(q, k.transpose(-1, -2))
        return a if bias is None else a + bias

    def forward(self, x, memory=None, bias=None):
        memory = x if memory is None else memory
        q, k, v = split_heads(self.q(x)), split_heads(self.k(memory)), split_heads(self.v(memory))
        return self.o(merge_heads(F.softmax(self.products(q, k, bias), -1) @ v))


class MaskedFill(Attention):
    """DistilBERT's form: the query is scaled, and masked products are replaced."""

    def products(self, q, k, hidden):
        a = torch.matmul(q / self.scale, k.transpose(2, 3))
        return a.masked_fill(hidden.expand_as(a), torch.finfo(a.dtype).min)


class Block(nn.Module):
    """A layer that normalizes sums, or operands (before=True). It attends to a memory if cross is set."""

    def __init__(self, act=F.gelu, before=False, norm=lambda: nn.LayerNorm(WIDTH), cross=False, attention=Attention,
                 **options):
        super().__init__()
        self.act, self.before = act, before
        self.attention, self.cross = attention(**options), attention(**options) if cross else None
        self.norms = nn.ModuleList(norm() for _ in range(3 if cross else 2))
        self.up, self.down = (nn.Linear(*s, bias=options.get("bias", True)) for s in ((WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)))

    def add(self, i, x, f):
        return x + f(self.norms[i](x)) if self.before else self.norms[i](x + f(x))

    def forward(self, x, bias=None, memory=None, memory_bias=None):
        x = self.add(0, x, lambda y: self.attention(y, bias=bias))
        if self.cross is not None:
            x = self.add(2, x, lambda y: self.cross(y, memory, memory_bias))
        return self.add(1, x, lambda y: self.down(self.act(self.up(y))))


class Encoder(nn.Module):
    """BERT and its relatives: words, places, optional segments, an extended mask, blocks and a pooler."""

    def __init__(self, act=F.gelu, segments=True, narrow=WIDTH, shared=False, rolling=False, attention=Attention):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, narrow), nn.Embedding(LENGTH + 2, narrow)
        self.segments = nn.Embedding(2, narrow) if segments else None
        self.norm, self.wide = nn.LayerNorm(narrow), nn.Linear(narrow, WIDTH) if narrow != WIDTH else nn.Identity()
        self.blocks = nn.ModuleList(Block(act, attention=attention) for _ in range(1 if shared else DEPTH))
        self.pool, self.rolling, self.fills = nn.Linear(WIDTH, WIDTH), rolling, attention is MaskedFill
        self.register_buffer("position_ids", torch.arange(LENGTH).expand((1, -1)))

    def forward(self, tokens, mask):
        at = torch.cumsum(mask, 1) * mask + 1 if self.rolling else self.position_ids[:, :tokens.size(1)]
        x = self.words(tokens) + self.places(at)
        x = x if self.segments is None else x + self.segments(torch.zeros_like(tokens))
        x = self.wide(self.norm(x))
        wide = mask[:, None, None, :]
        bias = wide == 0 if self.fills else (1.0 - wide.to(x.dtype)) * -10000.0
        for i in range(DEPTH):
            x = self.blocks[i % len(self.blocks)](x, bias)
        return x, torch.tanh(self.pool(x[:, 0]))


class Fused(Attention):
    """GPT-2's form: one layer for query, key and value, and a slice of a causal mask."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.register_buffer("causal", torch.tril(torch.ones(LENGTH, LENGTH, dtype=torch.bool))[None, None])
        del self.q, self.k, self.v

    def forward(self, x, bias=None):
        q, k, v = (split_heads(y) for y in self.qkv(x).split(WIDTH, 2))
        a, t = self.products(q, k, None), x.shape[1]
        a = torch.where(self.causal[:, :, :t, :t], a, torch.tensor(torch.finfo(a.dtype).min, dtype=a.dtype))
        return self.o(merge_heads(F.softmax(a, -1) @ v))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH), nn.LayerNorm(WIDTH)
        self.blocks = nn.ModuleList(Block(gelu_new, True, attention=Fused) for _ in range(DEPTH))

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for m in self.blocks:
            x = m(x)
        return self.norm(x) @ self.words.weight.t()


class Translator(nn.Module):
    """BART's form: an encoder with a padding mask, and a causal decoder that attends to it."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH + 2, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.encoder = nn.ModuleList(Block() for _ in range(DEPTH // 2))
        self.decoder = nn.ModuleList(Block(cross=True) for _ in range(DEPTH // 2))
        self.head = nn.Linear(WIDTH, WORDS)

    def embed(self, tokens, norm):
        return norm(self.words(tokens) * math.sqrt(WIDTH) + self.places(torch.arange(tokens.shape[1]) + 2))

    def forward(self, source, mask, target):
        m, x = self.embed(source, self.norms[0]), self.embed(target, self.norms[1])
        lowest = torch.finfo(x.dtype).min
        hidden = (1.0 - mask[:, None, None, :].to(x.dtype)) * lowest
        for b in self.encoder:
            m = b(m, hidden)
        causal = torch.full((target.shape[1], target.shape[1]), lowest, dtype=x.dtype).triu(1)[None, None]
        for b in self.decoder:
            x = b(x, causal, m, hidden)
        return self.head(x)


class T5(nn.Module):
    """Relative positions in buckets, RMS norms, layers without bias."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.biases = nn.ModuleList(nn.Embedding(32, HEADS) for _ in range(2))
        kind = dict(act=F.relu, before=True, norm=lambda: RMSNorm(WIDTH), bias=False, scaled=False)
        self.encoder = nn.ModuleList(Block(**kind) for _ in range(DEPTH // 2))
        self.decoder = nn.ModuleList(Block(cross=True, **kind) for _ in range(DEPTH // 2))
        self.norms = nn.ModuleList(RMSNorm(WIDTH) for _ in range(2))

    def bias(self, x, table, both):
        at = torch.arange(x.shape[1])
        return table(Buckets.bucket(None, at[None, :] - at[:, None], both)).permute([2, 0, 1]).unsqueeze(0)

    def forward(self, source, target):
        m, x = self.words(source), self.words(target)
        bias = self.bias(m, self.biases[0], True)
        for b in self.encoder:
            m = b(m, bias)
        at = torch.arange(x.shape[1])
        causal = (1.0 - (at[None, :] <= at[:, None]).to(x.dtype)[None, None]) * torch.finfo(x.dtype).min
        bias, m = self.bias(x, self.biases[1], False) + causal, self.norms[0](m)
        for b in self.decoder:
            x = b(x, bias, m)
        return self.norms[1](x) @ self.words.weight.t()


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch, self.norm, self.head = nn.Conv2d(3, WIDTH, 16, 16), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 100)
        self.first = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.places = nn.Parameter(torch.randn(1, 1 + (LENGTH // 16) ** 2, WIDTH))
        self.blocks = nn.ModuleList(Block(before=True) for _ in range(DEPTH))

    def forward(self, image):
        x = self.patch(image).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(x.shape[0], -1, -1), x), 1) + self.places
        for m in self.blocks:
            x = m(x)
        return self.head(self.norm(x)[:, 0])


def network(module, *inputs, **options):
    """A network whose biases and weights of norms are not those of initialization, which optimisers merge."""
    for p in module.parameters():
        if p.dim() == 1:
            p.data += 0.1 * torch.randn(p.shape)
    return Network(module, *inputs, **options)


def encoder(opset=14, **options):
    sets = [(ids(1, 128, vocab=WORDS), padding(128)), (ids(3, 40, vocab=WORDS), padding(40, 17, 1))]
    return lambda: network(Encoder(**options), *sets, axes=MASKED, opset=opset)


def images(module, size):
    return network(module, (torch.randn(1, 3, size, size),), (torch.randn(3, 3, size, size),), axes={"x0": {0: "N"}}, opset=17)


def swin():
    return images(torchvision.models.SwinTransformer([4, 4], 64, [2, 2, 2], [2, 4, 8], [7, 7], num_classes=100), 112)


def llama():
    def cache(n, past):
        return torch.randn(DEPTH, n, 2, past, WIDTH // HEADS), torch.randn(DEPTH, n, 2, past, WIDTH // HEADS)
    sets = [(ids(1, 128, vocab=WORDS), *cache(1, 32)), (ids(3, 1, vocab=WORDS), *cache(3, 9))]
    axes = {"x0": {0: "N", 1: "T"}, "x1": {1: "N", 3: "P"}, "x2": {1: "N", 3: "P"}}
    return network(Llama(WIDTH, HEADS, 2, DEPTH, WORDS, hidden=3 * WIDTH), *sets, axes=axes)


def translator():
    sets = [(ids(1, 128, vocab=WORDS), padding(128), ids(1, 64, vocab=WORDS)),
            (ids(3, 40, vocab=WORDS), padding(40, 17, 1), ids(3, 9, vocab=WORDS))]
    return network(Translator(), *sets, axes={**MASKED, "x2": {0: "N", 1: "U"}})


def t5():
    sets = [(ids(1, 128, vocab=WORDS), ids(1, 64, vocab=WORDS)), (ids(3, 40, vocab=WORDS), ids(3, 9, vocab=WORDS))]
    return network(T5(), *sets, axes={"x0": {0: "N", 1: "T"}, "x1": {0: "N", 1: "U"}})


def gpt():
    return network(GPT(), (ids(1, 128, vocab=WORDS),), (ids(3, 40, vocab=WORDS),), axes=TEXT)


NETWORKS = {"transformer_" + k: v for k, v in {
    "bert": encoder(), "distilbert": encoder(segments=False, attention=MaskedFill),
    "roberta": encoder(act=lambda x: F.gelu(x, approximate="tanh"), rolling=True),
    "albert": encoder(17, act=gelu_new, narrow=64, shared=True), "gpt": gpt, "llama": llama, "t5": t5, "bart": translator,
    "vit": lambda: images(ViT(), LENGTH), "swin": swin}.items()}
