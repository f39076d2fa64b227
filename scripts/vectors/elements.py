"""Element-wise operators."""
import math

import numpy as np
from onnx import TensorProto

from case import bools, f, i64, ints, op, scalar

erf = np.vectorize(math.erf)
for name, fn, low, high in (
        ("Abs", np.abs, -3, 3), ("Acos", np.arccos, -1, 1), ("Acosh", np.arccosh, 1, 5), ("Asin", np.arcsin, -1, 1),
        ("Asinh", np.arcsinh, -3, 3), ("Atan", np.arctan, -3, 3), ("Atanh", np.arctanh, -0.9, 0.9),
        ("Ceil", np.ceil, -3, 3), ("Cos", np.cos, -9, 9), ("Cosh", np.cosh, -3, 3), ("Erf", erf, -3, 3),
        ("Exp", np.exp, -3, 3), ("Floor", np.floor, -3, 3), ("Log", np.log, 0.1, 9), ("Neg", np.negative, -3, 3),
        ("Reciprocal", lambda x: 1 / x, 0.2, 3), ("Sigmoid", lambda x: 1 / (1 + np.exp(-x)), -9, 9),
        ("Sign", np.sign, -3, 3), ("Sin", np.sin, -9, 9), ("Sinh", np.sinh, -3, 3), ("Sqrt", np.sqrt, 0, 9),
        ("Tan", np.tan, -1, 1), ("Tanh", np.tanh, -3, 3)):
    x = f(2, 3, 4, low=low, high=high)
    op(name, [x], fn(x.astype(np.float64)).astype(np.float32), 13)
    op(name, [x[0].astype(np.float64)], fn(x[0].astype(np.float64)).astype(np.float64), 13)

for name, fn in (("Abs", np.abs), ("Neg", np.negative), ("Sign", np.sign)):
    for d in (np.int8, np.int32, np.int64):
        op(name, [ints(7, dtype=d)], fn, 13)
halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.3, -0.7], np.float32)
op("Round", [halves], np.round, 11)
op("Not", [bools(5)], np.logical_not, 1)
for d in (np.uint8, np.int16, np.uint32, np.int64):
    x, y = (ints(2, 6, low=0, high=99, dtype=d) for _ in range(2))
    op("BitwiseNot", [x], np.bitwise_not, 18)
    op("BitwiseAnd", [x, y[:1]], np.bitwise_and, 18)
    op("BitwiseOr", [x, y], np.bitwise_or, 18)
    op("BitwiseXor", [x, y], np.bitwise_xor, 18)
odd = np.array([1.5, np.inf, -np.inf, np.nan, 0], np.float32)
op("IsNaN", [odd], np.isnan, 13)
op("IsInf", [odd], np.isinf, 10)
op("IsInf", [odd], np.isposinf, 10, detect_negative=0)
op("IsInf", [odd], np.isneginf, 10, detect_positive=0)
op("Identity", [f(2, 3)], lambda x: x, 13)
op("Identity", [bools(4)], lambda x: x, 1)

x = f(3, 4)
for to in (np.float16, np.float64, np.int32, np.int64, np.bool_, np.int8):
    code = {np.float16: 10, np.float64: 11, np.int32: 6, np.int64: 7, np.bool_: 9, np.int8: 3}[to]
    op("Cast", [x], x.astype(to), 13, to=code)
op("Cast", [ints(5)], lambda a: a.astype(np.float32), 5, to="FLOAT")
op("Cast", [bools(5)], lambda a: a.astype(np.float32), 9, to=TensorProto.FLOAT)
op("CastLike", [x, ints(1)], lambda a, b: a.astype(np.int64), 15)

op("Clip", [x], lambda a: np.clip(a, -1, 2), 6, min=-1.0, max=2.0)
op("Clip", [x], lambda a: np.maximum(a, 0.5), 6, min=0.5)
lo, hi = scalar(-1, np.float32), scalar(1.5, np.float32)
op("Clip", [x, lo, hi], np.clip, 11, known=(1, 2))
op("Clip", [x, lo, hi], np.clip, 13)
op("Clip", [x, None, hi], np.minimum, 12, known=(2,))
op("Clip", [ints(9), scalar(-2), scalar(3)], np.clip, 13, known=(1, 2))

