#!/usr/bin/env python3
"""Quantizes an ONNX model in one of the forms that ONNX Runtime's quantizer writes.

    scripts/quantize.py model.onnx quantized.onnx --graphrun /tmp/graphrun [--form static|dynamic|4bit]

static has QuantizeLinear and DequantizeLinear around the nodes, and needs graphrun for the ranges of values:
Batch norms are folded into the convolutions before them. Weights of convolutions and fully connected layers become
int8 with zero point 0 and a scale for each output channel (--per-tensor: one scale), and biases int32. The inputs and
outputs of these nodes and of additions, pools and similar nodes become uint8 (--activations int8). Their ranges are the
minimum and maximum in runs on a few inputs. Inputs are random unless --inputs names files; the runs use `graphrun run`.

dynamic quantizes the operand of each product in the run (DynamicQuantizeLinear, MatMulInteger, ConvInteger, QAttention)
and the tables of embeddings to uint8. 4bit replaces products by MatMulNBits with blocks of 32 and zero points.
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


def integers(w, axis, most):
    """int8 elements of w, and their scale: one, or one for each index of axis."""
    others = None if axis is None else tuple(i for i in range(w.ndim) if i != axis)
    each = np.maximum(np.abs(w).max(axis=others, keepdims=True), 1e-8).astype(np.float32) / np.float32(most)
    return np.clip(np.rint(w / each), -most, most).astype(np.int8), each.reshape(-1) if axis is not None else each.reshape(())


class Replacer:
    """Replaces nodes one by one: a method named after an operator returns whether it has replaced the node."""

    def __init__(self, model, options):
        self.model, self.options, self.nodes = model, options, []

    def run(self):
        for n in self.model.graph.node:
            if not getattr(self, n.op_type, lambda n: False)(n):
                self.nodes.append(n)
        replace(self.model, self.nodes)

    def add(self, op, inputs, *outputs, domain="", **attributes):
        self.nodes.append(helper.make_node(op, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def weight(self, n, rank):
        """The constant that is operand 1, or None."""
        w = self.model.constants.get(n.input[1]) if len(n.input) > 1 else None
        return w if w is not None and w.ndim == rank and w.dtype == np.float32 else None

    def Gemm(self, n):
        """MatMul and Add."""
        a, w = {x.name: helper.get_attribute_value(x) for x in n.attribute}, self.weight(n, 2)
        if w is None or a.get("transA") or a.get("alpha", 1) != 1 or a.get("beta", 1) != 1:
            return False
        y = n.output[0]
        name = self.model.constant(y + "_weight", w.T if a.get("transB") else w)
        product = helper.make_node("MatMul", [n.input[0], name], [y + "_product" if len(n.input) > 2 else y])
        self.MatMul(product)
        if len(n.input) > 2:
            self.add("Add", [product.output[0], n.input[2]], y)
        return True


class FourBits(Replacer):
    BLOCK = 32

    def MatMul(self, n):
        w = self.weight(n, 2)
        if w is None or n.input[0] in self.model.constants or w.shape[0] % (2 * self.BLOCK):
            return False
        inner, columns = w.shape
        blocks = w.T.reshape(columns, inner // self.BLOCK, self.BLOCK)
        least, most = (np.minimum(blocks.min(2), 0), np.maximum(blocks.max(2), 0))
        scale = np.maximum((most - least) / 15, 1e-8).astype(np.float32)
        zero = np.clip(np.rint(-least / scale), 0, 15).astype(np.uint8)
        levels = np.clip(np.rint(blocks / scale[..., None]) + zero[..., None], 0, 15).astype(np.uint8)

        def pairs(x):
            return x[..., 0::2] | x[..., 1::2] << 4
        y = n.output[0]
        names = [self.model.constant(y + "_Q4", pairs(levels)), self.model.constant(y + "_scales", scale.reshape(-1)),
                 self.model.constant(y + "_zero_points", pairs(zero).reshape(-1))]
        self.add("MatMulNBits", [n.input[0], *names], y, domain="com.microsoft", K=inner, N=columns, bits=4,
                 block_size=self.BLOCK)
        return True


class Dynamic(Replacer):
    def __init__(self, *args):
        super().__init__(*args)
        self.operands = {}

    def operand(self, x):
        """The uint8 elements, scale and zero point of an operand."""
        if x not in self.operands:
            self.operands[x] = [x + "_quantized", x + "_scale", x + "_zero_point"]
            self.add("DynamicQuantizeLinear", [x], *self.operands[x])
        return self.operands[x]

    def constants(self, name, levels, scale):
        return [self.model.constant(name + "_quantized", levels), self.model.constant(name + "_scale", scale),
                self.model.constant(name + "_zero_point", np.zeros(scale.shape, levels.dtype))]

    def integer(self, n, op, w, axis, attributes=()):
        """Adds an integer product, its conversion and the product with the scales; returns the name of the result."""
        y, (x, scale, zero) = n.output[0], self.operand(n.input[0])
        levels, each = integers(w, None if self.options.per_tensor else axis, self.options.most)
        w, w_scale, w_zero = self.constants(y + "_weight", levels, each)
        self.add(op, [x, w, zero, w_zero], y + "_integer")
        self.nodes[-1].attribute.extend(attributes)
        self.add("Cast", [y + "_integer"], y + "_cast", to=onnx.TensorProto.FLOAT)
        return y + "_cast", self.add("Mul", [scale, w_scale], y + "_scales")

    def MatMul(self, n):
        w = self.weight(n, 2)
        if w is None or n.input[0] in self.model.constants:
            return False
        self.add("Mul", self.integer(n, "MatMulInteger", w, 1), n.output[0])
        return True

    def Conv(self, n):
        w, y = self.weight(n, 4), n.output[0]
        if w is None:
            return False
        self.add("Mul", self.integer(n, "ConvInteger", w, None, n.attribute), y + "_product" if len(n.input) > 2 else y)
        if len(n.input) > 2:
            bias = self.model.constants[n.input[2]].reshape(1, -1, 1, 1)
            self.add("Add", [y + "_product", self.model.constant(y + "_bias", bias)], y)
        return True

    def table(self, name):
        t = self.model.constants[name]
        least, most = min(float(t.min()), 0), max(float(t.max()), 0)
        scale = np.float32(max(most - least, 1e-6) / 255)
        zero = np.uint8(np.clip(np.rint(-least / scale), 0, 255))
        return [self.model.constant(name + "_quantized", np.clip(np.rint(t / scale) + zero, 0, 255).astype(np.uint8)),
                self.model.constant(name + "_scale", scale), self.model.constant(name + "_zero_point", zero)]

    def Gather(self, n):
        t = self.model.constants.get(n.input[0])
        if t is None or t.dtype != np.float32:
            return False
        levels, *rest = self.table(n.input[0])
        y = n.output[0]
        self.add("Gather", [levels, n.input[1]], y + "_quantized")
        self.nodes[-1].attribute.extend(n.attribute)
        self.add("DequantizeLinear", [y + "_quantized", *rest], y)
        return True

    def EmbedLayerNormalization(self, n):
        tables = [self.table(x) if x else [""] * 3 for x in n.input[2:7]]
        levels, scales, zeros = zip(*tables)
        mask = n.input[7] if len(n.input) > 7 else ""
        if len(n.input) > 8 or len(n.output) > 2:
            return False
        self.add("QEmbedLayerNormalization", [*n.input[:2], *levels, mask, *scales, *zeros], *n.output,
                 domain="com.microsoft")
        self.nodes[-1].attribute.extend(a for a in n.attribute if a.name == "epsilon")
        return True

    def Attention(self, n):
        w = self.weight(n, 2)
        if w is None or n.domain != "com.microsoft":
            return False
        x, scale, zero = self.operand(n.input[0])
        levels, each = integers(w, None if self.options.per_tensor else 1, 64)  # with the reduced range
        w, w_scale, w_zero = self.constants(n.output[0] + "_weight", levels, each)
        rest = [n.input[i] if len(n.input) > i else "" for i in (2, 3, 4)]
        self.add("QAttention", [x, w, rest[0], scale, w_scale, rest[1], zero, w_zero, rest[2]], *n.output,
                 domain="com.microsoft")
        self.nodes[-1].attribute.extend(n.attribute)
        return True


def replace(model, nodes):
    """Gives the model other nodes, and removes constants without readers."""
    g = model.graph
    del g.node[:]
    g.node.extend(nodes)
    used = {x for n in g.node for x in n.input} | model.outputs
    for t in [t for t in g.initializer if t.name not in used]:
        g.initializer.remove(t)
    del g.value_info[:]
    if not any(o.domain == "com.microsoft" for o in model.proto.opset_import):
        model.proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))


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
        replace(self.model, self.nodes)

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
        levels, scale = integers(w, None if self.options.per_tensor else axis, self.options.most)
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
    p.add_argument("--form", choices=["static", "dynamic", "4bit"], default="static")
    p.add_argument("--activations", choices=sorted(DTYPES), default="uint8")
    p.add_argument("--per-tensor", action="store_true", help="one scale for a weight")
    p.add_argument("--reduce-range", action="store_true", help="weights of 7 bits, for processors whose products saturate")
    p.add_argument("--inputs", nargs="*", default=[], help=".npz files of inputs")
    p.add_argument("--runs", type=int, default=4, help="runs on random inputs, from -1 to 1, where there are no files")
    o = p.parse_args()
    o.most = 64 if o.reduce_range else 127
    model = Model(o.model, 13)
    model.fold_batch_norms()
    {"static": Quantizer, "dynamic": Dynamic, "4bit": FourBits}[o.form](model, o).run()
    if o.form == "static":  # the others may have operators of ONNX Runtime
        onnx.checker.check_model(model.proto)
    onnx.save(model.proto, o.to)


if __name__ == "__main__":
    main()
