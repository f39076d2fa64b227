package interp

import (
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/elementary"
)

// tableBody returns the loop of [expr.Lookup].
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

// map1 returns the loop of f. A separate function converts to and from float64. A conversion writes only half of a
// register, so conversions in the loop itself would make each element wait for the previous element. Sines would take
// twice the time.
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
			dst := contiguousElements[T](d, n)
			x := contiguousElements[T](a, n)[:len(dst)]
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

// bothBody returns the loop that computes both parts of a complex function. It writes the imaginary part to g.
func bothBody[T float](f func(complex128) complex128) loopFunc {
	both := func(x, y T) (T, T) { // a separate function, as in map1
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

// callBody returns the loop of a [expr.Func].
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

// mod32 is math.Mod of float32, but several times faster for quotients below 2^29. The product of the quotient and b,
// which has 24 bits, is then exact in float64.
func mod32(a, b float32) float32 {
	x, y := float64(a), float64(b)
	q := math.Trunc(x / y)
	if !(math.Abs(q) < 1<<29) || math.IsInf(y, 0) {
		return float32(math.Mod(x, y))
	}
	r := x - float64(q*y)
	// The quotient may have been rounded up to the next integer.
	if r != 0 && (r < 0) != (x < 0) {
		r += math.Copysign(y, x)
	}
	return float32(math.Copysign(r, x))
}

func modV32(d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) { eachPair(d, a, b, n, by, mod32) }

// fma32 returns p + q rounded to float32 once, where p is a product and q a float32. Rounding the float64 sum s to
// float32 would be a second rounding, which is wrong if s is halfway between two float32 numbers. Making s odd if bits
// were lost prevents ties (Boldo and Melquiond).
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
	const below = 1<<(52-23) - 1 // the bits below the last bit of a float32
	for sd, sa, sb, sc := by.d, by.a, by.b, by.c; ; {
		p, q := float64(float64(*(*float32)(a))*float64(*(*float32)(b))), float64(*(*float32)(c))
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
