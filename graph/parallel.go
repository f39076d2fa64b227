package graph

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Parallel is a loop over a dimension of operands and results whose iterations are independent: iteration i computes
// the slices i of the results from the slices i of the divided operands and from the whole other operands. A call of
// the op for some of the slices, with the same attributes, computes the same elements.
type Parallel struct {
	In  []int // by operand: the dimension that the loop divides, or [Whole]
	Out []int // by result: the dimension that the loop divides
	// Repeats marks operands that may have one slice instead of all, which every iteration then reads; nil: none.
	Repeats []bool
}

// Whole marks an operand that every iteration of a [Parallel] reads as a whole, or that is absent.
const Whole = -1

// ParallelLoops returns loops with independent iterations of a call with inferred results and known sizes. They follow
// from [Facts].Parallel, or else from the iteration of a pointwise op, the kept dimensions of [Lowerings].Rows, the
// dimensions that a concatenation does not join, or the strides of a view. An empty list claims nothing; a panic of
// the op gives one.
func (o *Op) ParallelLoops(c *Call) (loops []Parallel) {
	defer func() {
		if recover() != nil { // the op may be the caller's code, or the call that of another op
			loops = nil
		}
	}()
	if o == nil || c == nil || len(c.Out) == 0 || len(c.In) == 0 {
		return nil
	}
	if o.Parallel != nil {
		return o.Parallel(c)
	}
	if o.Pointwise != nil || o.Identity || o.Expression != nil {
		if loops := BroadcastLoops(c); loops != nil {
			return loops
		}
	}
	if o.ConcatDim != nil {
		if dim, ok := o.ConcatDim(c); ok {
			return DimsExcept(c, dim)
		}
		return nil
	}
	if o.Kind == View && !o.ReadsStorage {
		return o.viewLoops(c)
	}
	if o.Rows != nil {
		if r, err := o.Rows(c); err == nil && r != nil {
			return r.loops(c)
		}
	}
	return nil
}

// everyOperand marks all operands.
func everyOperand(c *Call) []bool { return slices.Repeat([]bool{true}, len(c.In)) }

// DimsExcept returns the loops over the dimensions of the first result other than the given ones, for a call whose
// tensors of this rank have the same dimensions, and whose other operands are read as a whole.
func DimsExcept(c *Call, dims ...int) []Parallel {
	if c == nil || len(c.Out) == 0 {
		return nil
	}
	shape := c.Out[0].Shape
	var loops []Parallel
	for d, size := range shape {
		if slices.Contains(dims, d) {
			continue
		}
		p := Parallel{In: make([]int, len(c.In)), Out: make([]int, len(c.Out))}
		fits := true
		for i, a := range c.In {
			m := a.Meta()
			if p.In[i] = Whole; a.Kind == TensorArg && m.Rank() == len(shape) {
				p.In[i], fits = d, fits && m.Shape[d] == size
			}
		}
		for i, m := range c.Out {
			p.Out[i], fits = d, fits && m.Rank() == len(shape) && m.Shape[d] == size
		}
		if fits {
			loops = append(loops, p)
		}
	}
	return loops
}

// BroadcastLoops returns the loops over the dimensions to which the operands of a call are broadcast; nil if the
// results have another shape.
func BroadcastLoops(c *Call) []Parallel {
	if c == nil || len(c.Out) == 0 {
		return nil
	}
	shape := c.Out[0].Shape
	for _, m := range c.Out {
		if !slices.Equal(m.Shape, shape) {
			return nil
		}
	}
	largest := make([]int, len(shape))
	for i := range largest {
		largest[i] = 1
	}
	for _, a := range c.In {
		m := a.Meta()
		if m.Rank() > len(shape) {
			return nil
		}
		for d, size := range m.Shape {
			if at := d + len(shape) - m.Rank(); size != 1 {
				largest[at] = size
			}
		}
	}
	if !slices.Equal(largest, shape) {
		return nil
	}
	loops := make([]Parallel, len(shape))
	for d, size := range shape {
		p := Parallel{In: make([]int, len(c.In)), Out: make([]int, len(c.Out)), Repeats: everyOperand(c)}
		for i, a := range c.In {
			m := a.Meta()
			at := d - (len(shape) - m.Rank())
			if p.In[i] = Whole; a.Kind == TensorArg && at >= 0 && m.Shape[at] == size {
				p.In[i] = at
			}
		}
		for i := range p.Out {
			p.Out[i] = d
		}
		loops[d] = p
	}
	return loops
}

