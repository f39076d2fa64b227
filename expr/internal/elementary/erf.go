package elementary

import "math"

// Error functions of float64. The operand selects one of three formulas:
//
//	|x| <= 1/2          erf(x) = x + x*erfPoly(x^2)
//	1/2 < x < 0.84375   erfc(x) = erfc(43/64) plus a polynomial times x - 43/64
//	0.84375 <= x        erfc(x) = exp(-x^2) times a polynomial, divided by 1+2x (erfcTail)
//
// The other results are 1 - erf(x) or 1 - erfc(x). Conversions such as float64(x*y) prevent fused multiply-adds. The
// inverse, Erfinv, is a rational function of x or of sqrt(-log(1-|x|)).

// erf returns the error function of x.
func erf(x float64) float64 {
	switch magnitude := math.Abs(x); {
	case magnitude <= 0.5:
		return x + erfMinusX(x)
	case x != x:
		return x
	case magnitude > 6: // 1 - erf is less than half an ulp
		return math.Copysign(1, x)
	default:
		return math.Copysign(1-erfc(magnitude), x)
	}
}

// erfcMiddlePoly is the polynomial (erfc(x)-erfc(c))/(x-c) in x-c, where c is 43/64 and |x-c| < 0.172, exact to 2^-61.
// erfcAtCenter is erfc(c) as a sum of two numbers.
var (
	erfcMiddlePoly = [...]float64{-0.7184682397495465, 0.4827208485817266, 0.02327069982261717, -0.16872445024892546,
		0.038363486057586146, 0.03640136434089683, -0.016121925244829534, -0.00509231344176992, 0.003895128711382522,
		0.00038193245368279454, -0.0006839987318702408, 1.7638159650155007e-05, 9.35098844787295e-05}
	erfcAtCenter = [2]float64{0.34202347284016327, -2.4914856076776855e-17}
)

// erfc returns 1 - erf(x) without cancellation.
func erfc(x float64) float64 {
	switch {
	case x >= 28: // the result underflows
		return 0
	case x >= 0.84375: // out of the range of erfcMiddlePoly
		return erfcTail(x)
	case x > 0.5:
		d, c := x-43.0/64, &erfcMiddlePoly
		d2 := d * d
		d4 := d2 * d2
		even := (c[8] + float64(d2*c[10])) + float64(d4*c[12])
		even = (c[0] + float64(d2*c[2])) + float64(d4*((c[4]+float64(d2*c[6]))+float64(d4*even)))
		odd := (c[1] + float64(d2*c[3])) + float64(d4*((c[5]+float64(d2*c[7]))+float64(d4*(c[9]+float64(d2*c[11])))))
		return erfcAtCenter[0] + (float64(d*(even+float64(d*odd))) + erfcAtCenter[1])
	case x > 0.25:
		return 0.5 - ((x - 0.5) + erfMinusX(x)) // 1 - erf(x): x - 0.5 is exact
	}
	return 1 - erf(x)
}

// erfPoly is (erf(x)-x)/x in x^2 for |x| <= 1/2: the Taylor series, exact to 2^-63.
var erfPoly = [...]float64{0.1283791670955126, -0.37612638903183754, 0.11283791670955126, -0.026866170645131252,
	0.005223977625442188, -0.0008548327023450853, 0.00012055332981789664, -1.492565035840625e-05,
	1.6462114365889248e-06, -1.6365844691234924e-07, 1.4807192815879218e-08, -1.2290555301717928e-09,
	9.422759064650411e-11}

// erfMinusX returns erf(x) - x for |x| <= 1/2: x*erfPoly(x^2). Even and odd coefficients are summed separately.
func erfMinusX(x float64) float64 {
	c, x2 := &erfPoly, x*x
	x4 := x2 * x2
	x8 := x4 * x4
	even := (c[8] + float64(x4*c[10])) + float64(x8*c[12])
	even = (c[0] + float64(x4*c[2])) + float64(x8*((c[4]+float64(x4*c[6]))+float64(x8*even)))
	odd := (c[1] + float64(x4*c[3])) + float64(x8*((c[5]+float64(x4*c[7]))+float64(x8*(c[9]+float64(x4*c[11])))))
	return float64(x * (even + float64(x2*odd)))
}

