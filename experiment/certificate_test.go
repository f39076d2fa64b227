package experiment

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/graphtest/networks"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// second is a solver that stops at the second best, as one may whose time is up, and keeps the limit that it was given.
type second struct{ limit time.Duration }

func (s *second) Solve(p *wcsp.Problem, o wcsp.Options) (*wcsp.Solution, error) {
	s.limit = o.TimeLimit
	list, _, err := wcsp.KBest(p, 2, wcsp.Options{TimeLimit: -1}, nil)
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
		_, err := graphrun.Compile(t.Context(), networks.Bottlenecks(8, 8), graphrun.Options{Strategy: layout.Solved("second", s),
			SolveLimit: c.option})
		require.NoError(t, err)
		require.Equal(t, c.solver, s.limit, "%v", c.option)
	}
	p, err := graphrun.Compile(t.Context(), networks.Bottlenecks(8, 8), graphrun.Options{SolveLimit: -1})
	require.NoError(t, err)
	r := p.Report()
	require.NotNil(t, r.LowerBoundNS, "what elimination settles needs no time")
	require.InDelta(t, *r.LowerBoundNS, r.CostNS+r.SavedNS, 1e-6**r.LowerBoundNS)
}

// The certificate of a plan that is not the cheapest has the bound that is proved, and holds as what it is.
func TestCertificateOfAGap(t *testing.T) {
	g := networks.Bottlenecks(8, 8)
	p, err := graphrun.Compile(t.Context(), g, graphrun.Options{Strategy: layout.Solved("second", &second{}), SolveLimit: -1})
	require.NoError(t, err)
	c, err := Certify(p)
	require.NoError(t, err)
	require.Greater(t, c.Solution.Cost, c.Solution.Bound)
	v, err := Verify(t.Context(), g, c)
	require.NoError(t, err)
	require.False(t, v.Optimal)
	require.Greater(t, v.CostNS, v.BoundNS)
	require.Positive(t, v.BoundNS)
	c.Solution.Bound = c.Solution.Cost // a gap that is not told
	_, err = Verify(t.Context(), g, c)
	require.Error(t, err)
}

// The digest of a certificate is that of the graph as it was compiled, although the program has dropped weights whose
// packed form it keeps.
func TestDigestOfPackedWeights(t *testing.T) {
	g := graph.New("packed", kernels.Lookup)
	w := tensor.Zeros(tensor.Float32, 64, 32, 3, 3)
	for i := range w.Numel() {
		w.SetFlat(i, tensor.IntScalar(int64(i%13)))
	}
	x := g.Input("x", tensor.Float32, 1, 32, 14, 14)
	g.Output("y", op.Conv2d(x, g.Constant("w", w), nil, op.Conv2dAttrs{Padding: []int{1, 1}}))
	require.NoError(t, graphrun.Infer(t.Context(), g))
	want, err := digestOf(t.Context(), g)
	require.NoError(t, err)
	p, err := graphrun.Compile(t.Context(), g, graphrun.Options{})
	require.NoError(t, err)
	require.NotEmpty(t, p.Report().Packed)
	c, err := Certify(p)
	require.NoError(t, err)
	require.Equal(t, want, c.Graph.Digest)
	_, err = Verify(t.Context(), g, c)
	require.NoError(t, err)
}
