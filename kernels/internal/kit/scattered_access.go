package kit

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// AddScatteredAccess counts the bytes of scattered results as strided accesses in work, instead of dense accesses. A
// result is scattered if the innermost dimension of the loop, which runs in the given order, does not have the least
// stride of the result. The walk (a loop order with layouts of the results) gives the layouts of the results. A result
// whose rank differs from the order's does not count as scattered. If the order is empty, no result counts.
func AddScatteredAccess(work *pricing.Work, c *graph.Call, walk graph.Walk, order tensor.Order) {
	for i, meta := range c.Out {
		if laidOut := walk.ResultLayout(i, meta); order != "" && order.Rank() == meta.Rank() &&
			!innermostIsFastest(laidOut, order) {
			work.Bytes[pricing.Strided] += float64(meta.Bytes())
			work.Bytes[pricing.Dense] -= float64(meta.Bytes())
		}
	}
}

// innermostIsFastest reports whether the innermost dimension of the order has the least stride. Dimensions of size 1
// are ignored.
func innermostIsFastest(meta tensor.Meta, order tensor.Order) bool {
	innermost := -1
	for _, dim := range order.Dims() {
		if meta.Shape[dim] > 1 {
			innermost = dim
		}
	}
	for dim, size := range meta.Shape {
		if size > 1 && innermost >= 0 && meta.Strides[dim] < meta.Strides[innermost] {
			return false
		}
	}
	return true
}
