package passes_test

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// convs is a graph in which three convolutions read one weight: two of them in one form.
func convs(t *testing.T) *graph.Graph {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 2, 4, 6, 6)
	w := tensor.Zeros(f32, 8, 4, 3, 3)
	for i := range w.Numel() {
		w.SetFlat(i, tensor.IntScalar(int64(i%7-3)))
	}
	c := g.Constant("w", w)
	g.Output("a", op.Conv2d(x, c, nil).Named("a")).Output("b",
		op.Conv2d(x, c, nil, op.Conv2dAttrs{Padding: []int{1, 1}}).Named("b"))
	last := op.Contiguous(x, op.ContiguousAttrs{MemoryFormat: tensor.ChannelsLast})
	g.Output("c", op.Conv2d(last, c, nil).Named("c"))
	require.NoError(t, g.Err())
	return g
}

func names(list []*graph.Value) (names []string) {
	for _, v := range list {
		names = append(names, v.Name)
	}
	return names
}

// A constant is packed once for a form, and the original goes when nobody reads it as it was.
func TestConstantsArePacked(t *testing.T) {
	g := convs(t)
	p := run(t, g, "")
	require.Len(t, p.Packed, 2)
	assert.Equal(t, []string{"a", "b"}, p.Packed[0].Readers, "one form for both")
	assert.Equal(t, []string{"c"}, p.Packed[1].Readers)
	assert.NotEqual(t, p.Packed[0].Form, p.Packed[1].Form)
	assert.Equal(t, []string{"w.packed", "w.packed.1"}, names(p.Graph.Constants), "the original is gone")
	assert.Equal(t, []string{"w"}, names(g.Constants), "the graph given is not changed")
	for i, v := range p.Graph.Constants {
		assert.Equal(t, p.Packed[i].Bytes, v.Meta.Bytes())
		assert.Equal(t, g.Constants[0].Const.Meta, v.Data().Meta)
	}
	// What the graph means is reached through the packed operands.
	in := map[string]*tensor.Tensor{"x": tensor.Zeros(f32, 2, 4, 6, 6)}
	for i := range in["x"].Numel() {
		in["x"].SetFlat(i, tensor.IntScalar(int64(i%5)))
	}
	want, err := graph.Evaluate(g, in)
	require.NoError(t, err)
	got, err := graph.Evaluate(p.Graph, in)
	require.NoError(t, err)
	for name, w := range want {
		a, err := tensor.ToSlice[float32](w)
		require.NoError(t, err)
		b, err := tensor.ToSlice[float32](got[name])
		require.NoError(t, err)
		require.Equal(t, a, b, name)
	}
	// Saved, the constants are laid out as people know them.
	var text bytes.Buffer
	require.NoError(t, graphfile.Save(&text, p.Graph))
	back, err := graphfile.Read(&text, kernels.Lookup, graphfile.Options{Name: "g.json"})
	require.NoError(t, err)
	assert.Equal(t, g.Constants[0].Const.Meta, back.Constants[0].Meta)
}

// An original that somebody reads as it was stays.
func TestPackedOriginalStays(t *testing.T) {
	g := convs(t)
	g.Output("sum", op.Add(g.Constants[0], g.Input("y", f32, 1)))
	require.NoError(t, g.Err())
	p := run(t, g, "")
	assert.True(t, slices.Contains(names(p.Graph.Constants), "w"))
	assert.Len(t, p.Packed, 2)
}

// The verifier holds packed operands to the implementation that reads them.
func TestPackedOtherwiseIsRefused(t *testing.T) {
	g := convs(t)
	mess := func(p *passes.Plan) error {
		for _, n := range p.Graph.Nodes {
			if n.Name == "a" {
				n.In[1].Value = p.Graph.Value("w.packed.1")
			}
		}
		return nil
	}
	list, err := passes.After(passes.Passes(), "pack", passes.Pass{Name: "mess", Run: mess})
	require.NoError(t, err)
	_, err = passes.Run(g, passes.Options{Passes: list, Check: true})
	assert.ErrorContains(t, err, `after pass mess: node "a" (conv2d): operand 1, "w.packed.1", is packed as`)
	_, err = graph.PackConstant(g.Inputs[0], graph.Packing{})
	assert.ErrorContains(t, err, "only a constant")
	_, err = g.Pack(g.Inputs[0], graph.Packing{})
	assert.ErrorContains(t, err, "a packing needs a Format and a Fill function")
	_, err = g.Pack(nil, graph.Packing{})
	assert.ErrorContains(t, err, "the value to pack is not in the graph")
}

