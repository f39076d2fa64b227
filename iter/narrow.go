package iter

import (
	"fmt"
	"math"
	"slices"
)

// This file makes parts of an iteration: a range of one dimension, or parts whose byte offsets fit 32 bits. A part has
// another walk shape and other byte offsets of its operands. For example, indices 2 to 5 of dimension 0 of a walk of
// shape [8, 3] are a walk of shape [4, 3] whose operands begin 2 strides of dimension 0 later.

// Narrow returns the part of the iteration with the indices start to start+size-1 in dimension dim of
// [Iterator.WalkShape] (TensorIteratorBase::narrow). The part is run with the same operand addresses as the whole
// iteration. If size is 1, adjacent dimensions of the walk are merged again where possible, except in a reduction.
// Narrow fails if the dimension does not exist, or if the range is empty or out of bounds.
func (it *Iterator) Narrow(dim, start, size int) (*Iterator, error) {
	switch {
	case it == nil:
		return nil, errNilIterator
	case dim < 0 || dim >= len(it.walkShape):
		return nil, fmt.Errorf("iter: Narrow(%d, %d, %d): dimension %d does not exist in the walk %v", dim, start, size, dim,
			it.walkShape)
	case size < 1:
		return nil, fmt.Errorf("iter: Narrow(%d, %d, %d): the size is less than 1", dim, start, size)
	case start < 0 || size > it.walkShape[dim]-start:
		return nil, fmt.Errorf("iter: Narrow(%d, %d, %d): the range exceeds dimension %d of the walk %v", dim, start, size,
			dim, it.walkShape)
	}
	return it.narrow(dim, start, size), nil
}

// narrow is Narrow without checks.
func (it *Iterator) narrow(dim, start, size int) *Iterator {
	part := it.copyForPart()
	part.restrict(dim, start, size)
	part.updateNumel()
	if size == 1 && !it.IsReduction() {
		part.merge()
	}
	return part
}

// SelectAll returns the part of the iteration with index indices[k] in dimension first+k of [Iterator.WalkShape], for
// all k (select_all_keeping_dim). These dimensions keep size 1. SelectAll fails if an index is out of range.
func (it *Iterator) SelectAll(first int, indices []int) (*Iterator, error) {
	if it == nil {
		return nil, errNilIterator
	}
	part := it.copyForPart()
	for k, index := range indices {
		dim := first + k
		if dim < 0 || dim >= len(it.walkShape) {
			return nil, fmt.Errorf("iter: SelectAll(%d, %v): there is no dimension %d in the walk %v", first, indices, dim,
				it.walkShape)
		}
		if index < 0 || index >= it.walkShape[dim] {
			return nil, fmt.Errorf("iter: SelectAll(%d, %v): index %d is out of range for dimension %d of the walk %v", first,
				indices, index, dim, it.walkShape)
		}
		const size = 1
		part.restrict(dim, index, size)
	}
	part.updateNumel()
	return part, nil
}

// RemoveOperand returns the iteration without operand i and with the same walk (remove_operand). It fails if i is out
// of range.
func (it *Iterator) RemoveOperand(i int) (*Iterator, error) {
	switch {
	case it == nil:
		return nil, errNilIterator
	case i < 0 || i >= len(it.operands):
		return nil, fmt.Errorf("iter: RemoveOperand(%d): the iteration has %d operands", i, len(it.operands))
	}
	remaining := it.copyForPart()
	operandCount := len(it.operands)
	remaining.Rule = it.Rule.Without(i)
	remaining.operands, remaining.outCount = remaining.Operands(), remaining.NumOutputs()
	remaining.offsets = slices.Delete(remaining.offsets, i, i+1)
	remaining.walkStrides = remaining.walkStrides[:0]
	for k, stride := range it.walkStrides {
		if k%operandCount != i {
			remaining.walkStrides = append(remaining.walkStrides, stride)
		}
	}
	return remaining, nil
}

