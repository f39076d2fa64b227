package rule

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// Overlap is the relation between the memory of two values, or between the elements of one value.
type Overlap uint8

// OverlapFull means that both values have the same elements at the same addresses. OverlapPartial means that they share
// memory in another way. OverlapTooHard means that the search for a common address was abandoned.
const (
	OverlapNo Overlap = iota
	OverlapPartial
	OverlapFull
	OverlapTooHard
)

const (
	internalOverlapMessage = "unsupported operation: more than one element of the written-to tensor refers to a single " +
		"memory location. Please clone() the tensor before performing the operation."
	// PartialOverlapMessage is PyTorch's error for an output that overlaps another operand.
	PartialOverlapMessage = "unsupported operation: some elements of the input tensor and the written-to tensor refer " +
		"to a single memory location. Please clone() the tensor before performing the operation."
)

// checkOverlap rejects defined outputs that overlap themselves or, partially, an input (PyTorch's
// compute_mem_overlaps). Unlike PyTorch, it also rejects two outputs that overlap partially, because their contents
// would depend on the order of the iteration. Operands for which the search was abandoned (OverlapTooHard) are
// accepted.
func (r *Rule) checkOverlap() error {
	if r.flags.noOverlapCheck {
		return nil
	}
	for i := range r.outCount {
		out := &r.operands[i]
		if !out.Defined || out.Operand.meta == nil {
			continue // only the type is known, not the memory
		}
		if InternalOverlap(*out.Operand.meta) == OverlapPartial {
			return fmt.Errorf("%s (%s)", internalOverlapMessage, r.Describe(i))
		}
		for j := i + 1; j < len(r.operands); j++ {
			other := &r.operands[j]
			isSameTensor := other.source != nil && other.source == out.source // an operation in place
			if !other.Defined || other.Operand.meta == nil || isSameTensor {
				continue
			}
			if StorageOverlap(out.Storage, *out.Operand.meta, other.Storage, *other.Operand.meta) == OverlapPartial {
				return fmt.Errorf("%s (%s, and %s)", PartialOverlapMessage, r.Describe(i), r.Describe(j))
			}
		}
	}
	return nil
}

// StorageOverlap is [OverlapOf] for values with known storages. Two storages may share bytes, so that values in
// different storages can overlap, too.
func StorageOverlap(storageA *tensor.Storage, a tensor.Meta, storageB *tensor.Storage, b tensor.Meta) Overlap {
	if storageA == nil || storageB == nil || storageA.Len() == 0 || storageB.Len() == 0 {
		return OverlapNo
	}
	if storageA == storageB {
		return overlapAt(a, b, 0)
	}
	addressA := uintptr(unsafe.Pointer(unsafe.SliceData(storageA.Bytes())))
	addressB := uintptr(unsafe.Pointer(unsafe.SliceData(storageB.Bytes())))
	if addressA+uintptr(storageA.Len()) <= addressB || addressB+uintptr(storageB.Len()) <= addressA {
		return OverlapNo
	}
	return overlapAt(a, b, int(addressB-addressA))
}

// InternalOverlap reports whether two elements of a value share memory: OverlapNo, OverlapPartial, or OverlapTooHard if
// the search was abandoned.
//
// A dimension of stride 0 and size above 1 means overlap, as in at::has_internal_overlap. PyTorch does not search for
// overlap with other strides; InternalOverlap does, and its result is exact unless the search is abandoned.
func InternalOverlap(meta tensor.Meta) Overlap {
	if meta.Numel() <= 1 || meta.IsNonOverlappingAndDense() {
		return OverlapNo
	}
	// Two elements have the same address if sum(x*stride) = 0 for index differences x that are not all zero. A
	// difference x is between -(size-1) and size-1. The solver needs nonnegative variables, so y = x + size-1 replaces
	// x: sum(y*stride) = sum((size-1)*stride). The solution x = 0 is y = size-1; it is trivial and does not count.
	var terms []term
	target := 0
	for d, size := range meta.Shape {
		if size == 1 {
			continue
		}
		if meta.Strides[d] == 0 {
			return OverlapPartial
		}
		terms = append(terms, term{coef: meta.Strides[d], maxValue: 2 * (size - 1), trivialValue: size - 1})
		target += meta.Strides[d] * (size - 1)
	}
	const excludeTrivial = true
	return findSolution(terms, target, excludeTrivial)
}

// OverlapOf returns the overlap of two values in the same storage, like at::get_overlap_status of PyTorch 1.13. Two
// dense values without internal overlap are OverlapFull only if they have the same bytes and all their strides are
// equal, even in dimensions of size 1. A square and its transpose, or x of shape [1, n] and x[0], are OverlapPartial.
//
// OverlapOf differs from PyTorch in two points. PyTorch gives no answer for values that are not dense. Here, such
// values are OverlapFull if each element has the same address in both values, and OverlapPartial if they share other
// memory. Values with the same bytes and different element sizes are OverlapPartial regardless of strides, because
// operands are converted during the iteration, not before.
func OverlapOf(a, b tensor.Meta) Overlap { return overlapAt(a, b, 0) }

// overlapAt is OverlapOf for b in a storage that starts shift bytes after the storage of a.
func overlapAt(a, b tensor.Meta, shift int) Overlap {
	if a.Numel() == 0 || b.Numel() == 0 {
		return OverlapNo
	}
	sizeA, sizeB := a.DType.Size(), b.DType.Size()
	beginA, beginB := a.Offset*sizeA, b.Offset*sizeB+shift
	endA, endB := a.Extent()*sizeA, b.Extent()*sizeB+shift
	if endA <= beginB || endB <= beginA {
		return OverlapNo
	}
	if a.IsNonOverlappingAndDense() && b.IsNonOverlappingAndDense() {
		if beginA == beginB && endA == endB && sizeA == sizeB && slices.Equal(a.Strides, b.Strides) {
			return OverlapFull
		}
		return OverlapPartial
	}
	if beginA == beginB && sizeA == sizeB && sameElements(a, b) {
		return OverlapFull
	}
	return sharedBytes(a, b, beginB-beginA)
}

