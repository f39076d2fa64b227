package passes

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
)

// Decomposition records that other nodes replaced a node.
type Decomposition struct {
	Node, Op string
	Into     []string // names of the new nodes
	Why      string   // reason of the rewrite pass; empty if the op itself consists of other ops
}

// decompose replaces composite nodes by their parts, recursively.
func decompose(p *Plan) error {
	composite := func(n *graph.Node) bool { return n.Op.Decompose != nil }
	first := slices.IndexFunc(p.Graph.Nodes, composite)
	if first < 0 {
		return nil
	}
	nodes := slices.Clone(p.Graph.Nodes[:first])
	failed := map[*graph.Node]*graph.Error{}
	var add func(n *graph.Node, into *[]string) error
	add = func(n *graph.Node, into *[]string) error {
		if !composite(n) {
			*into = append(*into, n.Name)
			nodes = append(nodes, n)
			return nil
		}
		parts, err := p.Graph.Decompose(n)
		if err != nil {
			return err
		}
		for _, m := range parts {
			if err := add(m, into); err != nil {
				return err
			}
		}
		return nil
	}
	for _, n := range p.Graph.Nodes[first:] {
		interrupt.Check(p.ctx)
		var into []string
		name := n.Name
		switch err := add(n, &into); {
		case err != nil && p.keepGoing:
			failed[n] = p.Graph.Fail(n, err)
			p.Failed = append(p.Failed, failed[n])
			nodes = append(nodes, n)
		case err != nil:
			return p.Graph.Fail(n, err)
		case composite(n):
			p.Decomposed = append(p.Decomposed, Decomposition{Node: name, Op: n.Op.Name, Into: into})
		}
	}
	p.Graph.Nodes = nodes
	if len(failed) > 0 {
		p.Graph = p.Graph.Drop(failed)
	}
	if n := len(p.Decomposed); n > 0 {
		p.Note("%s decomposed", counted(n, "node", "nodes"))
	}
	return nil
}
