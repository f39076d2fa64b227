package folds

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Number is a real or complex number in an expression. Im is None for a real number.
type Number struct{ Re, Im expr.Value }

// Real returns a real number.
func Real(v expr.Value) Number { return Number{v, expr.None} }

// Operand loads operand i and converts it to dtype cast and, if cast is a 16-bit float, then to float32.
func Operand(builder *expr.Builder, i int, cast tensor.DType) Number {
	x := Real(builder.Load(i))
	if d := builder.Operand(i); d.IsComplex() {
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

// Result converts x to d, the dtype of a result. A real x has the imaginary part 0 if d is complex.
func Result(b *expr.Builder, x Number, d tensor.DType) expr.Output {
	out := expr.Output{DType: d, Re: b.Convert(d.ToReal(), x.Re), Im: expr.None}
	if d.IsComplex() {
		if out.Im = b.Const(d.ToReal(), 0); x.Im != expr.None {
			out.Im = b.Convert(d.ToReal(), x.Im)
		}
	}
	return out
}

// rows returns the expression of the call, or nil if the op has none.
func (s *Spec) rows(c *graph.Call) (*graph.Rows, error) {
	row := s.Computation().Row
	if row == nil {
		return nil, nil
	}
	b := expr.NewBuilder(c.Meta(0).DType)
	results := row(b, Operand(b, 0, s.Cast))
	if results == nil {
		return nil, nil
	}
	var outs []expr.Output
	for i, x := range results {
		outs = append(outs, Result(b, x, s.Outs[i]))
	}
	code, err := b.Build(outs...)
	if err != nil {
		return nil, err
	}
	return &graph.Rows{Mask: s.Mask, In: []int{0}, Code: code}, nil
}

// InFloat64 converts a number to float64, the dtype in which sums and products of floats are computed.
func InFloat64(b *expr.Builder, v expr.Value) expr.Value { return b.Convert(tensor.Float64, v) }

// Total returns the sum of a value over the row. For floats it adds +0 to the sum. The sum of no elements, and the sum
// of negative zeros, is then +0.
func Total(b *expr.Builder, v expr.Value) expr.Value {
	if d := b.DType(v); d.IsFloat() {
		return b.Emit(expr.Add, b.Reduce(expr.Add, v), b.Const(d, 0))
	}
	return b.Reduce(expr.Add, v)
}

// sumExpression returns the function that builds the expression of [Summing].
func sumExpression(d tensor.DType, divisor float64) func(b *expr.Builder, terms Number) []Number {
	return func(builder *expr.Builder, terms Number) []Number {
		switch {
		case d == tensor.Bool:
			return []Number{Real(builder.Reduce(expr.Or, terms.Re))}
		case d.IsIntegral(true):
			return []Number{Real(Total(builder, builder.Convert(tensor.Int64, terms.Re)))}
		}
		mean := func(v expr.Value) expr.Value {
			if v == expr.None {
				return v
			}
			s := Total(builder, InFloat64(builder, v))
			if divisor == 1 { // a sum, not a mean
				return s
			}
			return builder.Emit(expr.Div, s, builder.Const(tensor.Float64, divisor))
		}
		return []Number{{mean(terms.Re), mean(terms.Im)}}
	}
}

// maxFloat32Sum is the maximum number of exponentials that are summed in float32. A row of this length is summed as
// [expr.FoldLanes] partial sums of 256 exponentials each. The error of such a sum is a few roundings. A loop in float32
// processes twice as many elements at a time as a loop in float64.
const maxFloat32Sum = 256 * expr.FoldLanes

// Exponentials returns the exponentials of a row of n numbers as softmax needs them: exp(x-maximum) for each element x,
// where maximum is the maximum of the row. It also returns the sum of these exponentials, and maximum. The sum is a
// float64 if n exceeds maxFloat32Sum.
func Exponentials(b *expr.Builder, x expr.Value, n int) (exponentials, sum, maximum expr.Value) {
	maximum = b.Reduce(expr.Max, x)
	exponentials = b.Emit(expr.Exp, b.Emit(expr.Sub, x, maximum))
	summand := exponentials
	if n > maxFloat32Sum {
		summand = InFloat64(b, exponentials)
	}
	return exponentials, b.Reduce(expr.Add, summand), maximum
}

// Softmax returns the softmax of a row of n numbers x, and the maximum of the row.
func Softmax(b *expr.Builder, x expr.Value, n int) (y, maximum expr.Value) {
	exponentials, sum, maximum := Exponentials(b, x, n)
	// The reciprocal is computed in the dtype of the sum, and rounded to the dtype of x.
	reciprocal := b.Convert(b.DType(x), b.Emit(expr.Div, b.Const(b.DType(sum), 1), sum))
	return b.Emit(expr.Mul, exponentials, reciprocal), maximum
}
