package expr

import (
	"math"
	"unsafe"
)

// Loops that choose among results would compute all of them, or take a branch that a processor guesses wrong half of
// the time. These choose what a result is computed from, by moves under conditions of bits that are loaded as such.

// lerpV is lerp with a weight of any size: a + c*(b-a) or b - (b-a)*(1-c), of which the first is a - (b-a)*(-0-c).
// Of a weight that is NaN either is NaN.
func lerpV[T float, U uint32 | uint64](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	first, last := T(math.Copysign(0, -1)), T(1)
	zero, one := bitsOf[U](first), bitsOf[U](last)
	if size := int(unsafe.Sizeof(T(0))); *by == (strides{d: size, a: size, b: size, c: size}) {
		for i := range n {
			x, y, w := *(*T)(unsafe.Add(a, i*size)), *(*T)(unsafe.Add(b, i*size)), *(*T)(unsafe.Add(c, i*size))
			from, far, of := *(*U)(unsafe.Add(a, i*size)), *(*U)(unsafe.Add(b, i*size)), zero
			if w >= 0.5 {
				from = far
			}
			if w >= 0.5 {
				of = one
			}
			*(*T)(unsafe.Add(d, i*size)) = ofBits[T](from) - T((y-x)*(ofBits[T](of)-w))
		}
		return
	}
	for i := range n {
		x, y, w := *(*T)(unsafe.Add(a, i*by.a)), *(*T)(unsafe.Add(b, i*by.b)), *(*T)(unsafe.Add(c, i*by.c))
		from, of := x, first
		if w >= 0.5 {
			from, of = y, last
		}
		*(*T)(unsafe.Add(d, i*by.d)) = from - T((y-x)*(of-w))
	}
}

// shrinkV brings a nearer to 0 by c where it is above b or below e, and else to 0.
func shrinkV[T float, U uint32 | uint64](d, a, b, c, e, _ unsafe.Pointer, n int, by *strides) {
	if by.b|by.c|by.e == 0 && *(*T)(b) >= 0 && *(*T)(e) == -*(*T)(b) {
		shrinkEven[T, U](d, a, *(*T)(b), *(*U)(c), n, by)
		return
	}
	for i := range n {
		x := *(*T)(unsafe.Add(a, i*by.a))
		high, bias, low := *(*T)(unsafe.Add(b, i*by.b)), *(*T)(unsafe.Add(c, i*by.c)), *(*T)(unsafe.Add(e, i*by.e))
		r := x * 0
		switch {
		case x > high:
			r = x - bias
		case x < low:
			r = x + bias
		}
		*(*T)(unsafe.Add(d, i*by.d)) = r
	}
}

// shrinkEven is that of what is above high in magnitude, as one comparison of bits tells: without the sign those of
// numbers above it, up to infinity, are a span. The rest is multiplied by 0, and others by 1.
func shrinkEven[T float, U uint32 | uint64](d, a unsafe.Pointer, high T, bias U, n int, by *strides) {
	unit, infinity := T(1), T(math.Inf(1))
	one, sign := bitsOf[U](unit), ^(^U(0) >> 1)
	least := bitsOf[U](high)&^sign + 1 // and of -0 that of 0
	span := bitsOf[U](infinity) - least
	if high == infinity {
		least, span = ^U(0), 0 // none
	}
	sd, sa := by.d, by.a
	for ; ; d, a = unsafe.Add(d, sd), unsafe.Add(a, sa) {
		u := *(*U)(a)
		less, times := u&sign^bias, one
		if u&^sign-least > span {
			less = 0
		}
		if u&^sign-least > span {
			times = 0
		}
		*(*T)(d) = (*(*T)(a) - ofBits[T](less)) * ofBits[T](times)
		if n--; n == 0 {
			return
		}
	}
}
