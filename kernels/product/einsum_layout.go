package product

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/pointwise"
	"github.com/graphrun/graphrun/kernels/reduce"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// einsumShadow goes through the steps by which at::einsum computes, on types alone: which
// dtype and layout the result has follows from them, and whether it is a view.
type einsumShadow struct {
	e      *equation
	place  map[int]int // of each label among the dimensions of all terms: those of the result first
	counts []int       // of terms in which a dimension is not 1
}

// align takes diagonals of labels that repeat, and gives a term all dimensions in order.
func (s *einsumShadow) align(m tensor.Type, labels []int) (tensor.Type, error) {
	perm := make([]int, len(s.counts))
	for i := range perm {
		perm[i] = -1
	}
	dim := 0
	var err error
	for _, l := range labels {
		at := s.place[l]
		if perm[at] >= 0 {
			if m, err = m.Diagonal(0, perm[at], dim); err == nil {
				m, err = m.MoveDim([]int{-1}, []int{perm[at]})
			}
			if err != nil {
				return m, err
			}
			continue
		}
		if m.Shape[dim].Ne(sym.Of(1)).Holds() {
			s.counts[at]++
		}
		perm[at] = dim
		dim++
	}
	for i, d := range perm {
		if d < 0 {
			if m, err = m.Unsqueeze(dim); err != nil {
				return m, err
			}
			perm[i] = dim
			dim++
		}
	}
	return m.Permute(perm)
}

// fold multiplies the terms from left to right and drops the dimensions that are summed.
func (s *einsumShadow) fold(terms []tensor.Type) (tensor.Type, error) {
	kept, all := len(s.e.out), len(s.counts)
	cur := terms[0]
	var err error
	for _, t := range terms[1:] {
		if cur, err = s.pair(cur, t); err != nil {
			return cur, err
		}
	}
	if all == kept {
		return cur, nil
	}
	dims := make([]int, all-kept)
	for i := range dims {
		dims[i] = kept + i
	}
	if len(terms) == 1 {
		return summedType(cur, dims, false)
	}
	return cur.View(cur.Shape[:kept])
}

// pair sums over what only one of the terms has, and multiplies them.
func (s *einsumShadow) pair(a, b tensor.Type) (tensor.Type, error) {
	var sum, sumA, sumB []int
	for d := len(s.e.out); d < len(s.counts); d++ {
		inA, inB := a.Shape[d].Ne(sym.Of(1)).Holds(), b.Shape[d].Ne(sym.Of(1)).Holds()
		switch {
		case inA && inB:
			if s.counts[d]--; s.counts[d] == 1 {
				sum, s.counts[d] = append(sum, d), 0
			}
		case s.counts[d] == 1 && inA:
			sumA, s.counts[d] = append(sumA, d), 0
		case s.counts[d] == 1 && inB:
			sumB, s.counts[d] = append(sumB, d), 0
		}
	}
	var err error
	if len(sumA) > 0 {
		if a, err = summedType(a, sumA, true); err != nil {
			return a, err
		}
	}
	if len(sumB) > 0 {
		if b, err = summedType(b, sumB, true); err != nil {
			return b, err
		}
	}
	if len(sum) == 0 {
		attrs, err := pointwise.Mul.Schema.Decode(nil, nil)
		if err != nil {
			return a, err
		}
		return kit.InferredType(pointwise.Mul, attrs, a, b)
	}
	return einsumProduct(a, b, sum)
}

// einsumProduct is at::native's sumproduct_pair: a batch of matrix products whose result
// has the dimensions of both terms, those of the first and those of the second, in this
// order in memory. Of operands without elements nothing is asked.
func einsumProduct(a, b tensor.Type, sum []int) (tensor.Type, error) {
	some := func() bool { return a.Numel().Ne(sym.Int{}).And(b.Numel().Ne(sym.Int{})).Holds() }
	switch {
	case a.DType != b.DType && some():
		return a, fmt.Errorf("expected scalar type %s but found %s", a.DType.TorchName(), b.DType.TorchName())
	case (a.DType == tensor.Bool || a.DType.IsBareUnsigned()) && some():
		return a, kit.NotImplementedBy("bmm", a.DType)
	}
	var both, left, right []int
	for d := range a.Shape {
		inA, inB := a.Shape[d].Gt(sym.Of(1)).Holds(), b.Shape[d].Gt(sym.Of(1)).Holds()
		switch {
		case slices.Contains(sum, d):
		case inA && inB:
			both = append(both, d)
		case inA:
			left = append(left, d)
		default:
			right = append(right, d)
		}
	}
	var shape []sym.Int
	for _, d := range slices.Concat(both, left) {
		shape = append(shape, a.Shape[d])
	}
	for range sum {
		shape = append(shape, sym.Of(1))
	}
	for _, d := range right {
		shape = append(shape, b.Shape[d])
	}
	m, err := kit.FreshType(a.DType, shape)
	if err != nil {
		return m, err
	}
	back := make([]int, len(shape))
	for i, d := range slices.Concat(both, left, sum, right) {
		back[d] = i
	}
	return m.Permute(back)
}

// summedType is what sum makes of an operand; it widens integers.
func summedType(m tensor.Type, dims []int, keepdim bool) (tensor.Type, error) {
	attrs, err := reduce.Sum.Schema.Decode(graph.Attrs{"dim": dims, "keepdim": keepdim}, nil)
	if err != nil {
		return m, err
	}
	return kit.InferredType(reduce.Sum, attrs, m)
}

// layout returns the type of the result, and whether it shares the only operand's storage.
func (e *equation) layout(types []tensor.Type) (tensor.Type, bool, error) {
	s := &einsumShadow{e: e, place: map[int]int{}}
	for _, l := range e.order() {
		s.place[l] = len(s.place)
	}
	s.counts = make([]int, len(s.place))
	terms := make([]tensor.Type, len(types))
	for i, m := range types {
		var err error
		if terms[i], err = s.align(m, e.raw[i]); err != nil {
			return m, false, err
		}
	}
	out, err := s.fold(terms)
	if err != nil {
		return out, false, err
	}
	view := len(types) == 1 && len(s.place) == len(e.out)
	if shape := e.shape(e.out); !tensor.SameSizes(out.Shape, shape) { // of no elements
		out, err = kit.FreshType(out.DType, shape)
	} else if !view {
		_, err = kit.FreshType(out.DType, shape)
	}
	return out, view, err
}

// order lists the labels as at::einsum numbers them: those of the result, an ellipsis that
// is summed over, then capitals and small letters.
func (e *equation) order() []int {
	var rest []int
	for l := range e.sizes {
		if !slices.Contains(e.out, l) {
			rest = append(rest, l)
		}
	}
	slices.Sort(rest)
	return slices.Concat(e.out, rest)
}
