package onnx

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts operators of ONNX Runtime on quantized values with one scale and zero point. They become ops on
// floats between dequantize_linear and quantize_linear, which fuse.

// dequantize converts the quantized operand with index x to floats. Operands x+1 and x+2 are its scale and its optional
// zero point.
func (n *node) dequantize(x int) *val {
	quantized, scale, zero := n.operand(x), n.asScalar(n.operand(x+1)), n.operandOrNil(x+2)
	if zero != nil {
		zero = n.asScalar(zero)
	}
	if _, ok := n.linearAttrs(quantized, scale, zero); ok {
		return n.emit("dequantize_linear", nil, quantized, scale, zero)[0]
	}
	y := n.cast(quantized, tensor.Float32)
	if zero != nil {
		y = n.op("sub", nil, y, n.cast(zero, tensor.Float32))
	}
	return n.op("mul", nil, y, scale)
}

// quantize converts floats to the given dtype. The operand with index `scale` is the scale, and the next operand is the
// optional zero point.
func (n *node) quantize(x *val, scale int, dtype tensor.DType) []*val {
	scaleValue, zero := n.asScalar(n.operand(scale)), n.operandOrNil(scale+1)
	if zero != nil {
		zero, dtype = n.asScalar(zero), zero.dtype()
	}
	if _, ok := n.linearAttrs(x, scaleValue, zero); !ok {
		return one(n.quantizeTo(n.op("div", nil, x, scaleValue), zero, dtype))
	}
	if zero == nil {
		return one(n.op("quantize_linear", graph.Attrs{"dtype": dtype}, x, scaleValue))
	}
	return one(n.op("quantize_linear", nil, x, scaleValue, zero))
}

// qlinearBinary returns the converter of QLinearAdd or QLinearMul.
func qlinearBinary(op string) converter {
	return func(n *node) []*val {
		return n.quantize(n.op(op, nil, n.dequantize(0), n.dequantize(3)), 6, n.operand(0).dtype())
	}
}

// qlinearUnary returns the converter of an operator with quantized operand 0, and the scale of the result as operand 3.
func qlinearUnary(f func(n *node, x *val) *val) converter {
	return func(n *node) []*val { return n.quantize(f(n, n.dequantize(0)), 3, n.operand(0).dtype()) }
}

func sigmoidOf(n *node, x *val) *val { return n.op("sigmoid", nil, x) }

func leakyReluOf(n *node, x *val) *val {
	return n.op("leaky_relu", graph.Attrs{"negative_slope": n.float("alpha", 0.01)}, x)
}

// softmaxOf normalizes along an axis, or over an axis and all later dimensions if the attribute opset is below 13.
func softmaxOf(n *node, x *val) *val {
	axis := n.axis(n.int("axis", -1), n.rank(x))
	if opset := n.int("opset", 0); opset >= 13 || axis == n.rank(x)-1 {
		return n.op("softmax", graph.Attrs{"dim": axis}, x)
	}
	y := n.op("softmax", graph.Attrs{"dim": -1}, n.matrix(x, axis))
	return n.reshapeFor(y, n.symShape(x)...)
}

// channelsFirst wraps f, which requires channels in dimension 1. If the attribute channels_last is set, it moves the
// channels of the operand to dimension 1, and the channels of the result back to the last dimension.
func channelsFirst(f func(n *node, x *val) *val) func(n *node, x *val) *val {
	return func(n *node, x *val) *val {
		last := n.rank(x) - 1
		if !n.flag("channels_last", false) || last < 2 {
			return f(n, x)
		}
		y := f(n, n.op("movedim", graph.Attrs{"source": []int{last}, "destination": []int{1}}, x))
		return n.op("movedim", graph.Attrs{"source": []int{1}, "destination": []int{last}}, y)
	}
}

func globalAverage(n *node, x *val) *val {
	n.spatialSizes(x)
	return n.op("mean", graph.Attrs{"dim": dimsFrom(2, n.rank(x)), "keepdim": true}, x)
}

// qlinearConcat converts QLinearConcat. Operands 0 and 1 are the scale and the zero point of the result; then each part
// has three operands.
func qlinearConcat(n *node) []*val {
	if len(n.in) < 5 || len(n.in)%3 != 2 {
		n.failf("%d operands are not parts with scale and zero point", len(n.in))
	}
	var parts []any
	for i := 2; i < len(n.in); i += 3 {
		parts = append(parts, n.dequantize(i))
	}
	axis := n.axis(n.int("axis", 0), n.rank(n.operand(2)))
	return n.quantize(n.op("cat", graph.Attrs{"dim": axis}, parts...), 0, n.operand(2).dtype())
}

