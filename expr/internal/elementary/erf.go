package elementary

import "math"

// erfcPart is (erfc(x)-erfc(c))/(x-c) in x-c, where c is 43/64 and |x-c| < 0.172, exact to 2^-61. erfcMiddle is erfc(c)
// as a sum of two numbers.
var (
	erfcPart = [...]float64{-0.7184682397495465, 0.4827208485817266, 0.02327069982261717, -0.16872445024892546,
		0.038363486057586146, 0.03640136434089683, -0.016121925244829534, -0.00509231344176992, 0.003895128711382522,
		0.00038193245368279454, -0.0006839987318702408, 1.7638159650155007e-05, 9.35098844787295e-05}
	erfcMiddle = [2]float64{0.34202347284016327, -2.4914856076776855e-17}
)

// erfc calls math.Erfc for operands for which it is accurate. For other operands, math.Erfc cancels in 1 - erf, or
// rounds exponentials twice.
func erfc(x float64) float64 {
	switch {
	case x >= 1.25 && x < 28:
		return erfcTail(x)
	case x > 0.5 && x < 0.84375:
		d, c := x-43.0/64, &erfcPart
		z := d * d
		u := z * z
		even := (c[8] + float64(z*c[10])) + float64(u*c[12])
		even = (c[0] + float64(z*c[2])) + float64(u*((c[4]+float64(z*c[6]))+float64(u*even)))
		odd := (c[1] + float64(z*c[3])) + float64(u*((c[5]+float64(z*c[7]))+float64(u*(c[9]+float64(z*c[11])))))
		return erfcMiddle[0] + (float64(d*(even+float64(d*odd))) + erfcMiddle[1])
	}
	return math.Erfc(x)
}

// erfcTail is exp(-a^2) * ErfcPoly / (1+2a), as erfc of package expand. Products and quotients are sums of two numbers.
func erfcTail(a float64) float64 {
	z := a * a
	t := -z * math.Log2E
	rest := math.FMA(-z, math.Log2E, -t) - (float64(z*Log2ERounding) + float64(math.FMA(a, a, -z)*math.Log2E))
	p, low, k := powerOfSum(t, rest)
	c := (*[23]float64)(ErfcPoly.F64)
	s := (a - 4) / (a + 4)
	w := s * s
	even, odd := c[22], c[21]
	for j := 20; j > 1; j -= 2 {
		even, odd = math.FMA(even, w, c[j]), math.FMA(odd, w, c[j-1])
	}
	part := math.FMA(s, even, odd)
	v := math.FMA(s, part, c[0])
	low = math.FMA(low, v, p*math.FMA(s, part, c[0]-v))
	d := 1 + 2*a
	h := p * v
	q := h / d
	lost := low + math.FMA(p, v, -h) + math.FMA(-q, d, h) - float64(q*(1-(d-float64(2*a))))
	return (q + lost/d) * powerOf2(k>>1) * powerOf2(k-k>>1)
}
