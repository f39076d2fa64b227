package passes

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/report"
)

// isComposite reports whether the op of a node consists of other ops.
func isComposite(n *graph.Node) bool { return n.Op.Decompose != nil }

// decompose replaces each composite node by the nodes that its op's Decompose returns, recursively. For example, it
// replaces a node batch_norm by nodes sqrt, div, mul, add and so on.
func decompose(p *Plan) error {
	firstComposite := slices.IndexFunc(p.Graph.Nodes, isComposite)
	if firstComposite < 0 {
		return nil
	}
	nodes := slices.Clone(p.Graph.Nodes[:firstComposite])
	failed := map[*graph.Node]*graph.Error{}
	for _, n := range p.Graph.Nodes[firstComposite:] {
		interrupt.Check(p.ctx)
		var newNames []string
		name := n.Name // Decompose may rename n
		switch err := addDecomposed(p.Graph, n, &nodes, &newNames); {
		case err != nil && p.keepGoing:
			failed[n] = p.Graph.NodeError(n, err)
			p.Failed = append(p.Failed, failed[n])
			nodes = append(nodes, n)
		case err != nil:
			return p.Graph.NodeError(n, err)
		case isComposite(n):
			p.Decomposed = append(p.Decomposed, report.Decomposition{Node: name, Op: n.Op.Name, Into: newNames})
		}
	}
	p.Graph.Nodes = nodes
	if len(failed) > 0 {
		p.Graph = p.Graph.WithoutRejected(failed)
	}
	if n := len(p.Decomposed); n > 0 {
		p.Note("%s decomposed", countText(n, "node", "nodes"))
	}
	return nil
}

// addDecomposed appends n, or the nodes that replace a composite n, to nodes, and their names to names. After an error,
// some of them may be missing.
func addDecomposed(g *graph.Graph, n *graph.Node, nodes *[]*graph.Node, names *[]string) error {
	if !isComposite(n) {
		*names = append(*names, n.Name)
		*nodes = append(*nodes, n)
		return nil
	}
	newNodes, err := g.Decompose(n)
	if err != nil {
		return err
	}
	for _, newNode := range newNodes {
		if err := addDecomposed(g, newNode, nodes, names); err != nil {
			return err
		}
	}
	return nil
}
