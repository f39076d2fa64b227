package recurrent

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// cellKind is the kind of cell of a recurrent layer: simple, GRU (gated recurrent unit) or LSTM (long short-term
// memory).
type cellKind uint8

const (
	cellRNN cellKind = iota
	cellGRU
	cellLSTM
)

// Numbers of the gates in ONNX's order. ONNX calls the gates of a GRU z, r and h, and the gates of an LSTM i, o, f and
// c. The next state of a GRU is a weighted mean of the candidate and the state. The next cell of an LSTM is a weighted
// sum of the candidate and the cell. A simple recurrent cell has a single gate, rnnState.
const (
	gruUpdate, gruReset, gruCandidate                = 0, 1, 2
	lstmInput, lstmOutput, lstmForget, lstmCandidate = 0, 1, 2, 3
	rnnState                                         = 0
)

// cells has the properties of each kind of cell.
var cells = [...]struct {
	gates         int      // number of gates
	results       int      // number of results: the output of all steps, the last state and, for an LSTM, the last cell
	torchPosition [4]int   // by gate: position of its `hidden` rows in PyTorch's weights; 0: the first rows
	activations   []string // the default activation functions, which ONNX calls f, g and h
}{
	cellRNN: {gates: 1, results: 2, activations: []string{"Tanh"}},
	cellGRU: {gates: 3, results: 2, torchPosition: [4]int{1, 0, 2}, activations: []string{"Sigmoid", "Tanh"}},
	cellLSTM: {gates: 4, results: 3, torchPosition: [4]int{0, 3, 1, 2},
		activations: []string{"Sigmoid", "Tanh", "Tanh"}},
}

// gates returns the number of gates of a cell.
func (k cellKind) gates() int { return cells[k].gates }

// Numbers of the activation functions.
const (
	functionF = iota // computes gates other than candidates, and the state of a simple recurrent cell
	functionG        // computes candidates
	functionH        // applied to the cell of an LSTM before the output gate
)

// recurrentLayer describes a recurrent layer in one or two directions. A step computes gates from the input x[t] and
// the state h, and then computes the next state from the gates. For a simple recurrent cell:
//
//	h = f(w @ x[t] + inBias + r @ h + stateBias)
//
// For inputs of 4 elements and states of 5, w is [5, 4], r is [5, 5] and the biases are [5]. An LSTM has four gates, so
// its w is [20, 4]. The methods of [cellReference] have the formulas of all cells.
//
// The input for step t of sequence b is row t*xTimeStride + b*xBatchStride of x. The rows may be stored step by step or
// sequence by sequence.
type recurrentLayer struct {
	kind                                  cellKind
	steps, batch                          int     // numbers of steps and of sequences
	inputSize, hidden                     int     // lengths of the vectors of inputs and of states
	dirs                                  int     // number of directions
	backward                              [2]bool // by direction: whether it runs from the last step to the first
	xTimeStride, xBatchStride             int     // strides of x, in rows
	yTimeStride, yBatchStride, yDirStride int     // strides of y, in elements
	stateBatchStride, stateDirStride      int     // strides of h0, c0, hn and cn, in elements
	gatePosition                          [4]int  // by gate: the position of its rows in the weights; see torchPosition

	resetAfter   bool             // GRU: whether the reset gate applies after the product with the state
	coupledGates bool             // LSTM: whether the forget gate is 1 minus the input gate
	clip         float64          // bound of the arguments of activation functions; 0: none
	integerDType tensor.DType     // dtype of the operands of an integer layer, in which sums wrap around
	activations  [2][3]activation // by direction: the activation functions f, g and h

	x, lengths                         kit.Buffer    // inputs; lengths of the sequences
	h0, c0                             kit.Buffer    // initial states and cells
	y, hn, cn                          kit.Buffer    // outputs of all steps; last states and cells
	w, r, inBias, stateBias, peepholes [2]kit.Buffer // by direction: weights of inputs and of states, biases, peepholes
}

// activation is an activation function with its parameters.
type activation struct {
	name        string
	alpha, beta float64
}

// addPhases adds the phases of the layer to the kernel. dtype is the dtype in which the layer computes.
func (layer *recurrentLayer) addPhases(builder *copies.KernelBuilder, dtype tensor.DType) error {
	switch dtype {
	case tensor.Complex128:
		return addByDefinition[complex128](builder, layer)
	case tensor.Int64:
		return addByDefinition[int64](builder, layer)
	}
	return addRecurrent(builder, layer, dtype)
}

// addRecurrent is addPhases for float32 and float64. The phases sum the two biases of each direction, multiply the
// inputs of all steps by the weights, and run the steps (stepper.go).
func addRecurrent(builder *copies.KernelBuilder, layer *recurrentLayer, dtype tensor.DType) error {
	rows := layer.kind.gates() * layer.hidden
	bias := addBiasSums(builder, layer, dtype, rows)
	rowsOfX := layer.steps * layer.batch
	inputProducts := builder.NewScratch(dtype, layer.dirs, rowsOfX, rows)
	for direction := range layer.dirs {
		product := inputProducts.View(tensor.Meta{DType: dtype, Shape: []int{rowsOfX, rows}, Strides: []int{rows, 1},
			Offset: direction * rowsOfX * rows})
		dirBias := bias.View(tensor.Meta{DType: dtype, Shape: []int{rows}, Strides: []int{1}, Offset: direction * rows})
		err := addInputProduct(builder, product, layer.x, layer.w[direction], dirBias, rowsOfX, rows, layer.inputSize)
		if err != nil {
			return err
		}
	}
	return addSteps(builder, layer, dtype, inputProducts)
}

