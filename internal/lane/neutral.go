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
	switch {
	case dtype == tensor.Float32:
		return uint64(math.Float32bits(float32(neutralFloat(op))))
	case dtype.IsFloat():
		return math.Float64bits(neutralFloat(op))
	}
	bits := 8 * dtype.Size()
	allBits := uint64(math.MaxUint64) >> (64 - bits)
	switch {
	case op == Mul:
		return 1
	case op == And && dtype == tensor.Bool:
		return 1
	case op == And:
		return allBits
	case op == Min && dtype.IsSigned():
		return allBits >> 1
	case op == Min:
		return allBits
	case op == Max && dtype.IsSigned():
		return 1 << (bits - 1)
	}
	return 0
}

// neutralFloat returns the neutral element of a fold of floats.
func neutralFloat(op Op) float64 {
	switch op {
	case Add:
		return math.Copysign(0, -1)
	case Mul:
		return 1
	case Min:
		return math.Inf(1)
	}
	return math.Inf(-1)
}
