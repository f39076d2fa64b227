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

// HalfOf rounds to nearest, ties to even.
func HalfOf(f float32) Half { return Half(float16.Fromfloat32(f).Bits()) }

// Float32 returns the value exactly.
func (b BF16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// BF16Of rounds to nearest, ties to even; a NaN becomes the quiet NaN 0x7fc0, as in
// c10::BFloat16.
func BF16Of(f float32) BF16 {
	u := math.Float32bits(f)
	if f != f {
		return 0x7fc0
	}
	return BF16((u + 0x7fff + (u>>16)&1) >> 16)
}