// erfcTail returns erfc(a) as exp(-a^2) * v / (1+2a), where v is ErfcPoly at s = (a-4)/(a+4), and exp(-a^2) is
// (p+low) * 2^k. For accuracy, products and quotients are sums of two numbers: a rounded number and its error.
func erfcTail(a float64) float64 {
	z := a * a
	t := -z * math.Log2E // t + tLow is -a^2 * log2(e)
	tLow := math.FMA(-z, math.Log2E, -t) - (float64(z*Log2ERounding) + float64(math.FMA(a, a, -z)*math.Log2E))
	p, low, k := powerOfSum(t, tLow)

	c := (*[23]float64)(ErfcPoly.F64)
	s := (a - 4) / (a + 4)
	w := s * s
	even, odd := c[22], c[21]
	for j := 20; j > 1; j -= 2 {
		even, odd = math.FMA(even, w, c[j]), math.FMA(odd, w, c[j-1])
	}
	part := math.FMA(s, even, odd)
	v := math.FMA(s, part, c[0])
	low = math.FMA(low, v, p*math.FMA(s, part, c[0]-v)) // p * v + low is the numerator

	divisor := 1 + 2*a
	numerator := p * v
	quotient := numerator / divisor
	quotientError := low + math.FMA(p, v, -numerator) + math.FMA(-quotient, divisor, numerator) -
		float64(quotient*(1-(divisor-float64(2*a))))
	// Two factors replace the power 2^k, because it may underflow.
	return (quotient + quotientError/divisor) * powerOf2(k>>1) * powerOf2(k-k>>1)
}

// rational is a rational function. The constant coefficients come first.
type rational struct{ numerator, denominator [8]float64 }

// For |x| <= 3/4, Erfinv is x * inverseMiddle(9/16 - x^2). For greater |x|, let s = sqrt(-log(1-|x|)). Erfinv is then
// inverseNear(s - 1.175) for s < 2.75, and inverseFar(s - 2.75) otherwise, with the sign of x. The relative errors are
// below 2^-53.
var (
	inverseMiddle = rational{numerator: [8]float64{1.0845597967968248, 7.160921199707379, 18.039487150473597,
		21.727106021614006, 12.832151510619875, 3.408658782601145, 0.31730417194039606, 0.004629517836199464},
		denominator: [8]float64{1, 7.121354241112377, 19.70783200731746, 26.78300806716227, 18.607684554381887,
			6.247619308964538, 0.8535064285470091, 0.030108495873496597}}
	inverseNear = rational{numerator: [8]float64{0.8109834824333282, 3.0136707809141834, 4.690242649256962,
		3.935682578084236, 1.8920872541615683, 0.5049083040532555, 0.06566718467335704, 0.003023136494884774},
		denominator: [8]float64{1, 2.4697309508025342, 2.6177361444624343, 1.4637060077497044, 0.438415192578641,
			0.062165436701459506, 0.0030221856081606878, 1.561887469535752e-08}}
	inverseFar = rational{numerator: [8]float64{2.453983256287524, 5.3411725702207296, 4.675909621802425,
		2.129400865369979, 0.5398604428161864, 0.07491685936197641, 0.0051257798429259985, 0.00012739805065419753},
		denominator: [8]float64{1, 1.750913704292424, 1.162384760581555, 0.37698021029078504, 0.06209454604688779,
			0.004776619224453628, 0.00012738596626895806, 1.0422241086293693e-10}}
)

// eval returns the value of the function at t.
func (function *rational) eval(t float64) float64 {
	numCoef, denCoef, t2 := &function.numerator, &function.denominator, t*t
	t4 := t2 * t2
	numerator := (numCoef[4] + float64(t*numCoef[5])) + float64(t2*(numCoef[6]+float64(t*numCoef[7])))
	numerator = ((numCoef[0] + float64(t*numCoef[1])) + float64(t2*(numCoef[2]+float64(t*numCoef[3])))) +
		float64(t4*numerator)
	denominator := (denCoef[4] + float64(t*denCoef[5])) + float64(t2*(denCoef[6]+float64(t*denCoef[7])))
	denominator = ((denCoef[0] + float64(t*denCoef[1])) + float64(t2*(denCoef[2]+float64(t*denCoef[3])))) +
		float64(t4*denominator)
	return numerator / denominator
}

// Erfinv returns the inverse of the error function.
func Erfinv(x float64) float64 {
	magnitude := math.Abs(x)
	switch {
	case magnitude == 1:
		return math.Copysign(math.Inf(1), x)
	case !(magnitude < 1):
		return math.NaN()
	case magnitude <= 0.75:
		return x * inverseMiddle.eval(0.5625-float64(x*x))
	}
	s := math.Sqrt(-Log(1 - magnitude))
	if s < 2.75 {
		return math.Copysign(inverseNear.eval(s-1.175), x)
	}
	return math.Copysign(inverseFar.eval(s-2.75), x)
}
