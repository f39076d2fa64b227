package expand

import (
	"math"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/elementary"
)

// This file reduces float64 angles of any size modulo pi/2, without branches: a = q*pi/2 + r + low, with |r| at most
// about pi/4. Then sin(a) is the sine or the cosine of r + low, with a sign. q modulo 4 determines the function and the
// sign. For example, a = 10 gives q = 6 and r + low = 10 - 3*pi = 0.575..., and sin(10) is -sin(0.575...).
//
// Numbers below 2^25 are reduced by three parts of pi/2 (Cody and Waite): r = ((a - q*c0) - q*c1) - q*c2. Greater
// numbers are reduced by the relevant bits of 2/pi (Payne and Hanek): a*2/pi is computed modulo 4, q is its integer
// part, and r + low is its fraction times pi/2. Both results are computed, and the size of a selects one of them.

// reduceAngle reduces a >= 0 modulo pi/2. It returns q, an integer whose lowest bits are the number of quarter turns in
// a, and the remainder r + low. If a is infinite or NaN, the remainder is NaN.
func (e *expander) reduceAngle(a expr.Value) (q, r, low expr.Value) {
	isSmall := e.less(a, e.constant(0x1p25))
	smallQ, smallR, smallLow := e.reduceSmallAngle(a)
	largeQ, largeR, largeLow := e.reduceLargeAngle(a)
	q = e.asInt(e.choose(isSmall, smallQ, largeQ))
	return q, e.choose(isSmall, smallR, largeR), e.choose(isSmall, smallLow, largeLow)
}

// reduceSmallAngle is reduceAngle for numbers below 2^25. Its q is still a float, whose lowest bits are the integer.
func (e *expander) reduceSmallAngle(a expr.Value) (q, r, low expr.Value) {
	// The addition of roundingNumber rounds a*2/pi to an integer, the lowest bits of q.
	q = e.fma(a, e.constant(2/math.Pi), e.roundingNumber())
	quarters := e.sub(q, e.roundingNumber())
	first := e.fma(quarters, e.constant(-elementary.PiOver2[0]), a)
	second := e.mul(quarters, e.constant(-elementary.PiOver2[1]))
	secondError := e.fma(quarters, e.constant(-elementary.PiOver2[1]), e.Emit(expr.Neg, second)) // rounding error
	r, low = e.twoSum(first, second)
	return q, r, e.add(low, e.fma(quarters, e.constant(-elementary.PiOver2[2]), secondError))
}

// roundingNumber returns a constant c such that c+n has the integer n in its lowest bits.
func (e *expander) roundingNumber() expr.Value { return e.constant(0x1.8p52) }

// reduceLargeAngle is reduceSmallAngle for any a. It reduces a = m*2^k with a 53-bit integer m. It multiplies m by each
// of the four parts of (2/pi * 2^k) mod 4 (twoOverPiBits). It adds the integer parts and the fractions of the products
// separately, so that the absolute error stays below 2^-120 even if the remainder is near 0.
func (e *expander) reduceLargeAngle(a expr.Value) (q, r, low expr.Value) {
	// m has the lower 52 bits of a, and the exponent of 2^52.
	mantissa := e.asFloat(e.Emit(expr.Or, e.Emit(expr.And, e.asInt(a), e.intConst(1<<52-1)), e.bitsOf(0x1p52)))
	q, fraction, fractionLow := e.addProducts(mantissa, e.twoOverPiBits(a))
	halfPi, halfPiLow := e.constant(elementary.PiOver2[0]), e.constant(elementary.PiOver2[1])
	r = e.mul(fraction, halfPi)
	low = e.fma(fractionLow, halfPi, e.fma(fraction, halfPiLow, e.productError(fraction, halfPi, r)))
	return q, r, e.add(low, e.sub(a, a)) // a-a is 0, or NaN if a is infinite or NaN
}

