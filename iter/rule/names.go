package rule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Named returns the operand with a name for each dimension, "" for an unnamed dimension. Names of operands are unified
// as in PyTorch's named tensors.
func (o Operand) Named(names ...string) Operand {
	o.extra = &operandExtra{names: names, mistake: o.mistake()}
	return o
}

// Names returns the names of the result's dimensions, "" for an unnamed dimension. It returns nil if no operand has
// names.
func (r *Rule) Names() []string { return slices.Clone(r.names) }

// computeNames unifies the names of the operands that determine the shape (compute_names), and checks defined outputs
// against the result (propagate_names).
func (r *Rule) computeNames() error {
	isNamed, err := r.checkNameCounts()
	if err != nil || !isNamed {
		return err
	}
	if err := r.unifyNames(); err != nil {
		return err
	}
	for i := range r.outCount {
		operand := &r.operands[i]
		if !operand.Defined || operand.names() == nil || slices.Equal(operand.names(), r.names) {
			continue
		}
		return fmt.Errorf("Name mismatch: specified out tensor with names %s are not the same as the computed output "+
			"names %s. Please rename the out tensor's dims with `Tensor.rename`.",
			listNames(operand.names()), listNames(r.names))
	}
	return nil
}

// checkNameCounts checks that named operands have a name for each dimension. It reports whether any operand is named.
func (r *Rule) checkNameCounts() (isNamed bool, err error) {
	for i := range r.operands {
		operand := &r.operands[i]
		if operand.names() != nil && len(operand.names()) != len(operand.Type.Shape) {
			return false, fmt.Errorf("operand %d has %d names, but %d dimensions", i, len(operand.names()),
				len(operand.Type.Shape))
		}
		isNamed = isNamed || operand.names() != nil
	}
	return isNamed, nil
}

// unifyNames sets r.names to the unified names of the operands that determine the shape.
func (r *Rule) unifyNames() error {
	isFirst := true
	for i := range r.operands {
		operand := &r.operands[i]
		if !operand.Defined || operand.isOutput && !r.flags.keepOutputs {
			continue
		}
		names := operand.names()
		if names == nil {
			names = make([]string, len(operand.Type.Shape))
		}
		if isFirst {
			r.names, isFirst = names, false
			continue
		}
		unified, err := UnifyNames(r.names, names)
		if err != nil {
			return err
		}
		r.names = unified
	}
	return nil
}

// UnifyNames returns the dimension names of the result of broadcasting two values (at::unify_from_right). Names are
// matched from the right: equal names match, and any name matches an unnamed dimension. For example, the names [N, "",
// W] and [C, W] are unified to [N, C, W]. A name must not occur at different positions. The errors are PyTorch's.
func UnifyNames(a, b []string) ([]string, error) {
	rank := max(len(a), len(b))
	unified := make([]string, rank)
	fromRight := func(names []string, position int) string {
		if position < len(names) {
			return names[len(names)-1-position]
		}
		return ""
	}
	for position := range rank {
		nameA, nameB := fromRight(a, position), fromRight(b, position)
		if nameA != "" && nameB != "" && nameA != nameB {
			return nil, fmt.Errorf("Error when attempting to broadcast dims %s and dims %s: dim '%s' and dim '%s' are at the "+
				"same position from the right but do not match.",
				listNames(a), listNames(b), nameA, nameB)
		}
		unified[rank-1-position] = cmp.Or(nameA, nameB)
		if nameA != "" && nameB != "" {
			continue
		}
		if err := misalignedError(nameA, a, b); err != nil {
			return nil, err
		}
		if err := misalignedError(nameB, b, a); err != nil {
			return nil, err
		}
	}
	return unified, nil
}

// misalignedError returns an error if name, which is in the list names, is also in the list other.
func misalignedError(name string, names, other []string) error {
	if name == "" || !slices.Contains(other, name) {
		return nil
	}
	return fmt.Errorf("Misaligned dims when attempting to broadcast dims %s and dims %s: dim '%s' appears in a "+
		"different position from the right across both lists.",
		listNames(names), listNames(other), name)
}

// listNames returns a list of names as Python prints it.
func listNames(names []string) string {
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = "None"
		if name != "" {
			parts[i] = "'" + name + "'"
		}
	}
	return "[" + strings.Join(parts, ", ") + "]"
}
