package operators

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx/internal/modelfile"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts pointwise operators: arithmetic, comparisons, casts, Where and Clip. ONNX has uint16, uint32 and
// uint64 (IsBareUnsigned), which most ops of the catalogue do not support, as in PyTorch. Such elements are computed as
// int64 (widened). For example, the sum of two uint32 is cast to int64, added, and cast back.

// unary returns a converter that replaces an operator with one operand and no attributes by an equivalent op.
func unary(op string) converter {
	return func(n *node) []*value { return single(widened(n, op, nil, n.Operand(0))) }
}

// identity converts Identity.
func identity(n *node) []*value {
	if !n.HasOperand(0) {
		n.Failf("operand 0 is missing")
	}
	return single(n.In[0])
}

// widened applies a pointwise op. Most ops do not support uint16, uint32 and uint64. For operands of these dtypes,
// widened computes in int64 and converts a result in int64 back. The lowest bits of sums, products and bitwise results
// are the same in both dtypes. Comparisons of uint64 need [orderedInt64] in addition.
func widened(n *node, op string, attrs graph.Attrs, operands ...any) *value {
	resultDType := tensor.Invalid
	cast := make([]any, len(operands))
	for i, operand := range operands {
		cast[i] = operand
		if tensorOperand, ok := operand.(*value); ok && tensorOperand != nil && tensorOperand.DType().IsBareUnsigned() {
			resultDType = tensorOperand.DType()
			cast[i] = n.Cast(tensorOperand, tensor.Int64)
		}
	}
	result := n.Op(op, attrs, cast...)
	if resultDType != tensor.Invalid && result.DType() == tensor.Int64 {
		return n.Cast(result, resultDType)
	}
	return result
}

// binary returns the converter of an operator of two operands with broadcasting. Div of integers rounds towards 0.
func binary(op string) converter {
	return func(n *node) []*value {
		x, y := operandPair(n)
		var attrs graph.Attrs
		if op == "div" && x.DType().IsIntegral(true) { // true: bool counts as an integer
			attrs = graph.Attrs{"rounding_mode": "trunc"}
		}
		switch op {
		case "lt", "le", "gt", "ge":
			x, y = orderedInt64(n, x), orderedInt64(n, y)
		}
		return single(widened(n, op, attrs, x, y))
	}
}

// operandPair returns the two operands. Before operator set 7, the attributes broadcast and axis align the second
// operand with an axis of the first.
func operandPair(n *node) (x, y *value) {
	x, y = n.Operand(0), n.Operand(1)
	if n.Opset >= 7 || !n.Flag("broadcast", false) || !n.HasAttr("axis") {
		return x, y
	}
	rank := n.Rank(x)
	axis := n.Axis(n.Int("axis", 0), rank)
	return x, alignedToAxis(n, y, axis, rank)
}

// alignedToAxis appends dimensions of size 1 to x. Broadcasting with a value of the given rank then aligns the first
// dimension of x with dimension axis of the value.
func alignedToAxis(n *node, x *value, axis, rank int) *value {
	shape := slices.Clone(n.SymShape(x))
	if axis+len(shape) > rank {
		n.Failf("%d dimensions that begin at axis %d do not fit into %d dimensions", len(shape), axis, rank)
	}
	for axis+len(shape) < rank {
		shape = append(shape, sym.Of(1))
	}
	return n.ReshapeSym(x, shape...)
}

// orderedInt64 maps uint64 to int64 by flipping the top bit, which preserves the order. It returns values of other
// dtypes unchanged.
func orderedInt64(n *node, x *value) *value {
	if x.DType() != tensor.Uint64 {
		return x
	}
	return n.Op("bitwise_xor", nil, n.Cast(x, tensor.Int64), int64(math.MinInt64))
}

// undoOrderedInt64 is the inverse of [orderedInt64] if dtype is uint64. It returns x unchanged for other dtypes.
func undoOrderedInt64(n *node, x *value, dtype tensor.DType) *value {
	if dtype != tensor.Uint64 {
		return x
	}
	return n.Cast(n.Op("bitwise_xor", nil, x, int64(math.MinInt64)), dtype)
}

