package onnx

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts operators on sequences whose members are not known during the import. Such a sequence becomes a
// pair of tensors: the concatenated elements of all members, and a table of the members' shapes. Sequence operators
// become ops on the two tensors. All members have the same dtype and the same rank; their sizes may differ.

// packedSequence is a sequence that is represented by a pair of tensors.
type packedSequence struct {
	dtype  tensor.DType
	rank   int  // rank of the members; -1 if no member was inserted yet
	data   *val // the elements of all members, a vector
	shapes *val // the shapes of the members, [members, rank], int64
	// outer is set in the body of a loop that carries a sequence of unknown rank (-1). It is the sequence outside the
	// body. The first member that the body inserts determines the rank: see [memberRankError].
	outer *packedSequence
}

// memberRankError is the error of converting a loop body that inserts the first member into a carried sequence of
// unknown rank. loopBody then converts the body again, with the rank and dtype of the member.
type memberRankError struct {
	sequence *packedSequence // the sequence in the body
	rank     int
	dtype    tensor.DType
}

func (m *memberRankError) Error() string {
	return fmt.Sprintf("a sequence that a loop carries gets members of %d dimensions", m.rank)
}

// packedOpset is the operator set of the ONNX operators that [node.onnxOp] converts.
const packedOpset = 18

// onnxOp applies an ONNX operator to operands, as a part of the conversion of n.
func (n *node) onnxOp(op string, attrs []*pb.AttributeProto, operands ...*val) *val {
	f := *n.frame
	f.opsets, f.continuation, f.skipErrors = map[string]int{"": packedOpset}, nil, false
	inner := &node{importer: n.importer, scope: n.scope, frame: &f, opset: packedOpset, in: operands,
		proto: &pb.NodeProto{OpType: op, Name: n.proto.Name, Output: []string{""}}, attrs: map[string]*pb.AttributeProto{}}
	for _, a := range attrs {
		inner.attrs[a.Name] = a
	}
	c := n.opts.table[operator{"", op}]
	if c == nil {
		n.failf("the operator %s, which sequences need, is not supported", op)
	}
	return c(inner)[0]
}

func intAttr(name string, v int) []*pb.AttributeProto {
	return []*pb.AttributeProto{{Name: name, Type: pb.AttributeInt, I: int64(v)}}
}

//go:noinline
func vectorOf(list ...int) *val { return constValue(intTensor(list...)) }

// scalarInt returns an integer as a 0-dim value.
func scalarInt(i int) *val { return constValue(tensor.IntScalar(int64(i)).Tensor(tensor.Int64)) }

// concatenated joins values along their first dimension.
func (n *node) concatenated(parts ...*val) *val {
	return n.onnxOp("Concat", intAttr("axis", 0), parts...)
}

// rowRange returns the rows of x with indices from `from` to `to`-1. from and to are vectors of one element.
func (n *node) rowRange(x, from, to *val) *val {
	return n.onnxOp("Slice", nil, x, from, to, vectorOf(0))
}

func (n *node) sumAlong(x *val, axis int) *val {
	return n.onnxOp("ReduceSum", intAttr("keepdims", 0), x, vectorOf(axis))
}

// rowProducts returns the product of each row of a table of shapes, which is the number of elements of the member.
func (n *node) rowProducts(shapes *val) *val {
	return n.onnxOp("ReduceProd", intAttr("keepdims", 0), shapes, vectorOf(1))
}

// vector reshapes a value of one element to a vector.
func (n *node) vector(x *val) *val { return n.onnxOp("Reshape", nil, x, vectorOf(1)) }

func (n *node) add(x, y *val) *val { return n.onnxOp("Add", nil, x, y) }

// toEnd, as the end of a Slice, includes the last element.
const toEnd = math.MaxInt32

