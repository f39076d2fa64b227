"""Normalizations and losses, computed by PyTorch."""
import numpy as np
import torch
import torch.nn.functional as F

from case import f, ints, op


def by(fn):
    return lambda *a: fn(*[torch.tensor(x).double() if x.dtype.kind == "f" else torch.tensor(x) for x in a]).numpy().astype(np.float32)


x, w, b, mean, var = f(2, 3, 4, 5), f(3), f(3), f(3), f(3, low=0.5, high=2)
op("BatchNormalization", [x, w, b, mean, var], by(lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b)), 15)
op("BatchNormalization", [x, w, b, mean, var], by(lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b, eps=0.01)), 9,
   known=(1, 2, 3, 4), epsilon=0.01)
op("BatchNormalization", [f(2, 3), w, b, mean, var], by(lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b)), 7)
s = f(2, 4)
op("BatchNormalization", [s, f(4), f(4), f(4), f(4, low=0.5, high=2)], by(
    lambda x, w, b, m, v: (x - m) / (v + 1e-5).sqrt() * w + b), 8, spatial=0)


def training(x, w, b, m, v):
    t = torch.tensor(x).double()
    y = F.batch_norm(t, None, None, torch.tensor(w).double(), torch.tensor(b).double(), True)
    dims = (0, 2, 3)
    return [y.numpy().astype(np.float32), (m * 0.8 + 0.2 * x.mean(dims)).astype(np.float32),
            (v * 0.8 + 0.2 * x.var(dims)).astype(np.float32)]


op("BatchNormalization", [x, w, b, mean, var], training, 15, training_mode=1, momentum=0.8)
op("InstanceNormalization", [x, w, b], by(lambda x, w, b: F.instance_norm(x, weight=w, bias=b)), 6)
op("InstanceNormalization", [f(2, 3, 6), w, b], by(lambda x, w, b: F.instance_norm(x, weight=w, bias=b, eps=0.1)), 6, epsilon=0.1)
op("LRN", [f(1, 6, 3, 3)], by(lambda x: F.local_response_norm(x, 3, 0.2, 0.6, 1.5)), 13, size=3, alpha=0.2, beta=0.6, bias=1.5)
op("LRN", [f(1, 6, 3, 3)], by(lambda x: F.local_response_norm(x, 5)), 1, size=5)
op("LayerNormalization", [f(2, 3, 8), f(8), f(8)], by(lambda x, w, b: F.layer_norm(x, (8,), w, b)), 17)
op("LayerNormalization", [f(2, 3, 8), f(3, 8)], by(lambda x, w: F.layer_norm(x, (3, 8), w, None, 0.01)), 17, axis=1, epsilon=0.01)


def stats(x, w):
    t = torch.tensor(x).double()
    return [F.layer_norm(t, (8,), torch.tensor(w).double()).numpy().astype(np.float32), x.mean(-1, keepdims=True),
            (1 / np.sqrt(x.astype(np.float64).var(-1, keepdims=True) + 1e-5)).astype(np.float32)]


op("LayerNormalization", [f(2, 3, 8), f(8)], stats, 17, name="statistics")
g = f(2, 6, 3, 3)
op("GroupNormalization", [g, f(6), f(6)], by(lambda x, w, b: F.group_norm(x, 3, w, b)), 21, num_groups=3)
op("GroupNormalization", [g, f(2), f(2)], by(lambda x, w, b: F.group_norm(x, 2) * w.repeat_interleave(3).view(6, 1, 1)
                                              + b.repeat_interleave(3).view(6, 1, 1)), 18, num_groups=2)
op("MeanVarianceNormalization", [x], lambda v: ((v - v.mean((0, 2, 3), keepdims=True)) / v.std((0, 2, 3), keepdims=True)), 13)
op("MeanVarianceNormalization", [x], lambda v: ((v - v.mean((1, 2), keepdims=True)) / v.std((1, 2), keepdims=True)), 9, axes=[1, 2])

logs, target, weight = F.log_softmax(torch.tensor(f(4, 5)), 1).numpy(), ints(4, low=0, high=4), f(5, low=0.2, high=2)
deep, places = f(2, 5, 3), ints(2, 3, low=0, high=4)
for how in ("none", "sum", "mean"):
    op("NegativeLogLikelihoodLoss", [logs, target], by(lambda x, t, h=how: F.nll_loss(x, t, reduction=h)), 13, reduction=how)
    op("NegativeLogLikelihoodLoss", [logs, target, weight], by(lambda x, t, w, h=how: F.nll_loss(x, t, w, reduction=h)), 12, reduction=how)
    op("NegativeLogLikelihoodLoss", [logs, target, weight], by(
        lambda x, t, w, h=how: F.nll_loss(x, t, w, reduction=h, ignore_index=int(target[0]))), 13, reduction=how,
       ignore_index=int(target[0]))
    op("SoftmaxCrossEntropyLoss", [deep, places], by(lambda x, t, h=how: F.cross_entropy(x, t, reduction=h)), 13, reduction=how)
    op("SoftmaxCrossEntropyLoss", [deep, places, weight], by(lambda x, t, w, h=how: F.cross_entropy(x, t, w, reduction=h)), 12, reduction=how)
op("SoftmaxCrossEntropyLoss", [deep, places], lambda x, t: [
    F.cross_entropy(torch.tensor(x), torch.tensor(t)).numpy(), F.log_softmax(torch.tensor(x), 1).numpy()], 13, name="log probabilities")
