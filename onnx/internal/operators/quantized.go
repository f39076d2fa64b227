package operators

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts the quantization operators of the ONNX standard. A quantized element q stands for the number (q -
// zero) * scale. For example, with scale 0.5 and zero point 10, the number 3 is quantized to round(3/0.5) + 10 = 16.
// The ops of the catalogue support most dtypes and shapes of scales and zero points. For other dtypes and shapes,
// separate ops compute the same results.
//
// A value is a tensor of the model, and node.Op adds an op to the graph. A sym.Int is a size: a number, or an
// expression over symbols.

// quantizeLinear converts QuantizeLinear: round(x/scale) + zero, clamped to the dtype of the result. This is the dtype
// of the zero point or, without a zero point, output_dtype or uint8. It uses the op quantize_linear if possible, and
// otherwise separate ops. These compute in the dtype that the attribute precision states or, without it, in the dtype
// of x, but at least in float32.
func quantizeLinear(n *node) []*value {
	x, scale, zero := n.Operand(0), n.Operand(1), n.OperandOrNil(2)
	if elementType := quantizedElementType(n); elementType != pb.Undefined {
		return single(quantizeToNarrow(n, x, scale, zero, elementType))
	}
	dtype := n.DTypeAttr("output_dtype")
	precision := n.DTypeAttr("precision")
	keepsDType := precision == tensor.Invalid || precision == x.DType() // the division is in the dtype of x
	if attrs, ok := linearAttrs(n, x, scale, zero); ok && keepsDType && (dtype == tensor.Invalid || isQuantized(dtype)) {
		if zero == nil && dtype != tensor.Invalid {
			attrs["dtype"] = dtype
		}
		return single(n.Op("quantize_linear", attrs, x, scale, zero))
	}
	switch {
	case zero != nil:
		dtype = zero.DType()
	case dtype == tensor.Invalid:
		dtype = tensor.Uint8
	}
	if keepsDType {
		precision = x.DType()
	}
	// A 16-bit x is computed in float32. A 16-bit attribute precision is used as stated if x has another dtype.
	isReducedX := keepsDType && precision.IsReducedFloat()
	if !precision.IsFloat() || isReducedX {
		precision = tensor.Float32
	}
	scaled := n.Op("div", nil, n.Cast(x, precision), n.Cast(perAxis(n, scale, x), precision))
	return single(quantizeTo(n, scaled, perAxis(n, zero, x), dtype))
}

// dequantizeLinear converts DequantizeLinear: (x - zero) * scale, in the dtype of the scale or in output_dtype. It uses
// the op dequantize_linear if possible, and otherwise separate ops in float32.
func dequantizeLinear(n *node) []*value {
	x, scale, zero := n.Operand(0), n.Operand(1), n.OperandOrNil(2)
	dtype := n.DTypeAttr("output_dtype")
	if dtype == tensor.Invalid {
		dtype = scale.DType()
	}
	if attrs, ok := linearAttrs(n, x, scale, zero); ok && isQuantized(x.DType()) && dtype == scale.DType() {
		return n.Emit("dequantize_linear", attrs, x, scale, zero) // without folding, so that weights may stay bytes
	}
	y := n.Cast(x, tensor.Float32)
	if zero != nil {
		y = n.Op("sub", nil, y, n.Cast(perAxis(n, zero, x), tensor.Float32))
	}
	y = n.Op("mul", nil, y, n.Cast(perAxis(n, scale, x), tensor.Float32))
	return single(n.Cast(y, dtype))
}

// linearAttrs returns the attributes of the ops quantize_linear and dequantize_linear for x. It returns false if the
// ops do not support the operands. The ops support shapes that do not depend on data, a scale of a float dtype except
// float64, and a zero point of a quantized dtype. x has a float dtype except float64, or a quantized dtype.
func linearAttrs(n *node, x, scale, zero *value) (graph.Attrs, bool) {
	isOpFloat := func(dtype tensor.DType) bool { return dtype.IsFloat() && dtype != tensor.Float64 }
	isSupported := !x.IsDynamic() && (isOpFloat(x.DType()) || isQuantized(x.DType())) &&
		!scale.IsDynamic() && isOpFloat(scale.DType()) &&
		(zero == nil || !zero.IsDynamic() && isQuantized(zero.DType()))
	if !isSupported {
		return nil, false
	}
	return graph.Attrs{"axis": n.Int("axis", 1), "block_size": n.Int("block_size", 0)}, true
}

// isQuantized reports whether the quantization ops support a dtype of quantized elements.
func isQuantized(dtype tensor.DType) bool {
	switch dtype {
	case tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint16, tensor.Int32:
		return true
	}
	return false
}

// perAxis reshapes params (scales or zero points) for broadcasting with x. One element becomes a 0-dim value. A longer
// vector is aligned with the dimension that the attribute axis states ([alongAxis] has a parameter instead). If the
// attribute block_size is set, params of more than one dimension have one element for each block along the axis.
// perAxis repeats this element for each element of the block. params may be nil.
func perAxis(n *node, params, x *value) *value {
	if params == nil {
		return nil
	}
	rank, paramRank := n.Rank(x), n.Rank(params)
	axis := n.Int("axis", 1)
	switch {
	case paramRank == 0 || paramRank == 1 && n.Sizes(params)[0] == 1:
		return n.Reshape(params)
	case paramRank == 1:
		return alignedToAxis(n, params, n.Axis(axis, rank), rank)
	}
	blockSize := n.Int("block_size", 0)
	if blockSize < 1 {
		return params
	}
	// [..., blocks, ...] -> [..., blocks, 1, ...] -> [..., blocks, block, ...] -> [..., blocks*block, ...]. Only the
	// first elements are used, because the last block may be incomplete.
	axis = n.Axis(axis, rank)
	params = n.Op("unsqueeze", graph.Attrs{"dim": axis + 1}, params).WithRank(paramRank + 1)
	sizes := slices.Clone(n.SymShape(params))
	sizes[axis+1] = sym.Of(blockSize)
	params = n.Op("expand", graph.Attrs{"size": n.SizesAttr(sizes...)}, params)
	params = n.Op("flatten", graph.Attrs{"start_dim": axis, "end_dim": axis + 1}, params)
	return n.Op("slice", graph.Attrs{"dim": axis, "start": 0, "end": n.SizeAttr(n.SymShape(x)[axis])}, params)
}

// quantizeTo rounds x, adds the zero point (or nil), clamps the result to the range of the dtype, and converts it.
func quantizeTo(n *node, x, zero *value, dtype tensor.DType) *value {
	if !dtype.IsIntegral(false) || dtype.Size() > 2 {
		n.Failf("quantization to %v is not supported: want an integer of at most 16 bits", dtype)
	}
	y := n.Op("round", nil, x)
	if zero != nil {
		y = n.Op("add", nil, y, n.Cast(zero, x.DType()))
	}
	const least, greatest = false, true
	y = n.Op("clamp", graph.Attrs{"min": extremeNumber(dtype, least), "max": extremeNumber(dtype, greatest)}, y)
	return n.Cast(y, dtype)
}

// dynamicQuantizeLinear converts DynamicQuantizeLinear, which quantizes by the range of the elements.
func dynamicQuantizeLinear(n *node) []*value {
	return n.Ops("dynamic_quantize_linear", nil, n.Operand(0))
}

// minusZeroPoint returns an 8-bit operand minus its zero point, aligned with axis, in float64. zero may be nil. Sums of
// products of such differences are exact in float64.
func minusZeroPoint(n *node, x, zero *value, axis int) *value {
	y := n.Cast(x, tensor.Float64)
	if zero == nil {
		return y
	}
	return n.Op("sub", nil, y, n.Cast(alongAxis(n, zero, x, axis), tensor.Float64))
}

// alongAxis reshapes params, a vector, for broadcasting along the given axis of x. A vector of one element becomes a
// 0-dim value. It returns params unchanged if it is not a vector, or if x does not have this axis.
func alongAxis(n *node, params, x *value, axis int) *value {
	if n.Rank(params) != 1 {
		return params
	}
	rank := n.Rank(x)
	if n.Sizes(params)[0] == 1 && rank > 0 {
		return n.Reshape(params)
	}
	if axis < 0 {
		axis += rank
	}
	if axis < 0 {
		return params
	}
	return alignedToAxis(n, params, axis, rank)
}

// The dimensions of a matrix product along which scales and zero points are vectors: the rows of the first operand and
// of the result, and the columns of the second operand.
const rowAxis, columnAxis = -2, -1

// matMulInteger converts MatMulInteger. The op supports zero points that are scalars or vectors.
func matMulInteger(n *node) []*value {
	a, b, zeroA, zeroB := n.Operand(0), n.Operand(1), n.OperandOrNil(2), n.OperandOrNil(3)
	if atMostVectors(n, zeroA, zeroB) {
		return single(n.Op("matmul_integer", nil, a, b, zeroA, zeroB))
	}
	y := n.Op("matmul", nil, minusZeroPoint(n, a, zeroA, rowAxis), minusZeroPoint(n, b, zeroB, columnAxis))
	return single(n.Cast(y, tensor.Int32))
}

// atMostVectors reports whether scales and zero points have at most one dimension. They may be nil.
func atMostVectors(n *node, params ...*value) bool {
	return !slices.ContainsFunc(params, func(p *value) bool { return p != nil && n.Rank(p) > 1 })
}

// qlinearMatMul converts QLinearMatMul: a and b are followed by their scales and zero points; operands 6 and 7 are the
// scale and the zero point of the result. With parameters of more than one dimension, it computes
// (a - zero) @ (b - zero) * scaleA * scaleB / scale in float64.
func qlinearMatMul(n *node) []*value {
	a, scaleA, zeroA := n.Operand(0), n.Operand(1), n.Operand(2)
	b, scaleB, zeroB := n.Operand(3), n.Operand(4), n.Operand(5)
	scale, zero := n.Operand(6), n.Operand(7)
	if atMostVectors(n, scaleA, zeroA, scaleB, zeroB, scale, zero) {
		return single(n.Op("qlinear_matmul", nil, a, scaleA, zeroA, b, scaleB, zeroB, scale, zero))
	}
	y := n.Op("matmul", nil, minusZeroPoint(n, a, zeroA, rowAxis), minusZeroPoint(n, b, zeroB, columnAxis))
	alignedScale := func(p, x *value, axis int) *value { return n.Cast(alongAxis(n, p, x, axis), tensor.Float64) }
	y = n.Op("mul", nil, n.Op("mul", nil, y, alignedScale(scaleA, a, rowAxis)), alignedScale(scaleB, b, columnAxis))
	y = n.Op("div", nil, y, alignedScale(scale, y, rowAxis))
	return single(quantizeTo(n, y, alongAxis(n, zero, y, rowAxis), zero.DType()))
}

// integerConv convolves operands minus their zero points, in float64. zero, weightZero and bias may be nil. The padding
// of the differences is 0, that is, the padding of x is its zero point.
func integerConv(n *node, x, zero, weight, weightZero, bias *value) *value {
	if n.Rank(x) < 3 {
		n.Failf("the operand has %d dimensions, want at least 3", n.Rank(x))
	}
	const channelAxis, outChannelAxis = 1, 0 // of x and of the weight
	return convolve(n, minusZeroPoint(n, x, zero, channelAxis), minusZeroPoint(n, weight, weightZero, outChannelAxis),
		bias)
}

// integerConvAttrs returns the attributes of an integer convolution op. ok is false if the op does not support the rank
// or the padding, or rejects a weight that may have no channels of images or results.
func integerConvAttrs(n *node, x, weight *value) (attrs graph.Attrs, ok bool) {
	if rank := n.Rank(x); rank < 3 || rank > 5 {
		return nil, false
	}
	_, attrs, supportsPadding := convAttrs(n, x, weight)
	return attrs, supportsPadding && !mayBeEmpty(n.SymShape(weight)[:2]...)
}

// convInteger converts ConvInteger to the op conv_integer. If the op does not support the operands, the convolution is
// computed in float64.
func convInteger(n *node) []*value {
	x, weight, zero, weightZero := n.Operand(0), n.Operand(1), n.OperandOrNil(2), n.OperandOrNil(3)
	if attrs, ok := integerConvAttrs(n, x, weight); ok {
		return single(n.Op("conv_integer", attrs, x, weight, zero, weightZero))
	}
	return single(n.Cast(integerConv(n, x, zero, weight, weightZero, nil), tensor.Int32))
}

// qlinearConv converts QLinearConv to the op qlinear_conv. If the op does not support the operands, the sums are
// computed in float64 and multiplied by scaleX * weightScale / scale, where scale is the scale of the result.
func qlinearConv(n *node) []*value {
	x, scaleX, zeroX := n.Operand(0), n.Operand(1), n.Operand(2)
	weight, weightScale, weightZero := n.Operand(3), n.Operand(4), n.Operand(5)
	scale, zero, bias := n.Operand(6), n.Operand(7), n.OperandOrNil(8)
	if attrs, ok := integerConvAttrs(n, x, weight); ok {
		return single(n.Op("qlinear_conv", attrs, x, scaleX, zeroX, weight, weightScale, weightZero, scale, zero, bias))
	}
	if bias != nil {
		bias = n.Cast(bias, tensor.Float64)
	}
	y := integerConv(n, x, zeroX, weight, weightZero, bias)
	factor := n.Op("mul", nil, n.Cast(asScalar(n, scaleX), tensor.Float64),
		n.Cast(alongAxis(n, weightScale, y, 1), tensor.Float64))
	factor = n.Op("div", nil, factor, n.Cast(asScalar(n, scale), tensor.Float64))
	return single(quantizeTo(n, n.Op("mul", nil, y, factor), asScalar(n, zero), zero.DType()))
}

// asScalar reshapes a scale or zero point of one element to a 0-dim value.
func asScalar(n *node, param *value) *value { return n.Reshape(param) }
