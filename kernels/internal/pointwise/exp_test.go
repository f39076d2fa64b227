package pointwise_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// referenceFunc returns the reference of an op as a function of a float64.
func referenceFunc(t *testing.T, name string) func(float64) float64 {
	op, x := kernels.Lookup(name), tensor.Empty(tensor.New(tensor.Float64, 1))
	c, err := kerneltest.CallOf(op, nil, []tensor.Meta{x.Meta})
	require.NoError(t, err)
	_, err = kerneltest.Infer(op, c)
	require.NoError(t, err)
	return func(v float64) float64 {
		x.SetFlat(0, tensor.FloatScalar(v))
		out, err := op.Ref(c, []*tensor.Tensor{x})
		require.NoError(t, err)
		return out[0].At(0).Float()
	}
}

// TestLargeExponentials checks references up to the overflow threshold: exp(x) is twice exp(x - log(2)).
func TestLargeExponentials(t *testing.T) {
	for _, name := range []string{"exp", "sinh", "cosh"} {
		f := referenceFunc(t, name)
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
	sinh, cosh := referenceFunc(t, "sinh"), referenceFunc(t, "cosh")
	if sinh(-710) != -sinh(710) || cosh(-710) != cosh(710) {
		t.Error("sinh is not odd, or cosh not even")
	}
}
