package iter

import (
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// layOut chooses the permutation and the layouts of the outputs: by fast set-up where it
// serves, else by the permutation rule.
func (it *Iterator) layOut() {
	if !it.flags.noFastSetup {
		it.fast = it.fastKind()
	}
	if it.fast == FastNone {
		it.permByRule()
		it.outputsByPerm()
		return
	}
	var strides []int
	switch it.fast {
	case FastContiguous:
		strides = tensor.ContiguousStrides(it.shape)
	case FastChannelsLast:
		strides, _ = tensor.ChannelsLast.Strides(it.shape)
	case FastNonOverlappingDense:
		for i := len(it.ops) - 1; i >= 0; i-- {
			if it.ops[i].Defined {
				strides = it.ops[i].rule.Strides
				break
			}
		}
	}
	for i := range it.noutputs {
		if o := &it.ops[i]; o.isLaidOut() {
			o.meta = tensor.Meta{DType: o.meta.DType, Shape: it.shape, Strides: strides}
			o.rule = o.meta
		}
	}
	it.perm = orderOf(strides, it.shape)
}

// orderOf returns the dimensions of a dense layout, fastest first; among equal strides
// the smaller size stands first, then the later dimension.
func orderOf(strides, shape []int) []int {
	perm := reversed(len(shape))
	slices.SortStableFunc(perm, func(a, b int) int {
		if c := strides[a] - strides[b]; c != 0 {
			return c
		}
		return shape[a] - shape[b]
	})
	return perm
}

// reversed returns n-1, ..., 1, 0: the row-major order.
func reversed(n int) []int {
	perm := make([]int, n)
	for i := range perm {
		perm[i] = n - 1 - i
	}
	return perm
}

// fastKind is TensorIteratorBase::compute_fast_setup_type.
func (it *Iterator) fastKind() FastSetup {
	switch {
	case it.flags.reduction || !it.sameShapes():
		return FastNone
	case it.every(tensor.Meta.IsContiguous):
		return FastContiguous
	case it.flags.linear:
		return FastNone
	case it.every(tensor.Meta.IsChannelsLast):
		return FastChannelsLast
	}
	// One shape and the same strides: what is dense for one operand is for all.
	var first *tensor.Meta
	for i := range it.ops {
		switch o := &it.ops[i]; {
		case o.isLaidOut():
		case first == nil:
			first = &o.rule
		case !slices.Equal(first.Strides, o.rule.Strides):
			return FastNone
		}
	}
	if first.IsNonOverlappingAndDense() {
		return FastNonOverlappingDense
	}
	return FastNone
}

// every reports whether a predicate holds of all operands that keep their layout.
func (it *Iterator) every(holds func(tensor.Meta) bool) bool {
	for i := range it.ops {
		if o := &it.ops[i]; !o.isLaidOut() && !holds(o.rule) {
			return false
		}
	}
	return true
}

// effective returns the operand's stride of broadcast dimension d: 0 where the dimension
// is missing or broadcast, the stored stride elsewhere, dimensions of size 1 that stay 1
// included (TensorIteratorBase::compute_strides).
func (it *Iterator) effective(m *tensor.Meta, d int) int {
	at := d - (len(it.shape) - len(m.Shape))
	if at < 0 || m.Shape[at] == 1 && it.shape[d] != 1 {
		return 0
	}
	return m.Strides[at]
}

// permByRule sorts the dimensions by the strides of the operands in order, outputs first
// (TensorIteratorBase::reorder_dimensions).
func (it *Iterator) permByRule() {
	it.perm = reversed(len(it.shape))
	if it.flags.linear || len(it.shape) <= 1 {
		return
	}
	tensor.SortDims(it.perm, func(a, b int) int {
		verdict, _ := it.compare(a, b)
		return verdict
	})
}

// compare says where dimension a, which stands before b, belongs: -1 before, 1 after, 0 if
// no operand decides; by is the operand that decided (should_swap).
func (it *Iterator) compare(a, b int) (verdict, by int) {
	for i := range it.ops {
		o := &it.ops[i]
		if o.isLaidOut() {
			continue
		}
		sa, sb := it.effective(&o.rule, a), it.effective(&o.rule, b)
		if it.flags.reduction && o.isOutput && (sa == 0) != (sb == 0) {
			// Reduced dimensions go to the front.
			if sb == 0 {
				return 1, i
			}
			return -1, i
		}
		switch {
		case sa == 0 || sb == 0:
			continue
		case sa < sb:
			return -1, i
		case sa > sb:
			return 1, i
		case it.shape[a] > it.shape[b]:
			return 1, i
		}
	}
	return 0, -1
}

// outputsByPerm lays the undefined outputs out densely in the order of the permutation
// (allocate_or_resize_outputs). If that order is row-major, a size 0 counts as 1, else
// it makes the strides after it 0.
func (it *Iterator) outputsByPerm() {
	var strides []int
	for i := range it.noutputs {
		o := &it.ops[i]
		if !o.isLaidOut() {
			continue
		}
		if strides == nil {
			strides = it.stridesByPerm()
		}
		o.meta = tensor.Meta{DType: o.meta.DType, Shape: it.shape, Strides: strides}
		o.rule = o.meta
	}
}

func (it *Iterator) stridesByPerm() []int {
	n := len(it.shape)
	inverted := true
	for i, d := range it.perm {
		inverted = inverted && d == n-1-i
	}
	if inverted {
		return tensor.ContiguousStrides(it.shape)
	}
	strides := make([]int, n)
	step := 1
	for _, d := range it.perm {
		strides[d] = step
		step *= it.shape[d]
	}
	return strides
}
