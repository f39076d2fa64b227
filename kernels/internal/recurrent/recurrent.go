package recurrent

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// cellKind is the kind of cell of a recurrent layer.
type cellKind uint8

const (
	cellRNN cellKind = iota
	cellGRU
	cellLSTM
)

// Numbers of the gates of a GRU, which ONNX calls z, r and h, and of an LSTM, which ONNX calls i, o, f and c. The
// candidate is the new value that the cell or state moves towards. A simple recurrent cell has the one gate rnnState.
const (
	gruUpdate, gruReset, gruCandidate                = 0, 1, 2
	lstmInput, lstmOutput, lstmForget, lstmCandidate = 0, 1, 2, 3
	rnnState                                         = 0
)

// cells has the properties of each kind of cell.
var cells = [...]struct {
	gates         int      // number of gates
	results       int      // number of results: the output of all steps, and the last states
	torchPosition [4]int   // by gate: the position of its rows in PyTorch's weights; 0 is the first `hidden` rows
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
// the state h, and from them the next state. For a simple recurrent cell:
//
//	h = f(w @ x[t] + inBias + r @ h + stateBias)
//
// The methods of [cellReference] have the formulas of all cells. The input for step t of sequence b is row
// t*xTimeStride + b*xBatchStride of x, which may thus be stored step by step or sequence by sequence.
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
	integerDType tensor.DType     // dtype of an integer layer, in which sums wrap around
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

// addRecurrent adds the phases of a layer to the kernel. The phases sum the two biases of each direction, multiply the
// inputs of all steps by the weights, and run the steps.
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

// addBiases stores the sum of the input bias and the state bias of the given number of rows at dst. Either bias may be
// nil. If the reset gate of a GRU applies after the product, the gate also scales the state bias of gate h. addBiases
// then omits this bias.
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
	phases, scratchBytes, workerBytes := multiplier.Phases(0)
	builder.AddPhases(scratchBytes, workerBytes, []kit.Buffer{result, input, weights, bias}, phases...)
	builder.AddListings(multiplier.Listings)
	return nil
}

// stepper runs the steps of a layer in a dtype. A worker runs a block of sequences through all steps of a direction.
// Each step multiplies the states of the block by the weights, and then runs the loop that computes the gates. A step
// of a GRU may have two products, each followed by a loop.
type stepper struct {
	*recurrentLayer
	dtype          tensor.DType
	elemBytes      int              // bytes of an element
	rows           int              // rows of the weights, for all gates together
	blockSequences int              // number of sequences of a block
	plans          [2][2]*gemm.Plan // by kind of block (full block, smaller last block) and product
	loops          [2][]cellLoop    // by direction: the loops after the products of a step

	// usesPackedWeights is set if products read packed weights. If planning did not pack the weights of a direction
	// (kit.Buffer.Packed), a run packs them into a temporary buffer.
	usesPackedWeights  bool
	packedOffsets      [2][2]int // by direction and product: offsets in bytes in the temporary buffer
	secondPackedOffset int       // weights that planning packed: bytes from the first product's to the second's

	// Sizes of the parts of worker memory: states and gates, scratch memory of a product, and panels of a product.
	bufferBytes, productBytes, panelBytes int

	runs graph.PerWorker[cellRun]
}

// maxBlockSequences is the maximum number of sequences in a block.
const maxBlockSequences = 16

// addSteps adds the phases of the steps. A chunk runs a block of sequences through all steps of one direction.
// inputProducts has the products of the inputs with the weights.
func addSteps(builder *copies.KernelBuilder, layer *recurrentLayer, dtype tensor.DType,
	inputProducts kit.Buffer) error {
	s := &stepper{recurrentLayer: layer, dtype: dtype, elemBytes: dtype.Size(),
		rows: layer.kind.gates() * layer.hidden, blockSequences: layer.blockSize()}
	// Packing the weights in each run saves time only with large blocks or many steps.
	savesTime := s.blockSequences > multiply.MaxThin || s.steps > maxUnpackedSteps
	s.usesPackedWeights = s.r[0].Packed || s.r[1].Packed || layer.packsStepWeights(dtype) && savesTime
	if err := s.planProducts(); err != nil {
		return err
	}
	for direction := range layer.dirs {
		var err error
		if s.loops[direction], err = layer.stepLoops(dtype, direction); err != nil {
			return err
		}
	}
	builder.AddListings(s.listings)
	packedWeights := builder.NewScratch(dtype, s.assignPackedOffsets()/s.elemBytes)
	buffers := layer.stepBuffers(packedWeights, inputProducts)
	if s.usesPackedWeights && packedWeights.Meta.Numel() > 0 {
		builder.AddPhases(copies.NoScratch, copies.NoScratch, buffers, graph.Phase{Chunks: layer.dirs,
			Run: func(mem *graph.Mem, direction int) error {
				memory := kit.ElementsOf[byte](mem.Ptrs[stepPackedWeights], packedWeights.Meta.Bytes())
				s.pack(mem, direction, memory, mem.Ptrs[stepR+direction])
				return nil
			}})
	}
	blocks := kit.DivUp(layer.batch, s.blockSequences)
	workerBytes := s.bufferBytes + s.productBytes + s.panelBytes
	builder.AddPhases(copies.NoScratch, workerBytes, buffers, graph.Phase{Chunks: layer.dirs * blocks,
		Run: func(mem *graph.Mem, chunk int) error {
			direction, block := chunk/blocks, chunk%blocks
			s.run(mem, direction, block*s.blockSequences)
			return nil
		}})
	return nil
}

