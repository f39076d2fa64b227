package graph

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// ErrNoImpl is the error of a call whose layouts no implementation of the op supports.
var ErrNoImpl = errors.New("no implementation supports these layouts")

// Impl is an implementation of an op: an algorithm that reports list, the planner prices, and users can pin. It has one
// or more walks. A [Walk] is an order of the loops with the layouts of the results. For example, conv2d has the
// implementation nhwc for channels-last images and the implementation nchw for row-major images. [Define] replaces nil
// functions by defaults. If an op has no implementations, [Define] makes one Impl from Compile.
type Impl struct {
	Name string // unique within the op: "nhwc"
	Doc  string // how it computes, in one sentence

	// Inexact means that the implementation uses another formula than the op's definition. The two formulas are equal
	// for real numbers, but their floating-point results differ more than results of reordered sums do. Exact plans
	// exclude the implementation.
	Inexact bool

	// Walks returns the walks that the implementation supports for a call, the preferred walk first. It returns none if
	// the implementation does not support the call. call.Out has the inferred results. candidates are orders that the
	// planner considers for the first result. If Walks is nil, [Define] sets a function that returns the inferred
	// order. For an op that writes any order, this function also returns every candidate.
	Walks func(call *Call, candidates []tensor.Order) []Walk
	// Read returns the additional work of reading operand i in layout meta instead of the layout that suits the walk. It
	// returns false if the implementation cannot read the layout, so that the operand must be copied. meta need not be
	// dense: it may be a slice or a broadcast. If Read is nil, operands are read in any layout.
	//
	// The price of a node is the price of Work plus the price of Read for each operand. Only the argument meta of Read
	// gives the layout of an operand. Work, Read and Walks must not use the layouts of the operands in call. They may
	// use the shapes and dtypes of the operands, and whether an operand is a constant.
	Read func(call *Call, walk Walk, i int, meta tensor.Meta) (pricing.Work, bool)
	// Writes reports whether the kernel can write result i in layout meta. meta is a slice of a larger value and has the
	// order of the walk. If Writes is nil, the kernel writes only dense values.
	Writes func(call *Call, walk Walk, i int, meta tensor.Meta) bool
	// Work is the work of computing and storing the results, and of reading every operand once in the layout that suits
	// the walk. If Work is nil, the op's Pricing computes the work. Without a Pricing, the work follows from
	// FlopsPerElement, Flops and one access to every byte.
	Work func(call *Call, walk Walk) pricing.Work
	// Pack returns the packed form of operand i, a constant, for the call with its walk and final results. It returns
	// false if the kernel reads the operand unpacked. Pack must not read the data of the operand, and must return the
	// same result if the operand is already packed. If Pack is nil, no operand is packed.
	Pack func(call *Call, i int) (Packing, bool)
	// ReadsView reports whether the kernel also reads operand i in the view of data that are packed for another node
	// ([Packed.View]). If it is nil, the kernel does not.
	ReadsView func(call *Call, i int) bool
	// Lower makes the kernel. call.Out has the final results. An operand with a packed form is packed unless memory is
	// short: see [Call.Packed].
	Lower func(call *Call) (*Kernel, error)
	// Epilogues means that Lower accepts calls with a [Call.Epilogue] if the result is float32, float64 or int32. The
	// kernel applies the epilogue once to every final element of its only result. Passes then fuse a node with the
	// pointwise nodes that follow it.
	Epilogues bool

	// ResultPlace is the place of the results. OperandPlace is the place of the operands; it differs from ResultPlace only
	// in transfers. An implementation on a device also reads an operand with 0 dimensions from the host, as PyTorch's
	// kernels do.
	ResultPlace, OperandPlace tensor.Place
	// Forms describes the call for compilers of devices. It returns forms ([Form]) that run in order, or nil if the
	// call has no form. If Forms is nil, the form is made from the op's Expression or Rows. See [FormsOf].
	Forms func(call *Call) ([]Form, error)

	hasRead bool // the op's definition has a Read function, which may reject layouts

	// definedRead is the Read function of the op's definition. The Work that it returns lacks the footprint: the size
	// of all operands and results of the call. Define replaces Read by a function that adds the footprint. definedRead
	// is nil before the op is defined.
	definedRead func(call *Call, walk Walk, i int, meta tensor.Meta) (pricing.Work, bool)
}

// completeImpls sets the nil functions of the implementations. If the op has no implementations, it makes one from
// Compile. Otherwise it sets Compile.
func (op *Op) completeImpls() {
	if len(op.Impls) == 0 {
		if op.Compile == nil {
			return
		}
		impl := Impl{Name: "plain", Doc: "The only implementation.", Lower: op.Compile}
		if op.Pointwise != nil {
			impl = Impl{Name: "loop", Doc: "One loop over the elements, in the order that the iterator gives.",
				Lower: op.Compile, Writes: func(*Call, Walk, int, tensor.Meta) bool { return true }}
		}
		op.Impls = []Impl{impl}
	} else {
		op.Impls = slices.Clone(op.Impls)
		op.Compile = op.compileByImpl
	}
	for i := range op.Impls {
		op.completeImpl(&op.Impls[i])
	}
}

