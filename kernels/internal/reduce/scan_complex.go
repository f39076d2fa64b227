package reduce

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// This file has the loops of cumsum and cumprod for complex numbers, which expressions do not support.

// complexScanLoops returns the loops of a scan by op, which is Add or Mul.
func complexScanLoops[T complex64 | complex128](op expr.Op) scanLoops {
	if op == expr.Mul {
		return newComplexScanLoops(1, prodComplexRow[T], prodComplexColumns[T])
	}
	return newComplexScanLoops(0, sumComplexRow[T], sumComplexColumns[T])
}

// newComplexScanLoops returns the loops of a scan. initial is the value before the first element. row scans one line.
// columns makes one step in several adjacent lines. running has the running value of each line.
func newComplexScanLoops[T tensor.Element](initial complex128, row func(running *complex128, dst, x []T),
	columns func(running []complex128, dst, x []T)) scanLoops {
	return scanLoops{tensor.DTypeOf[T](), expr.Scanner{
		Carry: int(unsafe.Sizeof(initial)),
		Begin: func(carry unsafe.Pointer, lines int) {
			running := unsafe.Slice((*complex128)(carry), lines)
			for i := range running {
				running[i] = initial
			}
		},
		Row: func(carry, dst, x unsafe.Pointer, n int) {
			row((*complex128)(carry), unsafe.Slice((*T)(dst), n), unsafe.Slice((*T)(x), n))
		},
		Columns: func(carry, dst, x unsafe.Pointer, lines int) {
			columns(unsafe.Slice((*complex128)(carry), lines), unsafe.Slice((*T)(dst), lines), unsafe.Slice((*T)(x), lines))
		},
	}}
}

// The following functions are the loops of [newComplexScanLoops]. Row functions scan the line x into dst, from the
// running value on. Column functions make one step in each line i, whose running value is running[i].

func sumComplexRow[T complex64 | complex128](running *complex128, dst, x []T) {
	sum := *running
	for i, element := range x {
		sum += complex128(element)
		dst[i] = T(sum)
	}
	*running = sum
}

func prodComplexRow[T complex64 | complex128](running *complex128, dst, x []T) {
	product := *running
	for i, element := range x {
		product = kit.MulComplex(product, complex128(element))
		dst[i] = T(product)
	}
	*running = product
}

func sumComplexColumns[T complex64 | complex128](running []complex128, dst, x []T) {
	for i := range running {
		running[i] += complex128(x[i])
		dst[i] = T(running[i])
	}
}

func prodComplexColumns[T complex64 | complex128](running []complex128, dst, x []T) {
	for i := range running {
		running[i] = kit.MulComplex(running[i], complex128(x[i]))
		dst[i] = T(running[i])
	}
}
