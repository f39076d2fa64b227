package elementary

import "math"

// Logarithms and powers of float64. In package math, logarithms to bases 2 and 10 lose digits near 1, and logarithms of
// subnormal numbers are wrong on some processors. Powers multiply the error of the logarithm.
//
// A positive x is m*2^n with m from 2/3 to 4/3 (mantissaOf), and log(x) is n*log(2) + log(m). For example, log(6) is
// 3*log(2) + log(0.75). With f = m-1 and s = f/(2+f), log(m) = 2 atanh(s) is a polynomial of s. A power x^y is
// 2^(y*log2(x)), with the logarithm as a sum of two numbers (log2Sum, powerOfSum). Conversions such as float64(x*y)
// prevent fused multiply-adds.

// Log returns the natural logarithm, n*log(2) + f - (f^2/2 - rest), with f and rest as in logTerms. It adds the
// smallest terms first.
func Log(x float64) float64 {
	if !(x > 0 && x <= math.MaxFloat64) {
		return logSpecial(x)
	}
	n, m := mantissaOf(x)
	f := m - 1 // logTerms, inlined by hand: rest is ratio*(halfSquare+tail)
	ratio := f / (2 + f)
	square := ratio * ratio
	fourth := square * square
	c := (*[8]float64)(AtanhPoly)
	even := c[0] + float64(fourth*(c[2]+float64(fourth*(c[4]+float64(fourth*c[6])))))
	odd := c[1] + float64(fourth*(c[3]+float64(fourth*(c[5]+float64(fourth*c[7])))))
	tail := float64(square * ((2.0/3 + float64(fourth*odd)) + float64(square*even)))
	halfSquare := float64(0.5 * f * f)
	return float64(n*ln2First) - ((halfSquare - (float64(ratio*(halfSquare+tail)) + float64(n*ln2Rest))) - f)
}

// log1p is Log(u) + sumError/u with u = 1+x, rounded, and its rounding error sumError.
func log1p(x float64) float64 {
	switch magnitude := math.Abs(x); {
	case !(x > -1 && x <= math.MaxFloat64):
		return logSpecial(1 + x)
	case magnitude < 0x1p-54: // x^2/2 is less than half a unit in the last place
		return x
	}
	u := 1 + x
	sumError := x - (u - 1) // (1+x) - u, exact if the greater of 1 and x is subtracted from u
	if x > 1 {
		sumError = 1 - (u - x)
	}
	n, m := mantissaOf(u)
	f := m - 1
	if n == 0 { // f is x itself, without the rounding of 1+x
		f, sumError = x, 0
	}
	ratio := f / (2 + f) // from here on as in Log, with the additional term sumError/u
	square := ratio * ratio
	fourth := square * square
	c := (*[8]float64)(AtanhPoly)
	even := c[0] + float64(fourth*(c[2]+float64(fourth*(c[4]+float64(fourth*c[6])))))
	odd := c[1] + float64(fourth*(c[3]+float64(fourth*(c[5]+float64(fourth*c[7])))))
	tail := float64(square * ((2.0/3 + float64(fourth*odd)) + float64(square*even)))
	halfSquare := float64(0.5 * f * f)
	return float64(n*ln2First) -
		((halfSquare - (float64(ratio*(halfSquare+tail)) + (float64(n*ln2Rest) + sumError/u))) - f)
}

// log2 is n + log(m)*log2(e). Both factors are sums of two numbers.
func log2(x float64) float64 {
	if !(x > 0 && x <= math.MaxFloat64) {
		return logSpecial(x)
	}
	n, m := mantissaOf(x)
	high, low := logParts(m)
	first := float64(high * log2E) // exact
	rest := float64((high+low)*log2ERest) + float64(low*log2E)
	sum := n + first
	return sum + (rest + ((n - sum) + first)) // (n - sum) + first is the rounding error of sum
}

// log10 is n*log10(2) + log(m)*log10(e), with log(m) as a sum of two numbers.
func log10(x float64) float64 {
	if !(x > 0 && x <= math.MaxFloat64) {
		return logSpecial(x)
	}
	n, m := mantissaOf(x)
	f, halfSquare, rest := logTerms(m)
	high := f - halfSquare
	low := float64(((f-high)-halfSquare+rest)*math.Log10E) + float64(n*log10Rest)
	return float64(n*log10Two) + (float64(high*math.Log10E) + low)
}

