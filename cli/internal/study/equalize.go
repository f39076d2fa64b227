package study

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// equalize is a pass that gives ops on images (convolutions, poolings, resizing) the same price in row-major and
// channels-last layout: see [Condition.EqualLayoutPrices]. It adds a twin to each implementation. In row-major layout,
// the twin has the work of the original in channels-last layout. In channels-last layout, it has the work of the
// original in row-major layout. For each layout, the planner chooses the cheaper of the original and the twin. For
// example, if an original costs 10 us in row-major and 6 us in channels-last layout, its twin costs 6 us in row-major
// and 10 us in channels-last layout, so that the op costs 6 us in both layouts.
//
// The twin has no kernel: plans with twins are compared by cost and never run. A walk is the order of an
// implementation's loops with the orders of its results.
//
// Below, the other layout (order, walk, call) is channels-last for row-major, and row-major for channels-last.
var equalize = passes.Pass{Name: "equalize", Doc: "prices ops on images equally in row-major and channels-last layout",
	Needs: graph.Typed, Run: addTwins}

// addTwins replaces the ops on images by ops with twins.
func addTwins(p *passes.Plan) error {
	extended := map[*graph.Op]*graph.Op{}
	for _, n := range p.Graph.Nodes {
		if n.Op.ImageRole != graph.ImageOp || len(n.Op.Impls) == 0 {
			continue
		}
		op := extended[n.Op]
		if op == nil {
			var err error
			if op, err = withTwins(n.Op); err != nil {
				return p.Graph.NodeError(n, err)
			}
			extended[n.Op] = op
		}
		n.Op = op
	}
	return nil
}

// withTwins returns a copy of an op with a twin of each implementation.
func withTwins(op *graph.Op) (*graph.Op, error) {
	extended := *op
	extended.Impls, extended.Compile = nil, nil // Define makes Compile from Impls, and rejects an op with both
	for i := range op.Impls {
		extended.Impls = append(extended.Impls, op.Impls[i], twinOf(&op.Impls[i]))
	}
	return graph.Define(extended)
}

// twinOf returns the twin of an implementation. If the original supports a layout, the twin supports the other layout
// with the same work.
func twinOf(original *graph.Impl) graph.Impl {
	twin := graph.Impl{Name: original.Name + ".twin",
		Doc: "Has the price of " + original.Name + " in the other layout of images.", Inexact: original.Inexact,
		Walks: func(call *graph.Call, candidates []tensor.Order) (list []graph.Walk) {
			var others []tensor.Order
			for _, order := range candidates {
				others = append(others, otherOrder(order))
			}
			for _, walk := range original.Walks(otherCall(call), others) {
				if hasOtherOrder(walk) {
					list = append(list, otherWalk(walk))
				}
			}
			return list
		},
		Read: func(call *graph.Call, walk graph.Walk, i int, meta tensor.Meta) (pricing.Work, bool) {
			if call.In[i].Value == nil || call.In[i].Value.Const == nil { // weights have no image layout
				meta = otherMeta(meta)
			}
			return original.Read(otherCall(call), otherWalk(walk), i, meta)
		},
		Work: func(call *graph.Call, walk graph.Walk) pricing.Work {
			return original.Work(otherCall(call), otherWalk(walk))
		},
		Lower: func(*graph.Call) (*graph.Kernel, error) { return &graph.Kernel{}, nil }}
	if original.Writes != nil {
		twin.Writes = func(call *graph.Call, walk graph.Walk, i int, meta tensor.Meta) bool {
			return original.Writes(otherCall(call), otherWalk(walk), i, otherMeta(meta))
		}
	}
	return twin
}

// hasOtherOrder reports whether the first result of a walk has row-major or channels-last order.
func hasOtherOrder(walk graph.Walk) bool {
	if len(walk.ResultOrders) == 0 || walk.ResultOrders[0] == "" {
		return false
	}
	return otherOrder(walk.ResultOrders[0]) != walk.ResultOrders[0]
}

// otherCall returns a call whose results have the other layout. Prices do not depend on the layouts of operands.
func otherCall(call *graph.Call) *graph.Call {
	swapped := *call
	swapped.Out = make([]tensor.Meta, len(call.Out))
	for i, meta := range call.Out {
		swapped.Out[i] = otherMeta(meta)
	}
	return &swapped
}

// otherWalk returns the walk with loops and results in the other order.
func otherWalk(walk graph.Walk) graph.Walk {
	swapped := graph.Walk{LoopOrder: otherOrder(walk.LoopOrder),
		ResultOrders: make([]tensor.Order, len(walk.ResultOrders))}
	for i, order := range walk.ResultOrders {
		swapped.ResultOrders[i] = otherOrder(order)
	}
	return swapped
}

// otherOrder returns channels-last order for row-major order of images and volumes, and the reverse. Other orders are
// returned unchanged.
func otherOrder(order tensor.Order) tensor.Order {
	rowMajor := tensor.RowMajorOrder(order.Rank())
	for _, f := range []tensor.MemoryFormat{tensor.ChannelsLast, tensor.ChannelsLast3d} {
		last, err := f.Order(order.Rank())
		switch {
		case err != nil: // the format has another rank
		case order == rowMajor:
			return last
		case order == last:
			return rowMajor
		}
	}
	return order
}

// otherMeta returns the channels-last layout for a row-major layout of images or volumes, and the reverse. For example,
// the shape [2 3 4 5] with the strides [60 20 5 1] gets the strides [60 1 15 3]. The image may be a slice of the
// channels of a larger image. Other layouts are returned unchanged.
func otherMeta(meta tensor.Meta) tensor.Meta {
	if meta.Rank() != 4 && meta.Rank() != 5 {
		return meta
	}
	planeSize := 1
	for _, n := range meta.Shape[2:] {
		planeSize *= n
	}
	planeStrides := tensor.RowMajorOrder(meta.Rank()).Strides(meta.Shape)[2:] // within a plane of a row-major layout
	pixelStride := meta.Strides[meta.Rank()-1]                                // the distance of adjacent pixels
	// The stride of the channels is the size of a plane in row-major layout, and 1 in channels-last layout.
	isRowMajor, isChannelsLast := meta.Strides[1] == planeSize, meta.Strides[1] == 1
	for i, s := range planeStrides {
		isRowMajor = isRowMajor && meta.Strides[2+i] == s
		isChannelsLast = isChannelsLast && meta.Strides[2+i] == s*pixelStride
	}
	strides := slices.Clone(meta.Strides)
	switch {
	case isRowMajor && planeSize > 0:
		channels := meta.Strides[0] / planeSize // channels of the larger image, if meta is a slice of its channels
		strides[1] = 1
		for i, s := range planeStrides {
			strides[2+i] = s * channels
		}
	case isChannelsLast:
		strides[1] = planeSize
		copy(strides[2:], planeStrides)
	default:
		return meta
	}
	return meta.WithStrides(strides)
}