// loops returns the loops over the dimensions of operand 0 that the program does not reduce.
func (r *Rows) loops(c *Call) []Parallel {
	rank := c.Meta(0).Rank()
	if r.Code == nil || r.Shape != nil || len(r.Mask) != r.Rank(rank) {
		return nil
	}
	var loops []Parallel
	reduced := 0 // before the dimension
	for d, size := range c.Meta(0).Shape {
		at := d
		if r.Split != 0 && d > 0 {
			at = d + 1
		}
		switch {
		case r.Split != 0 && d == 1:
			continue
		case r.Mask[at]:
			reduced++
			continue
		}
		p := Parallel{In: make([]int, len(c.In)), Out: make([]int, len(c.Out)), Repeats: everyOperand(c)}
		fits := true
		for i := range c.In {
			p.In[i] = Whole
		}
		p.In[0] = d
		for k, i := range r.In {
			m := c.Meta(i)
			along := d - (rank - m.Rank())
			if r.Along(k) {
				along = d - 1
			}
			if i > 0 && along >= 0 && along < m.Rank() && m.Shape[along] == size {
				p.In[i] = along
			}
		}
		for i, m := range c.Out {
			if p.Out[i] = d; m.Rank() < rank {
				p.Out[i] = d - reduced
			}
			fits = fits && p.Out[i] < m.Rank() && m.Shape[p.Out[i]] == size
		}
		if fits {
			loops = append(loops, p)
		}
	}
	return loops
}

// viewLoops derives the loops of a view from its strides. It infers the view of an operand whose strides are so large
// that an offset determines the index. A dimension of the results whose stride is that of a dimension of the operand,
// where no other stride and no offset has a part of this stride, reads one slice of the operand for each index.
func (o *Op) viewLoops(c *Call) []Parallel {
	in := c.Meta(0)
	if c.In[0].Kind != TensorArg || slices.Contains(in.Shape, 0) {
		return nil
	}
	var loops []Parallel
	for d, size := range in.Shape {
		out := o.walksOf(c, in.Shape, d)
		if out == nil {
			continue
		}
		// The view must not depend on the size, unless an attribute has the sizes of the result.
		for _, other := range []int{1, size + 1} {
			shape := slices.Clone(in.Shape)
			if shape[d] = other; o.Sizes == "" && !slices.Equal(o.walksOf(c, shape, d), out) {
				out = nil
				break
			}
		}
		if out == nil {
			continue
		}
		p := Parallel{In: make([]int, len(c.In)), Out: out}
		for i := range p.In {
			p.In[i] = Whole
		}
		p.In[0] = d
		loops = append(loops, p)
	}
	return loops
}

// walksOf returns the dimension of each result of a view of an operand of the given shape that walks along dimension d
// of the operand, and nil if there is none.
func (o *Op) walksOf(c *Call, shape []int, d int) []int {
	strides, radix, next := make([]int, len(shape)), make([]int, len(shape)), 1
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i], radix[i] = next, 2*shape[i]+1
		if next > math.MaxInt/4/radix[i] { // offsets would overflow
			return nil
		}
		next *= radix[i]
	}
	t := tensor.Type{DType: c.In[0].Meta().DType, Shape: sizesOf(shape), Strides: sizesOf(strides)}
	probe := &Call{In: slices.Clone(c.In), Attrs: c.Attrs}
	m, ok := t.Meta()
	if !ok {
		return nil
	}
	probe.In[0].Value = &Value{Name: "probe", Type: t, Meta: m}
	results, err := o.Infer(probe)
	if err != nil || len(results) != len(c.Out) {
		return nil
	}
	dims := make([]int, len(results))
	for i, r := range results {
		m, known := r.Type.Meta()
		if !known || r.Alias != 0 || r.Dynamic || m.DType.Size() != t.DType.Size() {
			return nil
		}
		if dims[i] = walksAlong(m, strides, radix, shape[d], d); dims[i] < 0 {
			return nil
		}
	}
	return dims
}

// walksAlong returns the dimension of a view with the given size and strides[d], where every offset in the view has the
// index of this dimension as its part of strides[d]; negative for none.
func walksAlong(m tensor.Meta, strides, radix []int, size, d int) int {
	part := func(offset, i int) int { return offset / strides[i] % radix[i] }
	greatest := make([]int, len(strides)) // the greatest index in each dimension of the operand
	for i := range strides {
		greatest[i] = part(m.Offset, i)
	}
	at := -1
	for e, stride := range m.Strides {
		if stride < 0 {
			return -1
		}
		for i := range strides {
			greatest[i] += max(m.Shape[e]-1, 0) * part(stride, i)
		}
		switch {
		case stride == strides[d] && m.Shape[e] == size && at < 0:
			at = e
		case part(stride, d) != 0:
			return -1
		}
	}
	for i := range strides {
		if greatest[i] >= radix[i] { // a carry
			return -1
		}
	}
	if part(m.Offset, d) != 0 {
		return -1
	}
	return at
}

func sizesOf(list []int) []sym.Int {
	sizes := make([]sym.Int, len(list))
	for i, n := range list {
		sizes[i] = sym.Of(n)
	}
	return sizes
}
