package pointwise

import (
	"math"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// The Chebyshev polynomials of the four kinds, at x and at 2x - 1 (shifted). n is truncated; for negative n the result
// is 0. For -1 < x < 1 and x = cos(t), the polynomials of degree n are
//
//	T: cos(n*t)
//	U: sin((n+1)*t) / sin(t)
//	V: cos((n+1/2)*t) / cos(t/2)
//	W: sin((n+1/2)*t) / sin(t/2)
//
// For x > 1 and x = cosh(p), cosh and sinh of p take the place of cos and sin of t.
var (
	ChebyshevPolynomialT = chebyshev("chebyshev_polynomial_t", 't')
	ChebyshevPolynomialU = chebyshev("chebyshev_polynomial_u", 'u')
	ChebyshevPolynomialV = chebyshev("chebyshev_polynomial_v", 'v')
	ChebyshevPolynomialW = chebyshev("chebyshev_polynomial_w", 'w')

	ShiftedChebyshevPolynomialT = chebyshev("shifted_chebyshev_polynomial_t", 't')
	ShiftedChebyshevPolynomialU = chebyshev("shifted_chebyshev_polynomial_u", 'u')
	ShiftedChebyshevPolynomialV = chebyshev("shifted_chebyshev_polynomial_v", 'v')
	ShiftedChebyshevPolynomialW = chebyshev("shifted_chebyshev_polynomial_w", 'w')
)

// chebyshev defines the op special_name for the polynomials of a kind: t, u, v or w.
func chebyshev(name string, kind rune) *graph.Op {
	argumentText, argumentFormula := "x", "float64(x)"
	isShifted := strings.HasPrefix(name, "shifted")
	if isShifted {
		argumentText, argumentFormula = "2x - 1", "2 * float64(x) - 1"
	}
	return elementwise(kit.NoAttrs, "special_"+name, "Returns the Chebyshev polynomial of kind "+string(kind-'a'+'A')+
		" and degree n at "+argumentText+". A negative degree gives 0. "+
		"Where |"+argumentText+"| < 1, degrees above 2^31 give NaN, because the angle k acos(x) has too few digits.",
		[]graph.Param{{Name: "x", AcceptsNumber: true}, {Name: "n", AcceptsNumber: true}},
		&graph.Pointwise{Grain: machine.FunctionGrain, Config: binaryFloat,
			Body: bodyByDType(name, kernelsOf(formula(chebyshevText(kind, argumentFormula), "x", "n"), floats))},
		floatRef2(func(x, n float64) float64 {
			if isShifted {
				x = float64(2*x) - 1
			}
			return chebyshevPolynomial(kind, x, math.Trunc(n))
		}), kit.BinaryExample, kit.IntegersExample)
}

// chebyshevText returns the formula of the polynomials of a kind at v, whose formula is given. k is the degree. With
// a = abs(v), t is acos(a) if a < 1, and p is acosh(a) if a > 1. Near 0, where the polynomials of odd degree are
// small, T and U are functions of s = asin(a), which is t less than a right angle. Quotients of cosh and sinh are
// written with exp(k * p), so that they overflow only if the polynomial does. The formula computes the polynomial at
// a. A negative v exchanges the third kind (V) and the fourth kind (W), and changes the sign of odd polynomials:
// V[k](-a) is W[k](a), times -1 for odd k. Unlike PyTorch's recurrences, the formula takes the same time for every
// degree.
func chebyshevText(kind rune, vFormula string) string {
	regular := map[rune]string{ // for k > 0, finite a, and an angle with enough digits
		't': "where(a < 0.5, sign * where(m == 0, cos(k * s), sin(k * s)), where(a < 1, cos(k * t), cosh(k * p)))",
		'u': "where(a < 0.5, sign * where(m == 0, cos((k + 1) * s), sin((k + 1) * s)) / cos(s), " +
			"where(a < 1, sin((k + 1) * t) / sin(t), where(a == 1, k + 1, " +
			"exp(k * p) * (expm1(-2 * (k + 1) * p) / expm1(-2 * p)))))",
		'v': "where(v < 0, fourth, third)",
		'w': "where(v < 0, third, fourth)",
	}[kind]
	halfAngles := "" // the polynomials of the third and fourth kinds, which have half angles
	if kind == 'v' || kind == 'w' {
		halfAngles = "third = where(a < 1, cos((k + 0.5) * t) / cos(t * 0.5), " +
			"exp(k * p) * ((1 + exp(-(2 * k + 1) * p)) / (1 + exp(-p)))); " +
			"fourth = where(a < 1, sin((k + 0.5) * t) / sin(t * 0.5), " +
			"where(a == 1, 2 * k + 1, exp(k * p) * (expm1(-(2 * k + 1) * p) / expm1(-p)))); "
	}
	return "v = " + vFormula + "; k = trunc(float64(n)); a = abs(v); " +
		"t = acos(minimum(a, 1)); p = acosh(maximum(a, 1)); " +
		"s = asin(minimum(a, 1)); m = fmod(k, 2); sign = where(fmod(k, 4) >= 2, -1, 1); " +
		halfAngles + "regular = " + regular + "; " +
		"atAbs = where(k == 0, 1, where(a == inf, inf, where(a < 1 and k > 2147483648, nan, regular))); " +
		"type_as(where(k < 0, 0, where(v < 0 and fmod(k, 2) != 0, -atAbs, atAbs)), x)"
}

// chebyshevPolynomial is the reference function of the polynomials. k is the degree, an integer. Up to degree 1000 it
// is PyTorch's recurrence.
func chebyshevPolynomial(kind rune, x, k float64) float64 {
	if k < 0 {
		return 0
	}
	if x < 0 {
		kind = map[rune]rune{'t': 't', 'u': 'u', 'v': 'w', 'w': 'v'}[kind]
		sign := 1.0
		if math.Mod(k, 2) != 0 {
			sign = -1
		}
		return sign * chebyshevPolynomial(kind, -x, k)
	}
	if k > 0 && k <= 1000 && !math.IsInf(x, 1) {
		before, polynomial := 1.0, map[rune]float64{'t': x, 'u': 2 * x, 'v': float64(2*x) - 1, 'w': float64(2*x) + 1}[kind]
		for range int(k) - 1 {
			if before, polynomial = polynomial, float64(2*x*polynomial)-before; math.IsInf(polynomial, 0) {
				break
			}
		}
		return polynomial
	}
	sine, cosine, angle := math.Sin, math.Cos, math.Acos(min(x, 1))
	if x < 1 && x > 1-1e-6 { // the absolute error of math.Acos is one rounding of pi
		angle = 2 * math.Asin(math.Sqrt((1-x)/2))
	}
	if x > 1 {
		sine, cosine, angle = sinh, cosh, math.Acosh(x)
	}
	switch {
	case k == 0:
		return 1
	case math.IsInf(x, 1):
		return x
	case x < 1 && k > 1<<31:
		return math.NaN()
	case x < 1e-6 && k <= 1<<31 && (kind == 't' || kind == 'u'): // the angle is pi/2 - x
		order := k
		if kind == 'u' {
			order++
		}
		values := [4]float64{math.Cos(order * x), math.Sin(order * x), -math.Cos(order * x), -math.Sin(order * x)}
		return values[int(math.Mod(k, 4))]
	case kind == 't':
		return cosine(k * angle)
	case kind == 'v':
		return cosine((k+0.5)*angle) / cosine(angle/2)
	case kind == 'u' && x == 1:
		return k + 1
	case kind == 'u':
		return sine((k+1)*angle) / sine(angle)
	case x == 1:
		return float64(2*k) + 1
	}
	return sine((k+0.5)*angle) / sine(angle/2) // kind w
}
