package recurrent

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// The operands of ONNX's recurrent ops. Only an LSTM has the last two.
const (
	onnxX         = iota // input sequences
	onnxW                // weights of the input
	onnxR                // recurrent weights, of the state
	onnxB                // biases of the input, and then of the state
	onnxLengths          // lengths of the sequences
	onnxH0               // initial states
	onnxC0               // initial cells
	onnxPeepholes        // weights of the cell in the gates
	onnxOperandCount
)

type onnxCellAttrs struct {
	HiddenSize  sym.Int   `attr:"hidden_size" default:"0" doc:"size of the state; 0: the last size of R"`
	Direction   string    `attr:"direction" default:"forward" oneof:"forward|reverse|bidirectional" doc:"order of the steps"`
	Activations []string  `attr:"activations" default:"" doc:"functions f, g and h of the gates, for each direction; none: ONNX's defaults, Sigmoid and Tanh"`
	Alpha       []float64 `attr:"activation_alpha" default:"" doc:"parameter alpha of each function that has it, in order"`
	Beta        []float64 `attr:"activation_beta" default:"" doc:"parameter beta of each function that has it, in order"`
	Clip        float64   `attr:"clip" default:"0" doc:"bound of the arguments of the functions; 0: none"`
	Layout      int       `attr:"layout" default:"0" doc:"1: the first dimension is the batch"`
	ResetAfter  int       `attr:"linear_before_reset" default:"0" doc:"GRU: the reset gate applies after the product with the state"`
	InputForget int       `attr:"input_forget" default:"0" doc:"LSTM: the forget gate is 1 minus the input gate"`
}

// onnxCell is one of ONNX's recurrent ops. The list cells (recurrent.go) has the properties of its kind.
type onnxCell struct {
	name string
	kind cellKind
}

// infer checks a call and infers the results Y, Y_h and, for an LSTM, Y_c.
func (cell onnxCell) infer(call *graph.Call) ([]graph.Result, error) {
	input, w, r := call.Type(onnxX), call.Type(onnxW), call.Type(onnxR)
	if input.Rank() != 3 || w.Rank() != 3 || r.Rank() != 3 {
		return nil, fmt.Errorf("%s: X, W and R must have 3 dimensions, but got %d, %d and %d", cell.name, input.Rank(),
			w.Rank(), r.Rank())
	}
	if !input.DType.IsFloat() {
		return nil, kit.NotImplemented(cell.name, input.DType)
	}
	attrs := kit.Attrs[*onnxCellAttrs](call)
	inputs, hidden := input.Shape[2], r.Shape[2]
	if !kit.SizeIs(attrs.HiddenSize, 0) && attrs.HiddenSize.Ne(hidden).Holds() {
		return nil, fmt.Errorf("%s: hidden_size is %v, but R has shape %s", cell.name, attrs.HiddenSize,
			tensor.Sizes(r.Shape))
	}
	steps, batch, dirs := input.Shape[0], input.Shape[1], sym.Of(attrs.dirs())
	stateShape, yShape := []sym.Int{dirs, batch, hidden}, []sym.Int{steps, dirs, batch, hidden}
	if attrs.Layout != 0 {
		steps, batch = batch, steps
		stateShape, yShape = []sym.Int{batch, dirs, hidden}, []sym.Int{batch, steps, dirs, hidden}
	}
	rows := hidden.Mul(sym.Of(cell.kind.gates()))
	biases, peepholes := rows.Mul(sym.Of(2)), hidden.Mul(sym.Of(3))
	if err := cell.checkShapes(call, [onnxOperandCount][]sym.Int{onnxW: {dirs, rows, inputs}, onnxR: {dirs, rows, hidden},
		onnxB: {dirs, biases}, onnxLengths: {batch}, onnxH0: stateShape,
		onnxC0: stateShape, onnxPeepholes: {dirs, peepholes}}); err != nil {
		return nil, err
	}
	if _, err := cell.activations(attrs); err != nil {
		return nil, err
	}
	results := call.NewResult(tensor.NewType(input.DType, yShape...))
	for range cells[cell.kind].results - 1 {
		results = append(results, graph.Result{Type: tensor.NewType(input.DType, stateShape...), Alias: graph.NoAlias})
	}
	return results, nil
}

