package interp

import (
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/elementary"
)

// tableBody returns the loop of [Lookup].
func tableBody(table *[32]float32) loopFunc {
	return func(d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
		for i := range n {
			*(*float32)(unsafe.Add(d, i*by.d)) = table[*(*uint32)(unsafe.Add(a, i*by.a))&31]
		}
	}
}

func expV64(d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	elementary.ExpStrided(d, a, n, by.d, by.a)
}

// map1 calls f by a function of T: where the loop converts itself, an element waits for the one before, since a
// conversion writes half of the register that the result was in. Sines take twice as long so.
func map1[T float](f func(float64) float64) loopFunc {
	g, plain := any(f).(func(T) T)
	if !plain {
		g = func(x T) T { return T(f(float64(x))) }
	}
	return mapEach(g)
}

func mapEach[T float](g func(T) T) loopFunc {
	return func(d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
		if size := int(unsafe.Sizeof(T(0))); by.d == size && by.a == size {
			dst := flat[T](d, n)
			x := flat[T](a, n)[:len(dst)]
			for i := range dst {
				dst[i] = g(x[i])
			}
			return
		}
		for i := range n {
			*(*T)(unsafe.Add(d, i*by.d)) = g(*(*T)(unsafe.Add(a, i*by.a)))
		}
	}
}

func map2[T float](f func(a, b float64) float64) loopFunc {
	g, plain := any(f).(func(a, b T) T)
	if !plain {
		g = func(x, y T) T { return T(f(float64(x), float64(y))) }
	}
	return func(d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) { eachPair(d, a, b, n, by, g) }
}

// bothBody computes both parts of a complex function of a number in parts: the imaginary one is written to g.
func bothBody[T float](f func(complex128) complex128) loopFunc {
	both := func(x, y T) (T, T) { // by a function, for the reason that map1 has
		z := f(complex(float64(x), float64(y)))
		return T(real(z)), T(imag(z))
	}
	return func(d, a, b, _, _, g unsafe.Pointer, n int, by *strides) {
		for i := range n {
			re, im := both(*(*T)(unsafe.Add(a, i*by.a)), *(*T)(unsafe.Add(b, i*by.b)))
			*(*T)(unsafe.Add(d, i*by.d)), *(*T)(unsafe.Add(g, i*by.g)) = re, im
		}
	}
}

// callBody is a body of a function that only Go can compute.
func callBody[T float](f *expr.Func) loopFunc {
	if one := f.Unary(); one != nil {
		return map1[T](one)
	}
	return func(d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
		for i := range n {
			x, y, z := *(*T)(unsafe.Add(a, i*by.a)), *(*T)(unsafe.Add(b, i*by.b)), *(*T)(unsafe.Add(c, i*by.c))
			*(*T)(unsafe.Add(d, i*by.d)) = T(f.F(float64(x), float64(y), float64(z)))
		}
	}
}

// mod32 is math.Mod, exact as that is, some times faster where the quotient is below 2^29: its product with the
// 24 bits of b then fits the 53 bits of a float64.
func mod32(a, b float32) float32 {
	x, y := float64(a), float64(b)
	q := math.Trunc(x / y)
	if !(math.Abs(q) < 1<<29) || math.IsInf(y, 0) {
		return float32(math.Mod(x, y))
	}
	r := x - q*y
	// The quotient may have been rounded up to the next integer.
	if r != 0 && (r < 0) != (x < 0) {
		r += math.Copysign(y, x)
	}
	return float32(math.Copysign(r, x))
}

func modV32(d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) { eachPair(d, a, b, n, by, mod32) }

// fma32 rounds p + q, a product and a number of float32, once: s is their sum in float64, and is rounded to float32.
// That goes wrong where s came to lie between two numbers of float32, which the bits of normal ones show. What was lost
// of the sum then makes it odd (Boldo and Melquiond), so that there is no tie.
func fma32(p, q float64) float32 {
	s := p + q
	t := s - p
	lost := (p - (s - t)) + (q - t)
	if bits := math.Float64bits(s); (lost > 0 || lost < 0) && bits&1 == 0 {
		if (lost > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
		s = math.Float64frombits(bits)
	}
	return float32(s)
}

func fmaV32(d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	const below = 1<<(52-23) - 1 // bits below float32's last one
	for sd, sa, sb, sc := by.d, by.a, by.b, by.c; ; {
		p, q := float64(*(*float32)(a))*float64(*(*float32)(b)), float64(*(*float32)(c))
		if bits := math.Float64bits(p + q); bits&below != (below+1)/2 && bits<<1 >= (1023-126)<<53 {
			*(*float32)(d) = float32(math.Float64frombits(bits))
		} else {
			*(*float32)(d) = fma32(p, q)
		}
		if n--; n == 0 {
			return
		}
		d, a, b, c = unsafe.Add(d, sd), unsafe.Add(a, sa), unsafe.Add(b, sb), unsafe.Add(c, sc)
	}
}

func fmaV64(d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	for sd, sa, sb, sc := by.d, by.a, by.b, by.c; ; {
		*(*float64)(d) = math.FMA(*(*float64)(a), *(*float64)(b), *(*float64)(c))
		if n--; n == 0 {
			return
		}
		d, a, b, c = unsafe.Add(d, sd), unsafe.Add(a, sa), unsafe.Add(b, sb), unsafe.Add(c, sc)
	}
}

func sqrtV[T float](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa := by.d, by.a
	for ; ; d, a = unsafe.Add(d, sd), unsafe.Add(a, sa) {
		*(*T)(d) = T(math.Sqrt(float64(*(*T)(a))))
		if n--; n == 0 {
			return
		}
	}
}

func floorV[T float](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa := by.d, by.a
	for ; ; d, a = unsafe.Add(d, sd), unsafe.Add(a, sa) {
		*(*T)(d) = T(math.Floor(float64(*(*T)(a))))
		if n--; n == 0 {
			return
		}
	}
}

func ceilV[T float](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa := by.d, by.a
	for ; ; d, a = unsafe.Add(d, sd), unsafe.Add(a, sa) {
		*(*T)(d) = T(math.Ceil(float64(*(*T)(a))))
		if n--; n == 0 {
			return
		}
	}
}

func truncV[T float](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa := by.d, by.a
	for ; ; d, a = unsafe.Add(d, sd), unsafe.Add(a, sa) {
		*(*T)(d) = T(math.Trunc(float64(*(*T)(a))))
		if n--; n == 0 {
			return
		}
	}
}

func rintV[T float](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa := by.d, by.a
	for ; ; d, a = unsafe.Add(d, sd), unsafe.Add(a, sa) {
		*(*T)(d) = T(math.RoundToEven(float64(*(*T)(a))))
		if n--; n == 0 {
			return
		}
	}
}
