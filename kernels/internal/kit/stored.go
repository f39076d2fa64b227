package kit

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Scattered makes the bytes of results that a walk lays out otherwise than the order in which loops go through them
// ones that are written with steps.
func Scattered(work *graph.Work, c *graph.Call, w graph.Walk, by tensor.Order) {
	for i, m := range c.Out {
		if lies := w.Lay(i, m); by != "" && by.Rank() == m.Rank() && !sameFastest(lies, by) {
			work.Bytes[graph.Strided] += float64(m.Bytes())
			work.Bytes[graph.Dense] -= float64(m.Bytes())
		}
	}
}

// sameFastest reports whether the last dimension over 1 of an order has the least stride of such.
func sameFastest(m tensor.Meta, o tensor.Order) bool {
	dims := o.Dims()
	last := -1
	for _, d := range dims {
		if m.Shape[d] > 1 {
			last = d
		}
	}
	for d, n := range m.Shape {
		if n > 1 && last >= 0 && m.Strides[d] < m.Strides[last] {
			return false
		}
	}
	return true
}
