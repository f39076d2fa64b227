package endtoend_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// Calls that differ in what a kernel may contain have kernels of their own: in numbers, in small constants of an op that
// may copy them, in dtypes, and in which operands share memory.
func TestAlike(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 4, 4)
	apply := func(op string, operands ...any) *graph.Value { return g.Apply(op, nil, operands...)[0] }
	half := apply("mul", x, 0.5)
	zeros, negative := apply("add", x, 0.0), apply("add", x, math.Copysign(0, -1))
	index := g.Constant("index", tensor.Must(tensor.FromSlice([]int64{0, 1, 2, 3}, 1, 4)))
	other := g.Constant("other", tensor.Must(tensor.FromSlice([]int64{3, 2, 1, 0}, 1, 4)))
	set := func(index, src *graph.Value) *graph.Value {
		return g.Apply("scatter", graph.Attrs{"dim": 0}, half, index, src)[0]
	}
	row := func(v *graph.Value) *graph.Value {
		return g.Apply("narrow", graph.Attrs{"dim": 0, "start": 0, "length": 1}, v)[0]
	}
	first, second, ofItself := set(index, row(x)), set(other, row(x)), set(index, row(half))
	for i, v := range []*graph.Value{zeros, negative, first, second, ofItself, apply("neg", apply("neg", x))} {
		g.Output(string(rune('a'+i)), v)
	}
	require.NoError(t, g.Err())
	plan, err := passes.Run(g, passes.Options{})
	require.NoError(t, err)
	alike := plan.Graph.Alike(nil)
	for i, n := range plan.Graph.Nodes {
		if n.Op.Name != "neg" {
			require.Equal(t, i, int(alike[i]), n.Name)
		}
	}
	holds(t, g, map[string]*tensor.Tensor{"x": iota32(16, 4, 4)})
}

// The layers of a network have one kernel each, at all sizes, and compute with their own weights.
func TestLayersThatAreAlike(t *testing.T) {
	const layers, width = 3, 24
	rng := rand.New(rand.NewPCG(1, 2))
	drawn := func(shape ...int) *tensor.Tensor {
		data := make([]float32, tensor.Numel(shape))
		for i := range data {
			data[i] = float32(rng.IntN(9)-4) / 4
		}
		return tensor.Must(tensor.FromSlice(data, shape...))
	}
	g := graph.New("g", kernels.Lookup)
	v := g.InputDims("x", f32, tensor.NoFormat, graph.Dim{Symbol: "N"}, graph.Dim{Size: width})
	apply := func(op string, operands ...any) *graph.Value { return g.Apply(op, nil, operands...)[0] }
	for i := range layers {
		name := string(rune('a' + i))
		weight, bias := g.Constant("w"+name, drawn(width, width)), g.Constant("b"+name, drawn(width))
		scale := g.Constant("s"+name, drawn(width))
		v = apply("mul", apply("mul", apply("relu", apply("linear", v, weight, bias)), scale), 0.125)
	}
	g.Output("y", v)
	require.NoError(t, g.Err())
	p, err := program.Compile(t.Context(), g, program.Options{Threads: 1})
	require.NoError(t, err)
	for _, n := range []int{5, 1, 9, 0, 5, 33} {
		in := map[string]*tensor.Tensor{"x": drawn(n, width)}
		bound := g.Clone()
		require.NoError(t, bound.Bind(map[string]int{"N": n}))
		want, err := graph.Evaluate(bound, in)
		require.NoError(t, err)
		got, err := p.Run(t.Context(), in)
		require.NoError(t, err)
		require.InDeltaSlice(t, floats(want["y"]), floats(got["y"]), 1e-4)
	}
}
