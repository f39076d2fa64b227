package expand

import (
	"math"

	"github.com/graphrun/graphrun/expr"
)

// The hyperbolic functions, except tanh, and their inverses.

// cosh is h + 1/(4h) with h = exp(|x|)/2, which overflows only if the result does.
func (e *expander) cosh(x expr.Value) expr.Value {
	p, s := e.expFactors(e.Emit(expr.Abs, x))
	h := e.mul(e.mul(e.mul(p, e.constant(0.5)), s), s)
	return e.add(h, e.div(e.constant(0.25), h))
}

// sinh is d + d/(2d+1) with d = expm1(|x|)/2. For small d it is 2d - d*2d/(2d+1), which has smaller rounding errors
// there. d overflows only if the result does, and the quotient uses half of d.
func (e *expander) sinh(x expr.Value) expr.Value {
	// h is expm1(|x|)/4, d is 2h, and q is 2d/(2d+1).
	h := e.scaledExpm1(e.clampMax(e.Emit(expr.Abs, x), byDType(e, 89.7, 710.7)), -2)
	d, q := e.add(h, h), e.div(h, e.add(h, e.constant(0.25)))
	ifSmall := e.fma(e.Emit(expr.Neg, d), q, e.add(d, d))
	r := e.choose(e.less(d, e.constant(0.5)), ifSmall, e.fma(q, e.constant(0.5), d))
	return e.identityIfTiny(x, e.withSign(r, e.signBit(x)))
}

// asinh is log1p(a + (sqrt(a^2+1)-1)) with a = |x|. For float32, the inner difference is accurate enough in float64.
// For float64, it is computed as a^2/(1+sqrt(a^2+1)), and the result is log1p(a) + ln 2 if a^2 might overflow.
func (e *expander) asinh(x expr.Value) expr.Value {
	if !e.isFloat64() {
		return e.inFloat64((*expander).asinh, x)
	}
	a, one := e.Emit(expr.Abs, x), e.constant(1)
	root := e.Emit(expr.Sqrt, e.fma(a, a, one))
	if e.lowPrecision {
		return e.withSign(e.log1p(e.add(a, e.sub(root, one))), e.signBit(x))
	}
	isBig := e.less(e.constant(0x1p500), a)
	y, low := e.fastTwoSum(a, e.div(e.mul(a, a), e.add(one, root)))
	log := e.log1pOfSum(e.choose(isBig, a, y), e.choose(isBig, e.constant(0), low))
	return e.withSign(e.add(log, e.choose(isBig, e.constant(math.Ln2), e.constant(0))), e.signBit(x))
}

// acosh is log1p(t + sqrt(t*(t+2))) with t = x-1, or log1p(t) + ln 2 if t^2 might overflow.
func (e *expander) acosh(x expr.Value) expr.Value {
	if !e.isFloat64() {
		return e.inFloat64((*expander).acosh, x)
	}
	t := e.sub(x, e.constant(1))
	root := e.Emit(expr.Sqrt, e.fma(t, t, e.add(t, t)))
	var log expr.Value
	if e.lowPrecision {
		log = e.log1p(e.add(t, root))
	} else {
		isBig := e.less(e.constant(0x1p500), t)
		y, low := e.fastTwoSum(root, t)
		log = e.log1pOfSum(e.choose(isBig, t, y), e.choose(isBig, e.constant(0), low))
		log = e.add(log, e.choose(isBig, e.constant(math.Ln2), e.constant(0)))
	}
	return e.choose(e.less(t, e.constant(0)), e.constant(math.NaN()), log)
}

// atanh is log1p(2a/(1-a))/2 with a = |x|. To correct the quotient q, its remainder is divided by 1-a. The code
// multiplies by 1+q/2 instead, which equals 1/(1-a).
func (e *expander) atanh(x expr.Value) expr.Value {
	if !e.isFloat64() {
		return e.inFloat64((*expander).atanh, x)
	}
	a, one := e.Emit(expr.Abs, x), e.constant(1)
	twoA, d := e.add(a, a), e.sub(one, a)
	q := e.div(twoA, d)
	var log expr.Value
	if e.lowPrecision {
		log = e.log1p(q)
	} else {
		minusQ := e.Emit(expr.Neg, q)
		dError := e.sub(e.sub(one, d), a) // the rounding error of d
		remainder := e.fma(minusQ, dError, e.fma(minusQ, d, twoA))
		low := e.mul(remainder, e.fma(q, e.constant(0.5), one))
		log = e.log1pOfSum(q, e.choose(e.less(q, e.constant(0x1p60)), low, e.constant(0)))
	}
	return e.withSign(e.mul(log, e.constant(0.5)), e.signBit(x))
}
