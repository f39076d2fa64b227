package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// Rates lists the inner kernels of loops, with the calls by which a machine is measured.
func Rates() []graph.Rate {
	on := func(op string, shapes ...[]int) graph.RateCall {
		c := graph.RateCall{Op: op}
		for _, s := range shapes {
			c.In = append(c.In, kit.F32(s...))
		}
		return c
	}
	near := []int{16384}
	return []graph.Rate{
		{Name: graph.Simple, Unit: "an instruction of a loop of machine code on an element",
			Calls: []graph.RateCall{on("exp", near), on("erf", near), on("log", near)}},
		{Name: graph.Divide, Unit: "a division or a root of an element",
			Calls: []graph.RateCall{on("sigmoid", near), on("sqrt", near), on("hardswish", near)}},
		{Name: graph.Run, Unit: "a run of elements in which a broadcast operand stands still",
			Calls: []graph.RateCall{on("mul", []int{1, 960, 1, 1}, []int{1, 960, 7, 7}),
				on("mul", []int{1, 240, 1, 1}, []int{1, 240, 14, 14})}},
	}
}
