package interp

import (
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/expr/internal/elementary"
)

// Conversions, as in T(x*y), prevent Go from fusing a product and a sum. Selections are conditional moves of bits,
// because Go selects floats by branches.

// withinOf bounds x by low and high, and preserves NaN.
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

// replaceNearOf returns y if |x| <= limit, else x.
func replaceNearOf[U word, T float](x, limit, y T) U {
	r, other := bitsOf[U](x), bitsOf[U](y)
	if ofBits[T](r<<1>>1) <= limit {
		r = other
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

// stepOf is heaviside: 0 for x < 0, 1 for x > 0, and at0 for x = 0.
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

// xlogyOf returns x*log(y), or 0 if x is 0 and y is not NaN. It contains the conversions, which should not be in the
// loop (map1).
//
//go:noinline
func xlogyOf[T float](x, y T) T {
	switch {
	case y != y:
		return y
	case x == 0:
		return 0
	}
	return x * T(elementary.Log(float64(y)))
}

// eachPair sets each element of d to f of the elements of a and b.
func eachPair[T float](d, a, b unsafe.Pointer, n int, by *strides, f func(x, y T) T) {
	if size := int(unsafe.Sizeof(T(0))); by.d == size && by.a == size && by.b == size {
		dst := contiguousElements[T](d, n)
		x, y := contiguousElements[T](a, n)[:len(dst)], contiguousElements[T](b, n)[:len(dst)]
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

// modOfFloat is fmod of C.
func modOfFloat[T float](x, y T) T {
	if unsafe.Sizeof(x) == 4 {
		return T(mod32(float32(x), float32(y)))
	}
	return T(math.Mod(float64(x), float64(y)))
}

// remainderOf returns the remainder with the sign of the divisor. It has no branch on the signs, which would be
// unpredictable.
func remainderOf[U word, T float](x, y T) T {
	m := modOfFloat(x, y)
	r, more := bitsOf[U](m), bitsOf[U](m+y)
	unlike := r ^ bitsOf[U](y)
	if r<<1 == 0 {
		more = r
	}
	if unlike > ^U(0)>>1 {
		r = more
	}
	return ofBits[T](r)
}

// floorRatio is floor_divide of the library of package expr, which subtracts the remainder before the division. It
// computes all cases and then selects one, without a branch.
func floorRatio[U word, T float](x, y T) T {
	if y == 0 {
		return x / y
	}
	sign := ^(^U(0) >> 1)
	m := modOfFloat(x, y)
	q := T(x-m) / y
	r, low := bitsOf[U](q), bitsOf[U](q-1)
	rest := bitsOf[U](m)
	unlike := rest ^ bitsOf[U](y)
	if rest<<1 == 0 {
		low = r
	}
	if unlike >= sign {
		r = low
	}
	q = ofBits[T](r)
	f := T(math.Floor(float64(q)))
	whole, more, zero := bitsOf[U](f), bitsOf[U](f+1), (bitsOf[U](x)^bitsOf[U](y))&sign
	if T(q-f) > 0.5 {
		whole = more
	}
	if r<<1 == 0 {
		whole = zero
	}
	return ofBits[T](whole)
}

// bitsOf returns the bits of a float.
func bitsOf[U word, T float](x T) U { return *(*U)(unsafe.Pointer(&x)) }

// ofBits returns the float with bits r.
func ofBits[T float, U word](r U) T { return *(*T)(unsafe.Pointer(&r)) }

// clampedPlus3 returns x + 3 bounded by zero and six, which are 0 and 6. It is the common part of hardsigmoid and
// hardswish. NaN is preserved.
func clampedPlus3[U word, T float](x, zero, six T) T {
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
		dst := contiguousElements[T](d, n)
		x := contiguousElements[T](a, n)[:len(dst)]
		for i := range dst {
			dst[i] = clampedPlus3[U](x[i], 0, 6) / 6
		}
		return
	}
	for i := range n {
		*(*T)(unsafe.Add(d, i*by.d)) = clampedPlus3[U](*(*T)(unsafe.Add(a, i*by.a)), 0, 6) / 6
	}
}

func hardSwish[T float, U word](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	if size := int(unsafe.Sizeof(T(0))); by.d == size && by.a == size {
		dst := contiguousElements[T](d, n)
		x := contiguousElements[T](a, n)[:len(dst)]
		for i := range dst {
			dst[i] = T(x[i]*clampedPlus3[U](x[i], 0, 6)) / 6
		}
		return
	}
	for i := range n {
		x := *(*T)(unsafe.Add(a, i*by.a))
		*(*T)(unsafe.Add(d, i*by.d)) = T(x*clampedPlus3[U](x, 0, 6)) / 6
	}
}

// leakyRelu returns a if a > 0, else a*b.
func leakyRelu[T float, U word](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	if size := int(unsafe.Sizeof(T(0))); by.d == size && by.a == size && by.b == 0 {
		dst, slope := contiguousElements[U](d, n), *(*T)(b)
		x, bits := contiguousElements[T](a, n)[:len(dst)], contiguousElements[U](a, n)[:len(dst)]
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
