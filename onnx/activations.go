package onnx

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

func leakyRelu(n *node) []*val {
	return one(n.op("leaky_relu", graph.Attrs{"negative_slope": n.float("alpha", 0.01)}, n.operand(0)))
}

func prelu(n *node) []*val {
	x, slope := n.operand(0), n.operand(1)
	if n.opset < 7 && n.rank(slope) == 1 && n.rank(x) > 1 && n.sizes(slope)[0] != 1 {
		slope = n.alignedAt(slope, 1, n.rank(x))
	}
	return one(n.widened("where", nil, n.op("lt", nil, n.signedForm(x), 0), n.widened("mul", nil, x, slope), x))
}

// signedForm returns x, converted to int64 if comparisons do not support its dtype.
func (n *node) signedForm(x *val) *val {
	if x.dtype().IsBareUnsigned() {
		return n.cast(n.orderedInt64(x), tensor.Int64)
	}
	return x
}

func elu(n *node) []*val {
	return one(n.op("elu", graph.Attrs{"alpha": n.float("alpha", 1)}, n.operand(0)))
}

func celu(n *node) []*val {
	return one(n.op("celu", graph.Attrs{"alpha": n.float("alpha", 1)}, n.operand(0)))
}

// selu converts Selu to the op elu with the constants of the ONNX standard. aten's selu has slightly different
// constants.
func selu(n *node) []*val {
	alpha, gamma := 1.67326319217681884765625, 1.05070102214813232421875
	if n.opset < 6 {
		alpha, gamma = 1.6732, 1.0507
	}
	return one(n.op("elu", graph.Attrs{"alpha": n.float("alpha", alpha), "scale": n.float("gamma", gamma)}, n.operand(0)))
}

func gelu(n *node) []*val {
	return one(n.op("gelu", graph.Attrs{"approximate": n.text("approximate", "none")}, n.operand(0)))
}

// swish returns the converter of x * sigmoid(alpha * x), where alpha is an attribute with the given default.
func swish(alpha float64) converter {
	return func(n *node) []*val { return one(n.swish(n.operand(0), alpha)) }
}

func (n *node) swish(x *val, def float64) *val {
	alpha := n.float("alpha", def)
	if alpha == 1 {
		return n.op("silu", nil, x)
	}
	converted := x
	if x.dtype().IsReducedFloat() {
		converted = n.cast(x, tensor.Float32)
	}
	gate := n.op("sigmoid", nil, n.op("mul", nil, converted, alpha))
	return n.cast(n.op("mul", nil, converted, gate), x.dtype())
}

func swiGLU(n *node) []*val {
	return one(n.op("mul", nil, n.swish(n.operand(0), 1), n.operand(1)))
}

func hardSigmoid(n *node) []*val {
	return one(n.hardSigmoid(n.operand(0), n.float("alpha", 0.2), n.float("beta", 0.5)))
}

func (n *node) hardSigmoid(x *val, alpha, beta float64) *val {
	y := n.op("add", nil, n.op("mul", nil, x, alpha), beta)
	return n.op("clamp", graph.Attrs{"min": 0.0, "max": 1.0}, y)
}

func hardSwish(n *node) []*val { return one(n.op("hardswish", nil, n.operand(0))) }

func mish(n *node) []*val { return one(n.op("mish", nil, n.operand(0))) }

// softplus converts Softplus. aten's softplus returns x if x exceeds a threshold; ONNX has no threshold. With threshold
// 40 the results are the same, because log(1+exp(x)) rounds to x above 40 in float64, and above 20 in float32.
func softplus(n *node) []*val {
	return one(n.op("softplus", graph.Attrs{"threshold": 40}, n.operand(0)))
}

func softsign(n *node) []*val { return one(n.softsign(n.operand(0))) }

func (n *node) softsign(x *val) *val {
	return n.op("div", nil, x, n.op("add", nil, n.op("abs", nil, x), 1.0))
}

func shrink(n *node) []*val {
	x := n.operand(0)
	bias, lambd := n.float("bias", 0), n.float("lambd", 0.5)
	dtype := x.dtype()
	low := n.cast(n.op("add", nil, x, bias), dtype)
	high := n.cast(n.op("sub", nil, x, bias), dtype)
	zero := n.op("zeros_like", nil, x)
	y := n.op("where", nil, n.op("lt", nil, x, -lambd), low, zero)
	return one(n.op("where", nil, n.op("gt", nil, x, lambd), high, y))
}

func thresholdedRelu(n *node) []*val {
	return one(n.op("threshold", graph.Attrs{"threshold": n.float("alpha", 1), "value": 0}, n.operand(0)))
}

