package elementary

import (
	"math"
	"math/bits"
)

// Circular functions of float64. In package math, the functions lose most digits near multiples of pi/2, and the
// inverse functions lose most digits near 1.
//
// An angle is x = q*pi/2 + r + low, with |r| at most about pi/4 (reduceAngle). Its sine and cosine are polynomials of r
// (sinOf, cosOf), exchanged if q is odd, with signs that depend on q modulo 4. An inverse function is a polynomial of a
// small operand: arcsin of a number up to 1/2 (arcsinParts), or arctan of a number up to tan(pi/8) after a rotation by
// a multiple of pi/4 (arctan). Conversions such as float64(x*y) prevent fused multiply-adds.

// signBit is the sign bit of a float64.
const signBit = 1 << 63

// sin returns the sine of x.
func sin(x float64) float64 {
	q, r, low := reduceAngle(x)
	return sineInQuadrant(q, r, low)
}

// cos returns the cosine of x: the sine of x plus a quarter turn.
func cos(x float64) float64 {
	q, r, low := reduceAngle(x)
	return sineInQuadrant(q+1, r, low)
}

// sineInQuadrant returns the sine of q quarter turns plus r + low.
func sineInQuadrant(q int, r, low float64) float64 {
	var y float64
	if q&1 == 0 {
		y = sinOf(r, low)
	} else {
		y = cosOf(r, low)
	}
	if q&2 != 0 {
		return -y
	}
	return y
}

// SinCos returns the sine and the cosine of x.
func SinCos(x float64) (sin, cos float64) {
	q, r, low := reduceAngle(x)
	sinBits, cosBits := math.Float64bits(sinOf(r, low)), math.Float64bits(cosOf(r, low))
	first, second := sinBits, cosBits
	if q&1 != 0 { // a conditional move instead of a branch
		first, second = cosBits, sinBits
	}
	// Bit 1 of q is shifted to the sign bit: the sine is negative in quadrants 2 and 3, the cosine in 1 and 2.
	turn := uint64(q)
	return math.Float64frombits(first ^ turn<<62&signBit), math.Float64frombits(second ^ (turn+1)<<62&signBit)
}

// tan is sin/cos, or -cos/sin. Like the inverse functions below, it selects by conditional moves of bits, because a
// branch would be unpredictable.
func tan(x float64) float64 {
	q, r, low := reduceAngle(x)
	sinBits, cosBits := math.Float64bits(sinOf(r, low)), math.Float64bits(cosOf(r, low))
	numerator, denominator := sinBits, cosBits
	if q&1 != 0 {
		numerator, denominator = cosBits, sinBits
	}
	return math.Float64frombits(numerator^uint64(q)<<63) / math.Float64frombits(denominator)
}

// quarterTurn + quarterTurnRest is pi/2. quarterTurn has 33 bits, so that its products with integers below 2^20 are
// exact.
const (
	quarterTurn     = 0x1.921fb544p+0
	quarterTurnRest = 0x1.0b4611a626331p-34
)

// minRemainderBits has the bits of 2^-12. roundingSumBits has the bits of roundingSum, 1.5 * 2^52 (exp.go): the lowest
// bits of x + roundingSum are the integer nearest to x.
const (
	minRemainderBits = (1023 - 12) << 52
	roundingSumBits  = 0x4338 << 48
)

// reduceAngle returns the number q of quarter turns in an angle, and the remainder as a sum r + low. |r| is at most
// pi/4, or slightly more. If x is infinite or NaN, r is NaN.
func reduceAngle(x float64) (q int, r, low float64) {
	magnitude := math.Abs(x)
	if magnitude < 1<<20 {
		shiftedQuarters := float64(x*(2/math.Pi)) + roundingSum
		quarters := shiftedQuarters - roundingSum // the number of quarter turns, an integer
		// The difference is exact. The rounding of the correction matters only if r is tiny and quarters is not 0. If
		// quarters is 0, the correction is 0.
		difference, correction := x-float64(quarters*quarterTurn), float64(quarters*quarterTurnRest)
		r = difference - correction
		quarterCount, rBits := int64(math.Float64bits(shiftedQuarters)-roundingSumBits), int64(math.Float64bits(r)&^signBit)
		// A single branch tests whether |r| exceeds 2^-12 or q is 0. Separate branches would be unpredictable.
		exceedsMin := minRemainderBits - rBits       // negative if |r| > 2^-12
		isZero := (quarterCount - 1) &^ quarterCount // negative only if q is 0
		if exceedsMin|isZero < 0 {
			return int(quarterCount), r, (difference - r) - correction
		}
	} // else the angle is large, or cancellation has left a tiny r: both need more bits of 2/pi
	if !(magnitude <= math.MaxFloat64) {
		return 0, math.NaN(), 0
	}
	if q, r, low = reduceLargeAngle(magnitude); x < 0 {
		q, r, low = -q, -r, -low
	}
	return q, r, low
}