// packedOf returns sequence x as a pair of tensors. rank is the rank of the members if the sequence is empty.
func (n *node) packedOf(x *val, rank int) *packedSequence {
	if x.packed != nil {
		return x.packed
	}
	packed := &packedSequence{dtype: x.memberDType, rank: rank}
	if len(x.members) > 0 {
		packed.dtype, packed.rank = x.members[0].dtype(), n.rank(x.members[0])
	}
	if !packed.dtype.Valid() {
		packed.dtype = tensor.Float32
	}
	packed.data, packed.shapes = constValue(tensor.Zeros(packed.dtype, 0)),
		constValue(tensor.Zeros(tensor.Int64, 0, max(packed.rank, 0)))
	for _, m := range x.members {
		packed = n.appended(packed, m)
	}
	return packed
}

// checkMember fails if x cannot become a member of the sequence.
func (n *node) checkMember(p *packedSequence, x *val) {
	rank := n.rank(x)
	switch {
	case p.outer != nil:
		panic(failure{&memberRankError{p, rank, x.dtype()}})
	case p.rank >= 0 && p.rank != rank:
		n.failf("a sequence of unknown length with members of %d and of %d dimensions is not supported", p.rank, rank)
	case p.dtype != x.dtype() && p.rank >= 0:
		n.failf("a sequence of %v cannot have a member of %v", p.dtype, x.dtype())
	}
}

// packMember returns the elements and the shape of member x in the form of packedSequence.data and
// packedSequence.shapes.
func (n *node) packMember(x *val) (data, shape *val) {
	rank := n.rank(x)
	data = n.onnxOp("Reshape", nil, x, vectorOf(-1))
	shape = n.onnxOp("Reshape", intAttr("allowzero", 1), n.onnxOp("Shape", nil, x), vectorOf(1, rank))
	return data, shape
}

// appended returns the sequence with one more member.
func (n *node) appended(p *packedSequence, x *val) *packedSequence {
	n.checkMember(p, x)
	data, shape := n.packMember(x)
	if p.rank < 0 {
		return &packedSequence{dtype: x.dtype(), rank: n.rank(x), data: data, shapes: shape}
	}
	return &packedSequence{dtype: p.dtype, rank: p.rank, data: n.concatenated(p.data, data).withRank(1),
		shapes: n.concatenated(p.shapes, shape).withSizes(tensor.Int64, -1, p.rank)}
}

func (p *packedSequence) val() *val { return &val{kind: sequenceKind, packed: p} }

// length returns the number of members as a 0-dim value.
func (n *node) length(p *packedSequence) *val {
	return n.onnxOp("Gather", nil, n.onnxOp("Shape", nil, p.shapes), scalarInt(0))
}

// checkedPosition returns an index of a list of count elements, as a vector of one element. A negative index counts
// from the end. The run fails if the index is out of range.
func (n *node) checkedPosition(index, count *val) *val {
	negative := n.onnxOp("Less", nil, index, scalarInt(0))
	index = n.onnxOp("Where", nil, negative, n.add(index, count), index)
	// An index that is still negative is out of range. It becomes count, for which Gather fails.
	index = n.onnxOp("Where", nil, n.onnxOp("Less", nil, index, scalarInt(0)), count, index)
	all := n.onnxOp("Range", nil, scalarInt(0), count, scalarInt(1))
	return n.vector(n.onnxOp("Gather", nil, all, index))
}

// scalarOperand returns operand i as a 0-dim value of int64.
func (n *node) scalarOperand(i int) *val {
	return n.onnxOp("Reshape", nil, n.cast(n.operand(i), tensor.Int64), constValue(tensor.Zeros(tensor.Int64, 0)))
}

