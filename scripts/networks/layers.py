"""Compares a run of a quantized model with the model's definition, layer by layer.

PyTorch's integer kernels round sums with a fixed-point factor, while the exported model divides. The two differ by one
step in 0.1% of the first layer's values, in half of the values thirty layers later, and by up to 35 steps at the end,
with any runtime. Therefore the run is compared not with PyTorch's outputs but with the model's definition in float64:
every QuantizeLinear is computed from the run's own results of the previous layers. With resnet18, 15 of 294,888 values
differ, by one step, and all are within 2.1e-5 of a tie; any other difference is an error.
"""
import os
import subprocess
import tempfile

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper

# The distance from a tie, in steps, within which float32 sums may round differently; the error of unrounded values.
TIE, SCALE = 1e-3, 3e-4
CASTS = {1: torch.float32, 2: torch.uint8, 3: torch.int8, 6: torch.int32, 7: torch.int64}


def along(x, factor, attrs):
    """The scale or zero point of each channel, in a shape that broadcasts with x."""
    if factor.numel() == 1:
        return factor.reshape(()).double()
    shape = [1] * x.dim()
    shape[attrs.get("axis", 1)] = -1
    return factor.reshape(shape).double()


def apply(op, ins, attrs):
    """The result of an operator in float64."""
    x = ins[0] if ins else None
    if op == "Constant":
        return torch.tensor(numpy_helper.to_array(attrs["value"]))
    if op == "ConstantOfShape":
        value = torch.tensor(numpy_helper.to_array(attrs["value"]))
        return torch.full(tuple(x.tolist()), value.item(), dtype=value.dtype)
    if op == "Cast":
        return x.to(CASTS[attrs["to"]])
    if op == "DequantizeLinear":
        return (x.double() - along(x, ins[2], attrs)) * along(x, ins[1], attrs)
    if op == "Conv":
        pads = attrs.get("pads", [0, 0, 0, 0])
        return F.conv2d(x, ins[1], *ins[2:], stride=attrs["strides"], padding=pads[:2], dilation=attrs["dilations"],
                        groups=attrs["group"])
    if op == "MaxPool":
        return F.max_pool2d(x, attrs["kernel_shape"], attrs["strides"], attrs["pads"][:2])
    simple = {"Add": torch.add, "Relu": torch.relu, "Flatten": lambda x: x.flatten(1), "Gemm": F.linear,
              "GlobalAveragePool": lambda x: x.mean((2, 3), keepdim=True),
              "Clip": lambda x, low, high: x.clamp(low.item(), high.item())}
    return simple[op](*ins)


def rounding(x, scale, zero, attrs, got):
    """Describes how a result of QuantizeLinear differs from quantized x; None if only ties are rounded differently."""
    limits = torch.iinfo(zero.dtype)
    steps = x / along(x, scale, attrs) + along(x, zero, attrs)
    off = (got.double() - steps.round().clamp(limits.min, limits.max)).abs()
    tie = ((steps - steps.floor()) - 0.5).abs()
    wrong = int(((off > 0) & ((off > 1) | (tie > TIE))).sum())
    return "%d of %d quantized values differ" % (wrong, off.numel()) if wrong else None


def check(model, inputs, got):
    """The differences of a run, whose quantized values are all in got, and the number of compared values."""
    values = {i.name: torch.tensor(numpy_helper.to_array(i)) for i in model.graph.initializer}
    values.update({k: torch.tensor(v).double() for k, v in inputs.items()})
    wrong, compared = [], 0
    for n in model.graph.node:
        attrs = {a.name: onnx.helper.get_attribute_value(a) for a in n.attribute}
        ins, name = [values[i] for i in n.input], n.output[0]
        if n.op_type != "QuantizeLinear":
            values[name] = apply(n.op_type, ins, attrs)
            continue
        values[name] = torch.tensor(got[name])
        how = rounding(*ins, attrs, values[name])
        compared += values[name].numel()
        if how:
            wrong.append("%s: %s" % (n.name, how))
    for o in model.graph.output:
        want = values[o.name]
        if want.dtype == torch.float64:
            off, scale = float((want - torch.tensor(got[o.name])).abs().max()), float(want.abs().max())
            if not off <= SCALE * scale or len(want.unique()) < 16:
                wrong.append("%s: off by %.2g of %.2g, %d different values" % (o.name, off, scale, len(want.unique())))
    return wrong, compared


def run(folder, tool):
    """Runs DIR/model.onnx with all quantized values as outputs; returns the differences."""
    whole = onnx.load(os.path.join(folder, "model.onnx"))
    model = onnx.ModelProto()
    model.CopyFrom(whole)
    for n in whole.graph.node:
        if n.op_type == "QuantizeLinear":
            model.graph.output.append(onnx.helper.make_tensor_value_info(n.output[0], onnx.TensorProto.UNDEFINED, None))
    with tempfile.TemporaryDirectory() as tmp:
        path, out = os.path.join(tmp, "model.onnx"), os.path.join(tmp, "out.npz")
        onnx.save(model, path)
        inputs = os.path.join(folder, "inputs.npz")
        r = subprocess.run(tool + ["run", path, "--inputs", inputs, "--outputs", out], capture_output=True, text=True)
        if r.returncode:
            return [(r.stderr.strip().split("\n") or ["?"])[-1]]
        wrong, compared = check(whole, np.load(inputs), np.load(out))
    return wrong if compared else wrong + ["there is nothing to compare"]
