package pointwise

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// integral states a division of integers, with a look for a divisor of 0 before it; of unsigned ones the quotient is
// rounded the same way in all modes.
func integral(ofSigned, ofUnsigned string) (t bodies) {
	t = join(stated(formula(ofSigned), signed), stated(formula(ofUnsigned), unsigned))
	t[tensor.Int8], t[tensor.Int16] = nonZero[int8](t[tensor.Int8]), nonZero[int16](t[tensor.Int16])
	t[tensor.Int32], t[tensor.Int64] = nonZero[int32](t[tensor.Int32]), nonZero[int64](t[tensor.Int64])
	t[tensor.Uint8], t[tensor.Uint16] = nonZero[uint8](t[tensor.Uint8]), nonZero[uint16](t[tensor.Uint16])
	t[tensor.Uint32], t[tensor.Uint64] = nonZero[uint32](t[tensor.Uint32]), nonZero[uint64](t[tensor.Uint64])
	return t
}

func nonZero[T integer](k iter.Kernel) iter.Kernel {
	return iter.Refusing(k, 1, func(b []T) error {
		if slices.Contains(b, 0) {
			return kit.ErrZeroDivision
		}
		return nil
	})
}

// floorQuotient is a/b rounded down.
func floorQuotient(a, b int64) int64 {
	q := a / b
	if r := a - q*b; r != 0 && (r < 0) != (b < 0) {
		q--
	}
	return q
}

// byDivisor makes a reference of a division of integers, which fails as loops do for a
// divisor of 0.
func byDivisor(f func(a, b int64) int64) func(x []int64) int64 {
	return func(x []int64) int64 {
		if x[1] == 0 {
			panic(kit.ErrZeroDivision) // pointwiseRef returns it
		}
		return f(x[0], x[1])
	}
}

// mod32 is math.Mod, exact as that is, some times faster where the quotient is below
// 2^29: its product with the 24 bits of b then fits the 53 bits of a float64.
func mod32(a, b float32) float32 {
	x, y := float64(a), float64(b)
	q := math.Trunc(x / y)
	if !(math.Abs(q) < 1<<29) || math.IsInf(y, 0) {
		return float32(math.Mod(x, y))
	}
	r := x - q*y
	// The quotient may have been rounded up to the next integer.
	if r != 0 && (r < 0) != (x < 0) {
		r += math.Copysign(y, x)
	}
	return float32(math.Copysign(r, x))
}

// roundingTo rounds to a 16-bit float; it is nil for other dtypes.
func roundingTo(d tensor.DType) func(float32) float32 {
	switch d {
	case tensor.BFloat16:
		return func(x float32) float32 { return tensor.BF16Of(x).Float32() }
	case tensor.Float16:
		return func(x float32) float32 { return tensor.HalfOf(x).Float32() }
	}
	return nil
}
