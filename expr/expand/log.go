package expand

import (
	"math"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/elementary"
	"github.com/graphrun/graphrun/tensor"
)

// This file expands logarithms into primitive operations. The methods of expander add instructions and return the
// result.
//
// The operand is x = 2^n * (1+f) with 1+f from 2/3 to 4/3 (frexp). The result is n*log(2) + log(1+f), with log(1+f) = f
// + f^2*logPoly(f). This sum does not cancel, because it is near 0 only if n is 0. For example, log(6) is 3*log(2) +
// log(0.75). The results for special operands are selected at the end (logSpecial).

// log uses ln 2 as one constant, which has an error of 2^-28 in float32 and 2^-54 in float64.
func (e *expander) log(x expr.Value) expr.Value {
	n, m := e.frexp(x)
	ln2, _ := e.ln2Parts()
	r := e.fma(n, e.constant(ln2), e.logOnePlus(logPoly, e.sub(m, e.constant(1))))
	return e.logSpecial(x, x, r)
}

// frexp returns n as a float, and m = 1+f, for a positive x. A subnormal x is first multiplied by a power of 2, and the
// exponent of this power is then subtracted from n. For other x, the results are unspecified.
func (e *expander) frexp(x expr.Value) (n, m expr.Value) {
	if e.lowPrecision { // the result needs only the precision of float32
		return e.splitExponent(x, e.originOf(elementary.TwoThirds))
	}
	shift := byDType(e, 24, 54) // for float32 and float64
	isSubnormal := e.less(x, e.constant(math.Ldexp(1, 1-e.bias())))
	x = e.choose(isSubnormal, e.mul(x, e.constant(math.Ldexp(1, shift))), x)
	return e.splitExponent(x, e.choose(isSubnormal, e.originOf(math.Ldexp(elementary.TwoThirds, shift)),
		e.originOf(elementary.TwoThirds)))
}

// splitExponent is frexp for a normal x. origin is originOf(2/3), times the power of 2 by which x was multiplied.
func (e *expander) splitExponent(x, origin expr.Value) (n, m expr.Value) {
	bits := e.Emit(expr.Sub, e.asInt(x), origin)
	m = e.Emit(expr.And, bits, e.intConst(1<<e.mantissa()-1))
	return e.exponent(bits), e.asFloat(e.Emit(expr.Add, m, e.bitsOf(elementary.TwoThirds)))
}

// originOf returns the integer to subtract from the bits of a float, so that the exponent bits of the difference are n.
// For float64 the exponent is read as an unsigned number, and the difference has n + 2*bias instead.
func (e *expander) originOf(x float64) expr.Value {
	if e.isFloat64() {
		return e.intConst(math.Float64bits(x) - uint64(2*e.bias())<<52)
	}
	return e.bitsOf(x)
}

// exponent returns the exponent n as a float. bits are the bits of a number minus an origin (see originOf). Processors
// have conversions of 32-bit integers. For 64 bits, n is inserted into the lowest bits of 2^52.
func (e *expander) exponent(bits expr.Value) expr.Value {
	if !e.isFloat64() {
		return e.Convert(e.dtype, e.Emit(expr.Shr, bits, e.intConst(23)))
	}
	n := e.Emit(expr.Or, e.Emit(expr.Shr, bits, e.intConst(52)), e.bitsOf(0x1p52))
	return e.sub(e.asFloat(n), e.constant(0x1p52+float64(2*e.bias())))
}

// logPoly is (log1p(f)-f)/f^2 for |f| <= 1/3. The relative error of f + f^2*logPoly is below 2^-25.2 in float32 and
// 2^-56.8 in float64.
var logPoly = elementary.Poly{
	F32: []float64{-0.499999374, 0.333331972, -0.250077397, 0.200111225, -0.164171875, 0.139973462, -0.153829858,
		0.140164822},
	F64: []float64{-0.49999999999999956, 0.33333333333333154, -0.25000000000030065, 0.20000000000072352,
		-0.16666666660783452, 0.14285714275096389, -0.12500000523380311, 0.11111111896978673, -0.099999745539779639,
		0.09090875446145745, -0.083340729455842338, 0.076931993589097955, -0.071294750461504061,
		0.066516132092363234, -0.064012577352166797, 0.060436788318038372, -0.045285699943779872,
		0.042126816998526599, -0.08707598297724374, 0.084274665021539144},
}

// logPolyFine is logPoly with one more term in float32, for an error below 2^-27.7. It is for logarithms to other
// bases, which multiply by a constant and thereby add an error.
var logPolyFine = elementary.Poly{
	F32: []float64{-0.5, 0.333332151, -0.249998048, 0.200104356, -0.166802213, 0.140055433, -0.121874541, 0.139855936,
		-0.128792837},
	F64: logPoly.F64,
}

