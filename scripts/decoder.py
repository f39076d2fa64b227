#!/usr/bin/env python3
"""Writes a decoder of about 100 million parameters with random weights as ONNX, for measurements of text generation.

    scripts/decoder.py float32|8|4 decoder.onnx

The weights of products and the embedding are float32, or integers of 8 or 4 bits with a scale for each block of 32
(MatMulNBits and GatherBlockQuantized of ONNX Runtime). A run decodes one token: inputs are the token (tokens, [1, 1]),
the number of earlier tokens (seqlens_k, [1]) and the caches of keys and values of each layer (past_N_key, past_N_value,
[1, heads, positions, 64]). Outputs are the likeliest next token, and the caches with the token's keys and values
(present_N_key, present_N_value). The number of positions is the capacity of the caches.
"""
import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, HEADS, SHARED_HEADS, HIDDEN, LAYERS, VOCABULARY, HEAD = 768, 12, 4, 2048, 12, 32000, 64
BLOCK, MAX_POSITIONS = 32, 4096


class Decoder:
    """The nodes and constants of the model. bits is 32, 8 or 4."""

    def __init__(self, bits, layers):
        self.bits, self.layers = bits, layers
        self.random = np.random.default_rng(1)
        self.nodes, self.constants, self.parameters = [], [], 0

    def constant(self, name, value):
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def node(self, op, inputs, outputs=1, domain="", **attributes):
        name = f"{op}_{len(self.nodes)}"
        names = [name] + [f"{name}_{i}" for i in range(1, outputs)] if isinstance(outputs, int) else outputs
        self.nodes.append(helper.make_node(op, inputs, names, name=name, domain=domain, **attributes))
        return names[0] if len(names) == 1 else names

    def quantized(self, name, rows, columns):
        """A random matrix as integers and scales. Integers of 4 bits are in pairs, the first in the low bits."""
        self.parameters += rows * columns
        levels = self.random.integers(0, 256, (rows, columns // BLOCK, BLOCK * self.bits // 8), dtype=np.uint8)
        scales = self.random.uniform(0.5, 1.5, (rows, columns // BLOCK)).astype(np.float32)
        scales *= 1.7 / (2**(self.bits - 1) * columns**0.5)
        return self.constant(name, levels), self.constant(name + "_scales", scales)

    def linear(self, x, name, rows, columns):
        if self.bits == 32:
            self.parameters += rows * columns
            weight = self.random.standard_normal((columns, rows), dtype=np.float32) / np.float32(columns**0.5)
            return self.node("MatMul", [x, self.constant(name, weight)])
        levels, scales = self.quantized(name, rows, columns)
        return self.node("MatMulNBits", [x, levels, scales], domain="com.microsoft", N=rows, K=columns, bits=self.bits,
                         block_size=BLOCK, accuracy_level=1)

    def norm(self, x, name):
        scale = self.constant(name, self.random.uniform(0.5, 1.5, WIDTH).astype(np.float32))
        return self.node("SimplifiedLayerNormalization", [x, scale], axis=-1, epsilon=1e-6, stash_type=1)

    def embedding(self):
        if self.bits == 32:
            self.parameters += VOCABULARY * WIDTH
            table = self.random.standard_normal((VOCABULARY, WIDTH), dtype=np.float32)
            return self.node("Gather", [self.constant("embedding", table), "tokens"])
        levels, scales = self.quantized("embedding", VOCABULARY, WIDTH)
        self.constants[-2].dims[:] = [VOCABULARY, WIDTH * self.bits // 8]
        return self.node("GatherBlockQuantized", [levels, "tokens", scales], domain="com.microsoft", bits=self.bits,
                         block_size=BLOCK, gather_axis=0, quantize_axis=1)

    def layer(self, x, i, total):
        name = f"layer{i}_"
        y = self.norm(x, name + "norm1")
        q = self.linear(y, name + "q", HEADS * HEAD, WIDTH)
        k = self.linear(y, name + "k", SHARED_HEADS * HEAD, WIDTH)
        v = self.linear(y, name + "v", SHARED_HEADS * HEAD, WIDTH)
        y = self.node("GroupQueryAttention", [q, k, v, f"past_{i}_key", f"past_{i}_value", "seqlens_k", total, "cos", "sin"],
                      [f"attention{i}", f"present_{i}_key", f"present_{i}_value"], domain="com.microsoft",
                      num_heads=HEADS, kv_num_heads=SHARED_HEADS, do_rotary=1)[0]
        x = self.node("Add", [x, self.linear(y, name + "out", WIDTH, HEADS * HEAD)])
        y = self.norm(x, name + "norm2")
        gate = self.linear(y, name + "gate", HIDDEN, WIDTH)
        gate = self.node("Mul", [gate, self.node("Sigmoid", [gate])])
        y = self.node("Mul", [gate, self.linear(y, name + "up", HIDDEN, WIDTH)])
        return self.node("Add", [x, self.linear(y, name + "down", WIDTH, HIDDEN)])

    def model(self):
        angles = np.outer(np.arange(MAX_POSITIONS), 10000.0**(-np.arange(0, HEAD, 2) / HEAD))
        self.constant("cos", np.cos(angles).astype(np.float32))
        self.constant("sin", np.sin(angles).astype(np.float32))
        capacity = self.node("Gather", [self.node("Shape", ["past_0_key"]), self.constant("two", np.int64(2))])
        total = self.node("Cast", [capacity], to=TensorProto.INT32)
        x = self.embedding()
        for i in range(self.layers):
            x = self.layer(x, i, total)
        logits = self.linear(self.norm(x, "norm"), "logits", VOCABULARY, WIDTH)
        self.node("ArgMax", [logits], ["next"], axis=-1, keepdims=0)
        cache = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, SHARED_HEADS, "positions", HEAD])
        caches = [f"{i}_{part}" for i in range(self.layers) for part in ("key", "value")]
        graph = helper.make_graph(
            self.nodes, "decoder",
            [helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, 1]),
             helper.make_tensor_value_info("seqlens_k", TensorProto.INT32, [1])] + [cache("past_" + c) for c in caches],
            [helper.make_tensor_value_info("next", TensorProto.INT64, [1, 1])] + [cache("present_" + c) for c in caches],
            self.constants)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", choices=["float32", "8", "4"])
    parser.add_argument("out")
    parser.add_argument("--layers", type=int, default=LAYERS)
    args = parser.parse_args()
    decoder = Decoder(32 if args.weights == "float32" else int(args.weights), args.layers)
    onnx.save(decoder.model(), args.out)
    print(f"{args.out}: {decoder.parameters / 1e6:.0f} million parameters")


if __name__ == "__main__":
    main()
