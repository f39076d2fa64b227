package whole_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// TestBestPlans holds the lists of cheapest plans of small random graphs against all assignments there are, of which
// those that run the same are one plan.
func TestBestPlans(t *testing.T) {
	const most = 3000 // assignments
	graphs, merged := 0, 0
	for seed := range uint64(150) {
		g, _ := grow(seed)
		s := &asking{look: func(_ *layout.Problem, a *layout.Assignment) {
			m := a.Model
			all := 1
			for _, v := range m.WCSP.Variables {
				if all *= len(v.Labels); all > most {
					return
				}
			}
			plans := map[string]int64{}
			labels := make([]int, len(m.WCSP.Variables))
			for i := range all {
				for v := range labels {
					n := len(m.WCSP.Variables[v].Labels)
					labels[v], i = i%n, i/n
				}
				cost, err := m.WCSP.Cost(labels)
				require.NoError(t, err)
				if cost == wcsp.Forbidden {
					continue
				}
				o, err := m.Outcome(labels)
				require.NoError(t, err)
				key := fmt.Sprint(o.Nodes, o.Copies)
				if old, is := plans[key]; is {
					merged++
					cost = min(cost, old)
				}
				plans[key] = cost
			}
			costs := make([]int64, 0, len(plans))
			for _, cost := range plans {
				costs = append(costs, cost)
			}
			slices.Sort(costs)
			list, err := m.Best(12)
			require.NoError(t, err)
			seen := map[string]bool{}
			for i, o := range list {
				key := fmt.Sprint(o.Nodes, o.Copies)
				require.False(t, seen[key], "seed %d: plan %d is there twice", seed, i)
				seen[key] = true
				require.Equal(t, costs[i], o.PS, "seed %d, plan %d", seed, i)
			}
			require.Len(t, list, min(12, len(costs)), "seed %d", seed)
			graphs++
		}}
		_, err := passes.Run(g, passes.Options{Strategy: s})
		require.NoError(t, err, "seed %d", seed)
	}
	require.Greater(t, graphs, 20)
	require.Greater(t, merged, 100)
}
