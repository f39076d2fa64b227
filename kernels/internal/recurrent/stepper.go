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

// stepper runs the steps of a layer in a dtype (step.go). A worker runs a block of sequences through all steps of a
// direction. Each step multiplies the states of the block by the recurrent weights r, and then runs the loop that
// computes the gates. For example, a block of 16 sequences of an LSTM with states of 5 elements multiplies states
// [16, 5] by rᵀ [5, 20]. A step of a GRU may have two products, each followed by a loop.
//
// Products may read packed weights. If r[direction].Packed is set, the planner has packed the weights. Otherwise each
// run packs them into a temporary buffer, in the same form.
type stepper struct {
	*recurrentLayer
	dtype             tensor.DType
	elemBytes         int // bytes of an element
	gatesWidth        int // number of rows of r, for all gates together; the width of a row of gatesBuffer
	blockSequences    int // number of sequences of a full block
	products          []stepProduct
	usesPackedWeights bool
	packedBytes       int // size of the packed weights of a direction, in bytes

	// Sizes of the parts of worker memory, in this order.
	bufferBytes  int // of the states and gates of a block
	productBytes int // of the scratch memory of a product
	panelBytes   int // of the panels of a product

	runs graph.PerWorker[cellRun]
}

// stepProduct is a product of a step, and the loop after it.
type stepProduct struct {
	weightRows                 // the rows of r that the product reads
	packedOffset   int         // offset of these rows in the packed weights of a direction, in bytes
	plan, lastPlan *gemm.Plan  // plan for full blocks; lastPlan for a smaller last block, or nil
	loops          [2]cellLoop // by direction
}

// maxBlockSequences is the maximum number of sequences in a block.
const maxBlockSequences = 16

// maxUnpackedSteps is the greatest number of steps for which a run with small blocks does not pack weights. Packing
// takes as long as a few products.
const maxUnpackedSteps = 2

// newStepper plans the products and compiles the loops of a layer.
func newStepper(layer *recurrentLayer, dtype tensor.DType) (*stepper, error) {
	s := &stepper{recurrentLayer: layer, dtype: dtype, elemBytes: dtype.Size(),
		gatesWidth: layer.kind.gates() * layer.hidden, blockSequences: layer.blockSize()}
	// Packing the weights in each run saves time only with large blocks or many steps.
	packingSavesTime := s.blockSequences > multiply.MaxThin || s.steps > maxUnpackedSteps
	packsInRuns := layer.packsStepWeights(dtype) && packingSavesTime
	s.usesPackedWeights = s.r[0].Packed || s.r[1].Packed || packsInRuns
	if err := s.planProducts(); err != nil {
		return nil, err
	}
	for direction := range layer.dirs {
		loops, err := layer.stepLoops(dtype, direction)
		if err != nil {
			return nil, err
		}
		for i, loop := range loops {
			s.products[i].loops[direction] = loop
		}
	}
	return s, nil
}

// addSteps adds the phases of the steps. inputProducts has the products of the inputs with the weights.
func addSteps(builder *copies.KernelBuilder, layer *recurrentLayer, dtype tensor.DType,
	inputProducts kit.Buffer) error {
	s, err := newStepper(layer, dtype)
	if err != nil {
		return err
	}
	builder.AddListings(s.listings)
	for _, product := range s.products {
		builder.AddFoldOrder(product.plan.FoldOrder())
		if product.lastPlan != nil {
			builder.AddFoldOrder(product.lastPlan.FoldOrder())
		}
	}
	packedElements := 0 // size of the temporary buffer
	if s.usesPackedWeights && slices.ContainsFunc(s.r[:s.dirs], func(r kit.Buffer) bool { return !r.Packed }) {
		packedElements = s.dirs * s.packedBytes / s.elemBytes
	}
	packedWeights := builder.NewScratch(dtype, packedElements)
	buffers := layer.stepBuffers(packedWeights, inputProducts)
	if packedElements > 0 {
		const workerBytes = copies.NoScratch
		builder.AddPhases(copies.NoScratch, workerBytes, buffers, s.packPhase())
	}
	workerBytes := s.bufferBytes + s.productBytes + s.panelBytes
	builder.AddPhases(copies.NoScratch, workerBytes, buffers, s.runPhase())
	return nil
}

// packPhase returns the phase that packs the weights of each direction into the temporary buffer. It skips weights that
// the planner has packed.
func (s *stepper) packPhase() graph.Phase {
	return graph.Phase{Chunks: s.dirs, Run: func(mem *graph.Mem, direction int) error {
		if !s.r[direction].Packed {
			s.pack(mem, direction)
		}
		return nil
	}}
}

