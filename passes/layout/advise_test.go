package layout

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// TestAdvise holds a hint against the plan of a graph whose input comes as the hint says.
func TestAdvise(t *testing.T) {
	g := func(f tensor.MemoryFormat) *Problem {
		g := graph.New("", kernels.Lookup)
		x := g.InputFormat("x", tensor.Float32, f, 2, 32, 40, 40)
		w := g.Input("w", tensor.Float32, 32, 32, 3, 3)
		y := g.Apply("conv2d", graph.Attrs{"padding": 1}, x, w)[0].Named("y")
		g.OutputFormat("y", y, tensor.ChannelsLast)
		require.NoError(t, g.Err())
		require.NoError(t, g.Pin("y", graph.Pin{Impl: "nhwc"})) // others read images as they come
		return NewProblem(g, nil)
	}
	cost := func(p *Problem) float64 {
		a, err := Optimal.Choose(p)
		require.NoError(t, err)
		return float64(a.Solution.Cost) / 1000
	}
	a, err := Advise(g(tensor.Contiguous))
	require.NoError(t, err)
	require.Equal(t, a.Possible, a.Tried)
	i := -1
	for k, h := range a.Hints {
		if h.Input && h.Name == "x" && h.Order == "channels_last" {
			i = k
		}
	}
	require.GreaterOrEqual(t, i, 0, "%+v", a.Hints)
	h := a.Hints[i]
	was, is := cost(g(tensor.Contiguous)), cost(g(tensor.ChannelsLast))
	require.InDelta(t, was-is, h.SavedNS, 1e-6)
	require.InDelta(t, (was-is)/was, h.Part, 1e-9)
	require.Len(t, h.Change.Gone, 1)
	require.Equal(t, "x", h.Change.Gone[0].Value)

	a, err = Advise(g(tensor.ChannelsLast))
	require.NoError(t, err)
	for _, h := range a.Hints {
		require.NotEqual(t, "x", h.Name, "it comes as it is best")
	}
}
