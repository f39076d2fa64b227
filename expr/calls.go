package expr

import (
	"math"
	"math/cmplx"
)

// calls are functions of one number that only Go computes.
var calls = map[string]*Func{
	"lgamma": real1("lgamma", lgamma), "erfinv": real1("erfinv", math.Erfinv), "digamma": real1("digamma", digamma),
}

func real1(name string, f func(float64) float64) *Func {
	return &Func{Name: name, Args: 1, F: func(a, _, _ float64) float64 { return f(a) }, one: f}
}

// lgamma is infinite at negative infinity, as C has it and Go has not; of numbers near 0 package math takes a logarithm
// that is wrong of subnormal ones on some processors.
func lgamma(x float64) float64 {
	if a := math.Abs(x); a < 0x1p-1022 {
		return -log(a)
	}
	v, _ := math.Lgamma(x)
	if math.IsInf(x, -1) {
		return -x
	}
	return v
}

// digamma is the derivative of lgamma: reflected to positive numbers, brought to 10 and more by the recurrence, and
// there by the asymptotic series (Abramowitz and Stegun 6.3.5, 6.3.7, 6.3.18).
func digamma(x float64) float64 {
	switch {
	case x == 0:
		return math.Copysign(math.Inf(1), -x)
	case x < 0 && x == math.Floor(x):
		return math.NaN()
	case x < 0:
		_, frac := math.Modf(x)
		return digamma(1-x) - math.Pi/math.Tan(math.Pi*frac)
	}
	r := 0.0
	for x < 10 {
		r -= 1 / x
		x++
	}
	z := 1 / (x * x)
	series := z * (1./12 - z*(1./120-z*(1./252-z*(1./240-z*(1./132-z*(691./32760-z/12))))))
	return r + math.Log(x) - 0.5/x - series
}

// complexSqrt is cmplx.Sqrt without branches that are taken at random. Imaginary parts keep their sign, those too that
// are nothing beside the real part.
func complexSqrt(z complex128) complex128 {
	a, b := real(z), imag(z)
	if a == 0 || b == 0 || a-a != 0 || b-b != 0 {
		return cmplx.Sqrt(z)
	}
	up, scale := 0x1p54, 0x1p-27 // squares neither overflow nor underflow
	if math.Abs(a) > 4 || math.Abs(b) > 4 {
		up, scale = 0.25, 2
	}
	a, b = a*up, b*up
	r := math.Sqrt(0.5*math.Hypot(a, b) + 0.5*math.Abs(a))
	large, small := math.Float64bits(r*scale), math.Float64bits(scale*math.Abs(0.5*b/r))
	re, im := large, small
	if a < 0 { // bits are moved under the condition
		re, im = small, large
	}
	return complex(math.Float64frombits(re), math.Float64frombits(im|math.Float64bits(b)&signBit))
}

// complexCalls are functions of a complex number, by the two parts of the result.
var complexCalls = func() map[string][2]*Func {
	calls := map[string][2]*Func{}
	for name, f := range map[string]func(complex128) complex128{"sqrt": complexSqrt, "sin": cmplx.Sin, "cos": cmplx.Cos,
		"tan": cmplx.Tan, "asin": cmplx.Asin, "acos": cmplx.Acos, "atan": cmplx.Atan, "sinh": cmplx.Sinh,
		"cosh": cmplx.Cosh, "tanh": cmplx.Tanh, "asinh": cmplx.Asinh, "acosh": cmplx.Acosh, "atanh": cmplx.Atanh} {
		im := &Func{Name: name + ".im", Args: 2, F: func(a, b, _ float64) float64 { return imag(f(complex(a, b))) }}
		re := &Func{Name: name + ".re", Args: 2, F: func(a, b, _ float64) float64 { return real(f(complex(a, b))) },
			imag: im, both: f}
		calls[name] = [2]*Func{re, im}
	}
	return calls
}()
