package elementary

import "math"

// The logarithm of the Gamma function and its derivative. These formulas are used:
//
//	Gamma(x+1) = x*Gamma(x)                      the recurrence, for x below 10
//	Gamma(x)*Gamma(-x) = -pi/(x*sin(pi*x))       the reflection formula, for negative x
//	log(Gamma(x)) = (x-1/2)*(log(x)-1) + (log(2*pi)-1)/2 + 1/(12x) - ...
//	                                             the asymptotic series, for x >= 10
//
// Lgamma moves operands below 10 to the range from 1.5 to 2.5, and Digamma to 10 or more. Conversions such as
// float64(x*y) prevent fused multiply-adds.

// Lgamma returns the logarithm of the absolute value of the Gamma function. It applies the reflection formula to
// negative numbers and the recurrence to numbers below 10. As in C, the result for negative infinity is infinity.
func Lgamma(x float64) float64 {
	magnitude := math.Abs(x)
	switch {
	case x <= -0.5 && magnitude < 1<<52:
		whole := math.Floor(magnitude)
		frac := magnitude - whole
		if frac == 0 {
			return math.Inf(1)
		}
		if frac > 0.5 {
			frac = 1 - frac
		}
		return Log(math.Pi/float64(magnitude*sin(float64(math.Pi*frac)))) - Lgamma(magnitude)
	case math.IsNaN(x):
		return x
	case x <= -0.5 || math.IsInf(x, 1): // infinite, or -2^52 or less: an integer, where Gamma has a pole
		return math.Inf(1)
	case x < 0.5: // Gamma(x) = Gamma(x+2) / (x*(x+1))
		return (lgammaAt2(x) - log1p(x)) - Log(magnitude)
	case x < 1.5: // Gamma(x) = Gamma(x+1) / x
		return lgammaAt2(x-1) - Log(x)
	case x < 10: // Gamma(x) = Gamma(x-n) * (x-1) * ... * (x-n)
		product := 1.0
		for ; x > 2.5; product *= x {
			x--
		}
		return lgammaAt2(x-2) + Log(product)
	}
	series, inverseSquare := 0.0, 1/float64(x*x)
	for k := len(stirling) - 1; k >= 0; k-- {
		series = stirling[k] + float64(inverseSquare*series)
	}
	return float64((x-0.5)*(Log(x)-1)) + (stirlingConstant + series/x)
}

// stirling are the coefficients of the asymptotic series of log(Gamma(x)) in 1/x^2 (Abramowitz and Stegun 6.1.41).
var stirling = [...]float64{1. / 12, -1. / 360, 1. / 1260, -1. / 1680, 1. / 1188, -691. / 360360, 1. / 156}

// stirlingConstant is the constant term of the asymptotic series, (log(2*pi)-1)/2.
const stirlingConstant = 0.4189385332046727

// lgammaPoly has the coefficients of log(Gamma(2+f))/f for |f| <= 1/2: 22, from the constant term to f^21. The relative
// error of the polynomial is below 2^-55.
var lgammaPoly = [...]float64{0.42278433509846713, 0.3224670334241132, -0.06735230105319809, 0.020580808427784546,
	-0.0073855510286741114, 0.0028905103307415836, -0.0011927539116954181, 0.0005096695247392805,
	-0.00022315475870367355, 9.945751290176889e-05, -4.492623209360517e-05, 2.05072105479096e-05,
	-9.439541921024715e-06, 4.374892520636031e-06, -2.0388192484564222e-06, 9.549510392959532e-07,
	-4.511181191016309e-07, 2.129692727315228e-07, -9.501416425423385e-08, 4.509983567521808e-08,
	-3.1314285360886705e-08, 1.4963573191192003e-08}

// lgammaAt2 returns Lgamma(2+f) for |f| <= 1/2.
func lgammaAt2(f float64) float64 {
	c, f2 := &lgammaPoly, f*f
	even, odd := c[20], c[21]
	for k := 18; k >= 0; k -= 2 {
		even, odd = c[k]+float64(f2*even), c[k+1]+float64(f2*odd)
	}
	return float64(f * (even + float64(f*odd)))
}

// Digamma returns the derivative of the logarithm of the Gamma function. It applies the reflection formula to negative
// numbers and the recurrence to numbers below 10. The asymptotic series gives the result (Abramowitz and Stegun 6.3.7,
// 6.3.5, 6.3.18):
//
//	Digamma(x) = Digamma(1-x) - pi/tan(pi*x)
//	Digamma(x) = Digamma(x+1) - 1/x
//	Digamma(x) = log(x) - 1/(2x) - 1/(12x^2) + 1/(120x^4) - ...
func Digamma(x float64) float64 {
	switch {
	case x == 0:
		return math.Copysign(math.Inf(1), -x)
	case x < 0 && x == math.Floor(x):
		return math.NaN()
	case x < 0:
		return Digamma(1-x) - math.Pi/tan(float64(math.Pi*(x-math.RoundToEven(x)))) // the difference is exact
	}
	recurrenceSum := 0.0
	for x < 10 {
		recurrenceSum -= 1 / x
		x++
	}
	z := 1 / (x * x) // the series after 1/(2x) is in powers of z
	series := 1./240 - float64(z*(1./132-float64(z*(691./32760-z/12))))
	series = float64(z * (1./12 - float64(z*(1./120-float64(z*(1./252-float64(z*series)))))))
	return recurrenceSum + Log(x) - 0.5/x - series
}