// completeImpl sets the nil functions of an implementation.
func (op *Op) completeImpl(impl *Impl) {
	impl.hasRead = impl.Read != nil
	if impl.Walks == nil {
		impl.Walks = op.defaultWalks
	}
	if impl.Read == nil {
		impl.Read = op.defaultRead
	}
	if impl.Work == nil {
		impl.Work = op.defaultWork
	}
	impl.definedRead = impl.Read // without the footprint: OperandWorkFunc computes it once for many calls
	impl.Work, impl.Read = withFootprint(impl.Work), readWithFootprint(impl.Read)
}

// defaultWalks is the default of [Impl.Walks].
func (op *Op) defaultWalks(call *Call, candidates []tensor.Order) []Walk {
	list := []Walk{{}} // the zero Walk: results in the inferred layouts
	if op.Kind != FollowsOperands && !op.WritesAnyDenseLayout || len(call.Out) == 0 {
		return list
	}
	for _, order := range candidates {
		if order.Rank() == call.Out[0].Rank() && order != "" {
			list = append(list, call.WalkInOrder(order))
		}
	}
	return list
}

// withFootprint returns a function that calls work. If the result has no footprint, the function sets the footprint of
// the call.
func withFootprint(work func(*Call, Walk) pricing.Work) func(*Call, Walk) pricing.Work {
	return func(call *Call, walk Walk) pricing.Work {
		result := work(call, walk)
		if result.Footprint == 0 {
			result.Footprint = call.Footprint()
		}
		return result
	}
}

// readWithFootprint adds the footprint to the work of reading an operand, as withFootprint does for the work of a call.
func readWithFootprint(read func(*Call, Walk, int, tensor.Meta) (pricing.Work, bool)) func(*Call, Walk, int,
	tensor.Meta) (pricing.Work, bool) {
	return func(call *Call, walk Walk, i int, meta tensor.Meta) (pricing.Work, bool) {
		result, ok := read(call, walk, i, meta)
		if result.Footprint == 0 && result != (pricing.Work{}) {
			result.Footprint = call.Footprint()
		}
		return result, ok
	}
}

// compileByImpl is the Compile function of an op with implementations. It uses the implementation that Fitting returns.
func (op *Op) compileByImpl(call *Call) (*Kernel, error) {
	impl := op.Fitting(call)
	if impl == nil {
		return nil, ErrNoImpl
	}
	return impl.Lower(call)
}

// Fitting returns the chosen implementation of a call. If no implementation is chosen, Fitting returns the first
// implementation that supports the layouts of the call. It returns nil if no implementation does, or if the attributes
// belong to another op.
func (op *Op) Fitting(call *Call) *Impl {
	if call == nil || len(call.Out) == 0 || !op.ownsAttrs(call.Attrs) {
		return nil
	}
	if call.Impl != nil {
		return call.Impl
	}
	for i := range op.Impls {
		if op.Impls[i].supportsCall(call) {
			return &op.Impls[i]
		}
	}
	return nil
}

// ownsAttrs reports whether attrs has the type of the op's attributes. It returns true if the op has no attributes.
func (op *Op) ownsAttrs(attrs any) bool {
	return op.Schema == nil || len(op.Schema.Fields) == 0 ||
		reflect.TypeOf(attrs) == reflect.PointerTo(attrsType(op.Schema))
}

// supportsCall reports whether the implementation supports the layouts of the call: at least one walk produces the
// results in the layouts of call.Out and reads all operands.
func (impl *Impl) supportsCall(call *Call) bool {
	var orders []tensor.Order
	for _, out := range call.Out {
		if order, dense := tensor.OrderOf(out); dense && !slices.Contains(orders, order) {
			orders = append(orders, order)
		}
	}
	for _, walk := range impl.Walks(call, orders) {
		if walk.producesLayouts(call) && impl.Reads(call, walk) {
			return true
		}
	}
	return false
}

// Reads reports whether the implementation reads all operands of the call in their layouts. An operand without elements
// can always be read.
func (impl *Impl) Reads(call *Call, walk Walk) bool {
	if call == nil {
		return false
	}
	if impl.Read == nil || !impl.hasRead { // every layout can be read
		return true
	}
	for i, a := range call.In {
		if a.Kind == TensorArg && a.Meta().Numel() > 0 {
			if _, ok := impl.Read(call, walk, i, a.Meta()); !ok {
				return false
			}
		}
	}
	return true
}

// MayRejectLayouts reports whether the implementation has a Read function, which may reject layouts of operands.
func (impl *Impl) MayRejectLayouts() bool { return impl.hasRead }