// isInf converts IsInf. Attributes select which infinities it detects.
func isInf(n *node) []*value {
	negative, positive := n.Flag("detect_negative", true), n.Flag("detect_positive", true)
	x := n.Operand(0)
	switch {
	case negative && positive:
		return single(n.Op("isinf", nil, x))
	case positive:
		return single(n.Op("isposinf", nil, x))
	case negative:
		return single(n.Op("isneginf", nil, x))
	}
	return single(n.Op("zeros_like", graph.Attrs{"dtype": tensor.Bool}, x))
}

// castOp converts Cast. Before operator set 6, the target dtype is a name.
func castOp(n *node) []*value {
	if attr := n.RawAttr("to"); attr != nil && attr.Type == pb.AttributeString {
		elementType, ok := pb.DataTypeOf(string(attr.S))
		if !ok {
			n.Failf("there is no element type %q", attr.S)
		}
		dtype, err := modelfile.DTypeOf(int32(elementType))
		if err != nil {
			n.Failf("%w", err)
		}
		return single(n.Cast(n.Operand(0), dtype))
	}
	if elementType := pb.DataType(n.Int("to", 0)); modelfile.IsNarrow(elementType) {
		return single(castToNarrow(n, n.Operand(0), elementType))
	}
	dtype := n.DTypeAttr("to")
	if dtype == tensor.Invalid {
		n.Failf("attribute \"to\" is missing")
	}
	return single(n.Cast(n.Operand(0), dtype))
}

// bitCast converts BitCast, which reinterprets the bits of elements as a dtype of the same size.
func bitCast(n *node) []*value {
	x, dtype := n.Operand(0), n.DTypeAttr("to")
	switch {
	case dtype == tensor.Invalid:
		n.Failf("attribute \"to\" is missing")
	case dtype.Size() != x.DType().Size():
		n.Failf("elements of %s have %d bytes, elements of %s have %d", x.DType(), x.DType().Size(), dtype, dtype.Size())
	case dtype == tensor.Bool:
		return single(n.Op("ne", nil, n.Op("view", graph.Attrs{"dtype": tensor.Uint8}, x), 0)) // a bool is 0 or 1
	}
	// WithRank: the rank is the same even if the shape depends on data.
	return single(n.Op("view", graph.Attrs{"dtype": dtype}, x).WithRank(n.Rank(x)))
}

// castLike converts CastLike: operand 0 in the element type of operand 1.
func castLike(n *node) []*value {
	if elementType := n.Operand(1).ElementType(); elementType != pb.Undefined { // it has no dtype, such as int4
		return single(castToNarrow(n, n.Operand(0), elementType))
	}
	return single(n.Cast(n.Operand(0), n.Operand(1).DType()))
}

// pow converts Pow. The result has the base's dtype; the exponent may have any dtype. An integer base with a float
// exponent is computed in float64. Integers of different dtypes are computed in int64.
func pow(n *node) []*value {
	x, y := operandPair(n)
	dtype := x.DType()
	if x.DType() == y.DType() {
		return single(widened(n, "pow", nil, x, y))
	}
	switch {
	case !dtype.IsFloat() && y.DType().IsFloat():
		return single(n.Cast(n.Op("pow", nil, n.Cast(x, tensor.Float64), n.Cast(y, tensor.Float64)), dtype))
	case dtype.IsFloat():
		return single(n.Op("pow", nil, x, n.Cast(y, dtype)))
	}
	return single(n.Cast(n.Op("pow", nil, n.Cast(x, tensor.Int64), n.Cast(y, tensor.Int64)), dtype))
}

// mod converts Mod. The result has the sign of the dividend with fmod=1, and otherwise the sign of the divisor.
func mod(n *node) []*value {
	if n.Flag("fmod", false) {
		return single(widened(n, "fmod", nil, n.Operand(0), n.Operand(1)))
	}
	return single(widened(n, "remainder", nil, n.Operand(0), n.Operand(1)))
}

