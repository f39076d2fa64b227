package endtoend_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// normChain builds a norm of an image with 12 channels, with ops before and after it.
type normChain struct {
	name  string
	build func(g *graph.Graph, x, w, b *graph.Value) *graph.Value
	steps int
}

func apply(g *graph.Graph, op string, a graph.Attrs, in ...any) *graph.Value {
	out := g.Apply(op, a, in...)
	if len(out) == 0 {
		return nil
	}
	return out[0]
}

// Short groups of adjacent channels have a kernel of their own.
func TestShortGroupsSideBySide(t *testing.T) {
	for m, steps := range map[tensor.MemoryFormat]int{tensor.Contiguous: 1, tensor.ChannelsLast: 2} {
		if !loops.CodeAvailable() {
			steps = 2
		}
		g := graph.New("g", kernels.Lookup)
		x := g.InputFormat("x", f32, m, 1, 16, 16, 16)
		g.Output("y", apply(g, "relu", nil, apply(g, "group_norm", groups(8), x)))
		p, err := planned(g)
		require.NoError(t, err)
		assert.Len(t, p.Nodes, steps, "%v", m)
		in := map[string]*tensor.Tensor{"x": normal(rand.New(rand.NewPCG(5, 2)), x.Meta)}
		want, err := graph.Evaluate(g, in)
		require.NoError(t, err)
		isNear(t, want["y"], runGraph(t, p, in, 2))
	}
}

// groups returns the attributes of a group_norm.
func groups(n int) graph.Attrs { return graph.Attrs{"num_groups": n} }

var normChains = []normChain{
	{"group_norm, silu", func(g *graph.Graph, x, w, b *graph.Value) *graph.Value {
		return apply(g, "silu", nil, apply(g, "group_norm", groups(3), x, w, b))
	}, 1},
	{"instance_norm, relu", func(g *graph.Graph, x, w, b *graph.Value) *graph.Value {
		return apply(g, "relu", nil, apply(g, "instance_norm", nil, x, w, b))
	}, 1},
	{"add, group_norm, mul", func(g *graph.Graph, x, w, _ *graph.Value) *graph.Value {
		sum := apply(g, "add", nil, x, g.Input("side", x.Meta.DType, 12, 1, 1))
		return apply(g, "mul", nil, apply(g, "group_norm", groups(4), sum, w), sum)
	}, 1},
	{"two of the same groups", func(g *graph.Graph, x, w, b *graph.Value) *graph.Value {
		return apply(g, "group_norm", groups(6), apply(g, "tanh", nil, apply(g, "group_norm", groups(6), x, w, b)), b, w)
	}, 1},
	{"two of other groups", func(g *graph.Graph, x, w, b *graph.Value) *graph.Value {
		return apply(g, "group_norm", groups(2), apply(g, "group_norm", groups(3), x, w, b), w, b)
	}, 2},
	{"groups and instances", func(g *graph.Graph, x, w, b *graph.Value) *graph.Value {
		return apply(g, "instance_norm", nil, apply(g, "neg", nil, apply(g, "group_norm", groups(12), x, w, b)))
	}, 2},
	{"a vector in both directions", func(g *graph.Graph, x, w, b *graph.Value) *graph.Value {
		return apply(g, "add", nil, apply(g, "group_norm", groups(3), apply(g, "mul", nil, x, w), w, b), b)
	}, 1},
	{"given statistics", func(g *graph.Graph, x, w, b *graph.Value) *graph.Value {
		square := apply(g, "mul", nil, w, w)
		return apply(g, "relu", nil, apply(g, "instance_norm", graph.Attrs{"use_input_stats": false}, x, w, b, b, square))
	}, 3},
}

