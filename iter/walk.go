package iter

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// This file walks the elements of an iteration. The walk has the dimensions of the operands, sorted and merged by
// coalesce, the fastest first. ForRange cuts a range of the walk into steps. A step is one call of a Loop. Chunk gives
// the ranges of parallel tasks.

// GrainSize is the default minimum number of elements of a parallel task (at::internal::GRAIN_SIZE).
const GrainSize = machine.MoveGrain

// Range is the run of elements from Begin to End-1 in the order of the walk.
type Range struct{ Begin, End int }

// All returns the whole range.
func (it *Iterator) All() Range { return Range{0, it.numel} }

// Loop computes rowCount rows of rowLen elements. ptrs[i] is the address of operand i's first element. strides[i] is
// the operand's stride in bytes within a row, and strides[len(ptrs)+i] its stride between rows. The loop may modify
// ptrs. Both slices are valid only during the call. An error ends the walk. The results must not depend on rowLen and
// rowCount, because an iteration may be cut anywhere. [Rows] makes a Loop of a function for single rows.
//
// [Iterator.ForEach] runs a loop over a whole iteration, [Iterator.ForRange] over a range, and [Iterator.Parallel] over
// a whole iteration on several goroutines.
//
// A Loop is unsafe, because it accesses memory through unchecked addresses. A loop accesses memory outside its operands
// if its dtypes differ from [Iterator.DType], or if it exceeds rowLen or rowCount. [Iterator.Bind] returns the right
// addresses. The functions that run a Loop return an error if the number of addresses or the range is wrong, or if an
// address is nil. They cannot check that an address belongs to the memory of its operand. A [Kernel] is safe, but
// cannot use strides.
type Loop func(ptrs []unsafe.Pointer, strides []int, rowLen, rowCount int) error

// Rows makes a Loop of a function that computes one row of n elements: PyTorch's one-dimensional loop. It is as unsafe
// as any [Loop].
func Rows(f func(ptrs []unsafe.Pointer, strides []int, n int) error) Loop {
	if f == nil {
		return nil
	}
	return func(ptrs []unsafe.Pointer, strides []int, rowLen, rowCount int) error {
		operandCount := len(ptrs)
		for j := range rowCount {
			if j > 0 {
				for i := range ptrs {
					ptrs[i] = unsafe.Add(ptrs[i], strides[operandCount+i])
				}
			}
			if err := f(ptrs, strides[:operandCount], rowLen); err != nil {
				return err
			}
		}
		return nil
	}
}

// Cursor holds the state of a walk: counters, addresses, and blocks. A block is a small contiguous buffer to which an
// operand that cannot be used in place (a staged operand) is copied. The zero value is ready to use. A Cursor is for
// one goroutine at a time, and can be reused for any number of iterators. Its memory grows to the need of the largest
// walk; other walks do not allocate.
type Cursor struct {
	counter     []int            // index of the current step in each dimension of the walk
	ptrs        []unsafe.Pointer // addresses passed to loops
	stepAddrs   []unsafe.Pointer // addresses of the current step
	firstAddrs  []unsafe.Pointer // addresses of the first elements of a part or task
	strides     []int            // strides in bytes passed to loops
	blockMemory []byte           // memory of the blocks
	filledFrom  []unsafe.Pointer // for each operand: the address of the elements that its block holds, or nil
	loops       loops.State
	tileState   tileState // state of a walk by tiles, for iterations with transposed operands
}

// ForEach walks the whole iteration in the calling goroutine (serial_for_each). ptrs are the addresses of the operands'
// first elements, outputs first, as from [Iterator.Bind]. An address may be nil if the iteration has no elements.
//
// ForEach is unsafe: with a wrong address, or a loop for another dtype, it accesses memory outside the operands. It
// returns the loop's error. It also fails if the iterator, the loop or an address is nil, or if the number of addresses
// is wrong.
func (it *Iterator) ForEach(ptrs []unsafe.Pointer, loop Loop) error {
	if it == nil {
		return errNilIterator
	}
	var c Cursor
	return it.ForRange(&c, ptrs, it.All(), loop)
}

// ForRange walks a range in two-dimensional steps that are as large as possible. Operands whose dtype differs from the
// loop's are converted block by block. If c is nil, a new Cursor is used. ForRange is as unsafe as [Iterator.ForEach];
// it also checks the range.
func (it *Iterator) ForRange(c *Cursor, ptrs []unsafe.Pointer, r Range, loop Loop) error {
	switch {
	case it == nil:
		return errNilIterator
	case loop == nil:
		return errors.New("iter: the Loop is nil")
	}
	if err := it.checkWalk(ptrs, r); err != nil || r.Begin == r.End {
		return err
	}
	if c == nil {
		c = new(Cursor)
	}
	if it.Converts() {
		return it.forConverted(c, ptrs, r, loop)
	}
	return it.eachStep(c, ptrs, r, func(addrs []unsafe.Pointer, rowLen, rowCount int) error {
		return loop(addrs, it.walkStrides[:2*len(it.operands)], rowLen, rowCount)
	})
}

