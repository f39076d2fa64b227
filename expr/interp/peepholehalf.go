package interp

import (
	"math"

	"github.com/graphrun/graphrun/tensor"
)

const (
	// For ratios below these bounds, floorRatioHalf and floorRatioBF16 need no intermediate rounding: it would change the
	// quotient by less than a half, and float32 distinguishes the ratio from the nearest integer.
	maxExactRatioHalf = 256
	maxExactRatioBF16 = 32
)

// asHalf and asBF16 round to the precision of the dtypes. Adding 0.5 and subtracting it rounds subnormal halves,
// because float32 numbers from 0.5 to 1 have the same last place.
func asHalf(x float32) float32 {
	const least, beyond, infinity = uint32(127-14) << 23, uint32(127+16) << 23, uint32(0xff) << 23
	u := math.Float32bits(x)
	a := u &^ signBit32
	r := (a + 0xfff + a>>13&1) &^ 0x1fff
	if low := math.Float32bits(math.Float32frombits(a) + 0.5 - 0.5); a < least {
		r = low
	}
	if r >= beyond {
		r = max(a, infinity) // NaN is preserved
	}
	return math.Float32frombits(r | (u ^ a))
}

func asBF16(x float32) float32 {
	u := math.Float32bits(x)
	r := (u + 0x7fff + u>>16&1) &^ 0xffff
	if x != x {
		r = 0x7fc0 << 16
	}
	return math.Float32frombits(r)
}

// exactHalf and exactBF16 convert numbers that the dtype represents exactly.
func exactHalf(x float32) tensor.Half { return tensor.HalfOf(x) }

func exactBF16(x float32) tensor.BF16 { return tensor.BF16(math.Float32bits(x) >> 16) }

// floorRatioHalf and floorRatioBF16 are floorRatio with each step rounded to the dtype.
func floorRatioHalf(a, b tensor.Half) tensor.Half {
	x, y := a.Float32(), b.Float32()
	ratio := x / y
	if isExactRatio(ratio, x, maxExactRatioHalf) {
		return exactHalf(floor32(ratio))
	}
	if y == 0 {
		return tensor.HalfOf(ratio)
	}
	return exactHalf(floorRatioBySteps(x, y, ratio, asHalf))
}

func floorRatioBF16(a, b tensor.BF16) tensor.BF16 {
	x, y := a.Float32(), b.Float32()
	ratio := x / y
	if isExactRatio(ratio, x, maxExactRatioBF16) {
		return exactBF16(floor32(ratio))
	}
	if y == 0 {
		return tensor.BF16Of(ratio)
	}
	return tensor.BF16Of(floorRatioBySteps(x, y, ratio, asBF16))
}

// floorRatioBySteps computes floorRatio of x and y, and rounds the result of each step by round. ratio is x / y.
func floorRatioBySteps(x, y, ratio float32, round func(float32) float32) float32 {
	m := mod32(x, y)
	q := round(round(x-m) / y)
	if m != 0 && (y < 0) != (m < 0) {
		q = round(q - 1)
	}
	f := floor32(q)
	return nearerRatio(ratio, q, f, round(q-f))
}

// isExactRatio reports whether a ratio is positive and below most, or is 0 because x is 0. Such a ratio needs no
// intermediate rounding.
func isExactRatio(ratio, x, most float32) bool {
	u := math.Float32bits(ratio) &^ signBit32
	return u-1 < math.Float32bits(most)-1 || u == 0 && x == 0
}

// nearerRatio returns f, the floor of q. If rest, which is q - f, is above a half, it returns f + 1. If q is 0, the
// result is a zero with the sign of ratio.
func nearerRatio(ratio, q, f, rest float32) float32 {
	switch {
	case q == 0:
		return math.Float32frombits(math.Float32bits(ratio) & signBit32)
	case rest > 0.5:
		return f + 1
	}
	return f
}