// Weights that come from constants in several steps are folded first and packed then.
func TestFoldedConstantsArePacked(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x, w := g.Input("x", f32, 9, 40), g.Constant("w", tensor.Zeros(tensor.Float16, 40, 70))
	g.Output("y", op.Matmul(x, op.To(w, op.ToAttrs{DType: f32}).Named("wide")))
	require.NoError(t, g.Err())
	for _, s := range layout.All() {
		p, err := passes.Run(g, passes.Options{Strategy: s, Check: true})
		require.NoError(t, err)
		require.Len(t, p.Packed, 1)
		assert.Equal(t, "wide", p.Packed[0].Original)
		assert.Equal(t, []string{p.Packed[0].Value}, names(p.Graph.Constants))
	}
}

// A node packs each constant, and fold computes it: the plan says for whom, and what is packed in every run.
func TestPackingIsANodeThatFolds(t *testing.T) {
	var packs []string
	look := func(p *passes.Plan) error {
		for _, n := range p.Graph.Nodes {
			if n.Packing() != nil {
				packs = append(packs, n.Name+": "+n.Why)
			}
		}
		assert.ErrorContains(t, graphfile.Save(new(bytes.Buffer), p.Graph), `node "w.packed" packs a constant for an implementation`)
		return nil
	}
	list, err := passes.After(passes.Passes(), "lower", passes.Pass{Name: "look", Run: look})
	require.NoError(t, err)
	p, err := passes.Run(convs(t), passes.Options{Passes: list, Check: true})
	require.NoError(t, err)
	assert.Equal(t, []string{"w.packed: packed for a, b", "w.packed.1: packed for c"}, packs)
	require.Len(t, p.Folded, 2)
	first := report.Folding{Node: "w.packed", Op: "pack", Bytes: p.Packed[0].Bytes, Why: "packed for a, b"}
	assert.Equal(t, first, p.Folded[0])
	assert.Empty(t, p.PackedInRuns)

	g := graph.New("g", kernels.Lookup)
	g.Output("y", op.Matmul(g.Input("a", f32, 30, 40), g.Input("b", f32, 40, 50)).Named("y"))
	require.NoError(t, g.Err())
	p = run(t, g, "")
	require.Len(t, p.PackedInRuns, 2)
	assert.Equal(t, "a", p.PackedInRuns[0].Value)
	assert.Contains(t, p.PackedInRuns[1].Form, "panels")
}

// Where memory is short a constant stays as it is, for all its readers.
func TestPackingThatDoesNotFoldIsTakenBack(t *testing.T) {
	short := func(p *passes.Plan) error {
		for _, n := range p.Graph.Nodes {
			if n.Name == "w.packed" {
				n.Packing().Fill = func(context.Context, *tensor.Tensor, *tensor.Tensor) { panic(&tensor.MemoryError{Bytes: 1}) }
			}
		}
		return nil
	}
	list, err := passes.After(passes.Passes(), "lower", passes.Pass{Name: "short", Run: short})
	require.NoError(t, err)
	p, err := passes.Run(convs(t), passes.Options{Passes: list, Check: true})
	require.NoError(t, err)
	assert.Equal(t, []string{"w", "w.packed.1"}, names(p.Graph.Constants))
	assert.Equal(t, []string{"contiguous", "conv2d", "conv2d", "conv2d"}, slices.Sorted(slices.Values(ops(p))))
	require.Len(t, p.PackedInRuns, 2)
	assert.Equal(t, "w", p.PackedInRuns[0].Value)
	require.Len(t, p.Packed, 1)
}
