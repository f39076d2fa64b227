package rule

import (
	"slices"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file sorts the dimensions by the strides of the operands, the fastest dimension first. For example, an operand
// of shape [2, 3, 4] with strides [12, 1, 3] has the permutation [1, 2, 0], because dimension 1 has the smallest
// stride.
//
// Sizes may be symbols, so conditions on them are of type [sym.Bool]. Decide simplifies a condition by the bounds of
// the symbols. Holds decides it: if the bounds do not suffice, it evaluates the condition for typical sizes (hints),
// and records the outcome as a guard. sym.Int{} is the number 0, and sym.Bool{} is false.

// sortDims sorts the dimensions by the strides of the operands in order, outputs first
// (TensorIteratorBase::reorder_dimensions).
func (r *Rule) sortDims() {
	r.perm = reversed(len(r.sizes))
	if r.flags.linearIteration || len(r.sizes) <= 1 {
		return
	}
	tensor.SortDimsIf(r.perm, func(a, b int) (swap, stay sym.Bool) {
		swap, stay, _ = r.compare(a, b)
		return swap, stay
	})
}

// compare compares dimensions a and b, where a precedes b in the permutation (should_swap). swap is the condition
// under which the dimensions are exchanged, and stay the condition under which their order is kept. If neither
// condition is true, no operand decides. decidingOperand is the index of the operand that decides at the hints of the
// symbols, or -1 if no operand decides.
func (r *Rule) compare(a, b int) (swap, stay sym.Bool, decidingOperand int) {
	decidingOperand = -1
	undecided := sym.BoolOf(true)
	for i := range r.operands {
		operand := &r.operands[i]
		if operand.RuleChoosesLayout() { // an output that is allocated or resized
			continue
		}
		operandSwap, operandStay := r.compareByOperand(operand, a, b)
		// An operand counts only where no earlier operand decides.
		operandSwap, operandStay = undecided.And(operandSwap), undecided.And(operandStay)
		if decidingOperand < 0 && (operandSwap.Hint() || operandStay.Hint()) {
			decidingOperand = i
		}
		swap, stay = swap.Or(operandSwap), stay.Or(operandStay)
		undecided = undecided.And(operandSwap.Or(operandStay).Not()).Decide()
		if isUndecided, known := undecided.Known(); known && !isUndecided {
			break // for all sizes, an operand up to here decides
		}
	}
	return swap, stay, decidingOperand
}

// compareByOperand is compare for one operand. It compares the operand's strides along a and b and, if the strides are
// equal, the sizes. If a stride is 0, the operand does not decide, with one exception: reduced dimensions of an
// output move to the front. comparedType is the operand's type or, if it is converted, the type of PyTorch's temporary.
func (r *Rule) compareByOperand(operand *Resolved, a, b int) (swap, stay sym.Bool) {
	// swap = decides && (strideA > strideB || strideA == strideB && size[a] > size[b])
	// stay = decides && strideA < strideB
	// where decides = strideA != 0 && strideB != 0. The branches below omit the conditions that are known.
	strideA, strideB := r.effectiveStride(operand.comparedType, a), r.effectiveStride(operand.comparedType, b)
	knownA, isKnownA := strideA.Known()
	knownB, isKnownB := strideB.Known()
	movesToFront := r.flags.isReduction && operand.isOutput        // the exception
	if isKnownA && isKnownB && (knownA != knownB || knownA == 0) { // the strides decide without the sizes
		swaps, stays := compareKnownStrides(knownA, knownB, movesToFront)
		return sym.BoolOf(swaps), sym.BoolOf(stays)
	}

	isZeroA, isZeroB := strideA.Eq(sym.Int{}).Decide(), strideB.Eq(sym.Int{}).Decide()
	if movesToFront { // otherwise swap and stay are false at this point
		swap, stay = isZeroB.And(isZeroA.Not()), isZeroA.And(isZeroB.Not())
	}
	decides := isZeroA.Or(isZeroB).Not()
	if always, known := decides.Known(); known && !always {
		return swap, stay
	}

	// In a row-major operand, a later dimension has at most the stride of an earlier one.
	isRowMajorOrder := !strideA.Same(strideB) && a > b && r.isRowMajor(operand)
	if isRowMajorOrder { // so strideA <= strideB
		// swap = decides && equal && size[a] > size[b], stay = decides && !equal
		equal := r.equalRowMajorStrides(a, b).And(decides).Decide()
		if equal.Same(sym.BoolOf(false)) {
			return swap, stay.Or(decides)
		}
		return swap.Or(equal.And(r.sizes[a].Gt(r.sizes[b]))).Decide(), stay.Or(decides.And(equal.Not()))
	}

	less, equal := sym.BoolOf(false), sym.BoolOf(true) // strideA < strideB; strideA == strideB
	if !strideA.Same(strideB) {
		if less = strideA.Lt(strideB).Decide(); less.Same(sym.BoolOf(true)) {
			return swap, stay.Or(decides) // strideA is always less
		}
		equal = strideA.Eq(strideB)
	}
	larger := r.sizes[a].Gt(r.sizes[b])
	if sizeDecides := less.Not().And(larger).Decide(); sizeDecides.Same(sym.BoolOf(false)) {
		// The sizes never decide, because size[a] > size[b] only where strideA < strideB.
		swap = swap.Or(decides.And(strideA.Gt(strideB)))
	} else {
		// Here strideA >= strideB: either it is greater, or the sizes decide.
		swap = swap.Or(decides.And(less.Not()).And(equal.Not().Or(larger)))
	}
	return swap.Decide(), stay.Or(decides.And(less))
}

// compareKnownStrides is compareByOperand for two known strides that differ or are both 0. movesToFront means that
// reduced dimensions, which have stride 0, move to the front.
func compareKnownStrides(strideA, strideB int, movesToFront bool) (swaps, stays bool) {
	if strideA == 0 || strideB == 0 {
		return movesToFront && strideA != 0, movesToFront && strideB != 0
	}
	return strideA > strideB, strideA < strideB
}

// equalRowMajorStrides returns the condition that the row-major strides of dimensions a and b are equal, where a is the
// later dimension: the sizes of dimensions b+1 to a are at most 1.
func (r *Rule) equalRowMajorStrides(a, b int) sym.Bool {
	equal := sym.BoolOf(true)
	for d := b + 1; d <= a; d++ {
		equal = equal.And(r.sizes[d].Le(sym.Of(1)))
	}
	return equal
}

// isRowMajor reports whether an operand has the broadcast shape and row-major strides. It compares expressions and
// records no guard.
func (r *Rule) isRowMajor(operand *Resolved) bool {
	return slices.EqualFunc(operand.comparedType.Shape, r.sizes, sym.Int.Same) && operand.comparedType.IsRowMajor()
}

// effectiveStride returns the operand's stride along a dimension of the broadcast shape
// (TensorIteratorBase::compute_strides). It is 0 if the operand lacks the dimension or is broadcast along it. Otherwise
// it is the operand's own stride, even if the size is 1.
func (r *Rule) effectiveStride(operandType *tensor.Type, dim int) sym.Int {
	operandDim := dim - (len(r.sizes) - len(operandType.Shape))
	if operandDim < 0 {
		return sym.Int{}
	}
	if operandType.Shape[operandDim].Same(r.sizes[dim]) {
		return operandType.Strides[operandDim]
	}
	one := sym.Of(1)
	isBroadcast := operandType.Shape[operandDim].Eq(one).And(r.sizes[dim].Ne(one)).Decide()
	return sym.Where(isBroadcast, sym.Int{}, operandType.Strides[operandDim])
}

// denseOrder returns the dimensions of a dense layout, fastest first. Among dimensions with equal strides, the smaller
// size comes first, and among equal sizes the later dimension.
func denseOrder(strides, sizes []sym.Int) []int {
	perm := reversed(len(sizes)) // the sort is stable: equal dimensions stay in this order
	sorted.Func(perm, func(a, b int) int {
		if order := compareSizes(strides[a], strides[b]); order != 0 {
			return order
		}
		return compareSizes(sizes[a], sizes[b])
	})
	return perm
}

// compareSizes compares two sizes. If the expressions and the bounds of the symbols do not decide, it compares the
// hints (typical values). It then records guards: the conditions under which the outcome is the same.
func compareSizes(a, b sym.Int) int {
	switch {
	case a.Same(b):
		return 0
	case a.Lt(b).Holds():
		return -1
	case a.Gt(b).Holds():
		return 1
	}
	return 0
}

// reversed returns n-1, ..., 1, 0: the row-major order.
func reversed(n int) []int {
	perm := make([]int, n)
	for i := range perm {
		perm[i] = n - 1 - i
	}
	return perm
}
