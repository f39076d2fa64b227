package onnx

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// maxUnrolled bounds the number of nodes to which a loop is unrolled; a longer loop becomes a node that runs
// its body.
const maxUnrolled = 1 << 12

func loop(n *node) []*val {
	p := n.body("body")
	if len(n.in) < 2 {
		n.failf("operands are missing")
	}
	carried := n.in[2:]
	if len(p.Input) != 2+len(carried) || len(p.Output) < 1+len(carried) {
		n.failf("a body with %d inputs and %d outputs cannot carry %d values", len(p.Input), len(p.Output), len(carried))
	}
	trips, cond := n.opt(0), n.opt(1)
	if out := n.unrolled(p, trips, cond, carried); out != nil {
		return out
	}
	body, carried, sequences := n.loopBody(p, carried)
	operands := append([]any{trips, cond}, n.operandsOf(carried, body.im.captured)...)
	attrs := graph.Attrs{"body": body.im.g, "carried": len(carried)}
	if by, ok := n.tripCount(p, trips, cond); ok {
		attrs["trips"] = by.String()
	}
	out := n.emitN("loop", len(body.out)-1, attrs, operands...)
	for i, o := range out {
		o.outline = body.outline(1 + i)
		if i >= len(carried) {
			o.outline = o.outline.Stacked(0)
			continue
		}
		// Without iterations the result is the initial value.
		if carried[i] != nil {
			o.outline = o.outline.Join(n.outlineOf(carried[i]))
		}
	}
	return asSequences(out, sequences)
}

// tripCount returns the trip count of a loop if it is a size expression and the loop's condition stays true.
func (n *node) tripCount(p *pb.GraphProto, trips, cond *val) (by sym.Int, ok bool) {
	switch {
	case trips == nil || trips.elements == nil || len(trips.elements.list) != 1 || trips.dtype().IsFloat():
		return by, false
	case cond != nil && (cond.data == nil || n.number(cond).Int() == 0) || !n.passesCondition(p):
		return by, false
	}
	by = trips.elements.list[0].n
	return by, n.uses(by.String())
}

// passesCondition reports whether a body returns its condition unchanged.
func (n *node) passesCondition(p *pb.GraphProto) bool {
	if len(p.Output) == 0 || len(p.Input) < 2 {
		return false
	}
	name := p.Output[0].Name
	for range min(len(p.Node)+1, maxDepth) {
		if name == p.Input[1].Name {
			return true
		}
		i := slices.IndexFunc(p.Node, func(m *pb.NodeProto) bool { return slices.Contains(m.Output, name) })
		if i < 0 || p.Node[i].OpType != "Identity" || len(p.Node[i].Input) != 1 {
			return false
		}
		name = p.Node[i].Input[0]
	}
	return false
}

// unrolled converts a loop iteration by iteration if the number of iterations is known; else it returns nil.
func (n *node) unrolled(p *pb.GraphProto, trips, cond *val, carried []*val) []*val {
	if trips == nil || trips.data == nil || cond != nil && cond.data == nil || !n.knownCondition(p) {
		return nil
	}
	count := n.number(trips).Int()
	if cond != nil && n.number(cond).Int() == 0 {
		count = 0
	}
	nodes := int64(max(len(p.Node), 1))
	sequences := slices.ContainsFunc(carried, func(v *val) bool { return v != nil && v.kind == isSequence })
	if count > int64(n.frame.unroll)/nodes && !sequences || count > maxNodes/nodes || count < 1 {
		if count < 1 && len(p.Output) == 1+len(carried) {
			return slices.Clone(carried)
		}
		return nil
	}
	going := known(tensor.BoolScalar(true).Tensor(tensor.Bool))
	values := slices.Clone(carried)
	collected := make([][]any, len(p.Output)-1-len(carried))
	for i := range count {
		out := n.repeated(p, append([]*val{known(tensor.IntScalar(i).Tensor(tensor.Int64)), going}, values...), int(count))
		if out[0].data == nil {
			n.failf("the loop's condition depends on data")
		}
		copy(values, out[1:1+len(carried)])
		for k, v := range out[1+len(carried):] {
			collected[k] = append(collected[k], v)
		}
		if n.number(out[0]).Int() == 0 {
			break
		}
	}
	for _, list := range collected {
		values = append(values, n.op("stack", graph.Attrs{"dim": 0}, list...))
	}
	return values
}

// knownCondition reports whether a loop's condition is known in each iteration: it is passed through, or a constant.
func (n *node) knownCondition(p *pb.GraphProto) bool {
	if len(p.Output) == 0 || len(p.Input) < 2 {
		return false
	}
	name := p.Output[0].Name
	for range min(len(p.Node)+1, maxDepth) {
		if name == p.Input[1].Name {
			return true
		}
		if slices.ContainsFunc(p.Initializer, func(t *pb.TensorProto) bool { return t.Name == name }) {
			return true
		}
		i := slices.IndexFunc(p.Node, func(m *pb.NodeProto) bool { return slices.Contains(m.Output, name) })
		switch {
		case i < 0:
			outside := n.scope.lookup(name)
			return outside != nil && outside.data != nil
		case p.Node[i].OpType == "Constant":
			return true
		case p.Node[i].OpType != "Identity" && p.Node[i].OpType != "Cast" || len(p.Node[i].Input) != 1:
			return false
		}
		name = p.Node[i].Input[0]
	}
	return false
}
