package onnx

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// same converts an operator of one operand to an op with the same meaning.
func same(op string) converter {
	return func(n *node) []*val { return one(n.widened(op, nil, n.operand(0))) }
}

func identity(n *node) []*val {
	if !n.hasOperand(0) {
		n.failf("operand 0 is missing")
	}
	return one(n.in[0])
}

// widened adds a pointwise op. Most ops do not support uint16, uint32 and uint64. For operands of these dtypes, widened
// computes in int64 and converts the result back. The lowest bits of sums, products and bitwise results are the same in
// both dtypes.
func (n *node) widened(op string, attrs graph.Attrs, operands ...any) *val {
	resultDType := tensor.Invalid
	cast := make([]any, len(operands))
	for i, o := range operands {
		cast[i] = o
		if x, ok := o.(*val); ok && x != nil && x.dtype().IsBareUnsigned() {
			resultDType = x.dtype()
			cast[i] = n.cast(x, tensor.Int64)
		}
	}
	y := n.op(op, attrs, cast...)
	if resultDType != tensor.Invalid && y.dtype() == tensor.Int64 {
		return n.cast(y, resultDType)
	}
	return y
}

// binary converts an operator of two operands with broadcasting.
func binary(op string) converter {
	return func(n *node) []*val {
		x, y := n.pair()
		var attrs graph.Attrs
		if op == "div" && x.dtype().IsIntegral(true) {
			attrs = graph.Attrs{"rounding_mode": "trunc"}
		}
		switch op {
		case "lt", "le", "gt", "ge":
			x, y = n.orderedInt64(x), n.orderedInt64(y)
		}
		return one(n.widened(op, attrs, x, y))
	}
}

// pair returns the two operands. Before operator set 7, the attributes broadcast and axis align the second operand with
// an axis of the first.
func (n *node) pair() (x, y *val) {
	x, y = n.operand(0), n.operand(1)
	if n.opset >= 7 || !n.flag("broadcast", false) || n.attrs["axis"] == nil {
		return x, y
	}
	rank := n.rank(x)
	axis := n.axis(n.int("axis", 0), rank)
	return x, n.alignedAt(y, axis, rank)
}

// alignedAt appends dimensions of size 1 to x. Broadcasting with a value of the given rank then aligns the first
// dimension of x with dimension axis of the value.
func (n *node) alignedAt(x *val, axis, rank int) *val {
	shape := slices.Clone(n.symShape(x))
	if axis+len(shape) > rank {
		n.failf("%d dimensions that begin at axis %d do not fit into %d dimensions", len(shape), axis, rank)
	}
	for axis+len(shape) < rank {
		shape = append(shape, sym.Of(1))
	}
	return n.reshapeFor(x, shape...)
}

// orderedInt64 maps uint64 to int64 by flipping the top bit, which preserves the order.
func (n *node) orderedInt64(x *val) *val {
	if x.dtype() != tensor.Uint64 {
		return x
	}
	return n.op("bitwise_xor", nil, n.cast(x, tensor.Int64), int64(math.MinInt64))
}

func isInf(n *node) []*val {
	neg, pos := n.flag("detect_negative", true), n.flag("detect_positive", true)
	x := n.operand(0)
	switch {
	case neg && pos:
		return one(n.op("isinf", nil, x))
	case pos:
		return one(n.op("isposinf", nil, x))
	case neg:
		return one(n.op("isneginf", nil, x))
	}
	return one(n.op("zeros_like", graph.Attrs{"dtype": tensor.Bool}, x))
}

// castOp converts Cast. Before operator set 6, the target dtype is a name.
func castOp(n *node) []*val {
	if a := n.attrs["to"]; a != nil && a.Type == pb.AttributeString {
		code, ok := pb.DataTypeOf(string(a.S))
		if !ok {
			n.failf("there is no element type %q", a.S)
		}
		dtype, err := dtypeOf(int32(code))
		if err != nil {
			n.failf("%w", err)
		}
		return one(n.cast(n.operand(0), dtype))
	}
	if kind := pb.DataType(n.int("to", 0)); isNarrow(kind) {
		return one(n.castToNarrow(n.operand(0), kind))
	}
	dtype := n.dtypeAttr("to")
	if dtype == tensor.Invalid {
		n.failf("attribute \"to\" is missing")
	}
	return one(n.cast(n.operand(0), dtype))
}

// bitCast converts BitCast, which reinterprets the bits of elements as a dtype of the same size.
func bitCast(n *node) []*val {
	x, dtype := n.operand(0), n.dtypeAttr("to")
	switch {
	case dtype == tensor.Invalid:
		n.failf("attribute \"to\" is missing")
	case dtype.Size() != x.dtype().Size():
		n.failf("elements of %s have %d bytes, those of %s %d", x.dtype(), x.dtype().Size(), dtype, dtype.Size())
	case dtype == tensor.Bool:
		return one(n.op("ne", nil, n.op("view", graph.Attrs{"dtype": tensor.Uint8}, x), 0)) // a bool is 0 or 1
	}
	return one(n.op("view", graph.Attrs{"dtype": dtype}, x).withRank(n.rank(x)))
}

