package kernels

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// sumKind adds products exactly enough to judge kernels by: in float64, complex128, or
// int64 that wraps.
type sumKind struct {
	d tensor.DType
	i int64
	f float64
	z complex128
}

func (s *sumKind) mul(a, b tensor.Scalar) {
	switch {
	case s.d.IsComplex():
		s.z += a.Complex() * b.Complex()
	case s.d.IsFloat():
		s.f += a.Float() * b.Float()
	default:
		s.i += a.Int() * b.Int()
	}
}

func (s *sumKind) add(a tensor.Scalar) { s.mul(a, tensor.IntScalar(1)) }

func (s *sumKind) value() tensor.Scalar {
	switch {
	case s.d.IsComplex():
		return tensor.ComplexScalar(s.z)
	case s.d.IsFloat():
		return tensor.FloatScalar(s.f)
	}
	return tensor.IntScalar(s.i)
}

// broadcastAt reads a value at the index of a shape that it broadcasts to.
func broadcastAt(t *tensor.Tensor, index []int) tensor.Scalar {
	at := make([]int, t.Rank())
	for d := range at {
		if t.Shape[d] > 1 {
			at[d] = index[len(index)-len(at)+d]
		}
	}
	return t.At(at...)
}

// productRef defines matmul and its special cases.
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
	eachIndex(m.Shape, func(index []int) {
		s := sumKind{d: m.DType}
		productTerms(in[0], in[1], index, &s)
		out.Set(s.value(), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// productTerms adds the terms of one element of a matmul.
func productTerms(a, b *tensor.Tensor, index []int, s *sumKind) {
	lead, row, col := index, -1, -1
	if b.Rank() > 1 {
		lead, col = lead[:len(lead)-1], lead[len(lead)-1]
	}
	if a.Rank() > 1 {
		lead, row = lead[:len(lead)-1], lead[len(lead)-1]
	}
	ia := append([]int{}, lead...)
	if row >= 0 {
		ia = append(ia, row)
	}
	ia = append(ia, 0)
	ib := append(append([]int{}, lead...), 0)
	if col >= 0 {
		ib = append(ib, col)
	}
	kb := len(ib) - 1
	if col >= 0 {
		kb--
	}
	for k := range a.Shape[a.Rank()-1] {
		ia[len(ia)-1], ib[kb] = k, k
		s.mul(termAt(a, ia, 1+btoi(row >= 0)), termAt(b, ib, 1+btoi(col >= 0)))
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// termAt reads an element of a matrix in a batch that broadcasts; the last dims of the
// index are the matrix's own.
func termAt(t *tensor.Tensor, index []int, dims int) tensor.Scalar {
	at := append([]int{}, index[len(index)-t.Rank():]...)
	for d := range t.Rank() - dims {
		if t.Shape[d] == 1 {
			at[d] = 0
		}
	}
	return t.At(at...)
}

// sumRef defines addmm and baddbmm.
func sumRef(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	at := attrs[addmmAttrs](c)
	lead := in[1].Rank() - 1
	shape := append(append([]int{}, in[1].Shape[:lead]...), in[2].Shape[lead])
	d := in[1].DType
	out := tensor.Zeros(d, shape...)
	// Factors are converted to the dtype of computation first.
	alpha, beta := at.Alpha.Tensor(d.OpMath()).At(), at.Beta.Tensor(d.OpMath()).At()
	without := leavesOut(c)
	eachIndex(shape, func(index []int) {
		p, s := sumKind{d: d}, sumKind{d: d}
		if !without {
			productTerms(in[1], in[2], index, &p)
		}
		s.mul(alpha, p.value())
		if beta.Complex() != 0 {
			s.mul(beta, broadcastAt(in[0], index))
		}
		out.Set(s.value(), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// linearRef defines linear.
func linearRef(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, w := in[0], in[1]
	lead := x.Shape[:x.Rank()-1]
	shape := append([]int{}, lead...)
	if w.Rank() == 2 {
		shape = append(shape, w.Shape[0])
	}
	out := tensor.Zeros(x.DType, shape...)
	flat := flattens(x.Meta.Type())
	eachIndex(shape, func(index []int) {
		s := sumKind{d: x.DType}
		ix := append(append([]int{}, index[:len(lead)]...), 0)
		iw := append(append([]int{}, index[len(lead):]...), 0)
		for k := range x.Shape[len(lead)] {
			ix[len(ix)-1], iw[len(iw)-1] = k, k
			s.mul(x.At(ix...), w.At(iw...))
		}
		if len(in) > 2 && in[2] != nil {
			at := index
			if flat && in[2].Rank() == 2 {
				at = []int{index[0]*shape[1] + index[1], index[2]}
			}
			s.add(broadcastAt(in[2], at))
		}
		out.Set(s.value(), index...)
	})
	return []*tensor.Tensor{out}, nil
}
