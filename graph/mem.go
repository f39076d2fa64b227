package graph

import (
	"context"
	"unsafe"

	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// Mem is the memory of one execution of a kernel in one worker. Ptrs holds the addresses of the
// first elements of the outputs, then of all operands (nil for one left out). Scratch is shared
// by all workers; what follows belongs to the worker: bytes, the state of walks, and what the
// kernels' [PerWorker] made (nil: none as yet). Context is that of the run; a nil one never ends.
type Mem struct {
	Ptrs    []unsafe.Pointer
	Scratch []byte
	Worker  []byte
	Cursor  *iter.Cursor
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
	return &Mem{Scratch: tensor.NewStorage(k.Scratch).Bytes(), Worker: tensor.NewStorage(k.Worker).Bytes(),
		Cursor: new(iter.Cursor), State: new(WorkerState)}
}

// Within makes in the memory of a kernel within the kernel: all that m has, with scratch memory
// from byte at on, but no addresses.
func (m *Mem) Within(in *Mem, at int) {
	in.Ptrs = in.Ptrs[:0]
	in.Scratch, in.Worker, in.Cursor, in.State = m.Scratch[at:], m.Worker, m.Cursor, m.State
	in.Context = m.Context
}

// Release forgets all that Within lent.
func (m *Mem) Release() {
	clear(m.Ptrs)
	*m = Mem{Ptrs: m.Ptrs[:0]}
}
