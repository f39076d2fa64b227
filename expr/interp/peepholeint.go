package interp

import (
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// Each loop in this file has a case for contiguous operands, which is a loop over slices, and a case for any strides.

// contiguousElements returns n contiguous elements.
func contiguousElements[T any](p unsafe.Pointer, n int) []T { return unsafe.Slice((*T)(p), n) }

// logicalBody returns, for a dtype, the loop of a logical operation on numbers. A number other than 0 and -0 is true.
func logicalBody(o expr.Op) func(d tensor.DType) loopFunc {
	return func(d tensor.DType) loopFunc {
		mask := ^uint64(0) >> (64 - 8*d.Size())
		if d.IsFloat() {
			mask >>= 1
		}
		switch d.Size() {
		case 1:
			return logicalOf(o, uint8(mask))
		case 2:
			return logicalOf(o, uint16(mask))
		case 4:
			return logicalOf(o, uint32(mask))
		}
		return logicalOf(o, mask)
	}
}

func logicalOf[U word](o expr.Op, mask U) loopFunc {
	switch o {
	case expr.And:
		return logicalAnd(mask)
	case expr.Or:
		return logicalOr(mask)
	}
	return logicalXor(mask)
}

// logicalAnd evaluates both conditions before it combines them, so that Go compiles no branch. mask selects the bits
// that make a number true.
func logicalAnd[U word](mask U) loopFunc {
	return func(d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
		dst, size := contiguousElements[bool](d, n), int(unsafe.Sizeof(mask))
		if by.a == size && by.b == size {
			x, y := contiguousElements[U](a, n)[:len(dst)], contiguousElements[U](b, n)[:len(dst)]
			for i := range dst {
				u, v := x[i]&mask != 0, y[i]&mask != 0
				dst[i] = u && v
			}
			return
		}
		for i := range dst {
			u, v := *(*U)(unsafe.Add(a, i*by.a))&mask != 0, *(*U)(unsafe.Add(b, i*by.b))&mask != 0
			dst[i] = u && v
		}
	}
}

func logicalOr[U word](mask U) loopFunc {
	return func(d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
		dst, size := contiguousElements[bool](d, n), int(unsafe.Sizeof(mask))
		if by.a == size && by.b == size {
			x, y := contiguousElements[U](a, n)[:len(dst)], contiguousElements[U](b, n)[:len(dst)]
			for i := range dst {
				dst[i] = (x[i]|y[i])&mask != 0
			}
			return
		}
		for i := range dst {
			dst[i] = (*(*U)(unsafe.Add(a, i*by.a))|*(*U)(unsafe.Add(b, i*by.b)))&mask != 0
		}
	}
}

func logicalXor[U word](mask U) loopFunc {
	return func(d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
		dst, size := contiguousElements[bool](d, n), int(unsafe.Sizeof(mask))
		if by.a == size && by.b == size {
			x, y := contiguousElements[U](a, n)[:len(dst)], contiguousElements[U](b, n)[:len(dst)]
			for i := range dst {
				dst[i] = (x[i]&mask != 0) != (y[i]&mask != 0)
			}
			return
		}
		for i := range dst {
			dst[i] = (*(*U)(unsafe.Add(a, i*by.a))&mask != 0) != (*(*U)(unsafe.Add(b, i*by.b))&mask != 0)
		}
	}
}

// signedNumber is the set of signed integers. short is the set of integers of less than 32 bits.
type (
	signedNumber interface{ int8 | int16 | int32 | int64 }
	short        interface{ int8 | int16 | uint8 | uint16 }
)

// stepOfInt is heaviside of integers: 0 for x < 0, 1 for x > 0, and at0 for x = 0.
func stepOfInt[W integer](x, at0 W) W {
	above := uint8(0)
	if x > 0 {
		above = 1
	}
	r := W(above)
	if x == 0 {
		r = at0
	}
	return r
}

// remOf returns the remainder of x / y with the sign of x, or x if y is 0.
func remOf[W integer](x, y W) W {
	if exact(x, y) {
		return x - ratioOf(x, y)*y
	}
	if y != 0 {
		x %= y
	}
	return x
}

// exact reports whether float64 represents x and y exactly. The quotient then differs from the next integer.
func exact[W integer](x, y W) bool {
	const most = 1 << 53
	if unsafe.Sizeof(x) < 8 {
		return true
	}
	if ^W(0) > 0 {
		return uint64(x|y) < most
	}
	return (uint64(x)+most/2)|(uint64(y)+most/2) < most
}

// ratioOf returns the quotient of integers that float64 represents exactly. The result is unspecified if y is 0. The
// true quotient is an integer, or differs from each integer by at least 1/y, which is more than the rounding error.
// ratioOf takes half the time of an integer division and needs no test of the divisor.
func ratioOf[W integer](x, y W) W { return W(int64(float64(x) / float64(y))) }

// lowerRatioOf is ratioOf, but rounds the quotient down.
func lowerRatioOf[W integer](x, y W) W { return W(int64(math.Floor(float64(x) / float64(y)))) }

// exactModOf returns the remainder of x / y with the sign of y, or x if y is 0. float64 must represent both integers
// exactly. Unlike modOf, exactModOf is small enough to be inlined.
func exactModOf[W integer](x, y W) W { return x - lowerRatioOf(x, y)*y }

// modOf is exactModOf for all integers.
func modOf[W integer](x, y W) W {
	if exact(x, y) {
		return exactModOf(x, y)
	}
	r := remOf(x, y)
	s, unlike := r, r^y
	if unlike < 0 {
		s = r + y
	}
	if r == 0 {
		s = r
	}
	return s
}

// quotientOf returns the quotient, or 0 if y is 0. A quotient by 0 is unspecified, so any number would be valid.
func quotientOf[W integer](x, y W) W {
	if exact(x, y) {
		q := ratioOf(x, y)
		if y == 0 {
			q = 0
		}
		return q
	}
	if y != 0 {
		return x / y
	}
	return 0
}

// floorOf returns the quotient rounded down. If y is 0, it returns 0, or -1 for a negative x.
func floorOf[W integer](x, y W) W {
	if exact(x, y) {
		q, none := lowerRatioOf(x, y), W(0)
		if x < 0 {
			none--
		}
		if y == 0 {
			q = none
		}
		return q
	}
	q := quotientOf(x, y)
	m := x - q*y
	r, unlike := q, m^y
	if unlike < 0 {
		r = q - 1
	}
	if m == 0 {
		r = q
	}
	return r
}

// replaceOf returns other if x <= limit, else x.
func replaceOf[W integer](x, limit, other W) W {
	r := x
	if x <= limit {
		r = other
	}
	return r
}
