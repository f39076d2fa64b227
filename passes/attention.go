package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/sym"
)

// joinAttentions puts into one group a product of matrices, what goes over rows of what it makes, such as a scale, a
// mask and a softmax, and the product of these rows with another matrix: it computes some rows after the other, and
// what lies between is never in memory as a whole.
func (g *grouper) joinAttentions() {
	found := 0
	for i, n := range g.p.Graph.Nodes {
		ends.Look(g.p.ctx)
		if n.Op == nil || !n.Op.Attends() || len(n.Out) != 1 || len(n.In) != 2 || n.In[0].Kind != graph.TensorArg ||
			n.In[1].Kind != graph.TensorArg || n.In[1].Value.Const != nil { // a layer's weight
			continue
		}
		nodes, folds := g.before(n)
		if len(nodes) < 3 || !folds {
			continue
		}
		why := g.unattended(nodes)
		if why == "" {
			if err := g.fuser.Attends(nodes); err != nil {
				why = err.Error()
			}
		}
		if why != "" {
			g.p.Apart = append(g.p.Apart, Apart{nodes[0].Name, n.Name, "as an attention it " + why})
			continue
		}
		slices.Reverse(nodes)
		g.attention(nodes, i)
		found++
	}
	g.p.Note("%s", counted(found, "attention", "attentions"))
}

// attention makes a group of nodes, the last first, at a place.
func (g *grouper) attention(nodes []*graph.Node, at int) {
	c := &cluster{nodes: nodes, at: at, results: 1, attends: true, space: space{shape: []int{-1}}}
	for _, m := range nodes {
		g.of.Set(m.Out[0], c)
	}
	g.apart[nodes[0]] = "an attention ends with it"
	g.clusters = append(g.clusters, c)
}

// before lists what lies between a product and the last one before it on the way of its first operand, both with it,
// in a valid order, and tells whether rows are folded there. Nodes that may lie between are loops of expressions, rows
// that fold, and views; what does not depend on the first product is read from memory.
func (g *grouper) before(n *graph.Node) (nodes []*graph.Node, folds bool) {
	var first *graph.Node
	seen, queue := map[*graph.Node]bool{}, []*graph.Node{n.In[0].Value.Node}
	for len(queue) > 0 && len(seen) <= maxGroup {
		m := queue[0]
		queue = queue[1:]
		switch {
		case m == nil || m.Op == nil || seen[m] || len(m.Out) != 1 || g.group(m) != nil:
			continue
		case m.Op.Attends():
			if first == nil || g.place.At(m.Out[0]) > g.place.At(first.Out[0]) {
				first = m
			}
			continue
		case !shares(m) && m.Out[0].Alias == nil:
			continue
		}
		seen[m] = true
		for _, a := range m.In {
			if a.Kind == graph.TensorArg {
				queue = append(queue, a.Value.Node)
			}
		}
	}
	if first == nil {
		return nil, false
	}
	nodes = []*graph.Node{first}
	within := map[*graph.Node]bool{first: true}
	for at := g.place.At(first.Out[0]) + 1; at < g.place.At(n.Out[0]); at++ {
		m := g.p.Graph.Nodes[at]
		if seen[m] && slices.ContainsFunc(m.In, func(a graph.Arg) bool {
			return a.Kind == graph.TensorArg && within[a.Value.Node]
		}) {
			within[m], nodes, folds = true, append(nodes, m), folds || m.Op.Rows != nil
		}
	}
	return append(nodes, n), folds && within[n.In[0].Value.Node]
}

// unattended tells why nodes cannot be one attention: somebody else needs what lies between, or wants it to lie in a
// way of its own; empty where they can.
func (g *grouper) unattended(nodes []*graph.Node) string {
	for _, m := range nodes[:len(nodes)-1] {
		for _, v := range m.Out {
			if g.uses.output[v] {
				return fmt.Sprintf("would not have %q in memory, which is an output", v.Name)
			}
			for _, r := range g.uses.nodes.At(v) {
				if !slices.Contains(nodes, r) {
					return fmt.Sprintf("would not have %q in memory, which %s reads", v.Name, r.Name)
				}
			}
		}
	}
	for _, m := range nodes {
		if m.Pin != (graph.Pin{}) {
			return fmt.Sprintf("would not keep the pin of %s", m.Name)
		}
	}
	return ""
}

// attended reports where a group that was decided to be an attention cannot be one now, and records under which
// conditions it can where sizes are not known.
func (g *grouper) attended(nodes []*graph.Node) error {
	last := nodes[len(nodes)-1]
	if err := g.fuser.Attends(nodes); err != nil {
		return misfit("%s: %v", last.Name, err)
	}
	for _, m := range nodes {
		from, to := m.In[0].Type().Shape, m.Out[0].Type.Shape
		if r := g.fuser.Rows(m); r != nil {
			fits, _ := r.Suits(from)
			fits.Holds()
		}
		if m.Out[0].Alias != nil && len(from) >= 2 && len(to) >= 2 {
			equal(from[len(from)-1:], to[len(to)-1:]).Holds()
		}
		m.Out[0].Type.Numel().Gt(sym.Int{}).Holds()
	}
	return nil
}
