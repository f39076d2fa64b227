package convert

import (
	"slices"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
)

// This file analyses the condition of a Loop. It reads the graph of the body and does not convert it. Input 1 of the
// body is the condition of an iteration, and output 0 is the condition of the next iteration.

// hasKnownCondition reports whether the body of a loop returns the condition unchanged or returns a constant. The
// condition is then known in each iteration.
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

// conditionOrigin starts at the condition that a loop's body returns, and follows it backwards through nodes of the
// given op types. It returns the value at which it stops, and the node that computes this value. The node is nil if the
// value is an input of the body or is from outside. ok is false if the body has no condition, or if the chain is a
// cycle or too long.
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
