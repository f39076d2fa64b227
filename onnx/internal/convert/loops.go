package convert

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts Loop. A loop with a known, small number of iterations is unrolled: the nodes of the body are
// converted once for each iteration, and no loop remains. Any other loop becomes a node with the body as a nested
// graph. Such a loop carries a sequence as two tensors: the elements and the shapes of all members (packed.go).
//
// An outline is the known part of a value's dtype and shape. Failf ends the conversion of a node with an error.

// maxUnrolled is the maximum number of nodes into which a loop is unrolled. It is the unrollBudget of a frame outside
// loops. The iterations of an unrolled loop share the budget.
const maxUnrolled = 1 << 12

// loopOp converts Loop. The operands are the number of iterations (trips), the condition and the carried values. The
// number and the condition may be omitted. The body takes the iteration, the condition and the carried values, and
// returns the condition, the carried values, and values that are stacked over all iterations.
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
	body, carried := n.loopBody(proto, carried)
	carried, sequences := asTensors(carried) // each sequence becomes two carried tensors (packedbodies.go)
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
		case carried[i] == nil: // an omitted operand
		case carried[i].hasStrings != result.hasStrings:
			n.Failf("carried value %d has strings only before or only after an iteration", i)
		default: // without iterations, the result is the initial value
			result.outline = result.outline.Join(n.outlineOf(carried[i]))
		}
	}
	return asSequences(out, sequences)
}

// asDeclared returns a loop's body that takes the iteration and the condition as scalars. If the body declares one of
// them with the shape [1], as some exporters do, the result begins with a node that reshapes the scalar.
func asDeclared(proto *pb.GraphProto) *pb.GraphProto {
	const shapeName = "[1]"
	body := *proto
	for i, declared := range proto.Input[:firstCarried] {
		if shape := declared.Shape(); shape == nil || len(shape.Dim) != 1 {
			continue
		}
		if len(body.Node) == len(proto.Node) { // the first such input
			body.Input = slices.Clone(proto.Input)
			body.Initializer = append(slices.Clip(proto.Initializer),
				&pb.TensorProto{Name: shapeName, DataType: int32(pb.Int64), Dims: []int64{1}, Int64Data: []int64{1}})
		}
		scalar := declared.Name + " scalar"
		body.Input[i] = &pb.ValueInfoProto{Name: scalar}
		reshape := &pb.NodeProto{OpType: "Reshape", Input: []string{scalar, shapeName}, Output: []string{declared.Name}}
		body.Node = append([]*pb.NodeProto{reshape}, body.Node...)
	}
	return &body
}

// unroll converts each iteration of a loop to nodes. It returns nil if the loop must remain a loop.
func (n *Node) unroll(proto *pb.GraphProto, trips, cond *Value, carried []*Value) []*Value {
	count, ok := n.unrollCount(proto, trips, cond, carried)
	if !ok {
		return nil
	}
	condition := Constant(tensor.BoolScalar(true).Tensor(tensor.Bool))
	values := slices.Clone(carried)                               // after the last iteration so far
	toStack := make([][]*Value, len(proto.Output)-1-len(carried)) // by stacked output: the value in each iteration
	for i := range count {
		iteration := Constant(tensor.IntScalar(i).Tensor(tensor.Int64))
		out := n.convertIteration(asDeclared(proto), append([]*Value{iteration, condition}, values...), int(count))
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
		stacked := n.Op("stack", graph.Attrs{"dim": 0}, n.operandsOf(list)...)
		values = append(values, n.MarkStrings(stacked, slices.ContainsFunc(list, (*Value).HasStrings)))
	}
	return values
}

// unrollCount returns the maximum number of iterations of a loop that can be unrolled. ok is false if the number is
// unknown or large, or if the loop has no iterations but stacks values. For a loop that carries a sequence, the limit
// is not the budget of the frame but maxNodes, the maximum number of nodes of a model.
func (n *Node) unrollCount(proto *pb.GraphProto, trips, cond *Value, carried []*Value) (count int64, ok bool) {
	areKnown := trips != nil && trips.data != nil && (cond == nil || cond.data != nil)
	if !areKnown || !n.hasKnownCondition(proto) {
		return 0, false
	}
	count = n.Number(trips).Int()
	startsFalse := cond != nil && n.Number(cond).Int() == 0
	if count < 1 || startsFalse {
		stacksValues := len(proto.Output) > 1+len(carried)
		return 0, !stacksValues // the sizes of stacked values are known only after a conversion of the body
	}
	nodeLimit := n.frame.unrollBudget
	if slices.ContainsFunc(carried, func(v *Value) bool { return v != nil && v.kind == sequenceKind }) {
		nodeLimit = maxNodes
	}
	return count, count <= int64(nodeLimit/max(len(proto.Node), 1))
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
