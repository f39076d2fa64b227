package graph_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// joined is a graph in which a and b lie where their join has them, as channels 0 to 2 and 2 to 5.
func joined(t *testing.T) *graph.Graph {
	g := graph.New("joined", kernels.Lookup)
	x, y := g.Input("x", tensor.Float32, 2, 2, 3), g.Input("y", tensor.Float32, 2, 3, 3)
	a, b := op.Relu(x).Named("a"), op.Neg(y).Named("b")
	c := op.Cat([]*graph.Value{a, b, a}, op.CatAttrs{Dim: 1}).Named("c")
	g.Output("c", c)
	must(t, g.Err())
	for _, n := range g.Nodes {
		n.Impl = &n.Op.Impls[0]
	}
	for i, place := range c.Node.Places()[:2] {
		m, _ := place.Meta()
		v := c.Node.In[i].Value
		v.ContainedIn = c
		v.SetMeta(m)
	}
	return g
}

func TestLiesWithin(t *testing.T) {
	g := joined(t)
	require.NoError(t, graph.Verify(g, all))
	c := g.Value("c")
	assert.Equal(t, []bool{true, true, false}, c.Node.Call().InPlace, "the second a is copied")
	assert.Same(t, c, g.Value("b").BufferOwner())
	assert.Equal(t, 6, g.Value("b").Meta.Offset)
	assert.Zero(t, g.Value("b").Node.Call().Out[0].Offset, "kernels are given the address of the first element")
	again := g.Clone()
	assert.Same(t, again.Value("c"), again.Value("a").ContainedIn)
	assert.Nil(t, g.Value("a").Node.Places())
	assert.NoError(t, c.Node.CheckProps())
}

// A node whose operand moves is held to what it reads of that, and its work is that of its parts.
func TestWorkAndHoldsByOperand(t *testing.T) {
	g := joined(t)
	c, b := g.Value("c"), g.Value("b")
	n := c.Node
	parts := func(asked func(int) bool) map[int]pricing.Work {
		m := map[int]pricing.Work{}
		require.True(t, n.EachWork(asked, func(i int, w pricing.Work) { m[i] = w }))
		return m
	}
	isB := func(i int) bool { return i >= 0 && n.In[i].Value == b }
	there := parts(nil)
	require.Len(t, there, 1+len(n.In))
	require.Equal(t, []pricing.Work{there[-1], there[2]}, n.WorkParts(), "what lies in place takes nothing")
	require.Positive(t, there[2].Footprint)

	typ, meta := b.Type, b.Meta
	b.ContainedIn = nil
	b.SetMeta(tensor.New(meta.DType, meta.Shape...))
	moved := parts(isB)
	require.Len(t, moved, 1)
	there[1] = moved[1]
	require.Equal(t, parts(nil), there, "others are as they were")
	require.Equal(t, []pricing.Work{there[-1], there[1], there[2]}, n.WorkParts())
	require.NoError(t, n.RecheckProps(func(v *graph.Value) bool { return v == b }))
	read := n.Impl.OperandWorkFunc(n.Call(), n.Walk)
	for i, a := range n.In {
		want, ok := n.Impl.Read(n.Call(), n.Walk, i, a.Meta())
		got, does := read(i, a.Meta())
		require.Equal(t, want, got)
		require.Equal(t, ok, does)
	}

	picky := *n.Impl
	refuses := func(c *graph.Call, w graph.Walk, i int, m tensor.Meta) (pricing.Work, bool) {
		return pricing.Work{}, m.Offset == 0
	}
	n.Impl = &graph.Impl{Name: picky.Name, Walks: picky.Walks, Work: picky.Work, Read: refuses, Writes: picky.Writes}
	b.Type, b.Meta, b.ContainedIn = typ, meta, c
	require.ErrorContains(t, n.RecheckProps(func(v *graph.Value) bool { return v == b }), "the layout of operand 1")
	require.NoError(t, n.RecheckProps(func(v *graph.Value) bool { return v != b }), "b is not checked")
	require.False(t, (*graph.Node)(nil).EachWork(nil, nil))
	require.Error(t, (*graph.Node)(nil).RecheckProps(nil))
}

func TestVerifyFindsWhatLiesWrongWithin(t *testing.T) {
	for want, breakIt := range map[string]func(g *graph.Graph){
		`it writes elements of "c" that a also writes`: func(g *graph.Graph) { g.Value("b").Meta.Offset = 3 },
		`it writes elements of "c" that b also writes`: func(g *graph.Graph) { g.Value("b").Meta.Offset = 9 },
		`is not a slice of "c"`:                        func(g *graph.Graph) { g.Value("b").Meta.Offset = 15 },
		`has a producer or shares storage`:             func(g *graph.Graph) { g.Value("x").ContainedIn = g.Value("c") },
		`which is not the result of a concatenation`:   func(g *graph.Graph) { g.Value("a").ContainedIn = g.Value("y") },
		`writes output 0 dense, but "a" is float32`: func(g *graph.Graph) {
			dense := *g.Value("a").Node.Impl
			dense.Writes = nil
			g.Value("a").Node.Impl = &dense
		},
	} {
		g := joined(t)
		breakIt(g)
		err := graph.Verify(g, all)
		if assert.Error(t, err, want) {
			assert.Contains(t, err.Error(), want)
		}
	}
}
