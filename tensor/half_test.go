package tensor_test

import (
	"math"
	"testing"

	"github.com/x448/float16"

	"github.com/graphrun/graphrun/tensor"
)

// TestHalfOf compares with another implementation: at every half, halfway between neighbours, next to both,
// and for random bits.
func TestHalfOf(t *testing.T) {
	check := func(b uint32) {
		t.Helper()
		f := math.Float32frombits(b)
		if got, want := tensor.HalfOf(f), tensor.Half(float16.Fromfloat32(f).Bits()); got != want {
			t.Fatalf("%v (%#x): got %#04x, want %#04x", f, b, got, want)
		}
	}
	for h := range 1 << 16 {
		at := math.Float32bits(tensor.Half(h).Float32())
		for _, b := range []uint32{at, at + 1<<12, at + 1<<13} {
			check(b - 1)
			check(b)
			check(b + 1)
		}
	}
	for b := uint64(0); b < 1<<32; b += 4093 {
		check(uint32(b))
	}
}
