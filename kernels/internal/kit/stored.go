package kit

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Stored is the work of storing the results as a walk lays them out, by loops that go through them in an order, and
// of one step. Empty: in that in which they are laid out.
func Stored(c *graph.Call, w graph.Walk, by tensor.Order) graph.Work {
	work := graph.Work{Steps: 1}
	for i, m := range c.Out {
		at, lies := graph.Dense, w.Lay(i, m)
		if by != "" && by.Rank() == m.Rank() && !sameFastest(lies, by) {
			at = graph.Strided
		}
		work.Bytes[at] += float64(m.Bytes())
	}
	return work
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
