package kit

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// AddScatteredAccess prices writes of results that are not consecutive in memory. It concerns each result whose
// dimension of least stride is not the innermost dimension of the iteration order by. The bytes of such a result are
// moved from dense to strided accesses in work. The walk w gives the layouts of the results.
func AddScatteredAccess(work *graph.Work, c *graph.Call, w graph.Walk, by tensor.Order) {
	for i, m := range c.Out {
		if laidOut := w.Lay(i, m); by != "" && by.Rank() == m.Rank() && !innermostIsFastest(laidOut, by) {
			work.Bytes[graph.Strided] += float64(m.Bytes())
			work.Bytes[graph.Dense] -= float64(m.Bytes())
		}
	}
}

// innermostIsFastest reports whether the innermost dimension of the order has the least stride. Dimensions of size 1
// are ignored.
func innermostIsFastest(m tensor.Meta, o tensor.Order) bool {
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
