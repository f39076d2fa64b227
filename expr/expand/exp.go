package expand

import (
	"math"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/elementary"
)

// This file expands exponentials into primitive operations. The methods of expander add instructions and return the
// result.
//
// The operand is x = n*step + r with the step ln 2 or ln 4, and the result is 2^n or 4^n times a polynomial of r. For
// example, exp(1) with the step ln 2 has n = 1 and r = 1 - ln 2 = 0.307, and is 2*exp(0.307). Rounding needs no
// conversion: with the constant magic = 1.5*2^52 (float64), the sum t = x/step + magic is rounded to an integer. t has
// n in its lowest bits, and n = t - magic. If magic includes the bias of the exponent, a shift of t gives s = 2^n.
//
// Only for exp of float32, n is a multiple of 1/4 (step ln 2) or 1/8 (step ln 4), so that r is smaller. magic is then
// smaller too, and a table has the powers of the fractions.
//
// The functions differ in how they multiply by the power of 2. The power may overflow or underflow although the result
// does not:
//
//	exp of float64   p * 2^n by a scaling instruction, or else p * 2^h * 2^(n-h) (exp64)
//	exp of float32   p * 2^n by a scaling instruction (exp32Scaled), or else p * 2^n * 2^n (exp32Squared)
//	exp2, erfc       p * 2^n * 2^n (expFactors, expFactorsAsSum)
//	expm1            2^n * expm1(r) + (2^n - 1), for half of the result
//	tanh of float64  m/(1-m) with m = (1-exp(-2|x|))/2

// exp has the same bits on all targets, because each target rounds the result only once when it multiplies by the
// power of 2.
func (e *expander) exp(x expr.Value) expr.Value {
	switch {
	case e.isFloat64():
		return e.exp64(x)
	case e.target.HasScale:
		return e.exp32Scaled(x)
	}
	return e.exp32Squared(x)
}

// exp64 is exp of float64. Without a scaling instruction, it multiplies by two factors instead of 2^n, because 2^n may
// overflow or underflow although the result does not. The lowest bits of t are n plus twice the bias, and each factor
// gets about half of this exponent. The first product is exact. Operations: 17, or 21 without a scaling instruction.
func (e *expander) exp64(x expr.Value) expr.Value {
	x = e.expRange(x)
	magic := math.Ldexp(1.5, e.mantissa())
	if e.target.HasScale {
		p, _, n := e.expWithExponent(x, magic)
		return e.Emit(expr.Scale, p, n) // p * 2^n
	}
	p, t, _ := e.expWithExponent(x, magic+float64(2*e.bias())) // adds the bias once for each factor
	mantissaWidth := e.intConst(uint64(e.mantissa()))
	halfExponent := e.Emit(expr.Shl, e.Emit(expr.Shr, e.asInt(t), e.intConst(1)), mantissaWidth)
	otherHalf := e.Emit(expr.Sub, e.Emit(expr.Shl, e.asInt(t), mantissaWidth), halfExponent)
	return e.mul(e.mul(p, e.asFloat(halfExponent)), e.asFloat(otherHalf))
}

// expWithExponent returns p = exp(r) and n such that exp(x) = p*2^n in float64, and t = n + magic.
func (e *expander) expWithExponent(x expr.Value, magic float64) (p, t, n expr.Value) {
	t = e.fma(x, e.constant(math.Log2E), e.constant(magic))
	n = e.sub(t, e.constant(magic))
	r := e.subtractLn2(x, n, 1)
	one := e.constant(1)
	return e.fma(e.fma(e.evalPoly(expm1Poly, r), r, one), r, one), t, n
}