// checkShapes returns an error if an operand is given and its shape or dtype is not the expected one. A nil shape is
// not checked.
func (cell onnxCell) checkShapes(call *graph.Call, shapes [onnxOperandCount][]sym.Int) error {
	names := [onnxOperandCount]string{"X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"}
	for operand, shape := range shapes {
		if shape == nil || !call.HasOperand(operand) {
			continue
		}
		dtype := call.Type(onnxX).DType
		if operand == onnxLengths {
			dtype = tensor.Int32
		}
		if given := call.Type(operand); !tensor.SameSizes(given.Shape, shape) || given.DType != dtype {
			return fmt.Errorf("%s: expected %s to be %v %s, but got %v %s", cell.name, names[operand], dtype,
				tensor.Sizes(shape), given.DType, tensor.Sizes(given.Shape))
		}
	}
	return nil
}

// compile returns the kernel of a call.
func (cell onnxCell) compile(call *graph.Call) (*graph.Kernel, error) {
	layer := cell.layerOf(call)
	var err error
	if layer.activations, err = cell.activations(kit.Attrs[*onnxCellAttrs](call)); err != nil {
		return nil, err
	}
	if layer.batch*layer.hidden == 0 {
		return &graph.Kernel{}, nil
	}
	dtype := call.Meta(0).DType.OpMath()
	builder := copies.NewKernelBuilder(call)
	operands := builder.Operands(dtype)
	for len(operands) < onnxOperandCount {
		operands = append(operands, kit.Buffer{})
	}
	rows := layer.hidden * cell.kind.gates()
	// viewAt returns operand i from element `first` on, with the given shape. For a packed operand, it returns the
	// weights of direction dir.
	viewAt := func(i, dir, first int, shape ...int) kit.Buffer {
		operand := operands[i]
		if !operand.IsGiven() {
			return operand
		}
		if operand.Packed { // directions are contiguous
			return operand.Shifted(dir*call.In[i].Value.Meta.Bytes()/layer.dirs, operand.Meta)
		}
		return operand.View(tensor.Meta{DType: dtype, Shape: shape, Strides: tensor.ContiguousStrides(shape), Offset: first})
	}
	layer.x, layer.lengths, layer.h0, layer.c0 = operands[onnxX], operands[onnxLengths], operands[onnxH0], operands[onnxC0]
	// W is [dirs, rows, inputSize], R is [dirs, rows, hidden], B is [dirs, 2*rows], and P is [dirs, 3*hidden].
	for dir := range layer.dirs {
		layer.w[dir] = viewAt(onnxW, dir, dir*rows*layer.inputSize, rows, layer.inputSize)
		layer.r[dir] = viewAt(onnxR, dir, dir*rows*layer.hidden, rows, layer.hidden)
		layer.inBias[dir] = viewAt(onnxB, dir, dir*2*rows, rows)
		layer.stateBias[dir] = viewAt(onnxB, dir, dir*2*rows+rows, rows)
		layer.peepholes[dir] = viewAt(onnxPeepholes, dir, dir*3*layer.hidden, 3*layer.hidden)
	}
	layer.y, layer.hn = builder.Result(0, dtype), builder.Result(1, dtype)
	if cell.kind == cellLSTM {
		layer.cn = builder.Result(2, dtype)
	}
	if err := layer.addPhases(builder, dtype); err != nil {
		return nil, err
	}
	return builder.Kernel()
}

// layerOf returns the layer of a call without the buffers of its operands and without its activation functions. With
// layout 0, x is [steps, batch, inputs], y is [steps, dirs, batch, hidden], and states are [dirs, batch, hidden]. With
// layout 1, x is [batch, steps, inputs], y is [batch, steps, dirs, hidden], and states are [batch, dirs, hidden].
func (cell onnxCell) layerOf(c *graph.Call) *recurrentLayer {
	attrs, x, r := kit.Attrs[*onnxCellAttrs](c), c.Meta(onnxX), c.Meta(onnxR)
	layer := &recurrentLayer{kind: cell.kind, dirs: attrs.dirs(), hidden: r.Shape[2], inputSize: x.Shape[2],
		steps: x.Shape[0], batch: x.Shape[1], gatePosition: [4]int{0, 1, 2, 3}, resetAfter: attrs.ResetAfter != 0,
		coupledGates: attrs.InputForget != 0, clip: attrs.Clip,
		backward: [2]bool{attrs.Direction == "reverse", true}} // the second direction is always backward
	layer.xTimeStride, layer.xBatchStride = layer.batch, 1
	hidden := layer.hidden // the strides of x are in rows of x; all other strides are in elements
	if attrs.Layout != 0 {
		layer.steps, layer.batch = layer.batch, layer.steps
		layer.xTimeStride, layer.xBatchStride = 1, layer.steps
		layer.yBatchStride, layer.yTimeStride, layer.yDirStride = layer.steps*layer.dirs*hidden, layer.dirs*hidden, hidden
		layer.stateBatchStride, layer.stateDirStride = layer.dirs*hidden, hidden
		return layer
	}
	layer.yTimeStride, layer.yDirStride, layer.yBatchStride = layer.dirs*layer.batch*hidden, layer.batch*hidden, hidden
	layer.stateDirStride, layer.stateBatchStride = layer.batch*hidden, hidden
	return layer
}

