package rule

import (
	"fmt"
	"slices"
	"sync"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// Expr makes a Kernel from an expression. The operands and results of the expression have the dtypes that loops see.
// When the kernel runs, conversions to and from the dtypes in memory become part of the expression ([Rule.InMemory]).
// Contiguous and broadcast operands are read in place. The expression is compiled to machine code if the processor is
// supported.
func Expr(c *expr.Code) Kernel {
	if c == nil {
		return Kernel{err: errNilFunction}
	}
	if err := c.Check(); err != nil {
		return Kernel{err: err}
	}
	k := Kernel{expression: &lazyCode{built: c}, numResults: uint8(len(c.Out)), numOperands: uint8(len(c.In))}
	if n := len(c.Out) + len(c.In); n > maxExprOperands {
		return Kernel{err: fmt.Errorf("iter: the expression has %d operands and results; the limit is %d", n,
			maxExprOperands)}
	}
	for _, o := range c.Out {
		k.types = append(k.types, o.DType)
	}
	k.types = append(k.types, c.In...)
	return k
}

// maxExprOperands is the number of operands and results that compiled loops support.
const maxExprOperands = expr.MaxOperands

// ExprOf makes a Kernel from an expression. The expression is built only when the kernel runs, because inference needs
// only its dtypes. types has the dtypes of the results, then of the operands. build returns the expression and is
// called at most once. An error of build is returned when the kernel runs.
func ExprOf(build func() (*expr.Code, error), results int, types ...tensor.DType) Kernel {
	switch {
	case build == nil:
		return Kernel{err: errNilFunction}
	case results < 1 || results > len(types) || len(types) > maxExprOperands:
		return Kernel{err: fmt.Errorf("iter: ExprOf: %d results and %d dtypes were given: want 1 result or more, "+
			"and at most %d dtypes, one for each result and operand", results, len(types), maxExprOperands)}
	}
	return Kernel{expression: &lazyCode{build: build}, numResults: uint8(results),
		numOperands: uint8(len(types) - results),
		types:       types}
}

// lazyCode is an expression that is built at the first use.
type lazyCode struct {
	once  sync.Once
	build func() (*expr.Code, error) // builds the expression; nil after the first use
	built *expr.Code                 // the expression; nil before the first use, unless it was given
	err   error                      // the error of building or checking the expression
}

// code returns the expression.
func (s *lazyCode) code() (*expr.Code, error) {
	s.once.Do(func() {
		if s.built == nil {
			s.built, s.err = s.build()
		}
		if s.err == nil {
			s.err = s.built.Check()
		}
		s.build = nil
	})
	return s.built, s.err
}

// withChange returns the lazy expression that results from applying change to s, or nil if s is nil.
func (s *lazyCode) withChange(change func(*expr.Code) *expr.Code) *lazyCode {
	if s == nil {
		return nil
	}
	return &lazyCode{build: func() (*expr.Code, error) {
		c, err := s.code()
		if err != nil {
			return nil, err
		}
		return change(c), nil
	}}
}

// Code returns the kernel's expression, or nil if it has none. It fails if the expression's dtypes differ from the
// kernel's.
func (k Kernel) Code() (*expr.Code, error) {
	if k.err != nil || k.expression == nil {
		return nil, k.err
	}
	c, err := k.expression.code()
	if err != nil {
		return nil, err
	}
	if len(c.Out) != int(k.numResults) || len(c.In) != int(k.numOperands) {
		return nil, fmt.Errorf("iter: the expression has %d results and %d operands, but the kernel is %v", len(c.Out),
			len(c.In), k)
	}
	for i, o := range c.Out {
		if o.DType != k.types[i] {
			return nil, fmt.Errorf("iter: result %d of the expression is %v, but the kernel is %v", i, o.DType, k)
		}
	}
	if !slices.Equal(c.In, k.types[k.numResults:]) {
		return nil, fmt.Errorf("iter: the expression has operands %v, but the kernel is %v", c.In, k)
	}
	return c, nil
}

// Formula returns the text of the kernel's expression, or nil if the kernel has no expression or its expression was not
// parsed from a formula.
func (k Kernel) Formula() *expr.Formula {
	c, _ := k.Code()
	return c.Formula()
}

// InMemory returns the kernel's expression with conversions added, so that its operands and results have their dtypes
// in memory. It returns nil for a kernel without expression, and fails if the kernel cannot run over the iteration.
func (r *Rule) InMemory(k Kernel) (*expr.Code, error) {
	code, err := k.Code()
	if code == nil {
		return nil, err
	}
	if err := k.Fits(r); err != nil {
		return nil, err
	}
	if !r.converts && !slices.ContainsFunc(r.ops, func(o Resolved) bool { return o.Number.IsSet() }) {
		return code, nil
	}
	in := make([]tensor.DType, len(code.In))
	for i := range in {
		in[i] = r.ops[r.outCount+i].MemoryDType
	}
	b := expr.NewBuilder(in...)
	out := b.Inline(code, func(operand, part int) expr.Value {
		o := &r.ops[r.outCount+operand]
		parts := loadOperand(b, operand)
		if o.Number.IsSet() {
			parts = constantPair(b, o.MemoryDType, o.Number)
		}
		if o.Cast != tensor.Invalid { // round to Cast first
			parts = convertPair(b, parts, o.Cast)
		}
		return convertPair(b, parts, o.TargetDType).part(part)
	})
	for i := range out {
		o := &r.ops[i]
		p := pair{out[i].DType, out[i].Re, out[i].Im}
		if o.Cast != tensor.Invalid { // round to Cast first
			p = convertPair(b, convertPair(b, p, o.Cast), o.TargetDType)
		}
		p = convertPair(b, p, o.MemoryDType)
		out[i] = expr.Output{DType: o.MemoryDType, Re: p.re, Im: p.im}
	}
	return b.Build(out...)
}

// pair is a real or complex value of an expression. im is [expr.None] for a real value.
type pair struct {
	dtype  tensor.DType
	re, im expr.Value
}

// part returns the real part for i = 0, else the imaginary part.
func (p pair) part(i int) expr.Value {
	if i == 0 {
		return p.re
	}
	return p.im
}

// constantPair returns a plain number as a value of dtype d.
func constantPair(b *expr.Builder, d tensor.DType, n tensor.Scalar) pair {
	p := pair{d, b.Number(d, n, 0), expr.None}
	if d.IsComplex() {
		p.im = b.Number(d, n, 1)
	}
	return p
}

// loadOperand returns an operand in its dtype in memory.
func loadOperand(b *expr.Builder, operand int) pair {
	p := pair{b.Operand(operand), b.Load(operand), expr.None}
	if p.dtype.IsComplex() {
		p.im = b.LoadImag(operand)
	}
	return p
}

// convertPair returns p converted to dtype d, as c10::convert does: the real part of a complex number for a real dtype,
// and a comparison of both parts with 0 for bool.
func convertPair(b *expr.Builder, p pair, d tensor.DType) pair {
	switch {
	case p.dtype == d:
		return p
	case p.im != expr.None && d == tensor.Bool:
		either := b.Emit(expr.Or, b.Convert(d, p.re), b.Convert(d, p.im))
		return pair{d, either, expr.None}
	case !d.IsComplex():
		return pair{d, b.Convert(d, p.re), expr.None}
	case p.im == expr.None:
		return pair{d, b.Convert(d.ToReal(), p.re), b.Const(d.ToReal(), 0)}
	}
	return pair{d, b.Convert(d.ToReal(), p.re), b.Convert(d.ToReal(), p.im)}
}
