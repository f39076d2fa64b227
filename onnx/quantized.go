package onnx

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// perAxis reshapes scales or zero points p for broadcasting with x. A vector is aligned with the attribute axis. If
// p has one element for each block of x, this element is repeated for each element of the block.
func (n *node) perAxis(p, x *val) *val {
	if p == nil {
		return nil
	}
	rank, prank := n.rank(x), n.rank(p)
	axis := n.int("axis", 1)
	switch {
	case prank == 0 || prank == 1 && n.sizes(p)[0] == 1:
		return n.reshape(p)
	case prank == 1:
		return n.alignedAt(p, n.axis(axis, rank), rank)
	}
	block := n.int("block_size", 0)
	if block < 1 {
		return p
	}
	axis = n.axis(axis, rank)
	p = n.op("unsqueeze", graph.Attrs{"dim": axis + 1}, p).withRank(prank + 1)
	sizes := slices.Clone(n.symShape(p))
	sizes[axis+1] = sym.Of(block)
	p = n.op("expand", graph.Attrs{"size": n.sizeAttr(sizes...)}, p)
	p = n.op("flatten", graph.Attrs{"start_dim": axis, "end_dim": axis + 1}, p)
	return n.op("slice", graph.Attrs{"dim": axis, "start": 0, "end": n.sizeAttrOf(n.symShape(x)[axis])}, p)
}

// quantizeTo rounds x, adds the zero point, and clamps the result to the range of the dtype.
func (n *node) quantizeTo(x, zero *val, dtype tensor.DType) *val {
	if !dtype.IsIntegral(false) || dtype.Size() > 2 {
		n.failf("quantization to %v is not supported", dtype)
	}
	y := n.op("round", nil, x)
	if zero != nil {
		y = n.op("add", nil, y, n.cast(zero, x.dtype()))
	}
	y = n.op("clamp", graph.Attrs{"min": extremeNumber(dtype, false), "max": extremeNumber(dtype, true)}, y)
	return n.cast(y, dtype)
}

// linearAttrs returns the attributes of the ops quantize_linear and dequantize_linear for x. It returns false if the
// ops do not support the operands: a dtype is float64, or a shape depends on data.
func (n *node) linearAttrs(x, scale, zero *val) (graph.Attrs, bool) {
	isFloat := func(dtype tensor.DType) bool { return dtype.IsFloat() && dtype != tensor.Float64 }
	if x.isDynamic() || scale.isDynamic() || zero != nil && (zero.isDynamic() || !isQuantized(zero.dtype())) ||
		!isFloat(scale.dtype()) || !isFloat(x.dtype()) && !isQuantized(x.dtype()) {
		return nil, false
	}
	return graph.Attrs{"axis": n.int("axis", 1), "block_size": n.int("block_size", 0)}, true
}

// isQuantized reports whether the quantization ops support a dtype of quantized elements.
func isQuantized(dtype tensor.DType) bool {
	switch dtype {
	case tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint16, tensor.Int32:
		return true
	}
	return false
}

func quantizeLinear(n *node) []*val {
	x, scale, zero := n.operand(0), n.operand(1), n.operandOrNil(2)
	if kind := n.quantizedElementType(); kind != pb.Undefined {
		return one(n.quantizeToNarrow(x, scale, zero, kind))
	}
	dtype := n.dtypeAttr("output_dtype")
	precision := n.dtypeAttr("precision")
	keepsDType := precision == tensor.Invalid || precision == x.dtype()
	if attrs, ok := n.linearAttrs(x, scale, zero); ok && keepsDType && (dtype == tensor.Invalid || isQuantized(dtype)) {
		if zero == nil && dtype != tensor.Invalid {
			attrs["dtype"] = dtype
		}
		return one(n.op("quantize_linear", attrs, x, scale, zero))
	}
	switch {
	case zero != nil:
		dtype = zero.dtype()
	case dtype == tensor.Invalid:
		dtype = tensor.Uint8
	}
	if keepsDType {
		precision = x.dtype()
	}
	if !precision.IsFloat() || keepsDType && precision.IsReducedFloat() {
		precision = tensor.Float32
	}
	scaled := n.op("div", nil, n.cast(x, precision), n.cast(n.perAxis(scale, x), precision))
	return one(n.quantizeTo(scaled, n.perAxis(zero, x), dtype))
}

func dequantizeLinear(n *node) []*val {
	x, scale, zero := n.operand(0), n.operand(1), n.operandOrNil(2)
	dtype := n.dtypeAttr("output_dtype")
	if dtype == tensor.Invalid {
		dtype = scale.dtype()
	}
	if attrs, ok := n.linearAttrs(x, scale, zero); ok && isQuantized(x.dtype()) && dtype == scale.dtype() {
		return n.emit("dequantize_linear", attrs, x, scale, zero) // without folding, so that weights may stay bytes
	}
	y := n.cast(x, tensor.Float32)
	if zero != nil {
		y = n.op("sub", nil, y, n.cast(n.perAxis(zero, x), tensor.Float32))
	}
	y = n.op("mul", nil, y, n.cast(n.perAxis(scale, x), tensor.Float32))
	return one(n.cast(y, dtype))
}

