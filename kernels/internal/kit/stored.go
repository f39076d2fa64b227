package kit

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Scattered prices the bytes of results as strided writes if the layout of the results differs from the order in which
// the walk's loops run.
func Scattered(work *graph.Work, c *graph.Call, w graph.Walk, by tensor.Order) {
	for i, m := range c.Out {
		if lies := w.Lay(i, m); by != "" && by.Rank() == m.Rank() && !sameFastest(lies, by) {
			work.Bytes[graph.Strided] += float64(m.Bytes())
			work.Bytes[graph.Dense] -= float64(m.Bytes())
		}
	}
}

// sameFastest reports whether the innermost dimension over 1 of an order has the least stride of those dimensions.
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