// reduceLargeAngle is reduceAngle for any x >= pi/4. It multiplies the 53-bit mantissa of x by the 192 bits of 2/pi
// that affect the result. Higher bits contribute only whole turns, and lower bits contribute less than the precision.
//
// The word before the bits of 2/pi in the table TwoOverPi is 0, so bit i of the table has the value 2^(63-i). x is
// mantissa * 2^(e-1075), where e is the biased exponent. Therefore bit e-1013 contributes 2*mantissa to x * 2/pi, and
// the bits before it contribute multiples of 4.
func reduceLargeAngle(x float64) (q int, r, low float64) {
	xBits := math.Float64bits(x)
	mantissa, firstBit := xBits&(1<<52-1)|1<<52, uint(xBits>>52)-1013
	var window [3]uint64 // the bits of 2/pi from firstBit on
	for k := range window {
		// In Go, a shift by 64 gives 0.
		window[k] = TwoOverPi[firstBit/64+uint(k)]<<(firstBit%64) | TwoOverPi[firstBit/64+uint(k)+1]>>(64-firstBit%64)
	}

	// The product in quarter turns is top, mid, bottom. Its first two bits are the integer part modulo 4.
	high2, bottom := bits.Mul64(window[2], mantissa)
	high1, low1 := bits.Mul64(window[1], mantissa)
	mid, carry := bits.Add64(low1, high2, 0)
	top := window[0]*mantissa + high1 + carry
	q = int(top >> 62)
	fracHigh, fracLow := top<<2|mid>>62, mid<<2|bottom>>62 // the fraction
	sign := 1.0
	if fracHigh >= 1<<63 { // nearer to the next quarter turn: replace it by 1 minus the fraction
		var borrow uint64
		fracLow, borrow = bits.Sub64(0, fracLow, 0)
		fracHigh, _ = bits.Sub64(0, fracHigh, borrow)
		sign = -1
		q++
	}

	// Every angle is at least 2^-62 quarter turns from a multiple of a quarter turn.
	zeros := uint(bits.LeadingZeros64(fracHigh))
	fracHigh, fracLow = fracHigh<<zeros|fracLow>>(64-zeros), fracLow<<zeros
	// leading has the first 53 significant bits of the fraction, and rest the other bits.
	unit := math.Ldexp(sign, -int(zeros)-64)
	leading := float64(fracHigh>>11<<11) * unit
	rest := float64(float64(fracHigh<<53>>53)*unit) + float64(float64(fracLow)*unit*0x1p-64)
	r = leading * PiOver2[0]
	low = math.FMA(leading, PiOver2[0], -r) + (float64(leading*PiOver2[1]) + float64(rest*PiOver2[0]))
	return q, r, low
}

// sinOf returns the sine of r + low. With the coefficients c, sin(r) is about r + r^3 (c[0] + c[1] r^2 + c[2] r^4 +
// ...). The terms are added in the order of fdlibm's __kernel_sin.
func sinOf(r, low float64) float64 {
	c := (*[6]float64)(SinPoly.F64)
	r2 := r * r
	cube := r2 * r
	tail := c[1] + float64(r2*(c[2]+float64(r2*(c[3]+float64(r2*(c[4]+float64(r2*c[5])))))))
	return r - ((float64(r2*(float64(0.5*low)-float64(cube*tail))) - low) - float64(cube*c[0]))
}

// cosOf returns the cosine of r + low. With the coefficients c, cos(r) is about 1 - r^2/2 + r^4 (c[0] + c[1] r^2 +
// ...).
func cosOf(r, low float64) float64 {
	c := (*[6]float64)(CosPoly.F64)
	r2 := r * r
	// Without squareError, the error of tan would exceed 2 ulp.
	half, squareError := float64(0.5*r2), math.FMA(r, r, -r2)
	oneMinusHalf := 1 - half
	tail := r2 * (c[0] + float64(r2*(c[1]+float64(r2*(c[2]+float64(r2*(c[3]+float64(r2*(c[4]+float64(r2*c[5]))))))))))
	return oneMinusHalf + (((1 - oneMinusHalf) - half) +
		(float64(r2*tail) - (float64(r*low) + float64(0.5*squareError))))
}

