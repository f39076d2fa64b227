package compile_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/gpu/conform"
	"github.com/graphrun/graphrun/internal/gpu/lower"
	"github.com/graphrun/graphrun/kernels"
)

// TestCatalogue interprets the programs of all examples of the catalogue, and compares the results with the references.
func TestCatalogue(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var n conform.Counts
	for _, op := range kernels.All() {
		for _, c := range conform.Examples(op, rng) {
			require.NoError(t, n.Check(c, lower.IEEE, conform.Interpret))
		}
	}
	t.Log(n.String())
	require.Zero(t, n.Differ, n.First)
	require.Greater(t, n.Equal, 100)
}

// TestShapes interprets programs of calls with other shapes and layouts than the examples: rows that are short, long or
// cut, that are not contiguous, and whose lengths do not fit vectors.
func TestShapes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var n conform.Counts
	for _, c := range conform.Shapes() {
		call, err := conform.NewCall(kernels.Lookup(c.Op), c.Attrs, c.In, rng)
		require.NoError(t, err, c.Op)
		require.NoError(t, n.Check(call, lower.IEEE, conform.Interpret))
		require.Zero(t, n.Differ, n.First)
	}
	t.Log(n.String())
	require.Zero(t, n.None)
}
