package convert

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts the operators on sequences and optionals. If the members of a sequence are known during the
// import, the sequence exists only in the importer. For example, SequenceAt at a constant position returns the member
// and adds no node. Otherwise the sequence is packed into two tensors, and the methods of packed.go convert the
// operator.

// members returns the members of the sequence operand i, which must be known during the import.
func (n *Node) members(i int) []*Value {
	if n.sequence(i).packed != nil {
		n.Failf("a sequence of unknown length is not supported")
	}
	return n.In[i].members
}

// sequence returns operand i, which must be a sequence.
func (n *Node) sequence(i int) *Value {
	if !n.HasOperand(i) {
		n.Failf("operand %d is missing", i)
	}
	if n.In[i].kind != sequenceKind {
		n.Failf("%w", kindError{fmt.Errorf("operand %d must be a sequence", i)})
	}
	return n.In[i]
}

// packedOperand returns the sequence operand i as a pair of tensors. It returns nil if the members of the sequence and
// the position in it are known during the import. positionOperand is the index of the operand that has the position.
// The position may be omitted.
func (n *Node) packedOperand(i, positionOperand int) *packedSequence {
	x := n.sequence(i)
	if x.packed == nil && (!n.HasOperand(positionOperand) || n.Operand(positionOperand).data != nil) {
		return nil
	}
	return n.packedOf(x, -1) // the rank of an empty sequence is unknown
}

// sequencePosition returns operand i, a position from 0 to last in a sequence with `length` members. A negative
// position counts from the end.
func (n *Node) sequencePosition(i, last, length int) int {
	position := SaturatedInt(n.Number(n.Operand(i)).Int())
	if position < 0 {
		position += length
	}
	if position < 0 || position > last {
		n.Failf("position %v is outside a sequence of %d members", n.Number(n.Operand(i)), length)
	}
	return position
}

// sequenceConstruct converts SequenceConstruct: the sequence of all operands.
func sequenceConstruct(n *Node) []*Value {
	var list []*Value
	for i := range n.In {
		list = append(list, n.Operand(i))
		n.checkMemberDType(list[0].DType(), list[i])
	}
	return single(sequenceOf(list))
}

// sequenceEmpty converts SequenceEmpty: an empty sequence of a dtype.
func sequenceEmpty(n *Node) []*Value {
	x := sequenceOf(nil)
	x.memberDType = n.DTypeAttr("dtype")
	return single(x)
}

// sequenceAt converts SequenceAt(sequence, position): the member at the position.
func sequenceAt(n *Node) []*Value {
	if p := n.packedOperand(0, 1); p != nil {
		return single(n.packedMember(p, n.scalarOperand(1)))
	}
	members := n.members(0)
	return single(members[n.sequencePosition(1, len(members)-1, len(members))])
}

// sequenceInsert converts SequenceInsert(sequence, member, position). Without a position, the member is added at the
// end.
func sequenceInsert(n *Node) []*Value {
	if p := n.packedOperand(0, 2); p != nil {
		return single(n.packedInsert(p, n.Operand(1)).toValue())
	}
	members := n.members(0)
	dtype := n.sequence(0).memberDType
	if len(members) > 0 {
		dtype = members[0].DType()
	}
	n.checkMemberDType(dtype, n.Operand(1))
	position := len(members)
	if n.HasOperand(2) {
		position = n.sequencePosition(2, len(members), len(members))
	}
	return single(sequenceOf(slices.Insert(slices.Clone(members), position, n.Operand(1))))
}

// checkMemberDType fails if a sequence of a dtype, if it is known, cannot have the member x.
func (n *Node) checkMemberDType(dtype tensor.DType, x *Value) {
	if dtype.Valid() && x.DType().Valid() && x.DType() != dtype {
		n.Failf("a sequence of %v cannot have a member of %v", dtype, x.DType())
	}
}

// sequenceErase converts SequenceErase(sequence, position). Without a position, the last member is removed.
func sequenceErase(n *Node) []*Value {
	if p := n.packedOperand(0, 1); p != nil {
		return single(n.packedErase(p).toValue())
	}
	members := n.members(0)
	position := len(members) - 1
	if n.HasOperand(1) {
		position = n.sequencePosition(1, len(members)-1, len(members))
	}
	if position < 0 {
		n.Failf("the sequence is empty")
	}
	return single(sequenceOf(slices.Delete(slices.Clone(members), position, position+1)))
}

// sequenceLength converts SequenceLength.
func sequenceLength(n *Node) []*Value {
	if p := n.sequence(0).packed; p != nil {
		return single(n.length(p))
	}
	return single(Constant(tensor.Must(tensor.FromSlice([]int64{int64(len(n.members(0)))}))))
}

