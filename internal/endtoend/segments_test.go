package endtoend_test

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// detector returns a small detector for images of size by size pixels: convolutions, a box and a score for each
// position, the positions with high scores (nonzero), their boxes without overlapping worse ones (nms), and a
// classifier with two layers.
func detector(size int) *graph.Graph {
	g := graph.New("detector", kernels.Lookup)
	rng := rand.New(rand.NewPCG(7, 7))
	weight := func(name string, shape ...int) *graph.Value {
		t := tensor.Zeros(f32, shape...)
		for i := range t.Numel() {
			t.SetFlat(i, tensor.FloatScalar(rng.NormFloat64()/float64(tensor.Numel(shape[1:]))))
		}
		return g.Constant(name, t)
	}
	rows := func(x *graph.Value, n int) *graph.Value {
		return op.Reshape(op.Permute(x, []int{0, 2, 3, 1}), []int{-1, n})
	}
	take := func(x, index *graph.Value) *graph.Value { return op.IndexSelect(x, index, 0) }
	x, pad := g.Input("image", f32, 1, 3, size, size), graph.Attrs{"padding": 1, "stride": 2}
	x = op.Relu(g.Apply("conv2d", pad, x, weight("w0", 32, 3, 3, 3), nil)[0])
	x = op.Relu(g.Apply("conv2d", pad, x, weight("w1", 64, 32, 3, 3), nil)[0])
	scores := op.Reshape(op.Conv2d(x, weight("ws", 1, 64, 1, 1), nil), []int{-1})
	boxes := rows(op.Conv2d(x, weight("wb", 4, 64, 1, 1), nil), 4)
	low := op.Mul(op.Slice(boxes, op.SliceAttrs{Dim: 1, Start: new(0), End: new(2)}), 1000)
	extent := op.Exp(op.Slice(boxes, op.SliceAttrs{Dim: 1, Start: new(2), End: new(4)}))
	corners := op.Cat([]*graph.Value{low, op.Add(low, extent)}, op.CatAttrs{Dim: 1})
	at := op.Squeeze(op.Nonzero(op.Gt(scores, op.Mean(scores))), op.SqueezeAttrs{Dim: []int{1}})
	high := take(corners, at)
	keep := op.Nms(high, take(scores, at), 0.3)
	features := take(rows(x, 64), take(at, keep))
	hidden := op.Relu(op.Linear(features, weight("l1", 512, 64), nil))
	classes := op.Softmax(op.Linear(hidden, op.Mul(weight("l2", 10, 512), 2), nil), 1)
	return g.Output("boxes", take(high, keep)).Output("classes", classes)
}

// image returns a random image for the detector.
func image(size int, seed uint64) map[string]*tensor.Tensor {
	rng := rand.New(rand.NewPCG(seed, 3))
	t := tensor.Zeros(f32, 1, 3, size, size)
	for i := range t.Numel() {
		t.SetFlat(i, tensor.FloatScalar(rng.NormFloat64()))
	}
	return map[string]*tensor.Tensor{"image": t}
}

// A detector has the results of the reference under every strategy, and equal bits for any number of workers. It plans
// only in the first run of images of the same kind.
func TestDetector(t *testing.T) {
	testsize.Long(t)
	g := detector(24)
	require.NoError(t, g.Err())
	require.Len(t, g.Segments(), 5, "before nonzero, it, before nms, it, behind it")
	for i, size := range []int{4, 10} {
		known := g.Unbacked().Graph.Outputs[i].Value.Type
		require.Equal(t, f32, known.DType)
		require.Equal(t, sym.Ints(size), known.Shape[1:])
		_, number := known.Shape[0].Known()
		require.False(t, number)
	}
	in := image(24, 1)
	want, err := graph.Evaluate(g, in)
	require.NoError(t, err)
	for _, s := range layout.All() {
		var plans atomic.Int64
		var bits []float32
		for _, threads := range []int{1, 2, 7} {
			plans.Store(0)
			r, err := program.Compile(t.Context(), g, program.Options{Threads: threads, Strategy: s,
				Progress: func(stage string) {
					if stage == "planning" {
						plans.Add(1)
					}
				}})
			require.NoError(t, err)
			for range 3 {
				out, err := r.Run(context.Background(), in)
				require.NoError(t, err)
				for name, w := range want {
					require.Equal(t, w.Shape, out[name].Shape)
					require.InDeltaSlice(t, floats(w), floats(out[name]), 2e-3, "%s under %s", name, s.Name())
				}
				if bits == nil {
					bits = floats(out["classes"])
				}
				require.Equal(t, bits, floats(out["classes"]))
			}
			require.EqualValues(t, 5, plans.Load(), "before nonzero; behind it and behind nms for rounded sizes, and repeated")
		}
	}
}

// BenchmarkDetector measures a run on an image with as many boxes as the one before.
func BenchmarkDetector(b *testing.B) {
	r, err := compiled(detector(64), 1)
	require.NoError(b, err)
	in := image(64, 1)
	for b.Loop() {
		_, err := r.Run(context.Background(), in)
		require.NoError(b, err)
	}
}

// BenchmarkLoop measures an iteration of a loop whose body has three nodes, and of one whose body decides a shape.
func BenchmarkLoop(b *testing.B) {
	for _, decides := range []bool{false, true} {
		b.Run(map[bool]string{false: "static", true: "decides"}[decides], func(b *testing.B) {
			body := graph.New("body", kernels.Lookup)
			body.Input("i", tensor.Int64)
			body.Input("going", tensor.Bool)
			x := body.Input("x", f32, 2)
			y := op.Mul(x, 0.5)
			if decides {
				y = op.MaskedSelect(y, op.Ge(y, 0))
			}
			body.Output("on", op.Lt(op.Sum(y), 1e9)).Output("x", y)
			g := graph.New("g", kernels.Lookup)
			trips := 1000
			out := g.ApplyN("loop", 1, graph.Attrs{"body": body, "carried": 1}, trips, true, g.Input("x", f32, 2))
			g.Output("y", out[0])
			require.NoError(b, g.Err())
			r, err := compiled(g, 1)
			require.NoError(b, err)
			in := map[string]*tensor.Tensor{"x": tensor.Must(tensor.FromSlice([]float32{3, 10}, 2))}
			for b.Loop() {
				_, err := r.Run(context.Background(), in)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*trips), "ns/iteration")
		})
	}
}
