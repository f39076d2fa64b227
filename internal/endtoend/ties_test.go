package endtoend_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// slacks are the slacks of the tests, without any to enough for every plan.
var slacks = []float64{0, 0.005, 0.05, 0.5, 1}

// enumerated calls f with the outcome of every feasible assignment of a model. It returns false if there are too many.
func enumerated(t *testing.T, m *layout.Model, f func(*layout.Outcome)) bool {
	const most = 3000 // assignments
	all := 1
	for _, v := range m.WCSP.Variables {
		if all *= len(v.Labels); all > most {
			return false
		}
	}
	labels := make([]int, len(m.WCSP.Variables))
	for i := range all {
		for v := range labels {
			n := len(m.WCSP.Variables[v].Labels)
			labels[v], i = i%n, i/n
		}
		if cost, err := m.WCSP.Cost(labels); err != nil || cost == wcsp.Forbidden {
			continue
		}
		o, err := m.Outcome(labels)
		require.NoError(t, err)
		f(o)
	}
	return true
}

// TestFewestCopies compares the plan of strategy Optimal with all plans of small random graphs. No cheapest plan has
// fewer copies, or as many copies with fewer bytes. If it is proved, no plan within a slack has fewer copies.
func TestFewestCopies(t *testing.T) {
	testsize.Long(t)
	graphs, fewer, proved, open := 0, 0, 0, 0
	count := testsize.Of[uint64](100, 400)
	for seed := range count {
		g, rng := optimumGraph(seed)
		s := &asking{look: func(p *layout.Problem, a *layout.Assignment) {
			m, err := layout.NewModel(p)
			require.NoError(t, err)
			type plan struct {
				ps, units int64
				copies    int
			}
			var plans []plan
			w := m.Weights
			if !enumerated(t, m, func(o *layout.Outcome) {
				x := plan{ps: o.CostPS, copies: o.Inserted}
				for _, c := range o.Copies {
					x.units += w.UnitsOf(c.Bytes)
				}
				plans = append(plans, x)
			}) {
				return
			}
			graphs++
			least := -1
			for _, slack := range slacks {
				p.Slack = slack
				a, err := layout.Optimal.Choose(p)
				require.NoError(t, err)
				c := a.Preference
				require.Equal(t, a.Solution.Cost, c.CostPS)
				require.LessOrEqual(t, c.CostPS, c.BudgetPS)
				require.LessOrEqual(t, c.FewestCopies, c.Copies)
				o, err := a.Model.Outcome(a.Solution.Labels)
				require.NoError(t, err)
				require.Equal(t, []any{c.CostPS, c.Copies}, []any{o.CostPS, o.Inserted}, "seed %d, slack %g", seed, slack)
				for _, x := range plans {
					require.GreaterOrEqual(t, x.ps, c.LeastPS, "seed %d", seed)
					if x.ps > c.BudgetPS {
						continue
					}
					require.GreaterOrEqual(t, x.copies, c.FewestCopies, "seed %d, slack %g", seed, slack)
					if slack == 0 && x.copies == c.Copies {
						require.GreaterOrEqual(t, x.units, c.Units, "seed %d", seed)
					}
				}
				if slack == 0 {
					require.True(t, c.Fewest(), "seed %d: ties are decided", seed)
					least = c.Copies
				}
				require.LessOrEqual(t, c.Copies, least, "seed %d, slack %g", seed, slack)
				if c.Copies < least {
					fewer++
				}
				if slack > 0 && c.Fewest() {
					proved++
				} else if slack > 0 {
					open++
				}
			}
		}}
		_, err := passes.Run(g, passes.Options{Strategy: s, Profile: randomProfile(rng)})
		var refused *graph.Error
		if err != nil {
			require.ErrorAs(t, err, &refused, "seed %d", seed)
		}
	}
	t.Logf("%d graphs, %d with fewer copies, %d proved, %d not", graphs, fewer, proved, open)
	require.Greater(t, graphs, int(count/8))
	require.Greater(t, fewer, int(count/40))
	require.Greater(t, proved, 20*open)
}

// TestCertificatesOfFewestCopies certifies plans with a slack, and checks that changed certificates are rejected.
func TestCertificatesOfFewestCopies(t *testing.T) {
	testsize.Long(t)
	fewer := 0
	for seed := range testsize.Of[uint64](20, 40) {
		copies := -1
		for _, slack := range []float64{0, 0.02, 0.5} {
			g, _ := grow(seed)
			p, err := graphrun.Compile(ctx, g, graphrun.Options{Slack: slack, MemoryLimit: -1})
			require.NoError(t, err, "seed %d", seed)
			c, err := experiment.Certify(p)
			require.NoError(t, err, "seed %d", seed)
			var text bytes.Buffer
			require.NoError(t, c.Write(&text))
			read, err := experiment.ReadCertificate(&text)
			require.NoError(t, err, "seed %d", seed)
			v, err := experiment.Verify(ctx, g, read)
			require.NoError(t, err, "seed %d, slack %g", seed, slack)
			r := p.Report()
			require.InDelta(t, v.CostNS, r.CostNS+r.SavedNS, 1e-9*v.CostNS, "seed %d", seed)
			f := r.FewestCopies
			require.Equal(t, []any{f.Slack, f.Copies, f.AtLeast, f.Proved},
				[]any{v.Copies.Slack, v.Copies.Copies, v.Copies.AtLeast, v.Copies.Fewest}, "seed %d, slack %g", seed, slack)
			if slack == 0 {
				copies = v.Copies.Copies
				require.True(t, v.Copies.LeastMemory, "seed %d", seed)
			} else if v.Copies.Copies < copies {
				fewer++
			}
			for name, alter := range map[string]func(c *experiment.CertifiedCopies){
				"bound":        func(c *experiment.CertifiedCopies) { c.Bound++ },
				"cost":         func(c *experiment.CertifiedCopies) { c.Cost-- },
				"weights":      func(c *experiment.CertifiedCopies) { c.Weights.Time++ },
				"range":        func(c *experiment.CertifiedCopies) { c.Weights.Copy = 1 << 62 },
				"plan_weights": func(c *experiment.CertifiedCopies) { c.PlanWeights.Time = 0 },
			} {
				other, part := *read, *read.Copies
				other.Copies = &part
				alter(&part)
				_, err = experiment.Verify(ctx, g, &other)
				require.Error(t, err, "seed %d: %s", seed, name)
			}
		}
	}
	if jit.Available() == nil { // the prices without machine code lead to few copies
		require.Positive(t, fewer)
	}
}

// A slack outside the range is an error.
func TestSlackRange(t *testing.T) {
	g, _ := grow(1)
	for _, slack := range []float64{-0.1, 1.5} {
		_, err := graphrun.Compile(ctx, g, graphrun.Options{Slack: slack})
		require.ErrorContains(t, err, fmt.Sprintf("Options.Slack: a slack of %g is out of range", slack))
	}
}
