#!/usr/bin/env python3
"""Writes an encoder of sentences as ONNX, for serve.py: `sentences.py MODEL.onnx`, with PyTorch and onnx installed.

The sizes are those of all-MiniLM-L6-v2: 6 layers of width 384 with 12 heads. The weights are random. The input is
token ids, int64 [N, L], N and L open, at most 512 tokens; the id 0 is padding. The output is the mean over the tokens
without padding, divided by its Euclidean norm, float32 [N, 384].
"""
import sys

import torch
from torch import nn

WIDTH, HEADS, LAYERS, TOKENS, VOCABULARY = 384, 12, 6, 512, 30522


class Layer(nn.Module):
    """An encoder layer of BERT."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x, mask):
        heads = (x.shape[0], x.shape[1], HEADS, WIDTH // HEADS)
        q, k, v = (f(x).view(heads).transpose(1, 2) for f in (self.query, self.key, self.value))
        scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5 + mask
        x = self.norm1(x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)))
        return self.norm2(x + self.down(nn.functional.gelu(self.up(x))))


class Sentences(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, ids):
        used = (ids != 0).float()
        mask = (1 - used)[:, None, None] * torch.finfo(torch.float32).min
        x = self.norm(self.words(ids) + self.positions(torch.arange(ids.shape[1])))
        for layer in self.layers:
            x = layer(x, mask)
        total = (x * used[..., None]).sum(1)
        return nn.functional.normalize(total / used.sum(1, keepdim=True).clamp(min=1), dim=1)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    torch.manual_seed(0)
    model, ids = Sentences().eval(), torch.randint(0, 1000, (2, 16))
    torch.onnx.export(model, ids, sys.argv[1], opset_version=14, input_names=["ids"], output_names=["embedding"],
                      dynamic_axes={"ids": {0: "N", 1: "L"}, "embedding": {0: "N"}})


if __name__ == "__main__":
    main()
