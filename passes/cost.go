package passes

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout"
)

// Cost returns what a node is expected to take in nanoseconds on one core, by the plan's profile.
func (p *Plan) Cost(n *graph.Node) float64 {
	if n != nil && len(n.Out) > 0 {
		if c := p.costs.At(n.Out[0]); c.node == n {
			return c.ns
		}
	}
	return cost(n, p.profile, &graph.Call{})
}

// costOf is what a node was found to cost.
type costOf struct {
	node *graph.Node
	ns   float64
}

// cost prices the work of the node's implementation, or of the first one where none is chosen, and how it reads each
// operand, as the exact problem of layouts does, and builds its call in c. A view costs nothing, nor does what is no
// node of a graph.
func cost(n *graph.Node, p *layout.Profile, c *graph.Call) float64 {
	if n == nil || n.Op == nil || len(n.Out) == 0 || n.Out[0] == nil || n.Out[0].Alias != nil || len(n.Op.Impls) == 0 {
		return 0
	}
	*c = graph.Call{In: n.In, Attrs: n.Attrs, Impl: n.Impl, Walk: n.Walk, Out: c.Out[:0]}
	for _, v := range n.Out {
		c.Out = append(c.Out, v.Meta)
	}
	impl := n.Impl
	if impl == nil {
		impl = &n.Op.Impls[0]
	}
	ps := layout.PS(p, impl.Work(c, n.Walk))
	for i, a := range n.In {
		if a.Kind == graph.TensorArg {
			r, _ := impl.Read(c, n.Walk, i, a.Meta())
			ps += layout.PS(p, r)
		}
	}
	return float64(ps) / 1000
}
