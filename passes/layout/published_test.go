package layout

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

const f32 = tensor.Float32

// modelOf returns the model of a graph.
func modelOf(t *testing.T, g *graph.Graph) *Model {
	t.Helper()
	require.NoError(t, g.Err())
	m, err := NewModel(NewProblem(g, nil))
	require.NoError(t, err)
	return m
}

// costOf returns the cost of the cheapest plan with the labels of a strategy.
func costOf(t *testing.T, m *Model, s Strategy) int64 {
	t.Helper()
	labels, err := s.(*perNode).labels(m)
	require.NoError(t, err)
	fixed := map[int]int{}
	for i, l := range labels {
		if computed := m.computedNodes[i]; computed != nil && computed.id >= 0 {
			fixed[computed.id] = l
		}
	}
	sol, err := m.Solve(Changed{Fixed: fixed, Limits: &wcsp.Options{TimeLimit: -1}})
	require.NoError(t, err)
	return sol.Cost
}

// optimum returns the least cost of a model.
func optimum(t *testing.T, m *Model) int64 {
	t.Helper()
	sol, err := wcsp.Exact.Solve(m.WCSP, wcsp.Options{TimeLimit: -1})
	require.NoError(t, err)
	require.True(t, sol.Optimal())
	return sol.Cost
}

// forest makes graphs in which each value has one reader.
type forest struct {
	*graph.Graph
	rng      *rand.Rand
	products bool // only convolutions
	names    int
}

func (f *forest) name() string {
	f.names++
	return fmt.Sprint("v", f.names)
}

// conv returns the convolution of a value, with constant weights.
func (f *forest) conv(v *graph.Value, channels, size int) *graph.Value {
	w := f.Constant(f.name(), tensor.Empty(tensor.New(f32, channels, v.Meta.Shape[1], size, size)))
	return op.Conv2d(v, w, nil, op.Conv2dAttrs{Padding: []int{size / 2}})
}

// tree returns a value that random nodes compute from inputs.
func (f *forest) tree(depth int) *graph.Value {
	if depth == 0 {
		format := []tensor.MemoryFormat{tensor.Contiguous, tensor.ChannelsLast}[f.rng.IntN(2)]
		return f.InputFormat(f.name(), f32, format, 1, 1+f.rng.IntN(20), 16, 16)
	}
	v := f.tree(depth - 1)
	kind := f.rng.IntN(6)
	if f.products {
		kind = 0
	}
	switch kind {
	case 0, 1:
		return f.conv(v, 1+f.rng.IntN(40), 1+2*f.rng.IntN(2))
	case 2:
		return op.Relu(v)
	case 3:
		return op.MaxPool2d(v, []int{3, 3}, op.MaxPool2dAttrs{Stride: []int{1}, Padding: []int{1}})
	case 4:
		return op.Permute(v, []int{0, 1, 3, 2})
	}
	return op.Add(v, f.conv(f.tree(f.rng.IntN(depth)), v.Meta.Shape[1], 1))
}

// TestExactOnTrees checks that PBQP finds the optimum if each value has one reader, so that a copy for each reader is
// the same as a shared copy, and NeoCPU if all nodes are convolutions, too. The problem of [Model] is independent of
// [edgeModel].
func TestExactOnTrees(t *testing.T) {
	dearer := 0
	for seed := range uint64(120) {
		for _, products := range []bool{false, true} {
			f := &forest{Graph: graph.New("g", kernels.Lookup), rng: rand.New(rand.NewPCG(seed, 5)), products: products}
			f.Output("y", f.tree(5))
			m := modelOf(t, f.Graph)
			best := optimum(t, m)
			assert.Equal(t, best, costOf(t, m, PBQP), "seed %d", seed)
			cost := costOf(t, m, NeoCPU)
			if products {
				assert.Equal(t, best, cost, "seed %d", seed)
			}
			assert.LessOrEqual(t, best, cost)
			if costOf(t, m, Greedy) > best {
				dearer++
			}
		}
	}
	assert.Greater(t, dearer, 20, "the optimum is easy")
}

// TestCopyForEachReader checks the price of two readers that want the same copy: PBQP pays it twice, the plan once.
func TestCopyForEachReader(t *testing.T) {
	f := &forest{Graph: graph.New("g", kernels.Lookup)}
	x := f.Input("x", f32, 1, 32, 32, 32)
	f.Output("a", op.Mean(f.conv(x, 64, 3), op.MeanAttrs{Dim: []int{2, 3}}))
	f.Output("b", op.Mean(f.conv(x, 64, 3), op.MeanAttrs{Dim: []int{2, 3}}))
	m := modelOf(t, f.Graph)
	e := newEdgeModel(m, nil)
	sol, err := wcsp.PBQP.Solve(e.problem, wcsp.Options{})
	require.NoError(t, err)
	v := m.variables.At(x)
	last := v.formWithOrder(channelsLastOrder(4))
	require.Positive(t, last)
	assert.Equal(t, costOf(t, m, PBQP)+m.copyCostMatrix(v)[last], sol.Cost)
}