// bitShift converts BitShift, on unsigned integers.
func bitShift(n *node) []*value {
	x, y := n.Operand(0), n.Operand(1)
	if n.Text("direction", "") == "LEFT" {
		return single(widened(n, "bitwise_left_shift", nil, x, y))
	}
	if x.DType() != tensor.Uint64 {
		return single(widened(n, "bitwise_right_shift", nil, x, y))
	}
	// A right shift of int64 by y copies the sign bit to the y highest bits. The mask, MaxInt64 >> (y-1), clears them.
	// For y = 0, there are no copies, and the shift by -1 is undefined.
	x, y = n.Cast(x, tensor.Int64), n.Cast(y, tensor.Int64)
	shifted := n.Op("bitwise_right_shift", nil, x, y)
	mask := n.Op("bitwise_right_shift", nil, n.Op("full_like", graph.Attrs{"fill_value": int64(math.MaxInt64)}, y),
		n.Op("sub", nil, y, 1))
	masked := n.Op("bitwise_and", nil, shifted, mask)
	return single(n.Cast(n.Op("where", nil, n.Op("eq", nil, y, 0), shifted, masked), tensor.Uint64))
}

// extremum returns the converter of Max (op maximum) or Min (op minimum) of any number of operands.
func extremum(op string) converter {
	return func(n *node) []*value {
		result := n.Operand(0)
		dtype := result.DType()
		if len(n.In) == 1 {
			return single(n.Op("alias", nil, result))
		}
		result = orderedInt64(n, result)
		for i := 1; i < len(n.In); i++ {
			result = widened(n, op, nil, result, orderedInt64(n, n.Operand(i)))
		}
		return single(undoOrderedInt64(n, result, dtype))
	}
}

// sumOf converts Sum of any number of operands.
func sumOf(n *node) []*value {
	sum := n.Operand(0)
	for i := 1; i < len(n.In); i++ {
		sum = n.Op("add", nil, sum, n.Operand(i))
	}
	return single(sum)
}

// meanOf converts Mean of any number of operands.
func meanOf(n *node) []*value {
	sum := sumOf(n)[0]
	if len(n.In) == 1 {
		return single(sum)
	}
	return single(n.Op("div", nil, sum, float64(len(n.In))))
}

// where converts Where. Operand 0 is the condition.
func where(n *node) []*value {
	x, y := n.Operand(1), n.Operand(2)
	return single(widened(n, "where", nil, n.Cast(n.Operand(0), tensor.Bool), x, y))
}

// clip converts Clip. The bounds are optional operands from operator set 11 on. Known bounds become attributes of the
// op clamp. If a bound is computed, or the dtype is uint16, uint32 or uint64, the ops maximum and minimum apply the
// bounds.
func clip(n *node) []*value {
	if n.Opset < 11 {
		return clipByAttributes(n)
	}
	x := n.Operand(0)
	dtype := x.DType()
	least, greatest := n.OperandOrNil(1), n.OperandOrNil(2)
	if least == nil && greatest == nil {
		return single(x)
	}
	if isKnownOrNil(least) && isKnownOrNil(greatest) && !dtype.IsBareUnsigned() {
		attrs := graph.Attrs{}
		if least != nil {
			attrs["min"] = n.NumberAttr(least)
		}
		if greatest != nil {
			attrs["max"] = n.NumberAttr(greatest)
		}
		return single(n.Op("clamp", attrs, x))
	}
	x = orderedInt64(n, x)
	if least != nil {
		x = widened(n, "maximum", nil, x, orderedInt64(n, least))
	}
	if greatest != nil {
		x = widened(n, "minimum", nil, x, orderedInt64(n, greatest))
	}
	return single(undoOrderedInt64(n, x, dtype))
}

// clipByAttributes is [clip] before operator set 11, where the bounds are attributes.
func clipByAttributes(n *node) []*value {
	x, attrs := n.Operand(0), graph.Attrs{}
	for _, name := range []string{"min", "max"} {
		if n.HasAttr(name) {
			attrs[name] = n.Float(name, 0)
		}
	}
	if len(attrs) == 0 {
		return single(x)
	}
	return single(n.Op("clamp", attrs, x))
}

func isKnownOrNil(x *value) bool { return x == nil || x.Data() != nil }
