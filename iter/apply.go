package iter

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/internal/workerpool"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// This file runs kernels over iterations. [Iterator.Apply] is for tensors, and [Prepared] for callers that supply
// addresses and workers. Apply has four steps, which such callers execute themselves: [Iterator.Prepare] chooses and
// checks the kernel, [Iterator.Tensors] makes the missing outputs, [Iterator.Bind] returns the addresses of all
// operands, and [Prepared.Parallel] computes the iteration in tasks. The walk of an iteration is its loop nest over
// coalesced dimensions. A [Cursor] is the state of a walk.

// Apply runs a kernel over the operands' data and returns the outputs. These are the caller's tensors, and new tensors
// for outputs that are undefined or have a wrong shape. If k is a [Table], Apply selects the kernel for the dtypes of
// the iteration. Operands must be made by [OperandOfTensor], [UndefinedOutput], [UndefinedOutputOf] or [NumberOperand].
//
// Apply fails, and writes no results, if an operand has no data or the iteration is a reduction, or if kernel and
// iteration differ in dtypes or in numbers of operands and results. If the kernel's function panics, the
// panic is raised again in the caller's goroutine.
func (it *Iterator) Apply(k Kernels, options ...Option) ([]*tensor.Tensor, error) {
	var settings applyOptions
	for _, option := range options {
		if option != nil {
			option(&settings)
		}
	}
	prepared, err := it.Prepare(k)
	if err != nil {
		return nil, err
	}
	tensors, err := it.tensors(settings.allocate)
	if err != nil {
		return nil, err
	}
	ptrs, err := it.Bind(tensors...)
	if err != nil {
		return nil, err
	}
	err = prepared.Parallel(settings.ctx, ptrs, settings.grain, settings.workers)
	return tensors[:it.outCount:it.outCount], err
}

// Option changes how [Iterator.Apply] runs.
type Option func(*applyOptions)

// applyOptions are the options of a run.
type applyOptions struct {
	ctx      context.Context
	workers  int
	grain    int
	allocate Allocator
}

// Workers bounds the number of goroutines of a run. The default, 0, means all cores (GOMAXPROCS). The results have the
// same bits for every n.
func Workers(n int) Option { return func(a *applyOptions) { a.workers = n } }

// Context makes a run end between two tasks if ctx has ended. The run then returns the cause of ctx.
func Context(ctx context.Context) Option { return func(a *applyOptions) { a.ctx = ctx } }

// Grain sets the minimum number of elements of a task. It should be small for an expensive function. The default, 0,
// means [GrainSize].
func Grain(n int) Option { return func(a *applyOptions) { a.grain = n } }

// Allocator returns the tensor for output i of an iteration. Like PyTorch's set_output_raw_strided, it is called for an
// output that is undefined or has a wrong shape. The tensor must have the shape, strides and dtype of m, and may start
// anywhere in its storage. It must not share memory with another operand, except with an input that has the same
// elements and layout (an in-place operation).
type Allocator func(i int, m tensor.Meta) (*tensor.Tensor, error)

// Allocate makes [Iterator.Apply] get outputs from f instead of making new zeroed tensors. f is called before the
// computation, in order, once for each output that is undefined or has a wrong shape.
func Allocate(f Allocator) Option { return func(a *applyOptions) { a.allocate = f } }

// Tensors returns the operands as tensors. They are the caller's tensors, a new tensor for each output whose layout the
// rule chose, and a 0-dim tensor for a number. It fails for operands made by [OperandOfMeta] or [OperandOfType], which
// have no data.
func (it *Iterator) Tensors() ([]*tensor.Tensor, error) { return it.tensors(nil) }

