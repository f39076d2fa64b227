package pointwise

import (
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

var (
	powBodies     = mergeTables(bodiesOf(formula("x ** y"), floats, complexes), powInts)
	constantPower = formula("x ** e", "x", "y") // e is the plain exponent
	squareBodies  = bodiesOf(formula("x * x"), integers, floats, complexes)
)

// powInts are the kernels for integers. They are loops in Go, because expressions have no loops, and unrolled code
// would test every bit of an exponent.
var powInts = func() (t bodies) {
	t[tensor.Int8], t[tensor.Int16] = iter.Slice2(powSlice[int8]), iter.Slice2(powSlice[int16])
	t[tensor.Int32], t[tensor.Int64] = iter.Slice2(powSlice[int32]), iter.Slice2(powSlice[int64])
	t[tensor.Uint8], t[tensor.Uint16] = iter.Slice2(powSlice[uint8]), iter.Slice2(powSlice[uint16])
	t[tensor.Uint32], t[tensor.Uint64] = iter.Slice2(powSlice[uint32]), iter.Slice2(powSlice[uint64])
	return t
}()

// powSlice computes powers of integers by repeated squaring (native::powi). Overflow wraps.
func powSlice[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = powInt(a[i], b[i])
	}
}

// powInt returns a to the power e. For a negative e the result is the true power truncated to an integer, or 0 if a is
// 0.
func powInt[T integer](a, e T) T {
	if e < 0 {
		switch { // a+1 == 0 tests for -1, which the constants of unsigned types do not have
		case a == 1 || a+1 == 0 && e&1 == 0:
			return 1
		case a+1 == 0:
			return a
		}
		return 0
	}
	var result T = 1
	for ; e != 0; e >>= 1 {
		if e&1 != 0 {
			result *= a
		}
		a *= a
	}
	return result
}
