package recurrent

import (
	"errors"
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type recurrentAttrs struct {
	HasBiases     bool    `attr:"has_biases" default:"true" doc:"the operands have biases"`
	NumLayers     int     `attr:"num_layers" default:"1" doc:"number of layers; each layer reads the results of the layer before it"`
	Dropout       float64 `attr:"dropout" default:"0" doc:"fraction of the results of a layer that training drops"`
	Train         bool    `attr:"train" default:"false" doc:"training mode; supported only if dropout is 0"`
	Bidirectional bool    `attr:"bidirectional" default:"false" doc:"run sequences in both directions"`
	BatchFirst    bool    `attr:"batch_first" default:"false" doc:"sequences are [n, t, i], not [t, n, i]"`
}

// LSTM, GRU, RNNTanh and RNNRelu are recurrent layers with the operands and gates of PyTorch's ops. onnx.go has ONNX's
// layers.
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

// torchCell is one of PyTorch's recurrent ops.
type torchCell struct {
	name       string
	kind       cellKind
	activation string // activation function of the state
}

// torchCellOp defines an op of recurrent layers. kind is the kind of their cells, and activation the activation
// function of the state.
func torchCellOp(name string, kind cellKind, activation, doc string) *graph.Op {
	cell := torchCell{name: name, kind: kind, activation: activation}
	outputs := []string{"output", "h_n"}
	if kind == cellLSTM {
		outputs = append(outputs, "c_n")
	}
	oneLayer := cell.exampleOperands(1, 1, true)
	twoLayers := cell.exampleOperands(2, 2, false)
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

// firstWeight returns the index of the first weight among the operands. The operands before it are the input and the
// initial states, as many as the results: the output and the last states.
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

// layerOf returns a layer of a call without the buffers of its operands.
func (cell torchCell) layerOf(c *graph.Call, layerIndex int) *recurrentLayer {
	attrs, input := kit.Attrs[*recurrentAttrs](c), c.Meta(0)
	layer := &recurrentLayer{
		kind: cell.kind, gatePosition: cells[cell.kind].torchPosition, resetAfter: true, integerDType: input.DType,
		dirs: attrs.dirs(), backward: [2]bool{false, true},
		steps: input.Shape[0], batch: input.Shape[1], inputSize: input.Shape[2], hidden: c.Meta(1).Shape[2],
	}
	outputSize := layer.dirs * layer.hidden
	if layerIndex > 0 {
		layer.inputSize = outputSize
	}
	layer.yDirStride = layer.hidden
	if attrs.BatchFirst { // x [n, t, i], y [n, t, d*h]
		layer.steps, layer.batch = layer.batch, layer.steps
		layer.xTimeStride, layer.xBatchStride = 1, layer.steps
		layer.yTimeStride, layer.yBatchStride = outputSize, layer.steps*outputSize
	} else { // x [t, n, i], y [t, n, d*h]
		layer.xTimeStride, layer.xBatchStride = layer.batch, 1
		layer.yTimeStride, layer.yBatchStride = layer.batch*outputSize, outputSize
	}
	layer.stateDirStride, layer.stateBatchStride = layer.batch*layer.hidden, layer.hidden
	for direction := range layer.dirs {
		for function, name := range cells[cell.kind].activations {
			layer.activations[direction][function] = activation{name: name}
		}
		if cell.kind == cellRNN {
			layer.activations[direction][0].name = cell.activation
		}
	}
	return layer
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
			case tensor.SameSizes(weightType.Shape, expected):
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
// float32, so only one step of one layer is possible: the next step would multiply float32 by integers. A relu keeps
// the dtype and does not exist for complex numbers.
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

// cellDType returns the dtype in which a layer with operands of the given dtype computes.
func cellDType(dtype tensor.DType) tensor.DType {
	if dtype.IsComplex() {
		return tensor.Complex128
	}
	return kit.LoopDType(dtype)
}

// compile returns the kernel of a call, which runs one layer after another.
func (cell torchCell) compile(call *graph.Call) (*graph.Kernel, error) {
	attrs := kit.Attrs[*recurrentAttrs](call)
	firstLayer := cell.layerOf(call, 0)
	if firstLayer.batch*firstLayer.hidden == 0 {
		return &graph.Kernel{}, nil
	}
	dtype := cellDType(call.Meta(0).DType)
	builder := copies.NewKernelBuilder(call)
	var operands, results []kit.Buffer
	for i := range call.In {
		operands = append(operands, builder.ToRowMajor(builder.Operand(i), dtype))
	}
	resultIsTanh := cell.activation == "Tanh" && dtype == tensor.Int64 // sums are integers; tanh is applied at the end
	for i, resultMeta := range call.Out {
		if resultIsTanh {
			results = append(results, builder.NewScratch(dtype, resultMeta.Shape...))
		} else {
			results = append(results, builder.Result(i, dtype))
		}
	}
	x, y := operands[0], results[0]
	for i := range attrs.NumLayers {
		layer := cell.layerOf(call, i)
		layer.x, layer.y = x, y
		if i+1 < attrs.NumLayers {
			layer.y = builder.NewScratch(dtype, y.Meta.Shape...)
		}
		x = layer.y // the input of the next layer
		cell.setStates(layer, i, operands, results)
		cell.setParams(layer, i, attrs, operands)
		if err := layer.addPhases(builder, dtype); err != nil {
			return nil, err
		}
	}
	for i, sums := range results {
		if resultIsTanh {
			builder.AddCall(pointwise.Tanh, nil, []kit.Buffer{builder.Result(i, tensor.Float32)}, sums)
		}
	}
	return builder.Kernel()
}

// setStates sets the initial and the last states of layer i: its slices of operands and of results, or of the sums from
// which results are computed.
func (cell torchCell) setStates(layer *recurrentLayer, i int, operands, results []kit.Buffer) {
	ofLayer := func(states kit.Buffer) kit.Buffer { // [l*d, n, h] -> [d, n, h]
		meta := tensor.New(states.Meta.DType, layer.dirs, layer.batch, layer.hidden)
		meta.Offset = i * meta.Numel()
		return states.View(meta)
	}
	layer.h0, layer.hn = ofLayer(operands[1]), ofLayer(results[1])
	if cell.kind == cellLSTM {
		layer.c0, layer.cn = ofLayer(operands[2]), ofLayer(results[2])
	}
}

// setParams sets the weights and biases of layer i to operands of the call.
func (cell torchCell) setParams(layer *recurrentLayer, i int, attrs *recurrentAttrs, operands []kit.Buffer) {
	for direction := range layer.dirs {
		params := operands[cell.firstWeight()+(i*layer.dirs+direction)*attrs.paramsPerLayer():]
		layer.w[direction], layer.r[direction] = params[0], params[1]
		if attrs.HasBiases {
			layer.inBias[direction], layer.stateBias[direction] = params[2], params[3]
		}
	}
}

// pack is [graph.Impl.Pack] of PyTorch's ops. The weights of each layer and direction are separate operands.
func (cell torchCell) pack(c *graph.Call, operand int) (graph.Packing, bool) {
	attrs, param := kit.Attrs[*recurrentAttrs](c), operand-cell.firstWeight()
	if param < 0 || param%attrs.paramsPerLayer() > 1 {
		return graph.Packing{}, false
	}
	dtype := cellDType(c.Meta(0).DType)
	meta := copies.InDType(c, dtype).Meta(operand)
	layer := cell.layerOf(c, param/attrs.paramsPerLayer()/attrs.dirs())
	const dirs, dirStride = 1, 0 // each direction has its own operand
	multipliesState := param%attrs.paramsPerLayer() == 1
	return layer.packing(dtype, multipliesState, dirs, dirStride, meta.Strides[0], meta.Strides[1])
}

// ref computes the results of PyTorch's recurrent ops by their definition, layer by layer.
func (cell torchCell) ref(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	switch cellDType(c.Type(0).DType) {
	case tensor.Complex128:
		return torchReference[complex128](cell, c, in)
	case tensor.Int64:
		return torchReference[int64](cell, c, in)
	}
	return torchReference[float64](cell, c, in)
}

// torchReference computes the results of [torchCell.ref] with numbers of type T.
func torchReference[T kit.WidestNumber](cell torchCell, call *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor,
	error) {
	inferred, err := cell.infer(call)
	if err != nil {
		return nil, err
	}
	attrs := kit.Attrs[*recurrentAttrs](call)
	operands, results := make([][]T, len(in)), make([][]T, len(inferred))
	for i, operand := range in {
		operands[i] = widestElements[T](operand)
	}
	for i, result := range inferred {
		results[i] = make([]T, tensor.Numel(result.Meta().Shape))
	}
	input := operands[0]
	for i := range attrs.NumLayers {
		reference := layerReference(cell, cell.layerOf(call, i), i, attrs, operands, results)
		reference.x, reference.y = input, make([]T, len(results[0]))
		reference.run()
		input = reference.y
	}
	results[0] = input
	out := make([]*tensor.Tensor, len(inferred))
	for i, result := range inferred {
		if sums, ok := any(results[i]).([]int64); ok && result.Meta().DType == tensor.Float32 { // a tanh of integers
			out[i] = resultTensor(tanhs(sums), result)
		} else {
			out[i] = resultTensor(results[i], result)
		}
	}
	return out, nil
}

// layerReference returns the reference of layer i with its states and parameters: see [torchCell.setStates] and
// [torchCell.setParams].
func layerReference[T kit.WidestNumber](cell torchCell, layer *recurrentLayer, i int, attrs *recurrentAttrs,
	operands, results [][]T) *cellReference[T] {
	ofLayer := func(states []T) []T { return equalPart(states, i, attrs.NumLayers) }
	reference := &cellReference[T]{recurrentLayer: layer, h0: ofLayer(operands[1]), hn: ofLayer(results[1])}
	if cell.kind == cellLSTM {
		reference.c0, reference.cn = ofLayer(operands[2]), ofLayer(results[2])
	}
	for direction := range layer.dirs {
		params := operands[cell.firstWeight()+(i*layer.dirs+direction)*attrs.paramsPerLayer():]
		reference.w[direction], reference.r[direction] = params[0], params[1]
		if attrs.HasBiases {
			reference.inBias[direction], reference.stateBias[direction] = params[2], params[3]
		}
	}
	return reference
}

// tanhs returns the hyperbolic tangents of integers.
func tanhs(list []int64) []float64 {
	out := make([]float64, len(list))
	for i, number := range list {
		out[i] = math.Tanh(float64(number))
	}
	return out
}

// parallelLoops returns the parallel loop over the batch: dimension 1, or 0 of input and output if the batch comes
// first.
func (cell torchCell) parallelLoops(c *graph.Call) []graph.Parallel {
	loop := kit.LoopOver(c, 0, 1, 1)
	if kit.Attrs[*recurrentAttrs](c).BatchFirst {
		loop.OperandDims[0], loop.ResultDims[0] = 0, 0
	}
	for i := 1; i < cell.firstWeight(); i++ {
		loop.OperandDims[i] = 1
	}
	return []graph.Parallel{loop}
}
