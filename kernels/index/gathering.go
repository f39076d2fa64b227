package index

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Simple operations an element of the result (measured).
const (
	sliceOps  = 0.1 // that is copied as part of a slice
	lookupOps = 5   // that is looked up by itself
)

// gathering is the implementation of an op that takes slices or elements of operand 0 as others tell: it reads as
// many bytes of it as the result has, and not the whole.
func gathering(slices bool, lower func(c *graph.Call) (*graph.Kernel, error)) []graph.Impl {
	m, at, each := graph.Impl{Name: "elements", Doc: "Looks elements up one by one."}, graph.Gathered, float64(lookupOps)
	if slices {
		m, at, each = graph.Impl{Name: "slices", Doc: "Copies slices, one for each index."}, graph.Dense, sliceOps
	}
	m.Lower = lower
	m.Work = func(c *graph.Call, walk graph.Walk) graph.Work {
		w := kit.Stored(c, walk, "")
		w.Ops[graph.Simple] = each * float64(c.Out[0].Numel())
		return w
	}
	m.Read = func(c *graph.Call, _ graph.Walk, i int, m tensor.Meta) (w graph.Work, ok bool) {
		if i > 0 {
			return graph.ReadWork(m, m), true
		}
		w.Bytes[at] = float64(c.Out[0].Bytes())
		return w, true
	}
	return []graph.Impl{m}
}
