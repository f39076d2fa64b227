package iter

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Explain describes the set-up step by step: the operands as given and as the loops see them, their effective strides
// over the broadcast shape (0 where an operand is repeated), every comparison of the sort with the operand that decided
// it, the permutation, the layouts of the outputs, and the byte strides before and after coalescing. [Iterator.String]
// is the short form.
func (it *Iterator) Explain() string {
	if it == nil {
		return errNilIterator.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "operands\n")
	for i := range it.ops {
		o := &it.ops[i]
		fmt.Fprintf(&b, "  %s%s\n", it.named(i), it.remarks(o))
	}
	fmt.Fprintf(&b, "shape %s, common dtype %v\n", tensor.ListString(it.shape), it.common)
	it.explainEffective(&b)
	it.explainSort(&b)
	fmt.Fprintf(&b, "permutation %v, fastest first\n", it.perm)
	for i := range it.noutputs {
		if it.ops[i].isLaidOut() {
			fmt.Fprintf(&b, "  %s is laid out as %v\n", it.place(i), it.ops[i].meta)
		}
	}
	n, ops := len(it.perm), len(it.ops)
	shape, strides := it.permuted()
	it.explainStrides(&b, "byte strides before coalescing", shape[:n], strides[:n*ops])
	it.explainStrides(&b, "byte strides after coalescing", it.walkShape, it.walkStrides[:len(it.walkShape)*ops])
	if it.offsets != nil {
		fmt.Fprintf(&b, "a part of it: operands begin at bytes %v\n", it.offsets)
	}
	for _, w := range it.warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	return b.String()
}

// remarks lists special properties of an operand.
func (it *Iterator) remarks(o *operand) string {
	var s []string
	if o.readWrite {
		s = append(s, "read and written")
	}
	if o.Defined && o.isLaidOut() {
		s = append(s, "to be resized")
	}
	if o.Number.IsSet() {
		s = append(s, "a plain number")
	}
	if o.target != o.meta.DType {
		s = append(s, fmt.Sprintf("seen as %v", o.target))
	}
	if o.cast != tensor.Invalid {
		s = append(s, fmt.Sprintf("rounded to %v", o.cast))
	}
	if o.ruleSet {
		s = append(s, fmt.Sprintf("sorted as %v, PyTorch's temporary", o.rule))
	}
	if len(s) == 0 {
		return ""
	}
	return ": " + strings.Join(s, ", ")
}

func (it *Iterator) explainEffective(b *strings.Builder) {
	b.WriteString("effective strides, in elements\n")
	for i := range it.ops {
		o := &it.ops[i]
		if o.isLaidOut() {
			fmt.Fprintf(b, "  %s: none yet\n", it.place(i))
			continue
		}
		fmt.Fprintf(b, "  %s: %v\n", it.place(i), it.Effective(i))
	}
}

// SortStep is a comparison of the sort that determines the permutation: dimension B, currently after A (slower), stays
// there or is exchanged with A.
type SortStep struct {
	A, B      int
	Exchanged bool
	// By is the operand that decided, outputs first; negative if none did, so that B stays.
	By int
	// Strides are the effective strides of that operand, Sizes the sizes of the dimensions, which decide if the strides
	// are equal.
	Strides, Sizes [2]sym.Int
}

// Sort repeats the sort of the dimensions and returns its comparisons in order. It is nil if nothing was sorted: see
// [Rule.Unsorted].
func (r *Rule) Sort() []SortStep {
	if r.Unsorted() != "" {
		return nil
	}
	var list []SortStep
	tensor.SortDims(reversed(len(r.sizes)), func(x, y int) int {
		swap, stay, by := r.compare(x, y)
		c := SortStep{A: x, B: y, Exchanged: swap.Hint(), By: by, Sizes: [2]sym.Int{r.sizes[x], r.sizes[y]}}
		if by >= 0 {
			t := r.ops[by].rule
			c.Strides = [2]sym.Int{r.effective(t, x), r.effective(t, y)}
		}
		list = append(list, c)
		switch {
		case swap.Hint():
			return 1
		case stay.Hint():
			return -1
		}
		return 0
	})
	return list
}

// Unsorted returns why the dimensions were not sorted; empty if they were.
func (r *Rule) Unsorted() string {
	switch {
	case r == nil:
		return errNilIterator.Error()
	case r.fast != FastNone:
		return fmt.Sprintf("fast set-up %v", r.fast)
	case r.flags.linear:
		return "linear iteration is enforced"
	case len(r.sizes) <= 1:
		return "at most one dimension"
	}
	return ""
}

// Effective returns the strides of operand i, outputs first, over the broadcast shape, as the sort uses them: 0 where
// it is repeated. It is nil for an output without a layout of its own.
func (r *Rule) Effective(i int) []sym.Int {
	o := r.op(i)
	if o.isLaidOut() {
		return nil
	}
	st := make([]sym.Int, len(r.sizes))
	for d := range st {
		st[d] = r.effective(o.rule, d)
	}
	return st
}

func (it *Iterator) explainSort(b *strings.Builder) {
	if why := it.Unsorted(); why != "" {
		fmt.Fprintf(b, "no sort: %s\n", why)
		return
	}
	fmt.Fprintf(b, "sort of %v\n", reversed(len(it.shape)))
	for _, c := range it.Sort() {
		fmt.Fprintf(b, "  %d before %d: ", c.A, c.B)
		if c.By < 0 {
			b.WriteString("no operand decides\n")
			continue
		}
		what := "stays"
		if c.Exchanged {
			what = "is exchanged"
		}
		fmt.Fprintf(b, "%s, %s has strides %v and %v", what, it.place(c.By), c.Strides[0], c.Strides[1])
		if c.Strides[0].Same(c.Strides[1]) {
			fmt.Fprintf(b, " and sizes %v and %v", c.Sizes[0], c.Sizes[1])
		}
		b.WriteString("\n")
	}
}

func (it *Iterator) explainStrides(b *strings.Builder, title string, shape, strides []int) {
	fmt.Fprintf(b, "%s, over %v\n", title, shape)
	ops := len(it.ops)
	for i := range it.ops {
		st := make([]int, len(shape))
		for d := range st {
			st[d] = strides[d*ops+i]
		}
		fmt.Fprintf(b, "  %s: %v\n", it.place(i), st)
	}
}
