package pointwise

import (
	"math"
	"testing"

	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// TestLargeExponentials holds definitions up to where results are infinite: e^x is twice what it is a log(2) before.
func TestLargeExponentials(t *testing.T) {
	for name, f := range map[string]func(float64) float64{"exp": kit.Exp, "sinh": sinh, "cosh": cosh} {
		for _, x := range []float64{700, 709.01, 709.45, 709.78} {
			if got, want := f(x), 2*f(x-math.Ln2); !(math.Abs(got/want-1) < 1e-12) {
				t.Errorf("%s of %v is %v, want %v", name, x, got, want)
			}
		}
		if got := f(711); !math.IsInf(got, 1) {
			t.Errorf("%s of 711 is %v", name, got)
		}
		if !math.IsNaN(f(math.NaN())) || !math.IsInf(f(math.Inf(1)), 1) {
			t.Errorf("%s of NaN and infinity is %v and %v", name, f(math.NaN()), f(math.Inf(1)))
		}
	}
	if sinh(-710) != -sinh(710) || cosh(-710) != cosh(710) {
		t.Error("sinh is not odd, or cosh not even")
	}
}