func dynamicQuantizeLinear(n *node) []*val {
	return n.ops("dynamic_quantize_linear", nil, n.operand(0))
}

// centred returns an 8-bit operand minus its zero point in float64. Sums of products of such differences are exact in
// float64.
func (n *node) centred(x, zero *val, axis int) *val {
	y := n.cast(x, tensor.Float64)
	if zero == nil {
		return y
	}
	return n.op("sub", nil, y, n.cast(n.alongAxis(zero, x, axis), tensor.Float64))
}

// alongAxis reshapes a vector for broadcasting along an axis of x.
func (n *node) alongAxis(p, x *val, axis int) *val {
	if n.rank(p) != 1 || n.sizes(p)[0] == 1 && n.rank(x) > 0 {
		if n.rank(p) == 1 {
			return n.reshape(p)
		}
		return p
	}
	rank := n.rank(x)
	if axis < 0 {
		axis += rank
	}
	if axis < 0 {
		return p
	}
	return n.alignedAt(p, axis, rank)
}

func matMulInteger(n *node) []*val {
	a, b, azero, bzero := n.operand(0), n.operand(1), n.operandOrNil(2), n.operandOrNil(3)
	if n.atMostVectors(azero, bzero) {
		return one(n.op("matmul_integer", nil, a, b, azero, bzero))
	}
	y := n.op("matmul", nil, n.centred(a, azero, -2), n.centred(b, bzero, -1))
	return one(n.cast(y, tensor.Int32))
}

// atMostVectors reports whether scales and zero points have at most one dimension.
func (n *node) atMostVectors(list ...*val) bool {
	return !slices.ContainsFunc(list, func(p *val) bool { return p != nil && n.rank(p) > 1 })
}

func qlinearMatMul(n *node) []*val {
	a, b := n.operand(0), n.operand(3)
	if n.atMostVectors(n.operand(1), n.operand(2), n.operand(4), n.operand(5), n.operand(6), n.operand(7)) {
		return one(n.op("qlinear_matmul", nil, a, n.operand(1), n.operand(2), b, n.operand(4), n.operand(5), n.operand(6),
			n.operand(7)))
	}
	y := n.op("matmul", nil, n.centred(a, n.operand(2), -2), n.centred(b, n.operand(5), -1))
	scaleAlong := func(p, x *val, axis int) *val { return n.cast(n.alongAxis(p, x, axis), tensor.Float64) }
	y = n.op("mul", nil, n.op("mul", nil, y, scaleAlong(n.operand(1), a, -2)), scaleAlong(n.operand(4), b, -1))
	y = n.op("div", nil, y, n.cast(n.alongAxis(n.operand(6), y, -2), tensor.Float64))
	return one(n.quantizeTo(y, n.alongAxis(n.operand(7), y, -2), n.operand(7).dtype()))
}

// integerConv convolves operands minus their zero points. Padding has the value of the zero point, so that it is 0
// after the subtraction.
func (n *node) integerConv(x, weight, zero, weightZero, bias *val) *val {
	if n.rank(x) < 3 {
		n.failf("the operand has %d dimensions, want at least 3", n.rank(x))
	}
	return n.convolve(n.centred(x, zero, 1), n.centred(weight, weightZero, 0), bias)
}

func convInteger(n *node) []*val {
	if r := n.rank(n.operand(0)); r >= 3 && r <= 5 {
		if _, attrs, hasPadding := n.convAttrs(n.operand(0), n.operand(1)); hasPadding {
			return one(n.op("conv_integer", attrs, n.operand(0), n.operand(1), n.operandOrNil(2), n.operandOrNil(3)))
		}
	}
	return one(n.cast(n.integerConv(n.operand(0), n.operand(1), n.operandOrNil(2), n.operandOrNil(3), nil), tensor.Int32))
}

func qlinearConv(n *node) []*val {
	x, weight := n.operand(0), n.operand(3)
	if r := n.rank(x); r >= 3 && r <= 5 {
		if _, attrs, hasPadding := n.convAttrs(x, weight); hasPadding {
			return one(n.op("qlinear_conv", attrs, x, n.operand(1), n.operand(2), weight, n.operand(4),
				n.operand(5), n.operand(6),
				n.operand(7), n.operandOrNil(8)))
		}
	}
	var bias *val
	if b := n.operandOrNil(8); b != nil {
		bias = n.cast(b, tensor.Float64)
	}
	y := n.integerConv(x, weight, n.operand(2), n.operand(5), bias)
	scale := n.op("mul", nil, n.cast(n.asScalar(n.operand(1)), tensor.Float64),
		n.cast(n.alongChannel(n.operand(4), y), tensor.Float64))
	scale = n.op("div", nil, scale, n.cast(n.asScalar(n.operand(6)), tensor.Float64))
	return one(n.quantizeTo(n.op("mul", nil, y, scale), n.asScalar(n.operand(7)), n.operand(7).dtype()))
}

func (n *node) asScalar(p *val) *val { return n.reshape(p) }

func (n *node) alongChannel(p, y *val) *val { return n.alongAxis(p, y, 1) }