// exp32Scaled is exp of float32, with n a multiple of 1/4. Scale multiplies by 2^floor(n); the table has the powers of
// the fraction. For operands out of range, Limit bounds the magnitude of the remainder, so that scaling gives 0,
// infinity or NaN. Operations: 13.
func (e *expander) exp32Scaled(x expr.Value) expr.Value {
	magic := e.constant(math.Ldexp(1.5, e.mantissa()-2)) // 2: n has two binary places
	t := e.fma(x, e.constant(math.Log2E), magic)
	n := e.sub(t, magic)
	r := e.Emit(expr.Limit, e.subtractLn2(x, n, 1), e.constant(0.125)) // in range, |r| is at most ln 2 / 8 = 0.087
	return e.Emit(expr.Scale, e.expFromTable(r, t, elementary.Exp2Table, elementary.Exp2LowTable), n)
}

// exp32Squared is exp32Scaled with powers of 4, without a scaling instruction. Its tables have twice the number of
// entries. It multiplies by 2^n twice instead of once by 4^n, because 2^n is a normal number even if the result
// overflows or underflows. Operations: 17.
func (e *expander) exp32Squared(x expr.Value) expr.Value {
	x = e.expRange(x)
	magic := e.constant(math.Ldexp(1.5, e.mantissa()-3) + float64(e.bias()))
	t := e.fma(x, e.constant(0.5*math.Log2E), magic)
	n := e.sub(t, magic)
	r := e.subtractLn2(x, n, 2)
	p := e.expFromTable(r, t, elementary.Exp4Table, elementary.Exp4LowTable)
	exponent := e.Emit(expr.Shl, e.asInt(t), e.intConst(uint64(e.mantissa()-3)))
	s := e.asFloat(e.Emit(expr.And, exponent, e.bitsOf(math.Inf(-1)))) // clears the bits of the mantissa
	return e.mul(e.mul(p, s), s)
}

// expQuartic is (exp(r)-1)/r for |r| <= ln 2 / 8. The relative error of 1 + r*expQuartic is below 2^-27.4.
var expQuartic = []float64{1, 0.500000179, 0.166721031, 0.0416450873}

// expFromTable returns exp(r)*2^f. The lowest bits of t are the table index of the fractional exponent f. Table
// powerTable has the powers, and table lowTable their rounding errors. A table of 8 entries fits a vector register, so
// that a lookup takes no longer than a product.
func (e *expander) expFromTable(r, t expr.Value, powerTable, lowTable uint64) expr.Value {
	power := e.lookup(powerTable, t)
	return e.fma(e.horner(expQuartic, r), e.fma(r, power, e.lookup(lowTable, t)), power)
}

// expFactors returns a polynomial p and a power of two s such that exp(x) = p*s*s. s is a normal number even if exp(x)
// overflows or underflows. The products with s then give the correct infinite or subnormal result. Operations: 14
// (float32).
func (e *expander) expFactors(x expr.Value) (p, s expr.Value) {
	x = e.expRange(x)
	const step, shift = 2, 0 // r = x - n*2*ln 2, and s = 2^n
	n, s := e.integerAndPower(x, math.Log2E/step, shift)
	r := e.subtractLn2(x, n, step)
	p = e.fma(e.fma(e.evalPoly(expPoly, r), r, e.constant(1)), r, e.constant(1))
	return p, s
}

// expFactorsAsSum is expFactors with the polynomial as a sum p + low, whose relative error is below 2^-56. exp(r) is
// 1 + v*r with v = 1 + q*r and q = expPoly. rError and vError are the rounding errors of r and v.
func (e *expander) expFactorsAsSum(x expr.Value) (p, low, s expr.Value) {
	x, one := e.clampMin(e.clampMax(x, 711), -746), e.constant(1)
	hi, lo := e.ln2Parts()
	n, s := e.integerAndPower(x, 0.5*math.Log2E, 0)
	r1 := e.fma(n, e.constant(-2*hi), x)
	r := e.fma(n, e.constant(-2*lo), r1)
	rError := e.fma(n, e.constant(-2*lo), e.sub(r1, r))
	q := e.evalPoly(expPoly, r)
	v := e.fma(q, r, one)
	p = e.fma(v, r, one)
	vError := e.fma(q, r, e.sub(one, v))
	low = e.fma(v, r, e.sub(one, p))
	return p, e.fma(vError, r, e.fma(rError, p, low)), s
}

