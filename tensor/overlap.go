package tensor

import (
	"cmp"

	"github.com/graphrun/graphrun/internal/sorted"
)

// Overlap reports whether an element of a and an element of b share a byte. Unlike a comparison of [Tensor.Span],
// Overlap does not count the odd and the even columns of a matrix as overlapping. If irregular strides make the search
// too long, Overlap returns true. Otherwise the answer is exact. It panics where [Tensor.Span] does.
//
// For the even and the odd columns of a matrix of bytes with 4 rows of 6 columns, for example, it solves
//
//	6*i + 2*j = 1 + 6*k + 2*l    with i, k from 0 to 3 and j, l from 0 to 2
//
// which is 6*(i-k) + 2*(j-l) = 1. There is no solution, because the left side is even.
func Overlap(a, b *Tensor) bool {
	if !rangesIntersect(a, b) {
		return false
	}
	if a.IsNonOverlappingAndDense() && b.IsNonOverlappingAndDense() { // every byte of both ranges is of an element
		return true
	}
	// Solve beginA + i*stridesA + u = beginB + j*stridesB + v for the indices i and j of two elements, and for the
	// bytes u and v within these elements.
	var buf [16]term
	search := overlapSearch{terms: buf[:0]}
	sizeA, sizeB := a.DType.Size(), b.DType.Size()
	search.add(1, -(sizeB - 1), sizeA-1) // u - v, where v < sizeB and u < sizeA
	for d, n := range a.Shape {
		search.add(a.Strides[d]*sizeA, 0, n-1)
	}
	for d, n := range b.Shape {
		search.add(b.Strides[d]*sizeB, 1-n, 0)
	}
	beginA, _ := a.Span()
	beginB, _ := b.Span()
	const allowAllZero = true // elements at equal indices may share a byte, too
	return search.solve(int(beginB)-int(beginA), allowAllZero)
}

// OverlapsItself reports whether two elements share an address. If irregular strides make the search too long, it
// returns true. Otherwise the answer is exact.
func (m Meta) OverlapsItself() bool {
	m.mustMatchRanks()
	if m.Numel() == 0 || !m.mayShareAddresses() {
		return false
	}
	var buf [16]term
	search := overlapSearch{terms: buf[:0]}
	for d, n := range m.Shape {
		if n > 1 && m.Strides[d] == 0 {
			return true
		}
		search.add(m.Strides[d], 1-n, n-1)
	}
	if search.merged { // two dimensions have the same stride: their indices (1, 0) and (0, 1) share an address
		return true
	}
	const allowAllZero = false // an element does not overlap itself
	return search.solve(0, allowAllZero)
}

// overlapSearch solves sum(k*stride) = target for integers k within bounds, by branch and bound. It assigns the terms
// in order of falling stride.
type overlapSearch struct {
	terms  []term
	merged bool // whether two terms had the same stride and were merged
	steps  int
}

// term is the product k*stride with an unknown integer k from minK to maxK.
type term struct {
	stride, minK, maxK int
	minSum, maxSum     int // bounds of the sum of this term and the following terms
}

// maxSteps bounds the steps of the search. A term whose stride exceeds the sum of all smaller terms takes only one or
// two steps.
const maxSteps = 1 << 14

// add adds a term, or widens the bounds of an existing term with the same stride. A term that is always 0 is omitted.
func (s *overlapSearch) add(stride, minK, maxK int) {
	if stride == 0 || minK == 0 && maxK == 0 {
		return
	}
	for i := range s.terms {
		if t := &s.terms[i]; t.stride == stride {
			t.minK, t.maxK, s.merged = t.minK+minK, t.maxK+maxK, true
			return
		}
	}
	s.terms = append(s.terms, term{stride: stride, minK: minK, maxK: maxK})
}

// solve reports whether the terms can have the given sum. If allowAllZero is false, solve ignores the solution in which
// every k is 0.
func (s *overlapSearch) solve(sum int, allowAllZero bool) bool {
	sorted.Func(s.terms, func(a, b term) int { return cmp.Compare(b.stride, a.stride) })
	least, most := 0, 0
	for i := len(s.terms) - 1; i >= 0; i-- {
		t := &s.terms[i]
		least, most = least+t.minK*t.stride, most+t.maxK*t.stride
		t.minSum, t.maxSum = least, most
	}
	return s.solveFrom(0, sum, allowAllZero)
}

// solveFrom is solve for terms[i:].
func (s *overlapSearch) solveFrom(i, sum int, allowAllZero bool) bool {
	if i == len(s.terms) {
		return sum == 0 && allowAllZero
	}
	if s.steps++; s.steps > maxSteps {
		return true // the search is too long
	}
	t := &s.terms[i]
	least, most := t.minSum-t.minK*t.stride, t.maxSum-t.maxK*t.stride // bounds of the sum of terms[i+1:]
	// The rest sum-k*stride must be from least to most: k is at least (sum-most)/stride, rounded up, and at most
	// (sum-least)/stride, rounded down.
	firstK := max(t.minK, -floorDiv(most-sum, t.stride)) // -floor(-x) rounds x up
	lastK := min(t.maxK, floorDiv(sum-least, t.stride))
	for k := firstK; k <= lastK; k++ {
		if s.solveFrom(i+1, sum-k*t.stride, allowAllZero || k != 0) {
			return true
		}
	}
	return false
}

// floorDiv returns a/b rounded down; b must be positive.
func floorDiv(a, b int) int {
	quotient := a / b
	if a%b < 0 {
		quotient--
	}
	return quotient
}
