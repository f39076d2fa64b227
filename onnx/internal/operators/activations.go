package operators

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts activations: pointwise functions, softmax and dropout. A converter reads the attributes, whose
// defaults are from the ONNX standard, and adds an op of the catalogue. If no op has the same meaning, it adds several
// ops. For example, HardSigmoid becomes mul, add and clamp.

// leakyRelu converts LeakyRelu.
func leakyRelu(n *node) []*value {
	return single(n.Op("leaky_relu", graph.Attrs{"negative_slope": n.Float("alpha", 0.01)}, n.Operand(0)))
}

// prelu converts PRelu: x where x >= 0, and otherwise slope*x. Before operator set 7, a slope for each channel is
// aligned with dimension 1.
func prelu(n *node) []*value {
	x, slope := n.Operand(0), n.Operand(1)
	if n.Opset < 7 && n.Rank(slope) == 1 && n.Rank(x) > 1 && n.Sizes(slope)[0] != 1 {
		slope = alignedToAxis(n, slope, 1, n.Rank(x))
	}
	isNegative := n.Op("lt", nil, x, 0)
	return single(n.Op("where", nil, isNegative, n.Op("mul", nil, x, slope), x))
}

// elu converts Elu.
func elu(n *node) []*value {
	return single(n.Op("elu", graph.Attrs{"alpha": n.Float("alpha", 1)}, n.Operand(0)))
}

// celu converts Celu.
func celu(n *node) []*value {
	return single(n.Op("celu", graph.Attrs{"alpha": n.Float("alpha", 1)}, n.Operand(0)))
}

// selu converts Selu to the op elu with the constants of the ONNX standard. aten's selu has slightly different
// constants.
func selu(n *node) []*value {
	alpha, gamma := 1.67326319217681884765625, 1.05070102214813232421875
	if n.Opset < 6 {
		alpha, gamma = 1.6732, 1.0507
	}
	return single(n.Op("elu", graph.Attrs{"alpha": n.Float("alpha", alpha), "scale": n.Float("gamma", gamma)},
		n.Operand(0)))
}

// gelu converts Gelu.
func gelu(n *node) []*value {
	return single(n.Op("gelu", graph.Attrs{"approximate": n.Text("approximate", "none")}, n.Operand(0)))
}

// swish returns the converter of x * sigmoid(alpha * x), where alpha is an attribute with the given default.
func swish(alpha float64) converter {
	return func(n *node) []*value { return single(swishOf(n, n.Operand(0), alpha)) }
}

// swishOf returns x * sigmoid(alpha*x).
func swishOf(n *node, x *value, defaultAlpha float64) *value {
	alpha := n.Float("alpha", defaultAlpha)
	if alpha == 1 {
		return n.Op("silu", nil, x)
	}
	return n.Op("mul", nil, x, n.Op("sigmoid", nil, n.Op("mul", nil, x, alpha)))
}

// swiGLU converts SwiGLU: x * sigmoid(alpha*x) * operand 1.
func swiGLU(n *node) []*value {
	return single(n.Op("mul", nil, swishOf(n, n.Operand(0), 1), n.Operand(1)))
}

// hardSigmoid converts HardSigmoid.
func hardSigmoid(n *node) []*value {
	return single(hardSigmoidOf(n, n.Operand(0), n.Float("alpha", 0.2), n.Float("beta", 0.5)))
}

// hardSigmoidOf returns min(max(alpha*x + beta, 0), 1).
func hardSigmoidOf(n *node, x *value, alpha, beta float64) *value {
	y := n.Op("add", nil, n.Op("mul", nil, x, alpha), beta)
	return n.Op("clamp", graph.Attrs{"min": 0.0, "max": 1.0}, y)
}

// hardSwish converts HardSwish.
func hardSwish(n *node) []*value { return single(n.Op("hardswish", nil, n.Operand(0))) }

// mish converts Mish.
func mish(n *node) []*value { return single(n.Op("mish", nil, n.Operand(0))) }

// softplus converts Softplus. aten's softplus returns x if x exceeds a threshold. ONNX has no threshold. With threshold
// 40 the results are the same, because log(1+exp(x)) rounds to x above 40 in float64, and above 20 in float32.
func softplus(n *node) []*value {
	return single(n.Op("softplus", graph.Attrs{"threshold": 40}, n.Operand(0)))
}

