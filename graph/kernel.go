package graph

import (
	"context"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// Kernel is the executable form of a call with fixed metas. It has no state of a run. Several runs may use it at the
// same time.
type Kernel struct {
	// Place is the processor that runs the kernel, and the memory that it accesses.
	Place  tensor.Place
	Phases []Phase // they run one after another
	// Scratch is the size in bytes of the memory that all chunks of a run share. WorkerScratch is the size in bytes of
	// the memory of each worker. Both memories are 64-byte aligned and not cleared.
	Scratch, WorkerScratch int
	// InPlace lists pairs of an output and an operand. The output may use the memory of the operand if the operand is not
	// needed afterwards.
	InPlace []InPlace
	// EmbeddedOperands is indexed by operand. It has the tensors of operands that are part of the kernel, such as plain
	// numbers, and nil for operands that the run supplies.
	EmbeddedOperands []*tensor.Tensor
	// Loop describes the iteration of a pointwise kernel; nil for other kernels.
	Loop Loop
	// Code lists the expressions of the kernel's loops, and the generated code; nil for a kernel that has none.
	Code func() []expr.Listing
	// Arithmetic is the estimated time in nanoseconds of the kernel's machine code on one worker, without memory
	// accesses. 0 means that the time is estimated from [Work].
	Arithmetic float64
	// FoldOrder identifies the order in which the kernel sums the elements of a row. It is empty if the order does not
	// depend on the number of rows. If two kernels of an implementation have equal orders, a row has the same bits in
	// both results.
	FoldOrder string
	Forms     []Form // the computation as data, for compilers of devices; nil if there is no description
}

// InPlace means that output Out may use the memory of operand In.
type InPlace struct{ Out, In int }

// Loop describes the iteration of a pointwise kernel, for reports and estimates of cost.
type Loop interface {
	Len() int                      // number of operands, outputs included
	Numel() int                    // number of elements
	WalkShape() []int              // sizes of the coalesced dimensions
	WalkStrides(operand int) []int // strides of an operand in bytes; outputs are the first operands
	FastSetup() rule.FastSetup     // the common layout of all operands, if they have one: see rule.FastSetup
}

// Phase is work divided into chunks that may run in any order and at the same time. The division into chunks, and thus
// the bits of the result, depends only on shapes and strides.
type Phase struct {
	Chunks int
	Run    func(m *Mem, chunk int) error
	// RunRange computes chunks [begin, end) faster than calls of Run, with the same bits; it may be nil. If there are
	// more chunks than workers, the executor calls it with a range for each worker.
	RunRange func(m *Mem, begin, end int) error
	Flow     *Flow // nil if the progress of chunks is not described
}

// Flow describes the progress of a phase. With a Flow, the executor can start chunks while the step that computes the
// first operand is still running. The chunks, numbered from 0, process memory in ascending order. For both functions, a
// larger chunk never has a smaller result.
type Flow struct {
	// FinalElements returns the number of elements of the first output, in memory order, that are final after the chunks
	// from 0 to chunk have run.
	FinalElements func(chunk int) int
	// NeededElements returns the number of leading elements of the first operand, in memory order, that the chunks from 0
	// to chunk read.
	NeededElements func(chunk int) int
}

// Mem is the memory of one execution of a kernel in one worker.
type Mem struct {
	Place tensor.Place     // place of all addresses
	Ptrs  []unsafe.Pointer // first elements of the outputs, then of all operands; nil for an absent operand
	// Queue and Addresses are set in programs that use a device. Queue executes the kernels of the device. Addresses
	// has an address for each element of Ptrs. The element of Ptrs is nil for an operand on the device. If a kernel on
	// the device needs scratch memory, the last of the Addresses is the address of this memory.
	Queue         Queue
	Addresses     []DeviceAddress
	Scratch       []byte          // shared by all workers
	WorkerScratch []byte          // memory of this worker
	Walk          any             // iteration state of this worker; package fusion uses it
	State         *WorkerState    // objects of this worker, one for each [PerWorker]; may be nil
	Context       context.Context // context of the run; nil is a context that never ends

	steps int // number of simple steps since CheckContextAfter last checked the context
}

// CheckContext ends the chunk (see [Phase]) by a panic if the context of the run has ended. The executor
// recovers the panic. A chunk of unbounded size, such as a whole row, must call CheckContext at least every
// 10 ms.
func (m *Mem) CheckContext() {
	if m != nil {
		interrupt.Check(m.Context)
	}
}

// stepsBetweenChecks is the number of simple steps between two checks of the context.
const stepsBetweenChecks = 1 << 16

// CheckContextAfter counts n simple steps of a long chunk. A simple step takes a few nanoseconds. After every
// stepsBetweenChecks steps, it checks the context: see [Mem.CheckContext].
//
// Not inlined, because it has many callers.
//
//go:noinline
func (m *Mem) CheckContextAfter(n int) {
	if m == nil {
		return
	}
	if m.steps += n; m.steps >= stepsBetweenChecks {
		m.steps = 0
		interrupt.Check(m.Context)
	}
}

// NewMem returns memory for the kernel in one worker, without addresses.
func (kernel *Kernel) NewMem() *Mem {
	return &Mem{Place: kernel.Place, Scratch: tensor.NewStorage(kernel.Scratch).Bytes(),
		WorkerScratch: tensor.NewStorage(kernel.WorkerScratch).Bytes(), State: new(WorkerState)}
}

// Within sets *inner to the memory of an inner kernel, which is a part of the kernel of m. The inner kernel gets the
// memory of m without the addresses. Scratch of the inner kernel begins at byte `offset` of m.Scratch.
func (m *Mem) Within(inner *Mem, offset int) {
	inner.Place, inner.Ptrs = m.Place, inner.Ptrs[:0]
	inner.Scratch, inner.WorkerScratch, inner.Walk, inner.State = m.Scratch[offset:], m.WorkerScratch, m.Walk, m.State
	inner.Context = m.Context
}

// Release clears all fields, so that they keep no memory alive.
func (m *Mem) Release() {
	clear(m.Ptrs)
	*m = Mem{Ptrs: m.Ptrs[:0]}
}

// PerWorker gives each worker an object of type T. Unlike [Mem.WorkerScratch], the object may contain pointers: growing
// lists, closures, or the [Mem] of an inner kernel. A worker makes its object at the first use and keeps it between
// chunks and, in a session, between runs.
//
// A kernel has a PerWorker for each kind of object. A PerWorker is identified by its address and must not
// be copied. Before a chunk ends, the kernel must clear all addresses and references to the run's tensors in the
// object; otherwise the session would retain the tensors. The contents of the object depend on the chunks
// that the worker ran before, so results must not depend on these contents.
type PerWorker[T any] struct {
	// Make returns a new object; nil means new(T).
	Make func() *T
}

// Get returns the object of the worker that owns the Mem.
func (p *PerWorker[T]) Get(m *Mem) *T {
	if m.State == nil {
		m.State = new(WorkerState)
	}
	if object, ok := m.State.objects[p]; ok {
		return object.(*T)
	}
	var object *T
	if p.Make != nil {
		object = p.Make()
	} else {
		object = new(T)
	}
	if m.State.objects == nil {
		m.State.objects = map[any]any{}
	}
	m.State.objects[p] = object
	return object
}

// WorkerState has the objects of one worker, one for every [PerWorker] of the kernels that the worker runs. The zero
// value is ready for use. It is not safe for concurrent use.
type WorkerState struct{ objects map[any]any }
