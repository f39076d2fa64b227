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
	extra := operandExtra{names: names}
	if o.extra != nil {
		extra.mistake = o.extra.mistake
	}
	o.extra = &extra
	return o
}

// Names returns the names of the result's dimensions, "" for an unnamed dimension. It returns nil if no operand has
// names.
func (r *Rule) Names() []string { return slices.Clone(r.names) }

// computeNames unifies the names of the operands that determine the shape (compute_names), and checks defined outputs
// against the result (propagate_names).
func (r *Rule) computeNames() error {
	anyNamed := false
	for i := range r.ops {
		o := &r.ops[i]
		if o.names() != nil && len(o.names()) != len(o.Type.Shape) {
			return fmt.Errorf("operand %d has %d names, but %d dimensions", i, len(o.names()), len(o.Type.Shape))
		}
		anyNamed = anyNamed || o.names() != nil
	}
	if !anyNamed {
		return nil
	}
	first := true
	for i := range r.ops {
		o := &r.ops[i]
		if !o.Defined || o.isOutput && !r.flags.keepOutputs {
			continue
		}
		names := o.names()
		if names == nil {
			names = make([]string, len(o.Type.Shape))
		}
		if first {
			r.names, first = names, false
			continue
		}
		unified, err := UnifyNames(r.names, names)
		if err != nil {
			return err
		}
		r.names = unified
	}
	for i := range r.outCount {
		if o := &r.ops[i]; o.Defined && o.names() != nil && !slices.Equal(o.names(), r.names) {
			return fmt.Errorf("Name mismatch: specified out tensor with names %s are not the same as the computed output "+
				"names %s. Please rename the out tensor's dims with `Tensor.rename`.",
				listNames(o.names()), listNames(r.names))
		}
	}
	return nil
}

// UnifyNames returns the dimension names of the result of broadcasting two values (at::unify_from_right). Names are
// matched from the right: equal names match, and any name matches an unnamed dimension. A name must not occur at
// different positions. The errors are PyTorch's.
func UnifyNames(a, b []string) ([]string, error) {
	n := max(len(a), len(b))
	out := make([]string, n)
	fromRight := func(v []string, k int) string {
		if k < len(v) {
			return v[len(v)-1-k]
		}
		return ""
	}
	for k := range n {
		x, y := fromRight(a, k), fromRight(b, k)
		if x != "" && y != "" && x != y {
			return nil, fmt.Errorf("Error when attempting to broadcast dims %s and dims %s: dim '%s' and dim '%s' are at the "+
				"same position from the right but do not match.",
				listNames(a), listNames(b), x, y)
		}
		out[n-1-k] = cmp.Or(x, y)
		if x != "" && y != "" {
			continue
		}
		if err := misalignedError(x, a, b); err != nil {
			return nil, err
		}
		if err := misalignedError(y, b, a); err != nil {
			return nil, err
		}
	}
	return out, nil
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
	for i, n := range names {
		parts[i] = "None"
		if n != "" {
			parts[i] = "'" + n + "'"
		}
	}
	return "[" + strings.Join(parts, ", ") + "]"
}