a, b = f(2, 3, 4), f(3, 1, low=0.5, high=3)
for name, fn in (("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide)):
    op(name, [a, b], fn, 14)
    op(name, [f(3), f(1)[0] + np.float32(4)], fn, 7)
    op(name, [a, b.reshape(3)], lambda p, q, fn=fn: fn(p, q.reshape(3, 1)), 6, broadcast=1, axis=1)
    op(name, [ints(6, dtype=np.int32) * 3, ints(6, low=1, dtype=np.int32)],
       fn if name != "Div" else (lambda p, q: np.trunc(p / q).astype(np.int32)), 14)
    op(name, [ints(6, low=20, high=99, dtype=np.uint8), ints(6, low=1, high=9, dtype=np.uint8)],
       fn if name != "Div" else np.floor_divide, 14)
base = f(2, 5, low=0.2, high=3)
op("Pow", [base, f(5)], np.power, 13)
op("Pow", [base, ints(5, low=-3, high=3)], lambda p, q: np.power(p.astype(np.float64), q).astype(np.float32), 13)
op("Pow", [ints(5), scalar(3)], np.power, 13)
op("Pow", [ints(5, low=0), np.array([0.5, 1, 2, 1.5, 2], np.float32)],
   lambda p, q: np.power(p.astype(np.float64), q).astype(np.int64), 13)
p, q = ints(8), np.array([3, -3, 4, -4, 5, -5, 2, -2])
op("Mod", [p, q], np.mod, 10)
op("Mod", [p, q], np.fmod, 13, fmod=1)
op("Mod", [f(8), np.array([2, -2] * 4, np.float32) * np.float32(0.7)], np.fmod, 13, fmod=1)
for name, fn in (("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor)):
    op(name, [bools(3, 4), bools(4)], fn, 7)
s, t = ints(3, 5, low=-2, high=2), ints(5, low=-2, high=2)
for name, fn in (("Equal", np.equal), ("Greater", np.greater), ("GreaterOrEqual", np.greater_equal), ("Less", np.less),
                 ("LessOrEqual", np.less_equal)):
    op(name, [s, t], fn, 13)
    op(name, [s.astype(np.float32), t.astype(np.float32)], fn, 16)
op("Equal", [bools(5), bools(5)], np.equal, 13)
top = np.array([1 << 63, 1, (1 << 64) - 1], np.uint64)
op("Greater", [top, top[::-1].copy()], np.greater, 13)
for d in (np.uint8, np.uint32, np.uint64):
    v, by = ints(6, low=1, high=200, dtype=d), ints(6, low=0, high=5, dtype=d)
    op("BitShift", [v, by], np.left_shift, 11, direction="LEFT")
    op("BitShift", [v, by], np.right_shift, 11, direction="RIGHT")
op("BitShift", [top, np.array([1, 0, 63], np.uint64)], np.right_shift, 11, direction="RIGHT", name="high bits")
three = [f(2, 3), f(3), f(1, 1)]
op("Max", three, lambda a, b, c: np.maximum(np.maximum(a, b), c), 13)
op("Min", three, lambda a, b, c: np.minimum(np.minimum(a, b), c), 13)
op("Sum", three, lambda a, b, c: a + b + c, 13)
op("Mean", three, lambda a, b, c: (a + b + c) / np.float32(3), 13)
for name in ("Max", "Min", "Sum", "Mean"):
    op(name, [three[0]], lambda a: a, 8)
op("Max", [top, top[::-1].copy()], np.maximum, 13, name="unsigned")
op("Min", [ints(5, dtype=np.int8), ints(5, dtype=np.int8)], np.minimum, 13)
op("Max", [np.array([np.nan, 1], np.float32), np.array([0, np.nan], np.float32)], np.maximum, 13, name="nan")
op("Where", [bools(2, 3), f(3), f(2, 1)], np.where, 9)
op("Where", [bools(4), ints(4), i64(7)], np.where, 16)
