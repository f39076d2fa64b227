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
// [16, 5] by rᵀ [5, 20]. A step of a GRU may have two products (0 and 1), each followed by a loop.
type stepper struct {
	*recurrentLayer
	dtype          tensor.DType
	elemBytes      int              // bytes of an element
	rows           int              // number of rows of r, for all gates together
	blockSequences int              // number of sequences of a full block
	plans          [2][2]*gemm.Plan // by kind of block (0: full block, 1: smaller last block) and product
	loops          [2][]cellLoop    // by direction: the loops after the products of a step

	// usesPackedWeights is set if products read packed weights. If the planner has packed the weights of a direction,
	// r[direction].Packed is set. Otherwise each run packs them into a temporary buffer.
	usesPackedWeights  bool
	packedOffsets      [2][2]int // by direction and product: offset of the weights in the temporary buffer, in bytes
	secondPackedOffset int       // offset of product 1 in the weights that the planner has packed, in bytes

	// Sizes of the parts of worker memory, in this order.
	bufferBytes  int // of the states and gates of a block
	productBytes int // of the scratch memory of a product
	panelBytes   int // of the panels of a product

	runs graph.PerWorker[cellRun]
}

// maxBlockSequences is the maximum number of sequences in a block.
const maxBlockSequences = 16

// maxUnpackedSteps is the greatest number of steps for which a run with small blocks does not pack weights. Packing
// takes as long as a few products.
const maxUnpackedSteps = 2

// newStepper plans the products and compiles the loops of a layer.
func newStepper(layer *recurrentLayer, dtype tensor.DType) (*stepper, error) {
	s := &stepper{recurrentLayer: layer, dtype: dtype, elemBytes: dtype.Size(),
		rows: layer.kind.gates() * layer.hidden, blockSequences: layer.blockSize()}
	// Packing the weights in each run saves time only with large blocks or many steps.
	packingSavesTime := s.blockSequences > multiply.MaxThin || s.steps > maxUnpackedSteps
	s.usesPackedWeights = s.r[0].Packed || s.r[1].Packed || layer.packsStepWeights(dtype) && packingSavesTime
	if err := s.planProducts(); err != nil {
		return nil, err
	}
	for direction := range layer.dirs {
		var err error
		if s.loops[direction], err = layer.stepLoops(dtype, direction); err != nil {
			return nil, err
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
	packedWeights := builder.NewScratch(dtype, s.assignPackedOffsets()/s.elemBytes)
	buffers := layer.stepBuffers(packedWeights, inputProducts)
	if s.usesPackedWeights && packedWeights.Meta.Numel() > 0 {
		builder.AddPhases(copies.NoScratch, copies.NoScratch, buffers, s.packPhase(packedWeights.Meta.Bytes()))
	}
	workerBytes := s.bufferBytes + s.productBytes + s.panelBytes
	builder.AddPhases(copies.NoScratch, workerBytes, buffers, s.runPhase())
	return nil
}

// packPhase returns the phase that packs the weights of each direction. packedBytes is the size of the temporary
// buffer.
func (s *stepper) packPhase(packedBytes int) graph.Phase {
	return graph.Phase{Chunks: s.dirs, Run: func(mem *graph.Mem, direction int) error {
		memory := kit.ElementsOf[byte](mem.Ptrs[stepPackedWeights], packedBytes)
		s.pack(mem, direction, memory, mem.Ptrs[stepR+direction])
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

// stepBuffers returns the buffers that steps use: the fields of recurrentLayer, and two buffers of scratch memory.
func (layer *recurrentLayer) stepBuffers(packedWeights, inputProducts kit.Buffer) []kit.Buffer {
	buffers := []kit.Buffer{packedWeights, inputProducts, layer.y, layer.hn, layer.cn, layer.h0, layer.c0,
		layer.lengths}
	return slices.Concat(buffers, layer.r[:], layer.stateBias[:], layer.peepholes[:])
}

// planProducts plans the products of a step for both kinds of blocks, and sets the sizes of worker memory.
func (s *stepper) planProducts() error {
	hidden, lastSequences := s.hidden, s.batch%s.blockSequences // lastSequences: 0 if all blocks are full
	for blockKind, sequences := range []int{s.blockSequences, lastSequences} {
		for product, rows := range s.products() {
			if sequences == 0 || rows == 0 { // no such block or product
				continue
			}
			// gates [sequences, rows] = states [sequences, hidden] @ weights [rows, hidden]ᵀ
			spec := gemm.Spec{DType: s.dtype, M: sequences, N: rows, K: hidden,
				A: gemm.Operand{RowStride: hidden, ColStride: 1}, B: gemm.Operand{RowStride: 1, ColStride: hidden},
				CRowStride: s.rows, CColStride: 1, BInCache: true} // each step reads the same weights
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

// assignPackedOffsets sets packedOffsets and secondPackedOffset. It returns the size of the temporary buffer, which has
// the weights that a run packs, in bytes.
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

// pack packs the weights r of a direction into memory, unless the planner has packed them. A call of PackB packs a
// bounded number of columns, so that the context is checked about once per CheckEvery elements.
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