// tensors is Tensors with an allocator for new outputs; nil means zeroed tensors.
func (it *Iterator) tensors(allocate Allocator) ([]*tensor.Tensor, error) {
	if it == nil {
		return nil, errNilIterator
	}
	out := make([]*tensor.Tensor, len(it.operands))
	for i := range it.operands {
		operand := &it.operands[i]
		switch {
		case i < it.outCount && operand.RuleChoosesLayout():
		case operand.Number.IsSet():
			out[i] = operand.Number.Tensor(operand.Meta.DType)
		case operand.Tensor() == nil:
			return nil, fmt.Errorf("iter: %s has no data, because it was made by OperandOfMeta or OperandOfType", it.Describe(i))
		default:
			out[i] = operand.Tensor()
		}
	}
	for i := range it.outCount {
		if out[i] != nil {
			continue
		}
		if allocate == nil {
			out[i] = tensor.Empty(*it.operands[i].Meta)
			continue
		}
		allocated, err := allocate(i, *it.operands[i].Meta)
		if err != nil {
			return nil, err
		}
		if err := it.checkAllocated(i, allocated, out); err != nil {
			return nil, err
		}
		out[i] = allocated
	}
	return out, nil
}

// checkAllocated returns an error for a tensor that cannot be output i.
func (it *Iterator) checkAllocated(i int, t *tensor.Tensor, all []*tensor.Tensor) error {
	if err := it.checkTensor(i, t); err != nil {
		return fmt.Errorf("allocated tensor: %w", err)
	}
	for j, other := range all {
		if other == nil || j == i {
			continue
		}
		shared := rule.StorageOverlap(t.Storage(), t.Meta, other.Storage(), other.Meta)
		if shared == OverlapPartial || shared == OverlapFull && j < it.outCount {
			return fmt.Errorf("%s (output %d as allocated, %v, and %s)", rule.PartialOverlapMessage, i, t.Meta, it.Describe(j))
		}
	}
	return nil
}

// Bind returns the addresses of the first elements of the operands' tensors, outputs first. Tensor i must have the
// dtype and layout of [Iterator.Meta](i); its offset may differ. If the iteration checks overlap, Bind rejects the same
// kinds of overlap as [Config.Build].
func (it *Iterator) Bind(tensors ...*tensor.Tensor) ([]unsafe.Pointer, error) {
	if it == nil {
		return nil, errNilIterator
	}
	if len(tensors) != len(it.operands) {
		return nil, fmt.Errorf("iter: %d tensors were given for %d operands", len(tensors), len(it.operands))
	}
	ptrs := make([]unsafe.Pointer, len(tensors))
	for i, t := range tensors {
		if err := it.checkTensor(i, t); err != nil {
			return nil, err
		}
		ptrs[i] = t.Pointer()
	}
	if !it.ChecksOverlap() {
		return ptrs, nil
	}
	if err := it.checkPartialOverlap(tensors); err != nil {
		return nil, err
	}
	return ptrs, nil
}

// checkTensor returns an error for a tensor that does not match operand i.
func (it *Iterator) checkTensor(i int, t *tensor.Tensor) error {
	meta := *it.operands[i].Meta
	switch {
	case t == nil || t.Storage() == nil:
		return fmt.Errorf("iter: the tensor for %s is nil or has no storage", it.Place(i))
	case t.DType != meta.DType || len(t.Shape) != len(t.Strides) || !t.SameAddresses(meta):
		return fmt.Errorf("iter: tensor %v was given for %s, but the iteration was built for %v", t.Meta, it.Place(i), meta)
	}
	if need := t.Extent() * t.DType.Size(); t.Offset < 0 || need > t.Storage().Len() {
		return fmt.Errorf("iter: tensor %v for %s exceeds its storage of %d bytes", t.Meta, it.Place(i), t.Storage().Len())
	}
	return nil
}

// checkPartialOverlap returns an error if the memory of an output overlaps another operand's memory partially.
func (it *Iterator) checkPartialOverlap(tensors []*tensor.Tensor) error {
	for i := range it.outCount {
		for j := i + 1; j < len(tensors); j++ {
			first, second := tensors[i], tensors[j]
			if first != second &&
				rule.StorageOverlap(first.Storage(), first.Meta, second.Storage(), second.Meta) == OverlapPartial {
				return fmt.Errorf("%s (%s, and %s)", rule.PartialOverlapMessage, it.Describe(i), it.Describe(j))
			}
		}
	}
	return nil
}

