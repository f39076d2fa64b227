package product

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// This file computes matrix products by their definition, to check the kernels. [kit.ProductOperand] has the elements
// of an operand in row-major order, with its shape and strides. [kit.Accumulator] is a sum of products of elements.
//
// For example, a of shape [5, 1, 2, 3] and b of shape [4, 3, 6] have matrices of 2x3 and 3x6 elements. The batch
// dimensions [5, 1] and [4] broadcast to [5, 4], so that the result has the shape [5, 4, 2, 6].

// productRef is the reference implementation of matmul and its special cases.
func productRef(call *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	dtype := call.Out[0].DType
	out := tensor.Zeros(dtype, call.Out[0].Shape...)
	if out.Numel() == 0 {
		return []*tensor.Tensor{out}, nil
	}
	a, b := kit.ProductOperandOf(dtype, in[0]), kit.ProductOperandOf(dtype, in[1])
	kit.EachIndex(out.Shape, func(index []int) {
		sum := kit.Accumulator{DType: dtype}
		addProductTerms(a, b, index, &sum)
		out.Set(sum.Value(), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// addProductTerms adds the products a[batch..., row, k] * b[batch..., k, column] for all k to sum. The index of the
// result is [batch..., row, column]. It has no row if a is a vector, and no column if b is a vector.
func addProductTerms(a, b *kit.ProductOperand, index []int, sum *kit.Accumulator) {
	batch, row, column := index, 0, 0 // a vector a is a matrix of one row, and a vector b a matrix of one column
	if b.Rank() > 1 {
		batch, column = batch[:len(batch)-1], batch[len(batch)-1]
	}
	if a.Rank() > 1 {
		batch, row = batch[:len(batch)-1], batch[len(batch)-1]
	}
	firstA := matrixOffset(a, batch) + row*a.Strides[max(0, a.Rank()-2)]
	firstB := matrixOffset(b, batch) + column*b.Strides[b.Rank()-1]
	stepA, stepB := a.Strides[a.Rank()-1], b.Strides[max(0, b.Rank()-2)] // distances between consecutive k
	for k := range a.Shape[a.Rank()-1] {
		sum.AddProductAt(a, firstA+k*stepA, b, firstB+k*stepB)
	}
}

// matrixOffset returns the offset, in elements, of an operand's matrix for an index of the batch. The last numbers of
// index are for the operand's batch dimensions. A dimension of size 1 has the same matrix for all indices.
func matrixOffset(operand *kit.ProductOperand, index []int) int {
	offset, batchRank := operand.Offset, max(0, operand.Rank()-2)
	for d, i := range index[len(index)-batchRank:] {
		if operand.Shape[d] != 1 {
			offset += i * operand.Strides[d]
		}
	}
	return offset
}

// broadcastElement returns the element at an index after the operand is broadcast to a larger shape. For example, index
// [7, 2, 4] reads element [2, 0] of an operand of shape [3, 1].
func broadcastElement(operand *tensor.Tensor, index []int) tensor.Scalar {
	missingDims := len(index) - operand.Rank() // number of dimensions that only the larger shape has
	elementIndex := make([]int, operand.Rank())
	for d, size := range operand.Shape {
		if size > 1 {
			elementIndex[d] = index[missingDims+d]
		}
	}
	return operand.At(elementIndex...)
}
