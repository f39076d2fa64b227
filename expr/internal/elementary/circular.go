package elementary

import (
	"math"
	"math/bits"
)

// Circular functions of float64. The functions of package math lose most digits near multiples of pi/2, and its inverse
// functions lose most digits near 1.

// quarterTurn + quarterTurnRest is pi/2. quarterTurn has 33 bits, so that its products with integers below 2^20 are
// exact.
const (
	quarterTurn     = 0x1.921fb544p+0
	quarterTurnRest = 0x1.0b4611a626331p-34
)

// minRemainderBits has the bits of 2^-12, and roundingSumBits has the bits of 1.5 * 2^52.
const (
	minRemainderBits = (1023 - 12) << 52
	roundingSumBits  = 0x4338 << 48
)

// reduceAngle returns the number q of quarter turns in an angle, and the remainder as a sum r + low. |r| is at most
// pi/4, or slightly more. If x is infinite or NaN, r is NaN.
func reduceAngle(x float64) (q int, r, low float64) {
	a := math.Abs(x)
	if a < 1<<20 {
		t := float64(x*(2/math.Pi)) + 0x1.8p52
		n := t - 0x1.8p52
		// d is exact. The rounding of p matters only if r is tiny and q is not 0. If q is 0, p is 0.
		d, p := x-float64(n*quarterTurn), float64(n*quarterTurnRest)
		r = d - p
		// A single branch tests whether |r| exceeds 2^-12 or q is 0, because separate branches would be unpredictable.
		q, rBits := int64(math.Float64bits(t)-roundingSumBits), int64(math.Float64bits(r)&^signBit)
		if (minRemainderBits-rBits)|((q-1)&^q) < 0 {
			return int(q), r, (d - r) - p
		}
	}
	if !(a <= math.MaxFloat64) {
		return 0, math.NaN(), 0
	}
	if q, r, low = reduceLargeAngle(a); x < 0 {
		q, r, low = -q, -r, -low
	}
	return q, r, low
}

// reduceLargeAngle is reduceAngle for any x >= pi/4. It multiplies the 53-bit mantissa of x by the 192 bits of 2/pi
// that affect the result. Higher bits contribute only whole turns, and lower bits contribute less than the precision.
func reduceLargeAngle(x float64) (q int, r, low float64) {
	b := math.Float64bits(x)
	m, bit := b&(1<<52-1)|1<<52, uint(b>>52)-1013
	var w [3]uint64
	for k := range w {
		// In Go, a shift by 64 gives 0.
		w[k] = TwoOverPi[bit/64+uint(k)]<<(bit%64) | TwoOverPi[bit/64+uint(k)+1]>>(64-bit%64)
	}
	// The product in quarter turns is top, mid, l2. Its first two bits are the integer part modulo 4.
	h2, l2 := bits.Mul64(w[2], m)
	h1, l1 := bits.Mul64(w[1], m)
	mid, carry := bits.Add64(l1, h2, 0)
	top := w[0]*m + h1 + carry
	q = int(top >> 62)
	hi, lo := top<<2|mid>>62, mid<<2|l2>>62 // the fraction
	sign := 1.0
	if hi >= 1<<63 { // nearer to the next quarter turn
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
		sign = -1
		q++
	}
	// Every angle is at least 2^-62 quarter turns from a multiple of a quarter turn.
	z := uint(bits.LeadingZeros64(hi))
	hi, lo = hi<<z|lo>>(64-z), lo<<z
	// f has the first 53 significant bits of the fraction, and g the other bits.
	unit := math.Ldexp(sign, -int(z)-64)
	f, g := float64(hi>>11<<11)*unit, float64(float64(hi<<53>>53)*unit)+float64(float64(lo)*unit*0x1p-64)
	r = f * PiOver2[0]
	low = math.FMA(f, PiOver2[0], -r) + (float64(f*PiOver2[1]) + float64(g*PiOver2[0]))
	return q, r, low
}

// sinOf and cosOf are the sine and the cosine of r + low.
func sinOf(r, low float64) float64 {
	c := (*[6]float64)(SinPoly.F64)
	z := r * r
	v := z * r
	p := c[1] + float64(z*(c[2]+float64(z*(c[3]+float64(z*(c[4]+float64(z*c[5])))))))
	return r - ((float64(z*(float64(0.5*low)-float64(v*p))) - low) - float64(v*c[0]))
}

func cosOf(r, low float64) float64 {
	c := (*[6]float64)(CosPoly.F64)
	z := r * r
	h, lost := float64(0.5*z), math.FMA(r, r, -z) // without lost, the error of tan would exceed 2 ulp
	w := 1 - h
	p := z * (c[0] + float64(z*(c[1]+float64(z*(c[2]+float64(z*(c[3]+float64(z*(c[4]+float64(z*c[5]))))))))))
	return w + (((1 - w) - h) + (float64(z*p) - (float64(r*low) + float64(0.5*lost))))
}

func sin(x float64) float64 {
	q, r, low := reduceAngle(x)
	return quadrantOf(q, r, low)
}

func cos(x float64) float64 {
	q, r, low := reduceAngle(x)
	return quadrantOf(q+1, r, low)
}

// quadrantOf returns the sine of q quarter turns plus r + low.
func quadrantOf(q int, r, low float64) float64 {
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
	s, c := math.Float64bits(sinOf(r, low)), math.Float64bits(cosOf(r, low))
	u, v := s, c
	if q&1 != 0 { // a conditional move instead of a branch
		u, v = c, s
	}
	turn := uint64(q)
	return math.Float64frombits(u ^ turn<<62&signBit), math.Float64frombits(v ^ (turn+1)<<62&signBit)
}

// signBit is the sign bit of a float64.
const signBit = 1 << 63

