package interp

import "math"

// Float32 is rounded to whole numbers by itself: package math's functions are of float64, and a conversion writes half
// of a register, for which the one before it must be done.

const (
	signBit32 = 1 << 31
	whole32   = (127 + 23) << 23 // the bits of the first float32 from which on all are whole numbers
)

// trunc32 is math.Trunc.
func trunc32(x float32) float32 {
	u := math.Float32bits(x)
	r := math.Float32bits(float32(int32(x))) | u&signBit32
	if u&^signBit32 >= whole32 {
		r = u
	}
	return math.Float32frombits(r)
}

// floor32 is math.Floor.
func floor32(x float32) float32 {
	t := trunc32(x)
	r, less := math.Float32bits(t), math.Float32bits(t-1)
	if t > x {
		r = less
	}
	return math.Float32frombits(r)
}

// rint32 is math.RoundToEven: of numbers from 2^23 on there are whole ones alone.
func rint32(x float32) float32 {
	u := math.Float32bits(x)
	r := math.Float32bits(math.Float32frombits(u&^signBit32)+(1<<23)-(1<<23)) | u&signBit32
	if u&^signBit32 >= whole32 {
		r = u
	}
	return math.Float32frombits(r)
}
