package rule

import (
	"fmt"
	"slices"
	"sync"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// Expr makes a Kernel from an expression. The operands and results of the expression have the dtypes in which loops
// compute. When the kernel runs, conversions to and from the dtypes in memory become part of the expression
// ([Rule.InMemory]). Contiguous and broadcast operands are read in place. The expression is compiled to machine code if
// the processor is supported.
func Expr(code *expr.Code) Kernel {
	if code == nil {
		return Kernel{err: errNilFunction}
	}
	if err := code.Check(); err != nil {
		return Kernel{err: err}
	}
	if n := len(code.Out) + len(code.In); n > maxExprOperands {
		return Kernel{err: fmt.Errorf("iter: the expression has %d operands and results; the limit is %d", n,
			maxExprOperands)}
	}
	kernel := Kernel{expression: &lazyCode{built: code}, numResults: uint8(len(code.Out)),
		numOperands: uint8(len(code.In))}
	for _, output := range code.Out {
		kernel.types = append(kernel.types, output.DType)
	}
	kernel.types = append(kernel.types, code.In...)
	return kernel
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
		numOperands: uint8(len(types) - results), types: types}
}

// lazyCode is an expression that is built at the first use.
type lazyCode struct {
	once  sync.Once
	build func() (*expr.Code, error) // builds the expression; nil after the first use
	built *expr.Code                 // the expression; nil before the first use, unless it was given
	err   error                      // the error of building or checking the expression
}

// code returns the expression.
func (l *lazyCode) code() (*expr.Code, error) {
	l.once.Do(func() {
		if l.built == nil {
			l.built, l.err = l.build()
		}
		if l.err == nil {
			l.err = l.built.Check()
		}
		l.build = nil
	})
	return l.built, l.err
}

// withChange returns the lazy expression that results from applying change to l, or nil if l is nil.
func (l *lazyCode) withChange(change func(*expr.Code) *expr.Code) *lazyCode {
	if l == nil {
		return nil
	}
	return &lazyCode{build: func() (*expr.Code, error) {
		code, err := l.code()
		if err != nil {
			return nil, err
		}
		return change(code), nil
	}}
}

// Code returns the kernel's expression, or nil if it has none. It fails if the expression's dtypes differ from the
// kernel's.
func (k Kernel) Code() (*expr.Code, error) {
	if k.err != nil || k.expression == nil {
		return nil, k.err
	}
	code, err := k.expression.code()
	if err != nil {
		return nil, err
	}
	if len(code.Out) != int(k.numResults) || len(code.In) != int(k.numOperands) {
		return nil, fmt.Errorf("iter: the expression has %d results and %d operands, but the kernel is %v", len(code.Out),
			len(code.In), k)
	}
	for i, output := range code.Out {
		if output.DType != k.types[i] {
			return nil, fmt.Errorf("iter: result %d of the expression is %v, but the kernel is %v", i, output.DType, k)
		}
	}
	if !slices.Equal(code.In, k.types[k.numResults:]) {
		return nil, fmt.Errorf("iter: the expression has operands %v, but the kernel is %v", code.In, k)
	}
	return code, nil
}

// Formula returns the formula from which the kernel's expression was parsed. It returns nil if the kernel has no
// expression, or if the expression was not parsed from a formula.
func (k Kernel) Formula() *expr.Formula {
	code, _ := k.Code()
	return code.Formula()
}

// InMemory returns the kernel's expression with conversions added, so that its operands and results have their dtypes
// in memory. For example, if the kernel adds float32, the inputs are float32 and int32, and the output is float16, the
// expression is
//
//	float16(x0 + float32(x1))
//
// InMemory returns nil for a kernel without expression, and fails if the kernel cannot run over the iteration.
func (r *Rule) InMemory(k Kernel) (*expr.Code, error) {
	code, err := k.Code()
	if code == nil {
		return nil, err
	}
	if err := k.Fits(r); err != nil {
		return nil, err
	}
	if !r.converts && !r.hasNumbers() {
		return code, nil
	}
	in := make([]tensor.DType, len(code.In))
	for i := range in {
		in[i] = r.operands[r.outCount+i].MemoryDType
	}
	builder := expr.NewBuilder(in...)
	out := builder.Inline(code, func(i, part int) expr.Value {
		return loadAsTarget(builder, i, &r.operands[r.outCount+i]).part(part)
	})
	for i := range out {
		value := typedValue{dtype: out[i].DType, re: out[i].Re, im: out[i].Im}
		value = convertToMemory(builder, value, &r.operands[i])
		out[i] = expr.Output{DType: value.dtype, Re: value.re, Im: value.im}
	}
	return builder.Build(out...)
}

// loadAsTarget returns input i of the expression, converted from its dtype in memory to the dtype that the kernel
// computes with.
func loadAsTarget(b *expr.Builder, i int, operand *Resolved) typedValue {
	value := load(b, i)
	if operand.Number.IsSet() {
		value = constant(b, operand.MemoryDType, operand.Number)
	}
	if operand.Cast != tensor.Invalid { // elements are rounded to Cast before the conversion to TargetDType
		value = convert(b, value, operand.Cast)
	}
	return convert(b, value, operand.TargetDType)
}

// convertToMemory returns a result of the kernel, converted to its dtype in memory.
func convertToMemory(b *expr.Builder, value typedValue, result *Resolved) typedValue {
	if result.Cast != tensor.Invalid { // the result is rounded to Cast first
		value = convert(b, convert(b, value, result.Cast), result.TargetDType)
	}
	return convert(b, value, result.MemoryDType)
}

// typedValue is a real or complex value of an expression. im is [expr.None] for a real value.
type typedValue struct {
	dtype  tensor.DType
	re, im expr.Value
}

// part returns the real part for i = 0, else the imaginary part.
func (v typedValue) part(i int) expr.Value {
	if i == 0 {
		return v.re
	}
	return v.im
}

// load returns an operand in its dtype in memory.
func load(b *expr.Builder, operand int) typedValue {
	value := typedValue{dtype: b.Operand(operand), re: b.Load(operand), im: expr.None}
	if value.dtype.IsComplex() {
		value.im = b.LoadImag(operand)
	}
	return value
}

// constant returns a plain number as a value of the given dtype.
func constant(b *expr.Builder, dtype tensor.DType, number tensor.Scalar) typedValue {
	const realPart, imaginaryPart = 0, 1
	value := typedValue{dtype: dtype, re: b.Number(dtype, number, realPart), im: expr.None}
	if dtype.IsComplex() {
		value.im = b.Number(dtype, number, imaginaryPart)
	}
	return value
}

// convert returns a value converted to dtype `to`, as c10::convert does. A complex number becomes its real part
// for a real dtype. For bool, both parts are compared with 0.
func convert(b *expr.Builder, value typedValue, to tensor.DType) typedValue {
	switch {
	case value.dtype == to:
		return value
	case value.im != expr.None && to == tensor.Bool:
		either := b.Emit(expr.Or, b.Convert(to, value.re), b.Convert(to, value.im))
		return typedValue{dtype: to, re: either, im: expr.None}
	case !to.IsComplex():
		return typedValue{dtype: to, re: b.Convert(to, value.re), im: expr.None}
	case value.im == expr.None:
		return typedValue{dtype: to, re: b.Convert(to.ToReal(), value.re), im: b.Const(to.ToReal(), 0)}
	}
	return typedValue{dtype: to, re: b.Convert(to.ToReal(), value.re), im: b.Convert(to.ToReal(), value.im)}
}
