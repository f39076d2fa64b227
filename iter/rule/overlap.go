package rule

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// Overlap is the relation between the memory of two values, or of the elements of one.
type Overlap uint8

// OverlapFull means the same elements at the same addresses; OverlapTooHard means that the search was abandoned.
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

// checkOverlap rejects given outputs that overlap themselves or, partially, an input (compute_mem_overlaps). Two
// outputs that overlap partially are rejected too, unlike in PyTorch: their contents would depend on the order of the
// walk.
func (r *Rule) checkOverlap() error {
	if r.flags.noOverlapCheck {
		return nil
	}
	for i := range r.noutputs {
		out := &r.ops[i]
		if !out.Defined || out.Operand.meta == nil {
			continue // only the type is known, not the memory
		}
		if InternalOverlap(*out.Operand.meta) == OverlapPartial {
			return fmt.Errorf("%s (%s)", internalOverlapMessage, r.Describe(i))
		}
		for j := i + 1; j < len(r.ops); j++ {
			o := &r.ops[j]
			if !o.Defined || o.Operand.meta == nil || o.object != nil && o.object == out.object {
				continue
			}
			if StorageOverlap(out.Storage, *out.Operand.meta, o.Storage, *o.Operand.meta) == OverlapPartial {
				return fmt.Errorf("%s (%s, and %s)", PartialOverlapMessage, r.Describe(i), r.Describe(j))
			}
		}
	}
	return nil
}

// StorageOverlap is [OverlapOf] for values with known storages. Different storages over the same bytes overlap too.
func StorageOverlap(sa *tensor.Storage, a tensor.Meta, sb *tensor.Storage, b tensor.Meta) Overlap {
	if sa == nil || sb == nil || sa.Len() == 0 || sb.Len() == 0 {
		return OverlapNo
	}
	if sa == sb {
		return overlapAt(a, b, 0)
	}
	pa := uintptr(unsafe.Pointer(unsafe.SliceData(sa.Bytes())))
	pb := uintptr(unsafe.Pointer(unsafe.SliceData(sb.Bytes())))
	if pa+uintptr(sa.Len()) <= pb || pb+uintptr(sb.Len()) <= pa {
		return OverlapNo
	}
	return overlapAt(a, b, int(pb-pa))
}

// InternalOverlap reports whether two elements of a value share memory: OverlapNo, OverlapPartial, or OverlapTooHard if
// the search was abandoned.
//
// A dimension of stride 0 and size over 1 means overlap, as in at::has_internal_overlap; where PyTorch gives up, the
// answer is exact except for contrived strides.
func InternalOverlap(m tensor.Meta) Overlap {
	if m.Numel() <= 1 || m.IsNonOverlappingAndDense() {
		return OverlapNo
	}
	// Two elements coincide if sum(d*stride) = 0 for index differences d, not all zero. With y = d + size-1 all terms are
	// nonnegative: sum(y*stride) = sum((size-1)*stride).
	var terms []term
	target := 0
	for d, s := range m.Shape {
		if s == 1 {
			continue
		}
		if m.Strides[d] == 0 {
			return OverlapPartial
		}
		terms = append(terms, term{m.Strides[d], 2 * (s - 1), s - 1})
		target += m.Strides[d] * (s - 1)
	}
	return solve(terms, target, true)
}

// OverlapOf returns how two values in the same storage overlap, like at::get_overlap_status of PyTorch 1.13: among
// non-overlapping dense values only the same bytes with equal strides, including those of dimensions of size 1, are
// OverlapFull; a transposed square, or x[0] and x of shape [1, n], is OverlapPartial.
//
// There are two differences. Where PyTorch gives up because a value is not dense, OverlapFull means element for
// element, and all other sharing is found exactly and is OverlapPartial. Values of the same bytes with elements of
// different sizes are OverlapPartial regardless of strides, because operands are converted during the walk, not before.
func OverlapOf(a, b tensor.Meta) Overlap { return overlapAt(a, b, 0) }

