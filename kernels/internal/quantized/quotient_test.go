package quantized_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/kernels/internal/quantized"
	"github.com/graphrun/graphrun/tensor"
)

// TestQuotient compares the bits of quotients by the reciprocal with divisions, also near the middle between two
// quantized values.
func TestQuotient(t *testing.T) {
	f, err := expr.Parse(quantized.QuotientText+"; v", "x", "reciprocal", "scale")
	require.NoError(t, err)
	const d = tensor.Float32
	c, err := f.Code([]tensor.DType{d, d, d}, expr.Typing{})
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(2026, 11))
	number := func(x float32) expr.Number { return expr.Number{Re: uint64(math.Float32bits(x))} }
	for i := range 300_000 {
		scale := math.Float32frombits(r.Uint32N(1<<23) | uint32(100+r.IntN(50))<<23)
		x := math.Float32frombits(r.Uint32N(1<<23)|uint32(100+r.IntN(50))<<23) * float32(1-2*r.IntN(2))
		if i%2 == 0 { // near the middle between two quantized values
			x = float32((float64(r.IntN(512)) - 255.5) * float64(scale))
			x = math.Float32frombits(math.Float32bits(x) + uint32(r.IntN(5)) - 2)
		}
		got := c.Eval(number(x), number(1/scale), number(scale))[0]
		require.Equal(t, number(x/scale), got, "%g / %g", x, scale)
	}
}
