"""Activations, computed by PyTorch."""
import numpy as np
import torch
import torch.nn.functional as F

from case import f, ints, op, scalar


def by(fn):
    """A reference that computes in float64."""
    return lambda *a: fn(*[torch.tensor(np.asarray(x, np.float64)) for x in a]).numpy().astype(np.asarray(a[0]).dtype)


x = f(2, 3, 5)
for name, fn, opset, attrs in (
        ("Relu", F.relu, 14, {}), ("LeakyRelu", lambda v: F.leaky_relu(v, 0.01), 6, {}),
        ("LeakyRelu", lambda v: F.leaky_relu(v, 0.3), 16, {"alpha": 0.3}), ("Elu", F.elu, 6, {}),
        ("Elu", lambda v: F.elu(v, 2.5), 6, {"alpha": 2.5}), ("Celu", lambda v: F.celu(v, 0.7), 12, {"alpha": 0.7}),
        ("Selu", F.selu, 6, {}), ("Gelu", F.gelu, 20, {}),
        ("Gelu", lambda v: F.gelu(v, approximate="tanh"), 20, {"approximate": "tanh"}),
        ("HardSigmoid", lambda v: (0.2 * v + 0.5).clamp(0, 1), 6, {}),
        ("HardSigmoid", lambda v: (0.5 * v + 0.25).clamp(0, 1), 6, {"alpha": 0.5, "beta": 0.25}),
        ("HardSwish", F.hardswish, 14, {}), ("Mish", F.mish, 18, {}), ("Softplus", F.softplus, 1, {}),
        ("Softsign", F.softsign, 1, {}), ("ThresholdedRelu", lambda v: torch.where(v > 1, v, 0 * v), 10, {}),
        ("ThresholdedRelu", lambda v: torch.where(v > 0.4, v, 0 * v), 10, {"alpha": 0.4}),
        ("Softmax", lambda v: v.softmax(-1), 13, {}), ("Softmax", lambda v: v.softmax(1), 13, {"axis": 1}),
        ("Softmax", lambda v: v.flatten(1).softmax(1).view(v.shape), 11, {}),
        ("Softmax", lambda v: v.flatten(0, 1).softmax(1).view(v.shape), 1, {"axis": 2}),
        ("LogSoftmax", lambda v: v.log_softmax(0), 13, {"axis": 0}),
        ("LogSoftmax", lambda v: v.flatten(1).log_softmax(1).view(v.shape), 11, {}),
        ("Hardmax", lambda v: F.one_hot(v.argmax(-1), 5).double(), 13, {}),
        ("Hardmax", lambda v: F.one_hot(v.flatten(1).argmax(1), 15).double().view(v.shape), 11, {}),
        ("Affine", lambda v: 2 * v + 0.5, 6, {"alpha": 2.0, "beta": 0.5}), ("Scale", lambda v: 3 * v, 6, {"scale": 3.0}),
        ("ScaledTanh", lambda v: 2 * torch.tanh(0.5 * v), 6, {"alpha": 2.0, "beta": 0.5}),
        ("ParametricSoftplus", lambda v: 2 * F.softplus(0.5 * v), 6, {"alpha": 2.0, "beta": 0.5}),
        ("Shrink", lambda v: torch.where(v < -0.5, v, torch.where(v > 0.5, v, 0 * v)), 9, {}),
        ("Shrink", lambda v: torch.where(v < -1, v + 0.5, torch.where(v > 1, v - 0.5, 0 * v)), 9,
         {"lambd": 1.0, "bias": 0.5})):
    op(name, [x], by(fn), opset, **attrs)
op("Relu", [ints(6, dtype=np.int32)], lambda v: np.maximum(v, 0), 14)
op("PRelu", [f(2, 3, 4), f(3, 1, low=0.1, high=0.9)], by(lambda v, s: torch.where(v < 0, v * s, v)), 9)
op("PRelu", [f(2, 4), f(1, low=0.1, high=0.9)], by(lambda v, s: torch.where(v < 0, v * s, v)), 16, known=(1,))
op("Dropout", [x], lambda v: v, 7, ratio=0.3)
op("Dropout", [x], lambda v: [v, np.ones(v.shape, bool)], 12)
op("Dropout", [x, scalar(0.5, np.float32), scalar(False, np.bool_)], lambda v, r, t: v, 13, known=(1, 2))
op("Dropout", [x, scalar(0.0, np.float32), scalar(True, np.bool_)], lambda v, r, t: v, 13, known=(1, 2))
for alpha in (None, 1.702, 1.0, -0.5):
    op("QuickGelu", [x], by(lambda v: v * torch.sigmoid((1.702 if alpha is None else alpha) * v)),
       domain="com.microsoft", **({} if alpha is None else {"alpha": alpha}))
op("QuickGelu", [f(7).astype(np.float64)], by(lambda v: v * torch.sigmoid(1.702 * v)), domain="com.microsoft")
