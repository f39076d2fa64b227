package iter

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// Expr makes a Kernel of an expression. The dtypes of its operands and results are those that loops see. Conversions
// between these and memory become part of the expression, contiguous and broadcast operands are read in place, and the
// expression is compiled to machine code if the processor is supported. Expressions can be combined: see
// [Rule.InMemory].
func Expr(c *expr.Code) Kernel {
	if c == nil {
		return Kernel{err: errNilFunction}
	}
	if err := c.Check(); err != nil {
		return Kernel{err: err}
	}
	k := Kernel{expression: &lazyCode{c: c}, outs: uint8(len(c.Out)), ins: uint8(len(c.In))}
	if n := len(c.Out) + len(c.In); n > maxExprOperands {
		return Kernel{err: fmt.Errorf("iter: an expression with %d operands and results; the most are %d", n,
			maxExprOperands)}
	}
	for _, o := range c.Out {
		k.types = append(k.types, o.DType)
	}
	k.types = append(k.types, c.In...)
	return k
}

// maxExprOperands is the number of addresses that compiled loops support.
const maxExprOperands = expr.MaxOperands

// ExprOf makes a Kernel of an expression that is built on demand, which inference never needs: types are the dtypes of
// its results, then of its operands. state is called once; its error is returned when the kernel runs.
func ExprOf(state func() (*expr.Code, error), results int, types ...tensor.DType) Kernel {
	switch {
	case state == nil:
		return Kernel{err: errNilFunction}
	case results < 1 || results > len(types) || len(types) > maxExprOperands:
		return Kernel{err: fmt.Errorf("iter: an expression with %d results among %d dtypes", results, len(types))}
	}
	return Kernel{expression: &lazyCode{state: state}, outs: uint8(results), ins: uint8(len(types) - results),
		types: types}
}

// lazyCode is an expression that is built at the first use.
type lazyCode struct {
	once  sync.Once
	state func() (*expr.Code, error)
	c     *expr.Code
	err   error
}

func (s *lazyCode) code() (*expr.Code, error) {
	s.once.Do(func() {
		if s.c == nil {
			s.c, s.err = s.state()
		}
		if s.err == nil {
			s.err = s.c.Check()
		}
		s.state = nil
	})
	return s.c, s.err
}

// then returns the expression with a change applied; nil for nil.
func (s *lazyCode) then(change func(*expr.Code) *expr.Code) *lazyCode {
	if s == nil {
		return nil
	}
	return &lazyCode{state: func() (*expr.Code, error) {
		c, err := s.code()
		if err != nil {
			return nil, err
		}
		return change(c), nil
	}}
}

// code returns the expression, after checking its dtypes against the kernel's; nil if there is none.
func (k Kernel) code() (*expr.Code, error) {
	if k.err != nil || k.expression == nil {
		return nil, k.err
	}
	c, err := k.expression.code()
	if err != nil {
		return nil, err
	}
	if len(c.Out) != int(k.outs) || len(c.In) != int(k.ins) {
		return nil, fmt.Errorf("iter: an expression with %d results and %d operands for the kernel %v", len(c.Out),
			len(c.In), k)
	}
	for i, o := range c.Out {
		if o.DType != k.types[i] {
			return nil, fmt.Errorf("iter: an expression with result %d as %v for the kernel %v", i, o.DType, k)
		}
	}
	if !slices.Equal(c.In, k.types[k.outs:]) {
		return nil, fmt.Errorf("iter: an expression of %v for the kernel %v", c.In, k)
	}
	return c, nil
}

// Formula returns the text of the kernel's expression; nil if it has none, or was not made from a formula.
func (k Kernel) Formula() *expr.Formula {
	c, _ := k.code()
	return c.Formula()
}

