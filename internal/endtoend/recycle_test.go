package endtoend_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// recycled is the number of elements of the values between segments.
const recycled = 1 << 20

// allocatedByRuns returns the bytes that a later run allocates. No garbage is collected meanwhile.
func allocatedByRuns(t *testing.T, g *graph.Graph, in map[string]*tensor.Tensor,
	same func(out map[string]*tensor.Tensor)) int {
	t.Helper()
	require.NoError(t, g.Err())
	require.NoError(t, g.Infer())
	r, err := compiled(g, 1)
	require.NoError(t, err)
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	run := func() {
		out, err := r.Run(t.Context(), in)
		require.NoError(t, err)
		same(out)
		for _, o := range out {
			require.NoError(t, o.Release())
		}
	}
	run()
	run()
	const runs = 4
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		run()
	}
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc-before.TotalAlloc) / runs
}

// TestValuesBetweenSegmentsAreRecycled checks that the memory of values between segments is reused once nothing reads
// them or their views.
func TestValuesBetweenSegmentsAreRecycled(t *testing.T) {
	testsize.Long(t)
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", tensor.Float32, recycled)
	y := op.Add(x, 1)
	view := op.View(y, op.ViewAttrs{Size: []int{recycled / 4, 4}})
	picked := op.IndexSelect(y, op.View(op.Nonzero(x), op.ViewAttrs{Size: []int{-1}}), 0)
	g.Output("picked", picked).Output("sum", op.Sum(op.IndexSelect(view, op.View(op.Nonzero(picked),
		op.ViewAttrs{Size: []int{-1}}), 0)))
	data := tensor.Zeros(tensor.Float32, recycled)
	data.SetFlat(5, tensor.IntScalar(7))
	data.SetFlat(9, tensor.IntScalar(2))
	bytes := allocatedByRuns(t, g, map[string]*tensor.Tensor{"x": data}, func(out map[string]*tensor.Tensor) {
		require.Equal(t, []float32{8, 3}, floats(out["picked"]))
		require.Equal(t, []float32{15}, floats(out["sum"]))
	})
	require.Less(t, bytes, 3*recycled, "y has 4 MiB, the flags of nonzero have 1")
}

// TestValuesOfLoopsAreRecycled checks that the memory of carried values is reused without a garbage collection.
func TestValuesOfLoopsAreRecycled(t *testing.T) {
	testsize.Long(t)
	body := graph.New("body", kernels.Lookup)
	body.Input("i", tensor.Int64)
	going := body.Input("going", tensor.Bool)
	a, b := body.Input("a", tensor.Float32, recycled), body.Input("b", tensor.Float32, recycled)
	body.Output("going", going).Output("a", op.Add(a, b)).Output("b", b)
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", tensor.Float32, recycled)
	out := g.ApplyN("loop", 2, graph.Attrs{"body": body, "carried": 2}, 10, true, x, x)
	g.Output("a", op.Sum(out[0])).Output("b", op.Sum(out[1]))
	bytes := allocatedByRuns(t, g, map[string]*tensor.Tensor{"x": ones(recycled)}, func(out map[string]*tensor.Tensor) {
		require.Equal(t, []float32{11 * recycled}, floats(out["a"]))
		require.Equal(t, []float32{recycled}, floats(out["b"]))
	})
	require.Less(t, bytes, 4*recycled, "each of 10 iterations makes 4 MiB")
}

func ones(n int) *tensor.Tensor {
	t := tensor.Zeros(tensor.Float32, n)
	for i := range n {
		t.SetFlat(i, tensor.IntScalar(1))
	}
	return t
}
