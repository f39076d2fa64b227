package product

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/reduce"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// einsumTypes infers the result of an einsum. It performs the steps of at::einsum on types instead of tensors. These
// steps determine the dtype and the layout of the result, and whether the result is a view:
//
//	align          gives all terms the same dimensions, one for each label
//	multiplyPair   multiplies two terms, and sums over labels that no later term has
//	einsumProduct  orders the dimensions of a product that sums
//
// A term is an operand or an intermediate product, and a label names one of its dimensions. For example, in
// "bij,bjk->bik", order is b i k j. The terms are aligned as [b, i, 1, j] and [b, 1, k, j], and their product sums
// over j.
type einsumTypes struct {
	equation *equation
	order    []int // labels of all terms, the result's labels first; dimension i of an aligned term has label order[i]
	// termCounts has, for each dimension, the number of remaining terms in which its size is not 1. A product sums over a
	// dimension if no later term has it.
	termCounts []int
}

// layout returns the type of the result, and whether the result is a view of the only operand. It overwrites types.
func (e *equation) layout(types []tensor.Type) (tensor.Type, bool, error) {
	var onStack [2][8]int
	einsum := &einsumTypes{equation: e, order: e.order(onStack[0][:0]), termCounts: onStack[1][:0]}
	for range einsum.order {
		einsum.termCounts = append(einsum.termCounts, 0)
	}
	for i, operand := range types {
		var err error
		if types[i], err = einsum.align(operand, e.operandLabels[i]); err != nil {
			return operand, false, err
		}
	}
	out, err := einsum.multiplyTerms(types)
	if err != nil {
		return out, false, err
	}
	isView := len(types) == 1 && len(einsum.order) == len(e.resultLabels)
	switch {
	case !e.hasResultSizes(out.Shape): // possible only if there are no elements
		shape := make([]sym.Int, len(e.resultLabels))
		for i, label := range e.resultLabels {
			shape[i] = e.size(label)
		}
		out, err = kit.FreshType(out.DType, shape)
	case !isView:
		err = tensor.CheckSizes(out.DType, out.Shape)
	}
	return out, isView, err
}

// hasResultSizes reports whether a shape has the sizes of the result's labels.
func (e *equation) hasResultSizes(shape []sym.Int) bool {
	if len(shape) != len(e.resultLabels) {
		return false
	}
	for i, label := range e.resultLabels {
		if size := e.size(label); !size.Same(shape[i]) && !size.Eq(shape[i]).Holds() {
			return false
		}
	}
	return true
}

// order appends the labels of the equation to labels in the order of at::einsum: the labels of the result, the labels
// of a summed ellipsis, capital letters, small letters.
func (e *equation) order(labels []int) []int {
	labels = append(labels, e.resultLabels...)
	for _, label := range e.labels {
		if !slices.Contains(e.resultLabels, label) {
			labels = append(labels, label)
		}
	}
	sorted.Ints(labels[len(e.resultLabels):])
	return labels
}

// align returns the type of an operand with a dimension for each label in einsum.order, and counts the operand in
// einsum.termCounts. labels are the operand's labels. If several dimensions have the same label, align takes their
// diagonal.
func (einsum *einsumTypes) align(term tensor.Type, labels []int) (tensor.Type, error) {
	var onStack [8]int  // usually holds all labels, so that dims takes no allocation
	dims := onStack[:0] // the dimension of each label in the term; -1 if the term does not have the label
	for range einsum.order {
		dims = append(dims, -1)
	}
	dim := 0 // the dimension of the next label in the term; each diagonal has removed a dimension
	var err error
	for _, label := range labels {
		axis := slices.Index(einsum.order, label)
		if dims[axis] >= 0 {
			if term, err = term.Diagonal(0, dims[axis], dim); err == nil {
				term, err = term.MoveDim([]int{-1}, []int{dims[axis]})
			}
			if err != nil {
				return term, err
			}
			continue
		}
		if term.Shape[dim].Ne(sym.Of(1)).Holds() {
			einsum.termCounts[axis]++
		}
		dims[axis] = dim
		dim++
	}
	shape, strides := make([]sym.Int, len(dims)), make([]sym.Int, len(dims))
	for i, dim := range dims {
		shape[i], strides[i] = sym.Of(1), sym.Of(1)
		if dim >= 0 {
			shape[i], strides[i] = term.Shape[dim], term.Strides[dim]
		}
	}
	return tensor.Type{DType: term.DType, Shape: shape, Strides: strides, Offset: term.Offset}, nil
}

// multiplyTerms multiplies the terms from left to right and removes the dimensions that are summed.
func (einsum *einsumTypes) multiplyTerms(terms []tensor.Type) (tensor.Type, error) {
	resultRank, rank := len(einsum.equation.resultLabels), len(einsum.termCounts)
	product := terms[0]
	var err error
	for _, term := range terms[1:] {
		if product, err = einsum.multiplyPair(product, term); err != nil {
			return product, err
		}
	}
	if rank == resultRank {
		return product, nil
	}
	if len(terms) == 1 { // no product has summed the dimensions that the result lacks
		dims := make([]int, rank-resultRank)
		for i := range dims {
			dims[i] = resultRank + i
		}
		return summedType(product, dims, false)
	}
	return product.View(product.Shape[:resultRank])
}

