package expr

import (
	"math"
	"unsafe"
)

// interleaved reports whether two parts of complex numbers lie one behind the other, and numbers do so too.
func interleaved(re, im unsafe.Pointer, stride, other, size int) bool {
	return stride == 2*size && other == 2*size && uintptr(im)-uintptr(re) == uintptr(size)
}

func complexAdd[T float](d, a, b, c, e, g unsafe.Pointer, n int, by *strides) {
	size := int(unsafe.Sizeof(T(0)))
	if interleaved(d, g, by.d, by.g, size) && interleaved(a, b, by.a, by.b, size) && interleaved(c, e, by.c, by.e, size) {
		addV[T](d, a, c, nil, nil, nil, 2*n, &strides{d: size, a: size, b: size})
		return
	}
	for i := range n {
		x, y := *(*T)(unsafe.Add(a, i*by.a)), *(*T)(unsafe.Add(b, i*by.b))
		u, v := *(*T)(unsafe.Add(c, i*by.c)), *(*T)(unsafe.Add(e, i*by.e))
		*(*T)(unsafe.Add(d, i*by.d)), *(*T)(unsafe.Add(g, i*by.g)) = x+u, y+v
	}
}

func complexSub[T float](d, a, b, c, e, g unsafe.Pointer, n int, by *strides) {
	size := int(unsafe.Sizeof(T(0)))
	if interleaved(d, g, by.d, by.g, size) && interleaved(a, b, by.a, by.b, size) && interleaved(c, e, by.c, by.e, size) {
		subV[T](d, a, c, nil, nil, nil, 2*n, &strides{d: size, a: size, b: size})
		return
	}
	for i := range n {
		x, y := *(*T)(unsafe.Add(a, i*by.a)), *(*T)(unsafe.Add(b, i*by.b))
		u, v := *(*T)(unsafe.Add(c, i*by.c)), *(*T)(unsafe.Add(e, i*by.e))
		*(*T)(unsafe.Add(d, i*by.d)), *(*T)(unsafe.Add(g, i*by.g)) = x-u, y-v
	}
}

func complexNeg[T float](d, a, b, _, _, g unsafe.Pointer, n int, by *strides) {
	size := int(unsafe.Sizeof(T(0)))
	if interleaved(d, g, by.d, by.g, size) && interleaved(a, b, by.a, by.b, size) {
		negV[T](d, a, nil, nil, nil, nil, 2*n, &strides{d: size, a: size})
		return
	}
	for i := range n {
		x, y := *(*T)(unsafe.Add(a, i*by.a)), *(*T)(unsafe.Add(b, i*by.b))
		*(*T)(unsafe.Add(d, i*by.d)), *(*T)(unsafe.Add(g, i*by.g)) = -x, -y
	}
}

// complexEq and complexNe have both comparisons at hand before they join them, or else there would be a branch.
func complexEq[T float](d, a, b, c, e, _ unsafe.Pointer, n int, by *strides) {
	sa, sb, sc, se := by.a, by.b, by.c, by.e
	dst := flat[bool](d, n)
	for i := range dst {
		re := *(*T)(unsafe.Add(a, i*sa)) == *(*T)(unsafe.Add(c, i*sc))
		im := *(*T)(unsafe.Add(b, i*sb)) == *(*T)(unsafe.Add(e, i*se))
		dst[i] = re && im
	}
}

func complexNe[T float](d, a, b, c, e, _ unsafe.Pointer, n int, by *strides) {
	sa, sb, sc, se := by.a, by.b, by.c, by.e
	dst := flat[bool](d, n)
	for i := range dst {
		re := *(*T)(unsafe.Add(a, i*sa)) != *(*T)(unsafe.Add(c, i*sc))
		im := *(*T)(unsafe.Add(b, i*sb)) != *(*T)(unsafe.Add(e, i*se))
		dst[i] = re || im
	}
}

func notZero[T float](re, im T) bool {
	x, y := re != 0, im != 0
	return x || y
}

func complexAnd[T float](d, a, b, c, e, _ unsafe.Pointer, n int, by *strides) {
	dst := flat[bool](d, n)
	for i := range dst {
		x := notZero(*(*T)(unsafe.Add(a, i*by.a)), *(*T)(unsafe.Add(b, i*by.b)))
		y := notZero(*(*T)(unsafe.Add(c, i*by.c)), *(*T)(unsafe.Add(e, i*by.e)))
		dst[i] = x && y
	}
}

