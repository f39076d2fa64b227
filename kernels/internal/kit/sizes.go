package kit

import (
	"math"
	"math/bits"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file holds what inference asks of sizes, which may be unknown: what their form and bounds do not
// decide becomes a guard.

// Is reports whether a size is n.
func Is(s sym.Int, n int) bool { return s.Eq(sym.Of(n)).Holds() }

// AtLeastSize reports whether a size is n or more.
func AtLeastSize(s sym.Int, n int) bool { return s.Ge(sym.Of(n)).Holds() }

// Negative reports whether a size that a user gave is none.
func Negative(s sym.Int) bool { return s.Lt(sym.Int{}).Holds() }

// Empty reports whether a value has no elements.
func Empty(t tensor.Type) bool { return Is(t.Numel(), 0) }

// NumberOf returns a size where it is a number, as those are that kernels and references work on.
func NumberOf(s sym.Int) int {
	n, _ := s.Known()
	return n
}

// NumbersOf returns sizes as [NumberOf] does.
func NumbersOf(s []sym.Int) []int {
	out := make([]int, len(s))
	for i := range s {
		out[i] = NumberOf(s[i])
	}
	return out
}

// OfNumbers returns a type in numbers, as [NumberOf] does.
func OfNumbers(t tensor.Type) tensor.Meta {
	m, _ := t.Meta()
	return m
}

// NumberOrHint returns a number. A size that is not known is bound to its hint by a guard.
func NumberOrHint(n graph.NumberOrSize) tensor.Scalar {
	if n.Number.DType() == tensor.Invalid {
		return tensor.IntScalar(int64(n.Size.Specialize()))
	}
	return n.Number
}

// NumberAtHint returns a number, or what a size that is not known is at its hint. Nothing is bound: it is for kernels
// and references, which are asked for values of unknown sizes only where constants fold, and then for those at the
// hints.
func NumberAtHint(n graph.NumberOrSize) tensor.Scalar {
	if n.Number.IsSet() {
		return n.Number
	}
	return tensor.IntScalar(int64(n.Size.Hint()))
}

// SizeAtDim is [index.sizeAt] for sizes that may be unknown.
func SizeAtDim(t tensor.Type, dim int) sym.Int {
	if t.Rank() == 0 {
		return sym.Of(1)
	}
	return t.Shape[dim]
}

// With returns sizes with others in the place of those from dimension at on.
func With(sizes []sym.Int, at int, others ...sym.Int) []sym.Int {
	out := make([]sym.Int, max(len(sizes), at+len(others)))
	copy(out, sizes)
	copy(out[at:], others)
	return out
}

// TooOften reports numbers whose product no value may hold.
func TooOften(size, repeats sym.Int) bool {
	s, known := size.Known()
	r, also := repeats.Known()
	return known && also && s > 0 && (r > tensor.MaxBytes/s || r < -tensor.MaxBytes/s)
}

// SizeOf is a size from the front or, for a negative dim, the back; 1 for a value without
// dimensions, which index 0 names, and -1 where there is no such dimension.
func SizeOf(m tensor.Meta, dim int) int {
	dim, err := tensor.WrapDim(dim, m.Rank())
	switch {
	case err != nil:
		return -1
	case m.Rank() == 0:
		return 1
	}
	return m.Shape[dim]
}

// Huge is greater than every size, stride and distance, and several of it can be added without overflow.
const Huge = min(1<<59, math.MaxInt/4)

// Times is a product of numbers that are not negative. A product of Huge or more is Huge.
func Times(list ...int) int {
	product := uint64(1)
	for _, n := range list {
		hi, lo := bits.Mul64(product, uint64(n))
		if product = lo; hi != 0 || lo > Huge {
			product = Huge
		}
	}
	return int(product)
}

// TimesSizes is the product of two sizes. A product of numbers whose magnitude is Huge or more is Huge, with its sign.
func TimesSizes(a, b sym.Int) sym.Int {
	x, known := a.Known()
	y, also := b.Known()
	if !known || !also {
		return a.Mul(b)
	}
	product := Times(max(x, -x), max(y, -y))
	if (x < 0) != (y < 0) {
		product = -product
	}
	return sym.Of(product)
}
