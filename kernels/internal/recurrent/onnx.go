package recurrent

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// OnnxLSTM, OnnxGRU and OnnxRNN are recurrent layers as ONNX defines them. torch.go has PyTorch's layers. In shapes, t
// is the number of steps, n the number of sequences (the batch), i the size of an input, h the size of a state, and d
// the number of directions.
var (
	OnnxLSTM = onnxCellOp("onnx_lstm", cellLSTM, "Runs sequences `X` through a layer of LSTM cells as ONNX's LSTM does: "+
		"`X` [t, n, i], `W` [d, 4h, i] and `R` [d, 4h, h] (gates i, o, f, c), `B` [d, 8h], `sequence_lens` [n], "+
		"`initial_h` and `initial_c` [d, n, h], `P` [d, 3h] (peepholes i, o, f) give `Y` [t, d, n, h], `Y_h` and `Y_c` "+
		"[d, n, h], where d is 2 for both directions, else 1.")
	OnnxGRU = onnxCellOp("onnx_gru", cellGRU, "Runs sequences `X` through a layer of GRU cells as ONNX's GRU does: `X` "+
		"[t, n, i], `W` [d, 3h, i] and `R` [d, 3h, h] (gates z, r, h), `B` [d, 6h], `sequence_lens` [n] and `initial_h` "+
		"[d, n, h] give `Y` [t, d, n, h] and `Y_h` [d, n, h], where d is 2 for both directions, else 1.")
	OnnxRNN = onnxCellOp("onnx_rnn", cellRNN, "Runs sequences `X` through a layer of simple recurrent cells as ONNX's "+
		"RNN does: `X` [t, n, i], `W` [d, h, i] and `R` [d, h, h], `B` [d, 2h], `sequence_lens` [n] and `initial_h` "+
		"[d, n, h] give `Y` [t, d, n, h] and `Y_h` [d, n, h], where d is 2 for both directions, else 1.")
)

// onnxCellOp defines the op of a layer with cells of the given kind.
func onnxCellOp(name string, kind cellKind, doc string) *graph.Op {
	optional := func(name string) graph.Param { return graph.Param{Name: name, Optional: true} }
	params := []graph.Param{{Name: "X"}, {Name: "W"}, {Name: "R"}, optional("B"),
		{Name: "sequence_lens", Optional: true, IndexBound: lengthBound}, optional("initial_h")}
	outputs := []string{"Y", "Y_h"}
	if kind == cellLSTM {
		params, outputs = append(params, optional("initial_c"), optional("P")), append(outputs, "Y_c")
	}
	cell := onnxCell{name: name, kind: kind}
	gates := kind.gates()
	return kit.Define[*onnxCellAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, Params: params, Outputs: outputs,
			Infer: cell.infer,
			Ref:   cell.ref,
			Examples: []graph.Example{
				{In: []tensor.Meta{kit.F32(3, 2, 4), kit.F32(1, 5*gates, 4), kit.F32(1, 5*gates, 5), kit.F32(1, 10*gates)}},
				{In: []tensor.Meta{kit.F32(2, 3, 4), kit.F32(2, 3*gates, 4), kit.F32(2, 3*gates, 3), {}, {}, kit.F32(2, 2, 3)},
					Attrs: graph.Attrs{"direction": "bidirectional", "layout": 1, "clip": 0.5}},
			},
		},
		Facts: graph.Facts{
			Parallel:          onnxCellLoops,
			FixedLayoutReason: "each step writes the states of a whole batch in order", FlopKernel: recurrentFlop,
			Flops: func(c *graph.Call) float64 {
				x := c.Meta(0)
				return 2 * float64(x.Shape[0]*x.Shape[1]) * float64(c.Meta(1).Numel()+c.Meta(2).Numel())
			},
		},
		Lowerings: graph.Lowerings{Impls: recurrentImpls(cell.compile, cell.pack)},
	})
}

// lengthBound returns the exclusive upper bound of the elements of sequence_lens, as [graph.Param.IndexBound] requires.
// The bound is the number of steps plus 1. With layout 1, steps are dimension 1 of operand 0, otherwise dimension 0.
func lengthBound(c *graph.Call) int {
	stepDim := 0
	if kit.Attrs[*onnxCellAttrs](c).Layout == 1 {
		stepDim = 1
	}
	return kit.SizeOrMissing(c.Meta(0), stepDim) + 1
}

// onnxCellLoops returns the parallel loop over the batch. With layout 0, the batch is dimension 1 of X [t, n, i] and of
// states [d, n, h], and dimension 2 of Y [t, d, n, h]. With layout 1, the batch is dimension 0 of all these values.
func onnxCellLoops(c *graph.Call) []graph.Parallel {
	stateDim := 1 // of initial_h, initial_c, Y_h and Y_c
	loop := kit.LoopOver(c, onnxX, 1, stateDim)
	loop.ResultDims[0] = 2 // Y
	if kit.Attrs[*onnxCellAttrs](c).Layout == 1 {
		stateDim = 0
		loop = kit.LoopOver(c, onnxX, 0, stateDim) // dimension 0 of all results, Y included
	}
	for i, dim := range map[int]int{onnxLengths: 0, onnxH0: stateDim, onnxC0: stateDim} {
		if c.HasOperand(i) {
			loop.OperandDims[i] = dim
		}
	}
	return []graph.Parallel{loop}
}
