package graph

import (
	"context"
	"unsafe"

	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/tensor"
)

// Mem is the memory of one execution of a kernel in one worker. Ptrs holds the addresses of the
// first elements of the outputs, then of all operands (nil for one left out). Scratch is shared
// by all workers; the rest belongs to the worker: bytes, the state of the walks of package fusion, and
// the memory that kernels' [PerWorker] made (nil: none yet). Context is that of the run; a nil one never ends.
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

// Look ends the chunk, by a panic that the executor recovers, if the context of the run has ended. A chunk whose size
// is not bounded, such as one of a whole row, calls it every 10 ms or more often.
func (m *Mem) Look() {
	if m != nil {
		ends.Look(m.Context)
	}
}

// lookSteps is how many simple steps a chunk takes between two looks at the context.
const lookSteps = 1 << 16

// Count adds n simple steps of a long chunk, of a few nanoseconds each, and looks at the context when there are many:
// see [Mem.Look].
func (m *Mem) Count(n int) {
	if m == nil {
		return
	}
	if m.steps += n; m.steps >= lookSteps {
		m.steps = 0
		ends.Look(m.Context)
	}
}

// NewMem returns memory for the kernel in one worker, without addresses.
func (k *Kernel) NewMem() *Mem {
	return &Mem{Place: k.Place, Scratch: tensor.NewStorage(k.Scratch).Bytes(), Worker: tensor.NewStorage(k.Worker).Bytes(),
		State: new(WorkerState)}
}

// Within makes in the memory of a kernel within the kernel: all that m has, with scratch memory
// from byte at on, but no addresses.
func (m *Mem) Within(in *Mem, at int) {
	in.Place, in.Ptrs = m.Place, in.Ptrs[:0]
	in.Scratch, in.Worker, in.Walk, in.State = m.Scratch[at:], m.Worker, m.Walk, m.State
	in.Context = m.Context
}

// Release forgets all that Within lent.
func (m *Mem) Release() {
	clear(m.Ptrs)
	*m = Mem{Ptrs: m.Ptrs[:0]}
}

// PerWorker is memory that each worker has for itself and that, unlike [Mem.Worker], may hold
// pointers: lists that grow, callbacks that are closures over them, the [Mem] of a kernel within
// a kernel. It is made when a worker first asks for it, and kept by whoever owns the [Mem]: from
// chunk to chunk and, in a session, from run to run.
//
// A kernel holds one for each kind of memory that it needs; its address says which is meant, so
// that it must not be copied. What depends on the run, above all addresses, must be cleared
// before a chunk ends, or a session that is kept would keep the run's tensors. Contents do not
// tell which chunks a worker has run before: results must not depend on them.
type PerWorker[T any] struct {
	// Make returns fresh memory; nil means new(T).
	Make func() *T
}

// Of returns the memory of the worker whose Mem it is.
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

// WorkerState is what one worker keeps for all [PerWorker] of the kernels that it runs. The zero
// value is ready. It is for one goroutine at a time.
type WorkerState struct{ by map[any]any }
