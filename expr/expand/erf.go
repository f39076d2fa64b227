package expand

import (
	"math"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/elementary"
	"github.com/graphrun/graphrun/tensor"
)

// This file expands the error functions into primitive operations. The methods of expander add instructions and return
// the result. With a = |x| and polynomials P and Q:
//
//	erf(x)      = 1 - exp(-a*P(a)), with the sign of x
//	erfc(x)     = exp(-a^2) * Q((a-4)/(a+4)) / (1+2a); 2 minus this for negative x; 1 - erf(x) for small x (float64)
//	1 + erf(cx) = erfc(|cx|), or 2 minus this for positive x, by a table of polynomials (float32; for gelu)
//
// Exponentials are computed by functions of exp.go: integerAndPower returns an integer n and 2^n, and expFactors
// returns p and s with exp(x) = p*s*s. evalPoly and evalPiecewise evaluate polynomials. withSign sets the sign of a
// number. productError returns the rounding error of a product. If lowPrecision is set, a float64 result needs only the
// precision of float32.

// erf is 1 - exp(-g), where g is a polynomial of |x|. Like expm1, it is accurate for small x: with exp(-g) =
// s*exp(-r) and p = 1 - exp(-r), it computes s*p + (1-s). Beyond the bound of |x|, the result is 1.
func (e *expander) erf(x expr.Value) expr.Value {
	magnitude := e.clampMax(e.Emit(expr.Abs, x), byDType(e, 3.93, 5.93))
	g := e.fma(magnitude, e.constant(1.1283791670955126), e.mul(e.evalPoly(erfPoly, magnitude), magnitude))
	const shift = 0
	n, s := e.integerAndPower(g, -math.Log2E, shift) // n is -g/ln(2), rounded, and s is 2^n
	hi, lo := e.ln2Parts()
	r := e.fma(n, e.constant(hi), g) // g + n*ln(2), thus exp(-g) = s*exp(-r)
	if e.isFloat64() {
		r = e.fma(n, e.constant(lo), r)
	}
	p := e.fma(e.mul(r, r), e.evalPoly(erfPower, r), r)
	return e.withSign(e.fma(s, p, e.sub(e.constant(1), s)), e.signBit(x))
}

// erfPoly approximates -log(erfc(a))/a - c with c = 1.128...: if g = a*(c + erfPoly), then erf(a) is 1 - exp(-g). The
// constant coefficient of erfPoly is the rounding error of c in the dtype. The relative error is below 2^-27.9 for a
// <= 3.93 in float32, and below 2^-57.5 for a <= 5.93 in float64.
var erfPoly = elementary.Poly{
	F32: []float64{-5.41195355e-08, 0.636619389, 0.102777757, -0.0191527884, -0.000160894313, 0.00166751107,
		-0.000633093237, 0.000117710915, -9.26381836e-06},
	F64: []float64{9.7466731753373724e-18, 0.6366197723675836, 0.1027726033017891, -0.019128447005077116,
		-0.00020919469476795785, 0.0016962063852282046, -0.00059012555044460964, 2.5878595921094777e-05,
		6.4491882149905291e-05, -2.9724087741203377e-05, 3.4073288081218269e-06, 2.8350641739655931e-06,
		-1.7414748628596555e-06, 3.3630927285255521e-07, 1.3721595913184855e-07, -1.4177856685561681e-07,
		6.57400437361048e-08, -2.0964723713475939e-08, 4.9982248586835791e-09, -9.083253165239403e-10,
		1.2485649817117456e-10, -1.2612734146987365e-11, 8.846924847606294e-13, -3.8511782006703398e-14,
		7.8356526050588693e-16},
}

// erfPower is -(exp(-r)-1+r)/r^2 for |r| <= 0.347, so that 1-exp(-r) = r + r^2*erfPower.
var erfPower = elementary.Poly{
	F32: []float64{-0.49999997, 0.16666539, -0.0416677445, 0.00836705696, -0.00138393801},
	F64: []float64{-0.50000000000000056, 0.16666666666666588, -0.041666666666571692, 0.008333333333388997,
		-0.0013888888933346157, 0.00019841269724064453, -2.4801503012317778e-05, 2.7557399058131143e-06,
		-2.7626977581688249e-07, 2.5057822103961285e-08},
}

// onePlusErf is 1 + erf(c*x) of float32 for a positive c, as in gelu. It computes erfc(|c*x|) for negative x, and 2 -
// erfc(|c*x|) for positive x. The product c*x is not rounded. The error is at most 1.2 ulp for results above 1. For
// results below 1, the absolute error is at most 7e-8, and at most 6e-8 for the c of gelu. This is more accurate than
// adding 1 to erf.
func (e *expander) onePlusErf(x expr.Value, c float64) expr.Value {
	tail := e.evalPiecewise(&elementary.ErfcPieces, e.clampMax(e.Emit(expr.Abs, x), 4.3/c), c) // erfc(|c*x|)
	return e.choose(e.less(e.constant(0), x), e.sub(e.constant(2), tail), tail)
}

