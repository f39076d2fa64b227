package pointwise

import (
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

var (
	powKernels    = mergeKernels(kernelsOf(formula("x ** y"), floats, complexes), powIntKernels)
	constantPower = formula("x ** e", "x", "y") // e is the plain exponent
	squareKernels = kernelsOf(formula("x * x"), integers, floats, complexes)
)

// powIntKernels are the kernels for integers. They are loops in Go, because expressions have no loops, and unrolled
// code would test every bit of an exponent.
var powIntKernels = func() (table kernelTable) {
	table[tensor.Int8], table[tensor.Int16] = iter.Slice2(powSlice[int8]), iter.Slice2(powSlice[int16])
	table[tensor.Int32], table[tensor.Int64] = iter.Slice2(powSlice[int32]), iter.Slice2(powSlice[int64])
	table[tensor.Uint8], table[tensor.Uint16] = iter.Slice2(powSlice[uint8]), iter.Slice2(powSlice[uint16])
	table[tensor.Uint32], table[tensor.Uint64] = iter.Slice2(powSlice[uint32]), iter.Slice2(powSlice[uint64])
	return table
}()

// powSlice computes powers of integers by repeated squaring (native::powi). Overflow wraps.
func powSlice[T integer](dst, bases, exponents []T) {
	bases, exponents = bases[:len(dst)], exponents[:len(dst)]
	for i := range dst {
		dst[i] = powInt(bases[i], exponents[i])
	}
}

// powInt returns a power of an integer. For a negative exponent the result is the true power truncated to an integer,
// or 0 if the base is 0.
func powInt[T integer](base, exponent T) T {
	if exponent < 0 {
		switch { // base+1 == 0 tests for -1, because -1 is not a constant of unsigned types
		case base == 1 || base+1 == 0 && exponent&1 == 0:
			return 1
		case base+1 == 0:
			return base
		}
		return 0
	}
	var result T = 1
	for ; exponent != 0; exponent >>= 1 {
		if exponent&1 != 0 {
			result *= base
		}
		base *= base
	}
	return result
}
