package graph

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file finds the slice of a concatenation's result that belongs to each operand. Passes can write an operand
// directly into its slice. For example, a of shape [2, 3] and b of shape [2, 2] are concatenated along dimension 1. The
// result and its slices have the strides [5, 1]. The slices have the offsets 0 and 3:
//
//	a a a b b
//	a a a b b

// Places returns the slice of the result that contains each operand, if the node concatenates its operands
// ([Op.ConcatDim]). For other nodes it returns nil. An operand whose rank differs from the result's rank has no
// elements; its Type is zero.
func (n *Node) Places() []tensor.Type {
	if n == nil || len(n.Out) == 0 {
		return nil
	}
	return n.PlacesIn(n.Out[0].Type)
}

// PlacesIn returns the slices as [Node.Places] does, for a result of type out. This type must have the shape of the
// node's result, but may have other strides and another offset.
func (n *Node) PlacesIn(out tensor.Type) []tensor.Type {
	dim, ok := n.concatDim()
	if !ok || len(out.Shape) != n.Out[0].Meta.Rank() {
		return nil
	}
	rank := len(out.Shape)
	start := sym.Int{} // first index of the next slice in dim: the sum of the sizes of earlier operands
	places := make([]tensor.Type, len(n.In))
	shapes := make([]sym.Int, rank*len(n.In)) // memory of all Shapes
	for i, arg := range n.In {
		operand := arg.Type()
		if len(operand.Shape) != rank {
			continue // an operand without elements: see concatDim
		}
		places[i] = out
		places[i].Shape, shapes = shapes[:rank:rank], shapes[rank:]
		copy(places[i].Shape, out.Shape)
		places[i].Shape[dim] = operand.Shape[dim]
		places[i].Offset = out.Offset.Add(start.Mul(out.Strides[dim]))
		start = start.Add(operand.Shape[dim])
	}
	return places
}

// concatDim returns the dimension along which the node concatenates its operands. It returns false if the node does not
// concatenate.
func (n *Node) concatDim() (dim int, ok bool) {
	if n == nil || n.Op == nil || n.Op.ConcatDim == nil {
		return 0, false
	}
	if len(n.Out) != 1 || n.Out[0].Alias != nil { // a view copies nothing
		return 0, false
	}
	rank := n.Out[0].Meta.Rank()
	dim, ok = n.Op.ConcatDim(&Call{In: n.In, Attrs: n.Attrs})
	if dim < 0 {
		dim += rank
	}
	hasMismatch := slices.ContainsFunc(n.In, func(a Arg) bool {
		return a.Kind != TensorArg || a.Meta().Rank() != rank && a.Meta().Numel() > 0
	})
	return dim, ok && dim >= 0 && dim < rank && !hasMismatch
}

// operandsInPlace marks the operands that are already in place. The node that computes such an operand writes it to its
// slice of this node's result, so this node need not copy it. It returns nil if the node does not concatenate, or if no
// operand is in place.
func (n *Node) operandsInPlace() []bool {
	if len(n.Out) == 1 && n.Out[0].ContainedIn != nil && n.Out[0].isStored() {
		return []bool{true}
	}
	if n.Op == nil || n.Op.ConcatDim == nil || len(n.Out) == 0 {
		return nil
	}
	owner := n.Out[0].BufferOwner() // the value whose memory contains the result
	// Check quickly, before the places are computed, whether an operand is stored in the memory of the result.
	if !slices.ContainsFunc(n.In, func(a Arg) bool {
		return a.Kind == TensorArg && a.Value.ContainedIn != nil && a.Value.BufferOwner() == owner
	}) {
		return nil
	}
	places := n.Places()
	if places == nil {
		return nil
	}
	marks := make([]bool, len(n.In))
	for i, arg := range n.In {
		if places[i].Shape == nil {
			continue // an operand without elements: see Places
		}
		place, _ := places[i].Meta()
		isStoredInResult := arg.Value.Alias == nil && arg.Value.BufferOwner() == owner
		marks[i] = isStoredInResult && isSameSlice(arg.Value.Meta, place)
	}
	return marks
}

// isSameSlice reports whether the elements of a value have the same addresses as a slice of a result. It returns false
// for a value without elements.
func isSameSlice(meta, slice tensor.Meta) bool {
	return meta.DType == slice.DType && meta.Numel() > 0 && meta.Offset == slice.Offset && meta.SameAddresses(slice)
}

// checkContainedIn checks that a value is a slice of its ContainedIn, which must be the result of a
// concatenation. A value without ContainedIn passes.
func (v *Value) checkContainedIn() error {
	whole := v.ContainedIn
	switch {
	case whole == nil:
		return nil
	case v.isStored():
		return v.checkStored()
	case v.Alias != nil || v.Node == nil:
		return fmt.Errorf("value %q is within %q, but is a view or not the result of a node", v.Name, whole.Name)
	case whole.graph != v.graph || whole.Alias != nil || whole.Node == nil || whole.Node.Op.ConcatDim == nil:
		return fmt.Errorf("value %q is within %q, which is not the result of a concatenation", v.Name, whole.Name)
	case v.Meta.DType != whole.Meta.DType || v.Meta.Rank() != whole.Meta.Rank():
		return fmt.Errorf("value %q, %v, is within %q, %v", v.Name, v.Meta, whole.Name, whole.Meta)
	}
	if _, _, ok := v.sliceRanges(whole); !ok {
		return fmt.Errorf("value %q, %v at %d, is not a slice of %q, %v at %d", v.Name, v.Meta, v.Meta.Offset, whole.Name,
			whole.Meta, whole.Meta.Offset)
	}
	return nil
}

