package interp

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// TestFloorRatios16 compares floor divisions of 16-bit floats with the definition, which rounds each step: near
// integers, near the bounds of plain ratios, and for random bits.
func TestFloorRatios16(t *testing.T) {
	f, err := expr.Parse("x // y", "x", "y")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range halves {
		c, err := f.Code([]tensor.DType{d, d}, expr.Typing{})
		if err != nil {
			t.Fatal(err)
		}
		bits := func(x float32) uint64 {
			if d == tensor.Float16 {
				return uint64(tensor.HalfOf(x))
			}
			return uint64(tensor.BF16Of(x))
		}
		value := func(u uint64) float32 {
			if d == tensor.Float16 {
				return tensor.Half(u).Float32()
			}
			return tensor.BF16(u).Float32()
		}
		rng := rand.New(rand.NewPCG(5, uint64(d)))
		for range 200_000 {
			a, b := uint64(rng.Uint32N(1<<16)), uint64(rng.Uint32N(1<<16))
			if rng.IntN(2) == 0 { // next to a multiple
				near := math.Exp2(rng.Float64() * 12)
				a = bits(value(b)*float32(math.Trunc(near))) + uint64(rng.IntN(3)) - 1
				a &= 1<<16 - 1
			}
			want := value(c.Eval(expr.Number{Re: a}, expr.Number{Re: b})[0].Re)
			var got float32
			if d == tensor.Float16 {
				got = floorRatioHalf(tensor.Half(a), tensor.Half(b)).Float32()
			} else {
				got = floorRatioBF16(tensor.BF16(a), tensor.BF16(b)).Float32()
			}
			if math.Float32bits(got) != math.Float32bits(want) && (got == got || want == want) {
				t.Fatalf("%v: %v // %v is %v, want %v", d, value(a), value(b), got, want)
			}
		}
	}
}
