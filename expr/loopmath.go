package expr

import (
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// functions1 and functions2 are what Go computes elementary functions by, in float64.
var (
	functions1 = map[Op]func(float64) float64{
		Exp: math.Exp, Exp2: math.Exp2, Expm1: math.Expm1, Log: math.Log, Log2: math.Log2, Log10: math.Log10,
		Log1p: math.Log1p, Sin: math.Sin, Cos: math.Cos, Tan: math.Tan, Asin: math.Asin, Acos: math.Acos,
		Atan: math.Atan, Sinh: math.Sinh, Cosh: math.Cosh, Tanh: math.Tanh, Asinh: math.Asinh, Acosh: math.Acosh,
		Atanh: math.Atanh, Erf: math.Erf, Erfc: math.Erfc,
	}
	functions2 = map[Op]func(a, b float64) float64{Pow: math.Pow, Atan2: math.Atan2, Mod: math.Mod}
)

// map1 calls f by a function of T: where the loop converts itself, an element waits for the one before, since a
// conversion writes half of the register that the result was in. Sines take twice as long so.
func map1[T float](f func(float64) float64) body {
	g := func(x T) T { return T(f(float64(x))) }
	return func(d, a, _, _ unsafe.Pointer, n int) {
		dst := unsafe.Slice((*T)(d), n)
		x := unsafe.Slice((*T)(a), n)[:len(dst)]
		for i := range dst {
			dst[i] = g(x[i])
		}
	}
}

// map2 reads element 0 of an operand that is the same for all: the mask of its index is 0.
func map2[T float](f func(a, b float64) float64, single [3]bool) body {
	ma, mb := indexMask(single[0]), indexMask(single[1])
	g := func(x, y T) T { return T(f(float64(x), float64(y))) }
	return func(d, a, b, _ unsafe.Pointer, n int) {
		dst := unsafe.Slice((*T)(d), n)
		x, y := unsafe.Slice((*T)(a), max(1, n&ma)), unsafe.Slice((*T)(b), max(1, n&mb))
		for i := range dst {
			dst[i] = g(x[i&ma], y[i&mb])
		}
	}
}

// bothBody computes both parts of a complex function of a number in parts: the imaginary one is written to c.
func bothBody[T float](f func(re, im float64) (float64, float64)) body {
	g := func(x, y T) (T, T) {
		re, im := f(float64(x), float64(y))
		return T(re), T(im)
	}
	return func(d, a, b, c unsafe.Pointer, n int) {
		re, im := unsafe.Slice((*T)(d), n), unsafe.Slice((*T)(c), n)
		x, y := unsafe.Slice((*T)(a), n), unsafe.Slice((*T)(b), n)
		for i := range re {
			re[i], im[i] = g(x[i], y[i])
		}
	}
}

func indexMask(single bool) int {
	if single {
		return 0
	}
	return -1
}

// callBody is a body of a function that only Go can compute.
func callBody[T float](f *Func, single [3]bool) body {
	ma, mb, mc := indexMask(single[0]), indexMask(single[1]), indexMask(single[2])
	return func(d, a, b, c unsafe.Pointer, n int) {
		dst := unsafe.Slice((*T)(d), n)
		x, y, z := unsafe.Slice((*T)(a), max(1, n&ma)), unsafe.Slice((*T)(b), max(1, n&mb)),
			unsafe.Slice((*T)(c), max(1, n&mc))
		for i := range dst {
			dst[i] = T(f.F(float64(x[i&ma]), float64(y[i&mb]), float64(z[i&mc])))
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
func modV32(d, a, b, _ unsafe.Pointer, n int) {
	dst := unsafe.Slice((*float32)(d), n)
	x, y := unsafe.Slice((*float32)(a), n)[:len(dst)], unsafe.Slice((*float32)(b), n)[:len(dst)]
	for i := range dst {
		dst[i] = mod32(x[i], y[i])
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

func fmaV32(d, a, b, c unsafe.Pointer, n int) {
	dst := unsafe.Slice((*float32)(d), n)
	x, y, z := unsafe.Slice((*float32)(a), n)[:len(dst)], unsafe.Slice((*float32)(b), n)[:len(dst)],
		unsafe.Slice((*float32)(c), n)[:len(dst)]
	for i := range dst {
		dst[i] = fma32(x[i], y[i], z[i])
	}
}

func fmaV64(d, a, b, c unsafe.Pointer, n int) {
	dst := unsafe.Slice((*float64)(d), n)
	x, y, z := unsafe.Slice((*float64)(a), n)[:len(dst)], unsafe.Slice((*float64)(b), n)[:len(dst)],
		unsafe.Slice((*float64)(c), n)[:len(dst)]
	for i := range dst {
		dst[i] = math.FMA(x[i], y[i], z[i])
	}
}

func sqrtV[T float](d, a, _, _ unsafe.Pointer, n int) {
	dst := unsafe.Slice((*T)(d), n)
	x := unsafe.Slice((*T)(a), n)[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Sqrt(float64(x[i])))
	}
}

func floorV[T float](d, a, _, _ unsafe.Pointer, n int) {
	dst := unsafe.Slice((*T)(d), n)
	x := unsafe.Slice((*T)(a), n)[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Floor(float64(x[i])))
	}
}

func ceilV[T float](d, a, _, _ unsafe.Pointer, n int) {
	dst := unsafe.Slice((*T)(d), n)
	x := unsafe.Slice((*T)(a), n)[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Ceil(float64(x[i])))
	}
}

func truncV[T float](d, a, _, _ unsafe.Pointer, n int) {
	dst := unsafe.Slice((*T)(d), n)
	x := unsafe.Slice((*T)(a), n)[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Trunc(float64(x[i])))
	}
}

func rintV[T float](d, a, _, _ unsafe.Pointer, n int) {
	dst := unsafe.Slice((*T)(d), n)
	x := unsafe.Slice((*T)(a), n)[:len(dst)]
	for i := range dst {
		dst[i] = T(math.RoundToEven(float64(x[i])))
	}
}

// loadPart reads a part of complex numbers, storePair puts both together.
func loadPart(d tensor.DType, part int) body {
	if d == tensor.Complex64 {
		return partV[float32](part)
	}
	return partV[float64](part)
}

func partV[T float](part int) body {
	return func(d, a, _, _ unsafe.Pointer, n int) {
		dst := unsafe.Slice((*T)(d), n)
		x := unsafe.Slice((*[2]T)(a), n)[:len(dst)]
		for i := range dst {
			dst[i] = x[i][part&1]
		}
	}
}

func storePair(d tensor.DType) body {
	if d == tensor.Complex64 {
		return pairV[float32]
	}
	return pairV[float64]
}

func pairV[T float](d, a, b, _ unsafe.Pointer, n int) {
	dst := unsafe.Slice((*[2]T)(d), n)
	x, y := unsafe.Slice((*T)(a), n)[:len(dst)], unsafe.Slice((*T)(b), n)[:len(dst)]
	for i := range dst {
		dst[i] = [2]T{x[i], y[i]}
	}
}
