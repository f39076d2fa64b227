package product

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// broadcastAt returns the element of t at an index of the shape to which t is broadcast.
func broadcastAt(t *tensor.Tensor, index []int) tensor.Scalar {
	elementIndex := make([]int, t.Rank())
	for d := range elementIndex {
		if t.Shape[d] > 1 {
			elementIndex[d] = index[len(index)-len(elementIndex)+d]
		}
	}
	return t.At(elementIndex...)
}

// productRef is the reference implementation of matmul and its special cases.
func productRef(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	t, err := matmulType(in[0].Meta.Type(), in[1].Meta.Type())
	m, _ := t.Meta()
	if c.Out != nil { // bytesRef calls productRef without result types
		m, err = c.Out[0], nil
	}
	if err != nil {
		return nil, err
	}
	out := tensor.Zeros(m.DType, m.Shape...)
	if out.Numel() == 0 {
		return []*tensor.Tensor{out}, nil
	}
	x, y := kit.ProductOperandOf(m.DType, in[0]), kit.ProductOperandOf(m.DType, in[1])
	kit.EachIndex(m.Shape, func(index []int) {
		sum := kit.Accumulator{DType: m.DType}
		productTerms(x, y, index, &sum)
		out.Set(sum.Value(), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// productTerms adds the terms of one element of a matmul to sum.
func productTerms(a, b *kit.ProductOperand, index []int, sum *kit.Accumulator) {
	lead, row, col := index, -1, -1
	if b.Rank() > 1 {
		lead, col = lead[:len(lead)-1], lead[len(lead)-1]
	}
	if a.Rank() > 1 {
		lead, row = lead[:len(lead)-1], lead[len(lead)-1]
	}
	atA, atB := matrixAt(a, lead, min(2, a.Rank())), matrixAt(b, lead, min(2, b.Rank()))
	stepA, stepB := a.Strides[a.Rank()-1], b.Strides[b.Rank()-1]
	if row >= 0 {
		atA += row * a.Strides[a.Rank()-2]
	}
	if col >= 0 {
		atB, stepB = atB+col*stepB, b.Strides[b.Rank()-2]
	}
	for k := range a.Shape[a.Rank()-1] {
		sum.AddProductAt(a, atA+k*stepA, b, atB+k*stepB)
	}
}

// matrixAt returns the storage index of the matrix at an index of the batch, to which the batch dimensions of t
// broadcast. The matrix has the last dims dimensions of t.
func matrixAt(t *kit.ProductOperand, index []int, dims int) int {
	offset, batch := t.Offset, t.Rank()-dims
	for d := range batch {
		if t.Shape[d] != 1 {
			offset += index[len(index)-batch+d] * t.Strides[d]
		}
	}
	return offset
}