// eachStep cuts a range into the largest possible steps and calls f for each step (DimCounter, serial_for_each). A step
// has rowCount rows of rowLen elements. addrs has the address of the step's first element in each operand. In a walk of
// 3 rows of 4 elements, for example, the range [2, 12) has two steps: one row of 2 elements, and 2 rows of 4.
func (it *Iterator) eachStep(c *Cursor, ptrs []unsafe.Pointer, r Range,
	f func(addrs []unsafe.Pointer, rowLen, rowCount int) error) error {
	operandCount, shape := len(it.operands), it.walkShape
	c.stepAddrs = withLen(c.stepAddrs, operandCount)
	if it.offsets != nil {
		ptrs = it.partAddresses(c, ptrs)
	}
	if len(shape) <= 1 {
		for i := range operandCount {
			c.stepAddrs[i] = unsafe.Add(ptrs[i], r.Begin*it.walkStrides[i])
		}
		const rowCount = 1
		return f(c.stepAddrs, r.End-r.Begin, rowCount)
	}
	c.counter = withLen(c.counter, len(shape))
	setCounter(shape, c.counter, r.Begin)
	for position := r.Begin; position < r.End; {
		for i := range operandCount {
			offset := 0
			for d, index := range c.counter {
				offset += index * it.byteStride(d, i)
			}
			c.stepAddrs[i] = unsafe.Add(ptrs[i], offset)
		}
		rowLen, rowCount := maxStep(shape, c.counter, r.End-position)
		if err := f(c.stepAddrs, rowLen, rowCount); err != nil {
			return err
		}
		position += rowLen * rowCount
		advance(shape, c.counter, rowLen, rowCount)
	}
	return nil
}

// maxStep returns the largest step of at most `remaining` elements that starts at the counter. A step is a part of a
// row, or whole rows (DimCounter::max_2d_step).
func maxStep(shape, counter []int, remaining int) (rowLen, rowCount int) {
	rowLen, rowCount = min(shape[0]-counter[0], remaining), 1
	if rowLen == shape[0] {
		rowCount = min(shape[1]-counter[1], remaining/shape[0])
	}
	return rowLen, rowCount
}

// setCounter sets the counter to an index of the walk, which is counter[0] + shape[0]*(counter[1] + shape[1]*...). The
// walk has elements.
func setCounter(shape, counter []int, index int) {
	for d, size := range shape {
		counter[d] = index % size
		index /= size
	}
}

// advance moves the counter beyond a step (DimCounter::increment). A step of several rows advances dimension 1. A step
// of one row, or of a part of a row, advances dimension 0. A dimension that reaches its size carries 1 to the next.
func advance(shape, counter []int, rowLen, rowCount int) {
	d, carry := 0, rowLen
	if rowCount != 1 {
		d, carry = 1, rowCount
	}
	for ; d < len(shape) && carry > 0; d++ {
		counter[d] += carry
		carry = 0
		if counter[d] >= shape[d] {
			counter[d] -= shape[d]
			carry = 1
		}
	}
}

// partAddresses returns the addresses of the operands' first elements in a part of an iteration (the receiver). ptrs
// has the addresses for the whole iteration.
func (it *Iterator) partAddresses(c *Cursor, ptrs []unsafe.Pointer) []unsafe.Pointer {
	c.firstAddrs = withLen(c.firstAddrs, len(ptrs))
	for i, offset := range it.offsets {
		c.firstAddrs[i] = unsafe.Add(ptrs[i], offset)
	}
	return c.firstAddrs
}

// Step is one step of a walk: N1 rows of N0 elements. The first element has the index Counter.
type Step struct {
	Counter []int // index in the coalesced shape
	N0, N1  int
}

// Steps returns the steps into which a range is cut, in order. The range is clipped to the iteration.
func (it *Iterator) Steps(r Range) []Step {
	shape := it.walkShape
	r = Range{max(r.Begin, 0), min(r.End, it.numel)}
	if r.Begin >= r.End {
		return nil
	}
	if len(shape) == 0 {
		return []Step{{N0: r.End - r.Begin, N1: 1}}
	}
	counter := make([]int, len(shape))
	setCounter(shape, counter, r.Begin)
	var steps []Step
	for position := r.Begin; position < r.End; {
		step := Step{Counter: append([]int(nil), counter...), N0: r.End - position, N1: 1}
		if len(shape) > 1 {
			step.N0, step.N1 = maxStep(shape, counter, r.End-position)
		}
		steps = append(steps, step)
		position += step.N0 * step.N1
		advance(shape, counter, step.N0, step.N1)
	}
	return steps
}

// Chunks returns the number of parallel tasks of grain elements. It depends on shape, strides and grain, never on the
// number of workers. A grain of 0 or less means [GrainSize]. If an operand is transposed, tasks are enlarged so that
// rows that share a cache line of the operand are in one task.
func (it *Iterator) Chunks(grain int) int {
	if it.numel == 0 {
		return 0
	}
	return (it.numel-1)/it.elementsPerTask(grain) + 1
}

