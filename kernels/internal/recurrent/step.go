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
//		gates = h @ transposed recurrent weights            (multiply)
//		h, c, y = loop over gates and products of the input  (runCellLoop)
//		the same for the second product, if a GRU has one

// cellRun is the state of a worker while it runs a block of sequences through the steps. Each worker reuses its
// cellRun, because products take the address of args, which would otherwise be allocated for each block.
type cellRun struct {
	mem                     *graph.Mem
	dir                     int     // index of the direction
	firstSequence           int     // index of the block's first sequence
	sequences               int     // number of sequences of the block
	h, c, gates, resetState []byte  // rows of the block: state, cell, gates, and state after the reset gate of a GRU
	lengths                 []int32 // of all sequences of the layer; nil: every sequence has all steps
	args                    gemm.Args
	replays                 *[2]gemm.Replay // recorded products: each step repeats a product with the same operands
	check                   func()          // checks the context of mem
	hasReplay               [2]bool         // by product: whether it was recorded
	productScratch          []byte          // scratch memory of a product
	loopState               loops.State
	ptrs                    [expr.MaxOperands]unsafe.Pointer // the addresses of a loop's operands
	strides                 [expr.MaxOperands]int            // the strides of a loop's operands
}

// run runs the block that starts at sequence firstSequence through all steps of direction dir.
func (s *stepper) run(mem *graph.Mem, dir, firstSequence int) {
	const first, second = 0, 1 // the products of a step, and the loops after them
	worker := s.startBlock(mem, dir, firstSequence)
	s.setInitialStates(worker)
	s.record(worker, first, worker.h)
	s.record(worker, second, worker.resetState)
	longest := 0
	for sequence := range worker.sequences {
		longest = max(longest, s.length(worker, sequence))
	}
	for step := range longest {
		mem.CheckContext()
		s.multiply(worker, first)
		s.runCellLoop(worker, first, step)
		if len(s.loops[dir]) > 1 {
			s.multiply(worker, second)
			s.runCellLoop(worker, second, step)
		}
	}
	s.writeLastStates(worker)
	worker.loopState.Release()
	for product := range worker.replays {
		worker.replays[product].Release()
	}
	*worker = cellRun{loopState: worker.loopState, replays: worker.replays, check: worker.check} // for the next block
}

// startBlock prepares the state of the worker for a block. The buffers of the state, the cell, the state after the
// reset gate, and the gates are in worker memory, in this order.
func (s *stepper) startBlock(mem *graph.Mem, dir, firstSequence int) *cellRun {
	sequences, rowBytes := min(s.blockSequences, s.batch-firstSequence), s.hidden*s.elemBytes // a row is a state
	buffers := mem.WorkerScratch[:s.bufferBytes]
	bytesPerBuffer, usedBytes := s.blockSequences*rowBytes, sequences*rowBytes
	worker := s.runs.Get(mem)
	if worker.replays == nil {
		worker.replays, worker.check = new([2]gemm.Replay), func() { worker.mem.CheckContext() }
	}
	*worker = cellRun{loopState: worker.loopState, replays: worker.replays, check: worker.check,
		args: gemm.Args{Check: worker.check}, mem: mem, dir: dir, firstSequence: firstSequence, sequences: sequences,
		h: buffers[:usedBytes], c: buffers[bytesPerBuffer:][:usedBytes],
		resetState: buffers[2*bytesPerBuffer:][:usedBytes],
		gates:      buffers[3*bytesPerBuffer:],
		lengths:    kit.ElementsOf[int32](mem.Ptrs[stepLengths], s.batch)}
	worker.loopState.Context = mem.Context
	worker.productScratch = mem.WorkerScratch[s.bufferBytes:][:s.productBytes]
	worker.args.Shared = mem.WorkerScratch[s.bufferBytes+s.productBytes:][:s.panelBytes]
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
		for stateIndex, states := range [2][]byte{worker.h, worker.c} {
			row := s.row(states, sequence)
			if initial := worker.mem.Ptrs[stepH0+stateIndex]; initial != nil { // stepH0 or stepC0
				copy(row, s.stateRow(initial, worker, sequence))
			} else {
				clear(row)
			}
		}
	}
}

