package expr

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"
)

// TestAngleEnds holds angles of special numbers, of huge and of tiny ones against package math's.
func TestAngleEnds(t *testing.T) {
	list := []float64{0, neg0, 1, -1, inf, -inf, nan, 5e-324, -5e-324, 1e-310, math.MaxFloat64, -math.MaxFloat64, 1e308,
		0.3}
	for _, y := range list {
		for _, x := range list {
			got, want := atan2(y, x), math.Copysign(math.Atan2(math.Abs(y), x), y)
			if same := sameNumber(got, want); !same && !(math.Abs(got-want) <= 3e-16*math.Abs(want)) {
				t.Errorf("atan2(%v, %v) = %v, want %v", y, x, got, want)
			}
		}
	}
}

// TestComplexFunctions holds them against package cmplx's, of numbers of several sizes.
func TestComplexFunctions(t *testing.T) {
	library := map[string]func(complex128) complex128{"sqrt": cmplx.Sqrt, "sin": cmplx.Sin, "cos": cmplx.Cos,
		"tan": cmplx.Tan, "asin": cmplx.Asin, "acos": cmplx.Acos, "atan": cmplx.Atan, "sinh": cmplx.Sinh,
		"cosh": cmplx.Cosh, "tanh": cmplx.Tanh, "asinh": cmplx.Asinh, "acosh": cmplx.Acosh, "atanh": cmplx.Atanh}
	if len(library) != len(complexCalls) {
		t.Fatalf("%d functions of %d", len(library), len(complexCalls))
	}
	sizes := []float64{0.1, 0.5, 1, 3, 30, 1e3, 1e60, 1e160}
	for name, f := range library {
		r := rand.New(rand.NewPCG(1, 2))
		for i := range 20000 {
			size := sizes[i%len(sizes)]
			z := complex(size*(2*r.Float64()-1), size*(2*r.Float64()-1))
			got, want := complexCalls[name][0].both(z), f(z)
			within := 1e-12 + 1e-14*size*size // squares cancel in arcs
			if cmplx.IsNaN(want) || cmplx.IsInf(want) || within > 1e-6 && name[0] == 'a' {
				continue
			}
			if !(cmplx.Abs(got-want) <= within*cmplx.Abs(want)) {
				t.Fatalf("%s(%v) = %v, want %v", name, z, got, want)
			}
		}
	}
}

// TestComplexArctangentOnCircle is where package cmplx has NaN: numbers of magnitude 1.
func TestComplexArctangentOnCircle(t *testing.T) {
	for _, z := range []complex128{complex(1, 1e-200), complex(-1, 1e-200)} {
		if got, want := complexAtan(z), complex(math.Copysign(math.Pi/4, real(z)), 0); cmplx.Abs(got-want) > 1e-15 {
			t.Errorf("atan(%v) = %v, want %v", z, got, want)
		}
	}
}
