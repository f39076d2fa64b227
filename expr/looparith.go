package expr

import (
	"unsafe"
)

// The loops of package expr are written out, an operation in each: a loop that calls a function for each element is
// several times slower. All take operands of any stride, so that what is the same for all elements, a part of complex
// numbers and what lies one behind another are read by the same loop: a product for an address costs nothing beside a
// load, and an element takes a cycle either way.

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

// body computes n elements of d from those of a, b, c and e; of two results the other is g. What lies at a result may be
// what lies at an operand, if elements are as far apart, and else does not overlap it.
type body func(d, a, b, c, e, g unsafe.Pointer, n int, by *strides)

// el is the element that lies at a number of bytes behind an address.
func el[T any](p unsafe.Pointer, at int) *T { return (*T)(unsafe.Add(p, at)) }

func addV[T realNumber](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	for i := range n {
		*el[T](d, i*sd) = *el[T](a, i*sa) + *el[T](b, i*sb)
	}
}

func subV[T realNumber](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	for i := range n {
		*el[T](d, i*sd) = *el[T](a, i*sa) - *el[T](b, i*sb)
	}
}

func mulV[T realNumber](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	for i := range n {
		*el[T](d, i*sd) = *el[T](a, i*sa) * *el[T](b, i*sb)
	}
}

func divV[T float](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	for i := range n {
		*el[T](d, i*sd) = *el[T](a, i*sa) / *el[T](b, i*sb)
	}
}

// divInt gives 0 of a divisor of 0, for which any number will do.
func divInt[T integer](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	for i := range n {
		var q T
		if y := *el[T](b, i*sb); y != 0 {
			q = *el[T](a, i*sa) / y
		}
		*el[T](d, i*sd) = q
	}
}

func negV[T realNumber](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa := by.d, by.a
	for i := range n {
		*el[T](d, i*sd) = -*el[T](a, i*sa)
	}
}

func absInt[T integer](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa := by.d, by.a
	for i := range n {
		x := *el[T](a, i*sa)
		*el[T](d, i*sd) = max(x, -x)
	}
}

// clearSign clears the upper bit: the sign of floats.
func clearSign[U word](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, mask := by.d, by.a, ^U(0)>>1
	for i := range n {
		*el[U](d, i*sd) = *el[U](a, i*sa) & mask
	}
}

func minInt[T integer](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	for i := range n {
		*el[T](d, i*sd) = min(*el[T](a, i*sa), *el[T](b, i*sb))
	}
}

func maxInt[T integer](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	for i := range n {
		*el[T](d, i*sd) = max(*el[T](a, i*sa), *el[T](b, i*sb))
	}
}

// minFloat and maxFloat are not Go's, which differ where two zeros meet: expressions take the second, Go the negative
// one or the positive one. The bits of the one or the other are moved under a condition, without a branch.
func minFloat[T float, U word](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	for i := range n {
		u, p, r := *el[T](a, i*sa), *el[U](a, i*sa), *el[U](b, i*sb)
		if u < *el[T](b, i*sb) {
			r = p
		}
		if u != u {
			r = p
		}
		*el[U](d, i*sd) = r
	}
}

func maxFloat[T float, U word](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	for i := range n {
		u, p, r := *el[T](a, i*sa), *el[U](a, i*sa), *el[U](b, i*sb)
		if u > *el[T](b, i*sb) {
			r = p
		}
		if u != u {
			r = p
		}
		*el[U](d, i*sd) = r
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
	for i := range n {
		v := *el[T](a, i*sa)
		if v-sign <= infinity {
			v = 0
		}
		*el[T](d, i*sd) = v
	}
}
