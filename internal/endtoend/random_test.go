package endtoend_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// grower builds a random graph with ops of all kinds and small values.
type grower struct {
	rng  *rand.Rand
	g    *graph.Graph
	vals []*graph.Value
}

// value returns a random value, more often a late one.
func (r *grower) value() *graph.Value {
	if r.rng.IntN(2) == 0 {
		return r.vals[len(r.vals)-1-r.rng.IntN(min(5, len(r.vals)))]
	}
	return r.vals[r.rng.IntN(len(r.vals))]
}

// image returns a value of rank 4 with 4 channels, like the inputs.
func (r *grower) image() *graph.Value {
	for {
		if v := r.value(); v.Meta.Rank() == 4 && v.Meta.Shape[1] == 4 && v.Meta.Shape[2] > 1 && v.Meta.Shape[3] > 1 {
			return v
		}
	}
}

// apply adds a node, unless the op rejects the operands.
func (r *grower) apply(op string, attrs graph.Attrs, operands ...any) []*graph.Value {
	try := r.g.Clone()
	same := make([]any, len(operands))
	for i, o := range operands {
		same[i] = o
		if v, ok := o.(*graph.Value); ok {
			same[i] = try.Value(v.Name)
		}
	}
	if try.Apply(op, attrs, same...); try.Err() != nil {
		return nil
	}
	out := r.g.Apply(op, attrs, operands...)
	for _, v := range out {
		if v.Meta.DType == f32 && v.Meta.Numel() <= 4096 {
			r.vals = append(r.vals, v)
		}
	}
	return out
}

var steps = []func(r *grower, v *graph.Value, d, e int) []*graph.Value{
	func(r *grower, v *graph.Value, _, _ int) []*graph.Value { return r.apply("add", nil, v, r.value()) },
	func(r *grower, v *graph.Value, _, _ int) []*graph.Value { return r.apply("mul", nil, v, 0.5) },
	func(r *grower, v *graph.Value, _, _ int) []*graph.Value { return r.apply("tanh", nil, v) },
	func(r *grower, v *graph.Value, d, e int) []*graph.Value {
		return r.apply("transpose", graph.Attrs{"dim0": d, "dim1": e}, v)
	},
	func(r *grower, v *graph.Value, d, _ int) []*graph.Value {
		return r.apply("slice", graph.Attrs{"dim": d, "start": r.rng.IntN(2), "step": 1 + r.rng.IntN(2)}, v)
	},
	func(r *grower, v *graph.Value, d, _ int) []*graph.Value {
		return r.apply("split", graph.Attrs{"split_size": 2, "dim": d}, v)
	},
	func(r *grower, v *graph.Value, d, _ int) []*graph.Value {
		return r.apply("flatten", graph.Attrs{"start_dim": d}, v)
	},
	func(r *grower, v *graph.Value, _, _ int) []*graph.Value {
		return r.apply("reshape", graph.Attrs{"shape": []int{-1, 4}}, v)
	},
	func(r *grower, v *graph.Value, _, _ int) []*graph.Value {
		return r.apply("as_strided", graph.Attrs{"size": []int{3, 2}, "stride": []int{r.rng.IntN(4), 1},
			"storage_offset": r.rng.IntN(3)}, v)
	},
	func(r *grower, v *graph.Value, _, _ int) []*graph.Value {
		return r.apply("contiguous", graph.Attrs{"memory_format": []string{"contiguous", "channels_last"}[r.rng.IntN(2)]}, v)
	},
	func(r *grower, v *graph.Value, _, _ int) []*graph.Value { return r.apply("clone", nil, v) },
	func(r *grower, v *graph.Value, d, _ int) []*graph.Value {
		return r.apply("cat", graph.Attrs{"dim": d}, v, r.value())
	},
	func(r *grower, v *graph.Value, d, _ int) []*graph.Value {
		return r.apply("softmax", graph.Attrs{"dim": d}, v)
	},
	func(r *grower, v *graph.Value, d, e int) []*graph.Value {
		return r.apply("sum", graph.Attrs{"dim": []int{d}, "keepdim": e%2 == 0}, v)
	},
	func(r *grower, _ *graph.Value, _, _ int) []*graph.Value {
		return r.apply("conv2d", graph.Attrs{"padding": 1}, r.image(), r.g.Value([]string{"w", "wl"}[r.rng.IntN(2)]))
	},
	func(r *grower, _ *graph.Value, _, _ int) []*graph.Value {
		return r.apply("max_pool2d", graph.Attrs{"kernel_size": 2, "stride": 1}, r.image())
	},
	func(r *grower, v *graph.Value, _, _ int) []*graph.Value {
		t := r.apply("transpose", graph.Attrs{"dim0": -1, "dim1": -2}, v)
		if len(t) == 0 {
			return nil
		}
		return r.apply("matmul", nil, v, t[0])
	},
}

// grow returns a random graph and its inputs.
func grow(seed uint64) (*graph.Graph, map[string]*tensor.Tensor) {
	return growWith(seed, kernels.Lookup)
}

