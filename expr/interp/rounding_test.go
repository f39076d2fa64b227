package interp

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/tensor"
)

// TestRounding compares roundings of float32 with package math: ties and their neighbours, the first integers, and
// random bits.
func TestRounding(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	list := []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
		math.MaxFloat32, math.SmallestNonzeroFloat32, 1 << 22, 1 << 23, 1<<23 - 0.5, 1<<22 - 0.5, 1 << 31, 1 << 63}
	for k := range 64 {
		x := float32(k) / 4
		list = append(list, x, math.Nextafter32(x, 100), math.Nextafter32(x, -100))
	}
	for range 100_000 {
		list = append(list, math.Float32frombits(rng.Uint32()), float32(rng.NormFloat64()*1000))
	}
	for _, f := range []struct {
		name string
		got  func(float32) float32
		want func(float64) float64
	}{{"trunc32", trunc32, math.Trunc}, {"rint32", rint32, math.RoundToEven}} {
		for _, x := range list {
			for _, x := range []float32{x, -x} {
				got, want := f.got(x), float32(f.want(float64(x)))
				if math.Float32bits(got) != math.Float32bits(want) && (got == got || want == want) {
					t.Fatalf("%s(%v) = %v, want %v", f.name, x, got, want)
				}
			}
		}
	}
}

// TestRoundingToHalves compares the roundings to 16-bit floats with those of the dtypes.
func TestRoundingToHalves(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	check := func(x float32) {
		if got, want := asHalf(x), tensor.HalfOf(x).Float32(); got != want && (got == got || want == want) ||
			math.Signbit(float64(got)) != math.Signbit(float64(want)) {
			t.Fatalf("half of %v: got %v, want %v", x, got, want)
		}
		if got, want := asBF16(x), tensor.BF16Of(x).Float32(); got != want && (got == got || want == want) ||
			got == got && math.Signbit(float64(got)) != math.Signbit(float64(want)) {
			t.Fatalf("bfloat16 of %v: got %v, want %v", x, got, want)
		}
	}
	for h := range 1 << 16 { // each, what lies halfway to the next, and beside that
		for _, x := range []float32{tensor.Half(h).Float32(), tensor.BF16(h).Float32()} {
			for _, step := range []uint32{0, 0xfff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001} {
				check(math.Float32frombits(math.Float32bits(x) + step))
			}
		}
		check(tensor.Half(h).Float32() + 1.0/(1<<25))
	}
	for range 100_000 {
		check(math.Float32frombits(rng.Uint32()))
	}
}
