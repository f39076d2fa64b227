package contiguity

import "github.com/graphrun/graphrun/sym"

// This file has the predicates with which PyTorch recognizes and suggests a channels-last format. They test the order
// of the strides. The value need not be dense. In the order channels, width, height, batch ([Order2d]), each stride
// must be at least stride * size of the previous dimension. For example, the strides of both columns pass the test:
//
//	dimension      size   dense strides   strides of a slice
//	1 (channels)   3      1               1
//	3 (width)      5      3               4    at least 1*3
//	2 (height)     4      15              20   at least 4*5
//	0 (batch)      2      60              80   at least 20*4
//
// Each predicate has two forms, which must agree: a formula ([sym.Bool]), and a loop with the branches of PyTorch's C++
// code. [sym.Bool.Holds] decides a branch, and may record the outcome as a guard. The zero sym.Int{} is the number 0.

// orderedFormulaFrom returns the condition that the sizes of the dimensions listed in `order` are not 0, and that their
// strides pass the test of the order. minStride is the lower bound of the first stride. The result next is the lower
// bound of the stride of a further dimension. For a whole value, minStride is 0. The induction (orderedStep) adds a
// single dimension to earlier dimensions.
//
// At dimension 0, the lower bound must differ from channelStride, the stride of the channels. By this condition,
// PyTorch rejects ambiguous values, such as a value of shape [N, 1, 1, 1] with equal strides.
func orderedFormulaFrom(order []int, shape, strides []sym.Int, minStride, channelStride sym.Int) (all sym.Bool,
	next sym.Int) {
	all = sym.BoolOf(true)
	for _, dim := range order {
		all = all.And(shape[dim].Ne(sym.Int{})).And(strides[dim].Ge(minStride))
		if dim == 0 {
			all = all.And(minStride.Ne(channelStride))
		}
		minStride = strides[dim].Mul(shape[dim].Max(one())) // the loop multiplies only by sizes above 1
	}
	return all, minStride
}

// orderedLoop evaluates orderedFormulaFrom with branches, as the loop of is_channels_last_strides_2d_s4 and 3d_s5 does.
func orderedLoop(order []int, shape, strides []sym.Int, minStride, channelStride sym.Int) (all bool, next sym.Int) {
	for _, dim := range order {
		if shape[dim].Eq(sym.Int{}).Holds() {
			return false, minStride
		}
		if strides[dim].Lt(minStride).Holds() {
			return false, minStride
		}
		if dim == 0 && minStride.Eq(channelStride).Holds() {
			return false, minStride
		}
		minStride = strides[dim]
		if shape[dim].Gt(one()).Holds() {
			minStride = minStride.Mul(shape[dim])
		}
	}
	return true, minStride
}

// orderedFormula returns the formula of a predicate: the value has the rank of `order`, the stride of its channels is
// not 0, and orderedFormulaFrom holds.
func orderedFormula(order []int) conditionFunc {
	return func(shape, strides []sym.Int) sym.Bool {
		if len(shape) != len(order) {
			return sym.BoolOf(false)
		}
		all, _ := orderedFormulaFrom(order, shape, strides, sym.Int{}, strides[1])
		return strides[1].Ne(sym.Int{}).And(all)
	}
}

// orderedBranches returns the predicate of orderedFormula in the form with branches.
func orderedBranches(order []int) branchesFunc {
	return func(shape, strides []sym.Int) bool {
		if len(shape) != len(order) || strides[1].Eq(sym.Int{}).Holds() {
			return false
		}
		all, _ := orderedLoop(order, shape, strides, sym.Int{}, strides[1])
		return all
	}
}

// exactFormulaFrom returns the condition that the stride of each dimension listed in `order` is the product of the
// sizes of the earlier dimensions. In contrast to denseFormulaFrom, it also compares the strides of dimensions of size
// 1. The parameter required is the required stride of the first listed dimension. The result next is the required
// stride of a further dimension.
func exactFormulaFrom(order []int, shape, strides []sym.Int, required sym.Int) (all sym.Bool, next sym.Int) {
	all = sym.BoolOf(true)
	for _, dim := range order {
		all = all.And(strides[dim].Eq(required))
		required = required.Mul(shape[dim])
	}
	return all, required
}

// exactLoop evaluates exactFormulaFrom with branches: it compares strides with the results of
// get_channels_last_strides_2d and 3d.
func exactLoop(order []int, shape, strides []sym.Int, required sym.Int) (all bool, next sym.Int) {
	for _, dim := range order {
		if !strides[dim].Eq(required).Holds() {
			return false, required
		}
		required = required.Mul(shape[dim])
	}
	return true, required
}

// exactFormula returns the formula of a predicate: orderedFormula and exactFormulaFrom hold.
func exactFormula(order []int) conditionFunc {
	return func(shape, strides []sym.Int) sym.Bool {
		if len(shape) != len(order) {
			return sym.BoolOf(false)
		}
		all, _ := exactFormulaFrom(order, shape, strides, one())
		return orderedFormula(order)(shape, strides).And(all)
	}
}

// exactBranches returns the predicate of exactFormula in the form with branches.
func exactBranches(order []int) branchesFunc {
	return func(shape, strides []sym.Int) bool {
		if !orderedBranches(order)(shape, strides) {
			return false
		}
		all, _ := exactLoop(order, shape, strides, one())
		return all
	}
}

// suggestsContiguousFormula is the condition that suggest_memory_format returns no channels-last format.
func suggestsContiguousFormula(shape, strides []sym.Int) sym.Bool {
	return orderedFormula(Order2d)(shape, strides).Or(orderedFormula(Order3d)(shape, strides)).Not()
}

// suggestsBranches returns TensorBase::suggest_memory_format as a predicate. It holds if the function returns the
// channels-last format of the given rank or, for rank 0, contiguous.
func suggestsBranches(rank int) branchesFunc {
	return func(shape, strides []sym.Int) bool {
		suggestedRank := 0
		if orderedBranches(Order2d)(shape, strides) || orderedBranches(Order3d)(shape, strides) {
			suggestedRank = len(shape)
		}
		return suggestedRank == rank
	}
}
