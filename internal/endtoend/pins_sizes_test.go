package endtoend_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// watcher records the plans of a program, by a pass after all others.
type watcher struct {
	mu    sync.Mutex
	plans []*passes.Plan
}

func (l *watcher) passes(t *testing.T) []passes.Pass {
	list, err := passes.After(passes.Passes(), "place", passes.Pass{Name: "keep", Doc: "keeps the plan",
		Run: func(p *passes.Plan) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.plans = append(l.plans, p)
			return nil
		}})
	require.NoError(t, err)
	return list
}

// Pins apply to the plans for the sizes of each run.
func TestPinsAtSizes(t *testing.T) {
	testsize.Long(t)
	last, rows := graph.Pin{Format: tensor.ChannelsLast}, graph.Pin{Format: tensor.Contiguous}
	plain, err := graphrun.Load(ctx, "../../examples/models/residual.json")
	require.NoError(t, err)
	inputs, wants := map[int]map[string]*tensor.Tensor{}, map[int]map[string]*tensor.Tensor{}
	for _, n := range []int{1, 3, 5} {
		bound := plain.Clone()
		require.NoError(t, bound.Bind(map[string]int{"N": n}))
		inputs[n] = filled(bound, uint64(n))
		wants[n], err = graph.Evaluate(bound, inputs[n])
		require.NoError(t, err)
	}
	for _, s := range layout.All() {
		for _, pins := range []map[string]graph.Pin{{"image": rows, "w1": rows}, {"skip": last, "act1": rows},
			{"joined": last}} {
			g := plain.Clone()
			for name, pin := range pins {
				require.NoError(t, g.Pin(name, pin))
			}
			require.NoError(t, g.Infer())
			var seen watcher
			p, err := graphrun.Compile(ctx, g, graphrun.Options{Strategy: s, Threads: 1, Passes: seen.passes(t)})
			require.NoError(t, err, s.Name())
			for n, in := range inputs {
				got, err := p.Run(t.Context(), in)
				require.NoError(t, err, "%s, N=%d", s.Name(), n)
				require.True(t, slices.EqualFunc(floats(wants[n]["y"]), floats(got["y"]), nearFloat), "%s, N=%d", s.Name(), n)
			}
			sizes := map[int]bool{}
			for _, plan := range seen.plans {
				require.Equal(t, len(pins), checkPins(t, g, plan.Graph), "%s: %v", s.Name(), pins)
				sizes[plan.Graph.Value("skip").Meta.Shape[0]] = true
			}
			require.Subset(t, slices.Collect(maps.Keys(sizes)), []int{1, 3, 5}, "each size has a program")
		}
	}
}

// filled returns random inputs for a graph with known sizes.
func filled(g *graph.Graph, seed uint64) map[string]*tensor.Tensor {
	fill := &joiner{rng: rand.New(rand.NewPCG(seed, 6))}
	in := map[string]*tensor.Tensor{}
	for _, v := range g.Inputs {
		in[v.Name] = fill.fill(v.Meta)
	}
	return in
}

// Pins apply to values whose shapes depend on data, both results of the op that decides a shape and later values.
func TestPinsOfDataDependentShapes(t *testing.T) {
	columns := graph.Pin{Order: orderOf(t, 1, 0)}
	for _, s := range layout.All() {
		g := graph.New("taken", kernels.Lookup)
		x := g.Input("x", f32, 6, 4)
		at := g.Apply("nonzero", nil, g.Apply("gt", graph.Attrs{"other": 0}, x)[0])[0].Named("at")
		rows := g.Apply("select", graph.Attrs{"dim": 1, "index": 0}, at)[0]
		taken := g.Apply("index_select", graph.Attrs{"dim": 0}, x, rows)[0].Named("taken")
		g.Output("at", at)
		g.Output("twice", g.Apply("mul", graph.Attrs{"other": 2}, taken)[0])
		require.NoError(t, g.Err())
		for _, name := range []string{"at", "taken"} {
			require.NoError(t, g.Pin(name, columns))
		}
		require.NoError(t, g.Infer())
		var seen watcher
		p, err := graphrun.Compile(ctx, g, graphrun.Options{Strategy: s, Threads: 1, Passes: seen.passes(t)})
		require.NoError(t, err, s.Name())
		for _, n := range []int{0, 1, 7, 24} {
			data := make([]float32, 24)
			for i := range n {
				data[i] = float32(i + 1)
			}
			in := map[string]*tensor.Tensor{"x": tensor.Must(tensor.FromSlice(data, 6, 4))}
			got, err := p.Run(t.Context(), in)
			require.NoError(t, err, "%s, %d", s.Name(), n)
			require.Equal(t, []int{n, 2}, got["at"].Shape)
			require.True(t, columns.Matches(got["at"].Meta), "%s: %v", s.Name(), got["at"].Meta)
			for i := range n {
				require.EqualValues(t, i/4, got["at"].At(i, 0).Int())
				require.EqualValues(t, 2*data[i/4*4], got["twice"].At(i, 0).Float())
			}
		}
		found := map[int]bool{}
		for _, plan := range seen.plans {
			if v := plan.Graph.Value("taken"); v != nil {
				require.True(t, columns.Matches(v.Meta), "%s: %v", s.Name(), v.Meta)
				found[v.Meta.Shape[0]] = true
			}
		}
		require.Subset(t, slices.Collect(maps.Keys(found)), []int{1, 7, 24})
	}
}

// If an op decides a rank in a run, and a pin does not fit it, the error names the node.
func TestPinOfUnknownRank(t *testing.T) {
	g := graph.New("places", kernels.Lookup)
	g.Output("at", g.Apply("nonzero", nil, g.Input("x", f32, 3, 4))[0].Named("at"))
	require.NoError(t, g.Pin("at", graph.Pin{Format: tensor.ChannelsLast}))
	require.NoError(t, g.Infer())
	p, err := graphrun.Compile(ctx, g, graphrun.Options{})
	require.NoError(t, err)
	_, err = p.Run(t.Context(), filled(g, 1))
	require.ErrorContains(t, err, `node "at" (nonzero): required rank 4 tensor to use channels_last format`)
}

func orderOf(t *testing.T, dims ...int) tensor.Order {
	o, err := tensor.NewOrder(dims...)
	require.NoError(t, err)
	return o
}
