package pointwise

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// divisionFormulas has the formulas of an integer division or remainder. Signed and unsigned dtypes have separate
// formulas, because rounding down and rounding toward 0 differ only for signed numbers.
type divisionFormulas struct{ signed, unsigned string }

// integerDivision returns the kernels of an integer division or remainder. A kernel first checks for a divisor of 0.
func integerDivision(formulas divisionFormulas) (table kernelTable) {
	table = mergeKernels(kernelsOf(formula(formulas.signed), signedInts),
		kernelsOf(formula(formulas.unsigned), unsignedInts))
	table[tensor.Int8] = rejectZeros[int8](table[tensor.Int8])
	table[tensor.Int16] = rejectZeros[int16](table[tensor.Int16])
	table[tensor.Int32] = rejectZeros[int32](table[tensor.Int32])
	table[tensor.Int64] = rejectZeros[int64](table[tensor.Int64])
	table[tensor.Uint8] = rejectZeros[uint8](table[tensor.Uint8])
	table[tensor.Uint16] = rejectZeros[uint16](table[tensor.Uint16])
	table[tensor.Uint32] = rejectZeros[uint32](table[tensor.Uint32])
	table[tensor.Uint64] = rejectZeros[uint64](table[tensor.Uint64])
	return table
}

// rejectZeros adds a check to a kernel: it fails if operand 1 has an element 0.
func rejectZeros[T integer](kernel rule.Kernel) rule.Kernel {
	const divisor = 1 // index of the operand
	return iter.WithCheck(kernel, divisor, func(divisors []T) error {
		if HasZero(divisors) {
			return kit.ErrZeroDivision
		}
		return nil
	})
}

// HasZero reports whether an element is 0. It tests eight bytes at a time. Subtracting 1 from each element sets the
// highest bit of the lowest zero element, because 0-1 wraps. &^ word drops elements whose highest bit was already
// set. If no element is 0, the masked result is 0.
func HasZero[T integer](list []T) bool {
	size := int(unsafe.Sizeof(T(0)))
	elementsPerWord := 8 / size
	ones := ^uint64(0) / (1<<(8*size) - 1)
	highBits, zeroBits := ones<<(8*size-1), uint64(0)
	words := len(list) / elementsPerWord
	for _, word := range unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(list))), words) {
		zeroBits |= (word - ones) &^ word & highBits
	}
	return zeroBits != 0 || slices.Contains(list[words*elementsPerWord:], 0)
}

// floorQuotient returns the quotient rounded down.
func floorQuotient(dividend, divisor int64) int64 {
	quotient := dividend / divisor
	if remainder := dividend - quotient*divisor; remainder != 0 && (remainder < 0) != (divisor < 0) {
		quotient--
	}
	return quotient
}

// checkedReference returns the reference of an integer division. Like the kernels, it fails if the divisor is 0.
func checkedReference[T int64 | uint64](divide func(a, b T) T) func(x []T) T {
	return func(x []T) T {
		if x[1] == 0 {
			panic(kit.ErrZeroDivision) // kit.PointwiseRef returns this error
		}
		return divide(x[0], x[1])
	}
}
