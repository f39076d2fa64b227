package endtoend_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// TestViewsOfCopiesAreNotInputs checks that an output which is a view of a copy does not share the storage of an input.
func TestViewsOfCopiesAreNotInputs(t *testing.T) {
	for _, strategy := range graphrun.Strategies() {
		for _, twice := range []bool{false, true} {
			g := graphrun.New("g")
			x := op.Clone(g.Input("x", tensor.Float32, 3, 2))
			if twice {
				x = op.Clone(x)
			}
			g.Output("y", op.Permute(x, []int{1, 0}))
			p, err := graphrun.Compile(ctx, g, graphrun.Options{Strategy: strategy})
			require.NoError(t, err)
			in := tensor.Zeros(tensor.Float32, 3, 2)
			out, err := p.Run(t.Context(), map[string]*tensor.Tensor{"x": in})
			require.NoError(t, err)
			require.NotSame(t, in.Storage(), out["y"].Storage(), "strategy %v, two copies: %v", strategy, twice)
			require.Equal(t, []int{1, 2}, out["y"].Strides)
		}
	}
}
