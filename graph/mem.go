package graph

import (
	"context"
	"unsafe"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/tensor"
)

// Mem is the memory of one execution of a kernel in one worker.
type Mem struct {
	Place tensor.Place     // place of all addresses
	Ptrs  []unsafe.Pointer // first elements of the outputs, then of all operands; nil for an absent operand
	// Queue and Addresses are set in programs that use a device. Queue executes the kernels of the device.
	// Addresses has an address for each element of Ptrs; an operand on the device has a nil pointer in
	// Ptrs. The last address is that of the scratch memory, if a kernel on the device needs scratch memory.
	Queue     Queue
	Addresses []DeviceAddress
	Scratch   []byte          // shared by all workers
	Worker    []byte          // memory of this worker
	Walk      any             // iteration state of this worker, for package fusion
	State     *WorkerState    // objects of this worker, one for each [PerWorker]; may be nil
	Context   context.Context // context of the run; nil is a context that never ends

	steps int // simple steps since Count checked the context
}

// CheckContext ends the chunk (see [Phase]) by a panic if the context of the run has ended. The executor
// recovers the panic. A chunk of unbounded size, such as a whole row, must call CheckContext at least every
// 10 ms.
func (m *Mem) CheckContext() {
	if m != nil {
		interrupt.Check(m.Context)
	}
}

// checkSteps is the number of simple steps between two checks of the context.
const checkSteps = 1 << 16

// Count counts n simple steps of a long chunk. A simple step takes a few nanoseconds. Count checks the context after
// every checkSteps steps: see [Mem.CheckContext].
//
//go:noinline
func (m *Mem) Count(n int) {
	if m == nil {
		return
	}
	if m.steps += n; m.steps >= checkSteps {
		m.steps = 0
		interrupt.Check(m.Context)
	}
}

// NewMem returns memory for the kernel in one worker, without addresses.
func (kernel *Kernel) NewMem() *Mem {
	return &Mem{Place: kernel.Place, Scratch: tensor.NewStorage(kernel.Scratch).Bytes(),
		Worker: tensor.NewStorage(kernel.Worker).Bytes(), State: new(WorkerState)}
}

// Within sets *in to the memory for an inner kernel, which the kernel of m runs as a part of itself. The
// inner kernel gets the memory of m without the addresses. Scratch of the inner kernel begins at byte
// `offset` of m.Scratch.
func (m *Mem) Within(in *Mem, offset int) {
	in.Place, in.Ptrs = m.Place, in.Ptrs[:0]
	in.Scratch, in.Worker, in.Walk, in.State = m.Scratch[offset:], m.Worker, m.Walk, m.State
	in.Context = m.Context
}

// Release clears the fields that Within set, so that they keep no memory alive.
func (m *Mem) Release() {
	clear(m.Ptrs)
	*m = Mem{Ptrs: m.Ptrs[:0]}
}

// PerWorker gives each worker an object of type T. Unlike [Mem.Worker], the object may contain pointers: growing lists,
// closures, the [Mem] of an inner kernel. A worker makes its object at the first use and keeps it between chunks and,
// in a session, between runs.
//
// A kernel has a PerWorker for each kind of object. A PerWorker is identified by its address and must not
// be copied. Before a chunk ends, it must clear addresses and other references to the run in the object;
// otherwise the session would retain the run's tensors. The contents of the object depend on the chunks
// that the worker ran before, so results must not depend on these contents.
type PerWorker[T any] struct {
	// Make returns a new object; nil means new(T).
	Make func() *T
}

// Of returns the object of the worker that owns the Mem.
func (p *PerWorker[T]) Of(m *Mem) *T {
	if m.State == nil {
		m.State = new(WorkerState)
	}
	if v, ok := m.State.objects[p]; ok {
		return v.(*T)
	}
	var v *T
	if p.Make != nil {
		v = p.Make()
	} else {
		v = new(T)
	}
	if m.State.objects == nil {
		m.State.objects = map[any]any{}
	}
	m.State.objects[p] = v
	return v
}

// WorkerState has the objects of one worker, one for every [PerWorker] of the kernels that the worker runs. The zero
// value is ready for use. It is not safe for concurrent use.
type WorkerState struct{ objects map[any]any }
