package lane

import (
	"math"

	"github.com/graphrun/graphrun/tensor"
)

// Neutral returns the bits of the neutral element of a fold: 0 for Add, 1 for Mul, the greatest number for Min, the
// least number for Max, all bits for And, and 0 for Or. For floats the neutral element of Add is -0, which preserves a
// sum of -0. Neutral returns 0 for complex dtypes, float16 and bfloat16, which cannot be folded.
func Neutral(op Op, dtype tensor.DType) uint64 {
	if !dtype.Valid() || dtype.IsComplex() || dtype.IsReducedFloat() {
		return 0
	}
	bits := 8 * dtype.Size()
	mask := uint64(math.MaxUint64) >> (64 - bits)
	floatBits := func(x float64) uint64 {
		if dtype == tensor.Float32 {
			return uint64(math.Float32bits(float32(x)))
		}
		return math.Float64bits(x)
	}
	switch {
	case dtype.IsFloat() && op == Add:
		return floatBits(math.Copysign(0, -1))
	case dtype.IsFloat() && op == Mul:
		return floatBits(1)
	case dtype.IsFloat():
		if op == Min {
			return floatBits(math.Inf(1))
		}
		return floatBits(math.Inf(-1))
	case op == Mul:
		return 1
	case op == And && dtype == tensor.Bool:
		return 1
	case op == And:
		return mask
	case op == Min && dtype.IsSigned():
		return mask >> 1
	case op == Min:
		return mask
	case op == Max && dtype.IsSigned():
		return 1 << (bits - 1)
	}
	return 0
}
