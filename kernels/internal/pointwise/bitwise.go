package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Bitwise ops support integers and bools. For bools they are the logical ops.
var (
	BitwiseAnd = bitwiseOp("bitwise_and", "Returns the bitwise and of self and `other`. Supports integers and bools.",
		"x & y",
		func(a, b int64) int64 { return a & b })
	BitwiseOr = bitwiseOp("bitwise_or", "Returns the bitwise or of self and `other`. Supports integers and bools.",
		"x | y",
		func(a, b int64) int64 { return a | b })
	BitwiseXor = bitwiseOp("bitwise_xor", "Returns the bitwise xor of self and `other`. Supports integers and bools.",
		"x ^ y",
		func(a, b int64) int64 { return a ^ b })
)

// bitwiseOp defines an op by its formula and a reference function.
func bitwiseOp(name, doc, formulaText string, reference func(a, b int64) int64) *graph.Op {
	return elementwise(kit.NoAttrs, name, doc, numberParams, &graph.Pointwise{Config: binary,
		Body: bodyByDType(name, kernelsOf(formula(formulaText), bools, integers))},
		kit.IgnoringCall(kit.ByDTypeKind(func(x []int64) int64 { return reference(x[0], x[1]) }, nil, nil)),
		kit.IntegersExample, kit.Example(nil, kit.BoolMatrix, kit.BoolMatrix))
}

// BitwiseNot flips all bits.
var BitwiseNot = elementwise(kit.NoAttrs, "bitwise_not",
	"Flips the bits of self; for bools it is the logical not.", unaryParams,
	&graph.Pointwise{Config: unary, Body: bodyByDType("bitwise_not", kernelsOf(formula("~x"), bools, integers))},
	kit.IgnoringCall(func(dtype tensor.DType, x []tensor.Scalar) tensor.Scalar {
		if dtype == tensor.Bool {
			return tensor.BoolScalar(x[0].Int() == 0)
		}
		return tensor.IntScalar(^x[0].Int())
	}),
	kit.Example(nil, kit.IntMatrix), kit.Example(nil, kit.BoolMatrix))

// Shifts use the lowest 5 bits of the count, or the lowest 6 bits for int64. This is the processor's rule, which
// PyTorch 1.13 inherits. Dtypes narrower than 32 bits are shifted as 32-bit numbers, and the lowest bits of the result
// are kept.
var (
	LeftShift = shiftOp("bitwise_left_shift", "lshift_cpu", "Shifts the bits of self left by the lowest 5 bits of "+
		"`other`, or 6 for int64.",
		"x << y",
		func(a, b int64) int64 { return a << b }, func(a, b uint64) uint64 { return a << b })
	RightShift = shiftOp("bitwise_right_shift", "rshift_cpu", "Shifts the bits of self right by the lowest 5 bits "+
		"of `other`, or 6 for int64, and keeps the sign.",
		"x >> y",
		func(a, b int64) int64 { return a >> b }, func(a, b uint64) uint64 { return a >> b })
)

// shiftOp defines a shift of a by b bits. The references are shiftSigned and, for uint64, shiftUnsigned.
func shiftOp(name, torchKernel, doc, formulaText string, shiftSigned func(a, b int64) int64,
	shiftUnsigned func(a, b uint64) uint64) *graph.Op {
	return elementwise(kit.NoAttrs, name, doc, numberParams, &graph.Pointwise{Config: binary,
		Body: namedBody(torchKernel, kernelsOf(formula(formulaText), integers))},
		kit.IgnoringCall(kit.WithUint64Case(func(x []uint64) uint64 { return shiftUnsigned(x[0], x[1]&63) },
			func(dtype tensor.DType, x []tensor.Scalar) tensor.Scalar {
				mask := int64(max(32, 8*dtype.Size()) - 1) // 31, or 63 for int64
				return tensor.IntScalar(shiftSigned(x[0].Int(), x[1].Int()&mask))
			})), kit.IntegersExample)
}
