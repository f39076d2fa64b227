package kit

import (
	"math"
)

// ExpShift32 writes e^(x[i]-m) to y[i] and returns the sum of these numbers before they are rounded to float32. No
// element of x may exceed m or be NaN. y and x may be the same slice.
//
// In float64, e^t = 2^k e^r with |r| <= ln(2)/2. e^r is computed by the Taylor polynomial of degree 7. Its relative
// error is below 8e-9; half of the last place of a float32 is up to 6e-8.
func ExpShift32(y, x []float32, m float32) float64 {
	const (
		log2e = math.Log2E
		ln2   = math.Ln2
		// Adding roundToInt to a small number rounds the number to an integer, in the low bits of the mantissa of the
		// sum.
		roundToInt = 3 << 51
	)
	y = y[:len(x)]
	sum, shift := 0.0, float64(m)
	for i, v := range x {
		t := float64(v) - shift
		if t < -104 {
			y[i] = 0 // less than half of the least float32
			continue
		}
		// k is t/ln2 rounded to an integer, plus roundToInt. r is t minus the integer times ln2.
		k := float64(t*log2e) + roundToInt
		r := t - float64((k-roundToInt)*ln2)
		// p is the Taylor polynomial of degree 7 of exp(r); high has the terms from r^4 on, divided by r^4.
		r2 := r * r
		high := (1./24 + float64(r*(1./120))) + float64(r2*(1./720+float64(r*(1./5040))))
		p := (1 + r) + float64(r2*(0.5+float64(r*(1./6)))) + float64(r2*r2*high)
		// The low bits of k are the integer. Shifted to the exponent, with the bias added, they are the number 2^k.
		p *= math.Float64frombits(math.Float64bits(k)<<52 + 1023<<52)
		y[i] = float32(p)
		sum += p
	}
	return sum
}

// ExpShift64 is ExpShift32 for float64.
func ExpShift64(y, x []float64, m float64) float64 {
	y = y[:len(x)]
	sum := 0.0
	for i, v := range x {
		e := math.Exp(v - m)
		y[i] = e
		sum += e
	}
	return sum
}