// logOnePlus returns log(1+f) by the polynomial logPoly or logPolyFine.
func (e *expander) logOnePlus(p elementary.Poly, f expr.Value) expr.Value {
	return e.fma(e.mul(f, f), e.evalPoly(p, f), f)
}

// logSpecial returns log, or the result for a special operand instead. u is the operand of the logarithm: x, or 1+x.
// The result is x if x is infinity or NaN, -inf if u = 0, and NaN if u < 0.
func (e *expander) logSpecial(u, x, log expr.Value) expr.Value {
	log = e.choose(e.less(x, e.constant(math.Inf(1))), log, x)
	zero := e.constant(0)
	special := e.choose(e.Emit(expr.Eq, u, zero), e.constant(math.Inf(-1)), e.constant(math.NaN()))
	return e.choose(e.less(zero, u), log, special)
}

// splitConstant returns hi + lo as a sum of two constants of the dtype. The arguments are a float64 and its rounding
// error. For float32, low is the rounding error of hi in float32.
func (e *expander) splitConstant(hi, lo float64) (high, low expr.Value) {
	if e.dtype == tensor.Float32 {
		rounded := float64(float32(hi))
		return e.constant(rounded), e.constant(hi - rounded)
	}
	return e.constant(hi), e.constant(lo)
}

// log2 is exact for powers of 2.
func (e *expander) log2(x expr.Value) expr.Value {
	n, m := e.frexp(x)
	hi, lo := e.splitConstant(math.Log2E, elementary.Log2ERounding)
	logM := e.logOnePlus(logPolyFine, e.sub(m, e.constant(1)))
	return e.logSpecial(x, x, e.fma(logM, hi, e.fma(logM, lo, n)))
}

// log10 is n*log10(2) + log(1+f)*log10(e). Both constants are sums of two numbers.
func (e *expander) log10(x expr.Value) expr.Value {
	n, m := e.frexp(x)
	hi, lo := e.splitConstant(math.Log10E, 1.098319650216765e-17)
	log10Of2Hi, log10Of2Lo := e.splitConstant(math.Ln2/math.Ln10, -2.8037281277851704e-18)
	logM := e.logOnePlus(logPolyFine, e.sub(m, e.constant(1)))
	lowTerms := e.fma(logM, hi, e.fma(n, log10Of2Lo, e.mul(logM, lo)))
	return e.logSpecial(x, x, e.fma(n, log10Of2Hi, lowTerms))
}

// log1p takes n from the rounded sum 1+x, and computes f = x/2^n + (1/2^n - 1) from x, so that no bits of x are lost.
// It computes with 4/2^n, because 1/2^n is subnormal for the greatest x.
func (e *expander) log1p(x expr.Value) expr.Value {
	n, _, f, u := e.frexpOnePlus(x)
	ln2, _ := e.ln2Parts()
	return e.identityIfTiny(x, e.logSpecial(u, x, e.fma(n, e.constant(ln2), e.logOnePlus(logPoly, f))))
}

// log1pOfSum is log1p(x + low) for a small low. It compensates the rounding error of f.
func (e *expander) log1pOfSum(x, low expr.Value) expr.Value {
	n, s, f, u := e.frexpOnePlus(x)
	fError := e.fma(e.mul(x, e.constant(0.25)), s, e.sub(e.fma(s, e.constant(0.25), e.constant(-1)), f))
	fError = e.fma(e.mul(low, e.constant(0.25)), s, fError)
	ln2, _ := e.ln2Parts()
	r := e.fma(n, e.constant(ln2), e.add(f, e.fma(e.mul(f, f), e.evalPoly(logPoly, f), fError)))
	return e.identityIfTiny(x, e.logSpecial(u, x, r))
}

// frexpOnePlus returns n, s = 4/2^n, f, and the rounded sum u = 1+x, for log1p.
func (e *expander) frexpOnePlus(x expr.Value) (n, s, f, u expr.Value) {
	u = e.add(x, e.constant(1))
	bits := e.Emit(expr.Sub, e.asInt(u), e.originOf(elementary.TwoThirds))
	// The exponent of s = 4/2^n is bias+2 minus n. For float64, exponentBits is n + 2*bias (see originOf).
	exponentBits := e.Emit(expr.And, bits, e.intConst(^uint64(1<<e.mantissa()-1)))
	minuend := e.intConst(uint64(byDType(e, e.bias()+2, 3*e.bias()+2)) << e.mantissa())
	s = e.asFloat(e.Emit(expr.Sub, minuend, exponentBits))
	return e.exponent(bits), s, e.fma(e.mul(x, e.constant(0.25)), s, e.fma(s, e.constant(0.25), e.constant(-1))), u
}
