//go:build !386 && !arm

package window_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/kernels/internal/window"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// symbolicSize returns the scaled size of a symbol, and the guard under which it holds.
func symbolicSize(t *testing.T, scaled func(sym.Int, float64) sym.Int, hint int, f float64) (sym.Int, sym.Bool) {
	env := sym.NewEnv()
	n, err := env.Symbol("N", 0, math.MaxInt, hint)
	require.NoError(t, err)
	size, holds := scaled(n, f), sym.BoolOf(true)
	for _, g := range env.Guards() {
		holds = holds.And(g)
	}
	return size, holds
}

// TestScaledSizes checks that the size of a scaled symbol, where its guards hold, equals the integer part of the
// floating-point product.
func TestScaledSizes(t *testing.T) {
	checkScaledSizes(t, window.ScaledSize, func(n int, f float64) float64 { return float64(n) * f })
	checkScaledSizes(t, func(size sym.Int, f float64) sym.Int { return window.ScaledSize32(size, float64(float32(f))) },
		func(n int, f float64) float64 {
			if float32(f) == 1 {
				return float64(n)
			}
			return float64(float32(n) * float32(f))
		})
}

func checkScaledSizes(t *testing.T, scaled func(sym.Int, float64) sym.Int, product func(n int, f float64) float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	scales := []float64{0.6, 0.1, 1.0 / 49, 1.0 / 3, 224.0 / 197, float64(float32(0.6)), math.Pi, 1e-9, 1e9, 1e300, 3, 0.5}
	for range 150 {
		scales = append(scales, float64(1+rng.IntN(300))/float64(1+rng.IntN(300)), float64(rng.Float32()), rng.ExpFloat64())
	}
	free := 0
	for _, f := range scales {
		hint := 1 + rng.IntN(300)
		size, holds := symbolicSize(t, scaled, hint, f)
		at := func(n int) {
			b := sym.Binding{"N": n}
			ok, err := holds.At(b)
			require.NoError(t, err)
			require.True(t, ok || n != hint, "the guards of a scale of %v hold at the hint %d", f, hint)
			if !ok {
				return
			}
			want := product(n, f)
			if want >= tensor.MaxBytes {
				return // no value has such a size
			}
			got, err := size.At(b)
			require.NoError(t, err)
			require.Equal(t, int(want), got, "%d times %v: %v where %v", n, f, size, holds)
			free++
		}
		at(hint)
		for n := range 600 {
			at(n)
		}
		for range 100 {
			at(int(rng.ExpFloat64() * 1e6))
		}
		for n := range 20 {
			at((1 << 46) / (n + 1)) // the largest sizes
		}
	}
	assert.Greater(t, free, 600*300, "most sizes are like the hint")
}

// TestScaledSizesSaid checks that a usual scale needs no guard, and that other scales are guarded by a range of sizes.
func TestScaledSizesSaid(t *testing.T) {
	for _, c := range []struct {
		hint  int
		f     float64
		size  string
		holds string
	}{
		{7, 0.6, "3*N//5", "True"},
		{7, 1.5, "N + N//2", "True"},
		{7, 1.0 / 49, "N//49", "Le(N, 48)"},
		{60, 1.0 / 49, "N//49", "Le(50, N) & Le(N, 97)"},
		{49, 1.0 / 49, "0", "Eq(N, 49) & (Lt(97, N) | Lt(N, 50))"},
	} {
		size, holds := symbolicSize(t, window.ScaledSize, c.hint, c.f)
		assert.Equal(t, c.size, size.String())
		assert.Equal(t, c.holds, holds.String())
	}
}