// InMemory returns the kernel's expression over operands and results in their dtypes in memory, conversions included;
// nil for a kernel without expression. The error is that of running it.
func (r *Rule) InMemory(k Kernel) (*expr.Code, error) {
	code, err := k.code()
	if code == nil {
		return nil, err
	}
	if err := k.fits(r); err != nil {
		return nil, err
	}
	if !r.staged && !slices.ContainsFunc(r.ops, func(o operand) bool { return o.Number.IsSet() }) {
		return code, nil
	}
	in := make([]tensor.DType, len(code.In))
	for i := range in {
		in[i] = r.ops[r.noutputs+i].held
	}
	b := expr.NewBuilder(in...)
	out := b.Inline(code, func(operand, part int) expr.Value {
		o := &r.ops[r.noutputs+operand]
		parts := loaded(b, operand)
		if o.Number.IsSet() {
			parts = constant(b, o.held, o.Number)
		}
		if o.cast != tensor.Invalid {
			parts = converted(b, parts, o.cast)
		}
		return converted(b, parts, o.target).part(part)
	})
	for i := range out {
		o := &r.ops[i]
		p := pair{out[i].DType, out[i].Re, out[i].Im}
		if o.cast != tensor.Invalid {
			p = converted(b, converted(b, p, o.cast), o.target)
		}
		p = converted(b, p, o.held)
		out[i] = expr.Output{DType: o.held, Re: p.re, Im: p.im}
	}
	return b.Build(out...)
}

// pair is a number of any dtype: the imaginary part of a real one is None.
type pair struct {
	dtype  tensor.DType
	re, im expr.Value
}

func (p pair) part(i int) expr.Value {
	if i == 0 {
		return p.re
	}
	return p.im
}

// constant returns a plain number as an operand of a dtype.
func constant(b *expr.Builder, d tensor.DType, n tensor.Scalar) pair {
	p := pair{d, b.Number(d, n, 0), expr.None}
	if d.IsComplex() {
		p.im = b.Number(d, n, 1)
	}
	return p
}

func loaded(b *expr.Builder, operand int) pair {
	p := pair{b.Operand(operand), b.Load(operand), expr.None}
	if p.dtype.IsComplex() {
		p.im = b.LoadImag(operand)
	}
	return p
}

// converted is c10::convert: conversion of a complex number to a real dtype takes the real part, and to bool compares
// with 0.
func converted(b *expr.Builder, p pair, d tensor.DType) pair {
	switch {
	case p.dtype == d:
		return p
	case p.im != expr.None && d == tensor.Bool:
		either := b.Do(expr.Or, b.Convert(d, p.re), b.Convert(d, p.im))
		return pair{d, either, expr.None}
	case !d.IsComplex():
		return pair{d, b.Convert(d, p.re), expr.None}
	case p.im == expr.None:
		return pair{d, b.Convert(d.ToReal(), p.re), b.Const(d.ToReal(), 0)}
	}
	return pair{d, b.Convert(d.ToReal(), p.re), b.Convert(d.ToReal(), p.im)}
}

// shortRow is the row length below which loops in Go process several rows at once.
const shortRow = 16

// inBlocks returns a kernel with a function over blocks that computes the expression of k, which is built at the first
// run.
func (k Kernel) inBlocks() Kernel {
	if k.err != nil || k.expression == nil {
		return k
	}
	source := k
	k.expression, k.body = nil, blocksOf(int(k.outs+k.ins), func() (*loops.Loop, error) {
		code, err := source.code()
		if err != nil {
			return nil, err
		}
		return newLoop(&expr.Loop{Code: code, Scalar: make([]bool, len(code.In))}, 0)
	})
	return k
}

// rowsOf returns the loop over rows of the walk for an expression in memory: operands that are constant along rows are
// scalars, other operands that are not contiguous within rows are staged.
func (it *Iterator) rowsOf(c *expr.Code) (l *expr.Loop, staged []bool) {
	l, staged = &expr.Loop{Code: c, Scalar: make([]bool, len(c.In))}, make([]bool, len(it.ops))
	for i := range it.ops {
		st := it.walkStrides[i]
		switch {
		case st == it.ops[i].meta.DType.Size() || it.numel == 1 || len(it.walkShape) == 0:
		case st == 0 && i >= it.noutputs:
			l.Scalar[i-it.noutputs] = true
		default:
			staged[i] = true
		}
	}
	return l, staged
}

