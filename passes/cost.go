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

// cost prices the work of the node's implementation, or of the first one where none is chosen, and builds its call in
// c. A view costs nothing, nor does what is no node of a graph.
func cost(n *graph.Node, p *layout.Profile, c *graph.Call) float64 {
	if n == nil || n.Op == nil || len(n.Out) == 0 || n.Out[0] == nil || n.Out[0].Alias != nil || len(n.Op.Impls) == 0 {
		return 0
	}
	if p == nil {
		p = layout.DefaultProfile()
	}
	*c = graph.Call{In: n.In, Attrs: n.Attrs, Impl: n.Impl, Walk: n.Walk, Out: c.Out[:0]}
	for _, v := range n.Out {
		c.Out = append(c.Out, v.Meta)
	}
	return layout.Price(p, workOf(n, c))
}

// workOf returns what there is to do for a node that has implementations: what its own computes, stores
// and reads, or what the first one does where none is chosen.
func workOf(n *graph.Node, c *graph.Call) graph.Work {
	impl := n.Impl
	if impl == nil {
		impl = &n.Op.Impls[0]
	}
	w := impl.Work(c, n.Walk)
	for i, a := range n.In {
		if a.Kind == graph.TensorArg {
			r, _ := impl.Read(c, n.Walk, i, a.Meta())
			w = w.Plus(r)
		}
	}
	return w
}
