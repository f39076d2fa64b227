package recurrent

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// LSTM, GRU, RNNTanh and RNNRelu are recurrent layers with the operands and gates of PyTorch's ops. onnx.go has ONNX's
// layers. In shapes, t is the number of steps, n the number of sequences (the batch), i the size of an input, h the
// size of a state, l the number of layers and d the number of directions.
var (
	LSTM = torchCellOp("lstm", cellLSTM, "Tanh", "Runs sequences through layers of LSTM cells. `operands` are input "+
		"[t, n, i], h0 and c0 [l*d, n, h], and for each layer and direction w_ih [4h, i], w_hh [4h, h] (gates i, f, g, o), "+
		"b_ih and b_hh [4h]")
	GRU = torchCellOp("gru", cellGRU, "Tanh", "Runs sequences through layers of GRU cells. `operands` are input [t, "+
		"n, i], h0 [l*d, n, h], and for each layer and direction w_ih [3h, i], w_hh [3h, h] (gates r, z, n), b_ih "+
		"and b_hh [3h]")
	RNNTanh = torchCellOp("rnn_tanh", cellRNN, "Tanh", "Runs sequences through layers of simple recurrent cells. "+
		"`operands` are input [t, n, i], h0 [l*d, n, h], and for each layer and direction w_ih [h, i], w_hh [h, h], b_ih "+
		"and b_hh [h]")
	RNNRelu = torchCellOp("rnn_relu", cellRNN, "Relu", "Runs sequences through layers of simple recurrent cells with "+
		"the activation function relu. `operands` are input [t, n, i], h0 [l*d, n, h], and for each layer and direction "+
		"w_ih [h, i], w_hh [h, h], b_ih and b_hh [h]")
)

// torchCellOp defines an op of recurrent layers with cells of the given kind. activation is the function that computes
// the state. The methods of torchCell below are parts of the definition.
func torchCellOp(name string, kind cellKind, activation, doc string) *graph.Op {
	cell := torchCell{name: name, kind: kind, activation: activation}
	outputs := []string{"output", "h_n"}
	if kind == cellLSTM {
		outputs = append(outputs, "c_n")
	}
	const withBiases, withoutBiases = true, false
	const oneDirection, twoDirections = 1, 2
	oneLayer := cell.exampleOperands(1, oneDirection, withBiases)
	twoLayers := cell.exampleOperands(2, twoDirections, withoutBiases)
	return kit.Define[*recurrentAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc + ". Without `has_biases`, there are no b_ih and b_hh. The results are `output` [t, n, d*h] " +
				"and the last states.", Outputs: outputs,
			Params: []graph.Param{{Name: "operands", Variadic: true}},
			Infer:  cell.infer,
			Ref:    cell.ref,
			Examples: []graph.Example{
				{In: oneLayer},
				{In: twoLayers, Attrs: graph.Attrs{"has_biases": false, "num_layers": 2, "bidirectional": true}},
			},
		},
		Facts: graph.Facts{
			Parallel:          cell.parallelLoops,
			FixedLayoutReason: "each step writes the states of a whole batch in order", FlopKernel: recurrentFlop,
			Flops: func(c *graph.Call) float64 {
				inputMeta, parameters := c.Meta(0), 0
				for i := cell.firstWeight(); i < len(c.In); i++ {
					parameters += c.Meta(i).Numel()
				}
				return 2 * float64(inputMeta.Shape[0]*inputMeta.Shape[1]) * float64(parameters)
			},
		},
		Lowerings: graph.Lowerings{Impls: recurrentImpls(cell.compile, cell.pack)},
	})
}

// parallelLoops returns the parallel loop over the batch: dimension 1 of the input, the states and the results. With
// batch_first, the batch is dimension 0 of the input and of the output.
func (cell torchCell) parallelLoops(c *graph.Call) []graph.Parallel {
	const inputOperand, batchDim = 0, 1
	loop := kit.LoopOver(c, inputOperand, batchDim, batchDim)
	if kit.Attrs[*recurrentAttrs](c).BatchFirst {
		loop.OperandDims[0], loop.ResultDims[0] = 0, 0
	}
	for i := 1; i < cell.firstWeight(); i++ {
		loop.OperandDims[i] = batchDim
	}
	return []graph.Parallel{loop}
}

// exampleOperands returns the operands of an example.
func (cell torchCell) exampleOperands(layers, dirs int, hasBiases bool) []tensor.Meta {
	const steps, batch, firstInputs, hidden = 3, 2, 4, 5
	in := []tensor.Meta{kit.F32(steps, batch, firstInputs)}
	for range cell.firstWeight() - 1 {
		in = append(in, kit.F32(layers*dirs, batch, hidden))
	}
	rows := hidden * cell.kind.gates()
	for i := range layers * dirs {
		inputs := firstInputs
		if i >= dirs { // after the first layer
			inputs = hidden * dirs
		}
		in = append(in, kit.F32(rows, inputs), kit.F32(rows, hidden))
		if hasBiases {
			in = append(in, kit.F32(rows), kit.F32(rows))
		}
	}
	return in
}

// firstWeight returns the index of the first weight among the operands. The operands before the first weight correspond
// to the results: the input to the output, and the initial states to the last states.
func (cell torchCell) firstWeight() int { return cells[cell.kind].results }

// paramsPerLayer returns the number of parameters, weights and biases, of a layer in one direction.
func (attrs *recurrentAttrs) paramsPerLayer() int {
	if attrs.HasBiases {
		return 4
	}
	return 2
}

// dirs returns the number of directions.
func (attrs *recurrentAttrs) dirs() int {
	if attrs.Bidirectional {
		return 2
	}
	return 1
}

