package passes

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// recordGuards records guards if sizes are unknown: the conditions on sizes under which the nodes of a group from
// recorded decisions iterate over the same elements. [grouper.checkGroup] has checked these conditions for the hints
// (typical sizes). A call of Holds on a condition records it as a guard.
//
// The space of a node is the shape of its loops, with a mask of the dimensions that it reduces (nil for none). For
// example, let a group have a mul of [N, 3] and a sum of [M, 3] over dimension 1. Its guard is N == M.
func (g *grouper) recordGuards(group *nodeGroup) {
	if !slices.ContainsFunc(group.nodes, func(n *graph.Node) bool { return !hasNumericSizes(n.Out[0].Type) }) {
		return
	}
	var groupShape []sym.Int
	for _, n := range group.nodes {
		if nodeSpace, shape := g.spaceOfType(n); nodeSpace.mask != nil || groupShape == nil {
			groupShape = shape
		}
	}
	for _, n := range group.nodes {
		nodeSpace, shape := g.spaceOfType(n)
		if nodeSpace.mask != nil {
			fits, cut := g.fuser.Rows(n).Suits(shape) // conditions: rows suit a loop; rows are cut into pieces
			fits.Holds()
			cut.Holds()
		}
		same := shapesEqual(shape, groupShape)
		if group.onlyGroupReduces(nodeSpace) {
			const keepDims, removeDims = true, false
			same = same.Or(shapesEqual(shape, reduceDims(groupShape, group.space.mask, keepDims)))
			if group.iteratesOverReduced(space{shape: nodeSpace.shape}, n) {
				same = same.Or(shapesEqual(shape, reduceDims(groupShape, group.space.mask, removeDims)))
			}
		}
		same.Holds()
		g.guardReads(n, group)
	}
}

// spaceOfType returns the iteration space of a grouped node, and its shape with possibly unknown sizes.
func (g *grouper) spaceOfType(n *graph.Node) (nodeSpace space, shape []sym.Int) {
	nodeSpace, _ = g.expressionSpace(n)
	if nodeSpace.mask != nil {
		return nodeSpace, n.In[0].Type().Shape
	}
	return nodeSpace, n.Out[0].Type.Shape
}

// guardReads records guards for operands that the node reads as a single element at each point of its space: the
// conditions that these operands have one element. There are two cases:
//   - the operand is computed in the group, and its rank differs from the rank of the space;
//   - the operand comes from outside of the group, and the node iterates over the shape without the reduced dimensions.
func (g *grouper) guardReads(n *graph.Node, group *nodeGroup) {
	if group.space.mask == nil {
		return
	}
	nodeSpace, _ := g.expressionSpace(n)
	iteratesOverReduced := nodeSpace.mask == nil && group.iteratesOverReduced(nodeSpace, n)
	for _, a := range n.In {
		if a.Kind != graph.TensorArg || a.Value.Meta.Numel() != 1 {
			continue
		}
		isRepeated := iteratesOverReduced // of an operand from outside
		if slices.Contains(group.nodes, a.Value.Node) {
			isRepeated = a.Value.Meta.Rank() != len(nodeSpace.shape)
		}
		if isRepeated {
			a.Type().Numel().Eq(sym.Of(1)).Holds()
		}
	}
}

// guardOriginalStrides records, if sizes are unknown, the conditions under which a result in the given order has the
// strides of the graph as written.
func guardOriginalStrides(v *graph.Value, order tensor.Order, original tensor.Type) {
	chosenType := v.Type
	if hasNumericSizes(chosenType) && hasNumericSizes(original) {
		return
	}
	if order != "" && order.Rank() == len(chosenType.Shape) {
		chosenType = chosenType.WithStrides(order.SymbolicStrides(chosenType.Shape))
	}
	same := sym.BoolOf(true)
	for dim, size := range chosenType.Shape {
		same = same.And(chosenType.Strides[dim].Eq(original.Strides[dim]).Or(size.Eq(sym.Of(1))))
	}
	same.Or(chosenType.Numel().Eq(sym.Int{})).Holds() // strides of a value without elements do not matter
}

// hasNumericSizes reports whether all sizes of a type are numbers.
func hasNumericSizes(t tensor.Type) bool {
	_, known := t.Meta()
	return known
}

// shapesEqual returns the condition that two shapes are the same.
func shapesEqual(a, b []sym.Int) sym.Bool {
	same := sym.BoolOf(len(a) == len(b))
	for dim := range min(len(a), len(b)) {
		same = same.And(a[dim].Eq(b[dim]))
	}
	return same
}

// reduceDims returns a shape in which the dimensions that mask marks have size 1 (keepDims is true) or are removed
// (keepDims is false).
func reduceDims(shape []sym.Int, mask []bool, keepDims bool) []sym.Int {
	var result []sym.Int
	for dim, size := range shape {
		switch {
		case dim >= len(mask) || !mask[dim]:
			result = append(result, size)
		case keepDims:
			result = append(result, sym.Of(1))
		}
	}
	return result
}
