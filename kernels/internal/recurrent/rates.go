package recurrent

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// recurrentFlop is the name of the rate of recurrent layers in machine profiles.
const recurrentFlop = "recurrent.flop"

// Rates lists the rates of recurrent layers. A rate is the time of one unit of work. Package calibrate runs the calls
// of a rate to measure it.
func Rates() []graph.Rate {
	f := func(shape ...int) tensor.Meta { return tensor.New(tensor.Float32, shape...) }
	return []graph.Rate{{Name: recurrentFlop, Unit: "an operation of a recurrent layer",
		Calls: []graph.RateCall{{Op: "onnx_gru", In: []tensor.Meta{f(64, 1, 128), f(1, 384, 128), f(1, 384, 128),
			f(1, 768)}, Constant: []int{1, 2, 3}}}}}
}
