package kit

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// AddScatteredAccess moves the bytes of a result from dense to strided accesses in work if the innermost loop of the
// order by does not run along the result's dimension of least stride. The walk w gives the layout of the results.
func AddScatteredAccess(work *graph.Work, c *graph.Call, w graph.Walk, by tensor.Order) {
	for i, m := range c.Out {
		if lies := w.Lay(i, m); by != "" && by.Rank() == m.Rank() && !sameFastest(lies, by) {
			work.Bytes[graph.Strided] += float64(m.Bytes())
			work.Bytes[graph.Dense] -= float64(m.Bytes())
		}
	}
}

// sameFastest reports whether, of the dimensions larger than 1, the innermost one of the order has the least stride.
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
