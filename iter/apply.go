package iter

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/internal/loops"
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