// splitMembers divides the members into three ranges: the members before a position, the next width members, and the
// later members. It returns the shapes and the elements of each range. width is 0 or 1.
func (n *node) splitMembers(p *packedSequence, position *val, width int) (before, middle, after [2]*val) {
	next := position
	if width > 0 {
		next = n.add(position, vectorOf(width))
	}
	shapes := [3]*val{n.rowRange(p.shapes, vectorOf(0), position), nil, n.rowRange(p.shapes, next, vectorOf(toEnd))}
	start := n.vector(n.sumAlong(n.rowProducts(shapes[0].withSizes(tensor.Int64, -1, p.rank)), 0))
	end := start
	if width > 0 {
		shapes[1] = n.rowRange(p.shapes, position, next).withSizes(tensor.Int64, 1, p.rank)
		end = n.add(start, n.rowProducts(shapes[1]))
		middle = [2]*val{shapes[1], n.rowRange(p.data, start, end)}
	}
	before = [2]*val{shapes[0], n.rowRange(p.data, vectorOf(0), start)}
	after = [2]*val{shapes[2].withSizes(tensor.Int64, -1, p.rank), n.rowRange(p.data, end, vectorOf(math.MaxInt))}
	return before, middle, after
}

// packedMember returns the member at a position.
func (n *node) packedMember(p *packedSequence, position *val) *val {
	if p.rank < 0 {
		n.failf("the sequence is empty, or its members' number of dimensions is unknown")
	}
	_, member, _ := n.splitMembers(p, n.checkedPosition(position, n.length(p)), 1)
	shape := n.onnxOp("Reshape", nil, member[0], vectorOf(p.rank)).withSizes(tensor.Int64, p.rank)
	return n.onnxOp("Reshape", intAttr("allowzero", 1), member[1], shape).withType(p.dtype, p.rank)
}

// packedInsert inserts x at the position of operand 2, or at the end.
func (n *node) packedInsert(p *packedSequence, x *val) *packedSequence {
	if !n.hasOperand(2) || p.rank < 0 {
		return n.appended(p, x)
	}
	n.checkMember(p, x)
	count := n.length(p)
	position := n.checkedPosition(n.insertionIndex(n.scalarOperand(2), count), n.add(count, scalarInt(1)))
	before, _, after := n.splitMembers(p, position, 0)
	data, shape := n.packMember(x)
	return &packedSequence{dtype: p.dtype, rank: p.rank, data: n.concatenated(before[1], data, after[1]).withRank(1),
		shapes: n.concatenated(before[0], shape, after[0]).withSizes(tensor.Int64, -1, p.rank)}
}

// insertionIndex adds count to a negative index of an insertion. Index -1 inserts before the last of count members.
// Index count inserts after the last member.
func (n *node) insertionIndex(index, count *val) *val {
	fromEnd := n.add(index, count)
	// An index that is still negative stays out of range.
	fromEnd = n.onnxOp("Where", nil, n.onnxOp("Less", nil, fromEnd, scalarInt(0)), scalarInt(math.MinInt32), fromEnd)
	return n.onnxOp("Where", nil, n.onnxOp("Less", nil, index, scalarInt(0)), fromEnd, index)
}

// packedErase removes the member at the position of operand 1, or the last member.
func (n *node) packedErase(p *packedSequence) *packedSequence {
	if p.rank < 0 {
		n.failf("the sequence is empty")
	}
	position := scalarInt(-1)
	if n.hasOperand(1) {
		position = n.scalarOperand(1)
	}
	before, _, after := n.splitMembers(p, n.checkedPosition(position, n.length(p)), 1)
	return &packedSequence{dtype: p.dtype, rank: p.rank, data: n.concatenated(before[1], after[1]).withRank(1),
		shapes: n.concatenated(before[0], after[0]).withSizes(tensor.Int64, -1, p.rank)}
}

