package interp

import (
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/elementary"
)

// interleaved reports whether complex numbers are contiguous in memory. re and im are the addresses of the parts,
// stride and other are their strides, and size is the size of a part. Strides and size are in bytes.
func interleaved(re, im unsafe.Pointer, stride, other, size int) bool {
	return stride == 2*size && other == 2*size && uintptr(im)-uintptr(re) == uintptr(size)
}

// complexSlice returns n contiguous complex numbers.
func complexSlice[T float](p unsafe.Pointer, n int) [][2]T { return contiguousElements[[2]T](p, n) }

func complexAdd[T float](d, a, b, c, e, g unsafe.Pointer, n int, by *strides) {
	size := int(unsafe.Sizeof(T(0)))
	switch dense := interleaved(d, g, by.d, by.g, size) && interleaved(a, b, by.a, by.b, size); {
	case dense && interleaved(c, e, by.c, by.e, size):
		addV[T](d, a, c, nil, nil, nil, 2*n, &strides{d: size, a: size, b: size})
		return
	case dense && by.c == 0 && by.e == 0:
		dst, u, v := complexSlice[T](d, n), *(*T)(c), *(*T)(e)
		x := complexSlice[T](a, n)[:len(dst)]
		for i := range dst {
			p, q := &dst[i], &x[i]
			p[0], p[1] = q[0]+u, q[1]+v
		}
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
	first, second := interleaved(a, b, by.a, by.b, size), interleaved(c, e, by.c, by.e, size)
	switch dense := interleaved(d, g, by.d, by.g, size); {
	case dense && first && second:
		subV[T](d, a, c, nil, nil, nil, 2*n, &strides{d: size, a: size, b: size})
		return
	case dense && first && by.c == 0 && by.e == 0:
		dst, u, v := complexSlice[T](d, n), *(*T)(c), *(*T)(e)
		x := complexSlice[T](a, n)[:len(dst)]
		for i := range dst {
			p, q := &dst[i], &x[i]
			p[0], p[1] = q[0]-u, q[1]-v
		}
		return
	case dense && second && by.a == 0 && by.b == 0:
		dst, u, v := complexSlice[T](d, n), *(*T)(a), *(*T)(b)
		x := complexSlice[T](c, n)[:len(dst)]
		for i := range dst {
			p, q := &dst[i], &x[i]
			p[0], p[1] = u-q[0], v-q[1]
		}
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

// complexEq and complexNe evaluate both comparisons before they combine the results, so that Go compiles no branch.
func complexEq[T float](d, a, b, c, e, _ unsafe.Pointer, n int, by *strides) {
	sa, sb, sc, se := by.a, by.b, by.c, by.e
	dst := contiguousElements[bool](d, n)
	for i := range dst {
		re := *(*T)(unsafe.Add(a, i*sa)) == *(*T)(unsafe.Add(c, i*sc))
		im := *(*T)(unsafe.Add(b, i*sb)) == *(*T)(unsafe.Add(e, i*se))
		dst[i] = re && im
	}
}

func complexNe[T float](d, a, b, c, e, _ unsafe.Pointer, n int, by *strides) {
	sa, sb, sc, se := by.a, by.b, by.c, by.e
	dst := contiguousElements[bool](d, n)
	for i := range dst {
		re := *(*T)(unsafe.Add(a, i*sa)) != *(*T)(unsafe.Add(c, i*sc))
		im := *(*T)(unsafe.Add(b, i*sb)) != *(*T)(unsafe.Add(e, i*se))
		dst[i] = re || im
	}
}

// complexLogical returns the loop of a logical operation on complex numbers. A complex number is true if a bit of one
// of its parts other than the sign is set. U has the bits of a part.
func complexLogical[U uint32 | uint64](o expr.Op) loopFunc {
	mask := ^U(0) >> 1
	size := int(unsafe.Sizeof(mask))
	words := logicalOf(o, uint64(mask)<<32|uint64(mask))
	return func(d, a, b, c, e, _ unsafe.Pointer, n int, by *strides) {
		if size == 4 && interleaved(a, b, by.a, by.b, size) && interleaved(c, e, by.c, by.e, size) {
			words(d, a, c, nil, nil, nil, n, &strides{d: 1, a: 8, b: 8})
			return
		}
		dst := contiguousElements[bool](d, n)
		for i := range dst {
			x := (*(*U)(unsafe.Add(a, i*by.a)) | *(*U)(unsafe.Add(b, i*by.b))) & mask
			y := (*(*U)(unsafe.Add(c, i*by.c)) | *(*U)(unsafe.Add(e, i*by.e))) & mask
			switch u, v := x != 0, y != 0; o {
			case expr.And:
				dst[i] = u && v
			case expr.Or:
				dst[i] = u || v
			default:
				dst[i] = u != v
			}
		}
	}
}

// complexTest returns the loop that tests whether numbers are zero (if zero is true) or nonzero (if zero is false).
func complexTest[U uint32 | uint64](zero bool) loopFunc {
	mask := ^U(0) >> 1
	size := int(unsafe.Sizeof(mask))
	return func(d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
		dst := contiguousElements[bool](d, n)
		switch both := uint64(mask)<<32 | uint64(mask); {
		case size == 4 && interleaved(a, b, by.a, by.b, size) && zero:
			x := contiguousElements[uint64](a, n)[:len(dst)]
			for i := range dst {
				dst[i] = x[i]&both == 0
			}
		case size == 4 && interleaved(a, b, by.a, by.b, size):
			x := contiguousElements[uint64](a, n)[:len(dst)]
			for i := range dst {
				dst[i] = x[i]&both != 0
			}
		default:
			for i := range dst {
				some := (*(*U)(unsafe.Add(a, i*by.a))|*(*U)(unsafe.Add(b, i*by.b)))&mask != 0
				dst[i] = some != zero
			}
		}
	}
}

func complexMul[T float](d, a, b, c, e, g unsafe.Pointer, n int, by *strides) {
	if size := int(unsafe.Sizeof(T(0))); interleaved(d, g, by.d, by.g, size) && interleaved(a, b, by.a, by.b, size) &&
		interleaved(c, e, by.c, by.e, size) {
		for ; ; d, a, c = unsafe.Add(d, 2*size), unsafe.Add(a, 2*size), unsafe.Add(c, 2*size) {
			x, y := float64(*(*T)(a)), float64(*(*T)(unsafe.Add(a, size)))
			u, v := float64(*(*T)(c)), float64(*(*T)(unsafe.Add(c, size)))
			*(*T)(d), *(*T)(unsafe.Add(d, size)) = T(float64(x*u)-float64(y*v)), T(float64(x*v)+float64(y*u))
			if n--; n == 0 {
				return
			}
		}
	}
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
	if size := int(unsafe.Sizeof(T(0))); interleaved(d, g, by.d, by.g, size) && interleaved(a, b, by.a, by.b, size) {
		for ; ; d, a = unsafe.Add(d, 2*size), unsafe.Add(a, 2*size) {
			u, v := float64(*(*T)(a)), float64(*(*T)(unsafe.Add(a, size)))
			uv := float64(u * v)
			*(*T)(d), *(*T)(unsafe.Add(d, size)) = T(float64(u*u)-float64(v*v)), T(uv+uv)
			if n--; n == 0 {
				return
			}
		}
	}
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

// complexDiv divides as Go does. The formula depends on the part of the divisor that has the larger magnitude. If the
// result is NaN, complexDiv uses Go's division, which handles infinities.
func complexDiv[T float, U word](d, a, b, c, e, g unsafe.Pointer, n int, by *strides) {
	size := int(unsafe.Sizeof(T(0)))
	switch {
	case by.c == 0 && by.e == 0:
		complexDivBy[T](d, a, b, c, e, g, n, by)
		return
	case !interleaved(c, e, by.c, by.e, size):
	case interleaved(a, b, by.a, by.b, size):
		pairDiv[T, U](d, a, c, g, n, by)
		return
	case by.a == 0 && by.b == 0:
		number := [2]T{*(*T)(a), *(*T)(b)}
		pairDiv[T, U](d, unsafe.Pointer(&number), c, g, n, by)
		return
	}
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

// pairDiv is complexDiv for interleaved operands. If the imaginary part of the divisor is larger, parts and signs are
// exchanged by indexing, because a branch would be unpredictable.
func pairDiv[T float, U word](d, a, c, g unsafe.Pointer, n int, by *strides) {
	size := unsafe.Sizeof(T(0))
	signs, magnitude := [2]float64{1, -1}, ^U(0)>>1
	sd, sa, sc, sg := by.d, by.a, by.c, by.g
	for ; ; d, g = unsafe.Add(d, sd), unsafe.Add(g, sg) {
		k := uintptr(0)
		if *(*U)(c)&magnitude < *(*U)(unsafe.Add(c, size))&magnitude {
			k = 1
		}
		at, other := k*size, size-k*size
		x, y := float64(*(*T)(unsafe.Add(a, at))), float64(*(*T)(unsafe.Add(a, other)))
		u, v := float64(*(*T)(unsafe.Add(c, at))), float64(*(*T)(unsafe.Add(c, other)))
		ratio, sign := v/u, signs[k&1]
		low := u + float64(ratio*v)
		p, q := (x+float64(y*ratio))/low, (float64(sign*y)-float64(sign*float64(x*ratio)))/low
		if p != p && q != q {
			x, y := (*[2]T)(a), (*[2]T)(c)
			z := complex(float64(x[0]), float64(x[1])) / complex(float64(y[0]), float64(y[1]))
			p, q = real(z), imag(z)
		}
		*(*T)(d), *(*T)(g) = T(p), T(q)
		if n--; n == 0 {
			return
		}
		a, c = unsafe.Add(a, sa), unsafe.Add(c, sc)
	}
}

// complexDivBy is complexDiv for a divisor that is a single element. Values that depend only on the divisor are
// computed once.
func complexDivBy[T float](d, a, b, c, e, g unsafe.Pointer, n int, by *strides) {
	u, v := float64(*(*T)(c)), float64(*(*T)(e))
	big, ratio := math.Abs(u) >= math.Abs(v), v/u
	low := u + float64(ratio*v)
	if !big {
		ratio = u / v
		low = v + float64(ratio*u)
	}
	for i := range n {
		x, y := float64(*(*T)(unsafe.Add(a, i*by.a))), float64(*(*T)(unsafe.Add(b, i*by.b)))
		var p, q float64
		if big {
			p, q = (x+float64(y*ratio))/low, (y-float64(x*ratio))/low
		} else {
			p, q = (float64(x*ratio)+y)/low, (float64(y*ratio)-x)/low
		}
		if p != p && q != q {
			z := complex(x, y) / complex(u, v)
			p, q = real(z), imag(z)
		}
		*(*T)(unsafe.Add(d, i*by.d)), *(*T)(unsafe.Add(g, i*by.g)) = T(p), T(q)
	}
}

func complexExp[T float](d, a, b, _, _, g unsafe.Pointer, n int, by *strides) {
	for i := range n {
		re, im := complexExpOf(*(*T)(unsafe.Add(a, i*by.a)), *(*T)(unsafe.Add(b, i*by.b)))
		*(*T)(unsafe.Add(d, i*by.d)), *(*T)(unsafe.Add(g, i*by.g)) = re, im
	}
}

// complexExpOf returns the exponential of a complex number. It is deliberately too long to be inlined, because its
// conversions should not be in the caller's loop (map1). For the same reason, the computation between the conversions
// is a separate function.
func complexExpOf[T float](x, y T) (T, T) {
	if x-x != 0 || y-y != 0 || y == 0 {
		return complexExpOfRare(x, y)
	}
	e, sin, cos := expSinCos(float64(x), float64(y))
	return T(e) * T(cos), T(e) * T(sin)
}

func expSinCos(x, y float64) (e, sin, cos float64) {
	sin, cos = elementary.SinCos(y)
	return elementary.Exp(x), sin, cos
}

// complexExpOfRare is complexExpOf for infinite, NaN and real operands.
func complexExpOfRare[T float](x, y T) (T, T) {
	e, sin, cos := expSinCos(float64(x), float64(y))
	switch rare, odd := x-x != 0, y-y != 0; {
	case y == 0 && rare && !(x < 0):
		return x, y
	case odd && rare && x < 0:
		return 0, T(math.Copysign(0, float64(y)))
	case odd && rare && x > 0:
		return x, T(math.NaN())
	case y == 0:
		return T(e) * T(cos), y
	}
	return T(e) * T(cos), T(e) * T(sin)
}

// magnitudeDouble returns the absolute value of a complex number.
func magnitudeDouble(x, y float64) (r float64) {
	hypotV[float64](unsafe.Pointer(&r), unsafe.Pointer(&x), unsafe.Pointer(&y), nil, nil, nil, 1, &strides{})
	return r
}

func hypotV[T float](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	for ; ; d, a, b = unsafe.Add(d, sd), unsafe.Add(a, sa), unsafe.Add(b, sb) {
		x, y := math.Abs(float64(*(*T)(a))), math.Abs(float64(*(*T)(b)))
		p, q := max(x, y), min(x, y)
		switch r := q / p; {
		case x > math.MaxFloat64 || y > math.MaxFloat64:
			p = math.Inf(1)
		case p != 0:
			p *= math.Sqrt(1 + float64(r*r))
		}
		*(*T)(d) = T(p)
		if n--; n == 0 {
			return
		}
	}
}

// hypotSingle is hypot of float32. Squares of float32 do not overflow in float64.
func hypotSingle(d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	for ; ; d, a, b = unsafe.Add(d, sd), unsafe.Add(a, sa), unsafe.Add(b, sb) {
		x, y := float64(*(*float32)(a)), float64(*(*float32)(b))
		r := float32(math.Sqrt(float64(x*x) + float64(y*y)))
		if r != r && (math.IsInf(x, 0) || math.IsInf(y, 0)) {
			r = float32(math.Inf(1))
		}
		*(*float32)(d) = r
		if n--; n == 0 {
			return
		}
	}
}
