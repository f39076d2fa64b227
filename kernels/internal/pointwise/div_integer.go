package pointwise

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// integral returns the kernels of an integer division, which check for a divisor of 0 first. Unsigned quotients are
// rounded the same way in all modes.
func integral(ofSigned, ofUnsigned string) (t bodies) {
	t = join(bodiesOf(formula(ofSigned), signed), bodiesOf(formula(ofUnsigned), unsigned))
	t[tensor.Int8], t[tensor.Int16] = nonZero[int8](t[tensor.Int8]), nonZero[int16](t[tensor.Int16])
	t[tensor.Int32], t[tensor.Int64] = nonZero[int32](t[tensor.Int32]), nonZero[int64](t[tensor.Int64])
	t[tensor.Uint8], t[tensor.Uint16] = nonZero[uint8](t[tensor.Uint8]), nonZero[uint16](t[tensor.Uint16])
	t[tensor.Uint32], t[tensor.Uint64] = nonZero[uint32](t[tensor.Uint32]), nonZero[uint64](t[tensor.Uint64])
	return t
}

func nonZero[T integer](k rule.Kernel) rule.Kernel {
	return iter.Refusing(k, 1, func(b []T) error {
		if hasZero(b) {
			return kit.ErrZeroDivision
		}
		return nil
	})
}

// hasZero tests eight bytes at a time: the subtraction borrows from the lowest zero element, which sets its highest
// bit; without a zero, no such bit is set.
func hasZero[T integer](v []T) bool {
	size := int(unsafe.Sizeof(T(0)))
	each := 8 / size
	ones := ^uint64(0) / (1<<(8*size) - 1)
	uppers, found := ones<<(8*size-1), uint64(0)
	words := len(v) / each
	for _, w := range unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(v))), words) {
		found |= (w - ones) &^ w & uppers
	}
	return found != 0 || slices.Contains(v[words*each:], 0)
}

// floorQuotient returns a/b rounded down.
func floorQuotient(a, b int64) int64 {
	q := a / b
	if r := a - q*b; r != 0 && (r < 0) != (b < 0) {
		q--
	}
	return q
}

// byDivisor makes the reference of an integer division, which fails for a divisor of 0 as kernels do.
func byDivisor[T int64 | uint64](f func(a, b T) T) func(x []T) T {
	return func(x []T) T {
		if x[1] == 0 {
			panic(kit.ErrZeroDivision) // kit.PointwiseRef returns this error
		}
		return f(x[0], x[1])
	}
}

// stepRounding returns the rounding of one step in a float dtype; numbers of other dtypes are unchanged.
func stepRounding(d tensor.DType) func(float64) float64 {
	if narrow := roundingTo(d); narrow != nil {
		return func(x float64) float64 { return float64(narrow(float32(x))) }
	}
	if d == tensor.Float32 {
		return func(x float64) float64 { return float64(float32(x)) }
	}
	return func(x float64) float64 { return x }
}

// complexRounding is stepRounding for both parts.
func complexRounding(d tensor.DType) func(complex128) complex128 {
	part := stepRounding(d.ToReal())
	return func(x complex128) complex128 { return complex(part(real(x)), part(imag(x))) }
}

// roundingTo returns the rounding to a 16-bit float; nil for other dtypes.
func roundingTo(d tensor.DType) func(float32) float32 {
	switch d {
	case tensor.BFloat16:
		return func(x float32) float32 { return tensor.BF16Of(x).Float32() }
	case tensor.Float16:
		return func(x float32) float32 { return tensor.HalfOf(x).Float32() }
	}
	return nil
}
