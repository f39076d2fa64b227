package expand

import (
	"math"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/elementary"
	"github.com/graphrun/graphrun/tensor"
)

// This file expands circular functions and their inverses into primitive operations. The methods of expander add
// instructions and return the result.
//
// The operand is x = q*pi/2 + r with an integer q and |r| <= pi/4. Sine and cosine of r are polynomials, and q selects
// one of them and a sign:
//
//	q modulo 4   0       1       2       3
//	sin(x)       sin r   cos r   -sin r  -cos r
//
// An inverse function is a polynomial for small operands. A formula of the function reduces other operands to small
// ones.

// turnsPerRadian is 1/(2*pi) as a sum of float64 numbers.
var turnsPerRadian = [4]float64{0x1.45f306dc9c883p-3, -0x1.6b01ec5417056p-57, -0x1.6447e493ad4cep-111,
	0x1.e21c820ff28b2p-165}

// quarterTurns returns the integer q and the remainder r of any float32 x. It computes x/(2*pi) modulo 1: the sum of
// the products of x with the four parts of 1/(2*pi). The expander wide computes in float64. It drops the integer parts
// of the first three products, and of the rounding errors of the first two products. The other rounding errors and the
// fourth product are below 1. For example, x = 10 is 1.592 turns, which become -0.408. Then q is -2, and r is 0.092
// turns, or 0.575.
func (e *expander) quarterTurns(x expr.Value) (q, r expr.Value) {
	wide := e.wide()
	x = wide.Convert(tensor.Float64, x)
	// fraction returns c*x minus an integer. The product c*x is not rounded. For a large product, the rounding error may
	// exceed 1. The result is then this error, and withoutInteger drops its integer part.
	fraction := func(c float64) expr.Value {
		minusInteger := wide.Emit(expr.Rint, wide.mul(x, wide.constant(-c)))
		return wide.fma(x, wide.constant(c), minusInteger)
	}
	withoutInteger := func(f expr.Value) expr.Value { return wide.sub(f, wide.Emit(expr.Rint, f)) }
	turns := wide.add(wide.add(withoutInteger(fraction(turnsPerRadian[0])), withoutInteger(fraction(turnsPerRadian[1]))),
		fraction(turnsPerRadian[2]))
	quarters := wide.Emit(expr.Rint, wide.mul(turns, wide.constant(4)))
	turns = wide.fma(x, wide.constant(turnsPerRadian[3]), wide.fma(quarters, wide.constant(-0.25), turns))
	return wide.Convert(tensor.Int32, quarters), wide.Convert(e.dtype, wide.mul(turns, wide.constant(2*math.Pi)))
}

// sinCos returns the sine and the cosine of r.
func (e *expander) sinCos(r expr.Value) (sin, cos expr.Value) {
	square := e.mul(r, r)
	sin = e.fma(e.mul(r, square), e.evalPoly(elementary.SinPoly, square), r)
	cos = e.fma(e.mul(square, square), e.evalPoly(elementary.CosPoly, square),
		e.fma(square, e.constant(-0.5), e.constant(1)))
	return sin, cos
}

// sinCosOfSum returns the sine and the cosine of r + low, where low is much smaller than r. With z = r^2, sin(r) is
// r + r*z*SinPoly(z), and cos(r) is 1 - z/2 + z^2*CosPoly(z). By Taylor expansion, low adds low*cos(r) to the sine and
// -low*sin(r) to the cosine, approximately low*(1-z/2) and -low*r.
func (e *expander) sinCosOfSum(r, low expr.Value) (sin, cos expr.Value) {
	z, one := e.mul(r, r), e.constant(1)
	oneMinusHalf := e.fma(z, e.constant(-0.5), one)
	sin = e.add(r, e.fma(e.mul(r, z), e.evalPoly(elementary.SinPoly, z), e.mul(low, oneMinusHalf)))
	// The correction of the cosine is -r*low, minus half of the rounding error of z.
	correction := e.fma(e.Emit(expr.Neg, r), low, e.mul(e.productError(r, r, z), e.constant(-0.5)))
	tail := e.fma(e.mul(z, z), e.evalPoly(elementary.CosPoly, z), correction)
	oneMinusHalfError := e.fma(z, e.constant(-0.5), e.sub(one, oneMinusHalf))
	cos = e.add(oneMinusHalf, e.add(oneMinusHalfError, tail))
	return sin, cos
}