// results returns the layouts in which the nodes of a graph write their first results under a strategy, by op.
func results(t *testing.T, g *graph.Graph, s Strategy) map[string]string {
	t.Helper()
	require.NoError(t, g.Err())
	a, err := s.Choose(NewProblem(g, nil))
	require.NoError(t, err)
	list := map[string]string{}
	for i, n := range g.Nodes {
		o := a.Nodes[i].Walk.ResultOrders
		list[n.Out[0].Name] = ""
		if len(o) > 0 {
			list[n.Out[0].Name] = o[0].String()
		}
	}
	return list
}

// TestOneDNNFollows checks that a node that is not compute-bound has the layout of its first operand, and that a
// convolution takes its fastest implementation whatever its operand has.
func TestOneDNNFollows(t *testing.T) {
	f := &forest{Graph: graph.New("g", kernels.Lookup)}
	x := f.Input("x", f32, 1, 32, 32, 32)
	pool := func(v *graph.Value) *graph.Value {
		return op.MaxPool2d(v, []int{3, 3}, op.MaxPool2dAttrs{Stride: []int{1}, Padding: []int{1}})
	}
	before := pool(x).Named("before")
	conv := f.conv(before, 32, 3).Named("conv")
	after := pool(op.Relu(conv).Named("relu")).Named("after")
	f.Output("a", op.Mean(op.Add(after, x).Named("first"), op.MeanAttrs{Dim: []int{2, 3}}))
	f.Output("b", op.Mean(op.Add(x, after).Named("second"), op.MeanAttrs{Dim: []int{2, 3}}))
	got := results(t, f.Graph, OneDNN)
	want := map[string]string{"before": "contiguous", "conv": "channels_last", "relu": "channels_last",
		"after": "channels_last", "first": "channels_last", "second": "contiguous"}
	for name, layout := range want {
		assert.Equal(t, layout, got[name], name)
	}
}

// TestSmartMemWishes checks that producers write what their readers want, through views and element-wise nodes, that
// most readers decide, and on a tie the first.
func TestSmartMemWishes(t *testing.T) {
	f := &forest{Graph: graph.New("g", kernels.Lookup)}
	x := f.Input("x", f32, 1, 32, 32, 32)
	wished := op.Relu(op.Neg(x).Named("neg")).Named("wished") // for a convolution
	conv := f.conv(wished, 32, 3).Named("conv")
	turned := op.Exp(conv).Named("turned") // for a convolution of its transpose
	f.Output("a", f.conv(op.Permute(turned, []int{0, 1, 3, 2}), 32, 3).Named("transposed"))
	joined := op.Cat([]*graph.Value{x, op.Cos(x).Named("part")}, op.CatAttrs{Dim: 0}).Named("joined")
	f.Output("b", f.conv(joined, 32, 3).Named("last")) // its wish passes the concatenation
	f.Output("plain", op.Sigmoid(x).Named("sigmoid"))
	for _, name := range []string{"conv", "transposed", "last"} { // on any instruction set
		require.NoError(t, f.Pin(name, graph.Pin{Impl: "nhwc"}))
	}
	got := results(t, f.Graph, SmartMem)
	assert.Equal(t, "channels_last", got["joined"])
	assert.Equal(t, "channels_last", got["part"])
	assert.Equal(t, "channels_last", got["neg"])
	assert.Equal(t, "channels_last", got["wished"])
	assert.Equal(t, "channels_last", got["conv"])
	assert.Equal(t, "0,3,2,1", got["turned"], "channels-last after the permutation")
	assert.Equal(t, "contiguous", got["sigmoid"], "as the output demands")

	w := wishList{graph.NewByValue[[]int](f.Graph)}
	assert.Equal(t, -1, w.mostWanted(x))
	for _, c := range []struct{ add, want int }{{1, 1}, {2, 2}, {1, 1}, {2, 2}, {0, 2}} {
		w.add(x, c.add) // the last reader first
		assert.Equal(t, c.want, w.mostWanted(x))
	}
}

