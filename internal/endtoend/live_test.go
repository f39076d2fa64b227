package endtoend_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
)

// TestLiveBytes compares the lower bound on the memory of values with the memory of programs, for several strategies
// and random graphs.
func TestLiveBytes(t *testing.T) {
	exact, all := 0, 0
	for seed := range uint64(100) {
		g, _ := grow(seed)
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
