package passes

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout"
)

// Cost returns what a node is expected to take in nanoseconds on one core, by the plan's profile. A view costs
// nothing, nor does what is no node of a graph.
func (p *Plan) Cost(n *graph.Node) float64 {
	if n != nil && len(n.Out) > 0 {
		if c := p.costs.At(n.Out[0]); c.node == n {
			return c.ns
		}
	}
	return cost(n, p.profile)
}

// Kept returns what prices depend on beside works: the bytes of the constants that all steps go over.
func (p *Plan) Kept() float64 {
	if p == nil || p.profile == nil {
		return 0
	}
	return p.profile.Kept()
}

// costOf is what a node was found to cost.
type costOf struct {
	node *graph.Node
	ns   float64
}

// cost prices the work of the node's implementation, or of the first one where none is chosen, and that of reading
// each operand as it lies.
func cost(n *graph.Node, p *layout.Profile) (ns float64) {
	for _, w := range n.Works() {
		ns += float64(layout.PS(p, w)) / 1e3
	}
	return ns
}