// packedConcat concatenates the members along an axis. If stack is true, the axis is a new dimension.
func (n *node) packedConcat(p *packedSequence, axis int, stack bool) *val {
	if p.rank < 0 {
		n.failf("the sequence is empty")
	}
	if stack {
		axis = n.axis(axis, p.rank+1)
	} else if axis = n.axis(axis, p.rank); axis > 0 {
		return n.concatenatedAlong(p, axis)
	}
	first := n.onnxOp("Gather", nil, p.shapes, scalarInt(0)).withSizes(tensor.Int64, p.rank)
	differ := n.onnxOp("Abs", nil, n.onnxOp("Sub", nil, p.shapes, first))
	shape := n.concatenated(n.vector(n.length(p)), first)
	if !stack {
		differ = n.onnxOp("Slice", nil, differ, vectorOf(1), vectorOf(toEnd), vectorOf(1))
		rows := n.onnxOp("Gather", intAttr("axis", 1), p.shapes, scalarInt(0))
		shape = n.concatenated(n.vector(n.sumAlong(rows, 0)), n.rowRange(first, vectorOf(1), vectorOf(toEnd)))
	}
	rank := p.rank
	if stack {
		rank++
	}
	// If the members' sizes differ, the index of this Gather is out of range, and the run fails.
	differences := n.onnxOp("Reshape", nil, differ, vectorOf(-1)).withRank(1)
	equal := n.onnxOp("Gather", nil, vectorOf(0), n.sumAlong(differences, 0))
	shape = n.add(shape, equal).withSizes(tensor.Int64, rank)
	out := n.onnxOp("Reshape", intAttr("allowzero", 1), p.data, shape).withType(p.dtype, rank)
	if axis > 0 {
		out = n.op("movedim", graph.Attrs{"source": []int{0}, "destination": []int{axis}}, out).withType(p.dtype, rank)
	}
	return out
}

// concatenatedAlong concatenates the members along an axis other than the first, by a loop.
func (n *node) concatenatedAlong(p *packedSequence, axis int) *val {
	start := n.packedMember(p, scalarInt(0))
	start = n.onnxOp("Slice", nil, start, vectorOf(0), vectorOf(0), vectorOf(axis)).withType(p.dtype, p.rank)
	body := &pb.GraphProto{Name: "concat",
		Node: []*pb.NodeProto{{OpType: "SequenceAt", Input: []string{"members", "i"}, Output: []string{"member"}},
			{OpType: "Concat", Input: []string{"so far", "member"}, Output: []string{"joined"},
				Attribute: intAttr("axis", axis)}},
		Input:  []*pb.ValueInfoProto{{Name: "i"}, {Name: "go"}, {Name: "so far"}, {Name: "members"}},
		Output: []*pb.ValueInfoProto{{Name: "go"}, {Name: "joined"}, {Name: "members"}}}
	return n.onnxOp("Loop", []*pb.AttributeProto{{Name: "body", Type: pb.AttributeGraph, G: body}}, n.length(p),
		constValue(tensor.BoolScalar(true).Tensor(tensor.Bool)), start, p.val()).withType(p.dtype, p.rank)
}

// packedSplit returns the slices of x along an axis of unknown size as a sequence. If keep is true, the slices keep the
// axis, with size 1.
func (n *node) packedSplit(x *val, axis int, keep bool) *packedSequence {
	rank := n.rank(x)
	shape := n.onnxOp("Shape", nil, x)
	count := n.rowRange(shape, vectorOf(axis), vectorOf(axis+1))
	before, after := n.rowRange(shape, vectorOf(0), vectorOf(axis)), n.rowRange(shape, vectorOf(axis+1), vectorOf(toEnd))
	if axis > 0 {
		x = n.op("movedim", graph.Attrs{"source": []int{axis}, "destination": []int{0}}, x).withType(x.dtype(), rank)
	}
	packed := &packedSequence{dtype: x.dtype(), rank: rank - 1,
		data: n.onnxOp("Reshape", nil, x, vectorOf(-1)).withRank(1)}
	memberShape := n.concatenated(before, after)
	if keep {
		memberShape = n.concatenated(before, vectorOf(1), after)
		packed.rank++
	}
	memberShape = n.onnxOp("Reshape", intAttr("allowzero", 1), memberShape, vectorOf(1, packed.rank))
	shapes := n.onnxOp("Expand", nil, memberShape, n.concatenated(count, vectorOf(packed.rank)))
	packed.shapes = shapes.withSizes(tensor.Int64, -1, packed.rank)
	return packed
}
