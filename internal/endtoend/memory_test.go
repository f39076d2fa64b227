package endtoend_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// TestCheapestWithin compares the plan and the bound with a list of plans. The graphs have no constants, so that the
// limit excludes no plan; instead the plans with a certain number of copies are rejected.
func TestCheapestWithin(t *testing.T) {
	testsize.Long(t)
	found := 0
	for seed := range uint64(60) {
		g, _ := grow(seed)
		s := &asking{look: func(_ *layout.Problem, a *layout.Assignment) {
			m := a.Model
			list, _, err := m.Best(8)
			require.NoError(t, err)
			for copies := range 4 {
				within := func(o *layout.Outcome) bool { return o.Inserted != copies }
				w, err := m.CheapestWithin(t.Context(), 1<<40, wcsp.Forbidden,
					func(o *layout.Outcome) (int64, error) {
						if within(o) {
							return 0, nil
						}
						return 1 << 41, nil
					})
				require.NoError(t, err)
				require.True(t, w.Best == nil || within(w.Best) && w.Best.CostPS >= w.BoundPS, "seed %d", seed)
				for _, o := range list {
					if within(o) {
						found++
						require.LessOrEqual(t, w.BoundPS, o.CostPS, "seed %d", seed)
						require.NotNil(t, w.Best, "seed %d", seed)
						require.Equal(t, o.CostPS, w.Best.CostPS, "seed %d", seed)
						break
					}
				}
			}
		}}
		_, err := passes.Run(g, passes.Options{Strategy: s})
		require.NoError(t, err, "seed %d", seed)
	}
	require.Greater(t, found, 100)
}
