package tensor

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/graphrun/graphrun/sym"
)

// This file has functions of lists of sizes, which may be symbolic.

// newShapeAndStrides allocates a shape and strides of n dimensions in one block.
func newShapeAndStrides(n int) (shape, strides []sym.Int) {
	both := make([]sym.Int, 2*n)
	return both[:n:n], both[n:]
}

// withSize returns a copy of sizes in which `size` replaces the size of dimension dim.
func withSize(sizes []sym.Int, dim int, size sym.Int) []sym.Int {
	out := make([]sym.Int, len(sizes))
	for i := range out {
		out[i] = sizes[i]
	}
	out[dim] = size
	return out
}

// Product returns the product of sizes: the number of elements of a shape. A product that overflows an int saturates.
func Product(sizes []sym.Int) sym.Int {
	n := sym.Of(1)
	for _, s := range sizes {
		n = mulSizes(n, s)
	}
	return n
}

// mulSizes multiplies sizes and strides. A product of numbers that overflows saturates, so that [Meta.Check] rejects
// it.
func mulSizes(a, b sym.Int) sym.Int {
	x, xKnown := a.Known()
	y, yKnown := b.Known()
	if xKnown && yKnown && x|y >= 0 { // both are numbers and not negative
		return sym.Of(saturatingMul(x, y))
	}
	return a.Mul(b)
}

// saturatingMul multiplies non-negative numbers. An overflowing product saturates at MaxBytes+1, which [Meta.Check]
// rejects.
func saturatingMul(a, b int) int {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > math.MaxInt {
		return MaxBytes + 1
	}
	return int(lo)
}

// RowMajor returns row-major strides in a new slice. A size 0 counts as 1, so that no stride is 0
// (c10::contiguous_strides).
//
//go:noinline // saves compile time: it has many callers, none of them hot
func RowMajor(shape []sym.Int) []sym.Int {
	strides := make([]sym.Int, len(shape))
	rowMajor(strides, shape)
	return strides
}

// rowMajor writes row-major strides of shape to strides.
func rowMajor(strides, shape []sym.Int) {
	denseStride := sym.Of(1)
	for d := len(strides) - 1; d >= 0; d-- {
		strides[d] = denseStride
		denseStride = mulSizes(denseStride, shape[d].Max(sym.Of(1)))
	}
}

// Reduced returns the row-major type of a reduction of t over the dimensions for which mask is set. These dimensions
// are removed. If keepdim is set, they have size 1 instead (shape_from_dim_mask). Reduced panics if the length of mask
// differs from t's rank.
func (t Type) Reduced(mask []bool, keepdim bool) Type {
	if len(mask) != len(t.Shape) {
		panic(fmt.Sprintf("tensor: the mask of Reduced has %d entries for %d dimensions", len(mask), len(t.Shape)))
	}
	n := len(mask)
	for _, reduced := range mask {
		if reduced && !keepdim {
			n--
		}
	}
	shape, strides := newShapeAndStrides(n)
	denseStride := sym.Of(1)
	for d := len(mask) - 1; d >= 0; d-- {
		size := t.Shape[d]
		if mask[d] && !keepdim {
			continue
		} else if mask[d] {
			size = sym.Of(1)
		}
		n--
		shape[n], strides[n] = size, denseStride
		denseStride = mulSizes(denseStride, size.Max(sym.Of(1)))
	}
	return Type{DType: t.DType, Shape: shape, Strides: strides}
}

// EqualSizes returns the condition that two lists of sizes are equal. It is a constant if the expressions and their
// bounds decide it.
func EqualSizes(a, b []sym.Int) sym.Bool {
	if len(a) != len(b) {
		return sym.BoolOf(false)
	}
	same := sym.BoolOf(true)
	for i := range a {
		if a[i].Same(b[i]) {
			continue
		}
		if same = same.And(a[i].Eq(b[i])); same.Same(sym.BoolOf(false)) {
			break
		}
	}
	return same
}

// SameSizes reports whether two lists of sizes are equal. If the expressions and their bounds do not decide, the answer
// becomes a guard.
func SameSizes(a, b []sym.Int) bool { return EqualSizes(a, b).Holds() }

// equals reports whether a size equals n. If the expression and its bounds do not decide, the answer becomes a guard.
func equals(s sym.Int, n int) bool { return s.Eq(sym.Of(n)).Holds() }

// knownEquals reports whether the expression and its bounds show that a size equals n. It records no guard.
func knownEquals(s sym.Int, n int) bool {
	same, known := s.Eq(sym.Of(n)).Known()
	return same && known
}

// Sizes prints sizes as PyTorch's messages do: "[2, N]".
func Sizes(v []sym.Int) string {
	parts := make([]string, len(v))
	for i, s := range v {
		parts[i] = s.String()
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// BroadcastSizes is [Broadcast] for sizes that may be symbolic. The shapes (8,1,N) and (3,1), for example, broadcast to
// (8,3,N).
func BroadcastSizes(a, b []sym.Int) ([]sym.Int, error) {
	rank := max(len(a), len(b))
	out := make([]sym.Int, rank)
	numel := sym.Of(1)
	for dim := rank - 1; dim >= 0; dim-- {
		sizeA, sizeB := sizeFromEnd(a, rank-dim), sizeFromEnd(b, rank-dim)
		switch {
		case sizeA.Lt(sym.Int{}).Or(sizeB.Lt(sym.Int{})).Holds():
			return nil, fmt.Errorf("shapes %s and %s have a negative size", Sizes(a), Sizes(b))
		// The cases without guards come first.
		case sizeA.Same(sizeB), knownEquals(sizeB, 1):
			out[dim] = sizeA
		case knownEquals(sizeA, 1):
			out[dim] = sizeB
		case sizeA.Eq(sizeB).Holds(), equals(sizeB, 1):
			out[dim] = sizeA
		case equals(sizeA, 1):
			out[dim] = sizeB
		default:
			return nil, fmt.Errorf("The size of tensor a (%v) must match the size of tensor b (%v) at non-singleton "+
				"dimension %d", sizeA, sizeB, dim)
		}
		if numel = mulSizes(numel, out[dim].Max(sym.Of(1))); numel.Hint() > MaxBytes {
			return nil, fmt.Errorf("shapes %s and %s broadcast to more than 2^47 elements", Sizes(a), Sizes(b))
		}
	}
	return out, nil
}

// sizeFromEnd returns element len(sizes)-k of a list of sizes, or 1 if the list is shorter. k is at least 1.
func sizeFromEnd(sizes []sym.Int, k int) sym.Int {
	if k > len(sizes) {
		return sym.Of(1)
	}
	return sizes[len(sizes)-k]
}
