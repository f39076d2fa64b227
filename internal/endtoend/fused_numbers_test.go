package endtoend

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// TestFusedNumbers fuses ops that have a plain number as an operand. The number is part of the loop.
func TestFusedNumbers(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		op   string
		args func(x, mask *graph.Value) []any
		want []float32
	}{
		{"where", func(x, m *graph.Value) []any { return []any{m, -inf, x} }, []float32{float32(-inf), 4, float32(-inf), 8}},
		{"where", func(x, m *graph.Value) []any { return []any{m, x, 0.5} }, []float32{2, 0.5, 6, 0.5}},
		{"masked_fill", func(x, m *graph.Value) []any { return []any{x, m, 7} }, []float32{7, 4, 7, 8}},
		{"clamp", func(x, _ *graph.Value) []any { return []any{x, 3, 7} }, []float32{3, 4, 6, 7}},
		{"pow", func(x, _ *graph.Value) []any { return []any{x, 2} }, []float32{4, 16, 36, 64}},
		{"maximum", func(x, _ *graph.Value) []any { return []any{x, x} }, []float32{2, 4, 6, 8}},
	} {
		g := graphrun.New("g")
		x := g.Input("x", tensor.Float32, 4)
		m := g.Input("mask", tensor.Bool, 4)
		doubled := g.Apply("add", nil, x, x)[0]
		y := g.Apply(c.op, nil, c.args(doubled, m)...)[0]
		g.Output("y", g.Apply("neg", nil, y)[0])
		out, err := graphrun.Run(context.Background(), g, map[string]*tensor.Tensor{
			"x":    tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 4}, 4)),
			"mask": tensor.Must(tensor.FromSlice([]bool{true, false, true, false}, 4))})
		require.NoError(t, err, c.op)
		for i, want := range c.want {
			assert.EqualValues(t, -want, out["y"].At(i).Float(), "%s: element %d", c.op, i)
		}
	}
}
