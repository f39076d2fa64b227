package elementary

import (
	"math"
	"unsafe"
)

// The exponential in Go: x is k/128 of log(2) and what is left of it, r, and e^x is 2^(k/128), which is looked up,
// times a polynomial of r: within 0.51 ulp in float64 and in float32, in a third to a half of the time that package
// math's takes.

const (
	expParts      = 128
	expPartsShift = 52 - 7 // brings what is above the parts of k to where exponents are

	// The logarithm of 2 by the parts, in two numbers. Of the first few bits are used: its product with k is exact.
	expPart     = 0x1.62e42fefap-1 / expParts
	expPartRest = 0x1.cf79abc9e3b39p-40 / expParts

	expWithin = 708.0     // up to here results are normal numbers
	expRound  = 0x1.8p+52 // a sum with it has an integer in its lowest bits
)

// expPower is 2^(k/128): its bits, from which k is taken off where the exponent is so that k need not be split, and
// what it is rounded by, relative to it.
type expPower struct {
	bits uint64
	rest float64
}

var expPowers = func() (t [expParts]expPower) {
	const root, rootRest = 0x1.0163da9fb3335p+0, 0x1.b61299ab8cdb7p-54 // 2^(1/128)
	hi, lo := 1.0, 0.0
	for k := range t {
		t[k] = expPower{math.Float64bits(hi) - uint64(k)<<expPartsShift, lo / hi}
		p, rest := product(hi, lo, root, rootRest)
		hi = p + rest
		lo = (p - hi) + rest
	}
	return t
}()

// expReduced returns k and r of an x within bounds.
func expReduced(x float64) (k uint64, r float64) {
	t := float64(x*(expParts*math.Log2E)) + expRound
	n := t - expRound
	return math.Float64bits(t), (x - float64(n*expPart)) - float64(n*expPartRest)
}

// expOfParts is the exponential by those.
func expOfParts(k uint64, r float64) float64 {
	e := &expPowers[k%expParts]
	s, z := math.Float64frombits(e.bits+k<<expPartsShift), r*r
	return s + s*(e.rest+r+z*(0.5+r*(1./6))+z*z*(1./24+r*(1./120)))
}

// Exp is e to the power of x.
func Exp(x float64) float64 {
	if !(math.Abs(x) <= expWithin) {
		return expFar(x)
	}
	return expOfParts(expReduced(x))
}

// expFar is that of what is infinite, NaN, or has a subnormal or large result. Some powers of e that float64 holds are
// beyond what package math scales by: they are a product.
func expFar(x float64) float64 {
	if x > large {
		return math.Exp(x-1) * math.E
	}
	return math.Exp(x)
}

// Exp32 is that of float32, for which float64 is exact enough without what numbers are rounded by.
func Exp32(x float32) float32 {
	y := float64(x)
	if !(math.Abs(y) <= expWithin) {
		return float32(expFar(y))
	}
	y *= expParts * math.Log2E
	t := y + expRound
	k, r := math.Float64bits(t), (y-(t-expRound))*(math.Ln2/expParts)
	s := math.Float64frombits(expPowers[k%expParts].bits + k<<expPartsShift)
	return float32(s + s*(r+r*r*(0.5+r*(1./6))))
}

// ExpStrided computes n > 0 exponentials of float64. sd and sa are the bytes between elements of d and of a.
func ExpStrided(d, a unsafe.Pointer, n, sd, sa int) {
	for ; ; d, a = unsafe.Add(d, sd), unsafe.Add(a, sa) {
		x := *(*float64)(a)
		y := 0.0
		if math.Abs(x) <= expWithin {
			y = expOfParts(expReduced(x))
		} else {
			y = expFar(x)
		}
		*(*float64)(d) = y
		if n--; n == 0 {
			return
		}
	}
}
