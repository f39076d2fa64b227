package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// TestCallsResultsAreOverwritten: a call's results are those of the last list, of whichever length, and nothing of
// one before stays in them.
func TestCallsResultsAreOverwritten(t *testing.T) {
	var c graph.Call
	a, b := tensor.New(tensor.Float32, 2).Type(), tensor.New(tensor.Int64, 3).Type()
	res := c.NewResults(a, b)
	res[0].Dynamic, res[0].Sizes = true, []int{1}
	require.Equal(t, []graph.Result{{Type: b, Alias: 4}}, c.AliasResults(4, b))
	const fresh = graph.NoAlias
	want := []graph.Result{{Type: b, Alias: fresh}, {Type: a, Alias: fresh}, {Type: b, Alias: fresh}}
	require.Equal(t, want, c.NewResults(b, a, b))
	require.Empty(t, c.NewResults())
	c.AliasResult(a, 1)[0].Dynamic = true
	require.Equal(t, []graph.Result{{Type: b, Alias: graph.NoAlias}}, c.NewResult(b))
}