// softmax converts Softmax and LogSoftmax, which normalize along one axis. Before operator set 13, they normalize over
// the axis and all later dimensions together.
func softmax(op string) converter {
	return func(n *node) []*val {
		x := n.operand(0)
		if n.opset >= 13 {
			return one(n.op(op, graph.Attrs{"dim": n.int("axis", -1)}, x))
		}
		axis := n.int("axis", 1)
		rank := n.rank(x)
		if axis == rank-1 || axis == -1 {
			return one(n.op(op, graph.Attrs{"dim": -1}, x))
		}
		y := n.op(op, graph.Attrs{"dim": -1}, n.matrix(x, axis))
		return one(n.op("reshape", graph.Attrs{"shape": n.vectorAttr(n.shapeVector(x))}, y).withRank(rank))
	}
}

// matrix reshapes x to two dimensions: the first merges the dimensions before the axis, the second all others.
func (n *node) matrix(x *val, axis int) *val {
	rank := n.rank(x)
	if axis < -rank || axis > rank {
		n.failf("axis %d is out of range: the operand has %d dimensions", axis, rank)
	}
	if axis < 0 {
		axis += rank
	}
	if n.isStatic(x) {
		s := n.shape(x)
		return n.reshape(x, tensor.Numel(s[:axis]), tensor.Numel(s[axis:]))
	}
	switch {
	case axis == 0:
		return n.reshape(x, 1, -1)
	case axis == rank:
		return n.reshape(x, -1, 1)
	}
	tail := n.op("flatten", graph.Attrs{"start_dim": axis, "end_dim": -1}, x).withRank(axis + 1)
	return n.op("flatten", graph.Attrs{"start_dim": 0, "end_dim": axis - 1}, tail).withRank(2)
}

func hardmax(n *node) []*val {
	x := n.operand(0)
	axis, rank := n.int("axis", -1), n.rank(x)
	in := x
	if n.opset < 13 {
		in, axis = n.matrix(x, n.int("axis", 1)), -1
	}
	axis = n.axis(axis, n.rank(in))
	best := n.op("argmax", graph.Attrs{"dim": axis, "keepdim": true}, in)
	positions := n.op("cumsum", graph.Attrs{"dim": axis}, n.op("ones_like", graph.Attrs{"dtype": tensor.Int64}, in))
	y := n.cast(n.op("eq", nil, n.op("sub", nil, positions, 1), best), x.dtype())
	if n.opset < 13 {
		y = n.op("reshape", graph.Attrs{"shape": n.vectorAttr(n.shapeVector(x))}, y).withRank(rank)
	}
	return one(y)
}

// dropout is the identity except in training mode, which an operand may enable.
func dropout(n *node) []*val {
	x := n.operand(0)
	maskType := tensor.Bool
	if n.opset < 10 {
		maskType = x.dtype()
	}
	ratio := constValue(tensor.FloatScalar(n.float("ratio", 0.5)).Tensor(tensor.Float32))
	training := constValue(tensor.BoolScalar(n.opset < 7 && n.attrs["is_test"] != nil &&
		!n.flag("is_test", true)).Tensor(tensor.Bool))
	if n.opset >= 12 {
		if r := n.operandOrNil(1); r != nil {
			ratio = r
		}
		if t := n.operandOrNil(2); t != nil {
			training = t
		}
	}
	off := training.data != nil && n.number(training).Int() == 0 || ratio.data != nil && n.number(ratio).Float() == 0
	if off {
		out := []*val{x}
		if n.isOutputUsed(1) {
			out = append(out, n.op("ones_like", graph.Attrs{"dtype": maskType}, x))
		}
		return out
	}
	dtype := x.dtype()
	draw := n.emit("rand_like", graph.Attrs{"dtype": tensor.Float32, "seed": n.seed()}, x)[0]
	keep := n.op("logical_or", nil, n.op("ge", nil, draw, n.cast(ratio, tensor.Float32)),
		n.op("logical_not", nil, training))
	kept := n.op("reciprocal", nil, n.op("rsub", nil, n.cast(ratio, dtype), 1.0))
	y := n.op("mul", nil, n.op("mul", nil, x, n.cast(keep, dtype)), kept)
	return []*val{n.op("where", nil, training, y, x), n.cast(keep, maskType)}
}

// affine, scale, scaledTanh and parametricSoftplus are experimental operators of old models.
func affine(n *node) []*val {
	y := n.op("mul", nil, n.operand(0), n.float("alpha", 1))
	return one(n.op("add", nil, y, n.float("beta", 0)))
}

func scale(n *node) []*val { return one(n.op("mul", nil, n.operand(0), n.float("scale", 1))) }

func scaledTanh(n *node) []*val {
	y := n.op("tanh", nil, n.op("mul", nil, n.operand(0), n.float("beta", 1)))
	return one(n.op("mul", nil, y, n.float("alpha", 1)))
}

func parametricSoftplus(n *node) []*val {
	y := n.op("softplus", graph.Attrs{"threshold": 40}, n.op("mul", nil, n.operand(0), n.float("beta", 1)))
	return one(n.op("mul", nil, y, n.float("alpha", 1)))
}
