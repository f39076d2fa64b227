package convert

import (
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts operators on sequences whose members are not known during the import. Such a sequence becomes a
// pair of tensors: the concatenated elements of all members, and a table of the members' shapes. Sequence operators
// become ops on the two tensors. All members have the same dtype and the same rank. Their sizes may differ. For
// example, a sequence of the matrices [[1, 2, 3]] and [[4], [5]] is
//
//	data   [1, 2, 3, 4, 5]
//	shapes [[1, 3], [2, 1]]
//
// SequenceAt at position 1 takes the slice of data that begins after the 1*3 elements of member 0, and reshapes it to
// shapes[1].
//
// [Node.ONNXOp] applies an ONNX operator by its name. Indices and sizes are checked during the run by a Gather, which
// fails for an index out of range. Reshapes have the attribute allowzero, because members may have the size 0.

// packedSequence is a sequence that is represented by a pair of tensors.
type packedSequence struct {
	dtype  tensor.DType
	rank   int    // rank of the members; -1 if no member was inserted yet
	data   *Value // the elements of all members, a vector
	shapes *Value // the shapes of the members, [members, rank], int64
	// outer is set only in the body of a loop, for a carried sequence of unknown rank (-1). It is the sequence outside
	// the body. The first member that the body inserts determines the rank: see [memberRankError].
	outer *packedSequence
}

// memberRankError is the error of converting a loop body that inserts the first member into a carried sequence of
// unknown rank. After this error, loopBody converts the body again, with the rank and dtype of the member.
type memberRankError struct {
	sequence *packedSequence // the sequence outside the body
	rank     int
	dtype    tensor.DType
}

func (m *memberRankError) Error() string {
	return fmt.Sprintf("a sequence that a loop carries gets members of %d dimensions", m.rank)
}

// packedOf returns sequence x as a pair of tensors. rank is the rank of the members if the sequence is empty. An empty
// sequence without a declared dtype is float32, as the standard says.
func (n *Node) packedOf(x *Value, rank int) *packedSequence {
	if x.packed != nil {
		return x.packed
	}
	dtype := x.memberDType
	if len(x.members) > 0 {
		dtype, rank = x.members[0].DType(), n.Rank(x.members[0])
	}
	if !dtype.Valid() {
		dtype = tensor.Float32
	}
	packed := emptyPacked(dtype, rank)
	for _, m := range x.members {
		packed = n.appended(packed, m)
	}
	return packed
}

// emptyPacked returns an empty sequence. Rank -1 means unknown.
func emptyPacked(dtype tensor.DType, rank int) *packedSequence {
	return &packedSequence{dtype: dtype, rank: rank, data: Constant(tensor.Zeros(dtype, 0)),
		shapes: Constant(tensor.Zeros(tensor.Int64, 0, max(rank, 0)))}
}

// checkMember fails if x cannot become a member of the sequence. In a loop that carries a sequence of unknown rank, it
// fails with a [memberRankError], and the body is then converted again.
func (n *Node) checkMember(p *packedSequence, x *Value) {
	rank := n.Rank(x)
	switch {
	case p.outer != nil:
		panic(failure{&memberRankError{p.outer, rank, x.DType()}})
	case p.rank >= 0 && p.rank != rank:
		n.Failf("a sequence of unknown length with members of %d and of %d dimensions is not supported", p.rank, rank)
	case p.rank >= 0:
		n.checkMemberDType(p.dtype, x)
	}
}

// packMember returns the elements and the shape of member x in the form of packedSequence.data and
// packedSequence.shapes.
func (n *Node) packMember(x *Value) (data, shape *Value) {
	rank := n.Rank(x)
	data = n.ONNXOp("Reshape", nil, x, IntVector(-1))
	shape = n.ONNXOp("Reshape", IntAttribute("allowzero", 1), n.ONNXOp("Shape", nil, x), IntVector(1, rank))
	return data, shape
}

// appended returns the sequence with x as its last member. A sequence of unknown rank is empty, so x is its only
// member.
func (n *Node) appended(p *packedSequence, x *Value) *packedSequence {
	n.checkMember(p, x)
	data, shape := n.packMember(x)
	if p.rank < 0 {
		return &packedSequence{dtype: x.DType(), rank: n.Rank(x), data: data, shapes: shape}
	}
	return &packedSequence{dtype: p.dtype, rank: p.rank, data: n.concatenated(p.data, data).WithRank(1),
		shapes: n.concatenated(p.shapes, shape).WithSizes(tensor.Int64, -1, p.rank)}
}

// toValue returns the sequence as a value of the model.
func (p *packedSequence) toValue() *Value { return &Value{kind: sequenceKind, packed: p} }

// length returns the number of members as a 0-dim value.
func (n *Node) length(p *packedSequence) *Value {
	return n.ONNXOp("Gather", nil, n.ONNXOp("Shape", nil, p.shapes), scalarInt(0))
}

// checkedPosition returns an index of a list of count elements, as a vector of one element. A negative index counts
// from the end. The run fails if the index is out of range.
func (n *Node) checkedPosition(index, count *Value) *Value {
	negative := n.ONNXOp("Less", nil, index, scalarInt(0))
	index = n.ONNXOp("Where", nil, negative, n.add(index, count), index)
	// An index that is still negative is out of range. It becomes count, for which Gather fails.
	index = n.ONNXOp("Where", nil, n.ONNXOp("Less", nil, index, scalarInt(0)), count, index)
	allIndices := n.ONNXOp("Range", nil, scalarInt(0), count, scalarInt(1))
	return n.vector(n.ONNXOp("Gather", nil, allIndices, index))
}

// scalarOperand returns operand i as a 0-dim value of int64.
func (n *Node) scalarOperand(i int) *Value {
	return n.ONNXOp("Reshape", nil, n.Cast(n.Operand(i), tensor.Int64), Constant(tensor.Zeros(tensor.Int64, 0)))
}

// memberRange is a range of the members of a packed sequence, in the form of packedSequence.shapes and
// packedSequence.data.
type memberRange struct{ shapes, data *Value }

// splitMembers divides the members into three ranges: the members before a position, the next width members, and the
// later members. width is 0 or 1.
func (n *Node) splitMembers(p *packedSequence, position *Value, width int) (before, middle, after memberRange) {
	next := position
	if width > 0 {
		next = n.add(position, IntVector(width))
	}
	shapesBefore := n.rowRange(p.shapes, IntVector(0), position)
	shapesAfter := n.rowRange(p.shapes, next, IntVector(toEnd))
	// The elements of the middle range start at the number of elements of all members before it.
	start := n.vector(n.sumAlong(n.rowProducts(shapesBefore.WithSizes(tensor.Int64, -1, p.rank)), 0))
	end := start
	if width > 0 {
		shape := n.rowRange(p.shapes, position, next).WithSizes(tensor.Int64, 1, p.rank)
		end = n.add(start, n.rowProducts(shape))
		middle = memberRange{shape, n.rowRange(p.data, start, end)}
	}
	before = memberRange{shapesBefore, n.rowRange(p.data, IntVector(0), start)}
	// The number of elements may exceed toEnd. The number of members cannot.
	after = memberRange{shapesAfter.WithSizes(tensor.Int64, -1, p.rank),
		n.rowRange(p.data, end, IntVector(math.MaxInt))}
	return before, middle, after
}

// packedMember returns the member at a position.
func (n *Node) packedMember(p *packedSequence, position *Value) *Value {
	if p.rank < 0 {
		n.Failf("the sequence is empty, or its members' number of dimensions is unknown")
	}
	const width = 1 // of the middle range
	_, member, _ := n.splitMembers(p, n.checkedPosition(position, n.length(p)), width)
	shape := n.ONNXOp("Reshape", nil, member.shapes, IntVector(p.rank)).WithSizes(tensor.Int64, p.rank)
	return n.ONNXOp("Reshape", IntAttribute("allowzero", 1), member.data, shape).WithType(p.dtype, p.rank)
}

// packedInsert inserts x before the position of operand 2, or at the end.
func (n *Node) packedInsert(p *packedSequence, x *Value) *packedSequence {
	if !n.HasOperand(2) || p.rank < 0 {
		return n.appended(p, x)
	}
	n.checkMember(p, x)
	count := n.length(p)
	position := n.checkedPosition(n.insertionIndex(n.scalarOperand(2), count), n.add(count, scalarInt(1)))
	const width = 0 // no members between before and after
	before, _, after := n.splitMembers(p, position, width)
	data, shape := n.packMember(x)
	return &packedSequence{dtype: p.dtype, rank: p.rank, data: n.concatenated(before.data, data, after.data).WithRank(1),
		shapes: n.concatenated(before.shapes, shape, after.shapes).WithSizes(tensor.Int64, -1, p.rank)}
}

// insertionIndex adds count, the number of members, to a negative index of an insertion. Thus index -1 inserts before
// the last member. (checkedPosition would add count+1, because an insertion has count+1 positions.)
func (n *Node) insertionIndex(index, count *Value) *Value {
	fromEnd := n.add(index, count)
	// An index that is still negative remains out of range.
	fromEnd = n.ONNXOp("Where", nil, n.ONNXOp("Less", nil, fromEnd, scalarInt(0)), scalarInt(math.MinInt32), fromEnd)
	return n.ONNXOp("Where", nil, n.ONNXOp("Less", nil, index, scalarInt(0)), fromEnd, index)
}

// packedErase removes the member at the position of operand 1, or the last member.
func (n *Node) packedErase(p *packedSequence) *packedSequence {
	if p.rank < 0 {
		n.Failf("the sequence is empty")
	}
	position := scalarInt(-1)
	if n.HasOperand(1) {
		position = n.scalarOperand(1)
	}
	const width = 1 // the removed member
	before, _, after := n.splitMembers(p, n.checkedPosition(position, n.length(p)), width)
	return &packedSequence{dtype: p.dtype, rank: p.rank, data: n.concatenated(before.data, after.data).WithRank(1),
		shapes: n.concatenated(before.shapes, after.shapes).WithSizes(tensor.Int64, -1, p.rank)}
}

// packedConcat concatenates the members along an axis. If stack is true, the axis is a new dimension. A concatenation
// along axis 0 is a reshape of the sequence's elements to [sum of first sizes, other sizes...]. For other axes, see
// concatenatedAlong. A stack is a reshape to [members, sizes...]. The first dimension is then moved to the axis.
func (n *Node) packedConcat(p *packedSequence, axis int, stack bool) *Value {
	if p.rank < 0 {
		n.Failf("the sequence is empty")
	}
	if stack {
		axis = n.Axis(axis, p.rank+1)
	} else if axis = n.Axis(axis, p.rank); axis > 0 {
		return n.concatenatedAlong(p, axis)
	}
	firstShape := n.ONNXOp("Gather", nil, p.shapes, scalarInt(0)).WithSizes(tensor.Int64, p.rank)
	// The sizes of each member must agree with the sizes of the first member: deviations, [members, rank], must be 0.
	deviations := n.ONNXOp("Abs", nil, n.ONNXOp("Sub", nil, p.shapes, firstShape))
	// The shape of a stack is [members, sizes...].
	shape, rank := n.concatenated(n.vector(n.length(p)), firstShape), p.rank+1
	if !stack {
		// The shape is [sum of the sizes of axis 0, other sizes...]. The sizes of axis 0 may differ.
		deviations = n.ONNXOp("Slice", nil, deviations, IntVector(1), IntVector(toEnd), IntVector(1)) // without axis 0
		sizesOfAxis0 := n.ONNXOp("Gather", IntAttribute("axis", 1), p.shapes, scalarInt(0))
		sum := n.vector(n.sumAlong(sizesOfAxis0, 0))
		otherSizes := n.rowRange(firstShape, IntVector(1), IntVector(toEnd))
		shape, rank = n.concatenated(sum, otherSizes), p.rank
	}
	// The addition of 0 makes the run fail if a deviation is not 0.
	shape = n.add(shape, n.zeroIfAllZero(deviations)).WithSizes(tensor.Int64, rank)
	out := n.ONNXOp("Reshape", IntAttribute("allowzero", 1), p.data, shape).WithType(p.dtype, rank)
	if axis > 0 {
		out = n.Op("movedim", graph.Attrs{"source": []int{0}, "destination": []int{axis}}, out).WithType(p.dtype, rank)
	}
	return out
}

// zeroIfAllZero returns the scalar 0. The run fails if an element of x is not 0. x has no negative elements. It is a
// Gather from the vector [0] at the index sum(x), which is out of range if it is positive.
func (n *Node) zeroIfAllZero(x *Value) *Value {
	flat := n.ONNXOp("Reshape", nil, x, IntVector(-1)).WithRank(1)
	return n.ONNXOp("Gather", nil, IntVector(0), n.sumAlong(flat, 0))
}

// concatenatedAlong concatenates the members along an axis other than the first. It is a loop that starts with an empty
// slice of the first member.
func (n *Node) concatenatedAlong(p *packedSequence, axis int) *Value {
	start := n.packedMember(p, scalarInt(0))
	start = n.ONNXOp("Slice", nil, start, IntVector(0), IntVector(0), IntVector(axis)).WithType(p.dtype, p.rank)
	body := &pb.GraphProto{Name: "concat",
		Node: []*pb.NodeProto{{OpType: "SequenceAt", Input: []string{"members", "i"}, Output: []string{"member"}},
			{OpType: "Concat", Input: []string{"so far", "member"}, Output: []string{"joined"},
				Attribute: IntAttribute("axis", axis)}},
		Input:  []*pb.ValueInfoProto{{Name: "i"}, {Name: "go"}, {Name: "so far"}, {Name: "members"}},
		Output: []*pb.ValueInfoProto{{Name: "go"}, {Name: "joined"}, {Name: "members"}}}
	return n.ONNXOp("Loop", []*pb.AttributeProto{{Name: "body", Type: pb.AttributeGraph, G: body}}, n.length(p),
		Constant(tensor.BoolScalar(true).Tensor(tensor.Bool)), start, p.toValue()).WithType(p.dtype, p.rank)
}

// packedSplit returns the slices of x along an axis as a sequence. The size of the axis is unknown or large. If
// keepAxis is true, the slices keep the axis, with size 1.
func (n *Node) packedSplit(x *Value, axis int, keepAxis bool) *packedSequence {
	rank := n.Rank(x)
	shape := n.ONNXOp("Shape", nil, x)
	count := n.rowRange(shape, IntVector(axis), IntVector(axis+1))
	before := n.rowRange(shape, IntVector(0), IntVector(axis))
	after := n.rowRange(shape, IntVector(axis+1), IntVector(toEnd))
	if axis > 0 {
		x = n.Op("movedim", graph.Attrs{"source": []int{axis}, "destination": []int{0}}, x).WithType(x.DType(), rank)
	}
	packed := &packedSequence{dtype: x.DType(), rank: rank - 1,
		data: n.ONNXOp("Reshape", nil, x, IntVector(-1)).WithRank(1)}
	memberShape := n.concatenated(before, after)
	if keepAxis {
		memberShape = n.concatenated(before, IntVector(1), after)
		packed.rank++
	}
	memberShape = n.ONNXOp("Reshape", IntAttribute("allowzero", 1), memberShape, IntVector(1, packed.rank))
	// All members have the same shape: [1, rank] is expanded to [members, rank].
	shapes := n.ONNXOp("Expand", nil, memberShape, n.concatenated(count, IntVector(packed.rank)))
	packed.shapes = shapes.WithSizes(tensor.Int64, -1, packed.rank)
	return packed
}

// packedParts splits x along an axis into parts whose number depends on data. sizes has the size of each part, or is the
// 0-dim size of all parts, of which the last may be smaller.
func (n *Node) packedParts(x, sizes *Value, axis int) *packedSequence {
	rank, shape := n.Rank(x), n.ShapeVector(x)
	if n.Rank(sizes) == 0 {
		length := n.Element(shape, axis)
		// length-start elements remain from the start of a part.
		starts := n.Op("arange", graph.Attrs{"end": n.IntAttr(length), "step": n.Reference(sizes),
			"dtype": tensor.Int64}).WithType(tensor.Int64, 1)
		sizes = n.Op("minimum", nil, n.Op("rsub", nil, starts, length), sizes).WithType(tensor.Int64, 1)
	}
	before := n.rowRange(shape, IntVector(0), IntVector(axis))
	after := n.rowRange(shape, IntVector(axis+1), IntVector(toEnd))
	count := n.rowRange(n.ShapeVector(sizes), IntVector(0), IntVector(1))
	columns := func(sizes *Value, width int) *Value { // a row for each part
		row := n.ONNXOp("Reshape", IntAttribute("allowzero", 1), sizes, IntVector(1, width))
		return n.ONNXOp("Expand", nil, row, n.concatenated(count, IntVector(width)))
	}
	// The part of each index. The op fails for a size below 0.
	partOf := n.Op("repeat_interleave", nil, sizes).WithType(tensor.Int64, 1)
	missing := n.ONNXOp("Sub", nil, n.rowRange(shape, IntVector(axis), IntVector(axis+1)), n.ShapeVector(partOf))
	// The addition of 0 makes the run fail unless the sizes add up to the length.
	sizes = n.add(sizes, n.zeroIfAllZero(n.ONNXOp("Abs", nil, missing))).WithType(tensor.Int64, 1)
	shapes := n.Op("cat", graph.Attrs{"dim": 1}, columns(before, axis), n.Reshape(sizes, -1, 1),
		columns(after, rank-1-axis))
	data := n.ONNXOp("Reshape", nil, x, IntVector(-1)).WithRank(1)
	if axis > 0 { // the elements of a part are not consecutive: a stable sort by part makes them so
		aligned := slices.Repeat([]int{1}, rank)
		aligned[axis] = -1
		parts := n.ONNXOp("Reshape", nil, n.ONNXOp("Expand", nil, n.Reshape(partOf, aligned...), shape), IntVector(-1))
		order := n.Op("argsort", graph.Attrs{"dim": 0, "stable": true}, parts).WithType(tensor.Int64, 1)
		data = n.Op("index_select", graph.Attrs{"dim": 0}, data, order).WithType(x.DType(), 1)
	}
	return &packedSequence{dtype: x.DType(), rank: rank, data: data, shapes: shapes.WithSizes(tensor.Int64, -1, rank)}
}

// The following functions apply single operators.

// packedOpset is the operator set of the ONNX operators that [Node.ONNXOp] converts.
const packedOpset = 18

// ONNXOp applies an ONNX operator to operands, as a part of the conversion of n.
func (n *Node) ONNXOp(operator string, attrs []*pb.AttributeProto, operands ...*Value) *Value {
	innerFrame := *n.frame
	innerFrame.opsets, innerFrame.continuation, innerFrame.skipsInvalidNodes = map[string]int{"": packedOpset}, nil, false
	inner := &Node{importer: n.importer, scope: n.scope, frame: &innerFrame, Opset: packedOpset, In: operands,
		widened: n.widened,
		proto:   &pb.NodeProto{OpType: operator, Name: n.proto.Name, Output: []string{""}},
		attrs:   map[string]*pb.AttributeProto{}}
	for _, a := range attrs {
		inner.attrs[a.Name] = a
	}
	convertOperator := n.opts.Table.Converters[Operator{"", operator}]
	if convertOperator == nil {
		n.Failf("the operator %s, which sequences need, is not supported", operator)
	}
	return convertOperator(inner)[0]
}

// IntAttribute returns a list with one integer attribute, for [Node.ONNXOp].
func IntAttribute(name string, v int) []*pb.AttributeProto {
	return []*pb.AttributeProto{{Name: name, Type: pb.AttributeInt, I: int64(v)}}
}

// scalarInt returns an integer as a 0-dim value.
func scalarInt(i int) *Value { return Constant(tensor.IntScalar(int64(i)).Tensor(tensor.Int64)) }

// concatenated joins values along their first dimension.
func (n *Node) concatenated(parts ...*Value) *Value {
	return n.ONNXOp("Concat", IntAttribute("axis", 0), parts...)
}

// rowRange returns the rows of x with indices from `from` to `to`-1. from and to are vectors of one element.
func (n *Node) rowRange(x, from, to *Value) *Value {
	return n.ONNXOp("Slice", nil, x, from, to, IntVector(0))
}

// sumAlong returns the sums along an axis, and removes the axis.
func (n *Node) sumAlong(x *Value, axis int) *Value {
	return n.ONNXOp("ReduceSum", IntAttribute("keepdims", 0), x, IntVector(axis))
}

// rowProducts returns the product of each row of a table of shapes, which is the number of elements of the member.
func (n *Node) rowProducts(shapes *Value) *Value {
	return n.ONNXOp("ReduceProd", IntAttribute("keepdims", 0), shapes, IntVector(1))
}

// vector reshapes a value of one element to a vector.
func (n *Node) vector(x *Value) *Value { return n.ONNXOp("Reshape", nil, x, IntVector(1)) }

func (n *Node) add(x, y *Value) *Value { return n.ONNXOp("Add", nil, x, y) }

// toEnd is an end of a Slice that is beyond the last element.
const toEnd = math.MaxInt32
