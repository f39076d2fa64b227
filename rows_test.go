package graphrun_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/tensor"
)

// fixed is a network for one image: a convolution, windows of its pixels as an exporter writes them, attention over
// the tokens, and a product of the flattened result. Tokens come first in the attention, so that rows are merged after
// them.
const fixed = `{"version": 1,
 "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 4, 4, 4]}],
 "constants": [{"name": "w", "dtype": "float32", "shape": [6, 4, 1, 1], "data": WEIGHTS24},
               {"name": "token", "dtype": "float32", "shape": [1, 1, 6], "data": [1, 2, 3, 4, 5, 6]},
               {"name": "mask", "dtype": "float32", "shape": [4, 1, 6], "data": WEIGHTS24},
               {"name": "q", "dtype": "float32", "shape": [6, 6], "data": WEIGHTS36},
               {"name": "p", "dtype": "float32", "shape": [3, 102], "data": WEIGHTS306}],
 "nodes": [{"name": "conv", "op": "conv2d", "inputs": ["x", "w"]},
           {"name": "cut", "op": "reshape", "inputs": ["conv"], "attrs": {"shape": [1, 6, 2, 2, 2, 2]}},
           {"name": "turn", "op": "permute", "inputs": ["cut"], "attrs": {"dims": [0, 2, 4, 3, 5, 1]}},
           {"name": "windows", "op": "reshape", "inputs": ["turn"], "attrs": {"shape": [4, 4, 6]}},
           {"name": "masked", "op": "add", "inputs": ["windows", "mask"]},
           {"name": "pixels", "op": "reshape", "inputs": ["masked"], "attrs": {"shape": [1, 16, 6]}},
           {"name": "tokens", "op": "cat", "inputs": ["token", "pixels"], "attrs": {"dim": 1}},
           {"name": "first", "op": "permute", "inputs": ["tokens"], "attrs": {"dims": [1, 0, 2]}},
           {"name": "rows", "op": "reshape", "inputs": ["first"], "attrs": {"shape": [17, 6]}},
           {"name": "linear", "op": "linear", "inputs": ["rows", "q"]},
           {"name": "heads", "op": "reshape", "inputs": ["linear"], "attrs": {"shape": [17, 2, 3]}},
           {"name": "each", "op": "permute", "inputs": ["heads"], "attrs": {"dims": [1, 0, 2]}},
           {"name": "other", "op": "permute", "inputs": ["heads"], "attrs": {"dims": [1, 2, 0]}},
           {"name": "scores", "op": "bmm", "inputs": ["each", "other"]},
           {"name": "weights", "op": "softmax", "inputs": ["scores"], "attrs": {"dim": -1}},
           {"name": "mixed", "op": "bmm", "inputs": ["weights", "each"]},
           {"name": "back", "op": "permute", "inputs": ["mixed"], "attrs": {"dims": [1, 0, 2]}},
           {"name": "joined", "op": "reshape", "inputs": ["back"], "attrs": {"shape": [17, 1, 6]}},
           {"name": "batch", "op": "permute", "inputs": ["joined"], "attrs": {"dims": [1, 0, 2]}},
           {"name": "flat", "op": "reshape", "inputs": ["batch"], "attrs": {"shape": [1, 102]}},
           {"name": "y", "op": "linear", "inputs": ["flat", "p"]}],
 "outputs": ["y"]}`

// numbers is a list of n numbers in JSON; n is a multiple of 6.
func numbers(n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat("0.25, -0.5, 0.75, 0.125, -1, 0.5, ", n/6), ", ") + "]"
}

func fixedGraph(t *testing.T, text string, sizes map[string]int) (*graphrun.Program, error) {
	t.Helper()
	for n, name := range map[int]string{24: "WEIGHTS24", 36: "WEIGHTS36", 306: "WEIGHTS306"} {
		text = strings.ReplaceAll(text, name, numbers(n))
	}
	g, err := graphrun.Loader{Sizes: sizes}.Read(ctx, strings.NewReader(text), "fixed.json")
	if err != nil {
		return nil, err
	}
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Exact: true})
	require.NoError(t, err)
	return p, nil
}

// TestRowsOfFixedGraph changes the number of rows of a graph with numbers for all sizes: each row has the result that
// it has alone.
func TestRowsOfFixedGraph(t *testing.T) {
	one, err := fixedGraph(t, fixed, nil)
	require.NoError(t, err)
	for _, name := range []string{"N", "x.0"} {
		const rows = 3
		all, err := fixedGraph(t, fixed, map[string]int{name: rows})
		require.NoError(t, err)
		x := tensor.Zeros(tensor.Float32, rows, 4, 4, 4)
		for i := range x.Numel() {
			x.SetFlat(i, tensor.FloatScalar(float64(i*37%101)/50-1))
		}
		got, err := all.Run(t.Context(), map[string]*tensor.Tensor{"x": x})
		require.NoError(t, err)
		require.Equal(t, []int{rows, 3}, got["y"].Shape)
		for row := range rows {
			alone := tensor.Zeros(tensor.Float32, 1, 4, 4, 4)
			for i := range alone.Numel() {
				alone.SetFlat(i, x.At(row, i/16, i/4%4, i%4))
			}
			want, err := one.Run(t.Context(), map[string]*tensor.Tensor{"x": alone})
			require.NoError(t, err)
			for k := range 3 {
				assert.InDelta(t, want["y"].At(0, k).Float(), got["y"].At(row, k).Float(), 1e-4)
			}
		}
	}
}

// TestRowsThatDepend checks the errors for graphs whose rows depend on each other, and for wrong names.
func TestRowsThatDepend(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`"attrs": {"dim": -1}}`, `"attrs": {"dim": 0}}`, `"weights" (softmax): N=2: the rows are not independent: it combines rows`},
		{`"op": "linear", "inputs": ["flat", "p"]`, `"op": "sum", "inputs": ["flat"]`, `"y" (sum)`},
		{`"op": "linear", "inputs": ["flat", "p"]`, `"op": "cumsum", "inputs": ["flat"], "attrs": {"dim": 0}`, `"y" (cumsum)`},
		{`"op": "linear", "inputs": ["flat", "p"]`, `"op": "rand_like", "inputs": ["flat"], "attrs": {"seed": 1}`,
			"does not state that it computes rows independently"},
	} {
		_, err := fixedGraph(t, strings.Replace(fixed, c.from, c.to, 1), map[string]int{"N": 2})
		assert.ErrorContains(t, err, c.want)
	}
	for name, want := range map[string]string{"M": `no symbolic dimension "M"`, "x.4": "no symbolic dimension",
		"z.0": "no symbolic dimension", "w.0": "no symbolic dimension"} {
		_, err := fixedGraph(t, fixed, map[string]int{name: 2})
		assert.ErrorContains(t, err, want)
	}
	_, err := fixedGraph(t, fixed, map[string]int{"N": 0})
	assert.ErrorContains(t, err, "the number of rows must be at least 1")
	_, err = fixedGraph(t, fixed, map[string]int{"N": 2, "x.0": 3})
	assert.ErrorContains(t, err, "all inputs with rows must have the same number of rows")
	_, err = fixedGraph(t, fixed, map[string]int{"N": 2, "x.1": 2})
	assert.ErrorContains(t, err, `the rows of input "x" are along dimension 1, but another key sets dimension 0`)
}
