package contiguity

import "github.com/graphrun/graphrun/sym"

// This file has the predicates about dense values. A value is dense in an order of its dimensions, from the smallest
// stride to the greatest, if each stride is the product of the sizes of the earlier dimensions. For example, shape
// [2, 3, 4] with strides [12, 4, 1] is dense in the order 2, 1, 0. The strides of dimensions of size 1 do not matter.
//
// Each predicate has two forms, which must agree: a formula ([sym.Bool]), and a loop with the branches of PyTorch's C++
// code. [sym.Bool.Holds] decides a branch, and may record the outcome as a guard. The zero sym.Int{} is the number 0.

// one returns the number 1.
func one() sym.Int { return sym.Of(1) }

// is1 returns the condition that a size is 1.
func is1(size sym.Int) sym.Bool { return size.Eq(one()) }

// numel returns the number of elements.
func numel(shape []sym.Int) sym.Int {
	product := one()
	for _, size := range shape {
		product = product.Mul(size)
	}
	return product
}

// rowMajorOrder returns the dimensions of a row-major value, from the smallest stride to the greatest.
func rowMajorOrder(rank int) []int {
	order := make([]int, rank)
	for i := range order {
		order[i] = rank - 1 - i
	}
	return order
}

// denseFormulaFrom returns the condition that the dimensions listed in `order` are dense. The parameter required is the
// required stride of the first listed dimension. The result next is the required stride of a further dimension. For a
// whole value, required is 1. The induction (denseStep) adds a single dimension to earlier dimensions.
func denseFormulaFrom(order []int, shape, strides []sym.Int, required sym.Int) (all sym.Bool, next sym.Int) {
	all = sym.BoolOf(true)
	for _, dim := range order {
		all = all.And(is1(shape[dim]).Or(strides[dim].Eq(required)))
		required = required.Mul(shape[dim])
	}
	return all, required
}

// denseLoop evaluates denseFormulaFrom with branches, as the loops of TensorImpl::compute_contiguous and of
// compute_channels_last_contiguous_2d and 3d do.
func denseLoop(order []int, shape, strides []sym.Int, required sym.Int) (all bool, next sym.Int) {
	for _, dim := range order {
		if shape[dim].Ne(one()).Holds() {
			if !strides[dim].Eq(required).Holds() {
				return false, required
			}
			required = required.Mul(shape[dim])
		}
	}
	return true, required
}

// denseFormula returns the formula of the predicate that the value has the rank of `order` and is dense in this order.
func denseFormula(order []int) conditionFunc {
	return func(shape, strides []sym.Int) sym.Bool {
		if len(shape) != len(order) {
			return sym.BoolOf(false)
		}
		all, _ := denseFormulaFrom(order, shape, strides, one())
		return all
	}
}

// denseBranches returns the predicate of denseFormula in the form with branches.
func denseBranches(order []int) branchesFunc {
	return func(shape, strides []sym.Int) bool {
		if len(shape) != len(order) {
			return false
		}
		all, _ := denseLoop(order, shape, strides, one())
		return all
	}
}

// contiguousFormula is the condition that a value is row-major or has no elements.
func contiguousFormula(shape, strides []sym.Int) sym.Bool {
	all, _ := denseFormulaFrom(rowMajorOrder(len(shape)), shape, strides, one())
	return numel(shape).Eq(sym.Int{}).Or(all)
}

// contiguousBranches evaluates contiguousFormula with branches, as TensorImpl::compute_contiguous does.
func contiguousBranches(shape, strides []sym.Int) bool {
	if numel(shape).Eq(sym.Int{}).Holds() {
		return true
	}
	all, _ := denseLoop(rowMajorOrder(len(shape)), shape, strides, one())
	return all
}
