package onnx

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// members returns the members of the sequence operand i, which must be known during the import.
func (n *node) members(i int) []*val {
	if n.sequence(i).packed != nil {
		n.failf("a sequence of unknown length is not supported")
	}
	return n.in[i].members
}

// sequence returns operand i, which must be a sequence.
func (n *node) sequence(i int) *val {
	if !n.hasOperand(i) {
		n.failf("operand %d is missing", i)
	}
	if n.in[i].kind != sequenceKind {
		n.failf("operand %d must be a sequence", i)
	}
	return n.in[i]
}

// packedOperand returns the sequence operand i as a pair of tensors if its members are unknown during the import, or if
// a position in the sequence is unknown. It returns nil if both are known. position is the index of the operand that
// has the position.
func (n *node) packedOperand(i, position int) *packedSequence {
	x := n.sequence(i)
	if x.packed == nil && (position < 0 || !n.hasOperand(position) || n.operand(position).data != nil) {
		return nil
	}
	return n.packedOf(x, -1)
}

// sequencePosition returns operand i, a position in a sequence with `length` members. A negative position counts from
// the end. If pastEnd is true, the position after the last member is allowed.
func (n *node) sequencePosition(i, length int, pastEnd bool) int {
	position := int(n.number(n.operand(i)).Int())
	last := length - 1
	if pastEnd {
		last++
	}
	if position < 0 {
		position += length
	}
	if position < 0 || position > last {
		n.failf("position %d is outside a sequence of %d members", position, length)
	}
	return position
}

func sequenceConstruct(n *node) []*val {
	var list []*val
	for i := range n.in {
		list = append(list, n.operand(i))
	}
	return one(sequence(list))
}

func sequenceEmpty(n *node) []*val {
	x := sequence(nil)
	x.memberDType = n.dtypeAttr("dtype")
	return one(x)
}

func sequenceAt(n *node) []*val {
	if p := n.packedOperand(0, 1); p != nil {
		return one(n.packedMember(p, n.scalarOperand(1)))
	}
	list := n.members(0)
	return one(list[n.sequencePosition(1, len(list), false)])
}

func sequenceInsert(n *node) []*val {
	if p := n.packedOperand(0, 2); p != nil {
		return one(n.packedInsert(p, n.operand(1)).val())
	}
	list := n.members(0)
	position := len(list)
	if n.hasOperand(2) {
		position = n.sequencePosition(2, len(list), true)
	}
	return one(sequence(slices.Insert(slices.Clone(list), position, n.operand(1))))
}

func sequenceErase(n *node) []*val {
	if p := n.packedOperand(0, 1); p != nil {
		return one(n.packedErase(p).val())
	}
	list := n.members(0)
	position := len(list) - 1
	if n.hasOperand(1) {
		position = n.sequencePosition(1, len(list), false)
	}
	if position < 0 {
		n.failf("the sequence is empty")
	}
	return one(sequence(slices.Delete(slices.Clone(list), position, position+1)))
}

func sequenceLength(n *node) []*val {
	if p := n.sequence(0).packed; p != nil {
		return one(n.length(p))
	}
	return one(constValue(tensor.Must(tensor.FromSlice([]int64{int64(len(n.members(0)))}))))
}

func splitToSequence(n *node) []*val {
	x := n.operand(0)
	shape := n.symShape(x)
	axis := n.axis(n.int("axis", 0), len(shape))
	if len(shape) == 0 {
		n.failf("a value without dimensions cannot be split")
	}
	var sizes []int
	drop := false
	switch parts := n.operandOrNil(1); {
	case parts == nil:
		if length := n.sizes(x)[axis]; length < 0 || length > maxUnrolled {
			return one(n.packedSplit(x, axis, n.flag("keepdims", true)).val())
		}
		length := n.knownSize(x, axis)
		sizes = slices.Repeat([]int{1}, length)
		drop = !n.flag("keepdims", true)
	case parts.data != nil && parts.data.Rank() == 0:
		size, length := n.list(1)[0], n.knownSize(x, axis)
		if size < 1 || length/size > maxUnrolled {
			n.failf("parts of %d elements are not supported", size)
		}
		for remaining := length; remaining > 0; remaining -= size {
			sizes = append(sizes, min(size, remaining))
		}
	case parts.data == nil && n.lengthOf(parts) >= 0 && parts.meta().Rank() == 1:
		return one(sequence(n.splitComputed(x, parts, axis, n.lengthOf(parts))))
	default:
		sizes = n.list(1)
	}
	list := n.ops("split_with_sizes", graph.Attrs{"split_sizes": sizes, "dim": axis}, x)
	if drop {
		for i := range list {
			list[i] = n.op("squeeze", graph.Attrs{"dim": axis}, list[i])
		}
	}
	return one(sequence(list))
}

func concatFromSequence(n *node) []*val {
	if p := n.sequence(0).packed; p != nil {
		return one(n.packedConcat(p, n.int("axis", 0), n.flag("new_axis", false)))
	}
	var list []any
	for _, m := range n.members(0) {
		list = append(list, m)
	}
	if len(list) == 0 {
		n.failf("the sequence is empty")
	}
	op := "cat"
	if n.flag("new_axis", false) {
		op = "stack"
	}
	return one(n.op(op, graph.Attrs{"dim": n.int("axis", 0)}, list...))
}

func optional(n *node) []*val {
	if n.hasOperand(0) {
		return one(n.in[0])
	}
	return one(&val{kind: emptyOptionalKind})
}

func optionalHasElement(n *node) []*val {
	has := n.hasOperand(0) && n.in[0].kind != emptyOptionalKind
	return one(constValue(tensor.Must(tensor.FromSlice([]bool{has}))))
}

func optionalGetElement(n *node) []*val {
	if !n.hasOperand(0) || n.in[0].kind == emptyOptionalKind {
		n.failf("the optional has no element")
	}
	return one(n.in[0])
}
