package expand

import (
	"math"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/elementary"
)

// This file expands powers into primitive operations. The methods of expander add instructions and return the result.
// pow handles signs and special operands. The power of a positive number a is 2^t with t = y*log2(a). For example,
// 3^2.5 has t = 2.5*1.585 = 3.962, and is 2^3.962 = 15.59. power is for float64: its logarithm is a sum of two numbers
// (log2Sum). powerFloat32 is for float32: it computes in float64, with shorter polynomials.

// pow is 2^(y*log2|x|). If y is odd, it has the sign of x. A negative number to a power that is not an integer is NaN.
// 1^y and x^0 are 1, even for NaN. An infinite y is replaced by a large finite number. The power is then 0 or infinite
// for every x except 1 and -1.
func (e *expander) pow(x, y expr.Value) expr.Value {
	absX, inf := e.Emit(expr.Abs, x), e.constant(math.Inf(1))
	boundedY := e.clampMin(e.clampMax(y, 0x1p100), -0x1p100)

	var power expr.Value
	if e.isFloat64() {
		power = e.power(absX, boundedY)
	} else {
		wide := e.wide()
		power = e.Convert(e.dtype, wide.powerFloat32(wide.Convert(wide.dtype, absX), wide.Convert(wide.dtype, boundedY)))
	}

	// The sign, and NaN for a negative number to a power that is not an integer.
	halfY := e.mul(y, e.constant(0.5))
	isFractional := e.Emit(expr.Ne, e.Emit(expr.Rint, y), y)
	// The fraction of y/2 is 1/2 if y is odd, and 0 if y is even.
	fraction := e.Emit(expr.Abs, e.sub(halfY, e.Emit(expr.Rint, halfY)))
	isOdd := e.less(e.choose(isFractional, e.constant(0), e.constant(0.25)), fraction)
	isOdd = e.Emit(expr.And, isOdd, e.Emit(expr.Not, isFractional))
	power = e.withSign(power, e.choose(isOdd, e.signBit(x), e.bitsOf(0)))
	isUndefined := e.Emit(expr.And, isFractional, e.Emit(expr.And, e.less(x, e.constant(0)), e.less(absX, inf)))
	power = e.choose(isUndefined, e.constant(math.NaN()), power)

	one := e.constant(1)
	return e.choose(e.Emit(expr.Or, e.Emit(expr.Eq, x, one), e.Emit(expr.Eq, y, e.constant(0))), one, power)
}

// powLogPoly and powExpPoly replace logPoly and Exp2Poly in the pow of float32. The error of powLogPoly is below
// 2^-35.9, and the error of powExpPoly below 2^-28.5 for |r| <= 1/2. y multiplies the error of the logarithm by up to
// 2^7.3.
var (
	powLogPoly = []float64{-0.4999999994347803, 0.33333333165476414, -0.25000014631105621, 0.20000027711167265,
		-0.16665611891755772, 0.14284161019756461, -0.12532156049649198, 0.11151270748462347, -0.09531044416175545,
		0.085704878076228785, -0.11504551797393092, 0.10904837598576994}
	powExpPoly = []float64{0.69314721518545697, 0.2402265279608595, 0.055503101292201623, 0.0096176911382633099,
		0.0013406796899312081, 0.00015595075190523512}
)

// powerFloat32 returns a^y in float64 to the precision of float32. The caller's conversion to float32 handles overflow
// and subnormal results. With a = m*2^exponent and f = m-1, the result is 2^t = s*2^r, where t is y*log2(a) and s =
// 2^n.
func (e *expander) powerFloat32(a, y expr.Value) expr.Value {
	exponent, m := e.frexp(a)
	f := e.sub(m, e.constant(1))
	log2A := e.fma(e.fma(e.mul(f, f), e.horner(powLogPoly, f), f), e.constant(math.Log2E), exponent)
	t := e.clampMin(e.clampMax(e.mul(y, e.logOfSpecialBase(a, log2A)), 300), -300)
	const inverseStep, shift = 1, 0 // n is the integer nearest to t*inverseStep, and s = 2^(n+shift)
	n, s := e.integerAndPower(t, inverseStep, shift)
	r := e.sub(t, n)
	return e.mul(e.fma(e.horner(powExpPoly, r), r, e.constant(1)), s)
}

// power returns a^y in float64. It computes the logarithm to base 2 as a sum of two numbers, with an error of 2^-63.
// The multiplication by y enlarges this error up to 2^10 times.
func (e *expander) power(a, y expr.Value) expr.Value {
	hi, lo := e.log2Sum(a)
	t := e.mul(y, e.logOfSpecialBase(a, hi))
	tError := e.fma(y, lo, e.productError(y, hi, t))
	// If t is infinite, tError is NaN.
	tError = e.choose(e.less(e.Emit(expr.Abs, t), e.constant(2000)), tError, e.constant(0))
	t = e.clampMin(e.clampMax(t, 1100), -1100) // 2^1100 and 2^-1100 are out of the range of float64
	// 2^t is p*s*s, with s = 2^n and p = 2^(t-2n). n is the integer nearest to t*half, and s = 2^(n+shift).
	const half, shift = 0.5, 0
	n, s := e.integerAndPower(t, half, shift)
	r := e.add(e.fma(n, e.constant(-2), t), tError)
	p := e.fma(e.evalPoly(elementary.Exp2Poly, r), r, e.constant(1))
	return e.mul(e.mul(p, s), s)
}

// log2Sum returns log2(a) = n + log2(m) as a sum of two numbers. log(m) is 2*atanh(s) with s = (m-1)/(m+1), which is 2s
// + s^3*(2/3 + ...). In the code, each value is a sum of two numbers. The name of the lower number ends in l: s + sl.
func (e *expander) log2Sum(a expr.Value) (hi, lo expr.Value) {
	n, m := e.frexp(a)
	one := e.constant(1)
	f, d := e.sub(m, one), e.add(m, one)
	dl := e.sub(m, e.sub(d, one))
	inverse := e.div(one, d)
	s := e.mul(f, inverse) // f/d
	minusS := e.Emit(expr.Neg, s)
	sl := e.mul(e.fma(minusS, dl, e.fma(minusS, d, f)), inverse)
	const twoThirdsError = 3.700743415417188e-17 // 2/3 minus its float64
	z, zl := e.sumProduct(s, sl, s, sl)          // s^2
	u, ul := e.fastTwoSum(e.constant(2.0/3), e.mul(z, e.horner(elementary.AtanhPoly, z)))
	v, vl := e.sumProduct(z, zl, u, e.add(ul, e.constant(twoThirdsError))) // s^2*(2/3 + ...)
	g, gl := e.fastTwoSum(e.constant(2), v)                                // 2 + s^2*(2/3 + ...)
	h, hl := e.sumProduct(s, sl, g, e.add(gl, vl))                         // log(m)
	k, kl := e.sumProduct(h, hl, e.constant(math.Log2E), e.constant(elementary.Log2ERounding))
	hi, lo = e.fastTwoSum(n, k)
	return hi, e.add(lo, kl)
}

// logOfSpecialBase returns log, the logarithm of a. If a is 0, infinite or NaN, it returns -inf, inf or NaN instead.
func (e *expander) logOfSpecialBase(a, log expr.Value) expr.Value {
	log = e.choose(e.less(a, e.constant(math.Inf(1))), log, a)
	return e.choose(e.Emit(expr.Eq, a, e.constant(0)), e.constant(math.Inf(-1)), log)
}