// Prepared is a kernel that was checked against an iteration ([Iterator.Prepare]). Callers run it with their own
// addresses, workers and cursors. It is immutable and safe for concurrent use.
type Prepared struct {
	iterator *Iterator

	// Either block or loop is set. A range of the iteration takes calls for blocks of elements (block), or for rows or
	// tiles (loop). If singleRow is set, one call computes the whole range.
	block      rule.Block // the function over blocks; nil for an expression
	passesRows bool       // rows of all operands are passed to block directly, without copies

	loop      *loops.Loop // the compiled expression; nil for a function
	staged    []bool      // by operand: whether it is copied to contiguous blocks, tile by tile; nil if none is
	tiles     *tiles      // nil if no operand is staged
	joinsRows bool        // all operands are staged, and loop computes each tile as a single row

	singleRow bool // the whole iteration is one row that needs no copies
}

// Prepare chooses the kernel for the iteration and checks it. Dtypes are checked only here, not during runs.
func (it *Iterator) Prepare(k Kernels) (Prepared, error) {
	if it == nil {
		return Prepared{}, errNilIterator
	}
	if k == nil {
		return Prepared{}, errors.New("iter: Prepare needs a kernel, but it is nil")
	}
	chosen, err := k.Choose(&it.Rule)
	if err != nil {
		return Prepared{}, err
	}
	if chosen.Block() == nil {
		return it.prepareExpr(chosen)
	}
	passesRows := it.passesRows()
	singleRow := passesRows && len(it.walkShape) <= 1 && it.offsets == nil
	return Prepared{iterator: it, block: chosen.Block(), passesRows: passesRows, singleRow: singleRow}, nil
}

// RunRange computes a range of the iteration at the given addresses. Contiguous operands are passed to the kernel
// without copies. Strided, broadcast and converted operands are copied to blocks. A block may hold several short rows.
//
// It is as unsafe as [Iterator.ForRange]: addresses are not checked against the operands.
func (p Prepared) RunRange(c *Cursor, ptrs []unsafe.Pointer, r Range) error {
	if !p.isPrepared() {
		return errNotPrepared
	}
	if err := p.iterator.checkWalk(ptrs, r); err != nil || r.Begin == r.End {
		return err
	}
	if c == nil {
		c = new(Cursor)
	}
	return p.walk(c, ptrs, r)
}

// RunAll computes the whole iteration at the given addresses. It is as unsafe as [Prepared.RunRange]. If the iteration
// is one contiguous row, RunAll costs little more than a call of the kernel.
func (p Prepared) RunAll(c *Cursor, ptrs []unsafe.Pointer) error {
	if !p.singleRow || c == nil || len(ptrs) != len(p.iterator.operands) {
		return p.runWhole(c, ptrs)
	}
	addrs := withLen(c.ptrs, len(ptrs)) // kernels may modify addresses
	c.ptrs = addrs
	for i, addr := range ptrs {
		if addr == nil {
			return p.runWhole(c, ptrs)
		}
		addrs[i] = addr
	}
	if p.loop != nil {
		// The last argument is the number of rows. With one row, the loop does not use the strides between rows.
		p.loop.Run(&c.loops, addrs, p.iterator.walkStrides[:len(addrs)], p.iterator.numel, 1)
		return nil
	}
	return p.block(addrs, p.iterator.numel)
}

// runWhole is [Prepared.RunAll] for an iteration that is not a single row, and for invalid arguments.
func (p Prepared) runWhole(c *Cursor, ptrs []unsafe.Pointer) error {
	if !p.isPrepared() {
		return errNotPrepared
	}
	return p.RunRange(c, ptrs, p.iterator.All())
}

