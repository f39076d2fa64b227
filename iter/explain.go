package iter

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Explain shows how the iteration was set up, step by step: the operands as they were
// given and as loops see them, their effective strides over the broadcast shape (0 where
// an operand is repeated), every comparison of the sort with the operand that decided it,
// the permutation, the outputs' layouts, and the strides in bytes before and after
// dimensions were coalesced. It is for people; [Iterator.String] is the short form.
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

// remarks tells what is special about an operand.
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
		st := make([]sym.Int, len(it.shape))
		for d := range st {
			st[d] = it.effective(o.rule, d)
		}
		fmt.Fprintf(b, "  %s: %v\n", it.place(i), st)
	}
}

// explainSort repeats the sort and shows each comparison.
func (it *Iterator) explainSort(b *strings.Builder) {
	switch {
	case it.fast != FastNone:
		fmt.Fprintf(b, "no sort: fast set-up %v\n", it.fast)
		return
	case it.flags.linear:
		b.WriteString("no sort: linear iteration is enforced\n")
		return
	case len(it.shape) <= 1:
		b.WriteString("no sort: at most one dimension\n")
		return
	}
	perm := reversed(len(it.shape))
	fmt.Fprintf(b, "sort of %v\n", perm)
	tensor.SortDims(perm, func(x, y int) int {
		verdict, by := it.compare(x, y)
		fmt.Fprintf(b, "  %d before %d: ", x, y)
		if verdict == 0 {
			b.WriteString("no operand decides\n")
			return 0
		}
		sx, sy := it.effective(it.ops[by].rule, x), it.effective(it.ops[by].rule, y)
		what := map[int]string{-1: "stays", 1: "is exchanged"}[verdict]
		fmt.Fprintf(b, "%s, %s has strides %v and %v", what, it.place(by), sx, sy)
		if sx.Same(sy) {
			fmt.Fprintf(b, " and sizes %d and %d", it.shape[x], it.shape[y])
		}
		b.WriteString("\n")
		return verdict
	})
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
