package rule

import (
	"slices"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file chooses the order of the dimensions (the permutation) and the layouts of the outputs. Conditions on sizes
// are of type [sym.Bool]. Decide simplifies a condition by the bounds of the symbols. Holds decides it: if the bounds
// do not suffice, it evaluates the condition for typical sizes (hints), and records the outcome as a guard. The
// comparedType of an operand has the strides that PyTorch would compare.
//
// For example, an operand of shape [2, 3, 4] with strides [12, 1, 3] has the permutation [1, 2, 0]: dimension 1 has the
// smallest stride and is the fastest. An output whose layout the rule chooses then has the same strides.

// chooseLayout chooses the permutation and the layouts of the outputs: by fast set-up if its conditions hold, else by
// the permutation rule.
func (r *Rule) chooseLayout() {
	if !r.flags.noFastSetup {
		r.fast = r.fastKind()
	}
	if r.fast == FastNone {
		r.sortDims()
		r.setOutputStrides()
		return
	}
	r.fastStrides = r.fastSetupStrides()
	r.setOutputLayouts(r.fastStrides)
}

// fastKind returns the fast set-up whose conditions hold (TensorIteratorBase::compute_fast_setup_type).
func (r *Rule) fastKind() FastSetup {
	switch {
	case r.flags.isReduction || !r.sameShapes().Holds():
		return FastNone
	case r.holdsForGiven(tensor.Type.IsContiguous):
		return FastContiguous
	case r.flags.linearIteration:
		return FastNone
	case r.holdsForGiven(tensor.Type.IsChannelsLast):
		return FastChannelsLast
	}

	// All operands have equal shapes. If their strides are equal too, all are dense if the first is.
	var first *tensor.Type
	for i := range r.operands {
		switch operand := &r.operands[i]; {
		case operand.RuleChoosesLayout():
		case first == nil:
			first = operand.comparedType
		case !tensor.SameSizes(first.Strides, operand.comparedType.Strides):
			return FastNone
		}
	}
	if first.IsNonOverlappingAndDense() {
		return FastNonOverlappingDense
	}
	return FastNone
}

// holdsForGiven reports whether a predicate is true for all operands with a given layout (layouts that the rule does
// not choose).
func (r *Rule) holdsForGiven(holds func(tensor.Type) bool) bool {
	for i := range r.operands {
		if operand := &r.operands[i]; !operand.RuleChoosesLayout() && !holds(*operand.comparedType) {
			return false
		}
	}
	return true
}

// fastSetupStrides returns the strides of the outputs for the fast set-up in r.fast.
func (r *Rule) fastSetupStrides() []sym.Int {
	switch r.fast {
	case FastContiguous:
		return r.rowMajor()
	case FastChannelsLast:
		strides, _ := tensor.ChannelsLast.SymbolicStrides(r.sizes)
		return strides
	}
	// FastNonOverlappingDense: all operands with a given layout have the same strides.
	for i := len(r.operands) - 1; i >= 0; i-- {
		if r.operands[i].Defined {
			return r.operands[i].comparedType.Strides
		}
	}
	return nil
}

// rowMajor returns row-major strides. If an operand is row-major, it returns the operand's slice, which saves an
// allocation.
func (r *Rule) rowMajor() []sym.Int {
	for i := range r.operands {
		operand := &r.operands[i]
		given := operand.comparedType
		if !operand.RuleChoosesLayout() && len(given.Shape) == len(r.sizes) && given.IsRowMajor() {
			return given.Strides
		}
	}
	return tensor.RowMajor(r.sizes)
}

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
		if operand.RuleChoosesLayout() {
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
			break
		}
	}
	return swap, stay, decidingOperand
}

