package operators

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts operators of ONNX Runtime on quantized values. Most have one scale and zero point for a tensor,
// and become ops on floats between dequantize_linear and quantize_linear, which fuse. Products keep their quantized
// factors. For example, QLinearAdd becomes
//
//	quantize_linear(dequantize_linear(a) + dequantize_linear(b))
//
// and QGemm becomes qlinear_matmul.

// dequantize converts the quantized operand with the given index to floats. The next two operands are its scale and its
// optional zero point.
func dequantize(n *node, operand int) *value {
	return dequantizeBy(n, n.Operand(operand), n.Operand(operand+1), n.OperandOrNil(operand+2))
}

// dequantizeBy converts a quantized value to floats. The scale and the zero point, which may be nil, have one element.
func dequantizeBy(n *node, quantized, scale, zero *value) *value {
	scale = asScalar(n, scale)
	if zero != nil {
		zero = asScalar(n, zero)
	}
	if _, ok := linearAttrs(n, quantized, scale, zero); ok { // the op dequantize_linear supports the operands
		return n.Emit("dequantize_linear", nil, quantized, scale, zero)[0]
	}
	y := n.Cast(quantized, tensor.Float32)
	if zero != nil {
		y = n.Op("sub", nil, y, n.Cast(zero, tensor.Float32))
	}
	return n.Op("mul", nil, y, scale)
}

// quantize converts the floats x to the dtype of the zero point or, without a zero point, to the given dtype. The
// operand with index scaleOperand is the scale, and the next operand is the optional zero point.
func quantize(n *node, x *value, scaleOperand int, dtype tensor.DType) []*value {
	scaleValue, zero := asScalar(n, n.Operand(scaleOperand)), n.OperandOrNil(scaleOperand+1)
	if zero != nil {
		zero, dtype = asScalar(n, zero), zero.DType()
	}
	if _, ok := linearAttrs(n, x, scaleValue, zero); !ok { // the op quantize_linear does not support the operands
		return single(quantizeTo(n, n.Op("div", nil, x, scaleValue), zero, dtype))
	}
	if zero == nil {
		return single(n.Op("quantize_linear", graph.Attrs{"dtype": dtype}, x, scaleValue))
	}
	return single(n.Op("quantize_linear", nil, x, scaleValue, zero))
}

// qlinearBinary returns the converter of QLinearAdd or QLinearMul. Operands 0 and 3 are the summands or factors. The
// scale and the zero point of each of them are the next two operands. Operand 6 is the scale of the result, and operand
// 7 its zero point.
func qlinearBinary(op string) converter {
	return func(n *node) []*value {
		return quantize(n, n.Op(op, nil, dequantize(n, 0), dequantize(n, 3)), 6, n.Operand(0).DType())
	}
}

// qlinearWhere converts QLinearWhere. Operand 0 is the condition, and operands 1 and 4 are the values to select from.
// Operand 7 is the scale of the result.
func qlinearWhere(n *node) []*value {
	return quantize(n, n.Op("where", nil, n.Operand(0), dequantize(n, 1), dequantize(n, 4)), 7, n.Operand(1).DType())
}

// qlinearUnary returns the converter of an operator that dequantizes operand 0, applies f, and quantizes the result by
// operand 3, its scale.
func qlinearUnary(f func(n *node, x *value) *value) converter {
	return func(n *node) []*value { return quantize(n, f(n, dequantize(n, 0)), 3, n.Operand(0).DType()) }
}

// sigmoidOf returns sigmoid(x).
func sigmoidOf(n *node, x *value) *value { return n.Op("sigmoid", nil, x) }

// leakyReluOf returns x where x >= 0, and otherwise alpha*x.
func leakyReluOf(n *node, x *value) *value {
	return n.Op("leaky_relu", graph.Attrs{"negative_slope": n.Float("alpha", 0.01)}, x)
}

// softmaxOf normalizes along an axis or, if the attribute opset is below 13, over this axis and all later dimensions
// together.
func softmaxOf(n *node, x *value) *value {
	axis := n.Axis(n.Int("axis", -1), n.Rank(x))
	if opset := n.Int("opset", 0); opset >= 13 || axis == n.Rank(x)-1 {
		return n.Op("softmax", graph.Attrs{"dim": axis}, x)
	}
	y := n.Op("softmax", graph.Attrs{"dim": -1}, asMatrix(n, x, axis))
	return n.ReshapeSym(y, n.SymShape(x)...)
}

// channelsFirst wraps f, which requires channels in dimension 1. If the attribute channels_last is set, it moves the
// channels of the operand to dimension 1, and the channels of the result back to the last dimension.
func channelsFirst(f func(n *node, x *value) *value) func(n *node, x *value) *value {
	return func(n *node, x *value) *value {
		last := n.Rank(x) - 1
		if !n.Flag("channels_last", false) || last < 2 {
			return f(n, x)
		}
		y := f(n, n.Op("movedim", graph.Attrs{"source": []int{last}, "destination": []int{1}}, x))
		return n.Op("movedim", graph.Attrs{"source": []int{1}, "destination": []int{last}}, y)
	}
}

// globalAverage returns the mean of each channel.
func globalAverage(n *node, x *value) *value {
	spatialSizes(n, x) // checks the rank
	return n.Op("mean", graph.Attrs{"dim": dimsFrom(2, n.Rank(x)), "keepdim": true}, x)
}

