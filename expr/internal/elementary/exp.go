package elementary

import (
	"math"
	"unsafe"
)

// exp(x) is 2^(k/128), from a table, times a polynomial of the remainder r = x - k/128*log(2). The error is at most
// 0.51 ulp in float64 and float32. The time is a third to a half of that of math.Exp.

const (
	expParts      = 128
	expPartsShift = 52 - 7 // shifts the integer part of k/128 to the exponent

	// expPart + expPartRest is log(2)/128. expPart has few bits, so that its product with k is exact.
	expPart     = 0x1.62e42fefap-1 / expParts
	expPartRest = 0x1.cf79abc9e3b39p-40 / expParts

	expLimit = 708.0     // the greatest |x| of the fast path; exp(x) is a normal number
	expRound = 0x1.8p+52 // the lowest bits of x + expRound are the integer nearest to x
)

// expPower describes 2^(k/128) for k below 128.
type expPower struct {
	bits uint64  // the bits of the power, minus k<<expPartsShift; for any k, adding k<<expPartsShift gives 2^(k/128)
	rest float64 // the relative rounding error of the power
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

// expReduced returns k and r of an x with |x| <= expLimit.
func expReduced(x float64) (k uint64, r float64) {
	t := float64(x*(expParts*math.Log2E)) + expRound
	n := t - expRound
	return math.Float64bits(t), (x - float64(n*expPart)) - float64(n*expPartRest)
}

// expOfParts returns the exponential for k and r.
func expOfParts(k uint64, r float64) float64 {
	e := &expPowers[k%expParts]
	s, z := math.Float64frombits(e.bits+k<<expPartsShift), r*r
	return s + float64(s*(e.rest+r+float64(z*(0.5+float64(r*(1./6))))+float64(z*z*(1./24+float64(r*(1./120))))))
}

// Exp returns e to the power of x.
func Exp(x float64) float64 {
	if !(math.Abs(x) <= expLimit) {
		return expExtreme(x)
	}
	return expOfParts(expReduced(x))
}

// expExtreme is Exp for infinities, NaN, and results that are subnormal or large. math.Exp overflows for some x for
// which e^x is finite. For large x the result is therefore a product.
func expExtreme(x float64) float64 {
	if x > overflowFrom {
		return math.Exp(x-1) * math.E
	}
	return math.Exp(x)
}

// Exp32 is Exp of float32. It computes in float64 without correction terms, which is accurate enough.
func Exp32(x float32) float32 {
	y := float64(x)
	if !(math.Abs(y) <= expLimit) {
		return float32(expExtreme(y))
	}
	y = float64(y * (expParts * math.Log2E))
	t := y + expRound
	k, r := math.Float64bits(t), float64((y-(t-expRound))*(math.Ln2/expParts))
	s := math.Float64frombits(expPowers[k%expParts].bits + k<<expPartsShift)
	return float32(s + float64(s*(r+float64(r*r*(0.5+float64(r*(1./6)))))))
}

// ExpStrided writes the exponentials of the n > 0 numbers at a to d. sd and sa are the distances in bytes between
// numbers at d and at a.
func ExpStrided(d, a unsafe.Pointer, n, sd, sa int) {
	for ; ; d, a = unsafe.Add(d, sd), unsafe.Add(a, sa) {
		x := *(*float64)(a)
		y := 0.0
		if math.Abs(x) <= expLimit {
			y = expOfParts(expReduced(x))
		} else {
			y = expExtreme(x)
		}
		*(*float64)(d) = y
		if n--; n == 0 {
			return
		}
	}
}
