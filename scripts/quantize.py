#!/usr/bin/env python3
"""Quantizes an ONNX model: writes a model with QuantizeLinear and DequantizeLinear around its nodes.

    scripts/quantize.py model.onnx quantized.onnx --graphrun /tmp/graphrun

Batch norms are folded into the convolutions before them. Weights of convolutions and fully connected layers become
int8 with zero point 0 and a scale for each output channel (--per-tensor: one scale), and biases int32. The inputs and
outputs of these nodes and of additions, pools and similar nodes become uint8 (--activations int8). Their ranges are the
minimum and maximum in runs on a few inputs. Inputs are random unless --inputs names files; the runs use `graphrun run`.
"""
import argparse
import os
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference, version_converter

PRODUCTS = {"Conv", "Gemm", "MatMul"}
MOVES = {"MaxPool", "Flatten", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice"}  # with the quantization of the operand
OTHERS = {"Add", "AveragePool", "GlobalAveragePool", "Concat"}
BOUNDS = {"Relu", "Clip"}
DTYPES = {"uint8": (np.uint8, 0, 255), "int8": (np.int8, -128, 127)}


class Model:
    """A model, with its constants, types and outputs by name."""

    def __init__(self, path, opset):
        self.proto = onnx.load(path)
        if self.proto.opset_import[0].version < opset:
            self.proto = version_converter.convert_version(self.proto, opset)
        self.graph = self.proto.graph
        known = shape_inference.infer_shapes(self.proto).graph
        self.types = {v.name: v.type.tensor_type.elem_type for v in [*known.value_info, *known.input, *known.output]}
        self.index()

    def index(self):
        self.constants = {t.name: numpy_helper.to_array(t) for t in self.graph.initializer}
        for n in self.graph.node:
            if n.op_type == "Constant" and n.attribute[0].name == "value":
                self.constants[n.output[0]] = numpy_helper.to_array(n.attribute[0].t)
            if n.op_type == "Identity" and n.input[0] in self.constants:
                self.constants[n.output[0]] = self.constants[n.input[0]]
            if n.op_type == "Transpose" and n.input[0] in self.constants:
                order = next((list(a.ints) for a in n.attribute if a.name == "perm"), None)
                self.constants[n.output[0]] = np.transpose(self.constants[n.input[0]], order)
        self.readers = {}
        for n in self.graph.node:
            for x in n.input:
                self.readers.setdefault(x, []).append(n)
        self.outputs = {o.name for o in self.graph.output}

    def constant(self, name, value):
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        self.constants[name] = np.asarray(value)
        return name

    def only_reader(self, name):
        """The only node that reads a value; None if there are several, or the value is an output."""
        r = self.readers.get(name, [])
        return r[0] if len(r) == 1 and name not in self.outputs else None

    def fold_batch_norms(self):
        dropped = []
        for n in self.graph.node:
            norm = self.only_reader(n.output[0]) if n.op_type == "Conv" else None
            if norm is None or norm.op_type != "BatchNormalization" or n.input[1] not in self.constants:
                continue
            scale, shift, mean, var = (self.constants[x].astype(np.float64) for x in norm.input[1:5])
            eps = next((a.f for a in norm.attribute if a.name == "epsilon"), 1e-5)
            by = scale / np.sqrt(var + eps)
            w = self.constants[n.input[1]] * by.reshape(-1, *[1] * (self.constants[n.input[1]].ndim - 1))
            b = (self.constants[n.input[2]] if len(n.input) > 2 and n.input[2] else 0) - mean
            operands = [n.input[0], self.constant(n.output[0] + ".weight", w.astype(np.float32)),
                        self.constant(n.output[0] + ".bias", (b * by + shift).astype(np.float32))]
            del n.input[:]
            n.input.extend(operands)
            n.output[0] = norm.output[0]
            dropped.append(norm)
        for n in dropped:
            self.graph.node.remove(n)
        self.index()


def ranges(model, names, graphrun, files, runs):
    """The minimum and maximum of values in runs of `graphrun run`."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        proto = onnx.ModelProto()
        proto.CopyFrom(model.proto)
        inputs = {i.name for i in proto.graph.input} - {t.name for t in proto.graph.initializer}
        del proto.graph.output[:]
        made = [x for x in names if x not in inputs]
        proto.graph.output.extend(helper.make_empty_tensor_value_info(x) for x in made)
        path, inside, out = (os.path.join(folder, x) for x in ("all.onnx", "in.npz", "out.npz"))
        onnx.save(proto, path)
        for i in range(len(files) or runs):
            given = np.load(files[i]) if files else made_up(model, inputs, i)
            np.savez(inside, **{k: given[k] for k in inputs})
            subprocess.run([graphrun, "run", path, "--inputs", inside, "--outputs", out], check=True,
                           stdout=subprocess.DEVNULL)
            result = np.load(out)
            for x in names:
                v = given[x] if x in inputs else result[x]
                least, most = found.get(x, (0.0, 0.0))  # 0 must be representable, because padding uses it
                found[x] = min(least, float(v.min())), max(most, float(v.max()))
    return found


def made_up(model, inputs, seed):
    r = np.random.default_rng(seed)
    given = {}
    for v in model.graph.input:
        if v.name in inputs:
            t = v.type.tensor_type
            if t.elem_type != onnx.TensorProto.FLOAT:
                raise SystemExit(f"input {v.name} is not of float32: --inputs must name files that have it")
            given[v.name] = r.uniform(-1, 1, [d.dim_value or 1 for d in t.shape.dim]).astype(np.float32)
    return given


class Quantizer:
    def __init__(self, model, options):
        self.model, self.options, self.nodes = model, options, []
        self.dtype, self.least, self.most = DTYPES[options.activations]
        self.level_of = {}   # by value: the names of scale and zero point, and the scale
        self.wide = {}       # by value: the dequantized value

    def quantizes(self, n):
        """Whether a node computes with quantized values."""
        if not n.output or n.output[0] in self.model.constants or any(
                self.model.types.get(x) != onnx.TensorProto.FLOAT for x in [*self.operands(n), n.output[0]]):
            return False
        if n.op_type in PRODUCTS:
            return n.input[1] in self.model.constants and n.input[0] not in self.model.constants
        return n.op_type in MOVES | OTHERS and len(n.output) == 1

    def operands(self, n):
        """The operands that are quantized: all except constants."""
        first = n.input[:1] if n.op_type in PRODUCTS | MOVES else n.input
        return [x for x in first if x not in self.model.constants]

    def last(self, n):
        """The value to quantize: the node's output, or that of the activations that are its only readers."""
        out = n.output[0]
        while True:
            r = self.model.only_reader(out)
            if r is None or r.op_type not in BOUNDS:
                return out
            out = r.output[0]

    def run(self):
        values = []
        for n in self.model.graph.node:
            if self.quantizes(n):
                values += [*self.operands(n), self.last(n)]
        self.values = list(dict.fromkeys(values))
        self.found = ranges(self.model, self.values, self.options.graphrun, self.options.inputs, self.options.runs)
        for v in self.model.graph.input:
            if v.name in self.found:
                self.quantize(v.name)
        moved = {self.last(n): n.input[0] for n in self.model.graph.node if n.op_type in MOVES and self.quantizes(n)}
        for n in self.model.graph.node:
            self.node(n)
            for out in n.output:
                if out in self.found:
                    self.quantize(out, moved.get(out))
        g = self.model.graph
        rename = {x for x in self.wide if x in self.model.outputs}
        for n in self.nodes:  # an output of the model keeps its name: it is the dequantized value
            for i, x in enumerate(n.output):
                if x in rename:
                    n.output[i] = x + ".float"
                elif x.endswith(".wide") and x[:-5] in rename:
                    n.output[i] = x[:-5]
            for i, x in enumerate(n.input):
                if x in rename:
                    n.input[i] = x + ".float"
                elif x.endswith(".wide") and x[:-5] in rename:
                    n.input[i] = x[:-5]
        del g.node[:]
        g.node.extend(self.nodes)
        used = {x for n in g.node for x in n.input} | self.model.outputs
        for t in [t for t in g.initializer if t.name not in used]:
            g.initializer.remove(t)
        del g.value_info[:]

    def levels(self, name, like):
        if like in self.level_of:
            return self.level_of[like]
        least, most = self.found[name]
        scale = np.float32(max(most - least, 1e-6) / (self.most - self.least))
        zero = int(np.clip(np.rint(self.least - least / scale), self.least, self.most))
        return (self.model.constant(name + ".scale", scale), self.model.constant(name + ".zero", self.dtype(zero)), scale)

    def quantize(self, name, like=None):
        """Adds nodes that quantize and dequantize a value."""
        scale, zero, _ = self.level_of[name] = self.levels(name, like)
        self.nodes += [helper.make_node("QuantizeLinear", [name, scale, zero], [name + ".levels"]),
                       helper.make_node("DequantizeLinear", [name + ".levels", scale, zero], [name + ".wide"])]
        self.wide[name] = name + ".wide"

    def node(self, n):
        n = onnx.NodeProto.FromString(n.SerializeToString())
        for i, x in enumerate(n.input):
            n.input[i] = self.wide.get(x, x)
        if n.op_type in PRODUCTS and n.input[0].endswith(".wide") and n.input[1] in self.model.constants:
            self.weights(n)
        self.nodes.append(n)

    def weights(self, n):
        w, name = self.model.constants[n.input[1]].astype(np.float32), n.output[0]
        rows = n.op_type == "Conv" or any(a.name == "transB" and a.i for a in n.attribute)
        axis = 0 if rows else w.ndim - 1
        others = tuple(i for i in range(w.ndim) if i != axis) if not self.options.per_tensor else None
        scale = np.maximum(np.abs(w).max(axis=others), 1e-8).astype(np.float32) / np.float32(127)
        shape = [-1 if i == axis else 1 for i in range(w.ndim)]
        each = scale.reshape(shape) if scale.ndim else scale
        levels = np.clip(np.rint(w / each), -127, 127).astype(np.int8)
        wide = self.dequantized(name + ".weight", levels, scale, np.zeros(scale.shape, np.int8), axis)
        n.input[1] = wide
        if len(n.input) > 2 and n.input[2] in self.model.constants:
            b = self.model.constants[n.input[2]].astype(np.float64)
            step = np.broadcast_to(scale * self.level_of[n.input[0][:-5]][2], b.shape).astype(np.float32)
            levels = np.clip(np.rint(b / step), -2**31, 2**31 - 1).astype(np.int32)
            n.input[2] = self.dequantized(name + ".bias", levels, step, np.zeros(step.shape, np.int32), 0)

    def dequantized(self, name, levels, scale, zero, axis):
        names = [self.model.constant(name + ".levels", levels), self.model.constant(name + ".scale", scale),
                 self.model.constant(name + ".zero", zero)]
        self.nodes.append(helper.make_node("DequantizeLinear", names, [name + ".wide"], axis=axis))
        return name + ".wide"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("to")
    p.add_argument("--graphrun", default="graphrun", help="the command that runs the model")
    p.add_argument("--activations", choices=sorted(DTYPES), default="uint8")
    p.add_argument("--per-tensor", action="store_true", help="one scale for a weight")
    p.add_argument("--inputs", nargs="*", default=[], help=".npz files of inputs")
    p.add_argument("--runs", type=int, default=4, help="runs on random inputs, from -1 to 1, where there are no files")
    o = p.parse_args()
    model = Model(o.model, 13)
    model.fold_batch_norms()
    Quantizer(model, o).run()
    onnx.checker.check_model(model.proto)
    onnx.save(model.proto, o.to)


if __name__ == "__main__":
    main()