// expPoly is (exp(r)-1-r)/r^2 for |r| <= 0.6935. The relative error of 1 + r + r^2*expPoly is below 2^-26.0 in float32
// and 2^-56.5 in float64.
var expPoly = elementary.Poly{
	F32: []float64{0.500000358, 0.166666165, 0.0416611768, 0.00833592098, 0.00141058629, 0.000196391033},
	F64: []float64{0.49999999999999928, 0.16666666666666943, 0.041666666666702191, 0.008333333333268314,
		0.0013888888883561126, 0.00019841269894144194, 2.4801590838857767e-05, 2.7557300124006472e-06,
		2.7556155942869026e-07, 2.5055127802815848e-08, 2.1062507620748303e-09, 1.5929204144166162e-10},
}

// integerAndPower returns the integer n nearest to x*inverseStep, as a float, and scale = 2^(n+shift).
func (e *expander) integerAndPower(x expr.Value, inverseStep float64, shift int) (n, scale expr.Value) {
	magic := e.constant(math.Ldexp(1.5, e.mantissa()) + float64(e.bias()+shift))
	t := e.fma(x, e.constant(inverseStep), magic)
	scale = e.asFloat(e.Emit(expr.Shl, e.asInt(t), e.intConst(uint64(e.mantissa()))))
	return e.sub(t, magic), scale
}

// subtractLn2 returns x - n*factor*ln 2. The factor is a power of 2, or its negation.
func (e *expander) subtractLn2(x, n expr.Value, factor float64) expr.Value {
	hi, lo := e.ln2Parts()
	return e.fma(n, e.constant(-factor*lo), e.fma(n, e.constant(-factor*hi), x))
}

// ln2Parts returns ln 2 as a sum whose first part is rounded to the dtype.
func (e *expander) ln2Parts() (hi, lo float64) {
	return byDType(e, float64(float32(math.Ln2)), math.Ln2),
		byDType(e, math.Ln2-float64(float32(math.Ln2)), 2.3190468138462996e-17)
}

// expRange bounds x. The bounds are slightly beyond the operands for which exp(x) is 0 or infinite. If x is a negation,
// its operand is bounded and then negated, so that a fused operation absorbs the negation.
func (e *expander) expRange(x expr.Value) expr.Value {
	lowest, highest := byDType(e, -104.0, -746.0), byDType(e, 90.0, 711.0)
	if inst := e.Inst(x); inst.Op == expr.Neg {
		return e.Emit(expr.Neg, e.clampMin(e.clampMax(inst.A, -lowest), -highest))
	}
	return e.clampMin(e.clampMax(x, highest), lowest)
}

// exp2 is (1 + r*Exp2Poly(r)) * 2^n * 2^n with the remainder r = x - 2n. The remainder is exact, so that it needs no
// constant in two parts.
func (e *expander) exp2(x expr.Value) expr.Value {
	x = e.clampMin(e.clampMax(x, byDType(e, 129.0, 1025.0)), byDType(e, -151.0, -1076.0))
	n, s := e.integerAndPower(x, 0.5, 0)
	r := e.fma(n, e.constant(-2), x)
	p := e.fma(e.evalPoly(elementary.Exp2Poly, r), r, e.constant(1))
	return e.mul(e.mul(p, s), s)
}

// expm1Poly is (exp(r)-1-r)/r^2 for |r| <= 0.347. The relative error of r + r^2*expm1Poly is below 2^-26.1 in float32
// and 2^-55.5 in float64.
var expm1Poly = elementary.Poly{
	F32: []float64{0.49999997, 0.16666539, 0.0416677445, 0.00836705696, 0.00138393801},
	F64: []float64{0.50000000000000056, 0.16666666666666588, 0.041666666666571692, 0.008333333333388997,
		0.0013888888933346157, 0.00019841269724064453, 2.4801503012317778e-05, 2.7557399058131143e-06,
		2.7626977581688249e-07, 2.5057822103961285e-08},
}

