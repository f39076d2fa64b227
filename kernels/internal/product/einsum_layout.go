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

// einsumInference infers the result of an einsum. It applies the steps of at::einsum to types instead of tensors. These
// steps determine the dtype and the layout of the result, and whether the result is a view. A term is an operand or an
// intermediate product, and a label names one of its dimensions:
//
//	align            gives all terms the same dimensions, one for each label
//	multiplyPair     multiplies two terms, and sums over labels that no later term has
//	sumProductPair   infers a product that sums
//
// For example, let "ij,jk,k->i" have operands of shapes [2, 3], [3, 4] and [4]. The labels are i, j, k in this order.
// The terms are aligned as [2, 3, 1], [1, 3, 4] and [1, 1, 4]. The first product sums over j, and its shape is
// [2, 1, 4]. The second product sums over k, and its shape is [2, 1, 1]. The result has the shape [2].
type einsumInference struct {
	equation *equation // has the labels of each operand (operandLabels) and of the result (resultLabels)
	order    []int     // dimension d of an aligned term has label order[d]; the result's labels are first
	// termCounts has, for each dimension, the number of remaining terms in which its size is not 1. In the example, the
	// counts of i, j and k are 1, 2 and 2 before the first product. The product sums over j, because no third term has
	// j.
	termCounts []int
}

// layout returns the type of the result, and whether the result is a view of the only operand. It overwrites types.
func (e *equation) layout(types []tensor.Type) (result tensor.Type, isView bool, err error) {
	var onStack [2][8]int // usually holds all labels, so that the two lists take no allocation
	einsum := &einsumInference{equation: e, order: e.order(onStack[0][:0]), termCounts: onStack[1][:0]}
	for range einsum.order {
		einsum.termCounts = append(einsum.termCounts, 0)
	}
	for i, operand := range types {
		if types[i], err = einsum.align(operand, e.operandLabels[i]); err != nil {
			return operand, false, err
		}
	}
	if result, err = einsum.multiplyTerms(types); err != nil {
		return result, false, err
	}
	sumsNothing := len(einsum.order) == len(e.resultLabels)
	isView = len(types) == 1 && sumsNothing
	switch {
	case !e.hasResultSizes(result.Shape):
		// This happens only if the result is empty, because sumProductPair ignores a size 0 of its first operand.
		shape := make([]sym.Int, len(e.resultLabels))
		for d, label := range e.resultLabels {
			shape[d] = e.size(label)
		}
		result, err = kit.FreshType(result.DType, shape) // row-major
	case !isView:
		err = tensor.CheckSizes(result.DType, result.Shape)
	}
	return result, isView, err
}