// arcsinParts returns s + t = asin(a) for 0 <= a <= 1/2. For greater a, s + t is asin(sqrt((1-a)/2)), which is half of
// acos(a).
func arcsinParts(a float64) (s, t float64) {
	square, complement := a*a, 0.5-float64(0.5*a)
	sBits, squareBits := math.Float64bits(a), math.Float64bits(square)
	rootBits, complementBits := math.Float64bits(math.Sqrt(complement)), math.Float64bits(complement)
	if a > 0.5 {
		sBits, squareBits = rootBits, complementBits
	}
	s, z := math.Float64frombits(sBits), math.Float64frombits(squareBits)
	// The polynomial in z = s^2 is even(u) + z odd(u) with u = z^2.
	c := (*[13]float64)(AsinPoly.F64)
	u := z * z
	even := c[8] + float64(u*(c[10]+float64(u*c[12])))
	even = c[0] + float64(u*(c[2]+float64(u*(c[4]+float64(u*(c[6]+float64(u*even)))))))
	odd := c[1] + float64(u*(c[3]+float64(u*(c[5]+float64(u*(c[7]+float64(u*(c[9]+float64(u*c[11])))))))))
	return s, s * z * (even + float64(z*odd))
}

// halfPiRest is pi/2 minus its float64 value.
const halfPiRest = 6.123233995736766e-17

// asin returns the arcsine of x. With a = |x|, it is asin(a), or pi/2 - 2 asin(sqrt((1-a)/2)) for a > 1/2, with the
// sign of x.
func asin(x float64) float64 {
	magnitude := math.Abs(x)
	if !(magnitude <= 1) {
		return math.NaN()
	}
	s, t := arcsinParts(magnitude)
	resultBits := math.Float64bits(s + t)
	bitsAboveHalf := math.Float64bits(math.Pi/4 + ((math.Pi/4 - 2*s) + (halfPiRest - 2*t)))
	if magnitude > 0.5 {
		resultBits = bitsAboveHalf
	}
	return math.Float64frombits(resultBits | math.Float64bits(x)&signBit)
}

// acos returns the arccosine of x: pi/2 - asin(x), or 2 asin(sqrt((1-x)/2)) for x > 1/2, or pi - 2 asin(sqrt((1+x)/2))
// for x < -1/2.
func acos(x float64) float64 {
	magnitude := math.Abs(x)
	if !(magnitude <= 1) {
		return math.NaN()
	}
	s, t := arcsinParts(magnitude)
	arcsine := math.Copysign(s+t, x)
	resultBits := math.Float64bits((math.Pi/2 - arcsine) + halfPiRest)
	bitsBelow, bitsAbove := math.Float64bits(math.Pi-2*(s+t)), math.Float64bits(2*(s+t))
	if x > 0.5 {
		resultBits = bitsAbove
	}
	if x < -0.5 {
		resultBits = bitsBelow
	}
	return math.Float64frombits(resultBits)
}

// arcPoly is (atan(t)-t)/t^3 in t^2 for |t| <= tan(pi/8). The relative error of t + t^3*arcPoly is below 2^-56.9.
var arcPoly = [...]float64{-0.3333333333333333, 0.1999999999999552, -0.14285714284666542, 0.11111111015256292,
	-0.09090904578121085, 0.07692183190760651, -0.0666451144646022, 0.05858148904795124, -0.050854496960392584,
	0.039231657085083686, -0.019176885636589053}

// eighth is a direction whose angle is a multiple of pi/4.
type eighth struct {
	x, y        float64 // a vector in this direction
	angle, rest float64 // the angle of the direction is angle + rest
}

// eighths has the directions from the positive x axis to the positive y axis. From index 4 on, it has the directions
// from the negative x axis to the positive y axis. Indices 3 and 7 are unused.
var eighths = [8]eighth{
	{1, 0, 0, 0}, {1, 1, math.Pi / 4, halfPiRest / 2}, {0, 1, math.Pi / 2, halfPiRest}, {},
	{-1, 0, math.Pi, 2 * halfPiRest}, {-1, 1, 3 * math.Pi / 4, 9.184850993605148e-17},
	{0, 1, math.Pi / 2, halfPiRest}, {},
}

