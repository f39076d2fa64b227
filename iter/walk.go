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

// GrainSize is the least number of elements worth a parallel task
// (at::internal::GRAIN_SIZE).
const GrainSize = machine.MoveGrain

// Range is a run [Begin, End) of the coalesced iteration space, counted in elements.
type Range struct{ Begin, End int }

// Loop works on n1 rows of n0 elements. ptrs[i] is the address of operand i's first
// element; strides[i] is its step in bytes inside a row, strides[len(ptrs)+i] from row to
// row. ptrs may be changed by the loop; both slices are valid during the call only.
// An error ends the walk. [Iterator.ForEach] walks all of an iteration with it,
// [Iterator.ForRange] a part, and [Iterator.Parallel] all of it on several goroutines. Any range
// may be walked by itself: cutting an iteration anywhere changes nothing but the sizes of the
// steps. [Rows] makes a Loop of one that knows single rows.
//
// A Loop is unsafe: it reads and writes memory through addresses whose types nothing
// checks. A loop of another dtype than [Iterator.DType] tells, or one that goes beyond n0
// and n1, writes over other memory; nor does anything tell whether the addresses are those of
// the operands ([Iterator.Bind] gives them). Their number, nil ones and ranges are checked,
// with an error. A [Kernel] does all that a Loop does but work on
// strides, and cannot go wrong in this way.
type Loop func(ptrs []unsafe.Pointer, strides []int, n0, n1 int) error

// Rows makes a Loop of a function that knows one row of n elements at a time: PyTorch's
// one-dimensional loop. It is as unsafe as any [Loop].
func Rows(f func(ptrs []unsafe.Pointer, strides []int, n int) error) Loop {
	if f == nil {
		return nil
	}
	return func(ptrs []unsafe.Pointer, strides []int, n0, n1 int) error {
		ops := len(ptrs)
		for j := range n1 {
			if j > 0 {
				for i := range ptrs {
					ptrs[i] = unsafe.Add(ptrs[i], strides[ops+i])
				}
			}
			if err := f(ptrs, strides[:ops], n0); err != nil {
				return err
			}
		}
		return nil
	}
}

// coalesce takes the operands' real strides in the order of the permutation and merges
// neighbouring dimensions that form one run for all operands
// (TensorIteratorBase::coalesce_dimensions).
func (it *Iterator) coalesce() {
	it.walkShape, it.walkStrides = it.permuted()
	it.merge()
}

// stride returns the operand's stride of broadcast dimension d in memory, in elements: what effective
// returns, of what memory holds.
func (it *Iterator) stride(m *tensor.Meta, d int) int {
	at := d - (len(it.shape) - len(m.Shape))
	if at < 0 || m.Shape[at] == 1 && it.shape[d] != 1 {
		return 0
	}
	return m.Strides[at]
}

// permuted returns the shape and the operands' strides in bytes in the order of the
// permutation, with room for two dimensions.
func (it *Iterator) permuted() (shape, strides []int) {
	n, ops := len(it.perm), len(it.ops)
	shape, strides = make([]int, n), make([]int, max(n, 2)*ops)
	for k, d := range it.perm {
		shape[k] = it.shape[d]
		for i := range it.ops {
			m := it.ops[i].meta
			strides[k*ops+i] = it.stride(m, d) * m.DType.Size()
		}
	}
	return shape, strides
}

// merge makes the walk's dimensions as few as possible, and pads its strides to two.
func (it *Iterator) merge() {
	ops := len(it.ops)
	if len(it.walkShape) > 1 {
		it.walkShape = mergeDims(it.walkShape, it.walkStrides, ops)
	}
	clear(it.walkStrides[len(it.walkShape)*ops:])
	it.walkStrides = it.walkStrides[:max(len(it.walkShape), 2)*ops]
}

