package interp

import "unsafe"

//go:generate go run ../../internal/genloops -out loops_gen.go

// The loops of package expr are written out, an operation in each: a loop that calls a function for each element is
// several times slower. Those that differ in the operation alone are generated (loops_gen.go). All take operands of any
// stride, so that one loop reads what lies one behind another, a part of complex numbers, and what is the same for all
// elements. Where addresses go on by strides, an element takes a cycle, and two are in a turn where there is little
// else in it; four are in a turn where all lie one behind another. No address is made of what lies behind the last
// element. There is at least one.

type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

type float interface{ float32 | float64 }

type realNumber interface{ integer | float }

// word has the bits of an element.
type word interface {
	uint8 | uint16 | uint32 | uint64
}

// strides are the bytes from an element to the next, by operand: 0 for what is the same for all.
type strides struct{ d, a, b, c, e, g int }

// loopFunc computes n elements of d from those of a, b, c and e; of two results the other is g. What lies at a result
// may be what lies at an operand, if elements are as far apart, and else does not overlap it.
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

// reluV is the greater of x and 0 by the bits of floats: those from -0 to negative infinity become 0, and NaNs stay.
// It has no branch, and takes two thirds of the time of Go's max.
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