// Impl returns the implementation with a name. If there is none, the error lists the names of all implementations.
func (op *Op) Impl(name string) (*Impl, error) {
	for i := range op.Impls {
		if op.Impls[i].Name == name {
			return &op.Impls[i], nil
		}
	}
	return nil, op.noImplError(name, op.implNames())
}

// noImplError returns the error for a name that no implementation has. It lists the given names.
func (op *Op) noImplError(name string, names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("%s has no implementations to choose from", op.Name)
	}
	hint := ""
	if similar := suggest.Nearest(name, slices.Values(names)); similar != "" {
		hint = "; did you mean " + similar + "?"
	}
	return fmt.Errorf("%s has no implementation %q: want one of %s%s", op.Name, name, strings.Join(names, ", "), hint)
}

// implNames returns the names of the implementations.
func (op *Op) implNames() []string {
	names := make([]string, len(op.Impls))
	for i := range op.Impls {
		names[i] = op.Impls[i].Name
	}
	return names
}

// Work returns the work of a node: computing, storing, and reading each operand once. If no implementation is chosen,
// it returns the work of the first implementation. The work is zero for a view and for a node without
// implementations. It is also zero if shapes are unknown, or if a function of the op panics.
func (n *Node) Work() (work pricing.Work) {
	for _, part := range n.WorkParts() {
		work = work.Plus(part)
	}
	return work
}

// WorkParts returns the parts of [Node.Work] that are priced separately. The first part does not depend on the layouts
// of operands. Each further part is the additional work for the layout of one operand, if it is not zero. WorkParts
// returns nil if there is no work.
func (n *Node) WorkParts() (list []pricing.Work) {
	if n == nil {
		return nil
	}
	list = make([]pricing.Work, 0, 1+len(n.In))
	hasWork := n.EachWork(nil, func(i int, work pricing.Work) {
		if i < 0 || work != (pricing.Work{}) {
			list = append(list, work)
		}
	})
	if !hasWork {
		return nil
	}
	return list
}

// EachWork calls visit for each part of [Node.WorkParts]. i is the index of the operand, or -1 for the part that does
// not depend on layouts. If selected is not nil, EachWork skips the parts for which selected returns false. EachWork
// returns false if the node has no work, or if a function of the op panics.
func (n *Node) EachWork(selected func(i int) bool, visit func(i int, work pricing.Work)) (hasWork bool) {
	if n == nil || visit == nil || n.Op == nil {
		return false
	}
	if len(n.Op.Impls) == 0 || len(n.Out) == 0 {
		return false
	}
	defer func() {
		if recover() != nil {
			hasWork = false
		}
	}()
	if n.IsView() || n.Out[0].Dynamic {
		return false
	}
	impl := n.Impl
	if impl == nil {
		impl = &n.Op.Impls[0]
	}
	call := n.Call()
	if selected == nil || selected(-1) {
		visit(-1, impl.Work(call, n.Walk))
	}
	read := impl.OperandWorkFunc(call, n.Walk)
	for i, arg := range n.In {
		if arg.Kind == TensorArg && (selected == nil || selected(i)) {
			work, _ := read(i, arg.Meta())
			visit(i, work)
		}
	}
	return true
}

// OperandWorkFunc returns a function that calls [Impl.Read] with the given call and walk. For many operands and
// layouts, the function is faster than Read, because it computes the footprint of the call only once. It is not safe
// for concurrent use.
func (impl *Impl) OperandWorkFunc(call *Call, walk Walk) func(i int, meta tensor.Meta) (pricing.Work, bool) {
	read, footprint := impl.definedRead, 0.0
	if read == nil {
		read = impl.Read
	}
	return func(i int, meta tensor.Meta) (pricing.Work, bool) {
		work, ok := read(call, walk, i, meta)
		if work.Footprint == 0 && work != (pricing.Work{}) {
			if footprint == 0 {
				footprint = call.Footprint()
			}
			work.Footprint = footprint
		}
		return work, ok
	}
}

// Footprint returns the size of all operands and results of a call in bytes. A packed operand counts with the size of
// the unpacked operand.
func (c *Call) Footprint() (bytes float64) {
	if c == nil {
		return 0
	}
	for i := range c.In {
		if a := &c.In[i]; a.Kind == TensorArg && a.Value != nil {
			meta := &a.Value.Meta
			if p := a.Value.Packed; p != nil {
				meta = &p.Meta
			}
			// The outer conversion prevents a fused multiply-add, so that all processors compute the same number.
			bytes += float64(float64(tensor.Numel(meta.Shape)) * float64(meta.DType.Size()))
		}
	}
	for i := range c.Out {
		bytes += float64(c.Out[i].Bytes())
	}
	return bytes
}

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
	// accesses. 0 means that the time is estimated from [pricing.Work].
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
