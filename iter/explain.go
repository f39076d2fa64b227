package iter

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/tensor"
)

// Explain describes the set-up step by step. It lists the operands, and their effective strides: the strides over the
// broadcast shape, 0 where an operand is broadcast. It lists every comparison of the sort, with the operand that
// decided it, and the permutation. Then it lists the layouts of the outputs, and the byte strides before and after
// coalescing. [Iterator.String] is shorter.
func (it *Iterator) Explain() string {
	if it == nil {
		return errNilIterator.Error()
	}
	var text strings.Builder
	fmt.Fprintf(&text, "operands\n")
	for i := range it.operands {
		fmt.Fprintf(&text, "  %s%s\n", it.Describe(i), it.Remarks(i))
	}
	fmt.Fprintf(&text, "shape %s, common dtype %v\n", tensor.ListString(it.shape), it.CommonDType())
	it.explainEffective(&text)
	it.explainSort(&text)
	fmt.Fprintf(&text, "permutation %v, fastest first\n", it.perm)
	for i := range it.outCount {
		if it.operands[i].RuleChoosesLayout() {
			// it.Place(i) is the name of operand i, such as "input 1".
			fmt.Fprintf(&text, "  %s is laid out as %v\n", it.Place(i), it.operands[i].Meta)
		}
	}
	rank, operandCount := len(it.perm), len(it.operands)
	shape, strides := it.permuted() // the slices may be longer: see Iterator.walkStrides
	it.explainStrides(&text, "byte strides before coalescing", shape[:rank], strides[:rank*operandCount])
	walkStrides := it.walkStrides[:len(it.walkShape)*operandCount]
	it.explainStrides(&text, "byte strides after coalescing", it.walkShape, walkStrides)
	if it.offsets != nil {
		fmt.Fprintf(&text, "only a part of the iteration: operands begin at bytes %v\n", it.offsets)
	}
	for _, w := range it.Warnings() {
		fmt.Fprintf(&text, "warning: %s\n", w)
	}
	return text.String()
}

// explainEffective writes each operand's strides over the broadcast shape.
func (it *Iterator) explainEffective(text *strings.Builder) {
	text.WriteString("effective strides, in elements\n")
	for i := range it.operands {
		operand := &it.operands[i]
		if operand.RuleChoosesLayout() {
			fmt.Fprintf(text, "  %s: none yet\n", it.Place(i))
			continue
		}
		fmt.Fprintf(text, "  %s: %v\n", it.Place(i), it.Effective(i))
	}
}

// explainSort writes the comparisons of the sort of dimensions, or why there was no sort.
func (it *Iterator) explainSort(text *strings.Builder) {
	if why := it.UnsortedReason(); why != "" {
		fmt.Fprintf(text, "no sort: %s\n", why)
		return
	}
	initial := make([]int, len(it.shape)) // row-major order, fastest dimension first
	for d := range initial {
		initial[d] = len(initial) - 1 - d
	}
	fmt.Fprintf(text, "sort of %v\n", initial)
	for _, comparison := range it.Sort() {
		fmt.Fprintf(text, "  %d before %d: ", comparison.A, comparison.B)
		if comparison.DecidingOperand < 0 {
			text.WriteString("no operand decides\n")
			continue
		}
		outcome := "stays"
		if comparison.Exchanged {
			outcome = "is exchanged"
		}
		fmt.Fprintf(text, "%s, %s has strides %v and %v", outcome, it.Place(comparison.DecidingOperand),
			comparison.Strides[0], comparison.Strides[1])
		if comparison.Strides[0].Same(comparison.Strides[1]) {
			fmt.Fprintf(text, " and sizes %v and %v", comparison.Sizes[0], comparison.Sizes[1])
		}
		text.WriteString("\n")
	}
}

// explainStrides writes the strides of each operand over a shape. strides[d*len(it.operands)+i] is stride d of operand
// i.
func (it *Iterator) explainStrides(text *strings.Builder, title string, shape, strides []int) {
	fmt.Fprintf(text, "%s, over %v\n", title, shape)
	operandCount := len(it.operands)
	for i := range it.operands {
		operandStrides := make([]int, len(shape))
		for d := range operandStrides {
			operandStrides[d] = strides[d*operandCount+i]
		}
		fmt.Fprintf(text, "  %s: %v\n", it.Place(i), operandStrides)
	}
}
