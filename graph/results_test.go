package graph

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/tensor"
)

// TestCallsResultsAreOverwritten: a call's results are those of the last list, of whichever length, and nothing of
// one before stays in them.
func TestCallsResultsAreOverwritten(t *testing.T) {
	var c Call
	a, b := tensor.New(tensor.Float32, 2).Type(), tensor.New(tensor.Int64, 3).Type()
	res := c.All(a, b)
	res[0].Dynamic, res[0].Sizes = true, []int{1}
	require.Equal(t, []Result{{Type: b, Alias: 4}}, c.AllShared(4, b))
	require.Equal(t, []Result{{Type: b, Alias: Fresh}, {Type: a, Alias: Fresh}, {Type: b, Alias: Fresh}}, c.All(b, a, b))
	require.Empty(t, c.All())
	c.Shared(a, 1)[0].Dynamic = true
	require.Equal(t, []Result{{Type: b, Alias: Fresh}}, c.One(b))
}
