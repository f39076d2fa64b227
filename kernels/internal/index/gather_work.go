package index

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// The rates of gathers, by their names in machine profiles (the files of measured times).
const (
	sliceRate  = "gather.slice"  // the fixed time of a slice that is copied
	lookupRate = "gather.lookup" // the time of an element that is looked up separately
)

// gatherUnit is the unit that a gather copies from operand 0 for each index: an element or a slice.
type gatherUnit uint8

const (
	byElement gatherUnit = iota
	bySlice
)

// gatherImpls returns the implementation of an op that gathers. view is [graph.Impl.ReadsView]; nil: it reads no packed
// data.
func gatherImpls(unit gatherUnit, view func(*graph.Call, int) bool,
	lower func(c *graph.Call) (*graph.Kernel, error)) []graph.Impl {
	impl := graph.Impl{Name: "elements", Doc: "Looks elements up one by one."}
	if unit == bySlice {
		impl = graph.Impl{Name: "slices", Doc: "Copies slices, one for each index."}
	}
	impl.Lower, impl.ReadsView = lower, view
	// The forms of the kernel, from which device compilers generate their kernels.
	impl.Forms = func(call *graph.Call) ([]graph.Form, error) {
		kernel, err := lower(call)
		if err != nil {
			return nil, err
		}
		return kernel.Forms, nil
	}
	impl.Work = func(call *graph.Call, _ graph.Walk) pricing.Work { return gatherWork(call, unit) }
	// Every layout of an operand is read, at no additional cost.
	impl.Read = func(*graph.Call, graph.Walk, int, tensor.Meta) (pricing.Work, bool) { return pricing.Work{}, true }
	return []graph.Impl{impl}
}

// gatherWork returns the work of a call, which is the same for every walk (order of the loops). It assumes that the
// number of bytes read from operand 0 is the number of bytes of the result. A packed operand 0 ([graph.Packed.View])
// has the same price, as the price of a node does not depend on what is packed later. Its rows are read with strides,
// which takes up to 4 times as long: 1 to 2 us for a row of 1024.
func gatherWork(call *graph.Call, unit gatherUnit) pricing.Work {
	work := pricing.Work{StartedSteps: 1}
	for i := 1; i < len(call.In); i++ {
		if call.In[i].Kind == graph.TensorArg {
			work.Bytes[pricing.Dense] += float64(call.Meta(i).Bytes())
		}
	}
	bytes, elements := float64(call.Out[0].Bytes()), float64(call.Out[0].Numel())
	work.Bytes[pricing.Dense] += bytes // the result is written
	if unit == bySlice {
		work.Bytes[pricing.Copied] += bytes
		sliceCount := 1.0 // one for each index
		if len(call.In) > 1 && call.In[1].Kind == graph.TensorArg {
			sliceCount = float64(call.Meta(1).Numel())
		}
		work.AddUnits(sliceRate, min(elements, sliceCount))
	} else {
		work.Bytes[pricing.Gathered] += bytes
		work.AddUnits(lookupRate, elements)
	}
	return work
}
