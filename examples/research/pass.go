package main

import (
	"reflect"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes"
)

// share is a pass of one's own: of nodes that do the same to the same operands, one runs.
var share = passes.Pass{
	Name:  "share",
	Doc:   "lets one node compute what several compute alike",
	Needs: graph.Typed,
	Run: func(p *passes.Plan) error {
		instead := map[*graph.Value]*graph.Value{}
		var kept []*graph.Node
		for _, n := range p.Graph.Nodes {
			if err := reread(n, instead); err != nil {
				return p.Graph.Fail(n, err)
			}
			i := slices.IndexFunc(kept, func(m *graph.Node) bool { return alike(m, n) })
			if i < 0 {
				kept = append(kept, n)
				continue
			}
			for j, v := range n.Out {
				instead[v] = kept[i].Out[j]
			}
			p.Note("%s is %s", n.Name, kept[i].Name)
		}
		p.Graph.Nodes = kept
		for i, o := range p.Graph.Outputs {
			if v := instead[o.Value]; v != nil {
				p.Graph.Outputs[i].Value = v
			}
		}
		return nil
	},
}

// reread lets a node read what takes the place of its operands.
func reread(n *graph.Node, instead map[*graph.Value]*graph.Value) error {
	changed := false
	for i := range n.In {
		if v := instead[n.In[i].Value]; v != nil {
			n.In[i].Value, changed = v, true
		}
	}
	if !changed {
		return nil
	}
	return n.Infer() // of a view it tells what it is a view of
}

// alike reports whether two nodes compute the same. A pinned node is like no other.
func alike(m, n *graph.Node) bool {
	return m.Op == n.Op && m.Pin == n.Pin && slices.Equal(m.In, n.In) && reflect.DeepEqual(m.Attrs, n.Attrs)
}
