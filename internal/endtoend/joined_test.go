package endtoend_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// operands returns a value and values to join with it: sometimes the same value again, one without elements, or one
// that has no other reader.
func (r *grower) operands(v *graph.Value, dim int) []any {
	list := []any{v}
	add := func(out []*graph.Value) {
		for _, v := range out {
			list = append(list, v)
		}
	}
	for range 1 + r.rng.IntN(3) {
		switch r.rng.IntN(7) {
		case 0:
			list = append(list, v)
		case 1:
			add(r.apply("slice", graph.Attrs{"dim": dim, "start": 0, "end": 0}, v))
		case 2:
			add(r.apply("relu", nil, r.value()))
		default:
			list = append(list, r.value())
		}
	}
	r.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// joinedSteps returns the ops of joinedGraph. Many join values.
func joinedSteps() []func(r *grower, v *graph.Value, d, e int) []*graph.Value {
	type step = func(r *grower, v *graph.Value, d, e int) []*graph.Value
	pool := graph.Attrs{"kernel_size": 3, "stride": 1, "padding": 1}
	cat := func(r *grower, v *graph.Value, d, _ int) []*graph.Value {
		return r.apply("cat", graph.Attrs{"dim": d}, r.operands(v, d)...)
	}
	images := func(r *grower, _ *graph.Value, _, _ int) []*graph.Value {
		return r.apply("cat", graph.Attrs{"dim": 1}, r.operands(r.image(), 1)...)
	}
	relu := func(r *grower, v *graph.Value, _, _ int) []*graph.Value { return r.apply("relu", nil, v) }
	return append([]step{cat, cat, images, images, relu, relu,
		func(r *grower, v *graph.Value, d, _ int) []*graph.Value {
			return r.apply("stack", graph.Attrs{"dim": d}, r.operands(v, d)...)
		},
		func(r *grower, v *graph.Value, _, _ int) []*graph.Value {
			return r.apply("hstack", nil, r.operands(v, 0)...)
		},
		func(r *grower, v *graph.Value, _, _ int) []*graph.Value {
			return r.apply("vstack", nil, r.operands(v, 0)...)
		},
		func(r *grower, v *graph.Value, d, _ int) []*graph.Value {
			wide := r.apply("to", graph.Attrs{"dtype": "float64"}, v)
			return r.apply("cat", graph.Attrs{"dim": d}, wide[0], r.value())
		},
		func(r *grower, _ *graph.Value, _, _ int) []*graph.Value {
			return r.apply("avg_pool2d", pool, r.image())
		},
		func(r *grower, _ *graph.Value, _, _ int) []*graph.Value {
			return r.apply("max_pool2d", pool, r.image())
		},
	}, optimumSteps...)
}

// joinedGraph returns a random graph with many nodes that join values, and with pins.
func joinedGraph(seed uint64) (*graph.Graph, *rand.Rand) {
	r := &grower{rng: rand.New(rand.NewPCG(seed, 77)), g: graph.New(fmt.Sprint("seed", seed), kernels.Lookup)}
	n, h, w := 1+r.rng.IntN(3), 2+r.rng.IntN(4), 2+r.rng.IntN(5)
	r.vals = []*graph.Value{r.g.Input("a", f32, n, 4, h, w), r.g.InputFormat("b", f32, tensor.ChannelsLast, n, 4, h, w)}
	image, _ := tensor.NewFormat(f32, []int{n, 4, h, w}, tensor.ChannelsLast)
	r.g.Constant("image", tensor.Empty(image))
	r.g.Input("w", f32, 4, 4, 3, 3)
	r.g.InputFormat("wl", f32, tensor.ChannelsLast, 4, 4, 3, 3)
	r.g.Constant("k", tensor.Zeros(f32, 4, 4, 3, 3))
	r.g.Constant("one", tensor.Zeros(f32, 4, 4, 1, 1))
	r.g.Constant("depth", tensor.Zeros(f32, 4, 1, 3, 3))
	list := joinedSteps()
	for n := 3 + r.rng.IntN(8); len(r.g.Nodes) < n; {
		v := r.value()
		d, e := 0, 0
		if n := v.Meta.Rank(); n > 0 {
			d, e = r.rng.IntN(n), r.rng.IntN(n)
		}
		out := list[r.rng.IntN(len(list))](r, v, d, e)
		if len(out) == 0 {
			continue
		}
		if rank := out[0].Meta.Rank(); rank > 1 && r.rng.IntN(14) == 0 {
			out[0].PinnedTo(r.pin(rank))
		}
	}
	r.outputs()
	return r.g, r.rng
}

// The plans of graphs that join values have the cost of the solver's optimum, which brute force confirms, and pinned
// values have their layouts.
func TestOptimumOfJoins(t *testing.T) {
	testsize.Long(t)
	compared, placed := 0, 0
	for seed := range uint64(randomGraphs(300)) {
		g, rng := joinedGraph(seed)
		require.NoError(t, g.Err(), "seed %d", seed)
		profile := randomProfile(rng)
		j := &judged{t: t, rng: rng, brute: true}
		plan, err := passes.Run(g, passes.Options{Strategy: j, Profile: profile})
		if j.refused != nil {
			continue
		}
		require.NoError(t, err, "seed %d", seed)
		cost := float64(costOfPlan(j.profile, plan.Graph)) + 1000*plan.SavedNS
		require.InDelta(t, j.solution.Cost, cost, 1, "seed %d: the plan is priced otherwise", seed)
		for _, s := range []layout.Strategy{j, layout.Propagate} {
			plan, err := passes.Run(g, passes.Options{Strategy: s, Profile: profile})
			if err == nil {
				require.NoError(t, graph.Verify(plan.Graph, graph.Sorted|graph.Typed|graph.LaidOut), "seed %d", seed)
			}
		}
		if j.compared {
			compared++
		}
		placed += len(plan.Placed)
	}
	require.Greater(t, compared, int(randomGraphs(300))/3)
	require.Greater(t, placed, int(randomGraphs(300))/3)
}

// The operand of a pinned view is not written within the result of a concatenation if the view would then have another
// layout.
func TestPinnedViewsStayPinned(t *testing.T) {
	for _, s := range layout.All() {
		g := graph.New("pinned", kernels.Lookup)
		a := g.Input("a", f32, 3, 4, 3, 4)
		order, err := tensor.NewOrder(0, 3, 4, 2, 1)
		require.NoError(t, err)
		turned := g.Apply("contiguous", graph.Attrs{"memory_format": "channels_last"}, g.Apply("relu", nil, a)[0])[0]
		view := g.Apply("unsqueeze", graph.Attrs{"dim": 2}, turned)[0].PinnedTo(graph.Pin{Order: order})
		other := g.Apply("contiguous", graph.Attrs{"memory_format": "channels_last"}, g.Apply("neg", nil, a)[0])[0]
		g.Output("joined", g.Apply("neg", nil, g.Apply("cat", graph.Attrs{"dim": 3}, turned, other)[0])[0])
		g.Output("view", g.Apply("tanh", nil, view)[0])
		require.NoError(t, g.Err())
		p, err := passes.Run(g, passes.Options{Strategy: s})
		require.NoError(t, err, s.Name())
		require.NoError(t, graph.Verify(p.Graph, graph.Sorted|graph.Typed|graph.LaidOut), s.Name())
	}
}

// A value without elements has the layout of any pin, under every strategy.
func TestPinsOfNothing(t *testing.T) {
	for _, s := range layout.All() {
		g := graph.New("nothing", kernels.Lookup)
		x := g.Apply("relu", nil, g.Input("x", f32, 2, 4, 3, 5))[0]
		none := g.Apply("slice", graph.Attrs{"dim": 1, "start": 0, "end": 0}, x)[0]
		g.OutputFormat("y", none, tensor.ChannelsLast)
		require.NoError(t, g.Err())
		p, err := passes.Run(g, passes.Options{Strategy: s, Check: true})
		require.NoError(t, err, s.Name())
		require.True(t, slices.Equal([]int{2, 0, 3, 5}, p.Graph.Outputs[0].Value.Meta.Shape))
	}
}