// addProducts multiplies a number by four parts and adds the products. It returns the sum as q and the fraction f +
// fLow. The lowest bits of q are the integer part modulo 4.
//
// The exact products with parts 0 to 2 are hi + lo, where lo is the rounding error of hi. The product with part 3 is
// added to the last lo, which is rounded. n0 to n3 are the integers whose sum is the integer part. g is the sum of the
// lower numbers, which is added to the fraction f. f1, f2 and f3 are the rounding errors of the three sums f, and g1 is
// the rounding error of g.
//
// For example, for a = 10 the products are 5, 1.366... and two products near 0. So n0 is 5, n2 is 1, n1 and n3 are 0,
// and the fraction is 0.366... Modulo 4, n0 becomes 1, and q has the integer part 2, which is 6 modulo 4.
func (e *expander) addProducts(number expr.Value, parts [4]expr.Value) (q, f, fLow expr.Value) {
	var hi, lo [3]expr.Value
	for i := range hi {
		hi[i] = e.mul(number, parts[i])
		lo[i] = e.productError(number, parts[i], hi[i])
	}
	lo[2] = e.fma(number, parts[3], lo[2])

	rint := func(x expr.Value) expr.Value { return e.Emit(expr.Rint, x) }
	n0, n1, n2 := rint(hi[0]), rint(lo[0]), rint(hi[1])
	// The first product is a multiple of 2^-50, so the sum of the fractions of hi[0] and lo[0] is exact.
	f, f1 := e.twoSum(e.add(e.sub(hi[0], n0), e.sub(lo[0], n1)), e.sub(hi[1], n2))
	n3 := rint(f)
	g, g1 := e.twoSum(lo[1], hi[2])
	f, f2 := e.twoSum(e.sub(f, n3), g)
	f, f3 := e.twoSum(f, f1)
	fLow = e.add(e.add(f2, f3), e.add(g1, lo[2]))

	n0 = e.fma(rint(e.mul(n0, e.constant(0.25))), e.constant(-4), n0) // modulo 4: whole turns do not count
	q = e.add(e.add(e.add(n0, n1), e.add(n2, n3)), e.roundingNumber())
	return q, f, fLow
}

// twoOverPiBits returns 2/pi * 2^k modulo 4, where a = m*2^k, as three parts of 52 bits and a part of 36 bits. These
// are the bits of the table TwoOverPi from bit e-1013 on, where e is the biased exponent of a. Bit i of the table has
// the value 2^(63-i), because its first word is 0, and k is e-1075. So the first bit has the value 2, and the bits
// before it are multiples of 4.
func (e *expander) twoOverPiBits(a expr.Value) [4]expr.Value {
	bitOffset := e.Emit(expr.Sub, e.Emit(expr.Shr, e.asInt(a), e.intConst(52)), e.intConst(1013))
	window := e.twoOverPiWindow(bitOffset)
	shl := func(bits expr.Value, count uint64) expr.Value { return e.Emit(expr.Shl, bits, e.intConst(count)) }
	shr := func(bits expr.Value, count uint64) expr.Value { return e.Emit(expr.Shr, bits, e.intConst(count)) }
	// number returns bits * unit * 2^-52 for an integer, bits, below 2^52. unit is a power of 2. The Or gives the
	// number unit + bits*unit*2^-52, whose mantissa is bits.
	number := func(bits expr.Value, unit float64) expr.Value {
		return e.sub(e.asFloat(e.Emit(expr.Or, bits, e.bitsOf(unit))), e.constant(unit))
	}
	// The parts are bits 0 to 51 of the window, 52 to 103, 104 to 155, and 156 to 191. A shl clears the upper bits of a
	// word. The shr by 12 then moves the remaining bits to the top of 52 bits.
	return [4]expr.Value{
		number(shr(window[0], 12), 4),
		number(e.Emit(expr.Or, shr(shl(window[0], 52), 12), shr(window[1], 24)), 0x1p-50),
		number(e.Emit(expr.Or, shr(shl(window[1], 40), 12), shr(window[2], 36)), 0x1p-102),
		number(shr(shl(window[2], 28), 12), 0x1p-154),
	}
}

// twoOverPiWindow returns 192 bits of the table TwoOverPi, from bit bitOffset on. The lookup has no branches: the list
// of words is shifted by 16, 8, 4, 2 and 1 words. Each bit of the index of the first word selects whether one of these
// shifts is made.
func (e *expander) twoOverPiWindow(bitOffset expr.Value) (window [3]expr.Value) {
	words := make([]expr.Value, len(elementary.TwoOverPi))
	for i, tableWord := range elementary.TwoOverPi {
		words[i] = e.intConst(tableWord)
	}
	for step := 16; step > 0; step /= 2 {
		bit := uint64(step) << 6 // the bit of bitOffset for this step: a word has 2^6 bits
		isSet := e.Emit(expr.Eq, e.Emit(expr.And, bitOffset, e.intConst(bit)), e.intConst(bit))
		// The loop below reads words 0 to 3, and later steps shift by at most step-1 words.
		for i := 0; i < step+3 && i+step < len(words); i++ {
			words[i] = e.choose(isSet, words[i+step], words[i])
		}
	}
	shift := e.Emit(expr.And, bitOffset, e.intConst(63))
	reverseShift := e.Emit(expr.Xor, shift, e.intConst(63))
	for i := range window { // words[i+1] is shifted right by 64-shift, in two steps, because a count must be below 64
		window[i] = e.Emit(expr.Or, e.Emit(expr.Shl, words[i], shift),
			e.Emit(expr.Shr, e.Emit(expr.Shr, words[i+1], e.intConst(1)), reverseShift))
	}
	return window
}