// logSpecial returns the logarithm of infinities, NaN, 0 and negative numbers.
func logSpecial(x float64) float64 {
	switch {
	case x > 0: // infinite
		return x
	case x == 0:
		return math.Inf(-1)
	}
	return math.NaN()
}

// mantissaOf returns n and m from 2/3 to 4/3 such that a positive finite x is m*2^n.
func mantissaOf(x float64) (n, m float64) {
	shift := 0.0
	if x < 0x1p-1022 { // a subnormal number
		x, shift = x*0x1p54, 54
	}
	origin := math.Float64bits(TwoThirds)
	// The exponent bits of the difference are n. The mantissa bits of the difference, added to the bits of 2/3, give m.
	biasedBits := math.Float64bits(x) - origin
	return float64(int64(biasedBits)>>52) - shift, math.Float64frombits(biasedBits&(1<<52-1) + origin)
}

// logTerms returns f, f^2/2 and rest = log(m) - (f - f^2/2), where m = 1+f is from 2/3 to 4/3. With the coefficients c
// of AtanhPoly and the ratio s = f/(2+f), log(1+f) = 2 atanh(s) is about 2 s + s^3 (2/3 + c[0] s^2 + c[1] s^4 + ...).
// even has the terms of c[0], c[2], ..., and odd the other terms.
func logTerms(m float64) (f, halfSquare, rest float64) {
	f = m - 1
	ratio := f / (2 + f)
	square := ratio * ratio
	fourth := square * square
	c := (*[8]float64)(AtanhPoly)
	even := c[0] + float64(fourth*(c[2]+float64(fourth*(c[4]+float64(fourth*c[6])))))
	odd := c[1] + float64(fourth*(c[3]+float64(fourth*(c[5]+float64(fourth*c[7])))))
	tail := float64(square * ((2.0/3 + float64(fourth*odd)) + float64(square*even)))
	halfSquare = float64(0.5 * f * f)
	return f, halfSquare, ratio * (halfSquare + tail)
}

// logParts returns log(m) as a sum of two numbers. The first number has 21 bits.
func logParts(m float64) (high, low float64) {
	f, halfSquare, rest := logTerms(m)
	high = math.Float64frombits(math.Float64bits(f-halfSquare) &^ (1<<32 - 1))
	return high, ((f - high) - halfSquare) + rest
}

// log(2), log2(e) and log10(2) as sums of two parts. The first parts have few bits, so that their products with the
// first part of a logarithm, or with an exponent, are exact.
const (
	ln2First  = 0x1.62e42fefp-1
	ln2Rest   = 0x1.473de6af278edp-34
	log2E     = 0x1.71547p+0
	log2ERest = 0x1.94ae0bf85ddf4p-22

	Log2ERounding = 2.0355273740931033e-17 // the rounding error of math.Log2E
	log10Two      = 0x1.34413509p-2
	log10Rest     = 0x1.ef3fde623e256p-35
)

// Pow returns x^y. For special operands it calls math.Pow.
func Pow(x, y float64) float64 {
	magnitude := math.Abs(x)
	if !(magnitude > 0 && magnitude <= math.MaxFloat64 && math.Abs(y) <= math.MaxFloat64) {
		return math.Pow(x, y)
	}
	if x > 0 {
		if x == 1 { // bools are often 1
			return 1
		}
		return power(magnitude, y)
	}
	if math.Floor(y) != y {
		return math.NaN()
	}
	// x is negative, and y is an integer.
	if half := y * 0.5; math.Floor(half) != half { // y is odd
		return -power(magnitude, y)
	}
	return power(magnitude, y)
}