// copyForPart returns a copy of the iteration. The caller may change its slices to restrict the copy to a part.
func (it *Iterator) copyForPart() *Iterator {
	part := *it
	part.walkShape, part.walkStrides = slices.Clone(it.walkShape), slices.Clone(it.walkStrides)
	part.offsets = make([]int, len(it.operands))
	copy(part.offsets, it.offsets)
	part.starts = make([]int, len(it.walkShape))
	copy(part.starts, it.starts)
	if it.wholeWalkShape == nil {
		part.wholeWalkShape = it.walkShape
	}
	return &part
}

// restrict restricts a dimension of a copy to the indices start to start+size-1. It does not update numel.
func (it *Iterator) restrict(dim, start, size int) {
	operandCount := len(it.operands)
	for i := range operandCount {
		it.offsets[i] += start * it.byteStride(dim, i)
	}
	it.starts[dim] += start
	it.walkShape[dim] = size
}

// updateNumel sets numel after walkShape was changed.
func (it *Iterator) updateNumel() {
	it.numel = 1
	for _, size := range it.walkShape {
		it.numel *= size
	}
}

// Accumulates reports whether this part of a reduction adds to outputs that hold the results of an earlier part.
func (it *Iterator) Accumulates() bool { return it.hasEarlierPart }

// IsFinal reports whether no later part of the reduction adds to the outputs of this part.
func (it *Iterator) IsFinal() bool { return !it.hasLaterPart }

// CanUse32Bit reports whether element counts and byte offsets of all operands fit a
// signed 32-bit integer (can_use_32bit_indexing).
func (it *Iterator) CanUse32Bit() bool {
	if it.numel > math.MaxInt32 {
		return false
	}
	for i := range it.operands {
		if it.byteExtent(i) > math.MaxInt32 {
			return false
		}
	}
	return true
}

// byteExtent returns 1 plus the largest byte offset of an element of operand i.
func (it *Iterator) byteExtent(i int) int {
	bytes := 1
	for dim, size := range it.walkShape {
		bytes += (size - 1) * it.byteStride(dim, i)
	}
	return bytes
}

// Split32 cuts the iteration into parts that fit 32-bit indexing, in order (with_32bit_indexing). The dimension with
// the largest extent in bytes is halved until all parts fit. If a halved dimension is reduced, both halves have the
// same outputs. The first half is not final ([Iterator.IsFinal]), and the second half adds to the contents of the
// outputs ([Iterator.Accumulates]). This requires a [Fold] with [Resumes].
func (it *Iterator) Split32() []*Iterator {
	if it.CanUse32Bit() || it.numel == 0 {
		return []*Iterator{it}
	}
	dim := it.dimToSplit()
	half := it.walkShape[dim] / 2
	first := it.narrow(dim, 0, half)
	// Both halves are cut from `it`: narrow may merge dimensions of the first half, so that dim would be invalid.
	second := it.narrow(dim, half, it.walkShape[dim]-half)
	if it.isReduced(dim) {
		first.hasLaterPart = true
		second.hasEarlierPart = true
	}
	return append(first.Split32(), second.Split32()...)
}

// dimToSplit returns the dimension with the largest extent in bytes among dimensions of size 2 or more
// (get_dim_to_split). Among dimensions with equal extents it returns the outermost.
func (it *Iterator) dimToSplit() int {
	best, bestExtent := -1, -1
	for dim := len(it.walkShape) - 1; dim >= 0; dim-- {
		if it.walkShape[dim] == 1 {
			continue
		}
		for i := range it.operands {
			if extent := (it.walkShape[dim] - 1) * it.byteStride(dim, i); extent > bestExtent {
				best, bestExtent = dim, extent
			}
		}
	}
	return best
}

// isReduced reports whether a dimension of the walk is reduced. The iteration is then a reduction, the dimension has
// size 2 or more, and an output has stride 0 along it.
func (it *Iterator) isReduced(dim int) bool {
	if !it.IsReduction() {
		return false
	}
	for i := range it.outCount {
		if it.byteStride(dim, i) == 0 && it.walkShape[dim] > 1 {
			return true
		}
	}
	return false
}