func complexOr[T float](d, a, b, c, e, _ unsafe.Pointer, n int, by *strides) {
	dst := flat[bool](d, n)
	for i := range dst {
		x := notZero(*(*T)(unsafe.Add(a, i*by.a)), *(*T)(unsafe.Add(b, i*by.b)))
		y := notZero(*(*T)(unsafe.Add(c, i*by.c)), *(*T)(unsafe.Add(e, i*by.e)))
		dst[i] = x || y
	}
}

func complexXor[T float](d, a, b, c, e, _ unsafe.Pointer, n int, by *strides) {
	dst := flat[bool](d, n)
	for i := range dst {
		x := notZero(*(*T)(unsafe.Add(a, i*by.a)), *(*T)(unsafe.Add(b, i*by.b)))
		y := notZero(*(*T)(unsafe.Add(c, i*by.c)), *(*T)(unsafe.Add(e, i*by.e)))
		dst[i] = x != y
	}
}

func complexMul[T float](d, a, b, c, e, g unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc, se, sg := by.d, by.a, by.b, by.c, by.e, by.g
	for ; ; d, g = unsafe.Add(d, sd), unsafe.Add(g, sg) {
		x, y, u, v := float64(*(*T)(a)), float64(*(*T)(b)), float64(*(*T)(c)), float64(*(*T)(e))
		*(*T)(d), *(*T)(g) = T(float64(x*u)-float64(y*v)), T(float64(x*v)+float64(y*u))
		if n--; n == 0 {
			return
		}
		a, b, c, e = unsafe.Add(a, sa), unsafe.Add(b, sb), unsafe.Add(c, sc), unsafe.Add(e, se)
	}
}

func complexSquare[T float](d, a, b, _, _, g unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sg := by.d, by.a, by.b, by.g
	for ; ; d, g = unsafe.Add(d, sd), unsafe.Add(g, sg) {
		x, y := float64(*(*T)(a)), float64(*(*T)(b))
		*(*T)(d), *(*T)(g) = T(float64(x*x)-float64(y*y)), T(float64(x*y)+float64(x*y))
		if n--; n == 0 {
			return
		}
		a, b = unsafe.Add(a, sa), unsafe.Add(b, sb)
	}
}

// complexDiv is Go's division, whose quotient is formed by the larger part of the divisor; what comes out as NaN is
// left to Go, which tells infinities apart.
func complexDiv[T float](d, a, b, c, e, g unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc, se, sg := by.d, by.a, by.b, by.c, by.e, by.g
	for ; ; d, g = unsafe.Add(d, sd), unsafe.Add(g, sg) {
		x, y, u, v := float64(*(*T)(a)), float64(*(*T)(b)), float64(*(*T)(c)), float64(*(*T)(e))
		var p, q float64
		if math.Abs(u) >= math.Abs(v) {
			ratio := v / u
			low := u + float64(ratio*v)
			p, q = (x+float64(y*ratio))/low, (y-float64(x*ratio))/low
		} else {
			ratio := u / v
			low := v + float64(ratio*u)
			p, q = (float64(x*ratio)+y)/low, (float64(y*ratio)-x)/low
		}
		if p != p && q != q {
			z := complex(x, y) / complex(u, v)
			p, q = real(z), imag(z)
		}
		*(*T)(d), *(*T)(g) = T(p), T(q)
		if n--; n == 0 {
			return
		}
		a, b, c, e = unsafe.Add(a, sa), unsafe.Add(b, sb), unsafe.Add(c, sc), unsafe.Add(e, se)
	}
}

func complexExp[T float](d, a, b, _, _, g unsafe.Pointer, n int, by *strides) {
	one := func(x, y T) (T, T) {
		s, c := sinCos(float64(y))
		r, sin, cos := T(exp(float64(x))), T(s), T(c)
		switch rare, odd := x-x != 0, y-y != 0; { // infinite or NaN
		case y == 0 && rare && !(x < 0):
			return x, y
		case odd && rare && x < 0:
			return 0, T(math.Copysign(0, float64(y)))
		case odd && rare && x > 0:
			return x, T(math.NaN())
		case y == 0:
			return r * cos, y
		}
		return r * cos, r * sin
	}
	for i := range n {
		re, im := one(*(*T)(unsafe.Add(a, i*by.a)), *(*T)(unsafe.Add(b, i*by.b)))
		*(*T)(unsafe.Add(d, i*by.d)), *(*T)(unsafe.Add(g, i*by.g)) = re, im
	}
}
