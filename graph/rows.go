package graph

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/rowprog"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Rows is what a call that folds computes, as an expression over the rows of operand 0: the elements that differ in the
// reduced dimensions alone. Passes can put it into larger ones.
type Rows struct {
	// Mask marks the reduced dimensions of operand 0. Results have its shape or that which is left of it, with reduced
	// dimensions of size 1 or without them.
	Mask []bool
	// Split, where it is not 0, has dimension 1 seen as two: operand 0 is [n, c, ...], and Mask marks the dimensions of
	// [n, Split, c/Split, ...], which is a view whatever the strides. Results then have the shape of operand 0.
	Split int
	// In holds, by operand of Code, that of the call. They are broadcast to the shape of operand 0.
	In []int
	// Channels marks, by operand of Code, vectors that lie along dimension 1 instead of the last; nil for none.
	Channels []bool
	// Code has the dtypes that operands and results have in memory.
	Code *expr.Code
	// Way is how loops go, where an implementation decides it.
	Way rowprog.Way

	full []int // the shape that operands are broadcast to, where that is not operand 0's own
}

// rowWorkerBytes bounds the memory of a worker: rows that are longer, and would be put aside, are left to kernels that
// need none.
const rowWorkerBytes = 4 << 20

// Compile returns the kernel; nil, without an error, where machine code cannot be made of all its loops, or rows
// would take much memory.
func (r *Rows) Compile(c *Call) (*Kernel, error) {
	p, err := r.plan(c)
	if err != nil || !p.Compiled() || p.Worker() > rowWorkerBytes {
		return nil, err
	}
	return r.kernel(c, p), nil
}

// rowPlan is an expression over rows made ready: [rowprog.Plan], or [rowprog.Pieces] of rows that are cut.
type rowPlan interface {
	Phases() int
	Chunks(phase int) int
	Scratch() int
	Worker() int
	Compiled() bool
	PerElement() float64
	InPlace() [][2]int
	Listings() []expr.Listing
	Run(s *rowprog.State, phase, chunk int, ptrs []unsafe.Pointer, scratch, worker []byte) error
}

// kernel runs a plan.
func (r *Rows) kernel(c *Call, p rowPlan) *Kernel {
	w := &rowWork{plan: p, in: r.In, outs: len(c.Out), places: len(c.Out) + len(c.In)}
	k := &Kernel{Scratch: p.Scratch(), Worker: p.Worker(), Code: p.Listings}
	k.Arithmetic = p.PerElement() * float64(tensor.Numel(r.space(c)))
	for phase := range p.Phases() {
		k.Phases = append(k.Phases, Phase{Chunks: p.Chunks(phase), Run: func(m *Mem, chunk int) error {
			return w.run(m, phase, chunk)
		}})
	}
	for _, pair := range p.InPlace() {
		if in := r.In[pair[1]]; slices.Equal(c.Meta(in).Shape, c.Out[pair[0]].Shape) {
			k.InPlace = append(k.InPlace, InPlace{Out: pair[0], In: in})
		}
	}
	return k
}

// space is the shape that operands are broadcast to.
func (r *Rows) space(c *Call) []int {
	if r.full != nil {
		return r.full
	}
	return c.Meta(0).Shape
}

// plan prepares the sweeps for the layouts of the call.
func (r *Rows) plan(c *Call) (rowPlan, error) {
	full := r.space(c)
	if r.Split != 0 && (r.Split < 0 || len(full) < 2 || full[1]%r.Split != 0) {
		return nil, fmt.Errorf("dimension 1 of shape %s in %d parts", tensor.ListString(full), r.Split)
	}
	if len(r.Mask) != r.rank(len(full)) {
		return nil, fmt.Errorf("rows of %d dimensions in an operand of shape %s", len(r.Mask), tensor.ListString(full))
	}
	var outs, ins []tensor.Meta
	for i, m := range c.Out {
		kept := m.Rank() == len(full)
		switch {
		case slices.Equal(m.Shape, full):
			m = r.seen(m)
		case r.Split != 0:
			return nil, fmt.Errorf("result %d has shape %s and not that of the operand", i, tensor.ListString(m.Shape))
		case !slices.Equal(m.Shape, rule.ReduceShape(full, r.Mask, kept)):
			return nil, fmt.Errorf("result %d has shape %s, neither that of the operand nor of its rows", i,
				tensor.ListString(m.Shape))
		default:
			m = rule.ReduceOutput(m, r.Mask, kept)
		}
		outs = append(outs, m)
	}
	for k, i := range r.In {
		if i < 0 || i >= len(c.In) || c.In[i].Kind != TensorArg {
			return nil, errors.New("rows of an operand that is no tensor")
		}
		m := c.Meta(i)
		if r.along(k) {
			if m.Rank() != 1 || len(full) < 2 {
				return nil, fmt.Errorf("operand %d of shape %s along dimension 1", i, tensor.ListString(m.Shape))
			}
			m = alongChannels(m, len(full))
		}
		m, err := m.Expand(full)
		if err != nil {
			return nil, err
		}
		ins = append(ins, r.seen(m))
	}
	if r.unsuited(full) != "" {
		if p, err := rowprog.NewPieces(r.Code, outs, ins, r.Mask, r.Way); p != nil || err != nil {
			return p, err
		}
	}
	return rowprog.New(r.Code, outs, ins, r.Mask, r.Way)
}

// rank is the number of dimensions in which rows lie, of those of the operands.
func (r *Rows) rank(operands int) int {
	if r.Split != 0 {
		return operands + 1
	}
	return operands
}

// along reports whether operand k of Code is a vector along dimension 1.
func (r *Rows) along(k int) bool { return k < len(r.Channels) && r.Channels[k] }

