package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Apart is a pair of nodes that are computed in different steps, though one reads what the other makes and both are of
// ops that share loops with others, or tell why they do not ([graph.Op.Alone]): pointwise ones, and those that fold
// rows or run along them; the first may be a product or a convolution, which loops can follow.
type Apart struct{ Node, Reader, Why string }

// shares reports whether a node is of an op that shares loops with others, or tells why it does not.
func shares(n *graph.Node) bool {
	o := n.Op
	return len(n.Out) > 0 && (o.Pointwise != nil || o.Expression != nil || o.Rows != nil || o.Alone != "")
}

// tellApart lists the pairs of nodes that could be one step, by place of the first, and are not in one group.
func (g *grouper) tellApart() {
	told := map[*graph.Node]*graph.Node{} // by reader: of which node last, for it may read that one several times
	for _, n := range g.p.Graph.Nodes {
		if !shares(n) && !n.Op.HasTail() {
			continue
		}
		for _, v := range n.Out {
			for _, r := range g.uses.nodes.At(v) {
				if told[r] == n || !shares(r) {
					continue
				}
				told[r] = n
				if c := g.group(n); c == nil || c != g.group(r) {
					g.p.Apart = append(g.p.Apart, Apart{n.Name, r.Name, g.whyApart(n, r)})
				}
			}
		}
	}
}

// whyApart tells why a node is not in one group with one that reads it.
func (g *grouper) whyApart(n, r *graph.Node) string {
	for _, m := range []*graph.Node{n, r} {
		if why := g.alone[m]; why != "" && (shares(m) || g.apart[m] == "") {
			return m.Name + " " + why
		}
	}
	a, b := n.Out[0].Meta.Shape, r.Out[0].Meta.Shape
	why := g.apart[n]
	switch {
	case !shares(n) || slices.Equal(a, b) || why == otherDims || why == secondSweep:
	case why == "" || joint(space{shape: a}, g.group(r).space).shape == nil:
		return fmt.Sprintf("one goes over %s, the other over %s", tensor.ListString(a), tensor.ListString(b))
	}
	return why
}
