package expr

import (
	"math"
	"unsafe"
)

// Conversions keep Go from rounding once where two roundings are meant. Bits are moved under conditions, for floats are
// moved by branches.

// lerpOf is lerp with a weight of any size.
func lerpOf[U word, T float](x, y, w T) U {
	d := y - x
	r, low := bitsOf[U](y-T(d*(1-w))), bitsOf[U](x+T(w*d))
	if w < 0.5 {
		r = low
	}
	return r
}

// shrinkOf brings x nearer to 0 by bias where it is above high or below low, and else to 0.
func shrinkOf[U word, T float](x, high, bias, low T) U {
	r, less, more := bitsOf[U](x*0), bitsOf[U](x-bias), bitsOf[U](x+bias)
	if x < low {
		r = more
	}
	if x > high {
		r = less
	}
	return r
}

// withinOf bounds x by low and high, and leaves NaN.
func withinOf[U word, T float](x, low, high T) U {
	r, least, most := bitsOf[U](x), bitsOf[U](low), bitsOf[U](high)
	if x > high {
		r = most
	}
	if x < low {
		r = least
	}
	return r
}

func signOf[U word, T float](x T) U {
	r, one := bitsOf[U](T(0)), bitsOf[U](T(1))
	if x > 0 {
		r = one
	}
	if one = bitsOf[U](T(-1)); x < 0 {
		r = one
	}
	return r
}

// stepOf is heaviside.
func stepOf[U word, T float](x, at0 T) U {
	r, one, there := bitsOf[U](T(0)), bitsOf[U](T(1)), bitsOf[U](at0)
	if x > 0 {
		r = one
	}
	if x == 0 {
		r = there
	}
	return r
}

func truncOf[T float](x T) T {
	if unsafe.Sizeof(x) == 4 {
		return T(trunc32(float32(x)))
	}
	return T(math.Trunc(float64(x)))
}

func rintOf[T float](x T) T {
	if unsafe.Sizeof(x) == 4 {
		return T(rint32(float32(x)))
	}
	return T(math.RoundToEven(float64(x)))
}

// xlogy is 0 where x is 0 and y is a number, whatever the logarithm of that.
func xlogy[T float](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	eachPair(d, a, b, n, by, func(x, y T) T {
		switch {
		case y != y:
			return y
		case x == 0:
			return 0
		}
		return x * T(log(float64(y)))
	})
}

// eachPair calls f for all elements.
func eachPair[T float](d, a, b unsafe.Pointer, n int, by *strides, f func(x, y T) T) {
	if size := int(unsafe.Sizeof(T(0))); by.d == size && by.a == size && by.b == size {
		dst := flat[T](d, n)
		x, y := flat[T](a, n)[:len(dst)], flat[T](b, n)[:len(dst)]
		for i := range dst {
			dst[i] = f(x[i], y[i])
		}
		return
	}
	sd, sa, sb := by.d, by.a, by.b
	for ; ; d, a, b = unsafe.Add(d, sd), unsafe.Add(a, sa), unsafe.Add(b, sb) {
		*(*T)(d) = f(*(*T)(a), *(*T)(b))
		if n--; n == 0 {
			return
		}
	}
}

// modOfFloat is C's fmod.
func modOfFloat[T float](x, y T) T {
	if unsafe.Sizeof(x) == 4 {
		return T(mod32(float32(x), float32(y)))
	}
	return T(math.Mod(float64(x), float64(y)))
}

// modFloat is the remainder with the sign of the divisor.
func modFloat[T float](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	eachPair(d, a, b, n, by, func(x, y T) T {
		m := modOfFloat(x, y)
		if m != 0 && (y < 0) != (m < 0) {
			m += y
		}
		return m
	})
}

// floorDiv is the quotient of what is left after the remainder is taken off, as the library has it.
func floorDiv[T float](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	eachPair(d, a, b, n, by, func(x, y T) T {
		if y == 0 {
			return x / y
		}
		m := modOfFloat(x, y)
		q := T(x-m) / y
		if m != 0 && (y < 0) != (m < 0) {
			q--
		}
		if q == 0 {
			return T(math.Copysign(0, float64(x/y)))
		}
		f := T(math.Floor(float64(q)))
		if T(q-f) > 0.5 {
			f++
		}
		return f
	})
}

// bitsOf returns the bits of a float.
func bitsOf[U word, T float](x T) U { return *(*U)(unsafe.Pointer(&x)) }

// ofBits returns the float of bits.
func ofBits[T float, U word](r U) T { return *(*T)(unsafe.Pointer(&r)) }

// sixth bounds x + 3 by 0 and 6: the part that hardsigmoid and hardswish share. NaN stays.
func sixth[U word, T float](x, zero, six T) T {
	x += 3
	r, low, high := bitsOf[U](x), bitsOf[U](zero), bitsOf[U](six)
	if x <= zero {
		r = low
	}
	if x >= six {
		r = high
	}
	return ofBits[T](r)
}

func hardSigmoid[T float, U word](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	if size := int(unsafe.Sizeof(T(0))); by.d == size && by.a == size {
		dst := flat[T](d, n)
		x := flat[T](a, n)[:len(dst)]
		for i := range dst {
			dst[i] = sixth[U](x[i], 0, 6) / 6
		}
		return
	}
	for i := range n {
		*(*T)(unsafe.Add(d, i*by.d)) = sixth[U](*(*T)(unsafe.Add(a, i*by.a)), 0, 6) / 6
	}
}

func hardSwish[T float, U word](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	if size := int(unsafe.Sizeof(T(0))); by.d == size && by.a == size {
		dst := flat[T](d, n)
		x := flat[T](a, n)[:len(dst)]
		for i := range dst {
			dst[i] = T(x[i]*sixth[U](x[i], 0, 6)) / 6
		}
		return
	}
	for i := range n {
		x := *(*T)(unsafe.Add(a, i*by.a))
		*(*T)(unsafe.Add(d, i*by.d)) = T(x*sixth[U](x, 0, 6)) / 6
	}
}

// leakyRelu is a where it is above 0, else a times b.
func leakyRelu[T float, U word](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	if size := int(unsafe.Sizeof(T(0))); by.d == size && by.a == size && by.b == 0 {
		dst, slope := flat[U](d, n), *(*T)(b)
		x, bits := flat[T](a, n)[:len(dst)], flat[U](a, n)[:len(dst)]
		for i := range dst {
			u, p := x[i], bits[i]
			r := bitsOf[U](u * slope)
			if u > 0 {
				r = p
			}
			dst[i] = r
		}
		return
	}
	for i := range n {
		u, p := *(*T)(unsafe.Add(a, i*by.a)), *(*U)(unsafe.Add(a, i*by.a))
		r := bitsOf[U](u * *(*T)(unsafe.Add(b, i*by.b)))
		if u > 0 {
			r = p
		}
		*(*U)(unsafe.Add(d, i*by.d)) = r
	}
}