// walk computes a range. The caller has checked the arguments with checkWalk.
func (p *Prepared) walk(c *Cursor, ptrs []unsafe.Pointer, r Range) error {
	switch {
	case !p.singleRow && p.loop != nil:
		return p.walkLoop(c, ptrs, r)
	case !p.singleRow:
		return p.iterator.forBlocks(c, ptrs, r, p.passesRows, p.block)
	}
	// The iteration is a single row, and r is a part of it.
	addrs := withLen(c.ptrs, len(ptrs))
	c.ptrs = addrs
	for i, addr := range ptrs {
		addrs[i] = unsafe.Add(addr, r.Begin*p.iterator.walkStrides[i])
	}
	if p.loop != nil {
		p.loop.Run(&c.loops, addrs, p.iterator.walkStrides[:len(addrs)], r.End-r.Begin, 1)
		return nil
	}
	return p.block(addrs, r.End-r.Begin)
}

// Parallel computes the whole iteration at the given addresses, in tasks of grain elements, on at most the given number
// of worker goroutines. A grain of 0 means [GrainSize], and 0 workers means all cores. It is as unsafe as
// [Prepared.RunRange].
func (p Prepared) Parallel(ctx context.Context, ptrs []unsafe.Pointer, grain, workers int) error {
	if !p.isPrepared() {
		return errNotPrepared
	}
	if err := p.iterator.checkWalk(ptrs, p.iterator.All()); err != nil {
		return err
	}
	return forTasks(ctx, p.Chunks(grain), workers, func(c *Cursor, i int) error { return p.RunChunk(c, ptrs, i, grain) })
}

// Chunks returns the number of parallel tasks of grain elements for the whole iteration. A grain of 0 means
// [GrainSize]. The number depends on shape, strides and grain, never on the number of workers. If the strides
// of operands order the dimensions differently, a task is a box: a range of each dimension. Otherwise the tasks are the
// ranges of [Iterator.Chunks].
func (p Prepared) Chunks(grain int) int {
	switch {
	case !p.isPrepared():
		return 0
	case !p.hasBoxTasks():
		return p.iterator.Chunks(grain)
	}
	var sizeBuffer [8]int // memory for the size of a task, so that up to 8 dimensions need no allocation
	return countBoxes(p.iterator.walkShape, p.tiles.appendTaskSize(p.iterator, grain, sizeBuffer[:0]))
}

// RunChunk computes task i of the [Prepared.Chunks] tasks at the given addresses. It is as unsafe as
// [Prepared.RunRange], and panics if i is out of range. If c is nil, a new Cursor is used.
func (p Prepared) RunChunk(c *Cursor, ptrs []unsafe.Pointer, i, grain int) error {
	switch {
	case !p.isPrepared():
		return errNotPrepared
	case !p.hasBoxTasks():
		return p.RunRange(c, ptrs, p.iterator.Chunk(i, grain))
	}
	if err := p.iterator.checkWalk(ptrs, p.iterator.All()); err != nil {
		return err
	}
	if c == nil {
		c = new(Cursor)
	}
	c.tileState.taskSize = p.tiles.appendTaskSize(p.iterator, grain, c.tileState.taskSize[:0])
	if n := countBoxes(p.iterator.walkShape, c.tileState.taskSize); uint(i) >= uint(n) {
		panic(fmt.Sprintf("iter: task %d does not exist: the iteration has %d tasks of %d elements", i, n, grain))
	}
	p.walkTask(c, ptrs, i)
	return nil
}

// hasBoxTasks reports whether parallel tasks are boxes (see [Prepared.Chunks]), not ranges of the walk.
func (p *Prepared) hasBoxTasks() bool { return p.tiles != nil && p.tiles.transposed }

// isPrepared reports whether p was made by [Iterator.Prepare]; the zero Prepared was not.
func (p *Prepared) isPrepared() bool { return p.block != nil || p.loop != nil }

