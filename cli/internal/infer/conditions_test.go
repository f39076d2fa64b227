package infer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// The condition of a flag is that of the sizes for which a value of such sizes has it, however many sizes are open.
func TestConditionsOfFlagsHoldWhereTheFlagDoes(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	dims := []graph.Dim{{Symbol: "A"}, {Symbol: "B"}, {Symbol: "C"}, {Symbol: "D"}}
	x := g.InputDims("x", tensor.Float32, tensor.NoFormat, dims...)
	y := g.Apply("permute", graph.Attrs{"dims": []any{3, 0, 1, 2}}, x)[0]
	g.Output("y", y)
	require.NoError(t, g.Err())
	s, err := g.Symbolic(nil)
	require.NoError(t, err)
	var first, d ValueDoc
	SetSymbolicType(&first, s, g.Inputs[0])
	require.Contains(t, first.Flags, "contiguous")
	SetSymbolicType(&d, s, y)
	require.NotContains(t, d.Flags, "contiguous")
	held := 0
	for i := range 3 * 3 * 3 * 3 {
		sizes := map[string]int{"A": i % 3, "B": i / 3 % 3, "C": i / 9 % 3, "D": i / 27}
		at := s.Binding(sizes)
		cond, err := sym.ParseBool(d.Conditions["contiguous"], func(name string) (sym.Int, bool) {
			n, ok := at[name]
			return sym.Of(n), ok
		})
		require.NoError(t, err)
		holds, known := cond.Known()
		require.True(t, known)
		require.NoError(t, g.Bind(sizes))
		require.Equal(t, y.Meta.IsContiguous(), holds, "%v", sizes)
		if holds {
			held++
		}
	}
	require.NotContains(t, []int{0, 81}, held)
}

// A permuted value has no holes whatever its sizes are, which the formula alone does not show.
func TestFlagsThatHoldForAllSizes(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.InputDims("x", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "A"}, graph.Dim{Symbol: "B"})
	y := g.Apply("permute", graph.Attrs{"dims": []any{1, 0}}, x)[0]
	g.Output("y", y)
	require.NoError(t, g.Err())
	s, err := g.Symbolic(nil)
	require.NoError(t, err)
	var d ValueDoc
	SetSymbolicType(&d, s, y)
	require.Equal(t, []string{"non_overlapping_and_dense"}, d.Flags)
	require.Contains(t, d.Conditions, "contiguous")
}
