package rule

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// SortStep is a comparison in the sort that determines the permutation. Dimension B is currently after A, where it
// counts as slower. It stays there, or is exchanged with A.
type SortStep struct {
	A, B      int
	Exchanged bool
	// By is the index of the operand that decided, outputs first. It is negative if no operand did; B then stays.
	By int
	// Strides are the effective strides of that operand in dimensions A and B. Sizes are the sizes of A and B, which
	// decide if the strides are equal.
	Strides, Sizes [2]sym.Int
}

// Sort repeats the sort of the dimensions and returns its comparisons in order. It returns nil if the dimensions were
// not sorted; [Rule.Unsorted] has the reason.
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

// Unsorted returns the reason for which the dimensions were not sorted, or "" if they were.
func (r *Rule) Unsorted() string {
	switch {
	case r == nil:
		return errNil.Error()
	case r.fast != FastNone:
		return fmt.Sprintf("fast set-up %v", r.fast)
	case r.flags.linear:
		return "linear iteration is enforced"
	case len(r.sizes) <= 1:
		return "at most one dimension"
	}
	return ""
}

// Effective returns the strides of operand i, outputs first, over the broadcast shape. The stride is 0 in a dimension
// in which the operand is broadcast. The sort compares these strides. Effective returns nil for an output whose layout
// the rule chooses.
func (r *Rule) Effective(i int) []sym.Int {
	o := r.Operand(i)
	if o.IsLaidOut() {
		return nil
	}
	st := make([]sym.Int, len(r.sizes))
	for d := range st {
		st[d] = r.effective(o.rule, d)
	}
	return st
}

// Remarks returns special properties of operand i as text after a colon, or "" if there are none.
func (r *Rule) Remarks(i int) string {
	var s []string
	o := r.Operand(i)
	if o.ReadWrite {
		s = append(s, "read and written")
	}
	if o.Defined && o.IsLaidOut() {
		s = append(s, "to be resized")
	}
	if o.Number.IsSet() {
		s = append(s, "a plain number")
	}
	if o.Target != o.Held {
		s = append(s, fmt.Sprintf("seen as %v", o.Target))
	}
	if o.Cast != tensor.Invalid {
		s = append(s, fmt.Sprintf("rounded to %v", o.Cast))
	}
	if o.temporary {
		s = append(s, fmt.Sprintf("sorted as %v, PyTorch's temporary", o.rule))
	}
	if len(s) == 0 {
		return ""
	}
	return ": " + strings.Join(s, ", ")
}