// isStored reports whether a node with [Facts.Stores] computes the value.
func (v *Value) isStored() bool { return v.Node != nil && v.Node.Op != nil && v.Node.Op.Stores }

// checkStored checks that the value of an op that Stores is in the memory of operand 0, an input.
func (v *Value) checkStored() error {
	whole, operand := v.ContainedIn, v.Node.In[0].Value
	isInput := whole == operand && whole.Node == nil && whole.Const == nil
	if !isInput || v.Alias != nil || v.Meta.DType != whole.Meta.DType || v.Meta.Offset != whole.Meta.Offset ||
		!slices.Equal(v.Meta.Strides, whole.Meta.Strides) {
		return fmt.Errorf("value %q, %v, is not in the memory of input %q, %v", v.Name, v.Meta, whole.Name, whole.Meta)
	}
	return nil
}

// sliceRanges returns the range of indices that value v contains in each dimension of `whole`. first is inclusive, and
// end is exclusive. It returns false if v is not a slice of `whole`.
func (v *Value) sliceRanges(whole *Value) (first, end []int, ok bool) {
	return sliceRangesOf(v.Meta, whole.Meta)
}

// sliceRangesOf returns the ranges as sliceRanges does. Its arguments are the metas of the two values.
func sliceRangesOf(meta, whole tensor.Meta) (first, end []int, ok bool) {
	offset := meta.Offset - whole.Offset
	first, end = make([]int, meta.Rank()), make([]int, meta.Rank())
	dims := make([]int, 0, meta.Rank())
	for dim := range meta.Shape {
		dims = append(dims, dim)
	}
	sorted.Func(dims, func(a, b int) int { return whole.Strides[b] - whole.Strides[a] })
	// offset is the sum of first[dim]*Strides[dim]. The indices are found from the largest stride to the smallest.
	for _, dim := range dims {
		if whole.Shape[dim] > 1 && whole.Strides[dim] > 0 && offset > 0 {
			first[dim] = offset / whole.Strides[dim]
			offset %= whole.Strides[dim]
		}
		end[dim] = first[dim] + meta.Shape[dim]
		if end[dim] > whole.Shape[dim] || meta.Shape[dim] > 1 && meta.Strides[dim] != whole.Strides[dim] {
			return nil, nil, false
		}
	}
	return first, end, offset == 0
}

// checkConcatMemory checks that no element in the memory of a concatenation's result is written twice. Writers are the
// nodes with results in this memory, and concatenations that copy operands into it.
func (v *verifier) checkConcatMemory() {
	memory := concatMemory{verifier: v, writes: map[*Value][]sliceWrite{}}
	sharedConcats := map[*Value]bool{} // the results of concatenations into whose memory other nodes write
	for _, n := range v.graph.Nodes {
		for _, result := range n.Out {
			if result.ContainedIn != nil {
				sharedConcats[result.BufferOwner()] = true
			}
		}
	}
	for _, n := range v.graph.Nodes {
		places := n.Places()
		for _, result := range n.Out {
			switch owner := result.BufferOwner(); {
			case result.Alias != nil || !sharedConcats[owner]: // a view, or memory with a single writer
			case places == nil:
				memory.addWrite(n, owner, result.Meta)
			default: // a concatenation writes the operands that are not in place
				inPlace := n.operandsInPlace()
				for i := range n.In {
					place, _ := places[i].Meta()
					hasPlace := places[i].Shape != nil
					if hasPlace && (inPlace == nil || !inPlace[i]) {
						memory.addWrite(n, owner, place)
					}
				}
			}
		}
	}
}

// concatMemory has the writes to the memory of concatenations, by the owner of the memory.
type concatMemory struct {
	*verifier
	writes map[*Value][]sliceWrite
}

// sliceWrite is a slice that a node writes: in each dimension, the indices from first up to but not including end.
type sliceWrite struct {
	writer     *Node
	first, end []int
}

// overlaps reports whether two writes have elements in common: their ranges intersect in every dimension.
func (w sliceWrite) overlaps(other sliceWrite) bool {
	for dim := range w.first {
		if w.end[dim] <= other.first[dim] || other.end[dim] <= w.first[dim] {
			return false
		}
	}
	return true
}

// addWrite records that n writes the slice of the owner's memory with the given layout. If the write overlaps an
// earlier write, addWrite reports an error.
func (m concatMemory) addWrite(n *Node, owner *Value, slice tensor.Meta) {
	first, end, ok := sliceRangesOf(slice, owner.Meta)
	if !ok || slice.Numel() == 0 { // checkContainedIn reports a value that is not a slice
		return
	}
	write := sliceWrite{writer: n, first: first, end: end}
	for _, earlier := range m.writes[owner] {
		if write.overlaps(earlier) {
			m.fail(n, "it writes elements of %q that %s also writes", owner.Name, earlier.writer.Name)
		}
	}
	m.writes[owner] = append(m.writes[owner], write)
}