// overlapAt is OverlapOf for b in a storage that starts shift bytes after that of a.
func overlapAt(a, b tensor.Meta, shift int) Overlap {
	if a.Numel() == 0 || b.Numel() == 0 {
		return OverlapNo
	}
	sa, sb := a.DType.Size(), b.DType.Size()
	a0, b0 := a.Offset*sa, b.Offset*sb+shift
	a1, b1 := a.Extent()*sa, b.Extent()*sb+shift
	if a1 <= b0 || b1 <= a0 {
		return OverlapNo
	}
	if a.IsNonOverlappingAndDense() && b.IsNonOverlappingAndDense() {
		if a0 == b0 && a1 == b1 && sa == sb && slices.Equal(a.Strides, b.Strides) {
			return OverlapFull
		}
		return OverlapPartial
	}
	if a0 == b0 && sa == sb && sameElements(a, b) {
		return OverlapFull
	}
	// a0 + sum(i*stride) + u = b0 + sum(j*stride) + v for bytes u and v of the elements. With j and v counted from their
	// ends all terms are nonnegative.
	terms := []term{{1, sa - 1 + sb - 1, -1}}
	target := b0 - a0 + sb - 1
	for d, s := range a.Shape {
		terms = append(terms, term{a.Strides[d] * sa, s - 1, -1})
	}
	for d, s := range b.Shape {
		terms = append(terms, term{b.Strides[d] * sb, s - 1, -1})
		target += b.Strides[d] * sb * (s - 1)
	}
	return solve(terms, target, false)
}

// sameElements reports whether two values have the same elements in the same order; dimensions of size 1 do not count.
func sameElements(a, b tensor.Meta) bool {
	k := 0
	for d, n := range a.Shape {
		if n == 1 {
			continue
		}
		for k < len(b.Shape) && b.Shape[k] == 1 {
			k++
		}
		if k == len(b.Shape) || b.Shape[k] != n || b.Strides[k] != a.Strides[d] {
			return false
		}
		k++
	}
	for ; k < len(b.Shape); k++ {
		if b.Shape[k] != 1 {
			return false
		}
	}
	return true
}

// term is a variable of a bounded linear equation: 0 <= x <= most, with a coefficient. trivial is its value in the
// trivial solution.
type term struct{ coef, most, trivial int }

// solveLimit bounds the nodes of the search.
const solveLimit = 1 << 16

// solve reports whether sum(coef*x) = target has a solution within the bounds, other than the trivial one if notTrivial
// is set: OverlapPartial or OverlapNo. It searches in descending order of coefficients and prunes by the range of the
// remaining sum, like numpy's solve_diophantine.
func solve(terms []term, target int, notTrivial bool) Overlap {
	terms = slices.DeleteFunc(terms, func(t term) bool { return t.most == 0 || t.coef == 0 })
	slices.SortFunc(terms, func(a, b term) int { return b.coef - a.coef })
	n := len(terms)
	reach, div := make([]int, n+1), make([]int, n+1)
	for k := n - 1; k >= 0; k-- {
		reach[k] = reach[k+1] + terms[k].coef*terms[k].most
		div[k] = gcd(terms[k].coef, div[k+1])
	}
	budget := solveLimit
	var search func(k, rest int, trivial bool) bool
	search = func(k, rest int, trivial bool) bool {
		if budget--; budget < 0 {
			return false
		}
		if k == n {
			return rest == 0 && !(trivial && notTrivial)
		}
		if rest < 0 || rest > reach[k] || rest%div[k] != 0 {
			return false
		}
		t := terms[k]
		lo := max(0, (rest-reach[k+1]+t.coef-1)/t.coef)
		for x := min(t.most, rest/t.coef); x >= lo; x-- {
			if search(k+1, rest-x*t.coef, trivial && x == t.trivial) {
				return true
			}
		}
		return false
	}
	switch found := search(0, target, true); {
	case found:
		return OverlapPartial
	case budget < 0:
		return OverlapTooHard
	}
	return OverlapNo
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
