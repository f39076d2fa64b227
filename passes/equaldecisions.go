package passes

import (
	"maps"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// Equal reports whether two plans of one graph, for different sizes, have the same decisions: the same nodes, groups,
// layouts, implementations and copies. When Equal compares dimension orders, it ignores dimensions that have size 1 in
// one of the plans, because the position of such a dimension has no effect. If the decisions are equal, both plans
// compute the same bits for each row of a batch.
func (d *Decisions) Equal(other *Decisions) bool {
	if d == nil || other == nil || d.layout == nil || other.layout == nil {
		return d == other
	}
	if len(d.layout.Nodes) != len(d.nodes) || len(other.layout.Nodes) != len(other.nodes) {
		return false
	}
	return slices.EqualFunc(d.foldedNodes, other.foldedNodes, maps.Equal) &&
		slices.EqualFunc(d.groups, other.groups, groupDecision.equal) &&
		slices.Equal(d.nodes, other.nodes) &&
		maps.Equal(d.placedValues, other.placedValues) && d.equalLayouts(other)
}

// equalLayouts compares the assignments of two lists of decisions with the same nodes. Assignments with failed nodes
// are never equal.
func (d *Decisions) equalLayouts(other *Decisions) bool {
	a, b := d.layout, other.layout
	if len(a.Failed)+len(b.Failed) > 0 || !equalCopies(a.Inputs, b.Inputs) || !equalCopies(a.Outputs, b.Outputs) {
		return false
	}
	for i := range a.Nodes {
		choiceA, choiceB := &a.Nodes[i], &b.Nodes[i]
		if !equalChoices(choiceA, choiceB) || !equalWalks(choiceA.Walk, choiceB.Walk, d.results[i], other.results[i]) {
			return false
		}
	}
	return true
}

// equalChoices compares the choices for a node in two plans, except for their walks.
func equalChoices(a, b *layout.Choice) bool {
	return a.Impl == b.Impl && a.ExactStrides == b.ExactStrides && a.Removed == b.Removed && equalCopies(a.In, b.In) &&
		equalCopies(a.ResultCopies, b.ResultCopies)
}

// equalWalks compares two walks (a loop order with orders of the results) for results of different sizes. The loop
// order is an order of the first result's dimensions.
func equalWalks(a, b graph.Walk, resultsA, resultsB []tensor.Meta) bool {
	if len(a.ResultOrders) != len(b.ResultOrders) {
		return false
	}
	for k, resultA := range resultsA {
		resultB := resultsB[k]
		if k == 0 && !equalOrders(a.LoopOrder, b.LoopOrder, resultA, resultB) {
			return false
		}
		if k < len(a.ResultOrders) && !equalOrders(a.ResultOrders[k], b.ResultOrders[k], resultA, resultB) {
			return false
		}
	}
	return true
}

// equalOrders compares orderA of resultA with orderB of resultB, without the dimensions that have size 1 in one of
// the results. An empty order equals only itself.
func equalOrders(orderA, orderB tensor.Order, resultA, resultB tensor.Meta) bool {
	if orderA == orderB {
		return true
	}
	if len(resultA.Shape) != len(resultB.Shape) || len(orderA) != len(resultA.Shape) || len(orderB) != len(resultA.Shape) {
		return false
	}
	isUnit := func(dim int) bool { return resultA.Shape[dim] == 1 || resultB.Shape[dim] == 1 }
	return slices.Equal(slices.DeleteFunc(orderA.Dims(), isUnit), slices.DeleteFunc(orderB.Dims(), isUnit))
}

// equalCopies reports whether two lists of copies are equal except for sizes. A missing entry of a list is nil.
func equalCopies(listA, listB []*layout.Copy) bool {
	for i := range max(len(listA), len(listB)) {
		var copyA, copyB *layout.Copy
		if i < len(listA) {
			copyA = listA[i]
		}
		if i < len(listB) {
			copyB = listB[i]
		}
		if !equalCopy(copyA, copyB) {
			return false
		}
	}
	return true
}

// equalCopy reports whether two copies, of graphs with the same nodes, are equal except for sizes.
func equalCopy(copyA, copyB *layout.Copy) bool {
	if copyA == nil || copyB == nil {
		return copyA == copyB
	}
	return copyA.Value.Number() == copyB.Value.Number() && copyA.Order == copyB.Order && copyA.Place == copyB.Place &&
		(copyA.Strides == nil) == (copyB.Strides == nil) && copyA.Pinned == copyB.Pinned && copyA.View == copyB.View &&
		copyA.Original == copyB.Original && equalCopy(copyA.From, copyB.From)
}

// equal reports whether two decisions make the same group.
func (a groupDecision) equal(b groupDecision) bool {
	return slices.Equal(a.Nodes, b.Nodes) && a.Anchor == b.Anchor && a.Attention == b.Attention &&
		slices.Equal(a.Mask, b.Mask) && a.Split == b.Split
}
