package endtoend_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// TestLiveBytes compares the lower bound on the memory of values with the memory of programs, for several strategies
// and random graphs.
func TestLiveBytes(t *testing.T) {
	testsize.Long(t)
	exact, all := 0, 0
	for seed := range uint64(101) {
		g, _ := grow(seed)
		if seed == 100 {
			g = nestedConcatenations(t)
		}
		least := int64(0)
		s := &asking{look: func(_ *layout.Problem, a *layout.Assignment) { least = a.Model.LiveBytes() }}
		_, err := passes.Run(g, passes.Options{Strategy: s})
		require.NoError(t, err)
		for _, strategy := range []layout.Strategy{layout.Optimal, layout.Propagate, layout.ChannelsLast, layout.Favourite} {
			plan, err := passes.Run(g, passes.Options{Strategy: strategy})
			require.NoError(t, err)
			p, err := exec.Compile(plan.Graph, exec.Options{Threads: 1})
			require.NoError(t, err)
			need := int64(p.Need().Arena + p.Need().Outputs)
			require.LessOrEqual(t, least, need, "seed %d, strategy %s", seed, strategy.Name())
			if all++; least > need/2 {
				exact++
			}
		}
	}
	t.Logf("%d programs; the bound is at least half of the memory for %d", all, exact)
	require.Greater(t, exact, all/8)
}

// nestedConcatenations returns a graph in which the result of a concatenation of two values can be a slice of the
// result of a concatenation of three.
func nestedConcatenations(t *testing.T) *graph.Graph {
	t.Helper()
	g := graph.New("nested", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 1, 16, 32, 32)
	weight := func(out, in, size int) *graph.Value {
		return g.Constant(fmt.Sprint("w", len(g.Constants)), tensor.Zeros(tensor.Float32, out, in, size, size))
	}
	var parts []*graph.Value
	for range 3 {
		parts = append(parts, op.Conv2d(x, weight(16, 16, 3), nil, op.Conv2dAttrs{Padding: []int{1, 1}}))
	}
	two := op.Cat(parts[:2], op.CatAttrs{Dim: 1})
	three := op.Cat(parts, op.CatAttrs{Dim: 1})
	g.Output("y", op.Conv2d(three, weight(4, 48, 1), nil))
	g.Output("z", op.Conv2d(two, weight(4, 32, 1), nil))
	require.NoError(t, g.Err())
	return g
}