// hasResultSizes reports whether a shape has the sizes of the result's labels.
func (e *equation) hasResultSizes(shape []sym.Int) bool {
	if len(shape) != len(e.resultLabels) {
		return false
	}
	for d, label := range e.resultLabels {
		if size := e.size(label); !size.Same(shape[d]) && !size.Eq(shape[d]).Holds() {
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
	sorted.Ints(labels[len(e.resultLabels):]) // labels of an ellipsis are negative, and other labels are letters
	return labels
}

// align returns the type of an operand with a dimension for each label in einsum.order, and counts the operand in
// einsum.termCounts. labels are the operand's labels. If several dimensions have the same label, align takes their
// diagonal.
func (einsum *einsumInference) align(term tensor.Type, labels []int) (tensor.Type, error) {
	var onStack [8]int      // usually holds all labels, so that termDims takes no allocation
	termDims := onStack[:0] // for each label in einsum.order, its dimension in the term; -1 if the term lacks the label
	for range einsum.order {
		termDims = append(termDims, -1)
	}
	nextDim := 0 // the dimension of the next label in the term; unchanged by a diagonal, which removes a dimension
	var err error
	for _, label := range labels {
		d := slices.Index(einsum.order, label)
		if firstDim := termDims[d]; firstDim >= 0 {
			if term, err = term.Diagonal(0, firstDim, nextDim); err == nil { // the diagonal is the last dimension
				term, err = term.MoveDim([]int{-1}, []int{firstDim})
			}
			if err != nil {
				return term, err
			}
			continue
		}
		if term.Shape[nextDim].Ne(sym.Of(1)).Holds() {
			einsum.termCounts[d]++
		}
		termDims[d] = nextDim
		nextDim++
	}
	shape, strides := make([]sym.Int, len(termDims)), make([]sym.Int, len(termDims))
	for d, termDim := range termDims {
		shape[d], strides[d] = sym.Of(1), sym.Of(1)
		if termDim >= 0 {
			shape[d], strides[d] = term.Shape[termDim], term.Strides[termDim]
		}
	}
	return tensor.Type{DType: term.DType, Shape: shape, Strides: strides, Offset: term.Offset}, nil
}

// multiplyTerms multiplies the terms from left to right and removes the dimensions that are summed.
func (einsum *einsumInference) multiplyTerms(terms []tensor.Type) (tensor.Type, error) {
	resultRank, rank := len(einsum.equation.resultLabels), len(einsum.order)
	product := terms[0]
	var err error
	for _, term := range terms[1:] {
		if product, err = einsum.multiplyPair(product, term); err != nil {
			return product, err
		}
	}
	switch {
	case rank == resultRank:
		return product, nil
	case len(terms) == 1: // no product has summed the dimensions that the result lacks
		dims := make([]int, rank-resultRank)
		for i := range dims {
			dims[i] = resultRank + i
		}
		const keepDims = false
		return summedType(product, dims, keepDims)
	}
	return product.View(product.Shape[:resultRank]) // the other dimensions have size 1
}

// multiplyPair multiplies two terms. A term has a dimension if the size of this dimension is not 1. First, each term is
// summed over the dimensions that no other remaining term has. Then the product sums over the dimensions that both
// terms have and no later term has. For example, in ij,jk,kl->il the first product multiplies ij by jk, sums over j,
// and keeps k for the third term.
func (einsum *einsumInference) multiplyPair(a, b tensor.Type) (tensor.Type, error) {
	var onStack [8]int
	summedInBoth := onStack[:0]    // dimensions over which the product sums
	var summedInA, summedInB []int // dimensions over which a or b is summed before the product
	// The dimensions of the result are never summed.
	for dim := len(einsum.equation.resultLabels); dim < len(einsum.order); dim++ {
		count := &einsum.termCounts[dim] // it becomes 0 if the dimension is summed
		isInA, isInB := a.Shape[dim].Ne(sym.Of(1)).Holds(), b.Shape[dim].Ne(sym.Of(1)).Holds()
		switch {
		case isInA && isInB:
			*count--         // the product replaces both terms
			if *count == 1 { // no later term has the dimension
				summedInBoth = append(summedInBoth, dim)
				*count = 0
			}
		case *count == 1 && isInA:
			summedInA = append(summedInA, dim)
			*count = 0
		case *count == 1 && isInB:
			summedInB = append(summedInB, dim)
			*count = 0
		}
	}
	const keepDims = true
	var err error
	if len(summedInA) > 0 {
		if a, err = summedType(a, summedInA, keepDims); err != nil {
			return a, err
		}
	}
	if len(summedInB) > 0 {
		if b, err = summedType(b, summedInB, keepDims); err != nil {
			return b, err
		}
	}
	if len(summedInBoth) > 0 {
		return sumProductPair(a, b, summedInBoth)
	}
	attrs, err := pointwise.Mul.Schema.Decode(nil, nil)
	if err != nil {
		return a, err
	}
	return kit.InferredType(pointwise.Mul, attrs, a, b)
}

// sumProductPair infers the result of at::native::sumproduct_pair, a batch of matrix products that sums over the
// dimensions in summed. The order of the result's dimensions in memory is: dimensions of both terms, dimensions of the
// first term only, dimensions that are summed, dimensions of the second term only. In the first product of the example
// above, this is i, j, k.
func sumProductPair(a, b tensor.Type, summed []int) (tensor.Type, error) {
	if err := checkSumProductDTypes(a, b); err != nil {
		return a, err
	}
	var onStack [4][8]int
	inBoth, onlyInA, onlyInB, memoryOrder := onStack[0][:0], onStack[1][:0], onStack[2][:0], onStack[3][:0]
	shape := make([]sym.Int, len(a.Shape))
	for dim := range a.Shape {
		isInA, isInB := a.Shape[dim].Gt(sym.Of(1)).Holds(), b.Shape[dim].Gt(sym.Of(1)).Holds()
		switch {
		case slices.Contains(summed, dim):
			shape[dim] = sym.Of(1)
		case isInA && isInB:
			inBoth, shape[dim] = append(inBoth, dim), a.Shape[dim]
		case isInA:
			onlyInA, shape[dim] = append(onlyInA, dim), a.Shape[dim]
		default: // also dimensions of neither term
			onlyInB, shape[dim] = append(onlyInB, dim), b.Shape[dim]
		}
	}
	memoryOrder = append(append(append(append(memoryOrder, inBoth...), onlyInA...), summed...), onlyInB...)
	memoryShape := make([]sym.Int, len(memoryOrder))
	for i, dim := range memoryOrder {
		memoryShape[i] = shape[dim]
	}
	inMemory, err := kit.FreshType(a.DType, memoryShape)
	if err != nil {
		return inMemory, err
	}
	strides := make([]sym.Int, len(memoryOrder))
	for i, dim := range memoryOrder {
		strides[dim] = inMemory.Strides[i]
	}
	return tensor.Type{DType: inMemory.DType, Shape: shape, Strides: strides}, nil
}

// checkSumProductDTypes returns PyTorch's error if a product that sums does not support the dtypes. PyTorch does not
// check the dtypes if an operand has no elements.
func checkSumProductDTypes(a, b tensor.Type) error {
	bothHaveElements := func() bool { return a.Numel().Ne(sym.Int{}).And(b.Numel().Ne(sym.Int{})).Holds() }
	switch {
	case a.DType != b.DType && bothHaveElements():
		return fmt.Errorf("expected scalar type %s but found %s", a.DType.TorchName(), b.DType.TorchName())
	case (a.DType == tensor.Bool || a.DType.IsBareUnsigned()) && bothHaveElements():
		return kit.NotImplementedBy("bmm", a.DType)
	}
	return nil
}

// summedType returns the type of a sum over dims, as the op sum infers it. If keepDims is set, the dimensions remain,
// with size 1. Otherwise they are removed.
func summedType(term tensor.Type, dims []int, keepDims bool) (tensor.Type, error) {
	attrs, err := reduce.Sum.Schema.Decode(graph.Attrs{"dim": dims, "keepdim": keepDims}, nil)
	if err != nil {
		return term, err
	}
	return kit.InferredType(reduce.Sum, attrs, term)
}
