package iter

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/tensor"
)

// Explain describes the set-up step by step. It lists the operands in memory and in the loop, with their effective
// strides over the broadcast shape (0 where an operand is broadcast). It lists every comparison of the sort, with the
// operand that decided it, and the permutation. Then it lists the layouts of the outputs, and the byte strides before
// and after coalescing. [Iterator.String] is shorter.
func (it *Iterator) Explain() string {
	if it == nil {
		return errNilIterator.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "operands\n")
	for i := range it.ops {
		fmt.Fprintf(&b, "  %s%s\n", it.Describe(i), it.Remarks(i))
	}
	fmt.Fprintf(&b, "shape %s, common dtype %v\n", tensor.ListString(it.shape), it.CommonDType())
	it.explainEffective(&b)
	it.explainSort(&b)
	fmt.Fprintf(&b, "permutation %v, fastest first\n", it.perm)
	for i := range it.outCount {
		if it.ops[i].RuleChoosesLayout() {
			fmt.Fprintf(&b, "  %s is laid out as %v\n", it.Place(i), it.ops[i].Meta)
		}
	}
	n, ops := len(it.perm), len(it.ops)
	shape, strides := it.permuted()
	it.explainStrides(&b, "byte strides before coalescing", shape[:n], strides[:n*ops])
	it.explainStrides(&b, "byte strides after coalescing", it.walkShape, it.walkStrides[:len(it.walkShape)*ops])
	if it.offsets != nil {
		fmt.Fprintf(&b, "a part of it: operands begin at bytes %v\n", it.offsets)
	}
	for _, w := range it.Warnings() {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	return b.String()
}

// explainEffective writes each operand's strides over the broadcast shape.
func (it *Iterator) explainEffective(b *strings.Builder) {
	b.WriteString("effective strides, in elements\n")
	for i := range it.ops {
		o := &it.ops[i]
		if o.RuleChoosesLayout() {
			fmt.Fprintf(b, "  %s: none yet\n", it.Place(i))
			continue
		}
		fmt.Fprintf(b, "  %s: %v\n", it.Place(i), it.Effective(i))
	}
}

// explainSort writes the comparisons of the sort of dimensions, or why there was no sort.
func (it *Iterator) explainSort(b *strings.Builder) {
	if why := it.UnsortedReason(); why != "" {
		fmt.Fprintf(b, "no sort: %s\n", why)
		return
	}
	initial := make([]int, len(it.shape)) // row-major
	for d := range initial {
		initial[d] = len(initial) - 1 - d
	}
	fmt.Fprintf(b, "sort of %v\n", initial)
	for _, c := range it.Sort() {
		fmt.Fprintf(b, "  %d before %d: ", c.A, c.B)
		if c.DecidingOperand < 0 {
			b.WriteString("no operand decides\n")
			continue
		}
		outcome := "stays"
		if c.Exchanged {
			outcome = "is exchanged"
		}
		fmt.Fprintf(b, "%s, %s has strides %v and %v", outcome, it.Place(c.DecidingOperand), c.Strides[0], c.Strides[1])
		if c.Strides[0].Same(c.Strides[1]) {
			fmt.Fprintf(b, " and sizes %v and %v", c.Sizes[0], c.Sizes[1])
		}
		b.WriteString("\n")
	}
}

// explainStrides writes the strides of each operand over a shape. Stride d of operand i is strides[d*len(it.ops)+i].
func (it *Iterator) explainStrides(b *strings.Builder, title string, shape, strides []int) {
	fmt.Fprintf(b, "%s, over %v\n", title, shape)
	ops := len(it.ops)
	for i := range it.ops {
		operandStrides := make([]int, len(shape))
		for d := range operandStrides {
			operandStrides[d] = strides[d*ops+i]
		}
		fmt.Fprintf(b, "  %s: %v\n", it.Place(i), operandStrides)
	}
}
