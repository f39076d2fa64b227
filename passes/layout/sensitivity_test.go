package layout

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// convolved is a row-major image through two convolutions, with a sum over rows between them.
func convolved(t *testing.T, channels int) *Model {
	t.Helper()
	g := graph.New("convolved", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 2, channels, 40, 40)
	w := g.Input("w", tensor.Float32, channels, channels, 3, 3)
	a := g.Apply("conv2d", graph.Attrs{"padding": 1}, x, w)[0]
	b := g.Apply("softmax", graph.Attrs{"dim": 3}, a)[0]
	c := g.Apply("conv2d", graph.Attrs{"padding": 1}, b, w)[0]
	g.Output("y", c)
	require.NoError(t, g.Err())
	m, err := NewModel(NewProblem(g, nil))
	require.NoError(t, err)
	return m
}

// TestSensitiveIsExact solves the problem again on both sides of each breakpoint: before it the cheapest plan is still
// the cheapest, beyond it another is.
func TestSensitiveIsExact(t *testing.T) {
	seen := 0
	for _, channels := range []int{1, 2, 3, 4, 8, 12, 16, 24, 32, 48, 64} {
		m := convolved(t, channels)
		s, err := m.Sensitive()
		require.NoError(t, err)
		cheapest, err := m.cheapestAt(1)
		require.NoError(t, err)
		at := func(factor float64) float64 {
			l, err := m.cheapestAt(factor)
			require.NoError(t, err)
			return l.cost(factor)
		}
		for _, b := range []*Breakpoint{s.Slower, s.Faster} {
			if b == nil || b.Factor == 1 {
				continue
			}
			seen++
			for _, part := range []float64{0.25, 0.5, 0.9, 0.999} {
				near := 1 + part*(b.Factor-1)
				require.InEpsilon(t, cheapest.cost(near), at(near), 1e-9, "%d channels, at %g before %g", channels, near, b.Factor)
			}
			beyond := 1 + 1.001*(b.Factor-1)
			require.Less(t, at(beyond), cheapest.cost(beyond), "%d channels, beyond %g", channels, b.Factor)
		}
	}
	require.Greater(t, seen, 3)
}

// TestSensitiveWithoutCopies has nothing to copy.
func TestSensitiveWithoutCopies(t *testing.T) {
	g := graph.New("", kernels.Lookup)
	g.Output("y", g.Apply("tanh", nil, g.Input("x", tensor.Float32, 300))[0])
	m, err := NewModel(NewProblem(g, nil))
	require.NoError(t, err)
	s, err := m.Sensitive()
	require.NoError(t, err)
	require.Equal(t, &Sensitivity{}, s)
}