// TestNormsAreRows compares norms of images with the definition, with ops before and after them in the same step or in
// others, for several layouts.
func TestNormsAreRows(t *testing.T) {
	testsize.Long(t)
	rng := rand.New(rand.NewPCG(5, 1))
	image := tensor.New(f32, 2, 12, 3, 12)
	for _, c := range normChains {
		for i, m := range []tensor.Meta{image, image.WithStrides([]int{432, 1, 144, 12}),
			image.WithStrides([]int{1, 200, 40, 3}), tensor.New(f32, 1, 12, 1, 12), tensor.New(f32, 1, 12, 9, 12)} {
			for k, d := range []tensor.DType{f32, tensor.BFloat16} {
				if k > 0 && i > 0 && !testsize.All() {
					continue
				}
				t.Run(fmt.Sprint(c.name, i, d), func(t *testing.T) { c.check(t, rng, m.WithDType(d)) })
			}
		}
	}
}

func (c normChain) check(t *testing.T, rng *rand.Rand, m tensor.Meta) {
	g := graph.New("g", kernels.Lookup)
	checkChain(t, rng, c.build(g, g.InputMeta("x", m), g.Input("w", m.DType, 12), g.Input("b", m.DType, 12)), c.steps)
}

// checkChain runs the graph of a value, its only output, with one and with four workers, and compares the results with
// the definition. The strategies are Propagate and a random one, or all in long tests, or Propagate alone with the race
// detector. If steps is not 0, strategy Propagate must have this number of steps.
func checkChain(t *testing.T, rng *rand.Rand, v *graph.Value, steps int) {
	g := v.Graph()
	g.Output("y", v)
	require.NoError(t, g.Err())
	require.NoError(t, g.Infer())
	in := map[string]*tensor.Tensor{}
	for _, x := range g.Inputs {
		in[x.Name] = normal(rng, x.Meta)
	}
	want, err := graph.Evaluate(g, in)
	require.NoError(t, err)
	strategies := layout.All()
	if testing.Short() { // one strategy: the parallel parts are the same
		strategies = []layout.Strategy{layout.Propagate}
	} else if !testsize.All() {
		strategies = []layout.Strategy{layout.Propagate, strategies[rng.IntN(len(strategies))]}
	}
	for _, s := range strategies {
		p, err := passes.Run(g, passes.Options{Strategy: s, Check: !testing.Short()})
		require.NoError(t, err)
		if steps > 0 && loops.CodeAvailable() && s.Name() == layout.Propagate.Name() {
			assert.Len(t, p.Graph.Nodes, steps)
		}
		require.Equal(t, v.Meta.Strides, p.Graph.Outputs[0].Value.Meta.Strides)
		one := runGraph(t, p.Graph, in, 1)
		isNear(t, want["y"], one)
		assert.Equal(t, floats(one), floats(runGraph(t, p.Graph, in, 4)))
	}
}

func runGraph(t *testing.T, g *graph.Graph, in map[string]*tensor.Tensor, threads int) *tensor.Tensor {
	p, err := exec.Compile(g, exec.Options{Threads: threads})
	require.NoError(t, err)
	out, err := p.Run(context.Background(), in)
	require.NoError(t, err)
	return out["y"]
}

// isNear compares numbers of about 1 with a tolerance of a few roundings.
func isNear(t *testing.T, want, got *tensor.Tensor) {
	t.Helper()
	bound := 2e-5
	if got.DType == tensor.BFloat16 {
		bound = 0x1p-4
	}
	a, b := floats(want), floats(got)
	require.Len(t, b, len(a))
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		if !(math.Abs(x-y) <= bound*max(1, math.Abs(x))) {
			t.Fatalf("element %d is %g, want %g", i, y, x)
		}
	}
}

func normal(rng *rand.Rand, m tensor.Meta) *tensor.Tensor {
	x := tensor.Empty(m)
	for i := range m.Numel() {
		at := make([]int, m.Rank())
		for d := m.Rank() - 1; d >= 0; d-- {
			at[d], i = i%m.Shape[d], i/m.Shape[d]
		}
		x.Set(tensor.FloatScalar(rng.NormFloat64()), at...)
	}
	return x
}