// TestInductorRule checks the conditions of decide_layout_opt on convolutions of equal images, which have a number of
// operations proportional to the number of their weights.
func TestInductorRule(t *testing.T) {
	convs := func(weights ...[5]int) []*graph.Node { // groups, out, in/groups, height, width
		g := graph.New("g", kernels.Lookup)
		for i, w := range weights {
			x := g.Input(fmt.Sprint("x", i), f32, 1, w[0]*w[2], 8, 8)
			op.Conv2d(x, g.Input(fmt.Sprint("w", i), f32, w[1], w[2], w[3], w[4]), nil,
				op.Conv2dAttrs{Groups: &w[0], PaddingWord: "same"})
		}
		require.NoError(t, g.Err())
		for _, n := range g.Nodes {
			require.True(t, isConvolution(n))
		}
		return g.Nodes
	}
	usual, grouped, depthwise := [5]int{1, 128, 128, 3, 3}, [5]int{2, 128, 128, 3, 3}, [5]int{64, 64, 1, 3, 3}
	for _, c := range []struct {
		about string
		convs []*graph.Node
		nodes int
		want  bool
	}{
		{"no convolution", nil, 10, false},
		{"a usual convolution", convs(usual), 10, true},
		{"the most nodes for each convolution", convs(usual, usual), 599, true},
		{"too many nodes for each convolution", convs(usual, usual), 600, false},
		{"a grouped convolution", convs(grouped), 10, false},
		{"grouped ones as large as usual ones", convs(grouped, usual), 10, false},
		{"grouped ones a third of all: 1.358 + 2*0.823 = 3.004", convs(grouped, usual, usual), 10, false},
		{"grouped ones a quarter of all: 1.358 + 3*0.823 = 3.827", convs(grouped, usual, usual, usual), 10, true},
		{"a third, the others with fewer results: 1.358 + 2*0.725 = 2.808",
			convs([5]int{2, 64, 128, 3, 3}, [5]int{1, 64, 128, 3, 3}, [5]int{1, 64, 128, 3, 3}), 10, true},
		{"a third, the others small: 1.358 + 2*0.783 = 2.924",
			convs([5]int{2, 64, 64, 3, 3}, [5]int{1, 64, 64, 3, 3}, [5]int{1, 64, 64, 3, 3}), 10, true},
		{"depthwise is not grouped", convs(depthwise), 10, true},
	} {
		assert.Equal(t, c.want, channelsLastIsFaster(c.convs, c.nodes), c.about)
	}
	for class, w := range map[string][5]int{"grouped": {2, 64, 2, 3, 3}, "small": {1, 64, 64, 3, 3},
		"fewer results": {1, 65, 130, 2, 1}, "default": {1, 65, 130, 1, 2}} {
		assert.Equal(t, class, classOf(convs(w)[0]).name)
	}
}

// TestInductorChoice checks that all convolutions read and write channels-last and other nodes follow, or nothing
// differs from eager PyTorch.
func TestInductorChoice(t *testing.T) {
	for _, groups := range []int{1, 2} {
		f := &forest{Graph: graph.New("g", kernels.Lookup)}
		x := f.Input("x", f32, 1, 32, 16, 16)
		before := op.Exp(op.Relu(x).Named("relu")).Named("before")
		w := f.Constant("w", tensor.Empty(tensor.New(f32, 32, 32/groups, 3, 3)))
		conv := op.Conv2d(before, w, nil, op.Conv2dAttrs{Groups: &groups}).Named("conv")
		after := op.MaxPool2d(op.Sigmoid(conv).Named("sigmoid"), []int{2, 2}).Named("after")
		f.Output("y", op.Mean(after, op.MeanAttrs{Dim: []int{2, 3}}))
		require.NoError(t, f.Err())
		p := NewProblem(f.Graph, nil)
		a, err := Inductor.Choose(p)
		require.NoError(t, err)
		if groups == 2 {
			eager, err := Propagate.Choose(p)
			require.NoError(t, err)
			assert.Equal(t, eager.Nodes, a.Nodes)
			continue
		}
		last := channelsLastOrder(4)
		for i, n := range f.Nodes {
			c, v := a.Nodes[i], n.Out[0]
			written := c.Walk.ResultLayout(0, v.Meta)
			switch v.Name {
			case "relu":
				assert.True(t, written.IsContiguous(), "it is before the operand of the convolution")
			case "before", "conv":
				assert.True(t, last.Matches(written) || len(c.ResultCopies) == 1 && c.ResultCopies[0].Order == last, v.Name)
			case "sigmoid", "after":
				assert.Empty(t, c.ResultCopies, v.Name)
			}
		}
	}
}
