package tensor

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/sym"
)

// This file holds what is computed from sizes alone, known or not.

// lists returns room for a shape and strides in one piece of memory.
func lists(n int) (shape, strides []sym.Int) {
	both := make([]sym.Int, 2*n)
	return both[:n:n], both[n:]
}

// Product returns the product of sizes: the number of elements.
func Product(sizes []sym.Int) sym.Int {
	n := sym.Of(1)
	for _, s := range sizes {
		n = n.Mul(s)
	}
	return n
}

// RowMajor returns row-major strides; a size 0 counts as 1, so that no stride is 0
// (c10::contiguous_strides).
func RowMajor(shape []sym.Int) []sym.Int {
	strides := make([]sym.Int, len(shape))
	rowMajor(strides, shape)
	return strides
}

// rowMajor is RowMajor into memory for the strides.
func rowMajor(strides, shape []sym.Int) {
	step := sym.Of(1)
	for d := len(strides) - 1; d >= 0; d-- {
		strides[d] = step
		step = times(step, shape[d].Max(sym.Of(1)))
	}
}

// Reduced returns the row-major type that is left of t without the marked dimensions, or, with keepdim, with
// size 1 there (shape_from_dim_mask). It panics where mask is not as long as the shape.
func (t Type) Reduced(mask []bool, keepdim bool) Type {
	if len(mask) != len(t.Shape) {
		panic(fmt.Sprintf("tensor: Reduced of %d dimensions with %d marks", len(t.Shape), len(mask)))
	}
	n := len(mask)
	for _, reduced := range mask {
		if reduced && !keepdim {
			n--
		}
	}
	shape, strides := lists(n)
	step := sym.Of(1)
	for d := len(mask) - 1; d >= 0; d-- {
		size := t.Shape[d]
		if mask[d] && !keepdim {
			continue
		} else if mask[d] {
			size = sym.Of(1)
		}
		n--
		shape[n], strides[n] = size, step
		step = times(step, size.Max(sym.Of(1)))
	}
	return Type{DType: t.DType, Shape: shape, Strides: strides}
}

// times multiplies sizes and strides. A product of numbers that no meta may hold becomes one that
// [Meta.Check] refuses instead of wrapping around.
func times(a, b sym.Int) sym.Int {
	x, exact := a.Known()
	y, also := b.Known()
	if exact && also {
		return sym.Of(satMul(x, y))
	}
	return a.Mul(b)
}

// EqualSizes returns whether two lists of sizes are equal: true or false where form and bounds decide.
func EqualSizes(a, b []sym.Int) sym.Bool {
	if len(a) != len(b) {
		return sym.Truth(false)
	}
	same := sym.Truth(true)
	for i := range a {
		if a[i].Same(b[i]) {
			continue
		}
		if same = same.And(a[i].Eq(b[i])); same.Same(sym.Truth(false)) {
			break
		}
	}
	return same
}

// SameSizes reports whether two lists of sizes are equal. What form and bounds do not decide
// becomes a guard.
func SameSizes(a, b []sym.Int) bool { return EqualSizes(a, b).Holds() }

// Sizes prints sizes as PyTorch's messages do: "[2, N]".
func Sizes(v []sym.Int) string {
	parts := make([]string, len(v))
	for i, s := range v {
		parts[i] = s.String()
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// is reports whether a size is a number; unknown sizes become guards.
func is(s sym.Int, n int) bool { return s.Eq(sym.Of(n)).Holds() }

// isKnown reports whether a size is a number by form and bounds, and leaves no guard.
func isKnown(s sym.Int, n int) bool {
	same, known := s.Eq(sym.Of(n)).Known()
	return same && known
}

// BroadcastSizes is [Broadcast] for sizes that may be unknown.
func BroadcastSizes(a, b []sym.Int) ([]sym.Int, error) {
	n := max(len(a), len(b))
	out := make([]sym.Int, n)
	numel := sym.Of(1)
	for i := n - 1; i >= 0; i-- {
		sa, sb := sym.Of(1), sym.Of(1)
		if d := i - (n - len(a)); d >= 0 {
			sa = a[d]
		}
		if d := i - (n - len(b)); d >= 0 {
			sb = b[d]
		}
		switch {
		case sa.Lt(sym.Int{}).Or(sb.Lt(sym.Int{})).Holds():
			return nil, fmt.Errorf("shapes %s and %s have a negative size", Sizes(a), Sizes(b))
		case sa.Same(sb), isKnown(sb, 1):
			out[i] = sa
		case isKnown(sa, 1):
			out[i] = sb
		case sa.Eq(sb).Holds(), is(sb, 1):
			out[i] = sa
		case is(sa, 1):
			out[i] = sb
		default:
			return nil, fmt.Errorf("The size of tensor a (%v) must match the size of tensor b (%v) at non-singleton "+
				"dimension %d", sa, sb, i)
		}
		if numel = times(numel, out[i].Max(sym.Of(1))); numel.Hint() > MaxBytes {
			return nil, fmt.Errorf("shapes %s and %s broadcast to more than 2^47 elements", Sizes(a), Sizes(b))
		}
	}
	return out, nil
}
