package expr

import "math"

// calls are functions of one number that only Go computes.
var calls = map[string]*Func{
	"lgamma": real1("lgamma", lgamma), "erfinv": real1("erfinv", math.Erfinv), "digamma": real1("digamma", digamma),
}

func real1(name string, f func(float64) float64) *Func {
	return &Func{Name: name, Args: 1, F: func(a, _, _ float64) float64 { return f(a) }, one: f}
}

// lgamma looks at one place for all numbers that are not package math's.
func lgamma(x float64) float64 {
	const least, infinity = 1 << 53, infinityBits << 1
	if b := math.Float64bits(x) << 1; b-least >= infinity-least {
		return lgammaEnd(x)
	}
	v, _ := math.Lgamma(x)
	return v
}

// lgammaEnd is infinite at negative infinity, as C has it and Go has not; of numbers near 0 package math takes a
// logarithm that is wrong of subnormal ones on some processors.
func lgammaEnd(x float64) float64 {
	if a := math.Abs(x); a < 1 {
		return -log(a)
	}
	return x * x
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

// complexCalls are functions of a complex number, by the two parts of the result.
var complexCalls = func() map[string][2]*Func {
	calls := map[string][2]*Func{}
	for name, f := range map[string]func(complex128) complex128{"sqrt": complexSqrt, "sin": complexSin, "cos": complexCos,
		"tan": complexTan, "asin": complexAsin, "acos": complexAcos, "atan": complexAtan, "sinh": complexSinh,
		"cosh": complexCosh, "tanh": complexTanh, "asinh": complexAsinh, "acosh": complexAcosh, "atanh": complexAtanh} {
		im := &Func{Name: name + ".im", Args: 2, F: func(a, b, _ float64) float64 { return imag(f(complex(a, b))) }}
		re := &Func{Name: name + ".re", Args: 2, F: func(a, b, _ float64) float64 { return real(f(complex(a, b))) },
			imag: im, both: f}
		calls[name] = [2]*Func{re, im}
	}
	return calls
}()
