package expr

import (
	"math"
	"unsafe"
)

// Loops that choose among results would compute all of them, or take a branch that a processor guesses wrong half of
// the time. These choose what a result is computed from, by moves under conditions of bits that are loaded as such.

// lerpV is lerp with a weight of any size: a + c*(b-a) or b - (b-a)*(1-c), of which the first is a - (b-a)*(-0-c).
// Of a weight that is NaN either is NaN.
func lerpV[T float](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	of := [2]T{T(math.Copysign(0, -1)), 1}
	if size := int(unsafe.Sizeof(T(0))); *by == (strides{d: size, a: size, b: size, c: size}) {
		i := 0
		for last := n - 4; i <= last; i += 4 {
			x, y := (*[4]T)(unsafe.Add(a, i*size)), (*[4]T)(unsafe.Add(b, i*size))
			w, r := (*[4]T)(unsafe.Add(c, i*size)), (*[4]T)(unsafe.Add(d, i*size))
			from, k := nearer(x, y, w[0])
			r[0] = from[0] - T((y[0]-x[0])*(of[k&1]-w[0]))
			from, k = nearer(x, y, w[1])
			r[1] = from[1] - T((y[1]-x[1])*(of[k&1]-w[1]))
			from, k = nearer(x, y, w[2])
			r[2] = from[2] - T((y[2]-x[2])*(of[k&1]-w[2]))
			from, k = nearer(x, y, w[3])
			r[3] = from[3] - T((y[3]-x[3])*(of[k&1]-w[3]))
		}
		if n -= i; n == 0 {
			return
		}
		d, a, b, c = unsafe.Add(d, i*size), unsafe.Add(a, i*size), unsafe.Add(b, i*size), unsafe.Add(c, i*size)
	}
	for i := range n {
		x, y, w := *(*T)(unsafe.Add(a, i*by.a)), *(*T)(unsafe.Add(b, i*by.b)), *(*T)(unsafe.Add(c, i*by.c))
		from, k := nearer(&x, &y, w)
		*(*T)(unsafe.Add(d, i*by.d)) = *from - T((y-x)*(of[k&1]-w))
	}
}

// nearer returns the end that a weight is nearer to, and 1 for the second. Addresses are moved under the condition, so
// that the end alone is loaded.
func nearer[E any, T float](a, b *E, w T) (*E, uint64) {
	k := uint64(0)
	if w >= 0.5 {
		k = 1
	}
	if k != 0 {
		a = b
	}
	return a, k
}

// complexLerp is lerp of complex numbers that lie in memory: a + c*(b-a) or b - (b-a)*(1-c). Either is an end and a
// product that is added or taken off.
func complexLerp[T float](d, a, b, c, _, g unsafe.Pointer, n int, by *strides) {
	sign, re, im := [2]T{1, -1}, [2]T{T(math.Copysign(0, -1)), 1}, [2]T{T(math.Copysign(0, -1)), 0}
	for i := range n {
		x, y, w := (*[2]T)(unsafe.Add(a, i*by.a)), (*[2]T)(unsafe.Add(b, i*by.b)), (*[2]T)(unsafe.Add(c, i*by.c))
		s, t := float64(y[0]-x[0]), float64(y[1]-x[1])
		from, k := nearer(x, y, magnitude(w[0], w[1]))
		p, q := float64(re[k&1]+sign[k&1]*w[0]), float64(im[k&1]+sign[k&1]*w[1])
		u, v := T(float64(p*s)-float64(q*t)), T(float64(p*t)+float64(q*s))
		u, v = from[0]+sign[k&1]*u, from[1]+sign[k&1]*v
		*(*T)(unsafe.Add(d, i*by.d)), *(*T)(unsafe.Add(g, i*by.g)) = u, v
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
