package recurrent

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// recurrentFlop is the name of the rate of recurrent layers in machine profiles.
const recurrentFlop = "recurrent.flop"

// Rates lists the rates of recurrent layers. A rate is the time of one unit of work. Package calibrate runs the calls
// of a rate to measure it. All recurrent layers have one rate, which is measured with a GRU.
func Rates() []graph.Rate {
	gru := graph.RateCall{Op: "onnx_gru",
		In:       []tensor.Meta{kit.F32(64, 1, 128), kit.F32(1, 384, 128), kit.F32(1, 384, 128), kit.F32(1, 768)},
		Constant: []int{onnxW, onnxR, onnxB}}
	return []graph.Rate{{Name: recurrentFlop, Unit: "an arithmetic operation of a recurrent layer",
		Calls: []graph.RateCall{gru}}}
}
