package graph

import (
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// Walk has the order of the loops of a call, and the layouts of its results. With the zero Walk the results have the
// inferred layouts.
type Walk struct {
	// Order is the order in which loops nest the dimensions of the first result. An empty Order follows the layouts of
	// the operands.
	Order tensor.Order
	// Out has the order of each result. An empty or missing order means the inferred layout.
	Out []tensor.Order
}

// InOrder returns the walk with loops in the given order, and with results of the same rank in that order.
func (c *Call) InOrder(order tensor.Order) Walk {
	walk := Walk{Order: order, Out: make([]tensor.Order, len(c.Out))}
	for i, meta := range c.Out {
		if meta.Rank() == order.Rank() {
			walk.Out[i] = order
		}
	}
	return walk
}

// HasInferredLayouts reports whether all results have their inferred layouts.
func (walk Walk) HasInferredLayouts() bool {
	return !slices.ContainsFunc(walk.Out, func(order tensor.Order) bool { return order != "" })
}

// ResultLayout returns the layout of result i under the walk. meta is the inferred layout. If meta is already dense in
// the walk's order, ResultLayout returns meta with its strides of dimensions of size 1.
func (walk Walk) ResultLayout(i int, meta tensor.Meta) tensor.Meta {
	if i < 0 || i >= len(walk.Out) || walk.Out[i] == "" || walk.Out[i].Rank() != meta.Rank() || walk.Out[i].Holds(meta) {
		return meta
	}
	return meta.WithStrides(walk.Out[i].Strides(meta.Shape))
}

// producesLayouts reports whether the results in call.Out have the layouts of the walk.
func (walk Walk) producesLayouts(call *Call) bool {
	for i, order := range walk.Out {
		if i < len(call.Out) && order != "" && !order.Holds(call.Out[i]) {
			return false
		}
	}
	return true
}

// defaultWalks is the default of [Impl.Walks].
func (op *Op) defaultWalks(call *Call, candidates []tensor.Order) []Walk {
	list := []Walk{{}}
	if op.Kind != FollowsOperands && !op.AnyOrder || len(call.Out) == 0 {
		return list
	}
	for _, order := range candidates {
		if order.Rank() == call.Out[0].Rank() && order != "" {
			list = append(list, call.InOrder(order))
		}
	}
	return list
}
