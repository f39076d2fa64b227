package graphrun

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// second is a solver that stops at the second best, as one may whose time is up, and keeps the limit that it was given.
type second struct{ limit time.Duration }

func (s *second) Solve(p *wcsp.Problem, o wcsp.Options) (*wcsp.Solution, error) {
	s.limit = o.TimeLimit
	list, err := wcsp.KBest(p, 2, wcsp.Options{TimeLimit: -1}, nil)
	if err != nil {
		return nil, err
	}
	return &wcsp.Solution{Version: wcsp.Version, Labels: list[len(list)-1].Labels}, nil
}

// The limit reaches the solver, whatever its sign stands for.
func TestSolveLimit(t *testing.T) {
	for _, c := range []struct{ option, solver time.Duration }{
		{0, layout.SolveLimit}, {-1, 0}, {3 * time.Second, 3 * time.Second},
	} {
		s := &second{limit: -7}
		_, err := Compile(residualNet(8, 8), Options{Strategy: layout.Solved("second", s), SolveLimit: c.option})
		require.NoError(t, err)
		require.Equal(t, c.solver, s.limit, "%v", c.option)
	}
	p, err := Compile(residualNet(8, 8), Options{SolveLimit: -1})
	require.NoError(t, err)
	r := p.Report()
	require.NotNil(t, r.LowerBoundNS, "what elimination settles needs no time")
	require.InDelta(t, *r.LowerBoundNS, r.CostNS+r.SavedNS, 1e-6**r.LowerBoundNS)
}

// The certificate of a plan that is not the cheapest has the bound that is proved, and holds as what it is.
func TestCertificateOfAGap(t *testing.T) {
	g := residualNet(8, 8)
	p, err := Compile(g, Options{Strategy: layout.Solved("second", &second{}), SolveLimit: -1})
	require.NoError(t, err)
	c, err := p.Certificate()
	require.NoError(t, err)
	require.Greater(t, c.Solution.Cost, c.Solution.Bound)
	v, err := Verify(g, c)
	require.NoError(t, err)
	require.False(t, v.Optimal)
	require.Greater(t, v.CostNS, v.BoundNS)
	require.Positive(t, v.BoundNS)
	c.Solution.Bound = c.Solution.Cost // a gap that is not told
	_, err = Verify(g, c)
	require.Error(t, err)
}