// multiplyPair multiplies two terms. First it sums each term over the dimensions that no other remaining term has. The
// product sums over the dimensions that both terms but no later term have.
func (einsum *einsumTypes) multiplyPair(a, b tensor.Type) (tensor.Type, error) {
	var onStack [8]int
	summed := onStack[:0] // dimensions that the product sums
	var sumA, sumB []int  // dimensions over which a or b is summed before the product
	for dim := len(einsum.equation.resultLabels); dim < len(einsum.termCounts); dim++ {
		isInA, isInB := a.Shape[dim].Ne(sym.Of(1)).Holds(), b.Shape[dim].Ne(sym.Of(1)).Holds()
		switch {
		case isInA && isInB:
			if einsum.termCounts[dim]--; einsum.termCounts[dim] == 1 {
				summed, einsum.termCounts[dim] = append(summed, dim), 0
			}
		case einsum.termCounts[dim] == 1 && isInA:
			sumA, einsum.termCounts[dim] = append(sumA, dim), 0
		case einsum.termCounts[dim] == 1 && isInB:
			sumB, einsum.termCounts[dim] = append(sumB, dim), 0
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
	if len(summed) == 0 {
		attrs, err := pointwise.Mul.Schema.Decode(nil, nil)
		if err != nil {
			return a, err
		}
		return kit.InferredType(pointwise.Mul, attrs, a, b)
	}
	return einsumProduct(a, b, summed)
}

// einsumProduct infers at::native's sumproduct_pair, a batch of matrix products that sums over the dimensions in
// summed. The order of the result's dimensions in memory is: dimensions of both terms, dimensions of the first term
// only, dimensions that are summed, dimensions of the second term only.
func einsumProduct(a, b tensor.Type, summed []int) (tensor.Type, error) {
	if err := checkEinsumDTypes(a, b); err != nil {
		return a, err
	}
	var onStack [4][8]int
	inBoth, onlyInA, onlyInB, order := onStack[0][:0], onStack[1][:0], onStack[2][:0], onStack[3][:0]
	for dim := range a.Shape {
		isInA, isInB := a.Shape[dim].Gt(sym.Of(1)).Holds(), b.Shape[dim].Gt(sym.Of(1)).Holds()
		switch {
		case slices.Contains(summed, dim):
		case isInA && isInB:
			inBoth = append(inBoth, dim)
		case isInA:
			onlyInA = append(onlyInA, dim)
		default:
			onlyInB = append(onlyInB, dim)
		}
	}
	order = append(append(append(append(order, inBoth...), onlyInA...), summed...), onlyInB...)
	firstSummed := len(inBoth) + len(onlyInA) // index in order
	firstOnlyInB := firstSummed + len(summed)
	sizes := make([]sym.Int, len(order)) // in memory order
	for i, dim := range order {
		switch {
		case i < firstSummed:
			sizes[i] = a.Shape[dim]
		case i < firstOnlyInB:
			sizes[i] = sym.Of(1)
		default:
			sizes[i] = b.Shape[dim]
		}
	}
	permuted, err := kit.FreshType(a.DType, sizes)
	if err != nil {
		return permuted, err
	}
	shape, strides := make([]sym.Int, len(order)), make([]sym.Int, len(order))
	for i, dim := range order {
		shape[dim], strides[dim] = permuted.Shape[i], permuted.Strides[i]
	}
	return tensor.Type{DType: permuted.DType, Shape: shape, Strides: strides}, nil
}

// checkEinsumDTypes returns PyTorch's error if a product that sums does not support the dtypes. PyTorch does not check
// the dtypes if an operand has no elements.
func checkEinsumDTypes(a, b tensor.Type) error {
	bothHaveElements := func() bool { return a.Numel().Ne(sym.Int{}).And(b.Numel().Ne(sym.Int{})).Holds() }
	switch {
	case a.DType != b.DType && bothHaveElements():
		return fmt.Errorf("expected scalar type %s but found %s", a.DType.TorchName(), b.DType.TorchName())
	case (a.DType == tensor.Bool || a.DType.IsBareUnsigned()) && bothHaveElements():
		return kit.NotImplementedBy("bmm", a.DType)
	}
	return nil
}

// summedType returns the type of a sum over dims. Sums of integers are int64.
func summedType(term tensor.Type, dims []int, keepdim bool) (tensor.Type, error) {
	attrs, err := reduce.Sum.Schema.Decode(graph.Attrs{"dim": dims, "keepdim": keepdim}, nil)
	if err != nil {
		return term, err
	}
	return kit.InferredType(reduce.Sum, attrs, term)
}
