package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
)

// Group is a node that stands for several, which run as one step: their names, in the order in which they are computed.
type Group struct {
	Node  string
	Parts []string
}

// maxGroup bounds the nodes of a group: the registers of a longer loop would not hold what it works on.
const maxGroup = 64

// maxResults bounds the values that a group stores: each is one more stream of memory.
const maxResults = 4

// cluster is a group in the making.
type cluster struct {
	nodes   []*graph.Node // the last first
	at      int           // the place of the last, which the group takes
	results int
	reads   map[*graph.Value]bool // what comes from outside
}

// grouper goes from the last node to the first: where a node comes, all that read it are in their groups.
type grouper struct {
	p        *Plan
	fuser    *graph.Fuser
	place    graph.ByValue[int]      // of a node, by its first output
	of       graph.ByValue[*cluster] // of a node, by its first output
	uses     *uses
	clusters []*cluster
	// Why pointwise nodes are in no group with others at all, and why nodes are not in that of their readers.
	alone, apart map[*graph.Node]string
}

// groupNodes makes one node of pointwise nodes that go over the same elements, where one reads what the other makes.
// What may be joined follows from graph, shapes and dtypes alone. A node joins the group of the first of its readers;
// others must come after that group, which then stores the value for them.
func groupNodes(p *Plan) error {
	g := &grouper{p: p, fuser: graph.NewFuser(p.Graph), place: graph.NewByValue[int](p.Graph),
		of: graph.NewByValue[*cluster](p.Graph), uses: usesOf(p.Graph), alone: map[*graph.Node]string{},
		apart: map[*graph.Node]string{}}
	for i, n := range p.Graph.Nodes {
		if len(n.Out) > 0 {
			g.place.Set(n.Out[0], i)
		}
	}
	for i, n := range slices.Backward(p.Graph.Nodes) {
		if n.Op.Pointwise == nil || len(n.Out) == 0 {
			continue
		}
		if why := g.ungroupable(n); why != "" {
			g.alone[n] = why
			continue
		}
		g.add(i, n)
	}
	g.tellApart()
	return g.build()
}

// add puts a node into the group of its first reader, or begins one.
func (g *grouper) add(i int, n *graph.Node) {
	if c := g.joins(n); c != nil {
		c.take(g, n)
		return
	}
	c := &cluster{at: i, reads: map[*graph.Value]bool{}}
	g.clusters = append(g.clusters, c)
	c.take(g, n)
}

// take adds a node to the front.
func (c *cluster) take(g *grouper, n *graph.Node) {
	c.nodes = append(c.nodes, n)
	g.of.Set(n.Out[0], c)
	for _, v := range n.Out {
		delete(c.reads, v)
		if g.stored(v, c) {
			c.results++
		}
	}
	for _, a := range n.In {
		if a.Kind == graph.TensorArg {
			c.reads[a.Value] = true
		}
	}
}

// stored reports whether a value of a group is read outside of it.
func (g *grouper) stored(v *graph.Value, c *cluster) bool {
	return g.uses.output[v] || slices.ContainsFunc(g.uses.nodes.At(v), func(n *graph.Node) bool {
		return g.group(n) != c
	})
}

// joins returns the group that a node can join: that of all its readers where these can be one, else that of the first;
// nil if none.
func (g *grouper) joins(n *graph.Node) *cluster {
	var first *cluster
	var reader *graph.Node
	at, several := -1, false
	for _, v := range n.Out {
		for _, r := range g.uses.nodes.At(v) {
			c := g.group(r)
			several = several || at >= 0 && c != first
			if place := g.when(r); at < 0 || place < at {
				first, reader, at = c, r, place
			}
		}
	}
	switch {
	case reader == nil:
		return nil
	case first == nil || !first.over(n):
		g.apart[n] = fmt.Sprintf("%s reads it, too, and comes before", reader.Name)
		return nil
	}
	if several {
		first = g.joined(n, first)
	}
	if why := g.tooMuch(first, n); why != "" {
		g.apart[n] = why
		return nil
	}
	return first
}

// joined makes one of the groups of a node's readers, as far as that can be, and returns that which the node can join.
func (g *grouper) joined(n *graph.Node, first *cluster) *cluster {
	for _, v := range n.Out {
		for _, r := range g.uses.nodes.At(v) {
			if c := g.group(r); c != nil && c != first && c.over(n) {
				first = g.merge(first, c, n)
			}
		}
	}
	return first
}

