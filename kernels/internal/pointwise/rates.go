package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Rates lists the rates of pointwise loops. A rate is the time of one unit of work. Package calibrate runs the calls of
// a rate to measure it.
func Rates() []graph.Rate {
	// on returns a call of an op on row-major operands.
	on := func(op string, shapes ...[]int) graph.RateCall {
		c := graph.RateCall{Op: op}
		for _, s := range shapes {
			c.In = append(c.In, kit.F32(s...))
		}
		return c
	}
	cached := []int{16384} // 64 KiB of float32
	// transposed returns a call of add on a row-major image with c channels and a channels-last image.
	transposed := func(c, side int) graph.RateCall {
		return graph.RateCall{Op: "add", In: []tensor.Meta{kit.F32(1, c, side, side), kit.NHWC(1, c, side, side)}}
	}
	return []graph.Rate{
		{Name: graph.LoopSimple, Unit: "an instruction of a compiled loop, per element",
			Calls: []graph.RateCall{on("exp", cached), on("erf", cached), on("log", cached)}},
		// These calls are interpreted only where loops cannot be compiled.
		{Name: graph.GoLoop, Unit: "an instruction of an interpreted loop, per element",
			Calls: []graph.RateCall{on("erf", cached), on("sigmoid", cached), on("hardswish", cached), on("relu", cached)}},
		{Name: graph.LoopDivide, Unit: "a division or a square root, per element",
			Calls: []graph.RateCall{on("sigmoid", cached), on("sqrt", cached), on("hardswish", cached)}},
		{Name: graph.LoopRun, Unit: "a run of elements in which a broadcast operand is constant",
			Calls: []graph.RateCall{on("mul", []int{1, 960, 1, 1}, []int{1, 960, 7, 7}),
				on("mul", []int{1, 240, 1, 1}, []int{1, 240, 14, 14}),
				on("add", []int{192}, []int{784, 192}), on("add", []int{96}, []int{3136, 96})}},
		{Name: graph.LoopBroadcast, Unit: "the start of a loop of several runs in which a broadcast operand is constant",
			Calls: []graph.RateCall{on("add", []int{768}, []int{49, 768}), on("add", []int{384}, []int{196, 384}),
				on("mul", []int{1, 96, 1, 1}, []int{1, 96, 14, 14})}},
		{Name: graph.LoopTransposed, Unit: "an element of an operand that a loop reads in transposed tiles",
			Calls: []graph.RateCall{transposed(64, 28), transposed(144, 14), transposed(96, 56)}},
	}
}
