package passes_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// planned plans a graph with the default passes.
func planned(t *testing.T, g *graph.Graph) *passes.Plan {
	t.Helper()
	require.NoError(t, g.Infer())
	p, err := passes.Run(g, passes.Options{Strategy: layout.Propagate, Check: true})
	require.NoError(t, err)
	return p
}

// unfused allows literals without keys.
type unfused report.Unfused

// Of two nodes that could share a loop, one of which reads the other, and that are not one step it is told why.
func TestApart(t *testing.T) {
	long := "has rows of 300000 elements; the limit is 65536"
	squares := "its readers broadcast its reduced values along other dimensions"
	more := "the step of b reads more than the reduced rows of s"
	cut := "its rows are processed in pieces: readers of its results run in a later step"
	carries := "carries a running value from element to element in its own kernel"
	var scanned, indexed []unfused
	if !loops.CodeAvailable() {
		scanned = []unfused{{"a", "c", "c " + carries}, {"c", "b", "c " + carries}}
		indexed = []unfused{{"a", "b", "b reduces rows by a separate kernel"}}
		own := "reduces rows by a separate kernel"
		long, squares, more, cut = own, "s "+own, "s "+own, "s "+own
	}
	for _, c := range []struct {
		name  string
		build func(g *graph.Graph, x *graph.Value) *graph.Value
		want  []unfused
	}{
		{"fused", func(_ *graph.Graph, x *graph.Value) *graph.Value { return op.Add(op.Mul(x, x), x) }, nil},
		{"shapes", func(g *graph.Graph, x *graph.Value) *graph.Value {
			return op.Add(op.Mul(g.Input("row", f32, 3), 2).Named("a"), x).Named("b")
		}, []unfused{{"a", "b", "a iterates over [3], b over [2, 3]"}}},
		{"pinned", func(g *graph.Graph, x *graph.Value) *graph.Value {
			a := op.Mul(x, x).Named("a")
			require.NoError(t, g.Pin("a", graph.Pin{Impl: "loop"}))
			return op.Add(a, x).Named("b")
		}, []unfused{{"a", "b", "a is pinned, so it is a separate step"}}},
		{"no expression", func(g *graph.Graph, _ *graph.Value) *graph.Value {
			k := g.Input("k", tensor.Int64, 3)
			return op.Add(op.FloorDivide(k, k).Named("a"), k).Named("b")
		}, []unfused{{"a", "b", "a has no expression"}}},
		{"comes between", func(g *graph.Graph, _ *graph.Value) *graph.Value {
			z := g.Input("z", tensor.Complex64, 2, 3)
			a := op.Mul(z, z).Named("a")
			return op.Add(a, op.Cumprod(a, 1).Named("s")).Named("b")
		}, []unfused{{"a", "s", "s " + carries}, {"a", "b", "s also reads it, and comes earlier"},
			{"s", "b", "s " + carries}}},
		{"scan", func(_ *graph.Graph, x *graph.Value) *graph.Value {
			c := op.Cumsum(op.Mul(x, x).Named("a"), 1).Named("c")
			return op.Add(c, x).Named("b")
		}, scanned},
		{"index", func(_ *graph.Graph, x *graph.Value) *graph.Value {
			return op.Argmax(op.Mul(x, x).Named("a")).Named("b")
		}, indexed},
		{"rows as columns", func(g *graph.Graph, _ *graph.Value) *graph.Value {
			square := g.Input("square", f32, 3, 3)
			return op.Sub(square, op.Sum(square, op.SumAttrs{Dim: []int{1}}).Named("s")).Named("b")
		}, []unfused{{"s", "b", squares}}},
		{"more than rows leave", func(g *graph.Graph, x *graph.Value) *graph.Value {
			return op.Sub(op.Sum(x, op.SumAttrs{Dim: []int{1}}).Named("s"), g.Input("pair", f32, 2)).Named("b")
		}, []unfused{{"s", "b", more}}},
		{"long rows once", func(g *graph.Graph, _ *graph.Value) *graph.Value {
			long := g.Input("long", f32, 100_000)
			return op.Sub(long, op.Sum(long).Named("s")).Named("b")
		}, []unfused{{"s", "b", cut}}},
		{"two results, one reader of both", func(g *graph.Graph, _ *graph.Value) *graph.Value {
			long := g.Input("long", f32, 2, 300_000)
			variance, mean := op.VarMean(long, op.VarMeanAttrs{Dim: []int{1}})
			both := op.Add(variance, mean).Named("both")
			return op.Cat([]*graph.Value{both, op.Exp(variance).Named("one")})
		}, []unfused{{"var_mean", "both", "var_mean " + long}, {"var_mean", "one", "var_mean " + long}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := graph.New("g", kernels.Lookup)
			g.Output("y", c.build(g, g.Input("x", f32, 2, 3)))
			p := planned(t, g)
			var got []unfused
			for _, pair := range p.Unfused {
				got = append(got, unfused(pair))
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// A step has a bounded number of nodes, and what is beyond begins another. Nodes that are alike are asked once what
// they compute, and each group comes out as its own expression.
func TestLongChainsAreCut(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x, y := g.Input("x", f32, 4), g.Input("y", f32, 4)
	v := x
	for i := range 130 {
		if v = op.Add(v, y); i == 100 {
			v = op.Mul(v, y)
		}
		v = v.Named(fmt.Sprint("n", i))
	}
	g.Output("out", v)
	p := planned(t, g)
	require.Len(t, p.Groups, 3)
	assert.Len(t, p.Groups[2].Parts, 64)
	for _, a := range p.Unfused {
		assert.Equal(t, "a step has at most 64 nodes", a.Why)
	}
	assert.Len(t, p.Unfused, 2)
	muls := 0
	for _, n := range p.Graph.Nodes {
		for _, i := range n.Attrs.(*fusion.Fusion).Code().Insts {
			if i.Op.String() == "mul" {
				muls++
			}
		}
		assert.Same(t, n, p.Graph.Value(n.Out[0].Name).Node, "names lead to the new nodes")
	}
	assert.Equal(t, 1, muls)
	assert.Nil(t, p.Graph.Value("n5"), "what is inside has no name")
}

// Fusing refuses what cannot be one loop, and leaves the graph as it was.
func TestFuserRefuses(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 2, 3)
	a := op.Mul(x, x)
	s := op.Sum(a)
	b := op.Add(a, x)
	g.Output("y", b).Output("s", s)
	require.NoError(t, g.Infer())
	f, nodes := fusion.NewFuser(g), len(g.Nodes)
	all := func(*graph.Value) bool { return true }
	for what, groups := range map[string][]fusion.Group{
		"one node":     {{Nodes: []*graph.Node{a.Node}}},
		"no loop":      {{Nodes: []*graph.Node{a.Node, s.Node}}},
		"in two":       {{Nodes: []*graph.Node{a.Node, b.Node}}, {Nodes: []*graph.Node{a.Node, b.Node}}},
		"nothing":      {{Nodes: []*graph.Node{nil, nil}}},
		"other graphs": {{Nodes: []*graph.Node{a.Node, op.Exp(graph.New("h", kernels.Lookup).Input("x", f32, 2)).Node}}},
	} {
		_, err := f.Fuse(groups, all)
		assert.Error(t, err, what)
		assert.Len(t, g.Nodes, nodes, what)
		assert.Same(t, a.Node, g.Value(a.Name).Node, what)
	}
	_, err := f.Expression(s.Node)
	assert.ErrorContains(t, err, "no expression")
	made, err := f.Fuse([]fusion.Group{{Nodes: []*graph.Node{a.Node, b.Node}}}, all)
	require.NoError(t, err)
	assert.Equal(t, []tensor.DType{f32}, made[0].Attrs.(*fusion.Fusion).Code().In)
	assert.Len(t, g.Nodes, nodes-1)
}
