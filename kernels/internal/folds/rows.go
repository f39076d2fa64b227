package folds

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file builds the computation of a row as an expression ([graph.Rows]). A row has the elements of an operand along
// the reduced dimensions. In the expression, an operand is one element of the row, and [expr.Builder.Reduce] combines
// the values of all elements.

// Number is a real or complex number in an expression. Im is None for a real number.
type Number struct{ Re, Im expr.Value }

// Real returns a real number.
func Real(v expr.Value) Number { return Number{v, expr.None} }

// Operand loads operand i and converts it to dtype cast. If cast is a 16-bit float, the number is then converted to
// float32.
func Operand(builder *expr.Builder, i int, cast tensor.DType) Number {
	x := Real(builder.Load(i))
	if operandDType := builder.Operand(i); operandDType.IsComplex() {
		x.Im = builder.LoadImag(i)
	}
	switch {
	case cast == tensor.Bool && x.Im != expr.None: // a complex number is true if a part is not 0
		x = Real(builder.Emit(expr.Or, builder.Convert(cast, x.Re), builder.Convert(cast, x.Im)))
	case !cast.IsComplex():
		x.Im = expr.None
	case x.Im == expr.None: // a real number that becomes complex
		x.Im = builder.Const(cast.ToReal(), 0)
	}
	x.Re = builder.Convert(cast.ToReal(), x.Re)
	if x.Im != expr.None {
		x.Im = builder.Convert(cast.ToReal(), x.Im)
	}
	if cast.IsReducedFloat() {
		x.Re = builder.Convert(tensor.Float32, x.Re)
	}
	return x
}

// Result converts x to the dtype of a result. A real x has the imaginary part 0 if this dtype is complex.
func Result(builder *expr.Builder, x Number, dtype tensor.DType) expr.Output {
	out := expr.Output{DType: dtype, Re: builder.Convert(dtype.ToReal(), x.Re), Im: expr.None}
	if dtype.IsComplex() {
		out.Im = builder.Const(dtype.ToReal(), 0)
		if x.Im != expr.None {
			out.Im = builder.Convert(dtype.ToReal(), x.Im)
		}
	}
	return out
}

// rows returns the call as an expression over rows, or nil if the op has none.
func (s *Spec) rows(c *graph.Call) (*graph.Rows, error) {
	row := s.Computation().Row
	if row == nil {
		return nil, nil
	}
	builder := expr.NewBuilder(c.Meta(0).DType)
	results := row(builder, Operand(builder, 0, s.Cast))
	if results == nil {
		return nil, nil
	}
	var outs []expr.Output
	for i, x := range results {
		outs = append(outs, Result(builder, x, s.Outs[i]))
	}
	code, err := builder.Build(outs...)
	if err != nil {
		return nil, err
	}
	return &graph.Rows{Mask: s.Mask, In: []int{0}, Code: code}, nil
}

// InFloat64 converts a number to float64, the dtype in which sums and products of floats are computed.
func InFloat64(builder *expr.Builder, v expr.Value) expr.Value {
	return builder.Convert(tensor.Float64, v)
}

// Total returns the sum of a value over the row. For floats it adds +0 to the sum. The sum of no elements, and the sum
// of negative zeros, is then +0.
func Total(builder *expr.Builder, v expr.Value) expr.Value {
	if dtype := builder.DType(v); dtype.IsFloat() {
		return builder.Emit(expr.Add, builder.Reduce(expr.Add, v), builder.Const(dtype, 0))
	}
	return builder.Reduce(expr.Add, v)
}

// sumExpression returns the function that builds the expression of [Summing]: whether a bool of the row is true, the
// sum of integers, or the sum of floats or complex numbers divided by divisor.
func sumExpression(dtype tensor.DType, divisor float64) func(b *expr.Builder, terms Number) []Number {
	return func(builder *expr.Builder, terms Number) []Number {
		switch {
		case dtype == tensor.Bool:
			return []Number{Real(builder.Reduce(expr.Or, terms.Re))}
		case dtype.IsIntegral(true):
			return []Number{Real(Total(builder, builder.Convert(tensor.Int64, terms.Re)))}
		}
		return []Number{{sumOrMean(builder, terms.Re, divisor), sumOrMean(builder, terms.Im, divisor)}}
	}
}

// sumOrMean returns the sum of a float over the row, divided by the divisor. It returns None for None.
func sumOrMean(builder *expr.Builder, v expr.Value, divisor float64) expr.Value {
	if v == expr.None {
		return v
	}
	total := Total(builder, InFloat64(builder, v))
	if divisor == 1 { // a sum, not a mean
		return total
	}
	return builder.Emit(expr.Div, total, builder.Const(tensor.Float64, divisor))
}

// maxFloat32Sum is the maximum number of exponentials that are summed in float32. A row of this length is summed as
// [expr.FoldLanes] partial sums of 256 exponentials each, so at most 256 roundings add up in each of them. A loop in
// float32 processes twice as many elements at a time as a loop in float64.
const maxFloat32Sum = 256 * expr.FoldLanes

// Exponentials returns the exponentials of a row of rowSize numbers as softmax needs them: exp(x-maximum) for each x,
// where maximum is the maximum of the row. It also returns the sum of these exponentials, and maximum. The sum is a
// float64 if rowSize exceeds maxFloat32Sum.
func Exponentials(builder *expr.Builder, x expr.Value, rowSize int) (exponentials, sum, maximum expr.Value) {
	maximum = builder.Reduce(expr.Max, x)
	exponentials = builder.Emit(expr.Exp, builder.Emit(expr.Sub, x, maximum))
	summand := exponentials
	if rowSize > maxFloat32Sum {
		summand = InFloat64(builder, exponentials)
	}
	return exponentials, builder.Reduce(expr.Add, summand), maximum
}

// Softmax returns the softmax of a row of rowSize numbers x, and the maximum of the row.
func Softmax(builder *expr.Builder, x expr.Value, rowSize int) (y, maximum expr.Value) {
	exponentials, sum, maximum := Exponentials(builder, x, rowSize)
	// The reciprocal is computed in the dtype of the sum, and rounded to the dtype of x.
	reciprocal := builder.Convert(builder.DType(x), builder.Emit(expr.Div, builder.Const(builder.DType(sum), 1), sum))
	return builder.Emit(expr.Mul, exponentials, reciprocal), maximum
}
