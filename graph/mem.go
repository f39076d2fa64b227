package graph

import (
	"context"
	"unsafe"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/tensor"
)

// Mem is the memory of one execution of a kernel in one worker. Ptrs has the addresses of the first elements of the
// outputs, then of all operands (nil for an absent one). Scratch is shared by all workers; the rest belongs to the
// worker: bytes, the state of walks, which package fusion keeps in Walk, and the memory of kernels' [PerWorker] (nil:
// none yet). Context is that of the run; a nil Context never ends.
type Mem struct {
	Place   tensor.Place // of all addresses
	Ptrs    []unsafe.Pointer
	Scratch []byte
	Worker  []byte
	Walk    any
	State   *WorkerState
	Context context.Context

	steps int // since Count looked at the context
}

// CheckContext ends the chunk, by a panic that the executor recovers, if the context of the run has ended. A chunk of
// unbounded size, such as one of a whole row, calls it at least every 10 ms.
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

// Within makes in the memory of a kernel that runs within the kernel: that of m, with scratch memory from byte at on,
// without addresses.
func (m *Mem) Within(in *Mem, at int) {
	in.Place, in.Ptrs = m.Place, in.Ptrs[:0]
	in.Scratch, in.Worker, in.Walk, in.State = m.Scratch[at:], m.Worker, m.Walk, m.State
	in.Context = m.Context
}

// Release drops the memory that Within lent.
func (m *Mem) Release() {
	clear(m.Ptrs)
	*m = Mem{Ptrs: m.Ptrs[:0]}
}

// PerWorker is memory of each worker that, unlike [Mem.Worker], may hold pointers: growing lists, closures, the [Mem]
// of a kernel within a kernel. It is made at the first use by a worker, and kept with the [Mem]: from chunk to chunk
// and, in a session, from run to run.
//
// A kernel has a PerWorker for each kind of memory, identified by its address: it must not be copied. Values of the
// run, in particular addresses, must be cleared before a chunk ends, or the session would retain the run's tensors.
// Results must not depend on contents, because these depend on the chunks that the worker has run before.
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
// for use. It is for one goroutine at a time.
type WorkerState struct{ by map[any]any }