// scaledExpm1 is 2^shift * expm1(x), computed as s*expm1(r) + c with c = s - 2^shift and expm1(r) = r + r^2*q. In
// float64 it compensates the rounding error of this sum, because sinh uses the result.
func (e *expander) scaledExpm1(x expr.Value, shift int) expr.Value {
	n, s := e.integerAndPower(x, math.Log2E, shift)
	r := e.subtractLn2(x, n, 1)
	q, c := e.evalPoly(expm1Poly, r), e.sub(s, e.constant(math.Ldexp(1, shift)))
	if !e.isFloat64() {
		return e.fma(s, e.fma(e.mul(r, r), q, r), c)
	}
	sum := e.fma(s, r, c)
	roundingError := e.fma(s, r, e.sub(c, sum))
	return e.add(sum, e.fma(s, e.mul(e.mul(r, r), q), roundingError))
}

// expm1 computes half of the result and doubles it, because 2^n may overflow although the result does not. For tiny x,
// half of the result may be subnormal or lose the sign of 0. The result is then x.
func (e *expander) expm1(x expr.Value) expr.Value {
	bounded := e.clampMin(e.clampMax(x, byDType(e, 89.0, 710.0)), byDType(e, -18.0, -40.0))
	half := e.scaledExpm1(bounded, -1)
	return e.identityIfTiny(x, e.add(half, half))
}

// identityIfTiny returns x if |x| is so small that f(x) rounds to x. Otherwise it returns y, which is f(x).
func (e *expander) identityIfTiny(x, y expr.Value) expr.Value {
	return e.choose(e.less(e.Emit(expr.Abs, x), e.constant(byDType(e, 0x1p-25, 0x1p-54))), x, y)
}

// tanh of float32 is a table of polynomials.
func (e *expander) tanh(x expr.Value) expr.Value {
	if e.isFloat64() {
		return e.tanh64(x)
	}
	magnitude := e.clampMax(e.Emit(expr.Abs, x), 9.2) // the result for 9.2 rounds to 1
	const factor = 1                                  // factor of the operand
	return e.withSign(e.evalPiecewise(&elementary.TanhPieces, magnitude, factor), e.signBit(x))
}

// tanhPoly is ((1-exp(-2r))/2-r)/r^2 for |r| <= 0.1735. The relative error of r + r^2*tanhPoly is below 2^-55.5.
var tanhPoly = []float64{-1.0000000000000011, 0.66666666666666352, -0.33333333333257353, 0.13333333333422395,
	-0.044444444586707703, 0.01269841262340125, -0.0031745923855766756, 0.00070546941588815726,
	-0.00014145012521824384, 2.5659209834456356e-05}

// tanh64 is tanh of float64: q = m/(1-m) with m = (1-exp(-2|x|))/2, which is accurate for small x. Here exp(-2|x|) is
// s*exp(-2r) with s = 2^n, and p is (1-exp(-2r))/2. The rounding error of q is corrected: the remainder m - q*(1-m),
// divided by 1-m, is added. This quotient is computed as the remainder times 1+q, because 1+q is 1/(1-m). Beyond the
// bound of |x|, the result is 1.
func (e *expander) tanh64(x expr.Value) expr.Value {
	magnitude := e.clampMax(e.Emit(expr.Abs, x), 19.2)
	n, s := e.integerAndPower(magnitude, -2*math.Log2E, 0)
	r := e.subtractLn2(magnitude, n, -0.5)
	p := e.fma(e.mul(r, r), e.horner(tanhPoly, r), r)
	half := e.fma(s, e.constant(-0.5), e.constant(0.5))
	m := e.fma(s, p, half)
	one := e.constant(1)
	q := e.div(m, e.sub(one, m))
	slope := e.add(one, q)
	remainder := e.fma(e.fma(s, p, e.sub(half, m)), slope, e.fma(q, m, e.sub(m, q)))
	return e.withSign(e.fma(remainder, slope, q), e.signBit(x))
}