// qlinearConcat converts QLinearConcat. Operands 0 and 1 are the scale and the zero point of the result. Then follow
// three operands for each concatenated tensor: the tensor, its scale and its zero point.
func qlinearConcat(n *node) []*value {
	if len(n.In) < 5 || len(n.In)%3 != 2 {
		n.Failf("%d operands are not parts with scale and zero point", len(n.In))
	}
	var parts []any
	for i := 2; i < len(n.In); i += 3 {
		parts = append(parts, dequantize(n, i))
	}
	axis := n.Axis(n.Int("axis", 0), n.Rank(n.Operand(2)))
	return quantize(n, n.Op("cat", graph.Attrs{"dim": axis}, parts...), 0, n.Operand(2).DType())
}

// scaledSums converts sums of products of quantized values to floats: sums * scaleA * scaleB + bias. scaleA has one
// element. scaleB has either one element or one for each column of the sums. bias may be nil.
func scaledSums(n *node, sums, scaleA, scaleB, bias *value) *value {
	scale := n.Op("mul", nil, asScalar(n, scaleA), oneOrVector(n, scaleB))
	y := n.Op("mul", nil, n.Cast(sums, scaleA.DType()), scale)
	if bias != nil {
		y = n.Op("add", nil, y, bias)
	}
	return y
}

// oneOrVector returns params, a scalar or a vector. A vector of one element becomes a 0-dim value.
func oneOrVector(n *node, params *value) *value {
	if n.Rank(params) == 1 && n.Sizes(params)[0] == 1 {
		return n.Reshape(params)
	}
	return params
}

// integerToFloat converts MatMulIntegerToFloat. The operands are the factors, their scales, their zero points and a
// bias.
func integerToFloat(n *node) []*value {
	sums := n.Op("matmul_integer", nil, n.Operand(0), n.Operand(1), n.OperandOrNil(4), n.OperandOrNil(5))
	return single(scaledSums(n, sums, n.Operand(2), n.Operand(3), n.OperandOrNil(6)))
}

// dynamicQuantizeMatMul converts DynamicQuantizeMatMul, which quantizes the first operand by its range. Operands 2 to 4
// are the scale and the zero point of the second operand, and a bias.
func dynamicQuantizeMatMul(n *node) []*value {
	quantized := n.Ops("dynamic_quantize_linear", nil, n.Operand(0)) // with its scale and zero point
	x, scale, zero := quantized[0], quantized[1], quantized[2]
	sums := n.Op("matmul_integer", nil, x, n.Operand(1), zero, n.OperandOrNil(3))
	return single(scaledSums(n, sums, scale, n.Operand(2), n.OperandOrNil(4)))
}

// qGemm converts QGemm: a product of quantized matrices plus int32 operand 6. Operands 1, 2, 4 and 5 are the scales and
// zero points of the factors. The result is quantized if operand 7, its scale, is present. The op qlinear_matmul
// requires operand 8, its zero point, and a bias that is a vector.
func qGemm(n *node) []*value {
	a, b := n.Operand(0), n.Operand(3)
	if n.Flag("transA", false) {
		a = n.Op("t", nil, a)
	}
	if n.Flag("transB", false) {
		b = n.Op("t", nil, b)
	}
	scaleA, bias := asScalar(n, n.Operand(1)), n.OperandOrNil(6)
	if alpha := n.Float("alpha", 1); alpha != 1 {
		scaleA = n.Op("mul", nil, scaleA, alpha)
	}
	scaleB, zeroB := oneOrVector(n, n.Operand(4)), oneOrVector(n, n.Operand(5))
	zeroA := asScalar(n, n.Operand(2))
	if n.HasOperand(7) && n.HasOperand(8) && (bias == nil || n.Rank(bias) == 1) {
		scale, zero := asScalar(n, n.Operand(7)), asScalar(n, n.Operand(8)) // of the result
		return single(n.Op("qlinear_matmul", nil, a, scaleA, zeroA, b, scaleB, zeroB, scale, zero, bias))
	}
	sums := n.Op("matmul_integer", nil, a, b, zeroA, zeroB)
	if bias != nil {
		sums = n.Op("add", nil, sums, bias)
	}
	y := scaledSums(n, sums, scaleA, scaleB, nil)
	if !n.HasOperand(7) {
		return single(y)
	}
	return quantize(n, y, 7, a.DType())
}

// dynamicQuantizeLSTM converts DynamicQuantizeLSTM to an LSTM whose weights are dequantized. The operator also rounds
// its operands to 8 bits, which only adds errors, so the conversion omits it.
func dynamicQuantizeLSTM(n *node) []*value {
	operands := []any{n.Operand(0), lstmWeight(n, 1, 8), lstmWeight(n, 2, 10)}
	for i := 3; i < 8; i++ { // bias, sequence lengths, initial states, peepholes
		operands = append(operands, n.OperandOrNil(i))
	}
	return addRecurrentOp(n, "onnx_lstm", operands)
}

// lstmWeight returns operand i, [directions, inputs, 4*hidden], as floats [directions, 4*hidden, inputs]. The operand
// with index scaleOperand is its scale, and the next operand is its zero point. Both have the shape [directions] or
// [directions, 4*hidden].
func lstmWeight(n *node, i, scaleOperand int) *value {
	weight := n.Cast(n.Operand(i), tensor.Float32)
	aligned := func(params *value) *value {
		if n.Rank(params) == 1 {
			const axis, rank = 0, 3
			return alignedToAxis(n, params, axis, rank) // [directions, 1, 1]
		}
		return n.Op("unsqueeze", graph.Attrs{"dim": 1}, params)
	}
	y := n.Op("sub", nil, weight, n.Cast(aligned(n.Operand(scaleOperand+1)), tensor.Float32))
	y = n.Op("mul", nil, y, aligned(n.Operand(scaleOperand)))
	return n.Op("transpose", graph.Attrs{"dim0": 1, "dim1": 2}, y)
}
