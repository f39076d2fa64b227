"""Signals, text, and random operators in cases with a deterministic result."""
import numpy as np

from case import f, graph, i64, ints, node, op, scalar


def parts(x):
    return np.stack([x.real, x.imag], -1).astype(np.float32)


for n in (6, 7):
    for periodic in (1, 0):
        t = 2 * np.pi * np.arange(n) / (n if periodic else n - 1)
        for name, w in (("HannWindow", 0.5 - 0.5 * np.cos(t)), ("HammingWindow", 25 / 46 - 21 / 46 * np.cos(t)),
                        ("BlackmanWindow", 0.42 - 0.5 * np.cos(t) + 0.08 * np.cos(2 * t))):
            op(name, [scalar(n)], w.astype(np.float32), 17, known=(0,), periodic=periodic)
op("HannWindow", [scalar(8)], 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(8) / 8), 17, output_datatype=11)
x = f(2, 6, 3, 1)
z = f(2, 6, 3, 2)
c = z[..., 0] + 1j * z[..., 1]
op("DFT", [x], lambda v: parts(np.fft.fft(v[..., 0], axis=1)), 17)
op("DFT", [z], parts(np.fft.fft(c, axis=2)), 17, axis=2)
op("DFT", [z], parts(np.fft.ifft(c, axis=1)), 17, inverse=1)
op("DFT", [x], lambda v: parts(np.fft.rfft(v[..., 0], axis=1)), 17, onesided=1)
op("DFT", [x, scalar(8)], lambda v, n: parts(np.fft.fft(v[..., 0], 8, axis=1)), 17, known=(1,))
op("DFT", [x, None, scalar(1)], lambda v, a: parts(np.fft.fft(v[..., 0], axis=1)), 20, known=(2,))
s, win = f(1, 20), (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(8) / 8)).astype(np.float32)
frames = np.stack([s[:, i:i + 8] for i in range(0, 13, 4)], 1)
op("STFT", [s[..., None], scalar(4), win], parts(np.fft.rfft(frames * win, axis=2)), 17, known=(1, 2))
op("STFT", [s[..., None], scalar(4), None, scalar(8)], parts(np.fft.fft(frames, axis=2)), 17, known=(1, 3), onesided=0)


