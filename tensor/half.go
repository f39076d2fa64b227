package tensor

import (
	"math"

	"github.com/x448/float16"
)

// Half is an IEEE 754 binary16 value by its bits; its dtype is [Float16].
type Half uint16

// BF16 is a bfloat16 value by its bits; its dtype is [BFloat16].
type BF16 uint16

// halfToFloat holds all 65,536 conversions: a table look-up is four times faster than
// the bit arithmetic, and loops over halves convert every element twice.
var halfToFloat = func() *[1 << 16]float32 {
	var t [1 << 16]float32
	for i := range t {
		t[i] = float16.Frombits(uint16(i)).Float32()
	}
	return &t
}()

// Float32 returns the value exactly.
func (h Half) Float32() float32 { return halfToFloat[h] }

// What a float32 has as bits: the place of its exponent, and the exponents of the least normal half, and of the first
// number beyond all halves.
const (
	exponentAt  = 23
	leastNormal = (127 - 14) << exponentAt
	beyond      = (127 + 16) << exponentAt
)

// HalfOf rounds to nearest, ties to even. Infinities and NaN alone are a branch: zeros lie among other numbers in any
// order.
func HalfOf(f float32) Half {
	b := math.Float32bits(f)
	sign, u := Half(b>>16&0x8000), b&^(1<<31)
	if u >= beyond {
		if u > 0xff<<exponentAt { // a NaN is quiet, and keeps what bits there is room for
			return sign | 0x7e00 | Half(u>>13&0x3ff)
		}
		return sign | 0x7c00
	}
	const half = (127 - 1) << exponentAt // the bits of 0.5, the last of which is that of the least half
	r := (u - (leastNormal - 1<<exponentAt) + 0xfff + u>>13&1) >> 13
	subnormal := math.Float32bits(math.Float32frombits(u)+0.5) - half
	if u < leastNormal {
		r = subnormal
	}
	return sign | Half(r)
}

// Float32 returns the value exactly.
func (b BF16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// BF16Of rounds to nearest, ties to even; a NaN becomes the quiet NaN 0x7fc0, as in
// c10::BFloat16.
func BF16Of(f float32) BF16 {
	u := math.Float32bits(f)
	r := (u + 0x7fff + (u>>16)&1) >> 16
	if u&^(1<<31) > 0xff<<exponentAt {
		r = 0x7fc0
	}
	return BF16(r)
}