// mergeDims merges in place and returns the shorter shape.
func mergeDims(shape, strides []int, ops int) []int {
	row := func(d int) []int { return strides[d*ops : (d+1)*ops] }
	mergeable := func(a, b int) bool {
		if shape[a] == 1 || shape[b] == 1 {
			return true
		}
		for i, st := range row(a) {
			if shape[a]*st != row(b)[i] {
				return false
			}
		}
		return true
	}
	last := 0
	for d := 1; d < len(shape); d++ {
		if mergeable(last, d) {
			if shape[last] == 1 {
				copy(row(last), row(d))
			}
			shape[last] *= shape[d]
			continue
		}
		last++
		if last != d {
			copy(row(last), row(d))
			shape[last] = shape[d]
		}
	}
	return shape[:last+1]
}

// Chunks returns the number of parallel tasks of grain elements that the iteration
// makes: a matter of shape, strides and grain, never of the number of workers. A grain of 0 or
// less means [GrainSize]. Where an operand is faster across rows than along them, tasks are of more
// elements: of as many rows as share cache lines.
func (it *Iterator) Chunks(grain int) int {
	if it.numel == 0 {
		return 0
	}
	return (it.numel-1)/it.grainOf(grain) + 1
}

// Chunk returns the range of task i of [Iterator.Chunks]. It panics where there is no such
// task, as an index of a slice does.
func (it *Iterator) Chunk(i, grain int) Range {
	grain = it.grainOf(grain)
	begin := i * grain
	if uint(i)|uint(grain) > math.MaxInt32 || begin >= it.numel {
		begin = it.chunkBegin(i, grain)
	}
	return Range{begin, begin + min(grain, it.numel-begin)}
}

// chunkBegin is for tasks whose numbers may overflow, and for those that do not exist.
func (it *Iterator) chunkBegin(i, grain int) int {
	hi, begin := bits.Mul64(uint64(i), uint64(grain))
	if i < 0 || hi != 0 || begin >= uint64(it.numel) {
		panic(fmt.Sprintf("iter: task %d of an iteration with %d tasks of %d elements", i, it.Chunks(grain), grain))
	}
	return int(begin)
}

// grainOf returns the elements of a task: grain, or, where an operand is turned, whole panels of rows, as
// long as there are enough tasks for several workers.
func (it *Iterator) grainOf(grain int) int {
	if grain <= 0 {
		grain = GrainSize
	}
	if it.numel <= grain || len(it.walkShape) < 2 || it.flags.reduction {
		return grain
	}
	lines := it.turnedLines()
	for rows := panelPieces * lines; rows >= lines && lines > 1; rows /= 2 {
		if whole := rows * it.walkShape[0]; whole <= it.numel/manyTasks {
			return (grain + whole - 1) / whole * whole
		}
	}
	return grain
}

// manyTasks is the number of tasks below which larger ones would leave workers idle.
const manyTasks = 8

// All returns the whole range.
func (it *Iterator) All() Range { return Range{0, it.numel} }

// Cursor holds what a walk changes: counters, addresses and the blocks in which operands
// are converted. The zero value is ready. A Cursor is for one goroutine at a time and any
// number of iterators in turn; once grown, walks do not allocate.
type Cursor struct {
	counter []int
	ptrs    []unsafe.Pointer // addresses handed to loops
	base    []unsafe.Pointer // addresses of the current step
	start   []unsafe.Pointer // addresses at which a part begins
	strides []int
	stage   []byte
	filled  []unsafe.Pointer
	loops   loops.State
	boxes   boxes
}

// ForEach walks the whole iteration in this goroutine with the loop (serial_for_each).
// ptrs are the addresses of the operands' first elements, outputs first, as
// [Iterator.Bind] gives them; nil will do for operands without elements.
//
// It is unsafe: addresses do not tell the type, the layout or the size of what is there,
// and a wrong one, or a loop of another dtype, reads and writes other memory. Only the
// number of addresses, nil ones and the range are checked, with an error.
func (it *Iterator) ForEach(ptrs []unsafe.Pointer, loop Loop) error {
	if it == nil {
		return errNilIterator
	}
	var c Cursor
	return it.ForRange(&c, ptrs, it.All(), loop)
}

