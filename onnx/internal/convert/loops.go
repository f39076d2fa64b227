package convert

import (
	"errors"
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts Loop. A loop with a known, small number of iterations is unrolled: the nodes of the body are
// converted once for each iteration, and no loop remains. Any other loop becomes a node with its body as a nested
// graph. The sequences that such a loop carries are packed (packed.go): two tensors have the elements and the shapes of
// all members. In a body, the field `outer` of a packed sequence is the same sequence in the enclosing graph.
//
// An outline is the known part of a value's shape. Failf ends the conversion of a node with an error (Recover).

// maxUnrolled is the maximum number of nodes into which a loop is unrolled: the unrollBudget of a frame outside loops.
// A larger loop becomes a node with its body as attribute.
const maxUnrolled = 1 << 12

// loopOp converts Loop: operands are the number of iterations (trips), the condition (both may be omitted) and the
// carried values. The body takes the iteration, the condition and the carried values, and returns the condition, the
// carried values, and values that are stacked over all iterations.
func loopOp(n *Node) []*Value {
	proto := n.body("body")
	if len(n.In) < 2 {
		n.Failf("operands are missing")
	}
	carried := n.In[2:]
	if len(proto.Input) != 2+len(carried) || len(proto.Output) < 1+len(carried) {
		n.Failf("a body with %d inputs and %d outputs cannot carry %d values", len(proto.Input), len(proto.Output),
			len(carried))
	}
	trips, cond := n.OperandOrNil(0), n.OperandOrNil(1)
	if out := n.unroll(proto, trips, cond, carried); out != nil {
		return out
	}
	body, carried, sequences := n.loopBody(proto, carried)
	operands := append([]any{trips, cond}, n.operandsOf(carried, body.importer.captured)...)
	attrs := graph.Attrs{"body": body.importer.graph, "carried": len(carried)}
	if count, ok := n.tripCount(proto, trips, cond); ok {
		attrs["trips"] = count.String()
	}
	out := n.emitN("loop", len(body.out)-1, attrs, operands...)
	for i, result := range out {
		result.outline, result.hasStrings = body.outline(1+i), body.out[1+i].hasStrings // body.out[0] is the condition
		switch {
		case i >= len(carried):
			result.outline = result.outline.Stacked(0)
		case carried[i] == nil:
		case carried[i].hasStrings != result.hasStrings:
			n.Failf("carried value %d has strings only before or only after an iteration", i)
		default: // without iterations, the result is the initial value
			result.outline = result.outline.Join(n.outlineOf(carried[i]))
		}
	}
	return asSequences(out, sequences)
}

// unroll converts each iteration of a loop to nodes. It returns nil if the loop must remain a loop.
func (n *Node) unroll(proto *pb.GraphProto, trips, cond *Value, carried []*Value) []*Value {
	count, ok := n.unrollCount(proto, trips, cond, carried)
	if !ok {
		return nil
	}
	condition := Constant(tensor.BoolScalar(true).Tensor(tensor.Bool))
	values := slices.Clone(carried)                            // after the last iteration so far
	toStack := make([][]any, len(proto.Output)-1-len(carried)) // by stacked output: its value in each iteration
	for i := range count {
		iteration := Constant(tensor.IntScalar(i).Tensor(tensor.Int64))
		out := n.convertIteration(proto, append([]*Value{iteration, condition}, values...), int(count))
		if out[0].data == nil {
			n.Failf("the loop's condition depends on data")
		}
		copy(values, out[1:1+len(carried)])
		for k, v := range out[1+len(carried):] {
			toStack[k] = append(toStack[k], v)
		}
		if n.Number(out[0]).Int() == 0 {
			break
		}
	}
	for _, list := range toStack {
		isText := slices.ContainsFunc(list, func(x any) bool { return x.(*Value).hasStrings })
		values = append(values, n.MarkStrings(n.Op("stack", graph.Attrs{"dim": 0}, list...), isText))
	}
	return values
}

// unrollCount returns the maximum number of iterations of a loop that can be unrolled. ok is false if the number is
// unknown or large, or if the loop has no iterations but stacks values. A loop that carries a sequence may exceed the
// frame's budget, but not maxNodes.
func (n *Node) unrollCount(proto *pb.GraphProto, trips, cond *Value, carried []*Value) (count int64, ok bool) {
	areKnown := trips != nil && trips.data != nil && (cond == nil || cond.data != nil)
	if !areKnown || !n.hasKnownCondition(proto) {
		return 0, false
	}
	count = n.Number(trips).Int()
	startsFalse := cond != nil && n.Number(cond).Int() == 0
	if count < 1 || startsFalse {
		stacksValues := len(proto.Output) > 1+len(carried)
		return 0, !stacksValues // only a conversion of the body gives the sizes of stacked values
	}
	bodyNodes := int64(max(len(proto.Node), 1))
	hasSequence := slices.ContainsFunc(carried, func(v *Value) bool { return v != nil && v.kind == sequenceKind })
	fitsBudget := hasSequence || count <= int64(n.frame.unrollBudget)/bodyNodes
	return count, fitsBudget && count <= maxNodes/bodyNodes
}

// hasKnownCondition reports whether a loop's condition is known in each iteration, because the body returns the
// condition unchanged or returns a constant.
func (n *Node) hasKnownCondition(proto *pb.GraphProto) bool {
	name, node, ok := conditionOrigin(proto, "Identity", "Cast")
	isInitializer := func(initializer *pb.TensorProto) bool { return initializer.Name == name }
	switch {
	case !ok:
		return false
	case name == proto.Input[1].Name || slices.ContainsFunc(proto.Initializer, isInitializer):
		return true
	case node != nil:
		return node.OpType == "Constant"
	}
	outside := n.scope.lookup(name)
	return outside != nil && outside.data != nil
}

// keepsCondition reports whether the body of a loop returns the loop's condition unchanged.
func keepsCondition(proto *pb.GraphProto) bool {
	name, _, ok := conditionOrigin(proto, "Identity")
	return ok && name == proto.Input[1].Name
}

// conditionOrigin follows the condition that a loop's body returns backwards through nodes of the given op types. It
// returns the value at which it stops, and the node that computes this value, or nil if it is an input of the body or
// from outside. ok is false if the body has no condition, or if the chain is a cycle or too long.
func conditionOrigin(proto *pb.GraphProto, opTypes ...string) (name string, node *pb.NodeProto, ok bool) {
	if len(proto.Output) == 0 || len(proto.Input) < 2 {
		return "", nil, false
	}
	name = proto.Output[0].Name
	for range min(len(proto.Node)+1, maxDepth) { // the limit ends cycles
		i := slices.IndexFunc(proto.Node, func(m *pb.NodeProto) bool { return slices.Contains(m.Output, name) })
		if i < 0 || name == proto.Input[1].Name {
			return name, nil, true
		}
		node = proto.Node[i]
		if !slices.Contains(opTypes, node.OpType) || len(node.Input) != 1 {
			return name, node, true
		}
		name = node.Input[0]
	}
	return "", nil, false
}

// loopBody converts the body of a loop that becomes a node. It returns the body, and the carried values as tensors with
// the sequences among them ([asTensors]). If the body inserts the first member into a sequence of unknown rank, the
// conversion fails with a memberRankError. loopBody then converts the body again, with an empty sequence of the
// member's rank and dtype.
func (n *Node) loopBody(proto *pb.GraphProto, carried []*Value) (*nestedGraph, []*Value, map[int]*packedSequence) {
	carried = slices.Clone(carried)
	for i, x := range carried {
		if x != nil && x.kind == sequenceKind {
			carried[i] = n.packedOf(x, declaredRank(proto.Input[2+i])).toValue()
		}
	}
	for count := n.nodeCount; ; n.nodeCount = count {
		// The first two inputs are the iteration and the condition. Only their types matter. All others are carried.
		start := []*Value{Constant(tensor.Zeros(tensor.Int64)), Constant(tensor.Zeros(tensor.Bool))}
		body, err := n.tryConvertBody(proto, append(start, carried...), func(i int) bool { return i >= 2 })
		if err == nil {
			tensors, sequences := asTensors(carried)
			return body, tensors, sequences
		}
		var rankErr *memberRankError
		if !errors.As(err, &rankErr) {
			n.Failf("%w", err)
		}
		i := slices.IndexFunc(carried, func(x *Value) bool {
			return x != nil && x.packed != nil && x.packed == rankErr.sequence.outer
		})
		switch {
		case i < 0:
			n.Failf("%w", err)
		case carried[i].packed.outer != nil:
			// The enclosing loop carries the same sequence: its body must be converted again.
			panic(failure{&memberRankError{sequence: carried[i].packed, rank: rankErr.rank, dtype: rankErr.dtype}})
		}
		carried[i] = (&packedSequence{dtype: rankErr.dtype, rank: rankErr.rank,
			data:   Constant(tensor.Zeros(rankErr.dtype, 0)),
			shapes: Constant(tensor.Zeros(tensor.Int64, 0, rankErr.rank))}).toValue()
	}
}

// declaredRank returns the declared rank of a sequence's members, or -1 if the rank is not declared.
func declaredRank(v *pb.ValueInfoProto) int {
	if v.Type == nil || v.Type.SequenceType == nil {
		return -1
	}
	member := pb.ValueInfoProto{Type: v.Type.SequenceType.ElemType}
	if s := member.Shape(); s != nil {
		return len(s.Dim)
	}
	return -1
}

// tripCount returns the number of iterations of a loop as an expression over sizes. ok is false if the number depends
// on data, or if the loop's condition may become false.
func (n *Node) tripCount(proto *pb.GraphProto, trips, cond *Value) (count sym.Int, ok bool) {
	if trips == nil {
		return count, false
	}
	startsTrue := cond == nil || cond.data != nil && n.Number(cond).Int() != 0
	if !startsTrue || !keepsCondition(proto) {
		return count, false
	}
	if count, ok = trips.elements.Int(); !ok {
		return count, false
	}
	return count, n.useSymbols(count.String())
}
