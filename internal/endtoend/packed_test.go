package endtoend_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// TestWeightsArePackedOnceForAllClasses: the programs of a segment, one for each number of rows that the data
// select, read one packed weight.
func TestWeightsArePackedOnceForAllClasses(t *testing.T) {
	const in, out, rows = 64, 48, 40
	g := graph.New("rows", kernels.Lookup)
	x, wanted := g.Input("x", tensor.Float32, rows, in), g.Input("wanted", tensor.Bool, rows)
	w := g.Constant("w", tensor.Zeros(tensor.Float32, out, in))
	at := op.Squeeze(op.Nonzero(wanted), op.SqueezeAttrs{Dim: []int{1}})
	g.Output("y", op.Linear(op.IndexSelect(x, at, 0), w, nil))
	require.NoError(t, g.Err())

	var mu sync.Mutex
	packed := map[*tensor.Storage]int{}
	count := passes.Pass{Name: "count", Doc: "counts packed constants", Run: func(p *passes.Plan) error {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range p.Graph.Constants {
			if c.Packed != nil {
				packed[c.Const.Storage()]++
			}
		}
		return nil
	}}
	r, err := program.Compile(t.Context(), g, program.Options{Passes: append(passes.Passes(), count)})
	require.NoError(t, err)
	for _, n := range []int{20, 30, 40} {
		mask := tensor.Zeros(tensor.Bool, rows)
		for i := range n {
			mask.Set(tensor.BoolScalar(true), i)
		}
		res, err := r.Run(t.Context(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, rows, in), "wanted": mask})
		require.NoError(t, err)
		require.Equal(t, []int{n, out}, res["y"].Shape)
	}
	require.Len(t, packed, 1)
	for _, plans := range packed {
		require.Equal(t, 3, plans)
	}
}
