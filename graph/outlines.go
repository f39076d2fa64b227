package graph

import (
	"slices"

	"github.com/graphrun/graphrun/sym"
)

// Outlines tells of every value what is known before the graph, which must be inferred, has run: all of
// it, or, where its shape depends on data, what follows from its op and from the outlines of its
// operands ([Op.Outline]).
func (g *Graph) Outlines() *ByValue[Outline] {
	all := NewByValue[Outline](g)
	g.Values(func(v *Value) {
		if v.Node == nil {
			all.Set(v, v.outline())
		}
	})
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			all.Set(v, v.outline())
		}
		if len(n.Out) == 0 || !n.Out[0].Dynamic {
			continue
		}
		for i, o := range n.outlines(&all) {
			if i < len(n.Out) {
				all.Set(n.Out[i], o)
			}
		}
	}
	return &all
}

// outline is what inference says of the value.
func (v *Value) outline() Outline {
	o := Outline{DType: v.Meta.DType}
	if !v.Dynamic {
		o.Sizes = append([]int{}, v.Meta.Shape...)
	}
	return o
}

// outlines tells of a node's results by its op.
func (n *Node) outlines(known *ByValue[Outline]) []Outline {
	in := make([]Outlined, len(n.In))
	for i, a := range n.In {
		if in[i].Arg = a; a.Value == nil {
			continue
		}
		if o := known.At(a.Value); a.Value.Dynamic || slices.Contains(o.Sizes, -1) {
			in[i] = Outlined{Arg: Arg{Kind: TensorArg}, Outline: o}
		}
	}
	refs := func(v *Value) (shape []int, list []any, ok bool) {
		if v.Const != nil {
			a, err := attrOf(v.Const)
			if list, several := a.(elements); several {
				return v.Const.Shape, list, err == nil
			}
			return v.Const.Shape, []any{a}, err == nil
		}
		shape = known.At(v).Sizes
		size := 1
		for _, s := range shape {
			size = min(size*max(s, 0), maxAttr+1)
		}
		return shape, make([]any, size), shape != nil && size <= maxAttr && !slices.Contains(shape, -1)
	}
	var symbols map[string]sym.Int
	if len(n.Out) > 0 && n.Out[0].graph != nil {
		symbols = n.Out[0].graph.sizes
	}
	return n.Op.Outline(in, n.written(), refs, symbols)
}
