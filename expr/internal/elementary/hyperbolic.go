package elementary

import "math"

// overflowThreshold is slightly below the least x for which math.Exp, math.Sinh and math.Cosh overflow. Some of the
// overflowing results have a finite true value.
const overflowThreshold = 709

// halfSquare is e^2 / 2.
const halfSquare = math.E * math.E / 2

// sinhPoly is (sinh(x)-x)/x^3 in x^2 for |x| <= 1, exact to 2^-66.
var sinhPoly = [...]float64{0.16666666666666666, 0.008333333333333333, 0.00019841269841269773, 2.755731922404034e-06,
	2.505210836405804e-08, 1.6059048396350562e-10, 7.646625361656657e-13, 2.8445264169895285e-15}

func sinh(x float64) float64 {
	switch a := math.Abs(x); {
	case a <= 1:
		c, z := &sinhPoly, x*x
		p := c[7]
		for k := 6; k >= 0; k-- {
			p = c[k] + float64(z*p)
		}
		return x + float64(x*z*p)
	case a <= 22:
		t := a * math.Log2E
		p, _, k := powerOfSum(t, math.FMA(a, math.Log2E, -t)+float64(a*Log2ERounding))
		p = float64(p * (0.5 * powerOf2(k)))
		return math.Copysign(p-0.25/p, x)
	case a > overflowThreshold:
		return math.Copysign(math.Exp(a-2)*halfSquare, x)
	}
	return math.Sinh(x)
}

func cosh(x float64) float64 {
	if a := math.Abs(x); a > overflowThreshold {
		return math.Exp(a-2) * halfSquare
	}
	return math.Cosh(x)
}
