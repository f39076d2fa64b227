package rule

import (
	"slices"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// layOut chooses the permutation and the layouts of the outputs: by fast set-up where possible, else by the permutation
// rule.
func (r *Rule) layOut() {
	if !r.flags.noFastSetup {
		r.fast = r.fastKind()
	}
	if r.fast == FastNone {
		r.permByRule()
		r.outputsByPerm()
		return
	}
	var strides []sym.Int
	switch r.fast {
	case FastContiguous:
		strides = r.rowMajor()
	case FastChannelsLast:
		strides, _ = tensor.ChannelsLast.StridesOf(r.sizes)
	case FastNonOverlappingDense:
		for i := len(r.ops) - 1; i >= 0; i-- {
			if r.ops[i].Defined {
				strides = r.ops[i].rule.Strides
				break
			}
		}
	}
	r.layOutputs(strides)
	r.dense = strides
}

// rowMajor returns row-major strides. It returns the slice of an operand with such strides if there is one, to save an
// allocation.
func (r *Rule) rowMajor() []sym.Int {
	for i := range r.ops {
		if o := &r.ops[i]; !o.IsLaidOut() && len(o.rule.Shape) == len(r.sizes) && o.rule.IsRowMajor() {
			return o.rule.Strides
		}
	}
	return tensor.RowMajor(r.sizes)
}

// layOutputs sets the strides of the outputs whose layout the rule chooses.
func (r *Rule) layOutputs(strides []sym.Int) {
	for i := range r.noutputs {
		if o := &r.ops[i]; o.IsLaidOut() {
			o.chosenType = &tensor.Type{DType: o.Held, Shape: r.sizes, Strides: strides}
			o.rule = o.chosenType
		}
	}
}

// orderOf returns the dimensions of a dense layout, fastest first. Among dimensions with equal strides, the smaller
// size comes first, and among equal sizes the later dimension.
func orderOf(strides, sizes []sym.Int) []int {
	perm := reversed(len(sizes))
	slices.SortStableFunc(perm, func(a, b int) int {
		if c := order(strides[a], strides[b]); c != 0 {
			return c
		}
		return order(sizes[a], sizes[b])
	})
	return perm
}

// order compares two sizes. If neither form nor bounds decide, the result becomes a guard.
func order(a, b sym.Int) int {
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

// fastKind is TensorIteratorBase::compute_fast_setup_type.
func (r *Rule) fastKind() FastSetup {
	switch {
	case r.flags.reduction || !r.sameShapes().Holds():
		return FastNone
	case r.every(tensor.Type.IsContiguous):
		return FastContiguous
	case r.flags.linear:
		return FastNone
	case r.every(tensor.Type.IsChannelsLast):
		return FastChannelsLast
	}
	// With equal shapes and strides, all operands are dense if one is.
	var first *tensor.Type
	for i := range r.ops {
		switch o := &r.ops[i]; {
		case o.IsLaidOut():
		case first == nil:
			first = o.rule
		case !tensor.SameSizes(first.Strides, o.rule.Strides):
			return FastNone
		}
	}
	if first.IsNonOverlappingAndDense() {
		return FastNonOverlappingDense
	}
	return FastNone
}

// every reports whether a predicate holds for all operands that keep their layout.
func (r *Rule) every(holds func(tensor.Type) bool) bool {
	for i := range r.ops {
		if o := &r.ops[i]; !o.IsLaidOut() && !holds(*o.rule) {
			return false
		}
	}
	return true
}

// effective returns the operand's stride along dimension d of the broadcast shape
// (TensorIteratorBase::compute_strides). It is 0 if the operand lacks the dimension or is broadcast along it, else the
// operand's own stride, even if the size is 1.
func (r *Rule) effective(t *tensor.Type, d int) sym.Int {
	at := d - (len(r.sizes) - len(t.Shape))
	if at < 0 {
		return sym.Int{}
	}
	if t.Shape[at].Same(r.sizes[d]) {
		return t.Strides[at]
	}
	one := sym.Of(1)
	return sym.Where(t.Shape[at].Eq(one).And(r.sizes[d].Ne(one)).Decide(), sym.Int{}, t.Strides[at])
}

// permByRule sorts the dimensions by the strides of the operands in order, outputs first
// (TensorIteratorBase::reorder_dimensions).
func (r *Rule) permByRule() {
	r.perm = reversed(len(r.sizes))
	if r.flags.linear || len(r.sizes) <= 1 {
		return
	}
	tensor.SortDimsIf(r.perm, func(a, b int) (swap, stay sym.Bool) {
		swap, stay, _ = r.compare(a, b)
		return swap, stay
	})
}

// compare compares dimension a with b, which is after a (should_swap). It returns the condition under which a moves
// behind b (swap), and the condition under which a stays. If neither holds, no operand decides. by is the index of the
// operand that decides at the hints, negative if none does.
func (r *Rule) compare(a, b int) (swap, stay sym.Bool, by int) {
	by = -1
	open := sym.Truth(true)
	for i := range r.ops {
		o := &r.ops[i]
		if o.IsLaidOut() {
			continue
		}
		itsSwap, itsStay := r.compareBy(o, a, b)
		itsSwap, itsStay = open.And(itsSwap), open.And(itsStay)
		if by < 0 && (itsSwap.Hint() || itsStay.Hint()) {
			by = i
		}
		swap, stay = swap.Or(itsSwap), stay.Or(itsStay)
		open = open.And(itsSwap.Or(itsStay).Not()).Decide()
		if more, known := open.Known(); known && !more {
			break
		}
	}
	return swap, stay, by
}

// compareBy is compare for one operand. It compares strides and, if these are equal, sizes. If a stride is 0, the
// operand does not decide, with one exception: reduced dimensions of an output move to the front.
func (r *Rule) compareBy(o *Resolved, a, b int) (swap, stay sym.Bool) {
	sa, sb := r.effective(o.rule, a), r.effective(o.rule, b)
	if na, known := sa.Known(); known {
		if nb, known := sb.Known(); known && (na != nb || na == 0) {
			exchanged, stays := r.compareNumbers(o, na, nb)
			return sym.Truth(exchanged), sym.Truth(stays)
		}
	}
	za, zb := sa.Eq(sym.Int{}).Decide(), sb.Eq(sym.Int{}).Decide()
	if r.flags.reduction && o.isOutput {
		swap, stay = zb.And(za.Not()), za.And(zb.Not())
	}
	decides := za.Or(zb).Not()
	if always, known := decides.Known(); known && !always {
		return swap, stay
	}
	less, equal := sym.Truth(false), sym.Truth(true)
	if !sa.Same(sb) && a > b && r.isRowMajor(o) {
		// The strides are equal if the sizes of dimensions b+1 to a are at most 1.
		for d := b + 1; d <= a; d++ {
			equal = equal.And(r.sizes[d].Le(sym.Of(1)))
		}
		if equal = equal.And(decides).Decide(); equal.Same(sym.Truth(false)) {
			return swap, stay.Or(decides)
		}
		return swap.Or(equal.And(r.sizes[a].Gt(r.sizes[b]))).Decide(), stay.Or(decides.And(equal.Not()))
	}
	if !sa.Same(sb) {
		if less = sa.Lt(sb).Decide(); less.Same(sym.Truth(true)) {
			return swap, stay.Or(decides)
		}
		equal = sa.Eq(sb)
	}
	larger := r.sizes[a].Gt(r.sizes[b])
	if never := less.Not().And(larger).Decide(); never.Same(sym.Truth(false)) {
		swap = swap.Or(decides.And(sa.Gt(sb)))
	} else {
		swap = swap.Or(decides.And(less.Not()).And(equal.Not().Or(larger)))
	}
	return swap.Decide(), stay.Or(decides.And(less))
}

// compareNumbers is compareBy for strides that are numbers and decide without the sizes.
func (r *Rule) compareNumbers(o *Resolved, sa, sb int) (swap, stay bool) {
	if sa == 0 || sb == 0 {
		reduced := r.flags.reduction && o.isOutput && sa != sb
		return reduced && sb == 0, reduced && sa == 0
	}
	return sa > sb, sa < sb
}

// isRowMajor reports whether the strides of an operand with unknown sizes are row-major by form.
func (r *Rule) isRowMajor(o *Resolved) bool {
	for d := range r.sizes {
		if len(o.rule.Shape) != len(r.sizes) || !o.rule.Shape[d].Same(r.sizes[d]) {
			return false
		}
	}
	return o.rule.IsRowMajor()
}

// outputsByPerm sets dense strides in the order of the permutation for the outputs whose layout the rule chooses
// (allocate_or_resize_outputs). If that order is row-major, a size 0 counts as 1. Otherwise a size 0 makes all later
// strides 0.
func (r *Rule) outputsByPerm() {
	for i := range r.noutputs {
		if r.ops[i].IsLaidOut() {
			r.layOutputs(r.stridesByPerm())
			return
		}
	}
}

// inverted reports whether the permutation is row-major.
func (r *Rule) inverted() bool {
	return !slices.ContainsFunc(r.perm, func(d int) bool { return r.perm[len(r.perm)-1-d] != d })
}

func (r *Rule) stridesByPerm() []sym.Int {
	if r.inverted() {
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
