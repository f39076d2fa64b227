package elementary

import "math"

// exp(x) is 2^(k/128), from a table, times a polynomial of the remainder r = x - k/128*log(2). The error is at most
// 0.51 ulp in float64 and float32. Exp takes a third to a half of the time of math.Exp. For example, x = 1 gives k =
// 185, because 128/log(2) is 184.66..., and r = -0.0018....
//
// The lowest 7 bits of k are the index in the table. The other bits, shifted to the exponent, give the power of 2.
// Conversions such as float64(x*y) prevent fused multiply-adds.

const (
	expSteps      = 128
	expStepsShift = 52 - 7 // shifts the integer part of k/128 to the exponent

	// expStep + expStepRest is log(2)/128. expStep has few bits, so that its product with k is exact.
	expStep     = 0x1.62e42fefap-1 / expSteps
	expStepRest = 0x1.cf79abc9e3b39p-40 / expSteps

	expLimit    = 708.0     // the greatest |x| of the fast path; exp(x) is a normal number
	roundingSum = 0x1.8p+52 // the lowest bits of x + roundingSum are the integer nearest to x
)

// Exp returns e to the power of x.
func Exp(x float64) float64 {
	if !(math.Abs(x) <= expLimit) {
		return expExtreme(x)
	}
	return expOfParts(expReduced(x))
}

// expPower describes 2^(k/128) for k below 128.
type expPower struct {
	// the bits of the power minus k<<expStepsShift, so that adding n<<expStepsShift gives 2^(n/128) if n%128 is k
	bits uint64
	rest float64 // the relative rounding error of the power
}

var expPowers = func() (t [expSteps]expPower) {
	const root, rootRest = 0x1.0163da9fb3335p+0, 0x1.b61299ab8cdb7p-54 // their sum is 2^(1/128)
	hi, lo := 1.0, 0.0                                                 // their sum is 2^(k/128)
	for k := range t {
		t[k] = expPower{math.Float64bits(hi) - uint64(k)<<expStepsShift, lo / hi}
		p, rest := product(hi, lo, root, rootRest)
		hi = p + rest
		lo = (p - hi) + rest
	}
	return t
}()

// expReduced returns k and r of an x with |x| <= expLimit.
func expReduced(x float64) (k uint64, r float64) {
	shifted := float64(x*(expSteps*math.Log2E)) + roundingSum
	n := shifted - roundingSum // the integer nearest to 128 x / log(2)
	return math.Float64bits(shifted), (x - float64(n*expStep)) - float64(n*expStepRest)
}

// expOfParts returns the exponential for k and r. It is s e^r, where s is 2^(k/128). e^r is 1 + r + r^2/2 + r^3/6 + ...
func expOfParts(k uint64, r float64) float64 {
	tablePower := &expPowers[k%expSteps]
	s, r2 := math.Float64frombits(tablePower.bits+k<<expStepsShift), r*r
	return s + float64(s*(tablePower.rest+r+float64(r2*(0.5+float64(r*(1./6))))+
		float64(r2*r2*(1./24+float64(r*(1./120))))))
}

// expExtreme is Exp for infinities, NaN, and results that are subnormal or large. It computes e^x / 2^64 or e^x * 2^64,
// and multiplies by 2^64 or 2^-64. ln2First + ln2Rest is log(2). e^-low is computed as 1 - (low - low^2/2).
func expExtreme(x float64) float64 {
	switch {
	case x != x:
		return x
	case x > 710: // e^x overflows
		return math.Inf(1)
	case x < -746: // e^x underflows
		return 0
	}
	shift := math.Copysign(64, x)
	scaledExp, low := Exp(x-float64(shift*ln2First)), float64(shift*ln2Rest)
	return (scaledExp - float64(scaledExp*(low-float64(0.5*low*low)))) * powerOf2(int64(shift))
}

// expm1Poly is (e^x-1-x-x^2/2)/x^3 for |x| <= 0.35, exact to 2^-61.
var expm1Poly = [...]float64{1. / 6, 1. / 24, 1. / 120, 1. / 720, 1. / 5040, 1. / 40320, 1. / 362880, 1. / 3628800,
	1. / 39916800, 1. / 479001600, 1. / 6227020800, 1. / 87178291200}

// expm1 is e^x - 1. For |x| <= 0.35, it is a polynomial: even and odd have its even and odd powers. Otherwise, with s
// as in expOfParts and p = e^r - 1, it is (s-1) + s p; d is the rounded s-1.
func expm1(x float64) float64 {
	magnitude := math.Abs(x)
	switch {
	case magnitude < 0x1p-54:
		return x
	case magnitude <= 0.35:
		c, x2 := &expm1Poly, x*x
		x4 := x2 * x2
		x8 := x4 * x4
		even := (c[0] + float64(x2*c[2])) + float64(x4*(c[4]+float64(x2*c[6]))) + float64(x8*(c[8]+float64(x2*c[10])))
		odd := (c[1] + float64(x2*c[3])) + float64(x4*(c[5]+float64(x2*c[7]))) + float64(x8*(c[9]+float64(x2*c[11])))
		return x + (float64(0.5*x2) + float64(x*x2*(even+float64(x*odd))))
	case x < -40: // e^x is less than half an ulp of 1
		return -1
	case !(magnitude <= expLimit):
		return Exp(x)
	}
	k, r := expReduced(x)
	tablePower := &expPowers[k%expSteps]
	s, r2 := math.Float64frombits(tablePower.bits+k<<expStepsShift), r*r
	p := tablePower.rest + r + float64(r2*(0.5+float64(r*(1./6)))) + float64(r2*r2*(1./24+float64(r*(1./120))))
	d := s - 1
	return d + (float64(s*p) + (s - (d + 1)))
}

// exp2 returns 2 to the power of x.
func exp2(x float64) float64 {
	switch {
	case x != x:
		return x
	case x > 1100: // the code below also handles results that overflow or underflow slightly
		return math.Inf(1)
	case x < -1100:
		return 0
	}
	p, _, k := powerOfSum(x, 0) // 2^x is p*2^k; 2^k may overflow although the result does not
	return p * powerOf2(k>>1) * powerOf2(k-k>>1)
}

// Exp32 is Exp of float32. It computes in float64 without correction terms, which is accurate enough.
func Exp32(x float32) float32 {
	y := float64(x)
	if !(math.Abs(y) <= expLimit) {
		return float32(expExtreme(y))
	}
	y = float64(y * (expSteps * math.Log2E))
	shifted := y + roundingSum
	k, r := math.Float64bits(shifted), float64((y-(shifted-roundingSum))*(math.Ln2/expSteps))
	s := math.Float64frombits(expPowers[k%expSteps].bits + k<<expStepsShift)
	return float32(s + float64(s*(r+float64(r*r*(0.5+float64(r*(1./6)))))))
}
