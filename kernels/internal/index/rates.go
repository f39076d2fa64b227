package index

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Rates lists the rates of gathers and of loops in Go. A rate is the time of one unit of work. Package calibrate runs
// the calls of a rate to measure it.
func Rates() []graph.Rate {
	return []graph.Rate{
		{Name: graph.GoSimple, Unit: "an operation on an element in Go",
			Calls: []graph.RateCall{{Op: "argmax", Attrs: graph.Attrs{"dim": 1}, In: []tensor.Meta{kit.F32(64, 512)}}}},
		{Name: graph.GoFunction, Unit: "a function of an element in Go",
			Calls: []graph.RateCall{{Op: "sort", Attrs: graph.Attrs{"dim": 1}, In: []tensor.Meta{kit.F32(64, 256)}}}},
		{Name: sliceRate, Unit: "fixed cost of a slice that is copied",
			Calls: []graph.RateCall{{Op: "embedding", In: []tensor.Meta{kit.F32(512, 16), kit.I64(2048)}, Impl: "slices"}}},
		{Name: lookupRate, Unit: "an element that is looked up separately",
			Calls: []graph.RateCall{{Op: "gather", Attrs: graph.Attrs{"dim": 0},
				In: []tensor.Meta{kit.F32(64, 64), kit.I64(64, 64)}, Impl: "elements"}}},
	}
}