// softsign converts Softsign.
func softsign(n *node) []*value { return single(softsignOf(n, n.Operand(0))) }

// softsignOf returns x / (1 + |x|).
func softsignOf(n *node, x *value) *value {
	return n.Op("div", nil, x, n.Op("add", nil, n.Op("abs", nil, x), 1.0))
}

// shrink converts Shrink: x + bias where x < -lambd, else x - bias where x > lambd, and otherwise 0. Both conditions
// may hold if lambd is negative. Integers are compared as float64. They are added to an integer bias as integers, and
// to any other bias as float64.
func shrink(n *node) []*value {
	x := n.Operand(0)
	bias, lambd := n.Float("bias", 0), n.Float("lambd", 0.5)
	dtype, zero := x.DType(), n.Op("zeros_like", nil, x)
	compared, amount := x, numberLike(x, bias)
	if !dtype.IsFloat() {
		compared = n.Cast(x, tensor.Float64)
		if amount == any(bias) {
			x = compared
		}
	}
	low := n.Cast(n.Op("add", nil, x, amount), dtype)
	high := n.Cast(n.Op("sub", nil, x, amount), dtype)
	y := n.Op("where", nil, n.Op("gt", nil, compared, lambd), high, zero)
	return single(n.Op("where", nil, n.Op("lt", nil, compared, -lambd), low, y))
}

// thresholdedRelu converts ThresholdedRelu: x where x > alpha, and otherwise 0.
func thresholdedRelu(n *node) []*value {
	return single(n.Op("threshold", graph.Attrs{"threshold": n.Float("alpha", 1), "value": 0}, n.Operand(0)))
}

// softmax converts Softmax and LogSoftmax, which normalize along one axis. Before operator set 13, they normalize over
// the axis and all later dimensions together.
func softmax(op string) converter {
	return func(n *node) []*value {
		x := n.Operand(0)
		if n.Opset >= 13 {
			return single(n.Op(op, graph.Attrs{"dim": n.Int("axis", -1)}, x))
		}
		axis := n.Int("axis", 1)
		if axis == n.Rank(x)-1 || axis == -1 { // there are no later dimensions
			return single(n.Op(op, graph.Attrs{"dim": -1}, x))
		}
		y := n.Op(op, graph.Attrs{"dim": -1}, asMatrix(n, x, axis))
		return single(n.ReshapeLike(y, x))
	}
}

// asMatrix reshapes x to two dimensions. The first merges the dimensions before the axis, and the second merges all
// other dimensions.
func asMatrix(n *node, x *value, axis int) *value {
	rank := n.Rank(x)
	if axis < -rank || axis > rank {
		n.Failf("axis %d is out of range: the operand has %d dimensions", axis, rank)
	}
	if axis < 0 {
		axis += rank
	}
	if n.IsStatic(x) {
		s := n.Shape(x)
		return n.Reshape(x, tensor.Numel(s[:axis]), tensor.Numel(s[axis:]))
	}
	// flatten requires a dimension to merge, so a reshape is used for an axis at either end.
	switch {
	case axis == 0:
		return n.Reshape(x, 1, -1)
	case axis == rank:
		return n.Reshape(x, -1, 1)
	}
	tail := n.Op("flatten", graph.Attrs{"start_dim": axis, "end_dim": -1}, x).WithRank(axis + 1)
	return n.Op("flatten", graph.Attrs{"start_dim": 0, "end_dim": axis - 1}, tail).WithRank(2)
}

// hardmax converts Hardmax, which is 1 at the first maximum along the axis, and 0 elsewhere. Before operator set 13,
// the maximum is taken over the axis and all later dimensions together.
func hardmax(n *node) []*value {
	x := n.Operand(0)
	operand, axis := x, n.Int("axis", -1)
	if n.Opset < 13 {
		operand, axis = asMatrix(n, x, n.Int("axis", 1)), -1
	}
	axis = n.Axis(axis, n.Rank(operand))
	// Without elements along the axis, there is no maximum, and the result has no elements.
	y := n.IfPositive(n.SymShape(operand)[axis], []*value{operand}, func(n *node, in []*value) []*value {
		firstMaximum := n.Op("argmax", graph.Attrs{"dim": axis, "keepdim": true}, in[0])
		ones := n.Op("ones_like", graph.Attrs{"dtype": tensor.Int64}, in[0])
		positions := n.Op("cumsum", graph.Attrs{"dim": axis}, ones) // the index of each element, plus 1
		return single(n.Cast(n.Op("eq", nil, n.Op("sub", nil, positions, 1), firstMaximum), x.DType()))
	}, firstOperand)[0]
	if n.Opset < 13 {
		y = n.ReshapeLike(y, x)
	}
	return single(y)
}

