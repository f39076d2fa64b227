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

// This file converts pointwise operators: arithmetic, comparisons, casts, Where and Clip. Pointwise ops compute uint16,
// uint32 and uint64 in these dtypes. Reductions, sorts and products reject them, as in PyTorch: see [orderedInt64].

// unary returns a converter that replaces an operator with one operand and no attributes by an equivalent op.
func unary(op string) converter {
	return func(n *node) []*value { return single(n.Op(op, nil, n.Operand(0))) }
}

// identity converts Identity.
func identity(n *node) []*value {
	if !n.HasOperand(0) {
		n.Failf("operand 0 is missing")
	}
	return single(n.In[0])
}

// binary returns the converter of an operator of two operands with broadcasting. Div of integers rounds towards 0.
func binary(op string) converter {
	return func(n *node) []*value {
		x, y := operandPair(n)
		var attrs graph.Attrs
		if op == "div" && x.DType().IsIntegral(true) { // true: bool counts as an integer
			attrs = graph.Attrs{"rounding_mode": "trunc"}
		}
		return single(n.Op(op, attrs, x, y))
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
	elementType, x := pb.DataType(n.Int("to", 0)), n.Operand(0)
	switch {
	case modelfile.IsNarrow(elementType):
		return single(castToNarrow(n, x, elementType))
	case elementType == pb.String:
		return single(castToText(n, x))
	}
	dtype := n.DTypeAttr("to")
	if dtype == tensor.Invalid {
		n.Failf("attribute \"to\" is missing")
	}
	return single(castTo(n, x, dtype))
}

// castTo returns x, numbers or strings, in a dtype.
func castTo(n *node, x *value, dtype tensor.DType) *value {
	if x.HasStrings() {
		return n.Op("string_to_number", graph.Attrs{"dtype": dtype}, x)
	}
	return n.Cast(x, dtype)
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
	if n.Operand(1).HasStrings() {
		return single(castToText(n, n.Operand(0)))
	}
	return single(castTo(n, n.Operand(0), n.Operand(1).DType()))
}

// pow converts Pow. The result has the base's dtype; the exponent may have any dtype. An integer base with a float
// exponent is computed in float64. Integers of different dtypes are computed in int64, or in uint64 for exponents of
// this dtype: the lowest bits of the result are the same.
func pow(n *node) []*value {
	x, y := operandPair(n)
	dtype := x.DType()
	computed := tensor.Int64
	switch {
	case dtype.IsFloat() || dtype == y.DType():
		computed = dtype
	case y.DType().IsFloat():
		computed = tensor.Float64
	case y.DType() == tensor.Uint64:
		computed = tensor.Uint64
	}
	return single(n.Cast(n.Op("pow", nil, n.Cast(x, computed), n.Cast(y, computed)), dtype))
}

// mod converts Mod. The result has the sign of the dividend with fmod=1, and otherwise the sign of the divisor.
func mod(n *node) []*value {
	if n.Flag("fmod", false) {
		return single(n.Op("fmod", nil, n.Operand(0), n.Operand(1)))
	}
	return single(n.Op("remainder", nil, n.Operand(0), n.Operand(1)))
}

// bitShift converts BitShift, on unsigned integers. A shift by at least the number of bits gives 0; the ops would use
// only the lowest bits of such a count.
func bitShift(n *node) []*value {
	x, y := n.Operand(0), n.Operand(1)
	op := "bitwise_right_shift"
	if n.Text("direction", "") == "LEFT" {
		op = "bitwise_left_shift"
	}
	isInRange := n.Op("lt", nil, y, 8*x.DType().Size())
	return single(n.Op("where", nil, isInRange, n.Op(op, nil, x, y), 0))
}

// extremum returns the converter of Max (op maximum) or Min (op minimum) of any number of operands.
func extremum(op string) converter {
	return func(n *node) []*value {
		result := n.Operand(0)
		if len(n.In) == 1 {
			return single(n.Op("alias", nil, result))
		}
		for i := 1; i < len(n.In); i++ {
			result = n.Op(op, nil, result, n.Operand(i))
		}
		return single(result)
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
	return single(n.Op("where", nil, n.Cast(n.Operand(0), tensor.Bool), x, y))
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
	if least != nil {
		x = n.Op("maximum", nil, x, least)
	}
	if greatest != nil {
		x = n.Op("minimum", nil, x, greatest)
	}
	return single(x)
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