// Chunk returns the range of task i of [Iterator.Chunks]. It panics if i is out of range.
func (it *Iterator) Chunk(i, grain int) Range {
	grain = it.elementsPerTask(grain)
	begin := i * grain
	// A fast check that i*grain did not overflow; chunkBegin makes the exact check.
	if uint(i)|uint(grain) > math.MaxInt32 || begin >= it.numel {
		begin = it.chunkBegin(i, grain)
	}
	return Range{begin, begin + min(grain, it.numel-begin)}
}

// chunkBegin returns the index of the first element of task i. It panics if i is out of range, even if i*grain
// overflows.
func (it *Iterator) chunkBegin(i, grain int) int {
	high, begin := bits.Mul64(uint64(i), uint64(grain))
	if i < 0 || high != 0 || begin >= uint64(it.numel) {
		panic(fmt.Sprintf("iter: task %d does not exist: the iteration has %d tasks of %d elements", i,
			it.Chunks(grain), grain))
	}
	return int(begin)
}

// minPanels is the minimum number of panels in an iteration whose tasks consist of panels. With fewer tasks, workers
// would be idle.
const minPanels = 8

// elementsPerTask returns the number of elements of a task: grain or, if an operand is transposed, grain rounded up to
// a multiple of a panel. A panel has the rows that share up to maxPanelPieces consecutive cache lines of the operand.
// The panel is the largest that fits at least minPanels times into the iteration. If no panel fits, the number is
// grain.
func (it *Iterator) elementsPerTask(grain int) int {
	if grain <= 0 {
		grain = GrainSize
	}
	if it.numel <= grain || len(it.walkShape) < 2 || it.IsReduction() {
		return grain
	}
	rowsPerLine := it.rowsPerLine()
	for rows := maxPanelPieces * rowsPerLine; rows >= rowsPerLine && rowsPerLine > 1; rows /= 2 {
		if panel := rows * it.walkShape[0]; panel <= it.numel/minPanels {
			return (grain + panel - 1) / panel * panel // grain, rounded up
		}
	}
	return grain
}

// coalesce sets the walk: the dimensions in the order of the permutation, with adjacent dimensions merged if they are
// one strided run in all operands (TensorIteratorBase::coalesce_dimensions).
func (it *Iterator) coalesce() {
	it.walkShape, it.walkStrides = it.permuted()
	it.merge()
}

// permuted returns the shape and the byte strides of the operands in the order of the permutation. The strides have at
// least two dimensions.
func (it *Iterator) permuted() (shape, strides []int) {
	dims, operandCount := len(it.perm), len(it.operands)
	shape, strides = make([]int, dims), make([]int, max(dims, 2)*operandCount)
	for k, d := range it.perm {
		shape[k] = it.shape[d]
		for i := range it.operands {
			meta := it.operands[i].Meta
			strides[k*operandCount+i] = it.stride(meta, d) * meta.DType.Size()
		}
	}
	return shape, strides
}

// merge minimizes the number of dimensions of the walk, and pads its strides to two dimensions.
func (it *Iterator) merge() {
	operandCount := len(it.operands)
	if len(it.walkShape) > 1 {
		it.walkShape = mergeDims(it.walkShape, it.walkStrides, operandCount)
	}
	clear(it.walkStrides[len(it.walkShape)*operandCount:])
	it.walkStrides = it.walkStrides[:max(len(it.walkShape), 2)*operandCount]
}

// mergeDims merges adjacent dimensions that are one strided run in all operands. It changes both slices and returns the
// merged shape.
func mergeDims(shape, strides []int, operandCount int) []int {
	stridesOf := func(d int) []int { return strides[d*operandCount : (d+1)*operandCount] }
	// mergeable reports whether a step along b continues after the last element along a: stride[b] =
	// shape[a]*stride[a].
	mergeable := func(a, b int) bool {
		if shape[a] == 1 || shape[b] == 1 {
			return true
		}
		for i, stride := range stridesOf(a) {
			if shape[a]*stride != stridesOf(b)[i] {
				return false
			}
		}
		return true
	}
	last := 0
	for d := 1; d < len(shape); d++ {
		if mergeable(last, d) {
			if shape[last] == 1 { // the strides of a dimension of size 1 have no meaning
				copy(stridesOf(last), stridesOf(d))
			}
			shape[last] *= shape[d]
			continue
		}
		last++
		if last != d {
			copy(stridesOf(last), stridesOf(d))
			shape[last] = shape[d]
		}
	}
	return shape[:last+1]
}

// stride returns the operand's stride in elements for a dimension of the broadcast shape. It is 0 if the operand is
// broadcast along the dimension.
func (it *Iterator) stride(meta *tensor.Meta, dim int) int {
	operandDim := dim - (len(it.shape) - len(meta.Shape))
	if operandDim < 0 || meta.Shape[operandDim] == 1 && it.shape[dim] != 1 {
		return 0
	}
	return meta.Strides[operandDim]
}

// withLen returns a slice of length n. It reuses the memory of s if that is large enough.
func withLen[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
