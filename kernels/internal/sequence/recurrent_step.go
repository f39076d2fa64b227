package sequence

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// cellRun is the state of a worker while it runs a block of sequences through the steps. Each worker reuses its
// cellRun, because products take the address of args, which would otherwise be allocated for each block.
type cellRun struct {
	mem                     *graph.Mem
	dir, firstSequence, n   int    // direction, first sequence of the block, number of sequences
	h, c, gates, resetState []byte // rows of the block: state, cell, gates, and the state after the reset gate of a GRU
	lengths                 []int32
	args                    gemm.Args
	repeated                *[2]gemm.Repeated // recorded products: each step repeats a product with the same operands
	check                   func()            // checks the context of mem
	recorded                [2]bool           // by product: whether it was recorded
	work                    []byte            // scratch memory of a product
	loopState               loops.State
	ptrs                    [expr.MaxOperands]unsafe.Pointer // the addresses of a loop's operands
	strides                 [expr.MaxOperands]int            // the strides of a loop's operands
}

// run runs the block that starts at sequence b0 through all steps of direction dir.
func (s *stepper) run(m *graph.Mem, dir, b0 int) {
	n, rowBytes := min(s.blockSequences, s.batch-b0), s.hidden*s.elemBytes
	buffers := m.Worker[:s.bufferBytes]
	r := s.runs.Of(m)
	if r.repeated == nil {
		r.repeated, r.check = new([2]gemm.Repeated), func() { r.mem.CheckContext() }
	}
	*r = cellRun{loopState: r.loopState, repeated: r.repeated, check: r.check, args: gemm.Args{Check: r.check},
		mem: m, dir: dir, firstSequence: b0, n: n,
		h: buffers[:n*rowBytes], c: buffers[s.blockSequences*rowBytes:][:n*rowBytes],
		resetState: buffers[2*s.blockSequences*rowBytes:][:n*rowBytes], gates: buffers[3*s.blockSequences*rowBytes:],
		lengths: kit.ElementsOf[int32](m.Ptrs[stepLengths], s.batch)}
	r.loopState.Context = m.Context
	r.work = m.Worker[s.bufferBytes:][:s.productBytes]
	r.args.Shared = m.Worker[s.bufferBytes+s.productBytes:][:s.panelBytes]
	s.begin(r)
	s.record(r, 0, r.h)
	s.record(r, 1, r.resetState)
	longest := 0
	for i := range n {
		longest = max(longest, s.length(r, i))
	}
	for step := range longest {
		m.CheckContext()
		s.multiply(r, 0)
		s.runCellLoop(r, 0, step)
		if len(s.loops[dir]) > 1 {
			s.multiply(r, 1)
			s.runCellLoop(r, 1, step)
		}
	}
	s.finish(r)
	r.loopState.Release()
	for q := range r.repeated {
		r.repeated[q].Release()
	}
	*r = cellRun{loopState: r.loopState, repeated: r.repeated, check: r.check}
}

// length returns the length of sequence i of a block, in steps.
func (s *stepper) length(r *cellRun, i int) int {
	if r.lengths == nil {
		return s.steps
	}
	return min(max(int(r.lengths[r.firstSequence+i]), 0), s.steps)
}

// begin sets the initial states of a block.
func (s *stepper) begin(r *cellRun) {
	for i := range r.n {
		for q, to := range [2][]byte{r.h, r.c} {
			row := s.row(to, i)
			if from := r.mem.Ptrs[stepH0+q]; from != nil {
				copy(row, s.stateRow(from, r, i))
			} else {
				clear(row)
			}
		}
	}
}

// row returns the state of sequence i of a block. states is a buffer with one row for each sequence.
func (s *stepper) row(states []byte, i int) []byte {
	return states[i*s.hidden*s.elemBytes:][:s.hidden*s.elemBytes]
}

// rowAt returns a row of an operand or a result that starts at element first.
func (s *stepper) rowAt(p unsafe.Pointer, first int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(p, first*s.elemBytes)), s.hidden*s.elemBytes)
}

// stateRow returns the state of sequence i of the block. p is either an operand with initial states or a result with
// last states.
func (s *stepper) stateRow(p unsafe.Pointer, r *cellRun, i int) []byte {
	return s.rowAt(p, r.dir*s.stateDir+(r.firstSequence+i)*s.stateBatch)
}

// record prepares product q once, so that each step only runs it again. The product multiplies `from` by the weights.
func (s *stepper) record(r *cellRun, q int, from []byte) {
	if plan := s.planOf(r, q); plan != nil {
		s.setOperands(r, q, from)
		r.recorded[q] = plan.Repeat(&r.repeated[q], &r.args)
	}
}

// planOf returns the plan of product q for a block.
func (s *stepper) planOf(r *cellRun, q int) *gemm.Plan {
	if r.n != s.blockSequences {
		return s.plans[1][q]
	}
	return s.plans[0][q]
}

// setOperands sets the operands of product q.
func (s *stepper) setOperands(r *cellRun, q int, from []byte) {
	r.args.A = unsafe.Pointer(unsafe.SliceData(from))
	r.args.B = s.weights(r.mem, r.dir, q)
	r.args.C = unsafe.Pointer(&r.gates[s.firstRow(q)*s.elemBytes])
}

// multiply computes product q of a step, gates = state @ Rᵀ, where R are the recurrent weights. In the second product
// of a GRU, state is the state after the reset gate.
func (s *stepper) multiply(r *cellRun, q int) {
	if r.recorded[q] {
		r.repeated[q].Run()
		return
	}
	s.setOperands(r, q, [2][]byte{r.h, r.resetState}[q])
	s.planOf(r, q).RunAll(&r.args, r.work)
}

// stepAddresses returns two addresses for one step of sequence i of the block. in is the address of the products of the
// input with the weights of all gates, which were computed before. y is the address of the result.
func (s *stepper) stepAddresses(r *cellRun, step, i int) (in, y unsafe.Pointer) {
	t := step
	if s.backward[r.dir] {
		t = s.length(r, i) - 1 - step
	}
	row := r.dir*s.steps*s.batch + t*s.xStep + (r.firstSequence+i)*s.xBatch
	return unsafe.Add(r.mem.Ptrs[stepInputs], row*s.rows*s.elemBytes),
		unsafe.Add(r.mem.Ptrs[stepY], (t*s.yStep+(r.firstSequence+i)*s.yBatch+r.dir*s.yDir)*s.elemBytes)
}

// finish writes the last states. It also writes zeros to the results of steps after the end of shorter sequences.
func (s *stepper) finish(r *cellRun) {
	for i := range r.n {
		for q, from := range [2][]byte{r.h, r.c} {
			if p := r.mem.Ptrs[stepHN+q]; p != nil {
				copy(s.stateRow(p, r, i), s.row(from, i))
			}
		}
		p := r.mem.Ptrs[stepY]
		if p == nil {
			continue
		}
		for t := s.length(r, i); t < s.steps; t++ {
			clear(s.rowAt(p, t*s.yStep+(r.firstSequence+i)*s.yBatch+r.dir*s.yDir))
		}
	}
}
