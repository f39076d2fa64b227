package iter

import (
	"errors"

	"github.com/graphrun/graphrun/tensor"
)

var (
	errInternalOverlap = errors.New("unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() the tensor before performing the operation.")
	errPartialOverlap  = errors.New("unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. Please clone() the tensor before performing the operation.")
)

// checkOverlap refuses given outputs that overlap themselves or, in part, an input
// (compute_mem_overlaps, at::assert_no_partial_overlap).
func (it *Iterator) checkOverlap() error {
	if it.flags.noOverlapCheck {
		return nil
	}
	for i := range it.noutputs {
		out := &it.ops[i]
		if !out.Defined {
			continue
		}
		if overlapsItself(out.Meta) {
			return errInternalOverlap
		}
		for j := it.noutputs; j < len(it.ops); j++ {
			in := &it.ops[j]
			if in.object != nil && in.object == out.object || in.Storage == nil || in.Storage != out.Storage {
				continue
			}
			if overlapsInPart(out.Meta, in.Meta) {
				return errPartialOverlap
			}
		}
	}
	return nil
}

// overlapsItself reports a dimension of stride 0 and size over 1, which is all that
// at::has_internal_overlap decides.
func overlapsItself(m tensor.Meta) bool {
	if m.IsNonOverlappingAndDense() {
		return false
	}
	for d, s := range m.Shape {
		if s > 1 && m.Strides[d] == 0 {
			return true
		}
	}
	return false
}

// overlapsInPart reports byte ranges of two dense values that intersect without being
// the same (at::get_overlap_status).
func overlapsInPart(a, b tensor.Meta) bool {
	if a.Numel() == 0 || b.Numel() == 0 || !a.IsNonOverlappingAndDense() || !b.IsNonOverlappingAndDense() {
		return false
	}
	a0, b0 := a.Offset*a.DType.Size(), b.Offset*b.DType.Size()
	a1, b1 := a0+a.Bytes(), b0+b.Bytes()
	if a0 == b0 && a1 == b1 {
		return false
	}
	return a0 < b1 && b0 < a1
}
