package elementary

import "math"

// Hyperbolic functions of float64 and their inverses, by exponentials and logarithms: sinh(x) is (e^x - e^-x)/2,
// cosh(x) is (e^x + e^-x)/2, and so on. Where such a difference would cancel, for small x, a function uses a
// polynomial, expm1 or log1p instead. Where e^-x is negligible, for large x, a function omits it. Conversions such as
// float64(x*y) prevent fused multiply-adds.

// overflowThreshold is slightly below the least x for which e^x overflows. sinh and cosh overflow for greater numbers.
const overflowThreshold = 709

// For x above negligibleExp, exp(-2x) is negligible: it is less than half an ulp of 1.
const negligibleExp = 22

// halfESquared is e^2 / 2. e^(a-2) * halfESquared is e^a / 2, and overflows only if the result does.
const halfESquared = math.E * math.E / 2

// sinhPoly is (sinh(x)-x)/x^3 in x^2 for |x| <= 1, exact to 2^-66.
var sinhPoly = [...]float64{0.16666666666666666, 0.008333333333333333, 0.00019841269841269773, 2.755731922404034e-06,
	2.505210836405804e-08, 1.6059048396350562e-10, 7.646625361656657e-13, 2.8445264169895285e-15}

// sinh returns the hyperbolic sine of x.
func sinh(x float64) float64 {
	switch magnitude := math.Abs(x); {
	case magnitude <= 1:
		c, x2 := &sinhPoly, x*x
		p := c[7]
		for k := 6; k >= 0; k-- {
			p = c[k] + float64(x2*p)
		}
		return x + float64(x*x2*p)
	case magnitude <= negligibleExp:
		// With a = |x|, t is a/log(2), and p is first e^a / 2^k and then e^a / 2. sinh(a) is p - 1/(4p).
		t := magnitude * math.Log2E
		p, _, k := powerOfSum(t, math.FMA(magnitude, math.Log2E, -t)+float64(magnitude*Log2ERounding))
		p = float64(p * (0.5 * powerOf2(k)))
		return math.Copysign(p-0.25/p, x)
	case magnitude <= overflowThreshold:
		return math.Copysign(0.5*Exp(magnitude), x)
	default:
		return math.Copysign(Exp(magnitude-2)*halfESquared, x)
	}
}

// cosh returns the hyperbolic cosine of x.
func cosh(x float64) float64 {
	switch magnitude := math.Abs(x); {
	case magnitude <= negligibleExp:
		exp := Exp(magnitude)
		return float64(0.5*exp) + 0.5/exp
	case magnitude <= overflowThreshold:
		return 0.5 * Exp(magnitude)
	default:
		return Exp(magnitude-2) * halfESquared
	}
}

// tanh is t/(2+t) with t = expm1(2|x|), or 1 - 2/(exp(2|x|)+1) if |x| is at least 1/2.
func tanh(x float64) float64 {
	magnitude := math.Abs(x)
	y := 1.0
	switch {
	case magnitude < 0.5:
		t := expm1(2 * magnitude)
		y = t / (2 + t)
	case !(magnitude > negligibleExp): // also NaN
		y = 1 - 2/(Exp(2*magnitude)+1)
	}
	return math.Copysign(y, x)
}

// asinh is log1p(a + a^2/(1+sqrt(a^2+1))) with a = |x|. For a > 2 it is log(2a + 1/(sqrt(a^2+1)+a)), and for large a
// log(a) + log(2).
func asinh(x float64) float64 {
	a := math.Abs(x)
	y := 0.0
	switch {
	case !(a < 1<<28): // the second summand of log is negligible; also NaN
		y = Log(a) + math.Ln2
	case a > 2:
		y = Log(2*a + 1/(math.Sqrt(float64(a*a)+1)+a))
	default:
		y = log1p(a + float64(a*a)/(1+math.Sqrt(float64(a*a)+1)))
	}
	return math.Copysign(y, x)
}

// acosh is log1p(t + sqrt(2t+t^2)) with t = x-1. For x > 2 it is log(2x - 1/(x+sqrt(x^2-1))), and for large x log(x) +
// log(2).
func acosh(x float64) float64 {
	switch {
	case x < 1:
		return math.NaN()
	case !(x < 1<<28): // the second summand of log is negligible; also NaN
		return Log(x) + math.Ln2
	case x > 2:
		return Log(2*x - 1/(x+math.Sqrt(float64(x*x)-1)))
	}
	t := x - 1
	return log1p(t + math.Sqrt(2*t+float64(t*t)))
}

// atanh is log1p(2a/(1-a))/2 with a = |x|. For a < 1/2, the operand is computed as 2a + 2a*a/(1-a), which has a smaller
// rounding error.
func atanh(x float64) float64 {
	a := math.Abs(x)
	y := 0.0
	if a < 0.5 {
		t := 2 * a
		y = 0.5 * log1p(t+float64(t*a)/(1-a))
	} else {
		y = 0.5 * log1p(2*a/(1-a))
	}
	return math.Copysign(y, x)
}

// Hypot returns the root of a^2 + b^2.
func Hypot(a, b float64) float64 {
	large, small := math.Abs(a), math.Abs(b)
	switch {
	case math.IsInf(a, 0) || math.IsInf(b, 0):
		return math.Inf(1)
	case large < small:
		large, small = small, large
	}
	if large == 0 {
		return 0
	}
	small /= large
	return large * math.Sqrt(1+float64(small*small))
}
