package layout_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// Strategies are values to compare, and a name finds the very one.
func TestStrategiesCompare(t *testing.T) {
	for i, s := range layout.All() {
		named, err := layout.Named(s.Name())
		require.NoError(t, err)
		assert.True(t, s == named)
		assert.Equal(t, i == 0, s == layout.Propagate)
	}
}

// TestWishRank checks that a preferred order of another rank is an error that names the value, and the node that
// computes it.
func TestWishRank(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 2, 3)
	y := g.Apply("softmax", map[string]any{"dim": 1}, g.Apply("relu", nil, x)[0])[0]
	g.Output("y", g.Apply("abs", nil, y)[0])
	require.NoError(t, g.Err())
	for name, want := range map[string]string{
		x.Name: `the preferred order (2,1,0) of "x" has 3 dimensions, but the value has 2`,
		y.Name: `node "softmax" (softmax): the preferred order (2,1,0) of "softmax" has 3 dimensions, but the value has 2`,
	} {
		_, err := layout.Solve(layout.NewProblem(g, nil), func(v *graph.Value) (tensor.Order, string) {
			if v.Name != name {
				return "", ""
			}
			return "\x02\x01\x00", ""
		})
		assert.EqualError(t, err, want)
	}
}