// growWith is grow with another catalogue.
func growWith(seed uint64, lookup graph.Lookup) (*graph.Graph, map[string]*tensor.Tensor) {
	r := &grower{rng: rand.New(rand.NewPCG(seed, 1)), g: graph.New(fmt.Sprint("seed", seed), lookup)}
	strided, _ := tensor.New(f32, 4, 3, 2, 4).Permute([]int{2, 0, 1, 3})
	r.vals = []*graph.Value{r.g.Input("a", f32, 2, 4, 3, 4), r.g.InputFormat("b", f32, tensor.ChannelsLast, 2, 4, 3, 4),
		r.g.InputMeta("c", strided), r.g.Input("d", f32, 4, 1, 1)}
	r.g.Input("w", f32, 4, 4, 3, 3)
	r.g.InputFormat("wl", f32, tensor.ChannelsLast, 4, 4, 3, 3)
	for range 8 + r.rng.IntN(12) {
		v := r.value()
		d, e := 0, 0
		if n := v.Meta.Rank(); n > 0 {
			d, e = r.rng.IntN(n), r.rng.IntN(n)
		}
		out := steps[r.rng.IntN(len(steps))](r, v, d, e)
		if len(out) > 0 && out[0].Meta.Rank() == 4 && r.rng.IntN(6) == 0 {
			out[0].Pinned([]tensor.MemoryFormat{tensor.Contiguous, tensor.ChannelsLast}[r.rng.IntN(2)])
		}
	}
	for i := range 4 {
		v := r.value()
		pin := tensor.NoFormat
		if v.Meta.Rank() == 4 && r.rng.IntN(2) == 0 {
			pin = tensor.ChannelsLast
		}
		r.g.OutputFormat(fmt.Sprint("y", i), v, pin)
	}
	in := map[string]*tensor.Tensor{}
	for _, v := range r.g.Inputs {
		x := tensor.Zeros(f32, v.Meta.Shape...)
		for i := range x.Numel() {
			x.SetFlat(i, tensor.FloatScalar(r.rng.Float64()*2-1))
		}
		in[v.Name] = tensor.Empty(v.Meta)
		tensor.CopyElements(in[v.Name], x)
	}
	return r.g, in
}

// agree compares all strategies with the reference evaluation, with a tolerance for another order of summation. The
// bits must be equal for any number of workers. For a third of the plans it checks the graph after each pass.
func agree(t *testing.T, seed uint64) {
	g, in := grow(seed)
	require.NoError(t, g.Err(), "seed %d", seed)
	want, err := graph.Evaluate(g, in)
	require.NoError(t, err, "seed %d", seed)
	for i, s := range layout.All() {
		p, err := passes.Run(g, passes.Options{Strategy: s, Check: (int(seed)+i)%3 == 0})
		require.NoError(t, err, "seed %d, %s", seed, s)
		var first map[string]*tensor.Tensor
		for _, threads := range []int{1, 3} {
			program, err := exec.Compile(p.Graph, exec.Options{Threads: threads})
			require.NoError(t, err, "seed %d, %s", seed, s)
			require.Equal(t, shownNodes(p.Graph), stepNodes(program), "seed %d, %s: what is planned is what runs", seed, s)
			got, err := program.Run(context.Background(), in)
			require.NoError(t, err, "seed %d, %s", seed, s)
			if first == nil {
				first = got
			}
			for name, w := range want {
				x, y := floats(w), floats(got[name])
				require.Empty(t, farFrom(x, y), "seed %d, %s, output %s", seed, s, name)
				require.True(t, slices.Equal(floats(first[name]), y), "seed %d, %s, %d threads, output %s", seed, s, threads, name)
			}
		}
	}
}

// farFrom describes the first element of y that differs from x by more than a few roundings.
func farFrom(x, y []float32) string {
	for i := range x {
		if !(math.Abs(float64(x[i]-y[i])) <= 1e-4*(1+math.Abs(float64(x[i])))) {
			return fmt.Sprintf("element %d is %v, want %v", i, y[i], x[i])
		}
	}
	return ""
}

// shownNodes returns the names of the nodes of a planned graph that are not views.
func shownNodes(g *graph.Graph) (names []string) {
	for _, n := range g.Nodes {
		if !n.IsView() {
			names = append(names, n.Name)
		}
	}
	return names
}

// stepNodes returns the names of the nodes of a program's steps.
func stepNodes(p *exec.Program) (names []string) {
	for _, s := range p.Steps() {
		names = append(names, s.Node.Name)
	}
	return names
}

// randomGraphs returns the number of random graphs that a test plans, of n in long tests.
func randomGraphs(n uint64) uint64 { return testsize.Of(n/10, n) }

// leavesOut reports whether case i is skipped: with -short, only one of `each` cases runs.
func leavesOut(i, each int) bool { return testing.Short() && i%each != 0 }

func TestRandomGraphs(t *testing.T) {
	for seed := range testsize.Short(12, randomGraphs(150)) {
		if leavesOut(int(seed), 2) {
			continue
		}
		agree(t, seed)
	}
}

func FuzzStrategies(f *testing.F) {
	f.Add(uint64(1000))
	f.Fuzz(agree)
}
