package index

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// The inner kernels of gathers, by their names in machine profiles.
const (
	sliceRate  = "gather.slice"  // fixed cost of a slice that is copied
	lookupRate = "gather.lookup" // an element that is looked up separately
)

// gatherImpls returns the implementation of an op that copies slices of operand 0 or, if copiesSlices is false, single
// elements. The cost assumes that the op reads as many bytes from operand 0 as the result has.
func gatherImpls(copiesSlices bool, lower func(c *graph.Call) (*graph.Kernel, error)) []graph.Impl {
	m := graph.Impl{Name: "elements", Doc: "Looks elements up one by one."}
	if copiesSlices {
		m = graph.Impl{Name: "slices", Doc: "Copies slices, one for each index."}
	}
	m.Lower = lower
	m.Work = func(c *graph.Call, _ graph.Walk) graph.Work {
		w := graph.Work{Steps: 1}
		for i := 1; i < len(c.In); i++ {
			if c.In[i].Kind == graph.TensorArg {
				w.Bytes[graph.Dense] += float64(c.Meta(i).Bytes())
			}
		}
		bytes, n := float64(c.Out[0].Bytes()), float64(c.Out[0].Numel())
		w.Bytes[graph.Dense] += bytes
		if copiesSlices {
			w.Bytes[graph.Copied] += bytes
			runs := 1.0
			if len(c.In) > 1 && c.In[1].Kind == graph.TensorArg {
				runs = float64(c.Meta(1).Numel())
			}
			w.Do(sliceRate, min(n, runs))
		} else {
			w.Bytes[graph.Gathered] += bytes
			w.Do(lookupRate, n)
		}
		return w
	}
	m.Read = func(*graph.Call, graph.Walk, int, tensor.Meta) (graph.Work, bool) { return graph.Work{}, true }
	return []graph.Impl{m}
}
