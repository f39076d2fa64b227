package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Sides tell why the two sides of a copy disagree, from the copy to where each has it from: how the value came to be
// written as it is, and who wants it as the copy lies.
type Sides struct{ Written, Wanted []string }

// Sides returns the sides of a copy of the plan: what its nodes have to do with it.
func (p *Plan) Sides(c *Copy) (s Sides) {
	if p == nil || c == nil || c.Node == nil || len(c.Node.In) == 0 || c.Node.In[0].Value == nil {
		return s
	}
	s.Written = p.written(c.Node.In[0].Value)
	s.Wanted = p.wanted(c.Node.Out[0])
	return s
}

// orderText names a layout.
func orderText(m tensor.Meta) string {
	if o, dense := tensor.OrderOf(m); dense {
		return o.String()
	}
	return "as strides " + tensor.ListString(m.Strides) + " have it"
}

// written goes from a value back to what decided how it lies.
func (p *Plan) written(v *graph.Value) (path []string) {
	for range len(p.Graph.Nodes) + 1 {
		n := v.Node
		switch {
		case n == nil && v.Const != nil:
			return append(path, fmt.Sprintf("constant %q is %s", v.Name, orderText(v.Meta)))
		case n == nil:
			return append(path, fmt.Sprintf("input %q is given %s", v.Name, orderText(v.Meta)))
		case n.Pin.Lays():
			return append(path, fmt.Sprintf("%q is pinned to %s", v.Name, orderText(v.Meta)))
		case v.Alias != nil:
			path = append(path, fmt.Sprintf("%s (%s) shows %q", n.Name, n.Op.Name, v.Alias.Name))
			v = v.Alias
			continue
		}
		path = append(path, computes(n)+" writes "+orderText(v.Meta))
		from := followed(n, v)
		if from == nil {
			return path
		}
		v = from
	}
	return path
}

// computes names a node and its implementation.
func computes(n *graph.Node) string {
	text := fmt.Sprintf("%s (%s)", n.Name, n.Op.Name)
	if chooses(n) && n.Impl != nil {
		text += " by " + n.Impl.Name
	}
	return text
}

// chooses reports whether a node's implementations have layouts of their own.
func chooses(n *graph.Node) bool {
	return len(n.Op.Impls) > 1 || len(n.Op.Impls) == 1 && n.Op.Impls[0].Selective()
}

// followed is the largest operand in whose order a node writes v; nil where the node has its own reasons.
func followed(n *graph.Node, v *graph.Value) (from *graph.Value) {
	if chooses(n) {
		return nil
	}
	o, dense := tensor.OrderOf(v.Meta)
	for _, a := range n.In {
		if a.Kind != graph.TensorArg || a.Value.Const != nil || !dense || a.Value.Meta.Rank() != v.Meta.Rank() ||
			!o.Holds(a.Value.Meta) {
			continue
		}
		if from == nil || a.Value.Meta.Bytes() > from.Meta.Bytes() {
			from = a.Value
		}
	}
	return from
}

// wanted goes from a value on to who wants it as it lies.
func (p *Plan) wanted(v *graph.Value) (path []string) {
	seen := map[*graph.Value]bool{}
	for !seen[v] {
		seen[v] = true
		for _, o := range p.Graph.Outputs {
			if o.Value == v {
				return append(path, fmt.Sprintf("output %q is handed over %s", o.Name, orderText(v.Meta)))
			}
		}
		n := p.reader(v)
		if n == nil {
			return path
		}
		out := n.Out[0]
		switch {
		case n.Pin.Lays():
			return append(path, fmt.Sprintf("%q is pinned to %s", out.Name, orderText(out.Meta)))
		case out.Alias == v:
			path = append(path, fmt.Sprintf("%s (%s) shows it as %s", n.Name, n.Op.Name, orderText(out.Meta)))
		case chooses(n):
			return append(path, computes(n)+" reads it "+orderText(v.Meta))
		default:
			path = append(path, computes(n)+" reads it, and writes "+orderText(out.Meta))
		}
		v = out
	}
	return path
}

// reader is a node that reads a value: one that has layouts of its own, if there is one.
func (p *Plan) reader(v *graph.Value) (first *graph.Node) {
	for _, n := range p.Graph.Nodes {
		if !slices.ContainsFunc(n.In, func(a graph.Arg) bool { return a.Kind == graph.TensorArg && a.Value == v }) {
			continue
		}
		if chooses(n) {
			return n
		}
		if first == nil {
			first = n
		}
	}
	return first
}
