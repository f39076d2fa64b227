package rule

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// SortStep is one comparison of two dimensions in the sort that determines the permutation. The permutation lists the
// fastest dimension first. Before the comparison, A precedes B.
type SortStep struct {
	A, B            int  // dimensions
	Exchanged       bool // after the comparison, B precedes A
	DecidingOperand int  // index of the operand that decided, outputs first; negative if no operand decided
	// Strides are the effective strides ([Rule.Effective]) of the deciding operand in dimensions A and B. Sizes are the
	// sizes of A and B, which decide if the strides are equal.
	Strides, Sizes [2]sym.Int
}

// Sort repeats the sort of the dimensions and returns its comparisons in order. It returns nil if the dimensions were
// not sorted; [Rule.UnsortedReason] has the reason.
func (r *Rule) Sort() []SortStep {
	if r.UnsortedReason() != "" {
		return nil
	}
	var list []SortStep
	tensor.SortDims(reversed(len(r.sizes)), func(dimA, dimB int) int { // the sort starts with the row-major order
		swap, stay, decidingOperand := r.compare(dimA, dimB) // swap and stay are conditions on symbolic sizes
		step := SortStep{A: dimA, B: dimB, Exchanged: swap.Hint(), DecidingOperand: decidingOperand,
			Sizes: [2]sym.Int{r.sizes[dimA], r.sizes[dimB]}}
		if decidingOperand >= 0 {
			t := r.operands[decidingOperand].comparedType
			step.Strides = [2]sym.Int{r.effectiveStride(t, dimA), r.effectiveStride(t, dimB)}
		}
		list = append(list, step)
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

// UnsortedReason returns the reason why the dimensions were not sorted; "" if they were sorted.
func (r *Rule) UnsortedReason() string {
	switch {
	case r == nil:
		return errNilRule.Error()
	case r.fast != FastNone:
		return fmt.Sprintf("fast set-up %v", r.fast)
	case r.flags.linearIteration:
		return "linear iteration is enforced"
	case len(r.sizes) <= 1:
		return "at most one dimension"
	}
	return ""
}

// Effective returns the strides that the sort compares: the strides of operand i, outputs first, over the broadcast
// shape. The stride is 0 in a dimension in which the operand is broadcast. Effective returns nil for an output whose
// layout the rule chooses.
func (r *Rule) Effective(i int) []sym.Int {
	operand := r.Operand(i)
	if operand.RuleChoosesLayout() {
		return nil
	}
	strides := make([]sym.Int, len(r.sizes))
	for d := range strides {
		strides[d] = r.effectiveStride(operand.comparedType, d)
	}
	return strides
}

// Remarks returns the special properties of operand i as text to be printed after a colon, or "" if there are none.
func (r *Rule) Remarks(i int) string {
	var remarks []string
	operand := r.Operand(i)
	if operand.ReadWrite {
		remarks = append(remarks, "read and written")
	}
	if operand.Defined && operand.RuleChoosesLayout() {
		remarks = append(remarks, "to be resized")
	}
	if operand.Number.IsSet() {
		remarks = append(remarks, "a plain number")
	}
	if operand.TargetDType != operand.MemoryDType { // converted when a loop reads or writes an element
		remarks = append(remarks, fmt.Sprintf("seen as %v", operand.TargetDType))
	}
	if operand.Cast != tensor.Invalid { // first rounded to Cast, as by PyTorch's temporary
		remarks = append(remarks, fmt.Sprintf("rounded to %v", operand.Cast))
	}
	if operand.needsTemporary { // the sort compares the strides of the temporary, which has the type comparedType
		remarks = append(remarks, fmt.Sprintf("sorted as %v, PyTorch's temporary", operand.comparedType))
	}
	if len(remarks) == 0 {
		return ""
	}
	return ": " + strings.Join(remarks, ", ")
}