// addBiasSums adds the phase that sums the two biases of each direction, and returns the buffer of the sums. rows is
// the number of rows of a bias.
func addBiasSums(builder *copies.KernelBuilder, layer *recurrentLayer, dtype tensor.DType, rows int) kit.Buffer {
	sumBiases := addBiases[float64]
	if dtype == tensor.Float32 {
		sumBiases = addBiases[float32]
	}
	sums := builder.NewScratch(dtype, layer.dirs, rows)
	buffers := []kit.Buffer{sums, layer.inBias[0], layer.stateBias[0], layer.inBias[1], layer.stateBias[1]}
	builder.AddPhases(copies.NoScratch, copies.NoScratch, buffers,
		graph.Phase{Chunks: layer.dirs, Run: func(mem *graph.Mem, direction int) error {
			dst := unsafe.Add(mem.Ptrs[0], direction*rows*dtype.Size())
			inBias, stateBias := mem.Ptrs[1+2*direction], mem.Ptrs[2+2*direction] // as in buffers
			sumBiases(layer, dst, inBias, stateBias, rows)
			return nil
		}})
	return sums
}

// addBiases stores the sum of the input bias and the state bias, which have the given number of rows, at dst. Either
// bias may be nil. If the reset gate of a GRU applies after the product, the gate also scales the state bias of the
// candidate. addBiases omits this bias, because the steps add it.
func addBiases[T float32 | float64](layer *recurrentLayer, dst, inBias, stateBias unsafe.Pointer, rows int) {
	out := kit.ElementsOf[T](dst, rows)
	clear(out)
	copy(out, kit.ElementsOf[T](inBias, rows))
	for i, bias := range kit.ElementsOf[T](stateBias, rows) {
		if layer.kind == cellGRU && layer.resetAfter && i/layer.hidden == layer.gatePosition[gruCandidate] {
			continue
		}
		out[i] += bias
	}
}

// addInputProduct adds the phases that compute result = input @ weightsᵀ + bias. The matrix result is m by n, input is
// m by k, and weights is n by k.
func addInputProduct(builder *copies.KernelBuilder, result, input, weights, bias kit.Buffer, m, n, k int) error {
	// A is input, B is weightsᵀ, and C is result. Each column of the result has one element of the bias.
	spec := gemm.Spec{DType: result.Meta.DType, M: m, N: n, K: k, A: gemm.Operand{RowStride: k, ColStride: 1},
		B: gemm.Operand{RowStride: 1, ColStride: k}, CRowStride: n, CColStride: 1, Bias: gemm.BiasCols, BiasStride: 1}
	if weights.Packed {
		spec.B = gemm.Operand{Source: gemm.Prepacked}
	}
	plan, err := gemm.NewPlan(spec)
	if err != nil {
		return err
	}
	multiplier := &multiply.Multiplier{Plan: plan, Entries: 1, MACs: kit.BoundedProduct(m, n, max(k, 1))}
	multiplier.Bind = func(mem *graph.Mem, job *multiply.Job) {
		job.C, job.A, job.B, job.Bias = mem.Ptrs[0], mem.Ptrs[1], mem.Ptrs[2], mem.Ptrs[3]
	}
	const scratchOffset = 0
	phases, scratchBytes, workerBytes := multiplier.Phases(scratchOffset)
	builder.AddPhases(scratchBytes, workerBytes, []kit.Buffer{result, input, weights, bias}, phases...)
	builder.AddListings(multiplier.Listings)
	builder.AddFoldOrder(plan.FoldOrder())
	return nil
}

// addByDefinition adds the phase of a layer in a dtype without fast products. A chunk runs one sequence through all
// steps of one direction. It uses the code of the reference. Only layers of PyTorch have these dtypes, so there are no
// lengths, peepholes or clip.
func addByDefinition[T complex128 | int64](builder *copies.KernelBuilder, layer *recurrentLayer) error {
	buffers := []kit.Buffer{layer.x, layer.y, layer.hn, layer.cn, layer.h0, layer.c0}
	for direction := range 2 {
		buffers = append(buffers, layer.w[direction], layer.r[direction], layer.inBias[direction],
			layer.stateBias[direction])
	}
	builder.AddPhases(copies.NoScratch, copies.NoScratch, buffers, graph.Phase{Chunks: layer.dirs * layer.batch,
		Run: func(mem *graph.Mem, chunk int) error {
			reference := &cellReference[T]{recurrentLayer: layer, ctx: mem.Context}
			for i, field := range reference.bufferFields() {
				if buffers[i].IsGiven() {
					*field = kit.ElementsOf[T](mem.Ptrs[i], buffers[i].Meta.Numel())
				}
			}
			direction, sequence := chunk/layer.batch, chunk%layer.batch
			reference.runSequence(direction, sequence)
			return nil
		}})
	return nil
}

// bufferFields returns the fields for the buffers of addByDefinition, in the order of these buffers.
func (c *cellReference[T]) bufferFields() []*[]T {
	fields := []*[]T{&c.x, &c.y, &c.hn, &c.cn, &c.h0, &c.c0}
	for direction := range 2 {
		fields = append(fields, &c.w[direction], &c.r[direction], &c.inBias[direction], &c.stateBias[direction])
	}
	return fields
}
