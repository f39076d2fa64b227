package expr

import (
	"math"
	"unsafe"
)

// Loops that choose among results would compute all of them, or take a branch that a processor guesses wrong half of
// the time. These choose what a result is computed from, by moves under conditions of bits that are loaded as such.

// lerpV is lerp with a weight of any size: a + c*(b-a) or b - (b-a)*(1-c), of which the first is a - (b-a)*(-0-c).
func lerpV[T float, U uint32 | uint64](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	first, last := T(math.Copysign(0, -1)), T(1)
	zero, one := bitsOf[U](first), bitsOf[U](last)
	if size := int(unsafe.Sizeof(T(0))); *by == (strides{d: size, a: size, b: size, c: size}) {
		for i := range n {
			x, y, w := *(*T)(unsafe.Add(a, i*size)), *(*T)(unsafe.Add(b, i*size)), *(*T)(unsafe.Add(c, i*size))
			near, from, of := *(*U)(unsafe.Add(a, i*size)), *(*U)(unsafe.Add(b, i*size)), one
			if w < 0.5 {
				from = near
			}
			if w < 0.5 {
				of = zero
			}
			*(*T)(unsafe.Add(d, i*size)) = ofBits[T](from) - T((y-x)*(ofBits[T](of)-w))
		}
		return
	}
	for i := range n {
		x, y, w := *(*T)(unsafe.Add(a, i*by.a)), *(*T)(unsafe.Add(b, i*by.b)), *(*T)(unsafe.Add(c, i*by.c))
		from, of := y, last
		if w < 0.5 {
			from, of = x, first
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

// clampV bounds a by b and then by c: the minimum of a maximum. The sum of four tells of NaN.
func clampV[T float, U uint32 | uint64](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	i, size := 0, int(unsafe.Sizeof(T(0)))
	if *by == (strides{d: size, a: size, b: size, c: size}) {
		for last := n - 4; i <= last; i += 4 {
			x, y, z := (*[4]T)(unsafe.Add(a, i*size)), (*[4]T)(unsafe.Add(b, i*size)), (*[4]T)(unsafe.Add(c, i*size))
			dst := (*[4]U)(unsafe.Add(d, i*size))
			sum := (x[0] + y[0] + z[0]) + (x[1] + y[1] + z[1]) + ((x[2] + y[2] + z[2]) + (x[3] + y[3] + z[3]))
			if sum != sum {
				clampAny[T](unsafe.Pointer(dst), unsafe.Pointer(x), unsafe.Pointer(y), unsafe.Pointer(z), 4, by)
				continue
			}
			p, q, r := (*[4]U)(unsafe.Pointer(x)), (*[4]U)(unsafe.Pointer(y)), (*[4]U)(unsafe.Pointer(z))
			v, low, high := p[0], q[0], r[0]
			if x[0] >= z[0] {
				v = high
			}
			if y[0] >= z[0] {
				low = high
			}
			if x[0] <= y[0] {
				v = low
			}
			dst[0] = v
			v, low, high = p[1], q[1], r[1]
			if x[1] >= z[1] {
				v = high
			}
			if y[1] >= z[1] {
				low = high
			}
			if x[1] <= y[1] {
				v = low
			}
			dst[1] = v
			v, low, high = p[2], q[2], r[2]
			if x[2] >= z[2] {
				v = high
			}
			if y[2] >= z[2] {
				low = high
			}
			if x[2] <= y[2] {
				v = low
			}
			dst[2] = v
			v, low, high = p[3], q[3], r[3]
			if x[3] >= z[3] {
				v = high
			}
			if y[3] >= z[3] {
				low = high
			}
			if x[3] <= y[3] {
				v = low
			}
			dst[3] = v
		}
	}
	if i == n {
		return
	}
	clampAny[T](unsafe.Add(d, i*by.d), unsafe.Add(a, i*by.a), unsafe.Add(b, i*by.b), unsafe.Add(c, i*by.c), n-i, by)
}

// clampAny takes the second of two unless the first is to be.
func clampAny[T float](d, a, b, c unsafe.Pointer, n int, by *strides) {
	for i := range n {
		x, y, z := *(*T)(unsafe.Add(a, i*by.a)), *(*T)(unsafe.Add(b, i*by.b)), *(*T)(unsafe.Add(c, i*by.c))
		if !(x > y) && x == x {
			x = y
		}
		if !(x < z) && x == x {
			x = z
		}
		*(*T)(unsafe.Add(d, i*by.d)) = x
	}
}
