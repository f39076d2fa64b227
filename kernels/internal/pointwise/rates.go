package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Rates lists the rates of pointwise loops. A rate is the time of one unit of work. Package calibrate runs the calls of
// a rate to measure it.
func Rates() []graph.Rate {
	// callOf returns a call of an op on row-major operands.
	callOf := func(op string, shapes ...[]int) graph.RateCall {
		c := graph.RateCall{Op: op}
		for _, shape := range shapes {
			c.In = append(c.In, kit.F32(shape...))
		}
		return c
	}
	cached := []int{16384} // 64 KiB of float32
	// transposed returns a call of add on a row-major image and a channels-last image of imageSize x imageSize pixels.
	transposed := func(channels, imageSize int) graph.RateCall {
		return graph.RateCall{Op: "add", In: []tensor.Meta{kit.F32(1, channels, imageSize, imageSize),
			kit.NHWC(1, channels, imageSize, imageSize)}}
	}
	return []graph.Rate{
		{Name: graph.LoopSimple, Unit: "an instruction of a compiled loop, per element",
			Calls: []graph.RateCall{callOf("exp", cached), callOf("erf", cached), callOf("log", cached)}},
		// These calls are interpreted only where loops cannot be compiled.
		{Name: graph.GoLoop, Unit: "an instruction of an interpreted loop, per element",
			Calls: []graph.RateCall{callOf("erf", cached), callOf("sigmoid", cached), callOf("hardswish", cached),
				callOf("relu", cached)}},
		{Name: graph.LoopDivide, Unit: "a division or a square root, per element",
			Calls: []graph.RateCall{callOf("sigmoid", cached), callOf("sqrt", cached), callOf("hardswish", cached)}},
		{Name: graph.LoopRun, Unit: "a run of elements in which a broadcast operand is constant",
			Calls: []graph.RateCall{callOf("mul", []int{1, 960, 1, 1}, []int{1, 960, 7, 7}),
				callOf("mul", []int{1, 240, 1, 1}, []int{1, 240, 14, 14}),
				callOf("add", []int{192}, []int{784, 192}), callOf("add", []int{96}, []int{3136, 96})}},
		{Name: graph.LoopBroadcast, Unit: "the start of a loop of several runs in which a broadcast operand is constant",
			Calls: []graph.RateCall{callOf("add", []int{768}, []int{49, 768}), callOf("add", []int{384}, []int{196, 384}),
				callOf("mul", []int{1, 96, 1, 1}, []int{1, 96, 14, 14})}},
		{Name: graph.LoopTransposed, Unit: "an element of an operand that a loop reads in transposed tiles",
			Calls: []graph.RateCall{transposed(64, 28), transposed(144, 14), transposed(96, 56)}},
	}
}
