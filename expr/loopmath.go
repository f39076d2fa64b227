package expr

import (
	"math"
	"unsafe"
)

// functions1 and functions2 are what Go computes elementary functions by, in float64.
var (
	functions1 = map[Op]func(float64) float64{
		Exp: math.Exp, Exp2: math.Exp2, Expm1: math.Expm1, Log: math.Log, Log2: math.Log2, Log10: math.Log10,
		Log1p: math.Log1p, Sin: math.Sin, Cos: math.Cos, Tan: math.Tan, Asin: math.Asin, Acos: math.Acos,
		Atan: math.Atan, Sinh: math.Sinh, Cosh: math.Cosh, Tanh: math.Tanh, Asinh: math.Asinh, Acosh: math.Acosh,
		Atanh: math.Atanh, Erf: math.Erf, Erfc: math.Erfc,
	}
	functions2 = map[Op]func(a, b float64) float64{Pow: math.Pow, Atan2: math.Atan2, Mod: math.Mod, Hypot: math.Hypot}
)

// map1 calls f by a function of T: where the loop converts itself, an element waits for the one before, since a
// conversion writes half of the register that the result was in. Sines take twice as long so.
func map1[T float](f func(float64) float64) body {
	g := func(x T) T { return T(f(float64(x))) }
	return func(d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
		for i := range n {
			*el[T](d, i*by.d) = g(*el[T](a, i*by.a))
		}
	}
}

func map2[T float](f func(a, b float64) float64) body {
	g := func(x, y T) T { return T(f(float64(x), float64(y))) }
	return func(d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
		for i := range n {
			*el[T](d, i*by.d) = g(*el[T](a, i*by.a), *el[T](b, i*by.b))
		}
	}
}

// bothBody computes both parts of a complex function of a number in parts: the imaginary one is written to g.
func bothBody[T float](f func(re, im float64) (float64, float64)) body {
	both := func(x, y T) (T, T) {
		re, im := f(float64(x), float64(y))
		return T(re), T(im)
	}
	return func(d, a, b, _, _, g unsafe.Pointer, n int, by *strides) {
		for i := range n {
			*el[T](d, i*by.d), *el[T](g, i*by.g) = both(*el[T](a, i*by.a), *el[T](b, i*by.b))
		}
	}
}

// callBody is a body of a function that only Go can compute. Operands that it does not take are those that it takes.
func callBody[T float](f *Func) body {
	switch f.Args {
	case 1:
		return map1[T](func(x float64) float64 { return f.F(x, 0, 0) })
	case 2:
		return map2[T](func(x, y float64) float64 { return f.F(x, y, 0) })
	}
	return func(d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
		for i := range n {
			x, y, z := *el[T](a, i*by.a), *el[T](b, i*by.b), *el[T](c, i*by.c)
			*el[T](d, i*by.d) = T(f.F(float64(x), float64(y), float64(z)))
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

// modV32 calls the function by its name: by a func value an element takes three times as long.
func modV32(d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	for i := range n {
		*el[float32](d, i*by.d) = mod32(*el[float32](a, i*by.a), *el[float32](b, i*by.b))
	}
}

// fma32 rounds a*b + c once. The product is exact in float64; of the sum what was lost is found, and makes it odd
// (Boldo and Melquiond), so that the second rounding, to float32, cannot go wrong at a tie that was none.
func fma32(a, b, c float32) float32 {
	p, q := float64(a)*float64(b), float64(c)
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
	for i := range n {
		*el[float32](d, i*by.d) = fma32(*el[float32](a, i*by.a), *el[float32](b, i*by.b), *el[float32](c, i*by.c))
	}
}

func fmaV64(d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	for i := range n {
		*el[float64](d, i*by.d) = math.FMA(*el[float64](a, i*by.a), *el[float64](b, i*by.b), *el[float64](c, i*by.c))
	}
}

func sqrtV[T float](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa := by.d, by.a
	for i := range n {
		*el[T](d, i*sd) = T(math.Sqrt(float64(*el[T](a, i*sa))))
	}
}

func floorV[T float](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa := by.d, by.a
	for i := range n {
		*el[T](d, i*sd) = T(math.Floor(float64(*el[T](a, i*sa))))
	}
}

func ceilV[T float](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa := by.d, by.a
	for i := range n {
		*el[T](d, i*sd) = T(math.Ceil(float64(*el[T](a, i*sa))))
	}
}

func truncV[T float](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa := by.d, by.a
	for i := range n {
		*el[T](d, i*sd) = T(math.Trunc(float64(*el[T](a, i*sa))))
	}
}

func rintV[T float](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa := by.d, by.a
	for i := range n {
		*el[T](d, i*sd) = T(math.RoundToEven(float64(*el[T](a, i*sa))))
	}
}