// infer checks a call and infers the results: the output of the last layer, and the last states.
func (cell torchCell) infer(call *graph.Call) ([]graph.Result, error) {
	attrs, input := kit.Attrs[*recurrentAttrs](call), call.Type(0)
	paramCount := attrs.NumLayers * attrs.dirs() * attrs.paramsPerLayer()
	if len(call.In) != cell.firstWeight()+paramCount || attrs.NumLayers < 1 {
		return nil, errors.New("got an incorrect number of RNN parameters")
	}
	if input.Rank() != 3 || call.Type(1).Rank() != 3 {
		return nil, fmt.Errorf("%s: Expected input and states to be 3D, got %dD and %dD instead", cell.name, input.Rank(),
			call.Type(1).Rank())
	}
	if attrs.Train && attrs.Dropout != 0 {
		return nil, fmt.Errorf("%s: dropout is not supported in training", cell.name)
	}
	steps, batch, hidden := input.Shape[0], input.Shape[1], call.Type(1).Shape[2]
	if attrs.BatchFirst {
		steps, batch = batch, steps
	}
	state := []sym.Int{sym.Of(attrs.NumLayers * attrs.dirs()), batch, hidden}
	if err := cell.checkStates(call, state); err != nil {
		return nil, err
	}
	if kit.SizeIs(steps, 0) {
		return nil, errors.New("Expected sequence length to be larger than 0 in RNN")
	}
	if err := cell.checkWeights(call, attrs, steps.Mul(batch)); err != nil {
		return nil, err
	}
	dtype, err := cell.resultDType(attrs, input.DType, steps)
	if err != nil {
		return nil, err
	}
	// PyTorch transposes the result if the batch comes first.
	out := tensor.NewType(dtype, steps, batch, hidden.Mul(sym.Of(attrs.dirs())))
	if attrs.BatchFirst {
		if out, err = out.Transpose(0, 1); err != nil {
			return nil, err
		}
	}
	results := call.NewResult(out)
	for range cell.firstWeight() - 1 {
		results = append(results, graph.Result{Type: tensor.NewType(dtype, state...), Alias: graph.NoAlias})
	}
	return results, nil
}

// checkStates checks the dtypes of all operands, and the shapes of the initial states. state is the expected shape.
func (cell torchCell) checkStates(call *graph.Call, state []sym.Int) error {
	inputDType := call.Type(0).DType
	for i := 1; i < len(call.In); i++ {
		if dtype := call.Type(i).DType; dtype != inputDType {
			return fmt.Errorf("expected scalar type %s but found %s", inputDType.TorchName(), dtype.TorchName())
		}
	}
	for i := 1; i < cell.firstWeight(); i++ {
		if stateType := call.Type(i); !tensor.SameSizes(stateType.Shape, state) {
			return fmt.Errorf("Expected hidden[%d] size (%v, %v, %v), got %s", i-1, state[0], state[1], state[2],
				tensor.Sizes(stateType.Shape))
		}
	}
	return nil
}

// checkWeights checks the shapes of the parameters. vectors is the number of vectors in the input: steps times batch.
func (cell torchCell) checkWeights(call *graph.Call, attrs *recurrentAttrs, vectors sym.Int) error {
	hidden := call.Type(1).Shape[2]
	rows, operandIndex := hidden.Mul(sym.Of(cell.kind.gates())), cell.firstWeight()
	for i := range attrs.NumLayers * attrs.dirs() {
		inputs := call.Type(0).Shape[2]
		if i >= attrs.dirs() { // after the first layer
			inputs = hidden.Mul(sym.Of(attrs.dirs()))
		}
		shapes := [][]sym.Int{{rows, inputs}, {rows, hidden}, {rows}, {rows}}
		for parameter, expected := range shapes[:attrs.paramsPerLayer()] {
			weightType := call.Type(operandIndex)
			switch {
			case tensor.SameSizes(weightType.Shape, expected): // valid
			case weightType.Rank() == 2 && parameter == 0 && weightType.Shape[1].Ne(inputs).Holds():
				return fmt.Errorf("mat1 and mat2 shapes cannot be multiplied (%vx%v and %vx%v)", vectors, inputs,
					weightType.Shape[1], weightType.Shape[0])
			default:
				return fmt.Errorf("%s: expected parameter %d to have size %s, got %s", cell.name, operandIndex-cell.firstWeight(),
					tensor.Sizes(expected), tensor.Sizes(weightType.Shape))
			}
			operandIndex++
		}
	}
	return nil
}

// resultDType returns the dtype of the results, or PyTorch's error for a dtype that the op does not support. LSTM and
// GRU cells reject integers, because a sigmoid of integers cannot be stored as an integer. A tanh of integers is
// float32. Thus only one step of one layer is possible, because the next step would multiply float32 by integers. A
// relu keeps the dtype. It does not exist for complex numbers.
func (cell torchCell) resultDType(attrs *recurrentAttrs, dtype tensor.DType, steps sym.Int) (tensor.DType, error) {
	switch {
	case dtype == tensor.Bool:
		return dtype, kit.NotImplementedBy("addmm_impl_cpu_", dtype)
	case dtype.IsComplex() && cell.activation == "Relu":
		return dtype, errors.New("clamp is not supported for complex types")
	case dtype.IsFloat() || dtype.IsComplex() || cell.activation == "Relu":
		return dtype, nil
	case cell.kind != cellRNN:
		return dtype, fmt.Errorf("result type Float can't be cast to the desired output type %s", dtype.TorchName())
	case attrs.NumLayers > 1 || steps.Gt(sym.Of(1)).Holds():
		return dtype, errors.New("mat1 and mat2 must have the same dtype")
	}
	return tensor.Float32, nil
}
