package product

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// broadcastAt returns the element of t at an index of the shape to which t is broadcast.
func broadcastAt(t *tensor.Tensor, index []int) tensor.Scalar {
	at := make([]int, t.Rank())
	for d := range at {
		if t.Shape[d] > 1 {
			at[d] = index[len(index)-len(at)+d]
		}
	}
	return t.At(at...)
}

// productRef is the reference implementation of matmul and its special cases.
func productRef(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	t, err := matmulType(in[0].Meta.Type(), in[1].Meta.Type())
	m, _ := t.Meta()
	if c.Out != nil {
		m, err = c.Out[0], nil
	}
	if err != nil {
		return nil, err
	}
	out := tensor.Zeros(m.DType, m.Shape...)
	kit.EachIndex(m.Shape, func(index []int) {
		s := kit.Accumulator{DType: m.DType}
		productTerms(in[0], in[1], index, &s)
		out.Set(s.Value(), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// productTerms adds the terms of one element of a matmul.
func productTerms(a, b *tensor.Tensor, index []int, s *kit.Accumulator) {
	lead, row, col := index, -1, -1
	if b.Rank() > 1 {
		lead, col = lead[:len(lead)-1], lead[len(lead)-1]
	}
	if a.Rank() > 1 {
		lead, row = lead[:len(lead)-1], lead[len(lead)-1]
	}
	indexA := append([]int{}, lead...)
	if row >= 0 {
		indexA = append(indexA, row)
	}
	indexA = append(indexA, 0)
	ib := append(append([]int{}, lead...), 0)
	if col >= 0 {
		ib = append(ib, col)
	}
	kb := len(ib) - 1
	if col >= 0 {
		kb--
	}
	for k := range a.Shape[a.Rank()-1] {
		indexA[len(indexA)-1], ib[kb] = k, k
		s.Mul(termAt(a, indexA, 1+btoi(row >= 0)), termAt(b, ib, 1+btoi(col >= 0)))
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// termAt returns an element of t, a batch of matrices whose batch dimensions broadcast. The last dims entries of index
// are the position in the matrix.
func termAt(t *tensor.Tensor, index []int, dims int) tensor.Scalar {
	var onStack [8]int
	at := append(onStack[:0], index[len(index)-t.Rank():]...)
	for d := range t.Rank() - dims {
		if t.Shape[d] == 1 {
			at[d] = 0
		}
	}
	return t.At(at...)
}
