package kit

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// AddScatteredAccess counts the bytes of scattered results as strided accesses in work, instead of dense accesses. A
// result is scattered if the innermost dimension of the loop, which runs in the given order, does not have the least
// stride of the result. The walk (a loop order with layouts of the results) gives the layouts of the results. Results
// of another rank than the order do not count as scattered, nor do any results if the order is empty.
func AddScatteredAccess(work *graph.Work, c *graph.Call, walk graph.Walk, order tensor.Order) {
	for i, m := range c.Out {
		if laidOut := walk.ResultLayout(i, m); order != "" && order.Rank() == m.Rank() &&
			!innermostIsFastest(laidOut, order) {
			work.Bytes[graph.Strided] += float64(m.Bytes())
			work.Bytes[graph.Dense] -= float64(m.Bytes())
		}
	}
}

// innermostIsFastest reports whether the innermost dimension of the order has the least stride. Dimensions of size 1
// are ignored.
func innermostIsFastest(m tensor.Meta, o tensor.Order) bool {
	innermost := -1
	for _, d := range o.Dims() {
		if m.Shape[d] > 1 {
			innermost = d
		}
	}
	for d, n := range m.Shape {
		if n > 1 && innermost >= 0 && m.Strides[d] < m.Strides[innermost] {
			return false
		}
	}
	return true
}