// checkWalk checks addresses and a range. It is called for every chunk of every kernel. To keep it fast, the separate
// function walkError makes the error.
func (it *Iterator) checkWalk(ptrs []unsafe.Pointer, r Range) error {
	isInvalid := len(ptrs) != len(it.operands) || r.Begin < 0 || r.End > it.numel || r.Begin > r.End
	for _, addr := range ptrs {
		isInvalid = isInvalid || addr == nil
	}
	if isInvalid {
		return it.walkError(ptrs, r)
	}
	return nil
}

// walkError returns the error for arguments that checkWalk finds invalid. A nil address is valid if the range is empty:
// walkError then returns nil.
func (it *Iterator) walkError(ptrs []unsafe.Pointer, r Range) error {
	switch {
	case len(ptrs) != len(it.operands):
		return fmt.Errorf("iter: %d addresses were given for %d operands", len(ptrs), len(it.operands))
	case r.Begin < 0 || r.End > it.numel || r.Begin > r.End:
		return fmt.Errorf("iter: the range [%d, %d) exceeds the iteration, which has %d elements", r.Begin, r.End, it.numel)
	case r.Begin < r.End:
		return fmt.Errorf("iter: the address of %s is nil", it.Describe(slices.Index(ptrs, nil)))
	}
	return nil
}

// workersOf returns n, or the number of cores (GOMAXPROCS) if n is not positive.
func workersOf(n int) int {
	if n <= 0 {
		return runtime.GOMAXPROCS(0)
	}
	return n
}

var errNotPrepared = errors.New("iter: a Prepared must be made by Prepare")

// Parallel walks the whole iteration in tasks of grain elements (TensorIterator's for_each). A grain of 0 means
// [GrainSize]. It uses at most the given number of worker goroutines; 0 means all cores. Tasks depend only on shape and
// grain. A loop that does not accumulate into its outputs therefore gives the same bits for any number of workers. The
// first error, or the end of the context, ends the walk. No goroutine runs after Parallel returns.
//
// Parallel is as unsafe as [Iterator.ForEach], and makes the same checks. It fails for a reduction, in which several
// tasks would write to the same outputs. [Iterator.Reduce] runs reductions in parallel.
func (it *Iterator) Parallel(ctx context.Context, ptrs []unsafe.Pointer, grain, workers int, loop Loop) error {
	switch {
	case it == nil:
		return errNilIterator
	case loop == nil:
		return errors.New("iter: the Loop is nil")
	case it.IsReduction():
		return errors.New("iter: a reduction cannot be walked in parallel tasks; run it by a Fold (Reduce)")
	}
	if err := it.checkWalk(ptrs, it.All()); err != nil {
		return err
	}
	return it.forEachChunk(ctx, grain, workers, func(c *Cursor, r Range) error { return it.ForRange(c, ptrs, r, loop) })
}

// forEachChunk calls f for each range of [Iterator.Chunks].
func (it *Iterator) forEachChunk(ctx context.Context, grain, workers int, f func(*Cursor, Range) error) error {
	return forTasks(ctx, it.Chunks(grain), workers, func(c *Cursor, task int) error { return f(c, it.Chunk(task, grain)) })
}

// maxParts is the maximum number of parts into which the tasks of a run are divided. It bounds the memory of the run.
// If there are more workers than parts, some workers share a part.
const maxParts = 256