// ForRange walks a range in the largest two-dimensional steps. Operands whose dtype
// differs from what loops see are converted block by block on the way. A nil Cursor stands
// for a fresh one. It is unsafe, and checks as much, as [Iterator.ForEach].
func (it *Iterator) ForRange(c *Cursor, ptrs []unsafe.Pointer, r Range, loop Loop) error {
	switch {
	case it == nil:
		return errNilIterator
	case loop == nil:
		return errors.New("iter: a nil Loop")
	}
	if err := it.checkWalk(ptrs, r); err != nil || r.Begin == r.End {
		return err
	}
	if c == nil {
		c = new(Cursor)
	}
	if it.staged {
		return it.forStaged(c, ptrs, r, loop)
	}
	return it.steps(c, ptrs, r, func(p []unsafe.Pointer, n0, n1 int) error {
		return loop(p, it.walkStrides[:2*len(it.ops)], n0, n1)
	})
}

// steps cuts a range into the largest steps of n0 elements by n1 rows and hands over the
// addresses (DimCounter, serial_for_each).
func (it *Iterator) steps(c *Cursor, base []unsafe.Pointer, r Range,
	f func(p []unsafe.Pointer, n0, n1 int) error) error {
	ops, shape := len(it.ops), it.walkShape
	c.base = sized(c.base, ops)
	if it.offsets != nil {
		base = it.shifted(c, base)
	}
	if len(shape) <= 1 {
		for i := range ops {
			c.base[i] = unsafe.Add(base[i], r.Begin*it.walkStrides[i])
		}
		return f(c.base, r.End-r.Begin, 1)
	}
	c.counter = sized(c.counter, len(shape))
	rest := r.Begin
	for d, s := range shape {
		c.counter[d] = rest % s
		rest /= s
	}
	for at := r.Begin; at < r.End; {
		for i := range ops {
			off := 0
			for d, v := range c.counter {
				off += v * it.walkStrides[d*ops+i]
			}
			c.base[i] = unsafe.Add(base[i], off)
		}
		n0, n1 := maxStep(shape, c.counter, r.End-at)
		if err := f(c.base, n0, n1); err != nil {
			return err
		}
		at += n0 * n1
		advance(shape, c.counter, n0, n1)
	}
	return nil
}

// shifted returns the addresses at which a part of an iteration begins.
func (it *Iterator) shifted(c *Cursor, base []unsafe.Pointer) []unsafe.Pointer {
	c.start = sized(c.start, len(base))
	for i, off := range it.offsets {
		c.start[i] = unsafe.Add(base[i], off)
	}
	return c.start
}

// maxStep returns the largest step from the counter of at most left elements: part of a
// row, or whole rows (DimCounter::max_2d_step).
func maxStep(shape, counter []int, left int) (n0, n1 int) {
	n0, n1 = min(shape[0]-counter[0], left), 1
	if n0 == shape[0] {
		n1 = min(shape[1]-counter[1], left/shape[0])
	}
	return n0, n1
}

// advance moves the counter past a step (DimCounter::increment).
func advance(shape, counter []int, n0, n1 int) {
	d, over := 0, n0
	if n1 != 1 {
		d, over = 1, n1
	}
	for ; d < len(shape) && over > 0; d++ {
		counter[d] += over
		over = 0
		if counter[d] >= shape[d] {
			counter[d] -= shape[d]
			over = 1
		}
	}
}

// Step is one piece of a walk: n1 rows of n0 elements that begin at Counter.
type Step struct {
	Counter []int // index in the coalesced shape
	N0, N1  int
}

// Steps returns the steps into which a range is cut, in order. What of the range lies
// outside of the iteration is left out.
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
	rest := r.Begin
	for d, s := range shape {
		if s > 0 {
			counter[d] = rest % s
			rest /= s
		}
	}
	var out []Step
	for at := r.Begin; at < r.End; {
		s := Step{Counter: append([]int(nil), counter...), N0: r.End - at, N1: 1}
		if len(shape) > 1 {
			s.N0, s.N1 = maxStep(shape, counter, r.End-at)
		}
		out = append(out, s)
		at += s.N0 * s.N1
		advance(shape, counter, s.N0, s.N1)
	}
	return out
}

// sized returns a slice of length n, the old one where it is large enough.
func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