// scaledSums converts sums of products of quantized values to floats. a and b are the scales of the factors. bias may
// be nil.
func (n *node) scaledSums(sums, a, b, bias *val) *val {
	scale := n.op("mul", nil, n.asScalar(a), n.oneOrVector(b))
	y := n.op("mul", nil, n.cast(sums, a.dtype()), scale)
	if bias != nil {
		y = n.op("add", nil, y, bias)
	}
	return y
}

// oneOrVector returns p. If p has one element, the result has no dimensions.
func (n *node) oneOrVector(p *val) *val {
	if n.rank(p) == 1 && n.sizes(p)[0] == 1 {
		return n.reshape(p)
	}
	return p
}

// integerToFloat converts MatMulIntegerToFloat.
func integerToFloat(n *node) []*val {
	sums := n.op("matmul_integer", nil, n.operand(0), n.operand(1), n.operandOrNil(4), n.operandOrNil(5))
	return one(n.scaledSums(sums, n.operand(2), n.operand(3), n.operandOrNil(6)))
}

// dynamicQuantizeMatMul converts DynamicQuantizeMatMul, which quantizes the first operand by its range.
func dynamicQuantizeMatMul(n *node) []*val {
	q := n.ops("dynamic_quantize_linear", nil, n.operand(0))
	sums := n.op("matmul_integer", nil, q[0], n.operand(1), q[2], n.operandOrNil(3))
	return one(n.scaledSums(sums, q[1], n.operand(2), n.operandOrNil(4)))
}

// qGemm converts QGemm: a product of quantized matrices plus int32 operand 6. The result is quantized if operand 7 is
// present.
func qGemm(n *node) []*val {
	a, b := n.operand(0), n.operand(3)
	if n.flag("transA", false) {
		a = n.op("t", nil, a)
	}
	if n.flag("transB", false) {
		b = n.op("t", nil, b)
	}
	scale, bias := n.asScalar(n.operand(1)), n.operandOrNil(6)
	if alpha := n.float("alpha", 1); alpha != 1 {
		scale = n.op("mul", nil, scale, alpha)
	}
	scaleB, zeroB := n.oneOrVector(n.operand(4)), n.oneOrVector(n.operand(5))
	if n.hasOperand(7) && n.hasOperand(8) && (bias == nil || n.rank(bias) == 1) {
		return one(n.op("qlinear_matmul", nil, a, scale, n.asScalar(n.operand(2)), b, scaleB, zeroB,
			n.asScalar(n.operand(7)), n.asScalar(n.operand(8)), bias))
	}
	sums := n.op("matmul_integer", nil, a, b, n.asScalar(n.operand(2)), zeroB)
	if bias != nil {
		sums = n.op("add", nil, sums, bias)
	}
	y := n.scaledSums(sums, scale, scaleB, nil)
	if !n.hasOperand(7) {
		return one(y)
	}
	return n.quantize(y, 7, a.dtype())
}

// dynamicQuantizeLSTM converts DynamicQuantizeLSTM to an LSTM whose weights are dequantized. The operator also rounds
// its operands to 8 bits, which only adds errors, so the conversion omits it.
func dynamicQuantizeLSTM(n *node) []*val {
	weight := func(i, scale int) *val {
		weights := n.operand(i)
		perGate := func(p *val) *val {
			sizes := n.symShape(p)
			if len(sizes) == 1 {
				return n.alignedAt(p, 0, 3)
			}
			return n.op("unsqueeze", graph.Attrs{"dim": 1}, p)
		}
		y := n.op("sub", nil, n.cast(weights, tensor.Float32), n.cast(perGate(n.operand(scale+1)), tensor.Float32))
		y = n.op("mul", nil, y, perGate(n.operand(scale)))
		return n.op("transpose", graph.Attrs{"dim0": 1, "dim1": 2}, y)
	}
	operands := []any{n.operand(0), weight(1, 8), weight(2, 10)}
	for i := 3; i < 8; i++ {
		operands = append(operands, n.operandOrNil(i))
	}
	return n.recurrence("onnx_lstm", operands)
}