// splitToSequence converts SplitToSequence. Without operand 1, parts have size 1, and keepdims=0 removes the axis. If
// operand 1 is a scalar, it is the size of all parts. The last part may be smaller. If operand 1 is a vector, it has
// the size of each part.
func splitToSequence(n *Node) []*Value {
	x := n.Operand(0)
	shape := n.SymShape(x)
	axis := n.Axis(n.Int("axis", 0), len(shape))
	var sizes []int
	switch parts := n.OperandOrNil(1); {
	case parts == nil:
		return single(splitToSlices(n, x, axis))
	case parts.data != nil && parts.data.Rank() == 0 && n.Sizes(x)[axis] >= 0:
		size, length := n.ConstantInts(1)[0], n.knownSize(x, axis)
		if size < 1 || length/size > maxUnrolled {
			n.Failf("parts of %d elements are not supported: want at least 1, and at most %d parts", size, maxUnrolled)
		}
		for remaining := length; remaining > 0; remaining -= size {
			sizes = append(sizes, min(size, remaining))
		}
	case parts.data == nil && n.LengthOf(parts) >= 0 && n.Rank(parts) == 1: // computed sizes
		return single(sequenceOf(n.SplitComputed(x, parts, axis, n.LengthOf(parts))))
	case parts.data == nil || parts.data.Rank() == 0: // an unknown number of parts
		return single(n.packedParts(x, n.Cast(parts, tensor.Int64), axis).toValue())
	default: // a constant vector
		sizes = n.ConstantInts(1)
	}
	return single(splitBy(n, x, sizes, axis))
}

// splitBy splits x into parts of known sizes. Without parts, the sequence is empty.
func splitBy(n *Node, x *Value, sizes []int, axis int) *Value {
	if len(sizes) == 0 {
		return &Value{kind: sequenceKind, memberDType: x.DType()}
	}
	return sequenceOf(n.opsN("split_with_sizes", len(sizes), graph.Attrs{"split_sizes": sizes, "dim": axis}, x))
}

// splitToSlices splits x into parts of size 1. If keepdims is 0, it removes the axis.
func splitToSlices(n *Node, x *Value, axis int) *Value {
	keepsAxis := n.Flag("keepdims", true)
	if length := n.Sizes(x)[axis]; length < 0 || length > maxUnrolled {
		return n.packedSplit(x, axis, keepsAxis).toValue()
	}
	sequence := splitBy(n, x, slices.Repeat([]int{1}, n.knownSize(x, axis)), axis)
	for i, part := range sequence.members {
		if !keepsAxis {
			sequence.members[i] = n.Op("squeeze", graph.Attrs{"dim": axis}, part)
		}
	}
	return sequence
}

// SplitComputed splits x into parts of computed sizes.
func (n *Node) SplitComputed(x, sizes *Value, axis, parts int) []*Value {
	if count := n.LengthOf(sizes); count >= 0 && count != parts {
		n.Failf("%d sizes do not suit %d outputs", count, parts)
	}
	attrs := graph.Attrs{"split_sizes": n.Reference(n.Cast(sizes, tensor.Int64)), "dim": axis}
	out := n.opsN("split_with_sizes", parts, attrs, x)
	for i := range out {
		out[i] = out[i].WithType(x.DType(), n.Rank(x))
	}
	return out
}

// concatFromSequence converts ConcatFromSequence, which concatenates or stacks the members.
func concatFromSequence(n *Node) []*Value {
	if p := n.sequence(0).packed; p != nil {
		return single(n.packedConcat(p, n.Int("axis", 0), n.Flag("new_axis", false)))
	}
	var list []any
	for _, member := range n.members(0) {
		list = append(list, member)
	}
	if len(list) == 0 {
		n.Failf("the sequence is empty")
	}
	op := "cat"
	if n.Flag("new_axis", false) {
		op = "stack"
	}
	return single(n.Op(op, graph.Attrs{"dim": n.Int("axis", 0)}, list...))
}

// optionalOp converts Optional. An optional with an element is the element itself.
func optionalOp(n *Node) []*Value {
	if n.HasOperand(0) {
		return single(n.In[0])
	}
	return single(&Value{kind: emptyOptionalKind})
}

// optionalHasElement converts OptionalHasElement.
func optionalHasElement(n *Node) []*Value {
	hasElement := n.HasOperand(0) && n.In[0].kind != emptyOptionalKind
	return single(Constant(tensor.Must(tensor.FromSlice([]bool{hasElement}))))
}

// optionalGetElement converts OptionalGetElement.
func optionalGetElement(n *Node) []*Value {
	if !n.HasOperand(0) || n.In[0].kind == emptyOptionalKind {
		n.Failf("the optional has no element")
	}
	return single(n.In[0])
}

// sequenceMap applies a graph to each member of a sequence. A further operand can be a sequence of the same length.
// Call i then reads member i. It can also be a tensor, which each call reads as a whole. Results become sequences.
func sequenceMap(n *Node) []*Value {
	proto := n.body("body") // the attribute body
	count := len(n.members(0))
	lists := make([][]*Value, len(proto.Output))
	for i := range count {
		operands := make([]*Value, len(n.In))
		for k, operand := range n.In {
			operands[k] = operand
			if operand != nil && operand.kind == sequenceKind {
				if len(operand.members) != count {
					n.Failf("sequences differ in length")
				}
				operands[k] = operand.members[i]
			}
		}
		const iterations = 1 // each member gets the whole budget of unrolled nodes
		for k, result := range n.convertIteration(proto, operands, iterations) {
			lists[k] = append(lists[k], result)
		}
	}
	out := make([]*Value, len(lists))
	for k, list := range lists {
		out[k] = sequenceOf(list)
	}
	return out
}