// isOdd reports whether bit 0 of q is set.
func (e *expander) isOdd(q expr.Value) expr.Value {
	dtype := e.DType(q)
	return e.Emit(expr.Eq, e.Emit(expr.And, q, e.Int(dtype, 1)), e.Int(dtype, 1))
}

// sineInQuadrant returns the sine of an angle, given its quadrant q and the sine and cosine of its remainder. Bit 0 of
// q selects the cosine. Bit 1 is shifted to the sign bit, and changes the sign.
func (e *expander) sineInQuadrant(q, sin, cos expr.Value) expr.Value {
	magnitude := e.asInt(e.choose(e.isOdd(q), cos, sin))
	shifted := e.Emit(expr.Shl, q, e.Int(e.DType(q), int64(8*e.dtype.Size()-2)))
	sign := e.Emit(expr.And, shifted, e.bitsOf(math.Copysign(0, -1)))
	return e.asFloat(e.Emit(expr.Xor, magnitude, sign))
}

// sin keeps the sign of 0.
func (e *expander) sin(x expr.Value) expr.Value {
	if e.isFloat64() {
		q, r, low := e.reduceAngle(e.Emit(expr.Abs, x))
		sin, cos := e.sinCosOfSum(r, low)
		return e.asFloat(e.Emit(expr.Xor, e.asInt(e.sineInQuadrant(q, sin, cos)), e.signBit(x)))
	}
	q, r := e.quarterTurns(x)
	sin, cos := e.sinCos(r)
	return e.choose(e.Emit(expr.Eq, x, e.constant(0)), x, e.sineInQuadrant(q, sin, cos))
}

// cos is the sine of the angle plus a quarter turn.
func (e *expander) cos(x expr.Value) expr.Value {
	var q, sin, cos expr.Value
	if e.isFloat64() {
		var r, low expr.Value
		q, r, low = e.reduceAngle(e.Emit(expr.Abs, x))
		sin, cos = e.sinCosOfSum(r, low)
	} else {
		var r expr.Value
		q, r = e.quarterTurns(x)
		sin, cos = e.sinCos(r)
	}
	return e.sineInQuadrant(e.Emit(expr.Add, q, e.Int(e.DType(q), 1)), sin, cos)
}

// tan is sin/cos in even quadrants and -cos/sin in odd quadrants. The quotient adds the errors of sin and cos, so
// float32 is computed in float64: inFloat64 calls tan again, with an expander for float64 that has lowPrecision set.
func (e *expander) tan(x expr.Value) expr.Value {
	if !e.isFloat64() {
		return e.inFloat64((*expander).tan, x)
	}
	var q, sin, cos, r, low expr.Value
	if e.lowPrecision {
		q, r = e.quarterTurns(x)
		sin, cos = e.sinCos(r)
	} else {
		q, r, low = e.reduceAngle(e.Emit(expr.Abs, x))
		sin, cos = e.sinCosOfSum(r, low)
	}
	isOddQuadrant := e.isOdd(q)
	v := e.div(e.choose(isOddQuadrant, cos, sin), e.choose(isOddQuadrant, e.Emit(expr.Neg, sin), cos))
	if e.lowPrecision {
		return e.choose(e.Emit(expr.Eq, x, e.constant(0)), x, v)
	}
	return e.asFloat(e.Emit(expr.Xor, e.asInt(v), e.signBit(x)))
}

// atanPoly is a polynomial in the square of x: (atan(x)-x)/x^3 for |x| <= 1. The relative errors of atan are below
// 2^-28.5 for float32 and 2^-60.2 for float64.
var atanPoly = elementary.Poly{
	F32: []float64{-0.333332986, 0.199985296, -0.142640159, 0.109508812, -0.0839931443, 0.0578817166,
		-0.0310976002, 0.0108692329, -0.00178300741},
	F64: []float64{-0.33333333333333287, 0.19999999999990617, -0.14285714285044973, 0.11111111086670439,
		-0.090909085509931389, 0.076922997543614965, -0.066665840704406967, 0.05881718261562336,
		-0.052594435176758846, 0.04744960919931708, -0.042864885367472835, 0.038212225901984677,
		-0.032789219723562753, 0.026156922047357867, -0.018619921355916891, 0.011322483068730124,
		-0.0056154856940979448, 0.0021530446198056654, -0.00059336650615895764, 0.00010396681459647599,
		-8.6630581032779177e-06},
}

// halfPi returns pi/2 in two parts.
func (e *expander) halfPi() (hi, lo expr.Value) {
	return e.splitConstant(math.Pi/2, 6.123233995736766e-17)
}

