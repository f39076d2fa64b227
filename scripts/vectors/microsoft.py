"""Operators of ONNX Runtime."""
import case
from runtime_calls import OPERATORS, draw, node_of, value

MANY = {"GroupQueryAttention", "MultiHeadAttention", "DecoderMaskedMultiHeadAttention", "QMoE"}  # optional operands

for operator in OPERATORS:
    for i in range(10 if operator in MANY else 5):
        node, inputs, weights, wants = node_of(operator, draw(operator, i))
        case.graph("%s.%d" % (operator, i), [node], inputs, {k: value(w) for k, w in wants.items() if k}, 17, weights)