// power returns 2^(y*log2(a)) for positive finite a and finite y.
func power(a, y float64) float64 {
	hi, lo := log2Sum(a)
	exponent := y * hi
	const overflowExponent = 1100 // beyond it, the result is 0 or infinite
	if !(math.Abs(exponent) < overflowExponent) {
		if exponent > 0 {
			return math.Inf(1)
		}
		return 0
	}
	rest := math.FMA(y, lo, math.FMA(y, hi, -exponent)) // y*(hi+lo) - exponent
	mantissa, _, binaryExponent := powerOfSum(exponent, rest)
	// The code multiplies by two factors instead of 2^binaryExponent, which may overflow or underflow although the
	// result does not.
	return mantissa * powerOf2(binaryExponent>>1) * powerOf2(binaryExponent-binaryExponent>>1)
}

// powerOfSum returns 2^(exponent+rest) as (p+low)*2^k, for a small rest. With the remainder r of the exponent, 2^r - 1
// is about c[0] r + r^2 (even(r^2) + r odd(r^2)).
func powerOfSum(exponent, rest float64) (p, low float64, k int64) {
	shifted := exponent + roundingSum // rounds the exponent to an integer, in the lowest bits (exp.go)
	r := (exponent - (shifted - roundingSum)) + rest
	c := (*[13]float64)(Exp2Poly.F64)
	r2 := r * r
	r4 := r2 * r2
	even := (c[1] + float64(r2*c[3])) + float64(r4*((c[5]+float64(r2*c[7]))+float64(r4*(c[9]+float64(r2*c[11])))))
	odd := (c[2] + float64(r2*c[4])) + float64(r4*((c[6]+float64(r2*c[8]))+float64(r4*(c[10]+float64(r2*c[12])))))
	fraction := math.FMA(r, c[0], r2*(even+float64(r*odd)))
	p = 1 + fraction
	return p, (1 - p) + fraction, int64(math.Float64bits(shifted)) - roundingSumBits
}

// powerOf2 returns 2^k, a normal number.
func powerOf2(k int64) float64 { return math.Float64frombits(uint64(k+1023) << 52) }

// log2Sum returns log2(a) = n + log2(m) of a positive finite a as a sum of two numbers, exact to 2^-63. With s =
// (m-1)/(m+1) and z = s^2, log(m) = 2 atanh(s) is s (2 + z (2/3 + z AtanhPoly(z))). Each intermediate number is a sum
// of two numbers, such as s + sl: the suffix l marks the low part, which is the rounding error of the other part.
//
//	f = m-1    d = m+1    s = f/d    z = s^2    u = 2/3 + z AtanhPoly(z)    v = z u    g = 2 + v
//	h = s g, which is log(m)         k = h log2(e), which is log2(m)
func log2Sum(a float64) (hi, lo float64) {
	n, m := mantissaOf(a)
	f, d := m-1, m+1 // f is exact
	dl := m - (d - 1)
	inverse := 1 / d
	s := f * inverse
	sl := math.FMA(-s, dl, math.FMA(-s, d, f)) * inverse // (f - s*(d+dl)) / d
	z := s * s
	zl := math.FMA(s, sl, math.FMA(sl, s, math.FMA(s, s, -z))) // (s+sl)^2 - z, without sl^2
	c := (*[8]float64)(AtanhPoly)
	w := z * z
	tail := (c[4] + float64(z*c[5])) + float64(w*(c[6]+float64(z*c[7]))) // the terms of c[4] to c[7], divided by z^4
	tail = float64(z * ((c[0] + float64(z*c[1])) + float64(w*((c[2]+float64(z*c[3]))+float64(w*tail)))))
	const twoThirds = 2.0 / 3
	u := twoThirds + tail
	const twoThirdsError = 3.700743415417188e-17 // 2/3 minus its float64 value
	ul := (twoThirds - u) + tail + twoThirdsError
	v, vl := product(z, zl, u, ul)
	g := 2 + v
	gl := (2 - g) + v + vl
	h, hl := product(s, sl, g, gl)
	k, kl := product(h, hl, math.Log2E, Log2ERounding)
	hi = n + k
	return hi, ((n - hi) + k) + kl
}

// product returns (a+al) * (b+bl) as a sum of two numbers. The product al*bl is omitted.
func product(a, al, b, bl float64) (hi, lo float64) {
	hi = float64(a * b)
	return hi, math.FMA(a, bl, math.FMA(al, b, math.FMA(a, b, -hi)))
}
