package tensor

import "github.com/graphrun/graphrun/sym"

// DenseStrides returns dense strides that keep the memory order of an operand's dimensions (at::infer_dense_strides).
// empty_like(memory_format=preserve) uses them for an operand that is not dense. Dimensions are sorted by [SortDims].
// Sizes 0 and 1 do not increase the strides. DenseStrides panics if the lists differ in length.
func DenseStrides(shape, strides []int) []int {
	rank := len(shape)
	(&Meta{Shape: shape, Strides: strides}).mustMatchRanks()
	fastestFirst := make([]int, rank)
	for i := range fastestFirst {
		fastestFirst[i] = rank - 1 - i
	}
	SortDims(fastestFirst, func(a, b int) int {
		switch strideA, strideB := strides[a], strides[b]; {
		case strideA == 0 || strideB == 0:
			return 0
		case strideA < strideB:
			return -1
		case strideA > strideB:
			return 1
		case shape[a] > shape[b]:
			return 1
		}
		return 0
	})
	dense := make([]int, rank)
	denseStride := 1
	for _, d := range fastestFirst {
		dense[d] = denseStride
		if shape[d] > 1 {
			denseStride = saturatingMul(denseStride, shape[d])
		}
	}
	return dense
}

// SortDims is the insertion sort of TensorIterator::reorder_dimensions. It inserts each dimension b by scanning the
// preceding dimensions a backward. compare(a, b) returns 1 to exchange the pair, -1 to end the scan, and 0 (ambiguous)
// to continue the scan without an exchange. The comparison is not a total order, so another sorting algorithm would
// give other layouts. SortDims panics if compare is nil.
func SortDims(perm []int, compare func(a, b int) int) {
	if compare == nil {
		panic("tensor: SortDims needs a comparison")
	}
	for i := 1; i < len(perm); i++ {
		position := i
		for before := i - 1; before >= 0; before-- {
			result := compare(perm[before], perm[position])
			if result > 0 {
				perm[before], perm[position] = perm[position], perm[before]
				position = before
			} else if result < 0 {
				break
			}
		}
	}
}

// SortDimsIf is [SortDims] for sizes that may be symbolic. compare(a, b) returns two conditions that exclude each
// other. If swap holds, the preceding dimension a and dimension b are exchanged. If stay holds, the scan ends. If its
// form and bounds do not decide a condition, the condition is evaluated for typical sizes, and recorded as a guard.
// SortDimsIf panics if compare is nil.
func SortDimsIf(perm []int, compare func(a, b int) (swap, stay sym.Bool)) {
	if compare == nil {
		panic("tensor: SortDimsIf needs a comparison")
	}
	for i := 1; i < len(perm); i++ {
		position, ended := i, sym.BoolOf(false)
		for before := i - 1; before >= 0; before-- {
			swap, stay := compare(perm[before], perm[position])
			if swap.And(ended.Not()).Holds() {
				perm[before], perm[position] = perm[position], perm[before]
				position, ended = before, sym.BoolOf(false)
				continue
			}
			if ended = ended.Or(stay).Decide(); ended.Same(sym.BoolOf(true)) {
				break
			}
		}
	}
}
