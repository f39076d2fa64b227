package reduce

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type prodAttrs struct {
	Dim     *int         `attr:"dim" default:"none" doc:"dimension to reduce; none: all"`
	Keepdim bool         `attr:"keepdim" default:"false" doc:"keep the reduced dimension with size 1"`
	DType   tensor.DType `attr:"dtype" default:"none" doc:"dtype to which self is converted first"`
}

// Prod multiplies the elements over a dimension. Floats are multiplied in float64.
var Prod = folds.Define(graph.SchemaOf[prodAttrs](), graph.Op{Semantics: graph.Semantics{
	Name:     "prod",
	Doc:      "Multiplies the elements over a dimension, or all. Bools and integers give int64 unless `dtype` is given.",
	Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)}, Attrs: graph.Attrs{"dim": 1}}},
}}, func(c *graph.Call) (folds.Spec, error) {
	a, t := kit.Attrs[prodAttrs](c), c.Type(0)
	mask, err := folds.MaskOfDim(a.Dim, t.Rank())
	dtype := folds.SumDType(t.DType, a.DType)
	return folds.Spec{Mask: mask, Keepdim: a.Keepdim, Cast: dtype, Outs: []tensor.DType{dtype},
		Computation: func() folds.Computation {
			return folds.Computation{Fold: func() *iter.Fold { return prodFold(dtype) },
				Row: func(b *expr.Builder, x folds.Number) []folds.Number { return prodExpression(b, dtype, x) },
				Ref: func(x []tensor.Scalar) []tensor.Scalar {
					intProduct, floatProduct, complexProduct := int64(1), 1.0, complex128(1)
					for _, v := range x {
						intProduct *= v.Int()
						floatProduct *= v.Float()
						complexProduct = kit.MulComplex(complexProduct, v.Complex())
					}
					switch {
					case dtype.IsIntegral(true):
						return []tensor.Scalar{tensor.IntScalar(intProduct)}
					case dtype.IsComplex():
						return []tensor.Scalar{tensor.ComplexScalar(complexProduct)}
					}
					return []tensor.Scalar{tensor.FloatScalar(floatProduct)}
				}}
		}}, err
})

// prodExpression returns the product of a row as an expression, or nil for complex numbers. d is the dtype of the
// result.
func prodExpression(b *expr.Builder, d tensor.DType, x folds.Number) []folds.Number {
	switch {
	case d.IsComplex():
		return nil
	case d == tensor.Bool:
		return []folds.Number{folds.Real(b.Reduce(expr.And, x.Re))}
	case d.IsIntegral(true):
		return []folds.Number{folds.Real(b.Reduce(expr.Mul, b.Convert(tensor.Int64, x.Re)))}
	}
	return []folds.Number{folds.Real(b.Reduce(expr.Mul, folds.InFloat64(b, x.Re)))}
}

// prodFold returns the fold of the product of elements of dtype d, in Go.
func prodFold(d tensor.DType) *iter.Fold {
	if d == tensor.Bool { // the product is true if all elements are
		return folds.AnyOrAll(false)
	}
	switch kit.LoopDType(d) {
	case tensor.Int64:
		return kit.Accumulators[int64](iter.NewFold(1, prodRow[int64, int64], prodColumns[int64, int64], mulTo[int64]))
	case tensor.Float32:
		return kit.Accumulators[float64](iter.NewFold(1, prodRow[float32, float64], prodColumns[float32, float64],
			mulTo[float64]))
	case tensor.Float64:
		return kit.Accumulators[float64](iter.NewFold(1, prodRow[float64, float64], prodColumns[float64, float64],
			mulTo[float64]))
	case tensor.Complex64:
		return kit.Accumulators[complex128](iter.NewFold(1, foldProdComplexRow[complex64], foldProdComplexColumns[complex64],
			mulToComplex))
	}
	return kit.Accumulators[complex128](iter.NewFold(1, foldProdComplexRow[complex128], foldProdComplexColumns[complex128],
		mulToComplex))
}

// prodRow multiplies the accumulator a by the elements x, in four partial products, so that a multiplication does not
// wait for the previous one.
func prodRow[T, A int64 | float32 | float64](a *A, x []T, _ int) {
	var p0, p1, p2, p3 A = 1, 1, 1, 1
	for len(x) >= 4 {
		p0 *= A(x[0])
		p1 *= A(x[1])
		p2 *= A(x[2])
		p3 *= A(x[3])
		x = x[4:]
	}
	for _, v := range x {
		p0 *= A(v)
	}
	*a *= (p0 * p1) * (p2 * p3)
}

// foldProdComplexRow multiplies the accumulator a by the elements x one after another.
func foldProdComplexRow[T complex64 | complex128](a *complex128, x []T, _ int) {
	p := *a
	for _, v := range x {
		p = kit.MulComplex(p, complex128(v))
	}
	*a = p
}

// prodColumns multiplies each accumulator a[i] by the element x[i].
func prodColumns[T, A int64 | float32 | float64](a []A, x []T, _ int) {
	x = x[:len(a)]
	for i := range a {
		a[i] *= A(x[i])
	}
}

// mulTo and mulToComplex multiply each accumulator a[i] by the accumulator src[i].
func mulTo[A int64 | float64](a, src []A) {
	src = src[:len(a)]
	for i := range a {
		a[i] *= src[i]
	}
}

func mulToComplex(a, src []complex128) {
	src = src[:len(a)]
	for i := range a {
		a[i] = kit.MulComplex(a[i], src[i])
	}
}

// foldProdComplexColumns is [prodColumns] for complex numbers.
func foldProdComplexColumns[T complex64 | complex128](a []complex128, x []T, _ int) {
	x = x[:len(a)]
	for i := range a {
		a[i] = kit.MulComplex(a[i], complex128(x[i]))
	}
}