// tan is sin/cos, or -cos/sin. Like the inverse functions below, it selects by conditional moves of bits, because a
// branch would be unpredictable.
func tan(x float64) float64 {
	q, r, low := reduceAngle(x)
	s, c := math.Float64bits(sinOf(r, low)), math.Float64bits(cosOf(r, low))
	u, v := s, c
	if q&1 != 0 {
		u, v = c, s
	}
	return math.Float64frombits(u^uint64(q)<<63) / math.Float64frombits(v)
}

// arcsinParts returns s + t = asin(a) for 0 <= a <= 1/2. For greater a, s + t is asin(sqrt((1-a)/2)), which is half of
// acos(a).
func arcsinParts(a float64) (s, t float64) {
	square, rest := a*a, 0.5-float64(0.5*a)
	p, q := math.Float64bits(a), math.Float64bits(square)
	root, below := math.Float64bits(math.Sqrt(rest)), math.Float64bits(rest)
	if a > 0.5 {
		p, q = root, below
	}
	s, z := math.Float64frombits(p), math.Float64frombits(q)
	c := (*[13]float64)(AsinPoly.F64)
	u := z * z
	even := c[8] + float64(u*(c[10]+float64(u*c[12])))
	even = c[0] + float64(u*(c[2]+float64(u*(c[4]+float64(u*(c[6]+float64(u*even)))))))
	odd := c[1] + float64(u*(c[3]+float64(u*(c[5]+float64(u*(c[7]+float64(u*(c[9]+float64(u*c[11])))))))))
	return s, s * z * (even + float64(z*odd))
}

// halfPiRest is pi/2 minus its float64 value.
const halfPiRest = 6.123233995736766e-17

func asin(x float64) float64 {
	a := math.Abs(x)
	if !(a <= 1) {
		return math.NaN()
	}
	s, t := arcsinParts(a)
	r := math.Float64bits(s + t)
	far := math.Float64bits(math.Pi/4 + ((math.Pi/4 - 2*s) + (halfPiRest - 2*t)))
	if a > 0.5 {
		r = far
	}
	return math.Float64frombits(r | math.Float64bits(x)&signBit)
}

func acos(x float64) float64 {
	a := math.Abs(x)
	if !(a <= 1) {
		return math.NaN()
	}
	s, t := arcsinParts(a)
	p := math.Copysign(s+t, x)
	r := math.Float64bits((math.Pi/2 - p) + halfPiRest)
	left, right := math.Float64bits(math.Pi-2*(s+t)), math.Float64bits(2*(s+t))
	if x > 0.5 {
		r = right
	}
	if x < -0.5 {
		r = left
	}
	return math.Float64frombits(r)
}

// arcPoly is (atan(t)-t)/t^3 in t^2 for |t| <= tan(pi/8). The relative error of t + t^3*arcPoly is below 2^-56.9.
var arcPoly = [...]float64{-0.3333333333333333, 0.1999999999999552, -0.14285714284666542, 0.11111111015256292,
	-0.09090904578121085, 0.07692183190760651, -0.0666451144646022, 0.05858148904795124, -0.050854496960392584,
	0.039231657085083686, -0.019176885636589053}

// eighth is a direction whose angle is a multiple of an eighth of a turn.
type eighth struct {
	x, y        float64 // a vector in this direction
	angle, rest float64 // the angle of the direction is angle + rest
}

// eighths has the directions from the positive x axis to the positive y axis and, from index 4 on, those from the
// negative x axis to the positive y axis.
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
	// k+m+n is an index in eighths. k is 4 if x is negative. m is 1 if the angle to the x axis exceeds a sixteenth of a
	// turn, and n if it exceeds three sixteenths.
	k, m, n := math.Float64bits(x)>>63<<2, uint64(0), uint64(0)
	a := math.Abs(x)
	if y > a*tanSixteenth {
		m = 1
	}
	if y*tanSixteenth > a {
		n = 1
	}
	e := &eighths[(k+m+n)&7]
	d := math.Float64bits(float64(x*e.x) + float64(y*e.y))
	if d == 0 { // x and y are 0, and so is the rotated point
		d = 1 << 62
	}
	if d-smallBits >= infinityBits-smallBits {
		return arctanSpecial(y, x)
	}
	t := (float64(y*e.x) - float64(x*e.y)) / math.Float64frombits(d)
	return e.angle + (t + (float64(t*t*t*arcRest(t)) + e.rest))
}

// arcRest returns (atan(t)-t)/t^3, the value of arcPoly, for |t| <= tan(pi/8).
func arcRest(t float64) float64 {
	c, z := &arcPoly, t*t
	w := z * z
	v := w * w
	even := (c[0] + float64(w*c[2])) + float64(v*((c[4]+float64(w*c[6]))+float64(v*(c[8]+float64(w*c[10])))))
	odd := (c[1] + float64(w*c[3])) + float64(v*((c[5]+float64(w*c[7]))+float64(v*c[9])))
	return even + float64(z*odd)
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
	case max(y, math.Abs(x)) < 1:
		y, x = y*0x1p+100, x*0x1p+100
	default:
		y, x = y*0.25, x*0.25
	}
	return arctan(y, x)
}

// atan subtracts an eighth or a quarter of a turn.
func atan(x float64) float64 {
	t := math.Abs(x)
	e := &eighths[0]
	switch {
	case t > 1+math.Sqrt2:
		t, e = -1/t, &eighths[2]
	case t > tanSixteenth:
		t, e = (t-1)/(t+1), &eighths[1]
	}
	return math.Copysign(e.angle+(t+(float64(t*t*t*arcRest(t))+e.rest)), x)
}

// atan2 has the sign of y even if y/x underflows.
func atan2(y, x float64) float64 { return math.Copysign(arctan(math.Abs(y), x), y) }