def mel(bands, length, rate, low, high):
    edges = np.linspace(2595 * np.log10(1 + low / 700), 2595 * np.log10(1 + high / 700), bands + 2)
    edges = np.arange(bands + 2) * (edges[-1] - edges[0]) / (bands + 2) + edges[0]
    bins = ((length + 1) * (700 * (10 ** (edges / 2595) - 1)) // rate).astype(int)
    out = np.zeros((length // 2 + 1, bands), np.float32)
    for i in range(bands):
        lo, mid, hi = bins[i:i + 3]
        for j in range(lo, mid):
            out[j, i] = (j - lo) / (mid - lo)
        if lo == mid:
            out[mid, i] = 1
        for j in range(mid, hi):
            out[j, i] = (hi - j) / (hi - mid)
    return out


op("MelWeightMatrix", [scalar(6), scalar(64), scalar(8000), scalar(100, np.float32), scalar(3800, np.float32)], mel(6, 64, 8000, 100, 3800), 17,
   known=(0, 1, 2, 3, 4))

pool = dict(ngram_counts=[0, 4], ngram_indexes=[0, 1, 2, 3, 4, 5, 6], pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7], min_gram_length=1,
            max_gram_length=2)
rows = i64(1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8).reshape(2, 6)
single, pairs = [2, 3, 5, 4], [(5, 6), (7, 8), (6, 7)]


def counts(row, skips=0):
    row = list(row)
    out = [row.count(w) for w in single]
    for p in pairs:
        out.append(sum((row[i], row[i + k]) == p for k in range(1, skips + 2) for i in range(len(row) - k)))
    return out


for skips in (0, 2):
    want = np.array([counts(r, skips) for r in rows], np.float32)
    op("TfIdfVectorizer", [rows], want, 9, mode="TF", max_skip_count=skips, **pool)
    op("TfIdfVectorizer", [rows[0]], want[0], 9, mode="TF", max_skip_count=skips, **pool)
weights = [0.5, 1.0, 2.0, 3.0, 0.1, 0.2, 4.0]
want = np.array([counts(r) for r in rows], np.float32)
op("TfIdfVectorizer", [rows], want * np.float32(weights), 9, mode="TFIDF", max_skip_count=0, weights=weights, **pool)
op("TfIdfVectorizer", [rows], (want > 0) * np.float32(weights), 9, mode="IDF", max_skip_count=0, weights=weights, **pool)

# Words that are strings. The model does not know "zebra" and "yak".
words = np.array([["the", "zebra", "the", "cat"], ["cat", "sat", "yak", "zebra"]])
pool_of_texts = dict(pool_strings=["the", "cat", "sat", "the", "cat", "cat", "sat"], ngram_counts=[0, 3],
                     ngram_indexes=[0, 1, 2, 3, 4], min_gram_length=1, max_gram_length=2)
op("TfIdfVectorizer", [words], np.array([[2, 1, 0, 1, 0], [0, 1, 1, 0, 1]], np.float32), 9, name="strings", mode="TF",
   max_skip_count=1, **pool_of_texts)
op("TfIdfVectorizer", [words[0]], np.array([2, 1, 0, 1, 0], np.float32), 9, name="string", mode="TF", max_skip_count=0,
   **pool_of_texts)

# Such strings are equal if they are the same, and can be moved.
others = np.array([["the", "zebra", "the", "yak"], ["zebra", "sat", "yak", "yak"]])
op("Equal", [words, others], lambda a, b: a == b, 19, name="strings")
op("Identity", [words], words, 16, name="strings")
op("Gather", [words, i64(3, 0)], words[:, [3, 0]], 13, name="strings", axis=1)
op("Concat", [words, others], np.concatenate([words, others]), 13, name="strings", axis=0)
op("Where", [words == others, words, np.array([["?"]])], np.where(words == others, words, "?"), 16, name="strings")

# Distributions without variance, and with only one possible value.
op("RandomNormal", [], np.full((2, 3), 1.5, np.float32), 1, shape=[2, 3], mean=1.5, scale=0.0)
op("RandomUniform", [], np.full((4,), 2.0, np.float64), 1, shape=[4], low=2.0, high=2.0, dtype=11)
op("RandomNormalLike", [f(2, 2)], np.full((2, 2), -1.0, np.float32), 1, mean=-1.0, scale=0.0)
op("RandomUniformLike", [ints(3)], np.full(3, 4.0, np.float32), 1, low=4.0, high=4.0, dtype=1)
op("Bernoulli", [np.array([0, 1, 1, 0], np.float32)], lambda p: p, 15)
op("Bernoulli", [np.array([0, 1, 1, 0], np.float64)], lambda p: p.astype(np.int64), 15, dtype=7)
sure = np.array([[-200, 0, -200], [0, -200, -200]], np.float32)
op("Multinomial", [sure], np.array([[1] * 4, [0] * 4], np.int32), 7, sample_size=4)
op("Multinomial", [sure], np.array([[1] * 2, [0] * 2], np.int64), 7, sample_size=2, dtype=7)
# Random numbers differ, stay within bounds, and have roughly the right mean.
graph("RandomUniform bounds", [
    node("RandomUniform", "", "r", shape=[1000], low=2.0, high=3.0), node("ReduceMin", "r", "lo", keepdims=0), node("ReduceMax", "r", "hi", keepdims=0),
    node("Floor", "lo", "floor"), node("Ceil", "hi", "ceil"), node("Equal", "lo hi", "same")], {}, {
        "floor": scalar(2, np.float32), "ceil": scalar(3, np.float32), "same": scalar(False, np.bool_)}, 13)
