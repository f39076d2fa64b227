package tensor

import (
	"math"

	"github.com/x448/float16"
)

// Half is the bit pattern of an IEEE 754 binary16 value; its dtype is [Float16].
type Half uint16

// BF16 is the bit pattern of a bfloat16 value; its dtype is [BFloat16].
type BF16 uint16

// halfToFloat has the float32 value of each of the 65,536 halves. A table lookup is four times faster than bit
// arithmetic.
var halfToFloat = func() *[1 << 16]float32 {
	var table [1 << 16]float32
	for i := range table {
		table[i] = float16.Frombits(uint16(i)).Float32()
	}
	return &table
}()

// Float32 returns the value exactly: every half is a float32.
func (h Half) Float32() float32 { return halfToFloat[h] }

// Constants for the bits of a float32. minNormalHalf has the bits of the smallest normal half. halfOverflow has the
// bits of 2^16, the power of two just beyond the range of halves.
const (
	exponentShift = 23
	minNormalHalf = (127 - 14) << exponentShift
	halfOverflow  = (127 + 16) << exponentShift
)

// HalfOf rounds to nearest, ties to even. Zeros and subnormal halves occur often and in no predictable order, so HalfOf
// computes them without a branch.
func HalfOf(f float32) Half {
	bits := math.Float32bits(f)
	sign, magnitude := Half(bits>>16&0x8000), bits&^(1<<31)
	if magnitude >= halfOverflow {
		if magnitude > 0xff<<exponentShift { // a NaN is made quiet, and keeps the upper bits of its payload
			return sign | 0x7e00 | Half(magnitude>>13&0x3ff)
		}
		return sign | 0x7c00 // infinity
	}
	// Rebias the exponent, so that the smallest normal half has exponent 1, and drop 13 bits. Adding half of the last
	// kept bit, less 1 if this bit is even, rounds to nearest, ties to even. The bits 0x3f800000 of 1.0 become 0x3c00.
	// Numbers below halfOverflow but at least 65520 become 0x7c00, infinity.
	rebiased := magnitude - (minNormalHalf - 1<<exponentShift)
	rounded := (rebiased + 0xfff + magnitude>>13&1) >> 13
	// The last bit of a float32 from 0.5 to 1 has the value 2^-24, which is also the smallest subnormal half. The sum
	// with 0.5 is therefore rounded to a multiple of this half, and its last bits are the multiple.
	const oneHalf = (127 - 1) << exponentShift // the bits of 0.5
	subnormal := math.Float32bits(math.Float32frombits(magnitude)+0.5) - oneHalf
	if magnitude < minNormalHalf {
		rounded = subnormal
	}
	return sign | Half(rounded)
}

// Float32 returns the value exactly.
func (b BF16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// BF16Of rounds to nearest, ties to even. A NaN becomes the quiet NaN 0x7fc0, as in c10::BFloat16.
func BF16Of(f float32) BF16 {
	bits := math.Float32bits(f)
	// Drop 16 bits. Adding half of the last kept bit, less 1 if this bit is even, rounds to nearest, ties to even.
	rounded := (bits + 0x7fff + (bits>>16)&1) >> 16
	if f != f {
		rounded = 0x7fc0
	}
	return BF16(rounded)
}