// dropout converts Dropout. In training mode, it keeps an element with probability 1-ratio, and divides kept elements
// by 1-ratio. Without training mode, or with ratio 0, it is the identity. Training mode is operand 2 from operator set
// 12 on, and the attribute is_test=0 before set 7. The second output is the mask of kept elements.
func dropout(n *node) []*value {
	x := n.Operand(0)
	maskType := tensor.Bool
	if n.Opset < 10 {
		maskType = x.DType()
	}
	ratio, training := dropoutParameters(n)
	isIdentity := training.Data() != nil && n.Number(training).Int() == 0 ||
		ratio.Data() != nil && n.Number(ratio).Float() == 0
	if isIdentity {
		out := []*value{x}
		if n.IsOutputUsed(1) {
			out = append(out, n.Op("ones_like", graph.Attrs{"dtype": maskType}, x))
		}
		return out
	}
	dtype := x.DType()
	// Without training mode, the mask keeps all elements. The mode may be known only when the graph runs.
	random := n.Emit("rand_like", graph.Attrs{"dtype": tensor.Float32, "seed": seed(n)}, x)[0]
	isKept := n.Op("logical_or", nil, n.Op("ge", nil, random, n.Cast(ratio, tensor.Float32)),
		n.Op("logical_not", nil, training))
	factor := n.Op("reciprocal", nil, n.Op("rsub", nil, n.Cast(ratio, dtype), 1.0)) // 1/(1-ratio)
	y := n.Op("mul", nil, n.Op("mul", nil, x, n.Cast(isKept, dtype)), factor)
	return []*value{n.Op("where", nil, training, y, x), n.Cast(isKept, maskType)}
}

// dropoutParameters returns the ratio of dropped elements and whether training mode is on, as values of one element.
func dropoutParameters(n *node) (ratio, training *value) {
	ratio = convert.Constant(tensor.FloatScalar(n.Float("ratio", 0.5)).Tensor(tensor.Float32))
	isTraining := n.Opset < 7 && n.HasAttr("is_test") && !n.Flag("is_test", true)
	training = convert.Constant(tensor.BoolScalar(isTraining).Tensor(tensor.Bool))
	if n.Opset < 12 {
		return ratio, training
	}
	if ratioOperand := n.OperandOrNil(1); ratioOperand != nil {
		ratio = ratioOperand
	}
	if trainingOperand := n.OperandOrNil(2); trainingOperand != nil {
		training = trainingOperand
	}
	return ratio, training
}

// The following functions convert experimental operators of old models.

// affine converts Affine: alpha*x + beta.
func affine(n *node) []*value {
	y := n.Op("mul", nil, n.Operand(0), n.Float("alpha", 1))
	return single(n.Op("add", nil, y, n.Float("beta", 0)))
}

// scale converts Scale: scale * x.
func scale(n *node) []*value { return single(n.Op("mul", nil, n.Operand(0), n.Float("scale", 1))) }

// scaledTanh converts ScaledTanh: alpha * tanh(beta*x).
func scaledTanh(n *node) []*value {
	y := n.Op("tanh", nil, n.Op("mul", nil, n.Operand(0), n.Float("beta", 1)))
	return single(n.Op("mul", nil, y, n.Float("alpha", 1)))
}

// parametricSoftplus converts ParametricSoftplus: alpha * log(1 + exp(beta*x)). For the threshold, see [softplus].
func parametricSoftplus(n *node) []*value {
	y := n.Op("softplus", graph.Attrs{"threshold": 40}, n.Op("mul", nil, n.Operand(0), n.Float("beta", 1)))
	return single(n.Op("mul", nil, y, n.Float("alpha", 1)))
}
