package study

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// equalize is a pass that gives ops on images (convolutions, poolings, resizing) the same price in row-major and
// channels-last layout. It adds a twin to each implementation. The twin has the work of the implementation with the two
// layouts exchanged, and has no kernel. Plans with twins are compared by cost and are never run.
var equalize = passes.Pass{Name: "equalize", Doc: "prices ops on images equally in row-major and channels-last layout",
	Needs: graph.Typed, Run: func(p *passes.Plan) error {
		twins := map[*graph.Op]*graph.Op{}
		for _, n := range p.Graph.Nodes {
			if n.Op.ImageRole != graph.ImageOp || len(n.Op.Impls) == 0 {
				continue
			}
			o := twins[n.Op]
			if o == nil {
				var err error
				if o, err = withOtherImpls(n.Op); err != nil {
					return p.Graph.Fail(n, err)
				}
				twins[n.Op] = o
			}
			n.Op = o
		}
		return nil
	}}

// withOtherImpls returns a copy of an op with a twin of each implementation.
func withOtherImpls(o *graph.Op) (*graph.Op, error) {
	both := *o
	both.Impls, both.Compile = nil, nil
	for i := range o.Impls {
		both.Impls = append(both.Impls, o.Impls[i], otherImpl(&o.Impls[i]))
	}
	return graph.Define(both)
}

// otherImpl returns an implementation that supports a layout if original supports the other layout, with the same work.
func otherImpl(original *graph.Impl) graph.Impl {
	twin := graph.Impl{Name: original.Name + ".twin",
		Doc: "Has the price of " + original.Name + " in the other layout of images.", Inexact: original.Inexact,
		Walks: func(c *graph.Call, candidates []tensor.Order) (list []graph.Walk) {
			var others []tensor.Order
			for _, o := range candidates {
				others = append(others, otherOrder(o))
			}
			for _, w := range original.Walks(otherCall(c), others) {
				if len(w.Out) > 0 && w.Out[0] != "" && otherOrder(w.Out[0]) != w.Out[0] {
					list = append(list, otherWalk(w))
				}
			}
			return list
		},
		Read: func(c *graph.Call, w graph.Walk, i int, meta tensor.Meta) (graph.Work, bool) {
			if c.In[i].Value == nil || c.In[i].Value.Const == nil { // weights have no image layout
				meta = otherMeta(meta)
			}
			return original.Read(otherCall(c), otherWalk(w), i, meta)
		},
		Work:  func(c *graph.Call, w graph.Walk) graph.Work { return original.Work(otherCall(c), otherWalk(w)) },
		Lower: func(*graph.Call) (*graph.Kernel, error) { return &graph.Kernel{}, nil }}
	if original.Writes != nil {
		twin.Writes = func(c *graph.Call, w graph.Walk, i int, meta tensor.Meta) bool {
			return original.Writes(otherCall(c), otherWalk(w), i, otherMeta(meta))
		}
	}
	return twin
}

// otherCall returns a call whose results have the other layout. Prices do not depend on the layouts of operands.
func otherCall(c *graph.Call) *graph.Call {
	other := *c
	other.Out = make([]tensor.Meta, len(c.Out))
	for i, m := range c.Out {
		other.Out[i] = otherMeta(m)
	}
	return &other
}

// otherWalk returns the walk with loops and results in the other order.
func otherWalk(w graph.Walk) graph.Walk {
	other := graph.Walk{Order: otherOrder(w.Order), Out: make([]tensor.Order, len(w.Out))}
	for i, o := range w.Out {
		other.Out[i] = otherOrder(o)
	}
	return other
}

// otherOrder returns channels-last order for row-major order of images and volumes, and the reverse. Other orders are
// returned unchanged.
func otherOrder(o tensor.Order) tensor.Order {
	rowMajor := tensor.RowMajorOrder(o.Rank())
	for _, f := range []tensor.MemoryFormat{tensor.ChannelsLast, tensor.ChannelsLast3d} {
		last, err := f.Order(o.Rank())
		switch {
		case err != nil:
		case o == rowMajor:
			return last
		case o == last:
			return rowMajor
		}
	}
	return o
}

// otherMeta returns the channels-last layout for a row-major layout of images or volumes, and the reverse. The image
// may be a slice of the channels of a larger image. Other layouts are returned unchanged.
func otherMeta(m tensor.Meta) tensor.Meta {
	if m.Rank() != 4 && m.Rank() != 5 {
		return m
	}
	planeSize := 1
	for _, n := range m.Shape[2:] {
		planeSize *= n
	}
	planeStrides := tensor.RowMajorOrder(m.Rank()).Strides(m.Shape)[2:]
	pixelStride := m.Strides[m.Rank()-1]
	isRowMajor, isChannelsLast := m.Strides[1] == planeSize, m.Strides[1] == 1
	for i, s := range planeStrides {
		isRowMajor = isRowMajor && m.Strides[2+i] == s
		isChannelsLast = isChannelsLast && m.Strides[2+i] == s*pixelStride
	}
	strides := append([]int{m.Strides[0]}, m.Strides[1:]...)
	switch {
	case isRowMajor && planeSize > 0:
		channels := m.Strides[0] / planeSize // those of the larger image
		strides[1] = 1
		for i, s := range planeStrides {
			strides[2+i] = s * channels
		}
	case isChannelsLast:
		strides[1] = planeSize
		copy(strides[2:], planeStrides)
	default:
		return m
	}
	return m.WithStrides(strides)
}
