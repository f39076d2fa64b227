package endtoend_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// TestCertificates certifies the plans of random graphs, and applies the solutions of the certificates.
func TestCertificates(t *testing.T) {
	testsize.Long(t)
	copies := 0
	for seed := range uint64(60) {
		g, _ := grow(seed)
		p, err := graphrun.Compile(ctx, g, graphrun.Options{Strategy: graphrun.Optimal, MemoryLimit: -1})
		require.NoError(t, err, "seed %d", seed)
		c, err := experiment.Certify(p)
		require.NoError(t, err, "seed %d", seed)
		var text bytes.Buffer
		require.NoError(t, c.Write(&text))
		read, err := experiment.ReadCertificate(&text)
		require.NoError(t, err, "seed %d", seed)
		again, _ := grow(seed)
		v, err := experiment.Verify(ctx, again, read)
		require.NoError(t, err, "seed %d", seed)
		r := p.Report()
		require.True(t, v.Optimal && r.Optimal, "seed %d", seed)
		require.InDelta(t, v.CostNS, r.CostNS+r.SavedNS, 1e-9*v.CostNS, "seed %d: certificates are of layouts", seed)

		given, err := graphrun.Compile(ctx, g, graphrun.Options{Strategy: layout.Given(read.Solution), MemoryLimit: -1})
		require.NoError(t, err, "seed %d", seed)
		other := given.Report()
		require.Equal(t, r.Copies, other.Copies, "seed %d", seed)
		require.Equal(t, r.Steps, other.Steps, "seed %d", seed)
		require.True(t, other.Optimal, "seed %d: the proof came with the labels", seed)
		copies += len(r.Copies)

		bare := &wcsp.Solution{Labels: read.Solution.Labels}
		given, err = graphrun.Compile(ctx, g, graphrun.Options{Strategy: layout.Given(bare), MemoryLimit: -1})
		require.NoError(t, err, "seed %d", seed)
		require.Nil(t, given.Report().LowerBoundNS, "seed %d: nothing was proved", seed)
	}
	require.Greater(t, copies, 20)
}

// asking is strategy optimal, and calls look with its problems and assignments.
type asking struct {
	graphs int
	look   func(p *layout.Problem, a *layout.Assignment)
}

func (*asking) Name() string { return "asking" }

func (s *asking) Choose(p *layout.Problem) (*layout.Assignment, error) {
	a, err := layout.Optimal.Choose(p)
	if err == nil {
		s.graphs++
		s.look(p, a)
	}
	return a, err
}

// TestOutcomes checks the outcomes of labels on random graphs: their costs, that lists of plans start with the cheapest
// one, are sorted and have no duplicates, and the signs of advice and of breakpoints.
func TestOutcomes(t *testing.T) {
	testsize.Long(t)
	plans, breaks, hints := 0, 0, 0
	for seed := range uint64(60) {
		g, _ := grow(seed)
		s := &asking{look: func(p *layout.Problem, a *layout.Assignment) {
			m, best := a.Model, a.Solution
			o, err := m.Outcome(best.Labels)
			require.NoError(t, err, "seed %d", seed)
			require.Equal(t, best.Cost, o.CostPS, "seed %d", seed)
			list, _, err := m.Best(6)
			require.NoError(t, err, "seed %d", seed)
			require.Equal(t, o.CostPS, list[0].CostPS, "seed %d", seed)
			for i := 1; i < len(list); i++ {
				require.LessOrEqual(t, list[i-1].CostPS, list[i].CostPS, "seed %d", seed)
				for _, other := range list[:i] {
					require.NotEmpty(t, list[i].ChangesSince(other).String(), "seed %d, plan %d", seed, i)
				}
			}
			plans += len(list)
			advice, err := layout.Advise(p)
			require.NoError(t, err, "seed %d", seed)
			hints += len(advice.Hints)
			for _, h := range advice.Hints {
				require.Positive(t, h.SavedNS, "seed %d", seed)
				require.LessOrEqual(t, h.SavedNS*1000, float64(o.CostPS), "seed %d", seed)
			}
			sens, err := m.Sensitive()
			require.NoError(t, err, "seed %d", seed)
			for _, b := range []*layout.Breakpoint{sens.Slower, sens.Faster} {
				if b != nil {
					breaks++
					require.NotEmpty(t, b.Change.String(), "seed %d", seed)
				}
			}
			if sens.Slower != nil {
				require.GreaterOrEqual(t, sens.Slower.Factor, 1.0, "seed %d", seed)
			}
			if sens.Faster != nil {
				require.LessOrEqual(t, sens.Faster.Factor, 1.0, "seed %d", seed)
			}
		}}
		_, err := passes.Run(g, passes.Options{Strategy: s})
		require.NoError(t, err, "seed %d", seed)
		require.Equal(t, 1, s.graphs)
	}
	require.Greater(t, plans, 200)
	least := 20
	if !loops.CodeAvailable() { // the prices then are others, at which fewer decisions flip
		least = 10
	}
	require.Greater(t, breaks, least)
	require.Greater(t, hints, 5)
}