// sharedBytes returns OverlapPartial if two values share a byte, OverlapNo if they share none, and OverlapTooHard if
// the search was abandoned. The first element of b is distance bytes after the first element of a.
func sharedBytes(a, b tensor.Meta, distance int) Overlap {
	// The values share a byte if sum(i*strideA) + u = distance + sum(j*strideB) + v for indices i and j, and bytes u
	// and v of the elements (strides in bytes). The solver needs positive signs, so the distances j' and v' from the
	// maxima replace j and v: j = size-1-j' and v = sizeB-1-v'. With w = u + v', the equation is
	//
	//	sum(i*strideA) + sum(j'*strideB) + w = distance + sizeB-1 + sum((size-1)*strideB)
	sizeA, sizeB := a.DType.Size(), b.DType.Size()
	terms := []term{{coef: 1, maxValue: sizeA - 1 + sizeB - 1}} // w
	target := distance + sizeB - 1
	for d, size := range a.Shape {
		terms = append(terms, term{coef: a.Strides[d] * sizeA, maxValue: size - 1})
	}
	for d, size := range b.Shape {
		terms = append(terms, term{coef: b.Strides[d] * sizeB, maxValue: size - 1})
		target += b.Strides[d] * sizeB * (size - 1)
	}
	const excludeTrivial = false
	return findSolution(terms, target, excludeTrivial)
}

// sameElements reports whether two values have the same sizes and strides, apart from dimensions of size 1.
func sameElements(a, b tensor.Meta) bool {
	dimB := 0
	for dimA, size := range a.Shape {
		if size == 1 {
			continue
		}
		for dimB < len(b.Shape) && b.Shape[dimB] == 1 {
			dimB++
		}
		if dimB == len(b.Shape) || b.Shape[dimB] != size || b.Strides[dimB] != a.Strides[dimA] {
			return false
		}
		dimB++
	}
	for ; dimB < len(b.Shape); dimB++ {
		if b.Shape[dimB] != 1 {
			return false
		}
	}
	return true
}

// term is a variable x of a linear equation over bounded integers.
type term struct {
	coef         int // coefficient of x
	maxValue     int // maximum of x; the minimum is 0
	trivialValue int // value of x in the trivial solution, which compares an element with itself: see InternalOverlap
}

// findSolution returns OverlapPartial if sum(coef*x) = target has a solution within the bounds, and OverlapNo if it has
// none. If excludeTrivial is set, the trivial solution does not count. For example, 12*x + 4*y = 20 with x <= 1 and
// y <= 3 has the solution x = 1, y = 2.
func findSolution(terms []term, target int, excludeTrivial bool) Overlap {
	terms = slices.DeleteFunc(terms, func(variable term) bool { return variable.maxValue == 0 || variable.coef == 0 })
	sorted.Func(terms, func(a, b term) int { return b.coef - a.coef })
	count := len(terms)
	s := solver{terms: terms, excludeTrivial: excludeTrivial, budget: maxSearchNodes,
		maxRemaining: make([]int, count+1), divisors: make([]int, count+1)}
	for k := count - 1; k >= 0; k-- {
		s.maxRemaining[k] = s.maxRemaining[k+1] + terms[k].coef*terms[k].maxValue
		s.divisors[k] = gcd(terms[k].coef, s.divisors[k+1])
	}
	const isTrivial = true // no variable has a value yet
	switch found := s.search(0, target, isTrivial); {
	case found:
		return OverlapPartial
	case s.budget < 0:
		return OverlapTooHard
	}
	return OverlapNo
}

// maxSearchNodes is the maximum number of nodes of the search tree in findSolution.
const maxSearchNodes = 1 << 16

// solver is the search of findSolution. It assigns variables in descending order of coefficients and prunes by the
// range of the remaining sum, like numpy's solve_diophantine.
type solver struct {
	terms          []term
	excludeTrivial bool
	maxRemaining   []int // maxRemaining[k] is the maximum sum of the terms from k on
	divisors       []int // the sum of the terms from k on is a multiple of divisors[k]
	budget         int   // number of nodes that may still be searched; negative if the search was abandoned
}

// search assigns values to the terms from k on, whose sum must be remainingSum. isTrivial is true if all values so far
// are the values of the trivial solution. It returns true if it finds a solution.
func (s *solver) search(k, remainingSum int, isTrivial bool) bool {
	if s.budget--; s.budget < 0 {
		return false
	}
	if k == len(s.terms) {
		return remainingSum == 0 && !(isTrivial && s.excludeTrivial)
	}
	if remainingSum < 0 || remainingSum > s.maxRemaining[k] || remainingSum%s.divisors[k] != 0 {
		return false
	}
	variable := s.terms[k]
	// The later terms sum to at most maxRemaining[k+1], so x*coef must be at least remainingSum - maxRemaining[k+1].
	// The quotient is rounded up.
	minX := max(0, (remainingSum-s.maxRemaining[k+1]+variable.coef-1)/variable.coef)
	for x := min(variable.maxValue, remainingSum/variable.coef); x >= minX; x-- {
		if s.search(k+1, remainingSum-x*variable.coef, isTrivial && x == variable.trivialValue) {
			return true
		}
	}
	return false
}

// gcd returns the greatest common divisor.
func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
