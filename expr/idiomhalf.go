package expr

import (
	"math"

	"github.com/graphrun/graphrun/tensor"
)

const (
	// most16 has the bits of the float32 that bounds quotients of floats of 16 bits whose product with the divisor, of
	// 11 bits at most, float32 holds.
	most16 = (127 + 13) << 23

	// Numbers above these are above a half when they are rounded to the dtype: a tie goes to the half.
	aboveHalfHalf = 0.5 + 1.0/(1<<12)
	aboveHalfBF16 = 0.5 + 1.0/(1<<9)
)

// asHalf and asBF16 round as the dtypes do. The last place of halves below the normal ones is that of float32 from a
// half on.
func asHalf(x float32) float32 {
	const least, beyond, infinity = uint32(127-14) << 23, uint32(127+16) << 23, uint32(0xff) << 23
	u := math.Float32bits(x)
	a := u &^ signBit32
	r := (a + 0xfff + a>>13&1) &^ 0x1fff
	if low := math.Float32bits(math.Float32frombits(a) + 0.5 - 0.5); a < least {
		r = low
	}
	if r >= beyond {
		r = max(a, infinity) // a NaN stays
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

// exactHalf and exactBF16 are of what the dtypes hold.
func exactHalf(x float32) tensor.Half { return tensor.HalfOf(x) }

func exactBF16(x float32) tensor.BF16 { return tensor.BF16(math.Float32bits(x) >> 16) }

// floorRatioHalf and floorRatioBF16 are floorRatio, of which each step is rounded.
func floorRatioHalf(a, b tensor.Half) tensor.Half {
	x, y := a.Float32(), b.Float32()
	ratio := x / y
	if y == 0 {
		return tensor.HalfOf(ratio)
	}
	m := remainder16(x, y, ratio)
	q := asHalf(asHalf(x-m) / y)
	return exactHalf(floorOfRatio(ratio, y, m, q, asHalf(q-1), aboveHalfHalf))
}

func floorRatioBF16(a, b tensor.BF16) tensor.BF16 {
	x, y := a.Float32(), b.Float32()
	ratio := x / y
	if y == 0 {
		return tensor.BF16Of(ratio)
	}
	m := remainder16(x, y, ratio)
	q := asBF16(asBF16(x-m) / y)
	return exactBF16(floorOfRatio(ratio, y, m, q, asBF16(q-1), aboveHalfBF16))
}

// remainder16 is C's fmod of numbers of 16 bits. Where their ratio is small the product with the divisor fits the bits
// of a float32.
func remainder16(x, y, ratio float32) float32 {
	m := x - trunc32(ratio)*y
	signs := math.Float32bits(x) ^ math.Float32bits(m)
	if math.Float32bits(ratio)&^signBit32 >= most16 || m != m || int32(signs) < 0 && m != 0 {
		m = mod32(x, y)
	}
	return m
}

// floorOfRatio rounds the quotient q without the remainder m down, or low, which is 1 less, where that has another
// sign than the divisor. All cases are at hand before one is chosen, without a branch: they come at random.
func floorOfRatio(ratio, y, m, q, low, aboveHalf float32) float32 {
	r, less := math.Float32bits(q), math.Float32bits(low)
	if m == 0 {
		less = r
	}
	if int32(math.Float32bits(y)^math.Float32bits(m)) < 0 {
		r = less
	}
	q = math.Float32frombits(r)
	f := trunc32(q)
	if r, less = math.Float32bits(f), math.Float32bits(f-1); f > q {
		r = less
	}
	f = math.Float32frombits(r)
	r, more, zero := math.Float32bits(f), math.Float32bits(f+1), math.Float32bits(ratio)&signBit32
	if q-f > aboveHalf {
		r = more
	}
	if q == 0 {
		r = zero
	}
	return math.Float32frombits(r)
}
