//go:build !386 && !arm

package extreme_test

import (
	"testing"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// TestManyParts plans an op with many results under every strategy: planning takes time in
// proportion to their number.
func TestManyParts(t *testing.T) {
	const parts = 1 << 14
	for _, s := range graphrun.Strategies() {
		g := graph.New("parts", kernels.Lookup)
		x := g.InputMeta("x", tensor.New(tensor.Int16, parts, 2).WithStrides([]int{0, 8}))
		out := g.Apply("chunk", graph.Attrs{"chunks": parts}, x)
		g.Output("y", out[parts-1])
		if _, err := graphrun.Compile(t.Context(), g, graphrun.Options{Strategy: s, Threads: 1, SolveLimit: -1}); err != nil {
			t.Errorf("%s: %v", s.Name(), err)
		}
	}
}
