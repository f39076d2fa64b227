package graph

import (
	"context"
	"unsafe"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/tensor"
)

// Mem is the memory of one execution of a kernel in one worker.
type Mem struct {
	Place   tensor.Place     // place of all addresses
	Ptrs    []unsafe.Pointer // first elements of the outputs, then of all operands; nil for an absent operand
	Scratch []byte           // shared by all workers
	Worker  []byte           // memory of this worker
	Walk    any              // iteration state of this worker, for package fusion
	State   *WorkerState     // memory of this worker for each [PerWorker]; may be nil
	Context context.Context  // context of the run; nil never ends

	steps int // simple steps since Count checked the context
}

// CheckContext ends the chunk, by a panic that the executor recovers, if the context of the run has ended. A chunk of
// unbounded size, such as a whole row, calls it at least every 10 ms.
func (m *Mem) CheckContext() {
	if m != nil {
		interrupt.Check(m.Context)
	}
}

// lookSteps is the number of simple steps between two checks of the context.
const lookSteps = 1 << 16

// Count adds n simple steps of a long chunk, of a few nanoseconds each, and checks the context after many steps: see
// [Mem.CheckContext].
func (m *Mem) Count(n int) {
	if m == nil {
		return
	}
	if m.steps += n; m.steps >= lookSteps {
		m.steps = 0
		interrupt.Check(m.Context)
	}
}

// NewMem returns memory for the kernel in one worker, without addresses.
func (k *Kernel) NewMem() *Mem {
	return &Mem{Place: k.Place, Scratch: tensor.NewStorage(k.Scratch).Bytes(), Worker: tensor.NewStorage(k.Worker).Bytes(),
		State: new(WorkerState)}
}

// Within sets in to the memory for an inner kernel that runs as part of the kernel of m: the memory of m, with scratch
// memory from byte at on, and without addresses.
func (m *Mem) Within(in *Mem, at int) {
	in.Place, in.Ptrs = m.Place, in.Ptrs[:0]
	in.Scratch, in.Worker, in.Walk, in.State = m.Scratch[at:], m.Worker, m.Walk, m.State
	in.Context = m.Context
}

// Release clears memory that Within set, so that it keeps nothing alive.
func (m *Mem) Release() {
	clear(m.Ptrs)
	*m = Mem{Ptrs: m.Ptrs[:0]}
}

// PerWorker is memory of each worker that, unlike [Mem.Worker], may contain pointers: growing lists, closures, the
// [Mem] of an inner kernel. A worker makes it at the first use and keeps it between chunks and, in a session, between
// runs.
//
// A kernel has one PerWorker for each kind of memory. It is identified by its address and must not be copied. Addresses
// and other values of a run must be cleared before a chunk ends, otherwise the session would retain the run's tensors.
// Results must not depend on the contents, because these depend on the chunks that the worker has run before.
type PerWorker[T any] struct {
	// Make returns fresh memory; nil means new(T).
	Make func() *T
}

// Of returns the memory of the worker that owns the Mem.
func (p *PerWorker[T]) Of(m *Mem) *T {
	if m.State == nil {
		m.State = new(WorkerState)
	}
	if v, ok := m.State.by[p]; ok {
		return v.(*T)
	}
	var v *T
	if p.Make != nil {
		v = p.Make()
	} else {
		v = new(T)
	}
	if m.State.by == nil {
		m.State.by = map[any]any{}
	}
	m.State.by[p] = v
	return v
}

// WorkerState has the memory of one worker for every [PerWorker] of the kernels that it runs. The zero value is ready
// for use. It is not safe for concurrent use.
type WorkerState struct{ by map[any]any }
