package passes

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// guard records, if sizes are unknown, the conditions under which the nodes of a recorded group iterate over the same
// elements. [grouper.checkGroup] has checked the same conditions at the hints.
func (g *grouper) guard(group *nodeGroup) {
	if !slices.ContainsFunc(group.nodes, func(n *graph.Node) bool { return !hasNumericSizes(n.Out[0].Type) }) {
		return
	}
	var groupShape []sym.Int
	for _, n := range group.nodes {
		if s, shape := g.spaceOfType(n); s.mask != nil || groupShape == nil {
			groupShape = shape
		}
	}
	for _, n := range group.nodes {
		s, shape := g.spaceOfType(n)
		if s.mask != nil {
			fits, cut := g.fuser.Rows(n).Suits(shape)
			fits.Holds()
			cut.Holds()
		}
		same := equal(shape, groupShape)
		if mask := group.space.mask; mask != nil && s.mask == nil && group.space.split == 0 {
			same = same.Or(equal(shape, masked(groupShape, mask, true)))
			if group.iteratesOverReduced(space{shape: s.shape}, n) {
				same = same.Or(equal(shape, masked(groupShape, mask, false)))
			}
		}
		same.Holds()
		g.guardReads(n, group)
	}
}

// spaceOfType returns the iteration space of a grouped node, and its shape with possibly unknown sizes.
func (g *grouper) spaceOfType(n *graph.Node) (space, []sym.Int) {
	s, _ := g.expressionSpace(n)
	if s.mask != nil {
		return s, n.In[0].Type().Shape
	}
	return s, n.Out[0].Type.Shape
}

// guardReads records as guards that operands whose rank differs from the rank of the node's iteration space have one
// element.
func (g *grouper) guardReads(n *graph.Node, group *nodeGroup) {
	if group.space.mask == nil {
		return
	}
	s, _ := g.expressionSpace(n)
	iteratesOverReduced := s.mask == nil && group.iteratesOverReduced(s, n)
	for _, a := range n.In {
		if a.Kind != graph.TensorArg || a.Value.Meta.Numel() != 1 {
			continue
		}
		if within := slices.Contains(group.nodes, a.Value.Node); within && a.Value.Meta.Rank() != len(s.shape) ||
			!within && iteratesOverReduced {
			a.Type().Numel().Eq(sym.Of(1)).Holds()
		}
	}
}

// guardWritten records, if sizes are unknown, the conditions under which a result in the given order has the strides of
// the graph as written.
func guardWritten(v *graph.Value, order tensor.Order, written tensor.Type) {
	t := v.Type
	if hasNumericSizes(t) && hasNumericSizes(written) {
		return
	}
	if order != "" && order.Rank() == len(t.Shape) {
		t = t.WithStrides(order.SymbolicStrides(t.Shape))
	}
	same := sym.Truth(true)
	for d, size := range t.Shape {
		same = same.And(t.Strides[d].Eq(written.Strides[d]).Or(size.Eq(sym.Of(1))))
	}
	same.Or(t.Numel().Eq(sym.Int{})).Holds()
}

// hasNumericSizes reports whether all sizes of a type are numbers.
func hasNumericSizes(t tensor.Type) bool {
	_, known := t.Meta()
	return known
}

// equal returns the condition that two shapes are the same.
func equal(a, b []sym.Int) sym.Bool {
	same := sym.Truth(len(a) == len(b))
	for d := range min(len(a), len(b)) {
		same = same.And(a[d].Eq(b[d]))
	}
	return same
}

// masked returns a shape in which the dimensions that mask marks have size 1 (keepDims is true) or are removed
// (keepDims is false).
func masked(shape []sym.Int, mask []bool, keepDims bool) []sym.Int {
	var kept []sym.Int
	for d, size := range shape {
		switch {
		case d >= len(mask) || !mask[d]:
			kept = append(kept, size)
		case keepDims:
			kept = append(kept, sym.Of(1))
		}
	}
	return kept
}
