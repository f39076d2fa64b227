package passes

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout"
)

// Cost returns what a node is expected to take in nanoseconds on one core, by the plan's profile.
func (p *Plan) Cost(n *graph.Node) float64 { return cost(n, p.profile) }

// NodeCost is [Plan.Cost] by the default profile, for a node of any graph: the work of its
// implementation, or of the first one where none is chosen. A view costs nothing, nor does what is no
// node of a graph.
func NodeCost(n *graph.Node) float64 { return cost(n, nil) }

func cost(n *graph.Node, p *layout.Profile) float64 {
	if n == nil || n.Op == nil || len(n.Out) == 0 || n.Out[0] == nil || n.Out[0].Alias != nil || len(n.Op.Impls) == 0 {
		return 0
	}
	if p == nil {
		p = layout.DefaultProfile()
	}
	return layout.Price(p, workOf(n))
}

// workOf returns what there is to do for a node that has implementations: what its own computes, stores
// and reads, or what the first one does where none is chosen.
func workOf(n *graph.Node) graph.Work {
	impl, c := n.Impl, n.Call()
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