// forTasks runs tasks 0 to count-1 on at most workers goroutines, including the caller's.
func forTasks(ctx context.Context, count, workers int, run func(c *Cursor, task int) error) error {
	if ctx == nil {
		ctx = context.Background()
	}
	queue := &tasks{ctx: ctx, count: count, runTask: run, groupSize: count>>31 + 1}
	workers = min(workersOf(workers), count) // workersOf replaces 0 by the number of cores
	queue.parts = make(workerpool.Parts, min(max(workers, 1), maxParts))
	queue.parts.Distribute((count + queue.groupSize - 1) / queue.groupSize)
	if workers <= 1 {
		return queue.work()
	}
	queue.runWithHelpers(workers - 1)
	switch p := queue.panicked.Load(); {
	case p != nil:
		panic(p)
	case queue.goexited.Load():
		// A task has called Goexit, so the results are incomplete and the caller must end, too. With one worker, Goexit
		// in the task has this effect.
		runtime.Goexit()
	}
	if err := queue.err.Load(); err != nil {
		return *err
	}
	return nil
}

// tasks is one parallel run of numbered tasks. The tasks are divided into contiguous parts, one for each worker. A
// worker whose part is finished steals from another part.
type tasks struct {
	ctx     context.Context
	count   int                             // number of tasks
	runTask func(c *Cursor, task int) error // runs one task

	groupSize int                         // number of consecutive tasks taken at once
	parts     workerpool.Parts            // the tasks that have not started, in at most 2^31 groups of groupSize tasks
	mu        workerpool.Lock             // guards stealing
	started   atomic.Int32                // number of workers that have started
	stopped   atomic.Bool                 // no further tasks are started
	err       atomic.Pointer[error]       // the first error
	panicked  atomic.Pointer[raisedPanic] // the first panic
	goexited  atomic.Bool                 // a task called runtime.Goexit
}

// runWithHelpers runs the tasks with helpers from the worker pool, and returns when all tasks are done.
func (t *tasks) runWithHelpers(helpers int) {
	job := workerpool.Job{Help: t.workCatchingPanic}
	job.Begin()
	defer job.End()
	job.RequestWorkers(helpers, workerpool.StartAlways) // starts goroutines if too few of the pool are awake
	t.workCatchingPanic()
}

// workCatchingPanic calls work and records its error, panic or Goexit.
func (t *tasks) workCatchingPanic() {
	returned := false
	defer func() {
		if v := recover(); v != nil {
			t.panicked.CompareAndSwap(nil, &raisedPanic{v, debug.Stack()})
		} else if !returned {
			t.goexited.Store(true)
		}
		if !returned {
			t.stopped.Store(true)
		}
	}()
	if err := t.work(); err != nil {
		t.err.CompareAndSwap(nil, &err)
		t.stopped.Store(true)
	}
	returned = true
}

// work runs tasks until none are left or one fails.
func (t *tasks) work() error {
	var cursor Cursor
	ownPart := int(t.started.Add(1)-1) % len(t.parts)
	for {
		group := t.parts.Next(ownPart)
		if group < 0 {
			t.mu.Lock()
			group = t.parts.Steal(ownPart)
			t.mu.Unlock()
		}
		if group < 0 {
			return nil
		}
		for i := group * t.groupSize; i < min(t.count, (group+1)*t.groupSize); i++ {
			switch {
			case t.stopped.Load():
				return nil
			case t.ctx.Err() != nil:
				return context.Cause(t.ctx)
			}
			if err := t.runTask(&cursor, i); err != nil {
				return err
			}
		}
	}
}

// raisedPanic is the panic of a task in a worker goroutine. It is raised again in the caller's goroutine, where it can
// be recovered. Otherwise a division by zero in a kernel would end the process.
type raisedPanic struct {
	value any
	stack []byte
}

// Error returns the value and the stack of the panic.
func (p *raisedPanic) Error() string { return fmt.Sprintf("%v\n\n%s", p.value, p.stack) }

// Unwrap returns the value if it is an error.
func (p *raisedPanic) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