// tanSixteenth is the tangent of a sixteenth of a turn.
const tanSixteenth = math.Sqrt2 - 1

// arctan returns the angle of (x, y) for y >= 0: the sum of the angle of the nearest eighth and the angle of (x, y)
// rotated back by that eighth. It selects the nearest eighth without a branch, because such a branch would be
// unpredictable.
func arctan(y, x float64) float64 {
	// The sum of these three is an index in eighths. firstIndex is 4 if x is negative. isPastFirst is 1 if the angle to
	// the x axis exceeds a sixteenth of a turn. isPastThird is 1 if the angle exceeds three sixteenths of a turn.
	firstIndex, isPastFirst, isPastThird := math.Float64bits(x)>>63<<2, uint64(0), uint64(0)
	magnitude := math.Abs(x)
	if y > magnitude*tanSixteenth {
		isPastFirst = 1
	}
	if y*tanSixteenth > magnitude {
		isPastThird = 1
	}
	nearest := &eighths[(firstIndex+isPastFirst+isPastThird)&7]
	rotatedXBits := math.Float64bits(float64(x*nearest.x) + float64(y*nearest.y))
	if rotatedXBits == 0 { // x and y are 0, and so is the rotated point
		rotatedXBits = 1 << 62 // the bits of 2: the tangent is then 0, not 0/0
	}
	// As unsigned numbers, the bits are out of range if the rotated x is below 2^-1000, infinite or NaN.
	if rotatedXBits-smallBits >= infinityBits-smallBits {
		return arctanSpecial(y, x)
	}
	tangent := (float64(y*nearest.x) - float64(x*nearest.y)) / math.Float64frombits(rotatedXBits)
	return nearest.angle + (tangent + (float64(tangent*tangent*tangent*arcRest(tangent)) + nearest.rest))
}

// arcRest returns (atan(t)-t)/t^3, the value of arcPoly, for |t| <= tan(pi/8).
func arcRest(t float64) float64 {
	c, t2 := &arcPoly, t*t
	t4 := t2 * t2
	t8 := t4 * t4
	even := (c[0] + float64(t4*c[2])) + float64(t8*((c[4]+float64(t4*c[6]))+float64(t8*(c[8]+float64(t4*c[10])))))
	odd := (c[1] + float64(t4*c[3])) + float64(t8*((c[5]+float64(t4*c[7]))+float64(t8*c[9])))
	return even + float64(t2*odd)
}

const (
	infinityBits = 0x7ff << 52
	smallBits    = (1023 - 1000) << 52 // bits of 2^-1000; with smaller operands, intermediate results may be subnormal
)

// arctanSpecial is arctan for NaN, infinite and large operands, and for two small operands.
func arctanSpecial(y, x float64) float64 {
	switch infinite := math.IsInf(x, 0); {
	case y != y || x != x:
		return math.NaN()
	case y > math.MaxFloat64 && infinite:
		y, x = 1, math.Copysign(1, x)
	case y > math.MaxFloat64:
		y, x = 1, 0
	case infinite:
		y, x = 0, math.Copysign(1, x)
	case max(y, math.Abs(x)) < 1: // both are small
		y, x = y*0x1p+100, x*0x1p+100
	default: // the rotation would overflow
		y, x = y*0.25, x*0.25
	}
	return arctan(y, x)
}

// atan returns the arctangent of x. If |x| exceeds tan(pi/8), the angle is first reduced by pi/4 or pi/2.
func atan(x float64) float64 {
	tangent := math.Abs(x)
	direction := &eighths[0]
	switch {
	case tangent > 1+math.Sqrt2:
		tangent, direction = -1/tangent, &eighths[2]
	case tangent > tanSixteenth:
		tangent, direction = (tangent-1)/(tangent+1), &eighths[1]
	}
	return math.Copysign(direction.angle+(tangent+(float64(tangent*tangent*tangent*arcRest(tangent))+direction.rest)), x)
}

// atan2 returns the angle of (x, y). It has the sign of y even if y/x underflows.
func atan2(y, x float64) float64 { return math.Copysign(arctan(math.Abs(y), x), y) }
