package interp

import "math"

// These functions round float32 without conversions to float64. Package math rounds only float64. A conversion writes
// half of a register, so each conversion in a loop would wait for the previous conversion.

const (
	signBit32 = 1 << 31
	whole32   = (127 + 23) << 23 // the bits of 2^23; all greater float32 numbers are integers
)

// trunc32 is math.Trunc of float32.
func trunc32(x float32) float32 {
	u := math.Float32bits(x)
	r := math.Float32bits(float32(int32(x))) | u&signBit32
	if u&^signBit32 >= whole32 {
		r = u
	}
	return math.Float32frombits(r)
}

// floor32 is math.Floor of float32.
func floor32(x float32) float32 {
	t := trunc32(x)
	r, less := math.Float32bits(t), math.Float32bits(t-1)
	if t > x {
		r = less
	}
	return math.Float32frombits(r)
}

// rint32 is math.RoundToEven of float32.
func rint32(x float32) float32 {
	u := math.Float32bits(x)
	r := math.Float32bits(math.Float32frombits(u&^signBit32)+(1<<23)-(1<<23)) | u&signBit32
	if u&^signBit32 >= whole32 {
		r = u
	}
	return math.Float32frombits(r)
}
