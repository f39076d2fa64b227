package recurrent

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/tensor"
)

// torchCell is one of PyTorch's recurrent ops. Its operands are the input, the initial states (and cells of an LSTM),
// and the parameters of each layer and direction. Parameters are two weights and, with has_biases, two biases. The
// first weight multiplies the input, and the second multiplies the state. The table [cells] has the properties of each
// kind, such as the number of gates.
type torchCell struct {
	name       string
	kind       cellKind
	activation string // activation function of the state
}

// recurrentAttrs are the attributes of torchCell.
type recurrentAttrs struct {
	HasBiases     bool    `attr:"has_biases" default:"true" doc:"the operands have biases"`
	NumLayers     int     `attr:"num_layers" default:"1" doc:"number of layers; each layer reads the results of the layer before it"`
	Dropout       float64 `attr:"dropout" default:"0" doc:"fraction of the results of a layer that training drops"`
	Train         bool    `attr:"train" default:"false" doc:"training mode; supported only if dropout is 0"`
	Bidirectional bool    `attr:"bidirectional" default:"false" doc:"run sequences in both directions"`
	BatchFirst    bool    `attr:"batch_first" default:"false" doc:"sequences are [n, t, i], not [t, n, i]"`
}

// layerOf returns a layer of a call. setStates and setParams set the buffers of its operands.
func (cell torchCell) layerOf(c *graph.Call, layerIndex int) *recurrentLayer {
	attrs, input := kit.Attrs[*recurrentAttrs](c), c.Meta(0)
	layer := &recurrentLayer{
		kind: cell.kind, gatePosition: cells[cell.kind].torchPosition, resetAfter: true, integerDType: input.DType,
		dirs: attrs.dirs(), backward: [2]bool{false, true}, // direction 1 runs from the last step to the first
		steps: input.Shape[0], batch: input.Shape[1], inputSize: input.Shape[2], hidden: c.Meta(1).Shape[2],
	}
	outputSize := layer.dirs * layer.hidden
	if layerIndex > 0 {
		layer.inputSize = outputSize
	}
	// The strides of x are in rows of inputSize elements. All other strides are in elements.
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
			layer.activations[direction][functionF].name = cell.activation
		}
	}
	return layer
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
	// If the operands are integers, the layer computes in integers. It then computes the arguments of tanh, and tanh is
	// applied at the end.
	resultIsTanh := cell.activation == "Tanh" && dtype == tensor.Int64
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
	if resultIsTanh {
		for i, sums := range results {
			builder.AddCall(pointwise.Tanh, nil, []kit.Buffer{builder.Result(i, tensor.Float32)}, sums)
		}
	}
	return builder.Kernel()
}

// setStates sets the initial and the last states of layer i to slices of operands and of results. h is a state, and c
// is the cell of an LSTM.
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
	if param < 0 || param%attrs.paramsPerLayer() > 1 { // no weight
		return graph.Packing{}, false
	}
	dtype := cellDType(c.Meta(0).DType)
	meta := copies.InDType(c, dtype).Meta(operand)
	layer := cell.layerOf(c, param/attrs.paramsPerLayer()/attrs.dirs())
	const dirs, dirStride = 1, 0                         // each direction has its own operand
	multipliesState := param%attrs.paramsPerLayer() == 1 // the second weight
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
