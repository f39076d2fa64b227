package expr

import (
	"math"

	"github.com/graphrun/graphrun/tensor"
)

const (
	// most16 has the bits of the float32 that bounds quotients of floats of 16 bits whose product with the divisor, of
	// 11 bits at most, float32 holds.
	most16 = (127 + 13) << 23

	// Numbers above this are above a half when they are rounded to bfloat16: a tie goes to the half.
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

// floorRatio is floorDiv, of which each step is rounded. All cases are at hand before one is chosen, without a
// branch: they come at random. Where the quotient is small its product with the divisor fits the bits of a float32.
func floorRatio(a, b tensor.BF16) tensor.BF16 {
	x, y := a.Float32(), b.Float32()
	ratio := x / y
	if y == 0 {
		return tensor.BF16Of(ratio)
	}
	m := x - trunc32(ratio)*y
	signs := math.Float32bits(x) ^ math.Float32bits(m)
	if math.Float32bits(ratio)&^signBit32 >= most16 || m != m || int32(signs) < 0 && m != 0 {
		m = mod32(x, y)
	}
	q := asBF16(asBF16(x-m) / y)
	r, low := math.Float32bits(q), math.Float32bits(asBF16(q-1))
	if m == 0 {
		low = r
	}
	if int32(math.Float32bits(y)^math.Float32bits(m)) < 0 {
		r = low
	}
	q = math.Float32frombits(r)
	f := trunc32(q)
	if r, low = math.Float32bits(f), math.Float32bits(f-1); f > q {
		r = low
	}
	f = math.Float32frombits(r)
	r, more, zero := math.Float32bits(f), math.Float32bits(f+1), math.Float32bits(ratio)&signBit32
	if q-f > aboveHalfBF16 {
		r = more
	}
	if q == 0 {
		r = zero
	}
	return exactBF16(math.Float32frombits(r))
}