// compareByOperand is compare for one operand. It compares the operand's strides along a and b and, if the strides are
// equal, the sizes. If a stride is 0, the operand does not decide, with one exception: reduced dimensions of an
// output move to the front.
func (r *Rule) compareByOperand(operand *Resolved, a, b int) (swap, stay sym.Bool) {
	// swap = decides && (strideA > strideB || strideA == strideB && size[a] > size[b])
	// stay = decides && strideA < strideB
	// where decides = strideA != 0 && strideB != 0. The branches below omit the conditions that are known.
	strideA, strideB := r.effectiveStride(operand.comparedType, a), r.effectiveStride(operand.comparedType, b)
	if knownA, known := strideA.Known(); known {
		if knownB, known := strideB.Known(); known && (knownA != knownB || knownA == 0) {
			swaps, stays := r.compareNumbers(operand, knownA, knownB)
			return sym.BoolOf(swaps), sym.BoolOf(stays)
		}
	}

	isZeroA, isZeroB := strideA.Eq(sym.Int{}).Decide(), strideB.Eq(sym.Int{}).Decide()
	if r.flags.isReduction && operand.isOutput { // the exception; else swap and stay are false so far
		swap, stay = isZeroB.And(isZeroA.Not()), isZeroA.And(isZeroB.Not())
	}
	decides := isZeroA.Or(isZeroB).Not()
	if always, known := decides.Known(); known && !always {
		return swap, stay
	}

	isRowMajorOrder := !strideA.Same(strideB) && a > b && r.isRowMajor(operand)
	if isRowMajorOrder { // so strideA <= strideB
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
		// Only the strides can cause a swap: size[a] > size[b] at most where strideA < strideB.
		swap = swap.Or(decides.And(strideA.Gt(strideB)))
	} else {
		// Here strideA >= strideB: either it is greater, or the sizes decide.
		swap = swap.Or(decides.And(less.Not()).And(equal.Not().Or(larger)))
	}
	return swap.Decide(), stay.Or(decides.And(less))
}

// compareNumbers is compareByOperand for strides that are numbers and decide without the sizes.
func (r *Rule) compareNumbers(operand *Resolved, strideA, strideB int) (swap, stay bool) {
	if strideA == 0 || strideB == 0 {
		reduced := r.flags.isReduction && operand.isOutput && strideA != strideB
		return reduced && strideB == 0, reduced && strideA == 0
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
	for d := range r.sizes {
		if len(operand.comparedType.Shape) != len(r.sizes) || !operand.comparedType.Shape[d].Same(r.sizes[d]) {
			return false
		}
	}
	return operand.comparedType.IsRowMajor()
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

// setOutputStrides sets dense strides in the order of the permutation for the outputs whose layout the rule chooses
// (allocate_or_resize_outputs).
func (r *Rule) setOutputStrides() {
	for i := range r.outCount {
		if r.operands[i].RuleChoosesLayout() {
			r.setOutputLayouts(r.stridesByPerm())
			return
		}
	}
}

// stridesByPerm returns dense strides in the order of the permutation. If the order is row-major, a size 0 counts as 1.
// Otherwise a size 0 makes the strides of all slower dimensions 0.
func (r *Rule) stridesByPerm() []sym.Int {
	if r.isRowMajorPerm() {
		return tensor.RowMajor(r.sizes)
	}
	strides := make([]sym.Int, len(r.sizes))
	step := sym.Of(1)
	for _, d := range r.perm {
		strides[d] = step
		step = step.Mul(r.sizes[d])
	}
	return strides
}

// isRowMajorPerm reports whether the permutation is row-major.
func (r *Rule) isRowMajorPerm() bool {
	return !slices.ContainsFunc(r.perm, func(d int) bool { return r.perm[len(r.perm)-1-d] != d })
}

// setOutputLayouts sets the strides of the outputs whose layout the rule chooses.
func (r *Rule) setOutputLayouts(strides []sym.Int) {
	for i := range r.outCount {
		if output := &r.operands[i]; output.RuleChoosesLayout() {
			output.chosenType = &tensor.Type{DType: output.MemoryDType, Shape: r.sizes, Strides: strides}
			output.comparedType = output.chosenType
		}
	}
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
