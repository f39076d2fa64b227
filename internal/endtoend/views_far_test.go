//go:build !386 && !arm

package endtoend_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// TestViewsOfFarElements runs views under all strategies. Their strides exceed the limit on strides for operands in
// row-major order, but not for the operand's layout in the graph.
func TestViewsOfFarElements(t *testing.T) {
	columns := tensor.New(f32, 4, 6).WithStrides([]int{1, 4})
	far := graph.Attrs{"dim": 0, "start": 1, "end": -1, "step": 1 << 43}
	for name, view := range map[string]func(g *graph.Graph) *graph.Value{
		"input": func(g *graph.Graph) *graph.Value { return g.Apply("slice", far, g.InputMeta("x", columns))[0] },
		"computed": func(g *graph.Graph) *graph.Value {
			return g.Apply("slice", far, g.Apply("neg", nil, g.InputMeta("x", columns))[0])[0]
		},
		"expanded": func(g *graph.Graph) *graph.Value {
			x := g.InputMeta("x", tensor.New(f32, 2, 7).WithStrides([]int{0, 1}))
			return g.Apply("unfold", graph.Attrs{"dimension": 0, "size": 2, "step": 1<<45 - 2}, x)[0]
		},
	} {
		for _, s := range append(layout.All(), backwards{}) {
			t.Run(name+"/"+s.Name(), func(t *testing.T) {
				g := graph.New(name, kernels.Lookup)
				y := view(g)
				g.Output("y", g.Apply("cat", nil, y, y)[0])
				require.NoError(t, g.Err())
				require.NoError(t, g.Infer())
				in := filled(g, 1)
				p, err := passes.Run(g, passes.Options{Strategy: s, Check: true})
				require.NoError(t, err)
				program, err := exec.Compile(p.Graph, exec.Options{Threads: 1})
				require.NoError(t, err)
				got, err := program.Run(t.Context(), in)
				require.NoError(t, err)
				want, err := graph.Evaluate(g, in)
				require.NoError(t, err)
				require.Equal(t, floats(want["y"]), floats(got["y"]))
			})
		}
	}
}
