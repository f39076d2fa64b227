package recurrent

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// This file runs the time steps of a recurrent layer. A [stepper] has the sizes and strides of the layer, the plans of
// its products, and the compiled loops. A worker runs a block of sequences through all steps of a direction:
//
//	for each step:
//		for each product (one, or two in some GRUs):
//			gates = h @ transposed recurrent weights             (multiply)
//			h, c, y = loop over gates and products of the input  (runCellLoop)

// cellRun is the state of a worker that runs blocks of sequences through the steps.
type cellRun struct {
	cellBlock                // the current block; empty between blocks, so that no memory is kept alive
	replays   [2]gemm.Replay // by product: recorded calls, which each step repeats with the same operands
	loopState loops.State
	check     func() // checks the context of mem
}

// cellBlock is a block of sequences that a worker runs through all steps of a direction.
type cellBlock struct {
	mem                     *graph.Mem
	dir                     int     // index of the direction
	firstSequence           int     // index of the block's first sequence
	sequences               int     // number of sequences of the block
	h, c, gates, resetState []byte  // by sequence: state, cell, gates, and state after the reset gate of a GRU
	lengths                 []int32 // of all sequences of the layer; nil: every sequence has all steps
	hasReplay               [2]bool // by product: whether its calls were recorded
	args                    gemm.Args
	productScratch          []byte                           // scratch memory of a product
	ptrs                    [expr.MaxOperands]unsafe.Pointer // the addresses of a loop's operands
	strides                 [expr.MaxOperands]int            // the strides of a loop's operands
}

// run runs the block that starts at sequence firstSequence through all steps of direction dir.
func (s *stepper) run(mem *graph.Mem, dir, firstSequence int) {
	worker := s.startBlock(mem, dir, firstSequence)
	s.setInitialStates(worker)
	for product := range s.products {
		s.record(worker, product)
	}
	longest := 0
	for sequence := range worker.sequences {
		longest = max(longest, s.length(worker, sequence))
	}
	for step := range longest {
		mem.CheckContext()
		for product := range s.products {
			s.multiply(worker, product)
			s.runCellLoop(worker, product, step)
		}
	}
	s.writeLastStates(worker)
	worker.loopState.Release()
	for product := range worker.replays {
		worker.replays[product].Release()
	}
	worker.cellBlock = cellBlock{}
}

// startBlock prepares the state of the worker for a block. The buffers of the state, the cell, the state after the
// reset gate, and the gates are in worker memory, in this order.
func (s *stepper) startBlock(mem *graph.Mem, dir, firstSequence int) *cellRun {
	sequences, stateBytes := min(s.blockSequences, s.batch-firstSequence), s.hidden*s.elemBytes
	buffers := mem.WorkerScratch[:s.bufferBytes]
	bytesPerBuffer, usedBytes := s.blockSequences*stateBytes, sequences*stateBytes
	worker := s.runs.Get(mem)
	if worker.check == nil {
		worker.check = func() { worker.mem.CheckContext() }
	}
	worker.cellBlock = cellBlock{mem: mem, dir: dir, firstSequence: firstSequence, sequences: sequences,
		h: buffers[:usedBytes], c: buffers[bytesPerBuffer:][:usedBytes],
		resetState:     buffers[2*bytesPerBuffer:][:usedBytes],
		gates:          buffers[3*bytesPerBuffer:],
		lengths:        kit.ElementsOf[int32](mem.Ptrs[stepLengths], s.batch),
		productScratch: mem.WorkerScratch[s.bufferBytes:][:s.productBytes],
		args: gemm.Args{Check: worker.check,
			Shared: mem.WorkerScratch[s.bufferBytes+s.productBytes:][:s.panelBytes]}}
	worker.loopState.Context = mem.Context
	return worker
}

// length returns the length of a sequence of a block, in steps.
func (s *stepper) length(worker *cellRun, sequence int) int {
	if worker.lengths == nil {
		return s.steps
	}
	return min(max(int(worker.lengths[worker.firstSequence+sequence]), 0), s.steps)
}

// setInitialStates sets the initial states of a block.
func (s *stepper) setInitialStates(worker *cellRun) {
	for sequence := range worker.sequences {
		for i, states := range [2][]byte{worker.h, worker.c} {
			state := s.state(states, sequence)
			if initial := worker.mem.Ptrs[stepH0+i]; initial != nil { // stepH0 or stepC0
				copy(state, s.layerState(initial, worker, sequence))
			} else {
				clear(state)
			}
		}
	}
}