// alongChannels is a vector as dimension 1 of a value of that rank.
func alongChannels(m tensor.Meta, rank int) tensor.Meta {
	shape, strides := slices.Repeat([]int{1}, rank), make([]int, rank)
	shape[1], strides[1] = m.Shape[0], m.Strides[0]
	m.Shape, m.Strides = shape, strides
	return m
}

// seen is a value of the whole shape as rows see it: with dimension 1 split.
func (r *Rows) seen(m tensor.Meta) tensor.Meta {
	if r.Split == 0 {
		return m
	}
	size := m.Shape[1] / r.Split
	m.Shape = slices.Concat(m.Shape[:1], []int{r.Split, size}, m.Shape[2:])
	m.Strides = slices.Concat(m.Strides[:1], []int{m.Strides[1] * size, m.Strides[1]}, m.Strides[2:])
	return m
}

// rowWork runs the chunks of a kernel.
type rowWork struct {
	plan         rowPlan
	in           []int
	outs, places int
	state        PerWorker[rowState]
}

type rowState struct {
	rowprog.State
	ptrs []unsafe.Pointer
}

func (w *rowWork) run(m *Mem, phase, chunk int) error {
	if len(m.Ptrs) < w.places {
		return fmt.Errorf("%d addresses of %d", len(m.Ptrs), w.places)
	}
	s := w.state.Of(m)
	s.ptrs = append(s.ptrs[:0], m.Ptrs[:w.outs]...)
	for _, i := range w.in {
		s.ptrs = append(s.ptrs, m.Ptrs[w.outs+i])
	}
	s.Context = m.Context
	err := w.plan.Run(&s.State, phase, chunk, s.ptrs, m.Scratch, m.Worker)
	clear(s.ptrs)
	return err
}

// What rows are, at most: they stay in the cache from sweep to sweep, and there are so many long ones that workers find
// work.
const (
	maxRow  = 1 << 16
	longRow = 1 << 12
	minRows = 4
)

// Fits reports whether rows of values of that shape can be gone over by loops at all: whether that is worth it,
// [Rows.Unsuited] tells.
func (r *Rows) Fits(shape []int) bool {
	length, _, ok := r.lengths(shape)
	return ok && length > 0 && length <= maxRow || r.Cut(shape)
}

// Cut reports whether rows of values of that shape, long or few, are gone over in pieces, which are put together
// afterwards: what pieces give makes all of the results. No other sweep can follow in the same step.
func (r *Rows) Cut(shape []int) bool {
	if r == nil || r.Code == nil || len(r.Mask) != r.rank(len(shape)) || tensor.Numel(shape) == 0 ||
		r.unsuited(shape) == "" {
		return false
	}
	length, _, ok := r.lengths(shape)
	return ok && length <= r.mostCut()
}

// mostCut is the length of the longest rows that can be cut: 0 where pieces do not tell what rows do.
func (r *Rows) mostCut() int {
	p, err := r.Code.Pieces(make([]bool, len(r.Code.In)))
	switch {
	case err != nil:
		return 0
	case p.Waits == 0:
		return math.MaxInt
	}
	return rowprog.MaxCutPlaces
}

// Suits is [Rows.Fits] and [Rows.Cut] for sizes that may be unknown.
func (r *Rows) Suits(shape []sym.Int) (fits, cut sym.Bool) {
	if r == nil || r.Code == nil || r.Split < 0 || r.Split > 0 && len(shape) < 2 || len(r.Mask) != r.rank(len(shape)) {
		return fits, cut
	}
	if r.Split != 0 {
		parts := sym.Of(r.Split)
		shape = slices.Concat(shape[:1], []sym.Int{parts, shape[1].Div(parts)}, shape[2:])
	}
	length, count := sym.Of(1), sym.Of(1)
	for d, size := range shape {
		if r.Mask[d] {
			length = length.Mul(size)
		} else {
			count = count.Mul(size)
		}
	}
	within := length.Ge(sym.Of(1)).And(length.Le(sym.Of(maxRow)))
	if most := r.mostCut(); most > 0 {
		few := length.Gt(sym.Of(longRow)).And(count.Lt(sym.Of(minRows)))
		cut = length.Ge(sym.Of(1)).And(count.Ge(sym.Of(1))).And(within.Not().Or(few))
		if most < math.MaxInt {
			cut = cut.And(length.Le(sym.Of(most)))
		}
	}
	return within.Or(cut), cut
}

// lengths are the length of rows of values of that shape, and their number; false where it has no rows.
func (r *Rows) lengths(shape []int) (length, count int, ok bool) {
	if r == nil || r.Split < 0 || r.Split > 0 && len(shape) < 2 || len(r.Mask) != r.rank(len(shape)) {
		return 0, 0, false
	}
	if r.Split != 0 {
		shape = slices.Concat(shape[:1], []int{r.Split, shape[1] / r.Split}, shape[2:])
	}
	length, count = 1, 1
	for d, size := range shape {
		if r.Mask[d] {
			length *= size
		} else {
			count *= size
		}
	}
	return length, count, true
}

// Unsuited tells why rows of values of that shape are left to a kernel of their own; empty where they are not.
func (r *Rows) Unsuited(shape []int) string {
	if r.Cut(shape) {
		return ""
	}
	return r.unsuited(shape)
}

func (r *Rows) unsuited(shape []int) string {
	length, count, ok := r.lengths(shape)
	switch {
	case !ok:
		return "has no rows"
	case length == 0:
		return "has rows of no elements"
	case length > maxRow:
		return fmt.Sprintf("has rows of %d elements, and %d are the most", length, maxRow)
	case length > longRow && count < minRows:
		return fmt.Sprintf("has %d rows, too few for workers to share", count)
	}
	return ""
}