// arcsinParts returns s+t = asin(|x|) for |x| <= 1/2. For greater |x|, isLarge is true, and s+t is
// asin(sqrt((1-|x|)/2)), which is half of acos(|x|).
func (e *expander) arcsinParts(x expr.Value) (s, t, isLarge expr.Value) {
	abs := e.Emit(expr.Abs, x)
	isLarge = e.less(e.constant(0.5), abs)
	square := e.choose(isLarge, e.fma(abs, e.constant(-0.5), e.constant(0.5)), e.mul(abs, abs)) // the square of s
	s = e.choose(isLarge, e.Emit(expr.Sqrt, square), abs)
	return s, e.mul(e.mul(s, square), e.evalPoly(elementary.AsinPoly, square)), isLarge
}

// asin is s+t, or pi/2 - 2(s+t) if |x| > 1/2, with the sign of x.
func (e *expander) asin(x expr.Value) expr.Value {
	s, t, isLarge := e.arcsinParts(x)
	_, lo := e.halfPi()
	quarterPi := e.constant(math.Pi / 4) // added twice: pi/4 - 2s has a smaller rounding error than pi/2 - 2s
	ifLarge := e.add(quarterPi, e.add(e.fma(s, e.constant(-2), quarterPi), e.fma(t, e.constant(-2), lo)))
	return e.withSign(e.choose(isLarge, ifLarge, e.add(s, t)), e.signBit(x))
}

// acos is computed from p = s+t of arcsinParts. For x > 1/2 it is 2p, for x < -1/2 it is pi - 2p. Otherwise it is
// pi/2 - p for a positive x, and pi/2 + p for a negative x.
func (e *expander) acos(x expr.Value) expr.Value {
	s, t, isLarge := e.arcsinParts(x)
	p := e.add(s, t)
	hi, lo := e.halfPi()
	isNegative := e.less(x, e.constant(0))
	baseAngle := e.choose(isNegative, e.constant(math.Pi), e.constant(0))
	signed := e.asFloat(e.Emit(expr.Xor, e.asInt(p), e.signBit(x)))
	middle := e.add(e.sub(hi, signed), lo)
	return e.choose(isLarge, e.fma(signed, e.constant(2), baseAngle), middle)
}

// atanUpToOne returns atan(t) for |t| <= 1.
func (e *expander) atanUpToOne(t expr.Value) expr.Value {
	square := e.mul(t, t)
	return e.fma(e.mul(t, square), e.evalPoly(atanPoly, square), t)
}

// atan is pi/2 + atanUpToOne(-1/|x|) if |x| > 1, with the sign of x.
func (e *expander) atan(x expr.Value) expr.Value {
	abs := e.Emit(expr.Abs, x)
	isLarge := e.less(e.constant(1), abs)
	dividend, divisor := e.choose(isLarge, e.constant(-1), abs), e.choose(isLarge, abs, e.constant(1))
	p := e.atanUpToOne(e.div(dividend, divisor))
	hi, lo := e.halfPi()
	return e.withSign(e.choose(isLarge, e.add(e.add(p, lo), hi), p), e.signBit(x))
}

// atan2 computes the angle p of the smaller operand divided by the greater one. For two zeros the quotient is 0, for
// two infinities 1. If y is the greater operand, the angle is pi/2 - p. For a negative x the angle is then subtracted
// from pi. The result has the sign of y.
func (e *expander) atan2(y, x expr.Value) expr.Value {
	absY, absX := e.Emit(expr.Abs, y), e.Emit(expr.Abs, x)
	isSwapped := e.less(absX, absY)
	smaller, greater := e.choose(isSwapped, absX, absY), e.choose(isSwapped, absY, absX)
	quotientOfEqual := e.choose(e.Emit(expr.Eq, smaller, e.constant(0)), smaller, e.constant(1))
	p := e.atanUpToOne(e.choose(e.Emit(expr.Eq, smaller, greater), quotientOfEqual, e.div(smaller, greater)))
	hi, lo := e.halfPi()
	p = e.choose(isSwapped, e.add(e.sub(hi, p), lo), p)
	xIsPositive := e.Emit(expr.Eq, e.signBit(x), e.bitsOf(0))
	piHi, piLo := e.splitConstant(math.Pi, 1.2246467991473532e-16)
	p = e.choose(xIsPositive, p, e.add(e.sub(piHi, p), piLo))
	return e.withSign(p, e.signBit(y))
}
