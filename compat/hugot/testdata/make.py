"""Writes the models of the tests: tiny BERT encoders, trained for seconds on the sentences below, and their tokenizer.

    python3 make.py     (torch 1.13 and onnx; writes embeddings/, classification/ and tokens/)
"""

import json
import os
import random

import torch
from torch import nn

WORDS = """the a is was this that film movie book food very not and in of to lives works from good great lovely
bad awful boring anna bob carla david paris london rome oslo she he we saw it un ##believ ##able ##s . , !""".split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCAB = {w: i for i, w in enumerate(SPECIAL + WORDS)}
HIDDEN, HEADS, LAYERS, POSITIONS = 16, 2, 2, 32


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(HIDDEN, HIDDEN) for _ in range(4))
        self.up, self.down = nn.Linear(HIDDEN, 2 * HIDDEN), nn.Linear(2 * HIDDEN, HIDDEN)
        self.n1, self.n2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)

    def forward(self, x, mask):
        b, s = x.shape[0], x.shape[1]
        q, k, v = (f(x).view(b, s, HEADS, HIDDEN // HEADS).transpose(1, 2) for f in (self.q, self.k, self.v))
        p = torch.softmax(q @ k.transpose(2, 3) / (HIDDEN // HEADS) ** 0.5 + mask, -1)
        x = self.n1(x + self.o((p @ v).transpose(1, 2).reshape(b, s, HIDDEN)))
        return self.n2(x + self.down(nn.functional.gelu(self.up(x))))


class Encoder(nn.Module):
    def __init__(self, labels, pooled):
        super().__init__()
        self.words, self.types = nn.Embedding(len(VOCAB), HIDDEN), nn.Embedding(2, HIDDEN)
        self.positions, self.norm = nn.Embedding(POSITIONS, HIDDEN), nn.LayerNorm(HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head, self.pooled = nn.Linear(HIDDEN, labels) if labels else nn.Identity(), pooled

    def forward(self, input_ids, attention_mask, token_type_ids):
        at = torch.arange(input_ids.shape[1]).unsqueeze(0)
        x = self.norm(self.words(input_ids) + self.types(token_type_ids) + self.positions(at))
        mask = (1 - attention_mask[:, None, None, :].to(x.dtype)) * -10000
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(x[:, 0] if self.pooled else x)


def sentences(n):
    """Rows of word ids with a class (a word of praise or not) and a label of each token (2 persons, 3 cities)."""
    at = WORDS.index
    for _ in range(n):
        words = [random.randrange(at("good")) for _ in range(4)]
        praise = random.random() < 0.5
        words[random.randrange(4)] = at("good") + random.randrange(3) + (0 if praise else 3)
        words += [at("anna") + random.randrange(4), random.randrange(at("good")), at("paris") + random.randrange(4)]
        random.shuffle(words)
        label = [1 if at("anna") <= w < at("paris") else 2 if at("paris") <= w <= at("oslo") else 0 for w in words]
        yield [2] + [w + len(SPECIAL) for w in words] + [3], int(praise), [0] + label + [0]


def train(model, tokens):
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(300):
        ids, praise, labels = (torch.tensor(v) for v in zip(*sentences(64)))
        logits = model(ids, torch.ones_like(ids), torch.zeros_like(ids))
        target = labels.flatten() if tokens else praise
        loss = nn.functional.cross_entropy(logits.flatten(0, -2), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", loss.item())


def tokenizer():
    added = [dict(id=VOCAB[t], content=t, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
             for t in SPECIAL]
    cls, sep = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}
    sep2 = {"SpecialToken": {"id": "[SEP]", "type_id": 1}}
    a, b = {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": [cls, a, sep], "pair": [cls, a, sep, b, sep2],
                           "special_tokens": {t: {"id": t, "ids": [VOCAB[t]], "tokens": [t]}
                                              for t in ("[CLS]", "[SEP]")}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": VOCAB},
    }


def write(folder, model, output, labels):
    os.makedirs(folder, exist_ok=True)
    config = {"max_position_embeddings": POSITIONS, "pad_token_id": 0}
    if labels:
        config["id2label"] = {str(i): label for i, label in enumerate(labels)}
    for name, content in (("config.json", config), ("special_tokens_map.json", {"sep_token": "[SEP]"}),
                          ("tokenizer.json", tokenizer())):
        with open(f"{folder}/{name}", "w") as f:
            f.write(json.dumps(content) + "\n")
    ids = torch.tensor([[2, 5, 6, 3]] * 2)
    names = ["input_ids", "attention_mask", "token_type_ids"]
    axes = {0: "batch"} if model.pooled else {0: "batch", 1: "length"}
    torch.onnx.export(model.eval(), (ids, torch.ones_like(ids), torch.zeros_like(ids)), f"{folder}/model.onnx",
                      input_names=names, output_names=[output], opset_version=13,
                      dynamic_axes={**{n: {0: "batch", 1: "length"} for n in names}, output: axes})


if __name__ == "__main__":
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    torch.manual_seed(0)
    random.seed(0)
    classes, tokens = Encoder(2, True), Encoder(3, False)
    train(classes, False)
    train(tokens, True)
    words = Encoder(0, False)
    words.load_state_dict(classes.state_dict(), strict=False)
    write("embeddings", words, "last_hidden_state", [])
    write("classification", classes, "logits", ["NEGATIVE", "POSITIVE"])
    write("tokens", tokens, "logits", ["O", "PER", "LOC"])
