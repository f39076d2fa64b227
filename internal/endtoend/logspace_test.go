package endtoend_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/tensor"
)

// TestLogspaceOfOneStep checks that a program for several sizes rounds the power, not the exponent, if an integer
// logspace has one element.
func TestLogspaceOfOneStep(t *testing.T) {
	const text = `{"version": 1, "name": "g", "symbols": {"N": {"hint": HINT}},
		"inputs": [{"name": "x", "dtype": "int64", "shape": ["N"]}],
		"nodes": [{"name": "powers", "op": "logspace", "inputs": [],
			"attrs": {"start": 0.5, "end": 2.5, "steps": "N", "dtype": "int64"}},
			{"name": "y", "op": "add", "inputs": ["x", "powers"]}],
		"outputs": ["y"]}`
	for _, hint := range []string{"1", "2", "5"} {
		g, err := graphrun.Loader{}.Read(ctx, strings.NewReader(strings.ReplaceAll(text, "HINT", hint)), "g.json")
		require.NoError(t, err)
		p, err := graphrun.Compile(ctx, g, graphrun.Options{})
		require.NoError(t, err)
		for _, n := range []int{5, 1, 2, 0, 1} {
			out, err := p.Run(t.Context(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Int64, n)})
			require.NoError(t, err)
			for i, x := range map[int][]int64{5: {1, 3, 10, 31, 100}, 1: {3}, 2: {1, 100}}[n] {
				assert.Equal(t, x, out["y"].At(i).Int(), "element %d of %d, planned for %s", i, n, hint)
			}
		}
	}
}
