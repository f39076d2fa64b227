package elementary

import "math"

// Lgamma returns the logarithm of the absolute value of the Gamma function. One comparison finds all operands for which
// math.Lgamma is wrong.
func Lgamma(x float64) float64 {
	const least, infinity = 1 << 53, infinityBits << 1
	if b := math.Float64bits(x) << 1; b-least >= infinity-least {
		return lgammaSpecial(x)
	}
	v, _ := math.Lgamma(x)
	return v
}

// lgammaSpecial is Lgamma for infinities, NaN and numbers near 0. As in C and unlike math.Lgamma, the result for
// negative infinity is positive infinity. Near 0, math.Lgamma uses a logarithm that is wrong for subnormal numbers on
// some processors.
func lgammaSpecial(x float64) float64 {
	if a := math.Abs(x); a < 1 {
		return -Log(a)
	}
	return x * x
}

// Digamma returns the derivative of the logarithm of the Gamma function. It applies the reflection formula to negative
// numbers and the recurrence to numbers below 10. The asymptotic series gives the result (Abramowitz and Stegun 6.3.7,
// 6.3.5, 6.3.18).
func Digamma(x float64) float64 {
	switch {
	case x == 0:
		return math.Copysign(math.Inf(1), -x)
	case x < 0 && x == math.Floor(x):
		return math.NaN()
	case x < 0:
		_, frac := math.Modf(x)
		return Digamma(1-x) - math.Pi/math.Tan(math.Pi*frac)
	}
	r := 0.0
	for x < 10 {
		r -= 1 / x
		x++
	}
	z := 1 / (x * x)
	series := 1./240 - float64(z*(1./132-float64(z*(691./32760-z/12))))
	series = float64(z * (1./12 - float64(z*(1./120-float64(z*(1./252-float64(z*series)))))))
	return r + math.Log(x) - 0.5/x - series
}