// group returns the group that a node is in; nil for none.
func (g *grouper) group(n *graph.Node) *cluster {
	if n == nil || len(n.Out) == 0 {
		return nil
	}
	return g.of.At(n.Out[0])
}

// when is the place at which a node will be: that of its group, if it is in one.
func (g *grouper) when(n *graph.Node) int {
	if c := g.group(n); c != nil {
		return c.at
	}
	return g.place.At(n.Out[0])
}

// over reports whether a group goes over the elements that a node makes.
func (c *cluster) over(n *graph.Node) bool {
	return slices.Equal(c.nodes[0].Out[0].Meta.Shape, n.Out[0].Meta.Shape)
}

// tooMuch tells why a node is too much for a group; empty where it is not.
func (g *grouper) tooMuch(c *cluster, n *graph.Node) string {
	results, reads := c.results, len(c.reads)
	for _, v := range n.Out {
		if c.reads[v] {
			reads--
		}
		if g.stored(v, c) {
			results++
		}
	}
	for _, a := range n.In {
		if a.Kind == graph.TensorArg && !c.reads[a.Value] {
			reads++
		}
	}
	return excess(len(c.nodes)+1, results, reads)
}

// excess tells what is too much for a group; empty for nothing.
func excess(nodes, results, reads int) string {
	switch {
	case nodes > maxGroup:
		return fmt.Sprintf("a step has at most %d nodes", maxGroup)
	case results > maxResults:
		return fmt.Sprintf("the step would store %d results, and %d are the most", results, maxResults)
	case reads+results > expr.MaxOperands:
		return fmt.Sprintf("the step would have %d operands and results, and %d are the most", reads+results,
			expr.MaxOperands)
	}
	return ""
}

// merge makes one group of two, at the place of the later one, and returns it: all who read the earlier one or n, and
// are in neither, must come after that. Where they cannot be one it returns the earlier one.
func (g *grouper) merge(a, b *cluster, n *graph.Node) *cluster {
	if a.at > b.at {
		a, b = b, a
	}
	reads := len(b.reads)
	for v := range a.reads {
		if !b.reads[v] {
			reads++
		}
	}
	if why := excess(len(a.nodes)+len(b.nodes)+1, a.results+b.results, reads); why != "" {
		g.apart[n] = why
		return a
	}
	for _, m := range append(slices.Clone(a.nodes), n) {
		for _, v := range m.Out {
			for _, r := range g.uses.nodes.At(v) {
				if c := g.group(r); c != a && c != b && r != n && g.when(r) <= b.at {
					g.apart[n] = fmt.Sprintf("%s needs %s before", r.Name, v.Name)
					return a
				}
			}
		}
	}
	for _, n := range a.nodes {
		g.of.Set(n.Out[0], b)
	}
	// The last first: both lists are so.
	b.nodes = append(b.nodes, a.nodes...)
	slices.SortFunc(b.nodes, func(x, y *graph.Node) int { return g.place.At(y.Out[0]) - g.place.At(x.Out[0]) })
	b.results, b.reads, a.nodes = 0, map[*graph.Value]bool{}, nil
	for _, n := range b.nodes {
		for _, x := range n.In {
			if x.Kind == graph.TensorArg && g.group(x.Value.Node) != b {
				b.reads[x.Value] = true
			}
		}
		for _, v := range n.Out {
			if g.stored(v, b) {
				b.results++
			}
		}
	}
	return b
}

// build makes the nodes of the groups. One that no output depends on is left as it is.
func (g *grouper) build() error {
	keep := func(v *graph.Value) bool { return g.stored(v, g.group(v.Node)) }
	var groups [][]*graph.Node
	parts := 0
	for _, c := range slices.Backward(g.clusters) {
		if len(c.nodes) < 2 || c.results == 0 {
			continue
		}
		slices.Reverse(c.nodes)
		groups = append(groups, c.nodes)
		parts += len(c.nodes)
	}
	made, err := g.fuser.Fuse(groups, keep)
	if err != nil {
		return err
	}
	for _, n := range made {
		g.p.Groups = append(g.p.Groups, Group{n.Name, n.Attrs.(*graph.Fusion).Names()})
	}
	if len(made) > 0 {
		g.p.Note("%s as %d", counted(parts, "node", "nodes"), len(made))
	}
	return nil
}
