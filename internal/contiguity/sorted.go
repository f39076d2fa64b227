package contiguity

import "github.com/graphrun/graphrun/sym"

// Each predicate of this file has two forms. The branching form (suffix Branches) follows PyTorch's code and sorts the
// dimensions. The form with the suffix Formula needs neither branches nor a sort. For example, with shape [2, 3] and
// strides [1, 2], dimension 0 precedes dimension 1. The value is dense, because each stride is the product of the sizes
// of the preceding dimensions: 1 and 2. The greatest offset along dimension 0 is 1, which is less than the stride of
// dimension 1, so no elements overlap.

// nonOverlappingAndDenseFormula is the condition of TensorImpl::is_non_overlapping_and_dense. It holds for every value
// without elements, because contiguousFormula holds for such values.
func nonOverlappingAndDenseFormula(shape, strides []sym.Int) sym.Bool {
	return contiguousFormula(shape, strides).Or(denseFormula(Order2d)(shape, strides)).
		Or(denseFormula(Order3d)(shape, strides)).Or(sortedDenseFormula(shape, strides))
}

// sortedDenseFormula returns the condition that the dimensions are dense in the order of their strides. The stride of
// each dimension of size other than 1 must be the product of the sizes of all dimensions before it in that order.
func sortedDenseFormula(shape, strides []sym.Int) sym.Bool {
	all := sym.BoolOf(true)
	for d := range shape {
		all = all.And(is1(shape[d]).Or(strides[d].Eq(sizesBefore(shape, strides, d))))
	}
	return all
}

// sizesBefore returns the product of the sizes of the dimensions that precede d.
func sizesBefore(shape, strides []sym.Int, d int) sym.Int {
	product := one()
	for other := range shape {
		if other != d {
			product = product.Mul(sym.Where(precedes(strides, other, d), shape[other], one()))
		}
	}
	return product
}

// precedes returns the condition that dimension a precedes b in the order of strides. Dimensions with equal strides are
// ordered by number, so that the order is total.
func precedes(strides []sym.Int, a, b int) sym.Bool {
	if a < b {
		return strides[a].Le(strides[b])
	}
	return strides[a].Lt(strides[b])
}

// nonOverlappingAndDenseBranches computes the bool that TensorImpl::refresh_contiguous caches. Like that function, it
// calls compute_non_overlapping_and_dense last.
func nonOverlappingAndDenseBranches(shape, strides []sym.Int) bool {
	return contiguousBranches(shape, strides) || denseBranches(Order2d)(shape, strides) ||
		denseBranches(Order3d)(shape, strides) || sortedDenseBranches(shape, strides)
}

// sortedDenseBranches follows TensorImpl::compute_non_overlapping_and_dense, for values with elements.
func sortedDenseBranches(shape, strides []sym.Int) bool {
	all, _ := denseLoop(sortedDims(shape, strides), shape, strides, one())
	return all
}

// sortedDims returns the dimensions of size other than 1, sorted by stride (insertion sort). Dimensions with equal
// strides keep their order, as in precedes.
func sortedDims(shape, strides []sym.Int) []int {
	var order []int
	for d := range shape {
		if is1(shape[d]).Holds() {
			continue
		}
		position := len(order)
		for position > 0 && strides[d].Lt(strides[order[position-1]]).Holds() {
			position--
		}
		order = append(order, 0)
		copy(order[position+1:], order[position:])
		order[position] = d
	}
	return order
}

// noOverlapFormula is the condition that the stride of each dimension of size other than 1 exceeds the greatest offset
// along the dimensions of smaller strides. If the condition holds, no two elements share memory. The converse holds for
// slices of dense values, but not in general.
func noOverlapFormula(shape, strides []sym.Int) sym.Bool {
	return numel(shape).Eq(sym.Int{}).Or(disjointFormula(shape, strides))
}

// disjointFormula is the condition of noOverlapFormula for values with elements.
func disjointFormula(shape, strides []sym.Int) sym.Bool {
	all := sym.BoolOf(true)
	for d := range shape {
		all = all.And(is1(shape[d]).Or(reachBefore(shape, strides, d).Lt(strides[d])))
	}
	return all
}

// reachBefore returns the greatest offset of an element along the dimensions that precede d.
func reachBefore(shape, strides []sym.Int, d int) sym.Int {
	reach := sym.Int{}
	for other := range shape {
		if other != d {
			reach = reach.Add(sym.Where(precedes(strides, other, d), shape[other].Sub(one()).Mul(strides[other]), sym.Int{}))
		}
	}
	return reach
}

// noOverlapBranches follows the test of as_strided_backward (_maybe_overlapping_memory). This test first checks whether
// there are elements, and ignores dimensions of size 1.
func noOverlapBranches(shape, strides []sym.Int) bool {
	return numel(shape).Eq(sym.Int{}).Holds() || disjointBranches(shape, strides)
}

// disjointBranches evaluates noOverlapBranches for values with elements.
func disjointBranches(shape, strides []sym.Int) bool {
	disjoint, _ := disjointLoop(sortedDims(shape, strides), shape, strides, sym.Int{})
	return disjoint
}

// disjointLoop is the loop of _maybe_overlapping_memory over sorted dimensions. reach is the greatest offset along the
// dimensions before the loop, and reachAfter is the greatest offset after the loop. Both serve disjointStep, the
// induction over dimensions.
func disjointLoop(order []int, shape, strides []sym.Int, reach sym.Int) (disjoint bool, reachAfter sym.Int) {
	for _, d := range order {
		if strides[d].Le(reach).Holds() {
			return false, reach
		}
		reach = reach.Add(strides[d].Mul(shape[d].Sub(one())))
	}
	return true, reach
}
