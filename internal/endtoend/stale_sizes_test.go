package endtoend_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// A fusion depends on the size of a reduced dimension, even if no size of its attributes and results is an expression.
func TestReducedSizesAreBound(t *testing.T) {
	for _, reduction := range []string{"mean", "var", "std", "sum", "logsumexp"} {
		for _, before := range []bool{false, true} {
			head, x := "", "x"
			if before {
				head, x = `{"name": "h", "op": "tanh", "inputs": ["x"]},`, "h"
			}
			g, err := graphfile.Parse(strings.NewReader(fmt.Sprintf(`{"version": 1, "symbols": {"N": {}},
				"inputs": [{"name": "x", "dtype": "float32", "shape": [4, "N"]}], "nodes": [%s
				{"name": "m", "op": %q, "inputs": [%q], "attrs": {"dim": 1}}, {"name": "y", "op": "neg", "inputs": ["m"]}],
				"outputs": ["y"]}`, head, reduction, x)), kernels.Lookup, graphfile.Options{})
			require.NoError(t, err)
			used, err := graphrun.Compile(ctx, g, graphrun.Options{})
			require.NoError(t, err)
			checked, err := graphrun.Compile(ctx, g, graphrun.Options{Check: true})
			require.NoError(t, err)
			for _, n := range []int{5, 7, 30, 2, 1, 100, 5} {
				in := map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 4, n)}
				for i := range 4 * n {
					in["x"].SetFlat(i, tensor.FloatScalar(float64(i%7)))
				}
				fresh, err := graphrun.Compile(ctx, g, graphrun.Options{})
				require.NoError(t, err)
				want, err := fresh.Run(t.Context(), in)
				require.NoError(t, err)
				got, err := used.Run(t.Context(), in)
				require.NoError(t, err)
				assert.Equal(t, bitsOfFloats(t, want["y"]), bitsOfFloats(t, got["y"]), "%s of %d", reduction, n)
				_, err = checked.Run(t.Context(), in)
				assert.NoError(t, err, "%s of %d", reduction, n)
				fixed, err := graphrun.Compile(ctx, g, graphrun.Options{Sizes: map[string]int{"N": n}})
				require.NoError(t, err)
				want, err = fixed.Run(t.Context(), in)
				require.NoError(t, err)
				for i, w := range floats(want["y"]) {
					assert.True(t, nearFloat(w, floats(got["y"])[i]), "%s of %d: %v, want %v", reduction, n, floats(got["y"])[i], w)
				}
			}
		}
	}
}

// A scatter that reads a cache cannot overwrite elements of the cache.
func TestCachesThatScatterReads(t *testing.T) {
	const grown = `{"name": "grown", "op": "constant_pad_nd", "inputs": ["past"], "attrs": {"pad": [0, 0, 0, 1]}}`
	for _, source := range []string{"past", `{"name": "src", "op": "slice", "inputs": ["past"], "attrs": {"dim": 2}}`,
		`{"name": "src", "op": "expand", "inputs": ["past"], "attrs": {"size": [1, 2, -1, 4]}}`} {
		src := "past"
		nodes := grown
		if source != "past" {
			src, nodes = "src", source+", "+grown
		}
		g := cacheGraph(t, nodes+fmt.Sprintf(`, {"name": "present", "op": "scatter", "inputs": ["grown", "index", %q],
			"attrs": {"dim": 2}}`, src), `"present"`)
		_, err := graphrun.Compile(ctx, g, graphrun.Options{Caches: graphrun.RecognizedCaches(16)})
		assert.ErrorContains(t, err, fmt.Sprintf("reads %q, which is in the memory of input", src))
	}
}

// A cache has the layout of its memory, so that it cannot be pinned.
func TestPinnedCachesAreRefused(t *testing.T) {
	g := cacheGraph(t, presentNode, `"present"`)
	for _, name := range []string{"past", "present"} {
		_, err := graphrun.Compile(ctx, g, graphrun.Options{Caches: graphrun.RecognizedCaches(16),
			Pins: map[string]graph.Pin{name: {Format: tensor.ChannelsLast}}})
		assert.ErrorContains(t, err, `input "past" and output "present" have the layout of the cache, but Options.Pins has the pin`)
	}
}

// Every strategy plans a decoder with caches, also for prompts behind other tokens.
func TestCachesOfStrategies(t *testing.T) {
	for _, strategy := range layout.All() {
		for _, hints := range [][]map[string]int{nil, {{"B": 1, "S": 1, "P": 3}}, {{"B": 3, "S": 7, "P": 7}}} {
			_, err := graphrun.Compile(ctx, cachedDecoder(t), graphrun.Options{Strategy: strategy, Hints: hints,
				Caches: graphrun.RecognizedCaches(16)})
			assert.NoError(t, err, "%s, %v", strategy.Name(), hints)
		}
	}
}
