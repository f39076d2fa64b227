package product

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// MatmulBytes multiplies quantized matrices a (parameter input) and b (parameter other), whose elements are bytes. It
// replaces the ops of quantized models that subtract zero points, multiply, add a bias and requantize. With zero points
// za and zb, the int32 sums are
//
//	sum[i, j] = bias[j] + sum over k of (a[i, k] - za[i]) * (b[k, j] - zb[j])
//
// and, with a scale, the result is saturate(round(sum[i, j] * scale[j]) + zero_point). For example, let a be the row
// [130 127] with za = 128, and let b be the column [10 -5] with zb = 0. Without a bias, the sum is 2*10 + (-1)*(-5) =
// 25. With the scale 0.5 and the zero point 3, the result is round(12.5) + 3 = 15.
var MatmulBytes = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "matmul_bytes",
		Doc: "Subtracts zero points from matrices of uint8 or int8 and multiplies them as matmul does. `input_zero_point` " +
			"has one element, or one for each row of `input`. `other_zero_point` has one element, or one for each column of " +
			"`other`. The sums are int32 and wrap. `bias`, int32 with one element for each column, is added to them. `scale` " +
			"is float32, with one element or one for each column. With `scale` and `zero_point`, sums are scaled, rounded to " +
			"even, added to `zero_point`, and clamped to its dtype, uint8 or int8.",
		Params: []graph.Param{kit.Input, kit.Other, {Name: "input_zero_point", Optional: true},
			{Name: "other_zero_point", Optional: true}, kit.OptBias, {Name: "scale", Optional: true},
			{Name: "zero_point", Optional: true}},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			t, err := bytesResultType(c)
			return c.NewResult(t), err
		},
		Ref: bytesRef,
		Examples: []graph.Example{
			{In: []tensor.Meta{tensor.New(tensor.Uint8, 2, 5, 8), tensor.New(tensor.Int8, 8, 33), tensor.New(tensor.Uint8),
				{}, tensor.New(tensor.Int32, 33), kit.F32(33), tensor.New(tensor.Int8)}},
			{In: []tensor.Meta{tensor.New(tensor.Int8, 3, 7), tensor.New(tensor.Uint8, 2, 7, 4), tensor.New(tensor.Int8, 3),
				tensor.New(tensor.Uint8, 4)}},
			{In: []tensor.Meta{tensor.New(tensor.Uint8, 9, 20), tensor.New(tensor.Int8, 20)}},
		},
	},
	Facts: graph.Facts{WritesAnyDenseLayout: true, Flops: productFlops},
	Lowerings: graph.Lowerings{
		Impls: []graph.Impl{
			{Name: "tiled", Doc: "Packs other into panels, once if it is constant. Multiplies groups of four or eight " +
				"bytes, or of two words, in tiles whose sums stay in registers. Quantizes strips of sums in the cache, or in " +
				"registers.",
				Epilogues: true, Walks: bytesWalks, Work: bytesWork, Read: bytesReadWork, Pack: packBytes, Lower: lowerBytes},
			{Name: "loops", Doc: "Computes each element by a plain loop.", Lower: lowerBytesLoops},
		},
	},
})

// bytesRef is the reference implementation. Its float64 sums are exact.
func bytesRef(call *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	resultType, err := bytesResultType(call)
	if err != nil {
		return nil, err
	}
	result := kit.KnownMeta(resultType)
	operands := make([]*tensor.Tensor, 1+bytesZero) // nil for omitted operands
	copy(operands, in)
	a := minusZeroPoints(operands[bytesA], operands[bytesAZero], operands[bytesA].Rank()-2)
	b := minusZeroPoints(operands[bytesB], operands[bytesBZero], operands[bytesB].Rank()-1)
	productCall := &graph.Call{Out: []tensor.Meta{tensor.New(tensor.Float64, result.Shape...)}}
	sums, err := productRef(productCall, []*tensor.Tensor{a, b})
	if err != nil {
		return nil, err
	}
	out := tensor.Zeros(result.DType, result.Shape...)
	kit.EachIndex(result.Shape, func(index []int) {
		lastDim := len(index) - 1 // the dimension of columns
		bias := int32(elementOrZero(operands[bytesBias], index, lastDim))
		sum := int32(int64(sums[0].At(index...).Float())) + bias
		element := int64(sum)
		if operands[bytesScale] != nil {
			scale := float32(elementOrZero(operands[bytesScale], index, lastDim))
			element = multiply.Requantize(result.DType, sum, scale, elementOrZero(operands[bytesZero], index, lastDim))
		}
		out.Set(tensor.IntScalar(element), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// minusZeroPoints returns the elements of a matrix minus their zero points. zeroPoints has one zero point for each
// index of dimension dim, or a single zero point. A nil zeroPoints means 0.
func minusZeroPoints(matrix, zeroPoints *tensor.Tensor, dim int) *tensor.Tensor {
	difference := tensor.Zeros(tensor.Float64, matrix.Shape...)
	kit.EachIndex(matrix.Shape, func(index []int) {
		element := matrix.At(index...).Float() - elementOrZero(zeroPoints, index, dim)
		difference.Set(tensor.FloatScalar(element), index...)
	})
	return difference
}

// elementOrZero returns the element of a vector at index[dim]. It returns the only element of a vector with one
// element, and 0 for nil.
func elementOrZero(vector *tensor.Tensor, index []int, dim int) float64 {
	if vector == nil {
		return 0
	}
	return kit.ElementAlong(vector, index, dim)
}
