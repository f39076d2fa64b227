package expr

import (
	"unsafe"
)

// Conversions keep Go from rounding once where two roundings are meant. Bits are moved under conditions, for floats are
// moved by branches.

// bitsOf returns the bits of a float.
func bitsOf[U word, T float](x T) U { return *(*U)(unsafe.Pointer(&x)) }

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
	return *(*T)(unsafe.Pointer(&r))
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

// replaceLow puts c in the places of what is at most b.
func replaceLow[T realNumber, U word](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	if size := int(unsafe.Sizeof(T(0))); *by == (strides{d: size, a: size}) {
		dst, limit, other := flat[U](d, n), *(*T)(b), *(*U)(c)
		x, bits := flat[T](a, n)[:len(dst)], flat[U](a, n)[:len(dst)]
		for i := range dst {
			u, r := x[i], bits[i]
			if u <= limit {
				r = other
			}
			dst[i] = r
		}
		return
	}
	for i := range n {
		u, r := *(*T)(unsafe.Add(a, i*by.a)), *(*U)(unsafe.Add(a, i*by.a))
		v := *(*U)(unsafe.Add(c, i*by.c))
		if u <= *(*T)(unsafe.Add(b, i*by.b)) {
			r = v
		}
		*(*U)(unsafe.Add(d, i*by.d)) = r
	}
}

// addScaledMul is a + e * b * c, of which e is mostly a number.
func addScaledMul[T float](d, a, b, c, e, _ unsafe.Pointer, n int, by *strides) {
	if size := int(unsafe.Sizeof(T(0))); *by == (strides{d: size, a: size, b: size, c: size}) {
		dst, v := flat[T](d, n), *(*T)(e)
		x, y, z := flat[T](a, n)[:len(dst)], flat[T](b, n)[:len(dst)], flat[T](c, n)[:len(dst)]
		for i := range dst {
			dst[i] = x[i] + T(T(v*y[i])*z[i])
		}
		return
	}
	for i := range n {
		y, z := *(*T)(unsafe.Add(b, i*by.b)), *(*T)(unsafe.Add(c, i*by.c))
		*(*T)(unsafe.Add(d, i*by.d)) = *(*T)(unsafe.Add(a, i*by.a)) + T(T(*(*T)(unsafe.Add(e, i*by.e))*y)*z)
	}
}

// addScaledDiv is a + e * b / c.
func addScaledDiv[T float](d, a, b, c, e, _ unsafe.Pointer, n int, by *strides) {
	if size := int(unsafe.Sizeof(T(0))); *by == (strides{d: size, a: size, b: size, c: size}) {
		dst, v := flat[T](d, n), *(*T)(e)
		x, y, z := flat[T](a, n)[:len(dst)], flat[T](b, n)[:len(dst)], flat[T](c, n)[:len(dst)]
		for i := range dst {
			dst[i] = x[i] + T(v*y[i])/z[i]
		}
		return
	}
	for i := range n {
		y, z := *(*T)(unsafe.Add(b, i*by.b)), *(*T)(unsafe.Add(c, i*by.c))
		*(*T)(unsafe.Add(d, i*by.d)) = *(*T)(unsafe.Add(a, i*by.a)) + T(*(*T)(unsafe.Add(e, i*by.e))*y)/z
	}
}

// between is a + c * (b - a): lerp where its weight is below a half.
func between[T float](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	if size := int(unsafe.Sizeof(T(0))); *by == (strides{d: size, a: size, b: size}) {
		dst, w := flat[T](d, n), *(*T)(c)
		x, y := flat[T](a, n)[:len(dst)], flat[T](b, n)[:len(dst)]
		for i := range dst {
			u := x[i]
			dst[i] = u + T(w*(y[i]-u))
		}
		return
	}
	for i := range n {
		x, y := *(*T)(unsafe.Add(a, i*by.a)), *(*T)(unsafe.Add(b, i*by.b))
		*(*T)(unsafe.Add(d, i*by.d)) = x + T(*(*T)(unsafe.Add(c, i*by.c))*(y-x))
	}
}
