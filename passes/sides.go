package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Sides explains a copy by two paths through the graph, one sentence per step. Written leads from the source of the
// copy back to the node, input or pin that determined its layout. Wanted leads from the copy to the reader or output
// that requires the new layout.
type Sides struct{ Written, Wanted []string }

// Sides returns the explanation of a copy of the plan; empty for nil or unknown copies.
func (p *Plan) Sides(c *Copy) (s Sides) {
	if p == nil || c == nil || c.Node == nil || len(c.Node.In) == 0 || c.Node.In[0].Value == nil {
		return s
	}
	s.Written = p.explainWritten(c.Node.In[0].Value)
	s.Wanted = p.explainWanted(c.Node.Out[0])
	return s
}

// orderText names a layout: a memory format, a dimension order, or strides.
func orderText(m tensor.Meta) string {
	if o, dense := tensor.OrderOf(m); dense {
		return o.String()
	}
	return "strides " + tensor.ListString(m.Strides)
}

// explainWritten follows a value back to the origin of its layout.
func (p *Plan) explainWritten(v *graph.Value) (path []string) {
	for range len(p.Graph.Nodes) + 1 {
		n := v.Node
		switch {
		case n == nil && v.Const != nil:
			return append(path, fmt.Sprintf("constant %q has layout %s", v.Name, orderText(v.Meta)))
		case n == nil:
			return append(path, fmt.Sprintf("input %q has layout %s", v.Name, orderText(v.Meta)))
		case n.Pin.Lays():
			return append(path, fmt.Sprintf("%q is pinned to %s", v.Name, orderText(v.Meta)))
		case v.Alias != nil:
			path = append(path, fmt.Sprintf("%s (%s) is a view of %q", n.Name, n.Op.Name, v.Alias.Name))
			v = v.Alias
			continue
		}
		path = append(path, describe(n)+" writes "+orderText(v.Meta))
		from := orderSource(n, v)
		if from == nil {
			return path
		}
		v = from
	}
	return path
}

// describe names a node, its op and its implementation.
func describe(n *graph.Node) string {
	text := fmt.Sprintf("%s (%s)", n.Name, n.Op.Name)
	if choosesLayout(n) && n.Impl != nil {
		text += " by " + n.Impl.Name
	}
	return text
}

// choosesLayout reports whether layouts of a node depend on the implementation that is chosen.
func choosesLayout(n *graph.Node) bool {
	return len(n.Op.Impls) > 1 || len(n.Op.Impls) == 1 && n.Op.Impls[0].Selective()
}

// orderSource returns the largest operand whose dimension order v follows; nil if the implementation determines it.
func orderSource(n *graph.Node, v *graph.Value) (from *graph.Value) {
	if choosesLayout(n) {
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

// explainWanted follows a value forward to the reader or output that requires its layout.
func (p *Plan) explainWanted(v *graph.Value) (path []string) {
	seen := map[*graph.Value]bool{}
	for !seen[v] {
		seen[v] = true
		for _, o := range p.Graph.Outputs {
			if o.Value == v {
				return append(path, fmt.Sprintf("output %q has layout %s", o.Name, orderText(v.Meta)))
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
			path = append(path, fmt.Sprintf("%s (%s) views it as %s", n.Name, n.Op.Name, orderText(out.Meta)))
		case choosesLayout(n):
			return append(path, describe(n)+" requires "+orderText(v.Meta))
		default:
			path = append(path, describe(n)+" reads it and writes "+orderText(out.Meta))
		}
		v = out
	}
	return path
}

// reader returns a node that reads v, preferably one that chooses its layouts.
func (p *Plan) reader(v *graph.Value) (first *graph.Node) {
	for _, n := range p.Graph.Nodes {
		if !slices.ContainsFunc(n.In, func(a graph.Arg) bool { return a.Kind == graph.TensorArg && a.Value == v }) {
			continue
		}
		if choosesLayout(n) {
			return n
		}
		if first == nil {
			first = n
		}
	}
	return first
}