// Indices in Mem.Ptrs of the buffers that steps use, in the order of stepBuffers.
const (
	stepPackedWeights = iota
	stepInputs
	stepY
	stepHN
	stepCN
	stepH0
	stepC0
	stepLengths
	stepR
	stepBias      = stepR + 2
	stepPeepholes = stepBias + 2
)

// stepBuffers returns the buffers that steps use.
func (layer *recurrentLayer) stepBuffers(packedWeights, inputProducts kit.Buffer) []kit.Buffer {
	buffers := []kit.Buffer{packedWeights, inputProducts, layer.y, layer.hn, layer.cn, layer.h0, layer.c0, layer.lengths}
	return slices.Concat(buffers, layer.r[:], layer.stateBias[:], layer.peepholes[:])
}

// planProducts prepares the products of a step: the sequences of a full block or of the last block, times rows of
// weights. It also sets the sizes of worker memory.
func (s *stepper) planProducts() error {
	hidden := s.hidden
	for blockKind, sequences := range []int{s.blockSequences, s.batch % s.blockSequences} {
		for product, rows := range s.products() {
			if sequences == 0 || rows == 0 {
				continue
			}
			spec := gemm.Spec{DType: s.dtype, M: sequences, N: rows, K: hidden,
				A: gemm.Operand{RowStride: hidden, ColStride: 1}, B: gemm.Operand{RowStride: 1, ColStride: hidden},
				CRowStride: s.rows, CColStride: 1, BInCache: true}
			if s.usesPackedWeights {
				spec.B = gemm.Operand{Source: gemm.Prepacked}
			}
			plan, err := gemm.NewPlan(spec)
			if err != nil {
				return err
			}
			s.plans[blockKind][product] = plan
			s.productBytes = max(s.productBytes, kit.AlignUp(plan.WorkerBytes()))
			s.panelBytes = max(s.panelBytes, kit.AlignUp(plan.SharedBytes()))
		}
	}
	// The buffers of the state, the cell, the gates, and the state after the reset gate of a GRU.
	s.bufferBytes = kit.AlignUp(s.blockSequences * (3*hidden + s.rows) * s.elemBytes)
	return nil
}

// assignPackedOffsets sets the offsets of the weights that a run packs, and returns the size of these weights in bytes.
func (s *stepper) assignPackedOffsets() int {
	if !s.usesPackedWeights {
		return 0
	}
	bytes := 0
	s.secondPackedOffset = gemm.PackedBBytes(s.dtype, s.hidden, s.products()[0])
	for direction := range s.dirs {
		for product, rows := range s.products() {
			if rows > 0 && !s.r[direction].Packed {
				s.packedOffsets[direction][product] = bytes
				bytes += kit.AlignUp(gemm.PackedBBytes(s.dtype, s.hidden, rows))
			}
		}
	}
	return bytes
}

// pack packs the weights r of a direction into memory. It does nothing if planning packed the weights. A call of PackB
// packs few enough columns that the context is checked about once per CheckEvery elements.
func (s *stepper) pack(mem *graph.Mem, direction int, memory []byte, r unsafe.Pointer) {
	if s.r[direction].Packed {
		return
	}
	for product, rows := range s.products() {
		if rows == 0 {
			continue
		}
		src := unsafe.Add(r, s.firstRow(product)*s.hidden*s.elemBytes)
		dst, width := memory[s.packedOffsets[direction][product]:], gemm.PanelCols(s.dtype)
		colsPerCheck := max(1, kit.CheckEvery/(width*s.hidden)) * width
		for first := 0; first < rows; first += colsPerCheck {
			mem.CheckContext()
			offset := first * s.hidden * s.elemBytes
			k, n, rowStride, colStride := s.hidden, min(colsPerCheck, rows-first), 1, s.hidden
			gemm.PackB(s.dtype, dst[offset:], unsafe.Add(src, offset), k, n, rowStride, colStride)
		}
	}
}

// weights returns the address of the weights of a product (0 or 1) of a step in a direction.
func (s *stepper) weights(mem *graph.Mem, direction, product int) unsafe.Pointer {
	switch {
	case !s.usesPackedWeights:
		return unsafe.Add(mem.Ptrs[stepR+direction], s.firstRow(product)*s.hidden*s.elemBytes)
	case s.r[direction].Packed:
		return unsafe.Add(mem.Ptrs[stepR+direction], product*s.secondPackedOffset)
	}
	return unsafe.Add(mem.Ptrs[stepPackedWeights], s.packedOffsets[direction][product])
}

// addByDefinition adds the phase of a layer in a dtype without fast products. A chunk runs one sequence through all
// steps of one direction, by the code of the reference. Only layers of PyTorch have these dtypes, so there are no
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

// bufferFields returns the fields for the buffers of addByDefinition, in the same order.
func (c *cellReference[T]) bufferFields() []*[]T {
	fields := []*[]T{&c.x, &c.y, &c.hn, &c.cn, &c.h0, &c.c0}
	for direction := range 2 {
		fields = append(fields, &c.w[direction], &c.r[direction], &c.inBias[direction], &c.stateBias[direction])
	}
	return fields
}
