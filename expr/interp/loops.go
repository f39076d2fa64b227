package interp

import "unsafe"

//go:generate go run ../../internal/genloops -out loops_gen.go

// Each operation has a separate loop, because a loop that calls a function for each element is several times slower.
// Loops that differ only in their operation are generated (loops_gen.go). Operands have any stride, for example the
// stride of a part of complex numbers, or 0 for a single element. Loops over contiguous operands are unrolled by four,
// and other loops by two if their body is short. Loops compute no address beyond the last element. There is at least
// one element.

type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

type float interface{ float32 | float64 }

type realNumber interface{ integer | float }

// word is an unsigned integer with the bits of an element.
type word interface {
	uint8 | uint16 | uint32 | uint64
}

// strides are the bytes between elements of each operand, or 0 for an operand that is a single element.
type strides struct{ d, a, b, c, e, g int }

// loopFunc computes n elements of the result d from the operands a, b, c and e. g is a second result. A result may have
// the same address as an operand with the same stride, and must not overlap operands otherwise.
type loopFunc func(d, a, b, c, e, g unsafe.Pointer, n int, by *strides)

func absInt[T integer](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa := by.d, by.a
	for ; ; d, a = unsafe.Add(d, sd), unsafe.Add(a, sa) {
		x := *(*T)(a)
		*(*T)(d) = max(x, -x)
		if n--; n == 0 {
			return
		}
	}
}

// reluV computes max(x, 0) by comparing bits. Numbers from -0 to negative infinity become 0, and NaN is preserved. The
// loop has no branch and takes two thirds of the time of the built-in max.
func reluV[T uint32 | uint64](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa := by.d, by.a
	sign := ^T(0)>>1 + 1
	infinity := T(0xff) << 23
	if unsafe.Sizeof(sign) == 8 {
		infinity = T(uint64(0x7ff) << 52 & uint64(^T(0)))
	}
	for ; ; d, a = unsafe.Add(d, sd), unsafe.Add(a, sa) {
		v := *(*T)(a)
		if v-sign <= infinity {
			v = 0
		}
		*(*T)(d) = v
		if n--; n == 0 {
			return
		}
	}
}
