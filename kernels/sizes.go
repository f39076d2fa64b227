package kernels

import (
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file holds what inference asks of sizes, which may be unknown: what their form and bounds do not
// decide becomes a guard.

// is reports whether a size is n.
func is(s sym.Int, n int) bool { return s.Eq(sym.Of(n)).Holds() }

// atLeastSize reports whether a size is n or more.
func atLeastSize(s sym.Int, n int) bool { return s.Ge(sym.Of(n)).Holds() }

// negative reports whether a size that a user gave is none.
func negative(s sym.Int) bool { return s.Lt(sym.Int{}).Holds() }

// empty reports whether a value has no elements.
func empty(t tensor.Type) bool { return is(t.Numel(), 0) }

// numberOf returns a size where it is a number, as those are that kernels and references work on.
func numberOf(s sym.Int) int {
	n, _ := s.Known()
	return n
}

// numbersOf returns sizes as [numberOf] does.
func numbersOf(s []sym.Int) []int {
	out := make([]int, len(s))
	for i := range s {
		out[i] = numberOf(s[i])
	}
	return out
}

// ofNumbers returns a type in numbers, as [numberOf] does.
func ofNumbers(t tensor.Type) tensor.Meta {
	m, _ := t.Meta()
	return m
}

// sizeAtDim is [sizeAt] for sizes that may be unknown.
func sizeAtDim(t tensor.Type, dim int) sym.Int {
	if t.Rank() == 0 {
		return sym.Of(1)
	}
	return t.Shape[dim]
}

// with returns sizes with others in the place of those from dimension at on.
func with(sizes []sym.Int, at int, others ...sym.Int) []sym.Int {
	out := make([]sym.Int, max(len(sizes), at+len(others)))
	copy(out, sizes)
	copy(out[at:], others)
	return out
}

// tooOften reports numbers whose product no value may hold.
func tooOften(size, repeats sym.Int) bool {
	s, known := size.Known()
	r, also := repeats.Known()
	return known && also && s > 0 && (r > tensor.MaxBytes/s || r < -tensor.MaxBytes/s)
}