// splitFactor returns x and c with v = c*x, except for the rounding of this product. v is a float32. If v is not a
// product with a suitable constant, c is 1.
func (e *expander) splitFactor(v expr.Value) (x expr.Value, c float64) {
	inst := e.Inst(v)
	if inst.Op == expr.Mul {
		for _, factors := range [2][2]expr.Value{{inst.A, inst.B}, {inst.B, inst.A}} {
			if constant := e.Inst(factors[1]); constant.Op == expr.Const {
				// The bounds of c ensure that powers of c are normal numbers.
				if c := float64(math.Float32frombits(uint32(constant.Imm))); 1e-3 <= c && c <= 1e3 {
					return factors[0], c
				}
			}
		}
	}
	return v, 1
}

// erfsPlusOne marks the erf instructions of float32 whose only uses are sums with 1.
func erfsPlusOne(code *expr.Code) []bool {
	marked := make([]bool, len(code.Insts))
	isOne := func(v expr.Value) bool {
		return code.Insts[v].Op == expr.Const && code.Insts[v].Imm == uint64(math.Float32bits(1))
	}
	for v, inst := range code.Insts {
		marked[v] = inst.Op == expr.Erf && inst.DType == tensor.Float32
		for operandIndex, operand := range inst.Operands() {
			otherOperand := [2]expr.Value{inst.B, inst.A} // otherOperand[i] is the operand of an addition that is not operand i
			if marked[operand] && !(inst.Op == expr.Add && isOne(otherOperand[operandIndex])) {
				marked[operand] = false
			}
		}
	}
	for _, output := range code.Out {
		marked[output.Re] = false
		if output.Im != expr.None {
			marked[output.Im] = false
		}
	}
	return marked
}

// erfcSmall is erf(x)/x as a polynomial of x^2 for |x| <= 1/2. The error of erf is below 2^-59.6.
var erfcSmall = []float64{1.1283791670955126, -0.37612638903183104, 0.112837916709009, -0.026866170626213295,
	0.0052239772795718026, -0.00085482904529070303, 0.00012053013304125061, -1.4838365683385368e-05,
	1.4654485593517923e-06}

// erfc is exp(-a^2)*c/(1+2a), where a = |x| and c is a polynomial of (a-4)/(a+4). For negative x, erfc is 2 minus this
// product, and for small x it is 1 - erf(x). In float64 the rounding errors of a^2, the products and the quotient are
// compensated.
func (e *expander) erfc(x expr.Value) expr.Value {
	if !e.isFloat64() {
		return e.inFloat64((*expander).erfc, x)
	}
	// erfc(a) is 0 for a >= 27.3.
	a, one := e.clampMax(e.Emit(expr.Abs, x), 27.3), e.constant(1)
	four := e.constant(4)
	c := e.evalPoly(elementary.ErfcPoly, e.div(e.sub(a, four), e.add(a, four)))
	z := e.mul(a, a)
	d := e.fma(a, e.constant(2), one) // 1 + 2a
	var r, s expr.Value               // exp(-z) is p*s*s, and r is p*c/d
	if e.lowPrecision {
		var p expr.Value
		p, s = e.expFactors(e.Emit(expr.Neg, z))
		r = e.div(e.mul(p, c), d)
	} else {
		var p, low expr.Value
		p, low, s = e.expFactorsAsSum(e.Emit(expr.Neg, z))
		h := e.mul(p, c) // h + hError is (p+low)*c
		hError := e.fma(low, c, e.productError(p, c, h))
		dError := e.fma(a, e.constant(2), e.sub(one, d))
		zError := e.productError(a, a, z)
		r = e.erfcQuotient(h, hError, d, dError, zError)
	}
	r = e.mul(e.mul(r, s), s)                                          // erfc(a)
	r = e.choose(e.less(x, e.constant(0)), e.sub(e.constant(2), r), r) // erfc(x)
	if e.lowPrecision {
		return r
	}
	return e.choose(e.less(a, e.constant(0.5)), e.fma(e.Emit(expr.Neg, x), e.horner(erfcSmall, z), one), r)
}

// erfcQuotient is (h+hError)/(d+dError) * exp(-zError), where hError, dError and zError are rounding errors. As zError
// is small, exp(-zError) is 1 - zError.
func (e *expander) erfcQuotient(h, hError, d, dError, zError expr.Value) expr.Value {
	inverse := e.div(e.constant(1), d)
	q := e.mul(h, inverse)
	minusQ := e.Emit(expr.Neg, q)
	remainder := e.fma(minusQ, dError, e.add(e.fma(minusQ, d, h), hError))
	return e.add(q, e.fma(remainder, inverse, e.mul(minusQ, zError)))
}