// row returns the state of a sequence of a block. states is a buffer with one row for each sequence.
func (s *stepper) row(states []byte, sequence int) []byte {
	return states[sequence*s.hidden*s.elemBytes:][:s.hidden*s.elemBytes]
}

// rowAt returns the row of an operand or result that starts at its element first. address points to its element 0.
func (s *stepper) rowAt(address unsafe.Pointer, first int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(address, first*s.elemBytes)), s.hidden*s.elemBytes)
}

// stateRow returns the state of a sequence of the block. address points to an operand with initial states, or to a
// result with last states.
func (s *stepper) stateRow(address unsafe.Pointer, worker *cellRun, sequence int) []byte {
	return s.rowAt(address, worker.dir*s.stateDirStride+(worker.firstSequence+sequence)*s.stateBatchStride)
}

// record prepares a product (0 or 1) once, so that each step only runs it again. The product multiplies the states by
// the weights.
func (s *stepper) record(worker *cellRun, product int, states []byte) {
	if plan := s.planOf(worker, product); plan != nil {
		s.setOperands(worker, product, states)
		worker.hasReplay[product] = plan.PrepareReplay(&worker.replays[product], &worker.args)
	}
}

// planOf returns the plan of a product for a block. plans[1] is for the last block, which may have fewer sequences.
func (s *stepper) planOf(worker *cellRun, product int) *gemm.Plan {
	if worker.sequences != s.blockSequences {
		return s.plans[1][product]
	}
	return s.plans[0][product]
}

// setOperands sets the operands of a product, which multiplies the states by the weights.
func (s *stepper) setOperands(worker *cellRun, product int, states []byte) {
	worker.args.A = unsafe.Pointer(unsafe.SliceData(states))
	worker.args.B = s.weights(worker.mem, worker.dir, product)
	worker.args.C = unsafe.Pointer(&worker.gates[s.firstRow(product)*s.elemBytes])
}

// multiply computes a product of a step, gates = state @ Rᵀ, where R are the recurrent weights. In the second product
// of a GRU, state is the state after the reset gate.
func (s *stepper) multiply(worker *cellRun, product int) {
	if worker.hasReplay[product] {
		worker.replays[product].Run()
		return
	}
	s.setOperands(worker, product, [2][]byte{worker.h, worker.resetState}[product])
	s.planOf(worker, product).RunAll(&worker.args, worker.productScratch)
}

// stepAddresses returns two addresses for one step of a sequence of the block. in is the address of the products of the
// input with the weights of all gates, which were computed before. y is the address of the result.
func (s *stepper) stepAddresses(worker *cellRun, step, sequence int) (in, y unsafe.Pointer) {
	position := step
	if s.backward[worker.dir] {
		position = s.length(worker, sequence) - 1 - step
	}
	// The products of the input have s.rows elements for each direction, step and sequence.
	inputRow := worker.dir*s.steps*s.batch + position*s.xTimeStride + (worker.firstSequence+sequence)*s.xBatchStride
	yElement := s.yElement(worker, position, sequence)
	return unsafe.Add(worker.mem.Ptrs[stepInputs], inputRow*s.rows*s.elemBytes),
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
		for stateIndex, states := range [2][]byte{worker.h, worker.c} {
			if last := worker.mem.Ptrs[stepHN+stateIndex]; last != nil { // stepHN or stepCN
				copy(s.stateRow(last, worker, sequence), s.row(states, sequence))
			}
		}
		y := worker.mem.Ptrs[stepY]
		if y == nil {
			continue
		}
		for step := s.length(worker, sequence); step < s.steps; step++ {
			clear(s.rowAt(y, s.yElement(worker, step, sequence)))
		}
	}
}