// dirs returns the number of directions.
func (a *onnxCellAttrs) dirs() int {
	if a.Direction == "bidirectional" {
		return 2
	}
	return 1
}

// activations returns the activation functions f, g and h of each direction.
func (cell onnxCell) activations(attrs *onnxCellAttrs) (byDir [2][3]activation, err error) {
	defaults := cells[cell.kind].activations
	names, alpha, beta := attrs.Activations, attrs.Alpha, attrs.Beta
	if len(names) == 0 {
		for range attrs.dirs() {
			names = append(names, defaults...)
		}
	}
	if expected := attrs.dirs() * len(defaults); len(names) != expected {
		return byDir, fmt.Errorf("%s: expected %d activations, but got %d", cell.name, expected, len(names))
	}
	for i, name := range names {
		function, ok := activationsByName[strings.ToLower(name)]
		if !ok {
			return byDir, fmt.Errorf("%s: unknown activation %q", cell.name, name)
		}
		withParams := activation{name: name, alpha: function.alpha, beta: function.beta}
		if function.params > 0 && len(alpha) > 0 {
			withParams.alpha, alpha = alpha[0], alpha[1:]
		}
		if function.params > 1 && len(beta) > 0 {
			withParams.beta, beta = beta[0], beta[1:]
		}
		byDir[i/len(defaults)][i%len(defaults)] = withParams
	}
	return byDir, nil
}

// ref computes the results of ONNX's recurrent ops by their definition.
func (cell onnxCell) ref(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	inferred, err := cell.infer(c)
	if err != nil {
		return nil, err
	}
	layer := cell.layerOf(c)
	if layer.activations, err = cell.activations(kit.Attrs[*onnxCellAttrs](c)); err != nil {
		return nil, err
	}
	var operands [onnxOperandCount][]float64
	for i, operand := range in {
		operands[i] = widestElements[float64](operand)
	}
	reference := &cellReference[float64]{recurrentLayer: layer, x: operands[onnxX], h0: operands[onnxH0],
		c0: operands[onnxC0]}
	if len(in) > onnxLengths && in[onnxLengths] != nil {
		lengths := in[onnxLengths].CopyTo(tensor.New(tensor.Int32, layer.batch))
		reference.sequenceLengths = kit.ElementsOf[int32](lengths.Pointer(), layer.batch)
	}
	for direction := range layer.dirs {
		reference.w[direction] = equalPart(operands[onnxW], direction, layer.dirs)
		reference.r[direction] = equalPart(operands[onnxR], direction, layer.dirs)
		reference.peepholeWeights[direction] = equalPart(operands[onnxPeepholes], direction, layer.dirs)
		// B has the input bias and the state bias of each direction.
		reference.inBias[direction] = equalPart(operands[onnxB], 2*direction, 2*layer.dirs)
		reference.stateBias[direction] = equalPart(operands[onnxB], 2*direction+1, 2*layer.dirs)
	}
	results := make([]*tensor.Tensor, len(inferred))
	for i, elements := range []*[]float64{&reference.y, &reference.hn, &reference.cn}[:len(inferred)] {
		*elements = make([]float64, tensor.Numel(inferred[i].Meta().Shape))
	}
	reference.run()
	for i, elements := range [][]float64{reference.y, reference.hn, reference.cn}[:len(inferred)] {
		results[i] = resultTensor(elements, inferred[i])
	}
	return results, nil
}
