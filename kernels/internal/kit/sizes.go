package kit

import (
	"math"
	"math/bits"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file has predicates and arithmetic on sizes for inference. A size may be unknown: an expression over symbols.
// Its hint is its value for assumed sizes of the symbols ([sym.Int.Hint]). If the bounds of the symbols do not decide a
// predicate, it is evaluated for the hints. The outcome is recorded as a guard. The inferred types are valid only for
// sizes that satisfy the guards.

// SizeIs reports whether a size is n.
func SizeIs(size sym.Int, n int) bool { return size.Eq(sym.Of(n)).Holds() }

// SizeAtLeast reports whether a size is n or more.
func SizeAtLeast(size sym.Int, n int) bool { return size.Ge(sym.Of(n)).Holds() }

// IsNegative reports whether a user-given size is negative.
func IsNegative(size sym.Int) bool { return size.Lt(sym.Int{}).Holds() }

// IsEmpty reports whether a value has no elements.
func IsEmpty(t tensor.Type) bool { return SizeIs(t.Numel(), 0) }

// KnownSize returns a known size as an int. It is for kernels and references, which run with known sizes.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func KnownSize(size sym.Int) int {
	n, _ := size.Known()
	return n
}

// KnownSizes returns known sizes as ints.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func KnownSizes(sizes []sym.Int) []int {
	out := make([]int, len(sizes))
	for i := range sizes {
		out[i] = KnownSize(sizes[i])
	}
	return out
}

// KnownMeta returns a type with known sizes as a meta.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func KnownMeta(t tensor.Type) tensor.Meta {
	m, _ := t.Meta()
	return m
}

// SpecializedNumber returns the value of n. For an unknown size this is the hint, and SpecializedNumber adds the guard
// that the size equals the hint.
func SpecializedNumber(n graph.NumberOrSize) tensor.Scalar {
	if n.Number.DType() == tensor.Invalid {
		return tensor.IntScalar(int64(n.Size.Specialize()))
	}
	return n.Number
}

// NumberForHints returns the value of n. For an unknown size this is the hint, without a guard. It is for kernels and
// references. They get unknown sizes only in one case: a constant is computed in advance, with the hints as sizes.
func NumberForHints(n graph.NumberOrSize) tensor.Scalar {
	if n.Number.IsSet() {
		return n.Number
	}
	return tensor.IntScalar(int64(n.Size.Hint()))
}

// SizeAtDim returns the size of a dimension, which may be unknown. It is 1 for a 0-dim value.
func SizeAtDim(t tensor.Type, dim int) sym.Int {
	if t.Rank() == 0 {
		return sym.Of(1)
	}
	return t.Shape[dim]
}

// ReplaceSizes returns a copy of sizes with sizes[first], sizes[first+1], ... set to the replacements. The copy is
// extended if necessary.
func ReplaceSizes(sizes []sym.Int, first int, replacements ...sym.Int) []sym.Int {
	out := make([]sym.Int, max(len(sizes), first+len(replacements)))
	copy(out, sizes)
	copy(out[first:], replacements)
	return out
}

// RepeatTooLarge reports whether size*repeats is known and, in magnitude, above tensor.MaxBytes.
func RepeatTooLarge(size, repeats sym.Int) bool {
	knownSize, sizeKnown := size.Known()
	knownRepeats, repeatsKnown := repeats.Known()
	if !sizeKnown || !repeatsKnown || knownSize <= 0 {
		return false
	}
	limit := tensor.MaxBytes / knownSize
	return knownRepeats > limit || knownRepeats < -limit
}

// SizeOrMissing returns the size of a dimension, or -1 if there is no such dimension. A negative dim counts from the
// end. The size is 1 for dimension 0 of a value without dimensions.
func SizeOrMissing(m tensor.Meta, dim int) int {
	dim, err := tensor.WrapDim(dim, m.Rank())
	switch {
	case err != nil:
		return -1
	case m.Rank() == 0:
		return 1
	}
	return m.Shape[dim]
}

// MaxProduct is greater than every size, stride and distance in memory. The sum of a few numbers of this magnitude does
// not overflow.
const MaxProduct = min(1<<59, math.MaxInt/4)

// BoundedProduct returns the product of nonnegative numbers, or MaxProduct if the product exceeds it.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func BoundedProduct(list ...int) int {
	product := uint64(1)
	for _, n := range list {
		hi, lo := bits.Mul64(product, uint64(n))
		if product = lo; hi != 0 || lo > MaxProduct {
			product = MaxProduct
		}
	}
	return int(product)
}

// BoundedSizeProduct returns the product of two sizes. The magnitude of a known product is at most MaxProduct.
func BoundedSizeProduct(a, b sym.Int) sym.Int {
	x, aKnown := a.Known()
	y, bKnown := b.Known()
	if !aKnown || !bKnown {
		return a.Mul(b)
	}
	product := BoundedProduct(max(x, -x), max(y, -y))
	if (x < 0) != (y < 0) {
		product = -product
	}
	return sym.Of(product)
}
