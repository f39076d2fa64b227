"""Writes an encoder of transformers.py as the transformer optimiser of ONNX Runtime does: fused attention and embeddings."""
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

import transformers
from transformers import HEADS, WIDTH

ACTIVATIONS = {transformers.F.gelu: "BiasGelu", transformers.gelu_new: "FastGelu"}


class Graph:
    def __init__(self):
        self.nodes, self.constants = [], []

    def constant(self, array):
        self.constants.append(numpy_helper.from_array(array.detach().numpy().copy(), "constant%d" % len(self.constants)))
        return self.constants[-1].name

    def add(self, op, inputs, outputs=1, domain="com.microsoft", **attributes):
        names = ["%s_%d_%d" % (op, len(self.nodes), i) for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def product(self, x, layer):
        return self.add("MatMul", [x, self.constant(layer.weight.t())], domain="")

    def norm(self, x, skip, norm, layer):
        parts = [self.constant(p) for p in (norm.weight, norm.bias, layer.bias)]
        return self.add("SkipLayerNormalization", [x, skip, *parts], epsilon=norm.eps)

    def block(self, x, m, mask, lowest):
        a = m.attention
        weight = torch.cat([p.weight.t() for p in (a.q, a.k, a.v)], 1)
        bias = torch.cat([p.bias for p in (a.q, a.k, a.v)])
        y = self.add("Attention", [x, self.constant(weight), self.constant(bias), mask], num_heads=HEADS,
                     mask_filter_value=lowest)
        x = self.norm(self.product(y, a.o), x, m.norms[0], a.o)
        y = self.add(ACTIVATIONS.get(m.act, "FastGelu"), [self.product(x, m.up), self.constant(m.up.bias)])
        return self.norm(self.product(y, m.down), x, m.norms[1], m.down)

    def encoder(self, m):
        ids, mask = (self.add("Cast", [x], domain="", to=TensorProto.INT32) for x in ("x0", "x1"))
        segments, table, positions = "", "", []
        if m.segments is not None:
            segments, table = self.add("Sub", [ids, ids], domain=""), self.constant(m.segments.weight)
        if m.rolling:
            one = self.constant(torch.tensor(1, dtype=torch.int32))
            at = self.add("CumSum", [mask, one], domain="")
            positions = [self.add("Add", [self.add("Mul", [at, mask], domain=""), one], domain="")]
        x = self.add("EmbedLayerNormalization", [
            ids, segments, self.constant(m.words.weight), self.constant(m.places.weight), table,
            self.constant(m.norm.weight), self.constant(m.norm.bias), "" if positions else mask, *positions], 2,
            epsilon=m.norm.eps)[0]
        if isinstance(m.wide, transformers.nn.Linear):
            x = self.add("Add", [self.product(x, m.wide), self.constant(m.wide.bias)], domain="")
        for i in range(transformers.DEPTH):
            x = self.block(x, m.blocks[i % len(m.blocks)], mask, -3.4028235e38 if m.fills else -10000.0)
        zero = self.constant(torch.tensor(0))
        first = self.add("Gather", [x, zero], domain="", axis=1)
        y = self.add("Gemm", [first, self.constant(m.pool.weight), self.constant(m.pool.bias)], domain="", transB=1)
        return x, self.add("Tanh", [y], domain="")


def save(module, path):
    g = Graph()
    outputs = g.encoder(module)
    for name, y in zip(outputs, ("y0", "y1")):
        g.nodes.append(helper.make_node("Identity", [name], [y]))
    graph = helper.make_graph(
        g.nodes, "encoder", [helper.make_tensor_value_info(x, TensorProto.INT64, ["N", "T"]) for x in ("x0", "x1")],
        [helper.make_tensor_value_info("y0", TensorProto.FLOAT, ["N", "T", WIDTH]),
         helper.make_tensor_value_info("y1", TensorProto.FLOAT, ["N", WIDTH])], g.constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