// CopyInto writes the values of src into dst, whose layout does not change (Tensor.copy_). src is broadcast to the
// shape of dst and converted to the dtype of dst by the rules of c10::convert. CopyInto copies tile by tile, so that
// transposed copies use whole cache lines. It uses at most the given number of worker goroutines; 0 means all cores.
// ctx can cancel the copy between two tasks, and may be nil.
//
// If dst is src, or a view of the same storage with equal dtype, sizes, strides and offset, CopyInto does nothing and
// checks nothing. Otherwise dst must not overlap itself, and must not partially overlap src ([OverlapOf]). The errors
// are PyTorch's.
func CopyInto(ctx context.Context, dst, src *tensor.Tensor, workers int) error {
	switch {
	case dst == nil || src == nil:
		return errors.New("iter: copy: a tensor is nil")
	case dst == src || sameData(dst, src):
		return nil
	}
	it, err := Copy(OperandOfTensor(dst), OperandOfTensor(src)).Build()
	if err != nil {
		return err
	}
	if it.numel == 0 {
		return nil
	}
	axes := make([]strided.Axis, len(it.walkShape)) // operand 0 is dst, and operand 1 is src
	for d, n := range it.walkShape {
		axes[d] = strided.Axis{N: n, Dst: it.walkStrides[2*d], Src: it.walkStrides[2*d+1]}
	}
	plan := strided.New(conversion(dst.DType, src.DType), axes)
	to, from := dst.Pointer(), src.Pointer()
	tilesPerTask := max(1, GrainSize/plan.MaxTileElems())
	return forTasks(ctx, (plan.Tiles()-1)/tilesPerTask+1, workers, func(c *Cursor, task int) error {
		if len(c.blockMemory) < plan.ScratchBytes() {
			c.blockMemory = tensor.NewStorage(plan.ScratchBytes()).Bytes()
		}
		plan.Run(to, from, c.blockMemory, task*tilesPerTask, min((task+1)*tilesPerTask, plan.Tiles()))
		return nil
	})
}

// sameData reports whether a copy is unnecessary, like is_same_data of at::native::copy_: both tensors have the same
// elements at the same addresses. The strides of dimensions of size 1 must be equal, too. PyTorch 2 makes this check
// before the check of overlap; PyTorch 1.13 has no such check.
func sameData(dst, src *tensor.Tensor) bool {
	return dst.Storage() != nil && dst.Storage() == src.Storage() && dst.Offset == src.Offset && dst.DType == src.DType &&
		dst.SameLayout(src.Meta)
}

// shortCopy is the largest number of elements for which a copy runs on one worker and ignores the context.
const shortCopy = 1 << 18

// CopyElements writes the values of src into dst, like [tensor.CopyElements]. The shapes must be equal. If several
// elements of dst share an address, the last value remains. At most the given number of worker goroutines share a long
// copy; 0 means all cores. ctx can cancel the copy, and may be nil. dst and src must not overlap partially.
func CopyElements(ctx context.Context, dst, src *tensor.Tensor, workers int) error {
	switch {
	case dst == nil || src == nil:
		return errors.New("iter: copy: a tensor is nil")
	case !slices.Equal(dst.Shape, src.Shape):
		return fmt.Errorf("iter: values of shape %s cannot be copied to shape %s", tensor.ListString(src.Shape),
			tensor.ListString(dst.Shape))
	}
	if err := interrupt.Err(ctx); err != nil {
		return err
	}
	switch {
	case dst.Numel() <= shortCopy:
		tensor.CopyElements(dst, src)
		return nil
	case !dst.OverlapsItself():
		return CopyInto(ctx, dst, src, workers)
	}
	// Several elements of dst share an address: slices are copied in order, so that the last value remains.
	for i := range dst.Shape[0] {
		to, err := sliceAt(dst, i)
		if err != nil {
			return err
		}
		from, err := sliceAt(src, i)
		if err != nil {
			return err
		}
		if err := CopyElements(ctx, to, from, workers); err != nil {
			return err
		}
	}
	return nil
}

// sliceAt returns slice i along the first dimension.
func sliceAt(t *tensor.Tensor, i int) (*tensor.Tensor, error) {
	meta, err := t.Select(0, i)
	if err != nil {
		return nil, err
	}
	return t.View(meta)
}
