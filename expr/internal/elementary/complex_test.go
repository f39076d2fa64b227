package elementary_test

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/expr/internal/elementary"
	"github.com/graphrun/graphrun/expr/internal/exprtest"
)

// TestAngleEnds compares angles of special, huge and tiny numbers with package math.
func TestAngleEnds(t *testing.T) {
	list := []float64{0, exprtest.NegZero, 1, -1, exprtest.Inf, -exprtest.Inf, exprtest.Nan, 5e-324, -5e-324, 1e-310,
		math.MaxFloat64, -math.MaxFloat64, 1e308,
		0.3}
	for _, y := range list {
		for _, x := range list {
			got, want := elementary.Binary["atan2"](y, x), math.Copysign(math.Atan2(math.Abs(y), x), y)
			if same := exprtest.SameNumber(got, want); !same && !(math.Abs(got-want) <= 3e-16*math.Abs(want)) {
				t.Errorf("atan2(%v, %v) = %v, want %v", y, x, got, want)
			}
		}
	}
}

// TestComplexFunctions compares the functions with math/cmplx, for numbers of several sizes.
func TestComplexFunctions(t *testing.T) {
	library := map[string]func(complex128) complex128{"sqrt": cmplx.Sqrt, "sin": cmplx.Sin, "cos": cmplx.Cos,
		"tan": cmplx.Tan, "asin": cmplx.Asin, "acos": cmplx.Acos, "atan": cmplx.Atan, "sinh": cmplx.Sinh,
		"cosh": cmplx.Cosh, "tanh": cmplx.Tanh, "asinh": cmplx.Asinh, "acosh": cmplx.Acosh, "atanh": cmplx.Atanh}
	if len(library) != len(elementary.Complex) {
		t.Fatalf("%d functions of %d", len(library), len(elementary.Complex))
	}
	sizes := []float64{0.1, 0.5, 1, 3, 30, 1e3, 1e60, 1e160}
	for name, f := range library {
		r := rand.New(rand.NewPCG(1, 2))
		for i := range 20000 {
			size := sizes[i%len(sizes)]
			z := complex(size*(2*r.Float64()-1), size*(2*r.Float64()-1))
			got, want := elementary.Complex[name](z), f(z)
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

// TestComplexArctangentOnCircle checks numbers of magnitude 1, where math/cmplx returns NaN.
func TestComplexArctangentOnCircle(t *testing.T) {
	for _, z := range []complex128{complex(1, 1e-200), complex(-1, 1e-200)} {
		if got, want := elementary.Complex["atan"](z), complex(math.Copysign(math.Pi/4, real(z)),
			0); cmplx.Abs(got-want) > 1e-15 {
			t.Errorf("atan(%v) = %v, want %v", z, got, want)
		}
	}
}

// TestComplexArcs compares inverse functions with NumPy where logarithms of z + sqrt(z^2 + 1) cancel or overflow.
func TestComplexArcs(t *testing.T) {
	of := []complex128{complex(9.223372036854775e+18, 1.844674407370955e+19), complex(-32769, 1.6777216e7),
		complex(9.4375, 9.007199254740992e15), complex(-1e100, -1e-3), complex(1e-9, 2e-9), complex(0.9999999, 1e-9)}
	for name, list := range map[string][]complex128{
		"asin": {complex(0.4636476090008061, 45.16613851205355), complex(-0.001953182120896211, 17.328681421460047),
			complex(1.0477729794899915e-15, 37.42994775023705), complex(-1.5707963267948966, -230.95165647996453),
			complex(1.0000000000000003e-09, 2e-09), complex(1.5703491076057925, 2.23604008436323e-06)},
		"acos": {complex(1.1071487177940904, -45.16613851205355), complex(1.5727495089157928, -17.328681421460047),
			complex(1.5707963267948957, -37.42994775023705), complex(3.141592653589793, 230.95165647996453),
			complex(1.5707963257948967, -2e-09), complex(0.00044721918910416603, -2.23604008436323e-06)},
		"atan": {complex(1.5707963267948966, 4.3368086899420186e-20), complex(-1.5707963266784781, 5.9604417388704716e-08),
			complex(1.5707963267948966, 1.1102230246251565e-16), complex(-1.5707963267948966, -9.999999999999999e-204),
			complex(1.0000000000000003e-09, 2.0000000000000005e-09), complex(0.7853981133974458, 5.000000500000025e-10)},
		"asinh": {complex(45.16613851205355, 1.1071487177940904), complex(-17.328681421460043, 1.5688431446740003),
			complex(37.42994775023705, 1.5707963267948957), complex(-230.95165647996453, -1e-103),
			complex(9.999999999999999e-10, 2e-09), complex(0.8813735163088631, 7.071068165418875e-10)},
		"acosh": {complex(45.16613851205355, 1.1071487177940904), complex(17.328681421460047, 1.5727495089157928),
			complex(37.42994775023705, 1.5707963267948957), complex(230.95165647996453, -3.141592653589793),
			complex(2e-09, 1.5707963257948967), complex(2.23604008436323e-06, 0.00044721918910416603)},
		"atanh": {complex(2.1684043449710093e-20, 1.5707963267948966), complex(-1.1641843041243885e-10, 1.5707962671904792),
			complex(1.1632616864098905e-31, 1.5707963267948966), complex(-1e-100, -1.5707963267948966),
			complex(9.999999999999999e-10, 2.0000000000000005e-09), complex(8.4055963922722, 0.004999833595964148)},
	} {
		for i, want := range list {
			got := elementary.Complex[name](of[i])
			if math.Abs(real(got)-real(want)) > 1e-14*math.Abs(real(want)) ||
				math.Abs(imag(got)-imag(want)) > 1e-14*math.Abs(imag(want)) {
				t.Errorf("%s(%v) = %v, want %v", name, of[i], got, want)
			}
		}
	}
}