// state returns the state of a sequence of a block from a buffer of the block.
func (s *stepper) state(states []byte, sequence int) []byte {
	return states[sequence*s.hidden*s.elemBytes:][:s.hidden*s.elemBytes]
}

// layerState returns the state of a sequence of the block from an operand or a result of the layer. The given address
// is the address of the initial or the last states of all sequences and directions.
func (s *stepper) layerState(address unsafe.Pointer, worker *cellRun, sequence int) []byte {
	return s.stateAt(address, worker.dir*s.stateDirStride+(worker.firstSequence+sequence)*s.stateBatchStride)
}

// stateAt returns the state that starts at the given element of the operand or result at the given address.
func (s *stepper) stateAt(address unsafe.Pointer, element int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(address, element*s.elemBytes)), s.hidden*s.elemBytes)
}

// record records the calls of a product, so that each step only repeats them.
func (s *stepper) record(worker *cellRun, product int) {
	s.setOperands(worker, product)
	worker.hasReplay[product] = s.planOf(worker, product).PrepareReplay(&worker.replays[product], &worker.args)
}

// planOf returns the plan of a product for a block.
func (s *stepper) planOf(worker *cellRun, product int) *gemm.Plan {
	if worker.sequences < s.blockSequences {
		return s.products[product].lastPlan
	}
	return s.products[product].plan
}

// setOperands sets the operands of a product: gates = states @ Rᵀ, where R has the product's rows of the recurrent
// weights. The second product of a GRU reads the states after the reset gate.
func (s *stepper) setOperands(worker *cellRun, product int) {
	states := [2][]byte{worker.h, worker.resetState}[product]
	worker.args.A = unsafe.Pointer(unsafe.SliceData(states))
	worker.args.B = s.weights(worker.mem, worker.dir, product)
	worker.args.C = unsafe.Pointer(&worker.gates[s.products[product].first*s.elemBytes])
}

// multiply computes a product of a step.
func (s *stepper) multiply(worker *cellRun, product int) {
	if worker.hasReplay[product] {
		worker.replays[product].Run()
		return
	}
	s.setOperands(worker, product)
	s.planOf(worker, product).RunAll(&worker.args, worker.productScratch)
}

// stepAddresses returns two addresses for one step of a sequence of the block. in is the address of the products of the
// input with the weights of all gates, which an earlier phase computed. y is the address of the result.
func (s *stepper) stepAddresses(worker *cellRun, step, sequence int) (in, y unsafe.Pointer) {
	position := step
	if s.backward[worker.dir] {
		position = s.length(worker, sequence) - 1 - step
	}
	// The input products have s.gatesWidth elements for each direction, step and sequence.
	input := worker.dir*s.steps*s.batch + position*s.xTimeStride + (worker.firstSequence+sequence)*s.xBatchStride
	yElement := s.yElement(worker, position, sequence)
	return unsafe.Add(worker.mem.Ptrs[stepInputs], input*s.gatesWidth*s.elemBytes),
		unsafe.Add(worker.mem.Ptrs[stepY], yElement*s.elemBytes)
}

// yElement returns the offset in y of the state after a step of a sequence of the block, in elements.
func (s *stepper) yElement(worker *cellRun, step, sequence int) int {
	return step*s.yTimeStride + (worker.firstSequence+sequence)*s.yBatchStride + worker.dir*s.yDirStride
}

// writeLastStates writes the last states. It also writes zeros to the results of steps after the end of shorter
// sequences.
func (s *stepper) writeLastStates(worker *cellRun) {
	for sequence := range worker.sequences {
		for i, states := range [2][]byte{worker.h, worker.c} {
			if last := worker.mem.Ptrs[stepHN+i]; last != nil { // stepHN or stepCN
				copy(s.layerState(last, worker, sequence), s.state(states, sequence))
			}
		}
		y := worker.mem.Ptrs[stepY]
		if y == nil {
			continue
		}
		for step := s.length(worker, sequence); step < s.steps; step++ {
			clear(s.stateAt(y, s.yElement(worker, step, sequence)))
		}
	}
}
