package rule

import (
	"slices"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file chooses the layouts of the outputs, as TensorIterator of PyTorch does. If the operands have equal shapes
// and are, for example, all contiguous, the outputs get the same layout (fast set-up). Otherwise, the dimensions are
// sorted by the strides of the operands (order.go), and the outputs are dense in this order. The sort compares the
// strides of each operand's comparedType: the type of the temporary if PyTorch would convert the operand to a
// temporary, else the operand's type.

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
	case r.flags.linearIteration: // the dimensions stay in row-major order
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
	// first is not nil: if the rule chose all layouts, holdsForGiven would have been true above.
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
	// FastNonOverlappingDense: all operands with a given layout have the same strides. As PyTorch does, take the
	// strides of the last defined operand, which is an input if there is one. Only outputs can be undefined.
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

// stridesByPerm returns dense strides in the order of the permutation, which lists the dimensions from the fastest to
// the slowest. If the order is row-major, a size 0 counts as 1. Otherwise a size 0 makes the strides of all slower
// dimensions 0.
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
