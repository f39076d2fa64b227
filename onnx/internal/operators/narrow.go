package operators

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx/internal/modelfile"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts values to narrow element types: ONNX types of 4 or 8 bits that have no dtype
// ([modelfile.IsNarrow]). Values of these types are stored in a wider dtype.

// castToNarrow converts x to an element type for which [modelfile.IsNarrow] is true.
func castToNarrow(n *node, x *value, kind pb.DataType) *value {
	if modelfile.IsFloat8(kind) {
		return castToFloat8(n, x, kind, n.Flag("saturate", true))
	}
	return castToFourBits(n, x, kind)
}

// castToFloat8 rounds x to floats of eight bits, ties to even, and stores them as float16. If saturates is true,
// numbers out of range become the nearest finite number. Otherwise they become infinite, or NaN if the type has no
// infinities.
func castToFloat8(n *node, x *value, kind pb.DataType, saturates bool) *value {
	_, _, greatest, lacksNegativeZero := modelfile.Float8Format(kind)
	x = n.Cast(x, tensor.Float32)
	step := float8Step(n, x, kind)
	rounded := n.Op("mul", nil, n.Op("round", nil, n.Op("div", nil, x, step)), step)
	if lacksNegativeZero {
		rounded = n.Op("add", nil, rounded, 0.0) // turns -0 into 0
	}
	if saturates {
		rounded = n.Op("clamp", graph.Attrs{"min": -greatest, "max": greatest}, rounded)
	} else {
		overflow := math.NaN()
		if kind == pb.Float8E5M2 { // the only one of the types with infinities
			overflow = math.Inf(1) // the product has the sign of the number
		}
		rounded = n.Op("where", nil, n.Op("gt", nil, n.Op("abs", nil, rounded), greatest),
			n.Op("mul", nil, rounded, overflow), rounded)
	}
	return n.Cast(rounded, tensor.Float16).WithElementType(kind)
}

// float8Step returns the distance of the numbers of a type of eight bits near x, a float32.
func float8Step(n *node, x *value, kind pb.DataType) *value {
	mantissaBits, bias, greatest, _ := modelfile.Float8Format(kind)
	rank := n.Rank(x)
	bits := n.Op("view", graph.Attrs{"dtype": tensor.Int32}, x).WithRank(rank)
	power := n.Op("bitwise_and", nil, bits, 0x7F800000) // the bits of 2^floor(log2 |x|)
	power = n.Op("view", graph.Attrs{"dtype": tensor.Float32}, power).WithRank(rank)
	// 2^(floor(log2 |x|) - mantissaBits), but at least the distance of subnormal numbers, 2^(1-bias-mantissaBits).
	// The upper limit keeps the step finite if x is infinite.
	return n.Op("clamp", graph.Attrs{"min": math.Ldexp(1, 1-bias-mantissaBits), "max": greatest},
		n.Op("mul", nil, power, math.Ldexp(1, -mantissaBits)))
}

// castToFourBits converts x to integers of four bits, which are stored as int8 or uint8. Higher bits are discarded.
func castToFourBits(n *node, x *value, kind pb.DataType) *value {
	dtype, _, _ := fourBitRange(kind)
	lowBits := n.Op("bitwise_and", nil, n.Cast(x, dtype), 15)
	if kind == pb.Uint4 {
		return lowBits
	}
	// (b ^ 8) - 8 extends the sign: 0 to 7 stay, 8 to 15 become -8 to -1.
	return n.Op("sub", nil, n.Op("bitwise_xor", nil, lowBits, 8), 8)
}

// fourBitRange returns the dtype that stores integers of type Int4 or Uint4, and their inclusive range.
func fourBitRange(kind pb.DataType) (dtype tensor.DType, least, greatest int) {
	if kind == pb.Int4 {
		return tensor.Int8, -8, 7
	}
	return tensor.Uint8, 0, 15
}

// quantizedElementType returns the element type of the result of QuantizeLinear if no dtype corresponds to this type,
// otherwise Undefined. The element type is the type of the zero point if that type has no dtype, otherwise the
// attribute output_dtype.
func quantizedElementType(n *node) pb.DataType {
	kind := pb.DataType(n.Int("output_dtype", 0))
	if zero := n.OperandOrNil(2); zero != nil && zero.ElementType() != pb.Undefined {
		kind = zero.ElementType()
	}
	if modelfile.IsNarrow(kind) {
		return kind
	}
	return pb.Undefined
}

// quantizeToNarrow quantizes x to an element type for which [modelfile.IsNarrow] is true. It ignores the zero points of
// floats of eight bits, which are always 0. zero may be nil.
func quantizeToNarrow(n *node, x, scale, zero *value, kind pb.DataType) *value {
	scaled := n.Op("div", nil, n.Cast(x, tensor.Float32), n.Cast(perAxis(n, scale, x), tensor.Float32))
	if modelfile.IsFloat8(kind) {
		return castToFloat8(n, scaled, kind, n.Flag("saturate", true))
	}
	dtype, least, greatest := fourBitRange(kind)
	scaled = n.Op("round", nil, scaled)
	if zero != nil {
		scaled = n.Op("add", nil, scaled, n.Cast(perAxis(n, zero, x), tensor.Float32))
	}
	return n.Cast(n.Op("clamp", graph.Attrs{"min": least, "max": greatest}, scaled), dtype)
}