// runPhase returns the phase of the steps. A chunk runs a block of sequences through all steps of one direction.
func (s *stepper) runPhase() graph.Phase {
	blocks := kit.DivUp(s.batch, s.blockSequences)
	return graph.Phase{Chunks: s.dirs * blocks, Run: func(mem *graph.Mem, chunk int) error {
		direction, block := chunk/blocks, chunk%blocks
		s.run(mem, direction, block*s.blockSequences)
		return nil
	}}
}

// Indices in Mem.Ptrs of the buffers that steps use, in the order of stepBuffers. Weights (R), biases and peepholes
// have a buffer for each direction.
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

// stepBuffers returns the buffers that steps use: the fields of recurrentLayer, and two buffers of scratch memory.
func (layer *recurrentLayer) stepBuffers(packedWeights, inputProducts kit.Buffer) []kit.Buffer {
	buffers := []kit.Buffer{packedWeights, inputProducts, layer.y, layer.hn, layer.cn, layer.h0, layer.c0,
		layer.lengths}
	return slices.Concat(buffers, layer.r[:], layer.stateBias[:], layer.peepholes[:])
}

// planProducts plans the products of a step, and sets the sizes of worker memory and of the packed weights.
func (s *stepper) planProducts() (err error) {
	lastSequences := s.batch % s.blockSequences // 0 if all blocks are full
	for _, rows := range s.productRows() {
		product := stepProduct{weightRows: rows, packedOffset: s.packedBytes}
		s.packedBytes += gemm.PackedBBytes(s.dtype, s.hidden, rows.count)
		if product.plan, err = s.planProduct(s.blockSequences, rows.count); err != nil {
			return err
		}
		if lastSequences > 0 {
			if product.lastPlan, err = s.planProduct(lastSequences, rows.count); err != nil {
				return err
			}
		}
		s.products = append(s.products, product)
	}
	s.packedBytes = kit.AlignUp(s.packedBytes)
	// The buffers of the state, the cell, the gates, and the state after the reset gate of a GRU.
	s.bufferBytes = kit.AlignUp(s.blockSequences * (3*s.hidden + s.gatesWidth) * s.elemBytes)
	return nil
}

// planProduct plans the product gates [sequences, rows] = states [sequences, hidden] @ weights [rows, hidden]ᵀ.
func (s *stepper) planProduct(sequences, rows int) (*gemm.Plan, error) {
	spec := gemm.Spec{DType: s.dtype, M: sequences, N: rows, K: s.hidden,
		A: gemm.Operand{RowStride: s.hidden, ColStride: 1}, B: gemm.Operand{RowStride: 1, ColStride: s.hidden},
		CRowStride: s.gatesWidth, CColStride: 1, BInCache: true} // each step reads the same weights
	if s.usesPackedWeights {
		spec.B = gemm.Operand{Source: gemm.Prepacked}
	}
	plan, err := gemm.NewPlan(spec)
	if err != nil {
		return nil, err
	}
	s.productBytes = max(s.productBytes, kit.AlignUp(plan.WorkerBytes()))
	s.panelBytes = max(s.panelBytes, kit.AlignUp(plan.SharedBytes()))
	return plan, nil
}

// pack packs the weights of a direction into the temporary buffer. A call of PackB packs a bounded number of rows, so
// that the context is checked about once per CheckEvery elements. The rows are the columns of operand B of the product.
func (s *stepper) pack(mem *graph.Mem, direction int) {
	packed := kit.ElementsOf[byte](mem.Ptrs[stepPackedWeights], s.dirs*s.packedBytes)[direction*s.packedBytes:]
	rowBytes, width := s.hidden*s.elemBytes, gemm.PanelCols(s.dtype)
	rowsPerCheck := max(1, kit.CheckEvery/(width*s.hidden)) * width
	for _, product := range s.products {
		for row := 0; row < product.count; row += rowsPerCheck {
			mem.CheckContext()
			src := unsafe.Add(mem.Ptrs[stepR+direction], (product.first+row)*rowBytes)
			dst := packed[product.packedOffset+row*rowBytes:]
			columns, rowStride, colStride := min(rowsPerCheck, product.count-row), 1, s.hidden
			gemm.PackB(s.dtype, dst, src, s.hidden, columns, rowStride, colStride)
		}
	}
}

// weights returns the address of the weights of a product in a direction.
func (s *stepper) weights(mem *graph.Mem, direction, product int) unsafe.Pointer {
	r, packedOffset := mem.Ptrs[stepR+direction], s.products[product].packedOffset
	switch {
	case !s.usesPackedWeights:
		return unsafe.Add(r, s.products[product].first*s.hidden*s.elemBytes)
	case s.r[direction].Packed: // by the planner
		return unsafe.Add(r, packedOffset)
	}
	return unsafe.Add(mem.Ptrs[stepPackedWeights], direction*s.packedBytes+packedOffset)
}
