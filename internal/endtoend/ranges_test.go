package endtoend_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// TestJoinedRanges: products of vectors and large matrices, whose ranges of chunks depend on the number of workers and
// may span several matrices, have the same bits for every number of workers.
func TestJoinedRanges(t *testing.T) {
	g := graphrun.New("ranges")
	x, w := g.Input("x", tensor.Float32, 3, 1, 515), g.Input("w", tensor.Float32, 3, 515, 1027)
	g.Output("y", op.Relu(op.Bmm(x, w)))
	require.NoError(t, g.Err())
	in := map[string]*tensor.Tensor{"x": generated(tensor.New(tensor.Float32, 3, 1, 515)),
		"w": generated(tensor.New(tensor.Float32, 3, 515, 1027))}
	var want []float32
	for _, threads := range []int{1, 2, 5, 40} {
		p, err := graphrun.Compile(ctx, g, graphrun.Options{Threads: threads})
		require.NoError(t, err)
		out, err := p.Run(t.Context(), in)
		require.NoError(t, err)
		got := floats(out["y"])
		if want == nil {
			want = got
			for _, i := range []int{0, 1026, 1027, 3080} { // the ends of two matrices
				batch, column, sum := i/1027, i%1027, 0.0
				for k := range 515 {
					sum += in["x"].At(batch, 0, k).Float() * in["w"].At(batch, k, column).Float()
				}
				require.InDelta(t, max(sum, 0), got[i], 1e-3)
			}
		}
		require.Equal(t, want, got, "%d workers", threads)
	}
}
