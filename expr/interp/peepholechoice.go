package interp

import (
	"math"
	"unsafe"
)

// The formulas in this file select one of several results. Computing all results takes long, and a branch would be
// unpredictable. The loops therefore select the operands of one computation, by conditional moves of bits.

// lerpV is lerp: a + c*(b-a) for a weight c below 0.5, else b - (b-a)*(1-c). The first form is computed as a -
// (b-a)*(-0-c). For a NaN weight, both forms are NaN.
func lerpV[T float, U word](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	of := [2]T{T(math.Copysign(0, -1)), 1}
	if size := int(unsafe.Sizeof(T(0))); *by == (strides{d: size, a: size, b: size, c: size}) {
		i := 0
		for last := n - 4; i <= last; i += 4 {
			x, y := (*[4]T)(unsafe.Add(a, i*size)), (*[4]T)(unsafe.Add(b, i*size))
			w, r := (*[4]T)(unsafe.Add(c, i*size)), (*[4]T)(unsafe.Add(d, i*size))
			p, q := (*[4]U)(unsafe.Pointer(x)), (*[4]U)(unsafe.Pointer(y))
			from, k := nearerEndpoint(p[0], q[0], w[0])
			r[0] = ofBits[T](from) - T((y[0]-x[0])*(*entry(&of, k)-w[0]))
			from, k = nearerEndpoint(p[1], q[1], w[1])
			r[1] = ofBits[T](from) - T((y[1]-x[1])*(*entry(&of, k)-w[1]))
			from, k = nearerEndpoint(p[2], q[2], w[2])
			r[2] = ofBits[T](from) - T((y[2]-x[2])*(*entry(&of, k)-w[2]))
			from, k = nearerEndpoint(p[3], q[3], w[3])
			r[3] = ofBits[T](from) - T((y[3]-x[3])*(*entry(&of, k)-w[3]))
		}
		if n -= i; n == 0 {
			return
		}
		d, a, b, c = unsafe.Add(d, i*size), unsafe.Add(a, i*size), unsafe.Add(b, i*size), unsafe.Add(c, i*size)
	}
	for i := range n {
		x, y, w := *(*T)(unsafe.Add(a, i*by.a)), *(*T)(unsafe.Add(b, i*by.b)), *(*T)(unsafe.Add(c, i*by.c))
		from, k := nearerEndpoint(bitsOf[U](x), bitsOf[U](y), w)
		*(*T)(unsafe.Add(d, i*by.d)) = ofBits[T](from) - T((y-x)*(*entry(&of, k)-w))
	}
}

// entry returns the address of of[k], without a bounds check.
func entry[T float](of *[2]T, k uint64) *T {
	return (*T)(unsafe.Add(unsafe.Pointer(of), k*uint64(unsafe.Sizeof(T(0)))))
}

// nearerEndpoint returns a and 0 if the weight w is below 0.5, else b and 1. a and b are the bits of the endpoints.
func nearerEndpoint[U word, T float](a, b U, w T) (U, uint64) {
	k := uint64(0)
	if w >= 0.5 {
		k = 1
	}
	if k != 0 {
		a = b
	}
	return a, k
}

// complexLerp is lerp of complex numbers in memory: a + c*(b-a) or b - (b-a)*(1-c). Both forms are an endpoint plus or
// minus a product.
func complexLerp[T float, U word](d, a, b, c, _, g unsafe.Pointer, n int, by *strides) {
	signs, re, im := [2]float64{1, -1}, [2]float64{math.Copysign(0, -1), 1}, [2]float64{math.Copysign(0, -1), 0}
	size := unsafe.Sizeof(T(0))
	sd, sa, sb, sc, sg := by.d, by.a, by.b, by.c, by.g
	for ; ; d, g = unsafe.Add(d, sd), unsafe.Add(g, sg) {
		u, v := float64(*(*T)(c)), float64(*(*T)(unsafe.Add(c, size)))
		k := uint64(0)
		if size == 8 {
			if magnitudeDouble(u, v) >= 0.5 {
				k = 1
			}
		} else if float64(u*u)+float64(v*v) >= minHalfSquare {
			k = 1
		}
		first, second, first1, second1 := *(*U)(a), *(*U)(unsafe.Add(a, size)), *(*U)(b), *(*U)(unsafe.Add(b, size))
		s, t := float64(*(*T)(b)-*(*T)(a)), float64(*(*T)(unsafe.Add(b, size))-*(*T)(unsafe.Add(a, size)))
		if k != 0 {
			first = first1
		}
		if k != 0 {
			second = second1
		}
		sign := signs[k&1]
		p, q := float64(T(re[k&1]+float64(sign*u))), float64(T(im[k&1]+float64(sign*v)))
		x, y := T(sign*float64(float64(p*s)-float64(q*t))), T(sign*float64(float64(p*t)+float64(q*s)))
		*(*T)(d), *(*T)(g) = ofBits[T](first)+x, ofBits[T](second)+y
		if n--; n == 0 {
			return
		}
		a, b, c = unsafe.Add(a, sa), unsafe.Add(b, sb), unsafe.Add(c, sc)
	}
}

// minHalfSquare is the least sum of squares with a root that rounds to at least 0.5 in float32. Comparing squares
// avoids the root.
const minHalfSquare = (0.5 - 0x1p-26) * (0.5 - 0x1p-26)

// shrinkV computes a - c where a > b, a + c where a < e, and 0 elsewhere. NaN is preserved.
func shrinkV[T float, U uint32 | uint64](d, a, b, c, e, _ unsafe.Pointer, n int, by *strides) {
	if by.b|by.c|by.e == 0 && *(*T)(b) >= 0 && *(*T)(e) == -*(*T)(b) {
		shrinkSymmetric[T, U](d, a, *(*T)(b), *(*U)(c), n, by)
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

// shrinkSymmetric is shrinkV for e = -b. One comparison of the bits without the sign finds the numbers with a magnitude
// above high, up to infinity. Other numbers are multiplied by 0.
func shrinkSymmetric[T float, U uint32 | uint64](d, a unsafe.Pointer, high T, bias U, n int, by *strides) {
	unit, infinity := T(1), T(math.Inf(1))
	one, sign := bitsOf[U](unit), ^(^U(0) >> 1)
	least := bitsOf[U](high)&^sign + 1 // -0 counts as 0
	span := bitsOf[U](infinity) - least
	if high == infinity {
		least, span = ^U(0), 0 // no number is above infinity
	}
	sd, sa := by.d, by.a
	for ; ; d, a = unsafe.Add(d, sd), unsafe.Add(a, sa) {
		u := *(*U)(a)
		subtrahend, factor := u&sign^bias, one
		if u&^sign-least > span {
			subtrahend = 0
		}
		if u&^sign-least > span {
			factor = 0
		}
		*(*T)(d) = (*(*T)(a) - ofBits[T](subtrahend)) * ofBits[T](factor)
		if n--; n == 0 {
			return
		}
	}
}
