package main

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes"
)

// cse is a pass that eliminates common subexpressions: it removes a node if an earlier node has an equal op, equal
// attributes and equal operands.
var cse = passes.Pass{
	Name:  "cse",
	Doc:   "computes each common subexpression once",
	Needs: graph.Typed,
	Run: func(p *passes.Plan) error {
		replacement := map[*graph.Value]*graph.Value{} // maps each value of a removed node to its replacement
		var uniqueNodes []*graph.Node
		for _, n := range p.Graph.Nodes {
			if err := replaceOperands(n, replacement); err != nil {
				return p.Graph.NodeError(n, err)
			}
			i := slices.IndexFunc(uniqueNodes, func(m *graph.Node) bool { return equal(m, n) })
			if i < 0 {
				uniqueNodes = append(uniqueNodes, n)
				continue
			}
			for j, v := range n.Out {
				replacement[v] = uniqueNodes[i].Out[j]
			}
			p.Note("%s is %s", n.Name, uniqueNodes[i].Name)
		}
		p.Graph.Nodes = uniqueNodes
		for i, output := range p.Graph.Outputs {
			if v := replacement[output.Value]; v != nil {
				p.Graph.Outputs[i].Value = v
			}
		}
		return nil
	},
}

// replaceOperands replaces operands of a node by their replacements, if they have replacements.
func replaceOperands(n *graph.Node, replacement map[*graph.Value]*graph.Value) error {
	changed := false
	for i := range n.In {
		if v := replacement[n.In[i].Value]; v != nil {
			n.In[i].Value, changed = v, true
		}
	}
	if !changed {
		return nil
	}
	return n.Infer() // updates the value that a view refers to
}

// equal reports whether two nodes compute the same values. A pinned node is equal to no other node.
func equal(m, n *graph.Node) bool {
	return m.Op == n.Op && m.Pin == n.Pin && slices.Equal(m.In, n.In) && graph.SameAttrs(m, n)
}
