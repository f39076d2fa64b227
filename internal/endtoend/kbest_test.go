package endtoend_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// TestBestPlans compares the lists of cheapest plans of small random graphs with an enumeration of all assignments.
// Assignments with the same steps are one plan.
func TestBestPlans(t *testing.T) {
	testsize.Long(t)
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
			list, _, err := m.Best(12)
			require.NoError(t, err)
			seen := map[string]bool{}
			for i, o := range list {
				key := fmt.Sprint(o.Nodes, o.Copies)
				require.False(t, seen[key], "seed %d: plan %d is there twice", seed, i)
				seen[key] = true
				require.Equal(t, costs[i], o.CostPS, "seed %d, plan %d", seed, i)
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

// A copy after a view, or after a copy that changes nothing, equals a copy before it. Only the plan with the copy
// before it is listed.
func TestBestPlansCopyBeforeViews(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	image := func(name string) *graph.Value {
		m, err := tensor.NewFormat(f32, []int{2, 8, 16, 16}, tensor.ChannelsLast)
		require.NoError(t, err)
		return g.InputMeta(name, m)
	}
	tidy := op.Contiguous(op.Relu(image("x")).Named("relu"), op.ContiguousAttrs{MemoryFormat: tensor.ChannelsLast})
	turned := op.Permute(tidy.Named("tidy"), []int{0, 2, 3, 1}).Named("turned")
	g.Output("y", op.Softmax(turned, 3))
	require.NoError(t, g.Infer())
	copied := 0
	s := &asking{look: func(_ *layout.Problem, a *layout.Assignment) {
		list, _, err := a.Model.Best(12)
		require.NoError(t, err)
		for i, o := range list {
			for _, c := range o.Copies {
				copied++
				require.NotContains(t, []string{"tidy", "turned"}, c.Value, "plan %d: %v", i, o.ChangesSince(list[0]))
			}
		}
	}}
	_, err := passes.Run(g, passes.Options{Strategy: s})
	require.NoError(t, err)
	require.Positive(t, copied)
}
