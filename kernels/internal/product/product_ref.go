package product

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// productRef is the reference implementation of matmul and its special cases.
func productRef(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	var resultMeta tensor.Meta
	if c.Out != nil {
		resultMeta = c.Out[0]
	} else { // bytesRef calls productRef without result types
		resultType, err := matmulType(in[0].Meta.Type(), in[1].Meta.Type())
		if err != nil {
			return nil, err
		}
		resultMeta, _ = resultType.Meta()
	}
	out := tensor.Zeros(resultMeta.DType, resultMeta.Shape...)
	if out.Numel() == 0 {
		return []*tensor.Tensor{out}, nil
	}
	a, b := kit.ProductOperandOf(resultMeta.DType, in[0]), kit.ProductOperandOf(resultMeta.DType, in[1])
	kit.EachIndex(resultMeta.Shape, func(index []int) {
		sum := kit.Accumulator{DType: resultMeta.DType}
		addProductTerms(a, b, index, &sum)
		out.Set(sum.Value(), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// addProductTerms adds to sum the terms of one element of a matmul. For the index [batch..., row, col], they are the
// products a[batch..., row, k] * b[batch..., k, col] for all k.
func addProductTerms(a, b *kit.ProductOperand, index []int, sum *kit.Accumulator) {
	batch, row, col := index, -1, -1 // -1: a has no rows, or b has no columns
	if b.Rank() > 1 {
		batch, col = batch[:len(batch)-1], batch[len(batch)-1]
	}
	if a.Rank() > 1 {
		batch, row = batch[:len(batch)-1], batch[len(batch)-1]
	}
	// Storage indices of the first factors, and the distances to the next factors.
	firstA, firstB := matrixOffset(a, batch, min(2, a.Rank())), matrixOffset(b, batch, min(2, b.Rank()))
	stepA, stepB := a.Strides[a.Rank()-1], b.Strides[b.Rank()-1]
	if row >= 0 {
		firstA += row * a.Strides[a.Rank()-2]
	}
	if col >= 0 {
		firstB, stepB = firstB+col*stepB, b.Strides[b.Rank()-2]
	}
	for k := range a.Shape[a.Rank()-1] {
		sum.AddProductAt(a, firstA+k*stepA, b, firstB+k*stepB)
	}
}

// matrixOffset returns the storage index of the first element of an operand's matrix at an index of the batch. The
// matrix consists of the last dims dimensions. The dimensions before them are broadcast to the batch.
func matrixOffset(operand *kit.ProductOperand, index []int, dims int) int {
	offset, batchRank := operand.Offset, operand.Rank()-dims
	for d := range batchRank {
		if operand.Shape[d] != 1 {
			offset += index[len(index)-batchRank+d] * operand.Strides[d]
		}
	}
	return offset
}

// broadcastElement returns the element of an operand that broadcasting repeats at the given index of a larger shape.
func broadcastElement(operand *tensor.Tensor, index []int) tensor.Scalar {
	elementIndex := make([]int, operand.Rank())
	for d := range elementIndex {
		if operand.Shape[d] > 1 {
			elementIndex[d] = index[len(index)-len(elementIndex)+d]
		}
	}
	return operand.At(elementIndex...)
}
