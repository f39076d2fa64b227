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
var Prod = folds.Define(graph.SchemaOf[*prodAttrs](), graph.Op{Semantics: graph.Semantics{
	Name:     "prod",
	Doc:      "Multiplies the elements over a dimension, or all. Bools and integers give int64 unless `dtype` is given.",
	Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)}, Attrs: graph.Attrs{"dim": 1}}},
}}, func(c *graph.Call) (folds.Spec, error) {
	attrs, selfType := kit.Attrs[*prodAttrs](c), c.Type(0)
	mask, err := folds.MaskOfDim(attrs.Dim, selfType.Rank())
	dtype := folds.SumDType(selfType.DType, attrs.DType)
	return folds.Spec{Mask: mask, Keepdim: attrs.Keepdim, Cast: dtype, Outs: []tensor.DType{dtype},
		Computation: func() folds.Computation {
			return folds.Computation{Fold: func() *iter.Fold { return prodFold(dtype) },
				Row: func(builder *expr.Builder, x folds.Number) []folds.Number { return prodExpression(builder, dtype, x) },
				Ref: func(x []tensor.Scalar) []tensor.Scalar { return []tensor.Scalar{referenceProduct(dtype, x)} }}
		}}, err
})

// referenceProduct returns the product of a row. dtype is the dtype of the result.
func referenceProduct(dtype tensor.DType, x []tensor.Scalar) tensor.Scalar {
	intProduct, floatProduct, complexProduct := int64(1), 1.0, complex128(1)
	for _, element := range x {
		intProduct *= element.Int()
		floatProduct *= element.Float()
		complexProduct = kit.MulComplex(complexProduct, element.Complex())
	}
	switch {
	case dtype.IsIntegral(true):
		return tensor.IntScalar(intProduct)
	case dtype.IsComplex():
		return tensor.ComplexScalar(complexProduct)
	}
	return tensor.FloatScalar(floatProduct)
}

// prodExpression returns the product of a row as an expression, or nil for complex numbers. dtype is the dtype
// of the result.
func prodExpression(builder *expr.Builder, dtype tensor.DType, x folds.Number) []folds.Number {
	switch {
	case dtype.IsComplex():
		return nil
	case dtype == tensor.Bool:
		return []folds.Number{folds.Real(builder.Reduce(expr.And, x.Re))}
	case dtype.IsIntegral(true):
		return []folds.Number{folds.Real(builder.Reduce(expr.Mul, builder.Convert(tensor.Int64, x.Re)))}
	}
	return []folds.Number{folds.Real(builder.Reduce(expr.Mul, folds.InFloat64(builder, x.Re)))}
}

// prodFold returns the fold of the product of elements of a dtype, in Go. The arguments of [iter.NewFold] are the
// initial product, the loops over rows and over columns, and the loop that multiplies partial products. The last
// parameter of the loops over rows and columns, the position of the elements in the fold, is not used.
func prodFold(dtype tensor.DType) *iter.Fold {
	if dtype == tensor.Bool { // the product is true if all elements are
		const isAny = false
		return folds.AnyOrAll(isAny)
	}
	switch kit.LoopDType(dtype) {
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

// prodRow multiplies the accumulator by the elements x. It uses four partial products, so that a multiplication does
// not wait for the previous multiplication.
func prodRow[T, A int64 | float32 | float64](accumulator *A, x []T, _ int) {
	var p0, p1, p2, p3 A = 1, 1, 1, 1
	for len(x) >= 4 {
		p0 *= A(x[0])
		p1 *= A(x[1])
		p2 *= A(x[2])
		p3 *= A(x[3])
		x = x[4:]
	}
	for _, element := range x {
		p0 *= A(element)
	}
	*accumulator *= (p0 * p1) * (p2 * p3)
}

// prodColumns multiplies each accumulator by the element of x with the same index.
func prodColumns[T, A int64 | float32 | float64](accumulators []A, x []T, _ int) {
	x = x[:len(accumulators)]
	for i := range accumulators {
		accumulators[i] *= A(x[i])
	}
}

// mulTo multiplies each accumulator dst[i] by the accumulator src[i].
func mulTo[A int64 | float64](dst, src []A) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] *= src[i]
	}
}

// foldProdComplexRow multiplies the accumulator by the elements x one after another.
func foldProdComplexRow[T complex64 | complex128](accumulator *complex128, x []T, _ int) {
	product := *accumulator
	for _, element := range x {
		product = kit.MulComplex(product, complex128(element))
	}
	*accumulator = product
}

// foldProdComplexColumns is [prodColumns] for complex numbers.
func foldProdComplexColumns[T complex64 | complex128](accumulators []complex128, x []T, _ int) {
	x = x[:len(accumulators)]
	for i := range accumulators {
		accumulators[i] = kit.MulComplex(accumulators[i], complex128(x[i]))
	}
}

// mulToComplex is [mulTo] for complex numbers.
func mulToComplex(dst, src []complex128) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] = kit.MulComplex(dst[i], src[i])
	}
}
