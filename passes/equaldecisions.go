package passes

import (
	"maps"
	"reflect"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Equal reports whether two plans of one graph, for different sizes, have the same decisions: the same nodes, groups,
// layouts, implementations and copies. When Equal compares dimension orders, it ignores dimensions that have size 1 in
// one of the plans, because the position of such a dimension has no effect. If the decisions are equal, both plans
// compute the same bits for each row of a batch.
func (d *Decisions) Equal(other *Decisions) bool {
	if d == nil || other == nil || d.results == nil || other.results == nil { // decoded decisions have no results
		return d == other
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
	equalCopies := func(listA, listB []int) bool { // a missing entry of a list is no copy
		copyAt := func(list []int, i int) int {
			if i < len(list) {
				return list[i]
			}
			return -1
		}
		for i := range max(len(listA), len(listB)) {
			if !a.equalCopy(copyAt(listA, i), b, copyAt(listB, i)) {
				return false
			}
		}
		return true
	}
	if a.incomplete || b.incomplete || !equalCopies(a.Inputs, b.Inputs) || !equalCopies(a.Outputs, b.Outputs) {
		return false
	}
	for i := range a.Choices {
		c, o := &a.Choices[i], &b.Choices[i]
		if c.Impl != o.Impl || c.OnDevice != o.OnDevice || c.Exact != o.Exact || c.Drop != o.Drop ||
			!equalCopies(c.In, o.In) || !equalCopies(c.Results, o.Results) ||
			!equalWalks(c.walk(), o.walk(), d.results[i], other.results[i]) {
			return false
		}
	}
	return true
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

// equalCopy reports whether copy i of l and copy j of other are equal, apart from their reasons. -1 stands for no copy.
func (l *storedLayout) equalCopy(i int, other *storedLayout, j int) bool {
	if i < 0 || j < 0 {
		return i == j
	}
	a, b := l.Copies[i], other.Copies[j]
	if !l.equalCopy(a.From, other, b.From) {
		return false
	}
	a.From, a.Why = b.From, b.Why
	return reflect.DeepEqual(a, b)
}

// equal reports whether two decisions make the same group.
func (a groupDecision) equal(b groupDecision) bool {
	return slices.Equal(a.Nodes, b.Nodes) && a.Anchor == b.Anchor && a.Attention == b.Attention &&
		slices.Equal(a.Mask, b.Mask) && a.Split == b.Split
}