func castLike(n *node) []*val {
	if kind := n.operand(1).narrow; kind != pb.Undefined {
		return one(n.castToNarrow(n.operand(0), kind))
	}
	return one(n.cast(n.operand(0), n.operand(1).dtype()))
}

func pow(n *node) []*val {
	x, y := n.pair()
	dtype := x.dtype()
	if x.dtype() == y.dtype() {
		return one(n.widened("pow", nil, x, y))
	}
	// The result has the base's dtype. The exponent may have any dtype.
	switch {
	case !dtype.IsFloat() && y.dtype().IsFloat():
		return one(n.cast(n.op("pow", nil, n.cast(x, tensor.Float64), n.cast(y, tensor.Float64)), dtype))
	case dtype.IsFloat():
		return one(n.op("pow", nil, x, n.cast(y, dtype)))
	}
	return one(n.cast(n.op("pow", nil, n.cast(x, tensor.Int64), n.cast(y, tensor.Int64)), dtype))
}

func mod(n *node) []*val {
	if n.flag("fmod", false) {
		return one(n.widened("fmod", nil, n.operand(0), n.operand(1)))
	}
	return one(n.widened("remainder", nil, n.operand(0), n.operand(1)))
}

func bitShift(n *node) []*val {
	x, y := n.operand(0), n.operand(1)
	if n.text("direction", "") == "LEFT" {
		return one(n.widened("bitwise_left_shift", nil, x, y))
	}
	if x.dtype() != tensor.Uint64 {
		return one(n.widened("bitwise_right_shift", nil, x, y))
	}
	// A right shift of int64 copies the sign bit. The mask clears the copies.
	x, y = n.cast(x, tensor.Int64), n.cast(y, tensor.Int64)
	shifted := n.op("bitwise_right_shift", nil, x, y)
	mask := n.op("bitwise_right_shift", nil, n.op("full_like", graph.Attrs{"fill_value": int64(math.MaxInt64)}, y),
		n.op("sub", nil, y, 1))
	masked := n.op("bitwise_and", nil, shifted, mask)
	return one(n.cast(n.op("where", nil, n.op("eq", nil, y, 0), shifted, masked), tensor.Uint64))
}

// extremum converts Max and Min of any number of operands.
func extremum(op string) converter {
	return func(n *node) []*val {
		out := n.operand(0)
		dtype := out.dtype()
		if len(n.in) == 1 {
			return one(n.op("alias", nil, out))
		}
		out = n.orderedInt64(out)
		for i := 1; i < len(n.in); i++ {
			out = n.widened(op, nil, out, n.orderedInt64(n.operand(i)))
		}
		if dtype == tensor.Uint64 {
			out = n.cast(n.op("bitwise_xor", nil, out, int64(math.MinInt64)), dtype)
		}
		return one(out)
	}
}

func sumOf(n *node) []*val {
	out := n.operand(0)
	for i := 1; i < len(n.in); i++ {
		out = n.op("add", nil, out, n.operand(i))
	}
	return one(out)
}

func meanOf(n *node) []*val {
	sum := sumOf(n)[0]
	if len(n.in) == 1 {
		return one(sum)
	}
	return one(n.op("div", nil, sum, float64(len(n.in))))
}

func where(n *node) []*val {
	x, y := n.operand(1), n.operand(2)
	return one(n.widened("where", nil, n.cast(n.operand(0), tensor.Bool), x, y))
}

// clip converts Clip. The bounds are attributes before operator set 11, and operands from set 11 on.
func clip(n *node) []*val {
	x := n.operand(0)
	attrs := graph.Attrs{}
	if n.opset < 11 {
		for _, name := range []string{"min", "max"} {
			if n.attrs[name] != nil {
				attrs[name] = n.float(name, 0)
			}
		}
		if len(attrs) == 0 {
			return one(x)
		}
		return one(n.op("clamp", attrs, x))
	}
	dtype := x.dtype()
	lo, hi := n.operandOrNil(1), n.operandOrNil(2)
	if lo == nil && hi == nil {
		return one(x)
	}
	if isKnownOrNil(lo) && isKnownOrNil(hi) && !dtype.IsBareUnsigned() {
		if lo != nil {
			attrs["min"] = n.numberAttr(lo)
		}
		if hi != nil {
			attrs["max"] = n.numberAttr(hi)
		}
		return one(n.op("clamp", attrs, x))
	}
	x = n.orderedInt64(x)
	if lo != nil {
		x = n.widened("maximum", nil, x, n.orderedInt64(lo))
	}
	if hi != nil {
		x = n.widened("minimum", nil, x, n.orderedInt64(hi))
	}
	if dtype == tensor.Uint64 {
		x = n.cast(n.op("bitwise_xor", nil, x, int64(math.MinInt64)), dtype)
	}
	return one(x)
}

func isKnownOrNil(x *val) bool { return x == nil || x.data != nil }