// prepareExpr compiles the loop of an expression for the walk.
func (it *Iterator) prepareExpr(k Kernel) (Prepared, error) {
	code, err := it.Rule.InMemory(k)
	if err != nil {
		return Prepared{}, err
	}
	l, staged := it.rowsOf(code)
	p := Prepared{it: it}
	if slices.Contains(staged, true) {
		p.staged, p.tiles = staged, it.tilesOf(staged)
	}
	if p.loop, err = loops.New(l, it.loopOptions(code, p.tiles, staged)); err != nil {
		return Prepared{}, err
	}
	if !p.loop.Compiled() && len(it.walkShape) > 1 && it.walkShape[0] < shortRow {
		// In Go a row costs a call per instruction: short rows are joined in blocks.
		l = &expr.Loop{Code: code, Scalar: make([]bool, len(code.In))}
		if p.loop, err = newLoop(l, 0); err != nil {
			return Prepared{}, err
		}
		for i := range staged {
			staged[i] = true
		}
		p.joined, p.staged, p.tiles = true, staged, it.tilesOf(staged)
	}
	p.line = p.staged == nil && len(it.walkShape) <= 1 && it.offsets == nil
	return p, nil
}

// prefetchRows is the prefetch distance, in rows of a tile, for an operand that the loop reads in place: the rows are
// too short and too far apart for hardware prefetchers. Adding [4096,4096] and its transpose takes 7.6 ms with it, 8
// without. Adjacent rows are prefetched into L1, others not, because they would be evicted before use: adding pixels of
// 64 channels and a contiguous image takes 1.86 ms instead of 1.99, but transposed images 12.0 instead of 11.6 (Emerald
// Rapids).
const prefetchRows = 8

// loopOptions chooses stores and prefetching of the loop.
func (it *Iterator) loopOptions(c *expr.Code, t *tiles, staged []bool) loops.Options {
	var opts loops.Options
	if !slices.Contains(staged[:it.noutputs], true) {
		far := 0
		for i := range it.noutputs {
			far = max(far, it.numel*it.ops[i].held.Size())
		}
		opts.NonTemporal = far >= machine.FarBytes
	}
	if t == nil && opts.NonTemporal && computes(c) {
		opts.Ahead = it.prefetchInOrder()
	}
	if t == nil || !t.transposed || !it.large() {
		return opts
	}
	for i := it.noutputs; i < len(it.ops); i++ {
		ahead := prefetchRows * it.walkStrides[t.inner[1]*len(it.ops)+i]
		if !staged[i] && it.walkStrides[i] != 0 && ahead != 0 && int(int32(ahead)) == ahead {
			opts.Ahead = loops.Ahead{Operands: 1 << (i - it.noutputs), Bytes: int32(ahead),
				Near: ahead == prefetchRows*it.walkShape[0]*it.walkStrides[i]}
			break
		}
	}
	return opts
}

// walkLoop walks a checked range with the loop of an expression.
func (p *Prepared) walkLoop(c *Cursor, ptrs []unsafe.Pointer, r Range) error {
	it := p.it
	ops := len(it.ops)
	if p.tiles != nil {
		return p.walkTiles(c, ptrs, r)
	}
	return it.steps(c, ptrs, r, func(at []unsafe.Pointer, n0, n1 int) error {
		p.loop.Run(&c.loops, at, it.walkStrides[ops:2*ops], n0, n1)
		return nil
	})
}

// Expression reports whether the kernel is an expression, not a function.
func (p Prepared) Expression() bool { return p.loop != nil }

// PerElement estimates the time of an element with operands in the L1 cache, in nanoseconds; 0 if there is no machine
// code.
func (p Prepared) PerElement() float64 {
	if p.loop == nil {
		return 0
	}
	return p.loop.PerElement()
}

// Listings describes the compiled loop of an expression; it is empty for a kernel that is a function.
func (p Prepared) Listings() []expr.Listing {
	if p.loop == nil {
		return nil
	}
	l := p.loop.Listing("")
	l.Staged = slices.Clone(p.staged)
	return []expr.Listing{l}
}
