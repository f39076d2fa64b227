package expr_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// Exponentials below the bound are 0, others and NaN what they were.
func TestFlushExp(t *testing.T) {
	code := func(d tensor.DType) *expr.Code {
		b := expr.NewBuilder(d)
		c, err := b.Build(b.Real(b.Do(expr.Exp, b.Load(0))))
		require.NoError(t, err)
		return c
	}
	c := code(tensor.Float32)
	flushed, ok := c.FlushExp(-60)
	require.True(t, ok)
	eval := func(c *expr.Code, x float32) float64 {
		y := c.Eval(expr.Number{Re: uint64(math.Float32bits(x))})[0]
		return float64(math.Float32frombits(uint32(y.Re)))
	}
	for _, x := range []float32{0, 1, -59.5, -60, 88, float32(math.Inf(1))} {
		assert.Equal(t, eval(c, x), eval(flushed, x), "e^%v", x)
		assert.NotZero(t, eval(flushed, x), "e^%v", x)
	}
	for _, x := range []float32{-60.1, -100, -1e9, float32(math.Inf(-1))} {
		assert.Zero(t, eval(flushed, x), "e^%v", x)
	}
	assert.True(t, math.IsNaN(eval(flushed, float32(math.NaN()))))
	same, ok := code(tensor.Float64).FlushExp(-60)
	assert.False(t, ok)
	assert.Equal(t, code(tensor.Float64).Key(), same.Key())
}
