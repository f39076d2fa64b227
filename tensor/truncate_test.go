package tensor

import (
	"math"
	"testing"
	"unsafe"
)

// TestFloatsOutOfRange states the conversions of floats that are not in the range of an integer. They are those of
// amd64's instructions and must not depend on the processor.
func TestFloatsOutOfRange(t *testing.T) {
	const least32, least64 = 1 << 31, 1 << 63
	cases := []struct {
		x                                    float64
		i8, u8, i16, u16, i32, u32, i64, u64 uint64
	}{
		{math.NaN(), 0, 0, 0, 0, least32, 0, least64, least64},
		{math.Inf(1), 0, 0, 0, 0, least32, 0, least64, least64},
		{math.Inf(-1), 0, 0, 0, 0, least32, 0, least64, least64},
		{0x1p63, 0, 0, 0, 0, least32, 0, least64, least64},
		{0x1.8p63, 0, 0, 0, 0, least32, 0, least64, 3 << 62},
		{0x1p64, 0, 0, 0, 0, least32, 0, least64, least64},
		{-0x1p63, 0, 0, 0, 0, least32, 0, least64, least64},
		{-0x1p31, 0, 0, 0, 0, least32, least32, 0xffffffff80000000, 0xffffffff80000000},
		{0x1p31 + 512, 0, 0, 0, 0, least32, least32 + 512, least32 + 512, least32 + 512},
		{0x1p40 + 0x1p20, 0, 0, 0, 0, least32, 1 << 20, 1<<40 + 1<<20, 1<<40 + 1<<20},
		{-1.75, 0xff, 0xff, 0xffff, 0xffff, 0xffffffff, 0xffffffff, math.MaxUint64, math.MaxUint64},
		{300.5, 44, 44, 300, 300, 300, 300, 300, 300},
	}
	for _, c := range cases {
		for d, want := range map[DType]uint64{Int8: c.i8, Uint8: c.u8, Int16: c.i16, Uint16: c.u16, Int32: c.i32,
			Uint32: c.u32, Int64: c.i64, Uint64: c.u64} {
			for _, s := range []DType{Float16, BFloat16, Float32, Float64} {
				var src, back [3]uint64
				for i := range src {
					Converter(s, Float64)(unsafe.Pointer(&src[i]), unsafe.Pointer(&c.x), 0, 0, 1)
				}
				x := math.Float64frombits(0)
				Converter(Float64, s)(unsafe.Pointer(&x), unsafe.Pointer(&src[0]), 0, 0, 1)
				if x != c.x && x == x {
					continue // s has no such number
				}
				var dense, strided [3]uint64
				one := src[0]
				for i := range 3 { // contiguous elements
					*(*uint64)(unsafe.Add(unsafe.Pointer(&back), i*s.Size())) = one
				}
				Converter(d, s)(unsafe.Pointer(&dense), unsafe.Pointer(&back), d.Size(), s.Size(), 2)
				Converter(d, s)(unsafe.Pointer(&strided), unsafe.Pointer(&src), 8, 8, 3)
				low := dense[0] & (math.MaxUint64 >> (64 - 8*d.Size()))
				if low != want || strided[2] != want {
					t.Errorf("%v of %v from %v: %#x and %#x, want %#x", d, c.x, s, low, strided[2], want)
				}
			}
		}
	}
}
