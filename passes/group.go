package passes

import (
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
	place    graph.ByValue[int]      // of a node, by its first output
	of       graph.ByValue[*cluster] // of a node, by its first output
	uses     *uses
	clusters []*cluster
}

// groupNodes makes one node of pointwise nodes that go over the same elements, where one reads what the other makes.
// What may be joined follows from graph, shapes and dtypes alone. A node joins the group of the first of its readers;
// others must come after that group, which then stores the value for them.
func groupNodes(p *Plan) error {
	g := &grouper{p: p, place: graph.NewByValue[int](p.Graph), of: graph.NewByValue[*cluster](p.Graph),
		uses: usesOf(p.Graph)}
	for i, n := range p.Graph.Nodes {
		if len(n.Out) > 0 {
			g.place.Set(n.Out[0], i)
		}
	}
	for i, n := range slices.Backward(p.Graph.Nodes) {
		if groupable(n) {
			g.add(i, n)
		}
	}
	return g.build()
}

// groupable reports whether a node is a loop of an expression that nobody wants laid out in a way of its own.
func groupable(n *graph.Node) bool {
	if len(n.Out) == 0 || n.Pin != (graph.Pin{}) || n.Op.Identity && n.Op.Copies || n.Out[0].Meta.Numel() == 0 {
		return false
	}
	for _, v := range n.Out[1:] {
		if !slices.Equal(v.Meta.Shape, n.Out[0].Meta.Shape) {
			return false
		}
	}
	c := n.Expression()
	return c != nil && c.Compilable()
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
	at, all := -1, []*cluster{}
	for _, v := range n.Out {
		for _, r := range g.uses.nodes.At(v) {
			c := g.group(r)
			if c != nil && !slices.Contains(all, c) {
				all = append(all, c)
			}
			if place := g.when(r); at < 0 || place < at {
				first, at = c, place
			}
		}
	}
	if first == nil || !first.over(n) {
		return nil
	}
	for _, c := range all {
		if c != first && len(c.nodes) > 0 && c.over(n) { // the first may have become part of another
			first = g.merge(first, c, n)
		}
	}
	if !g.fits(first, n) {
		return nil
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

// fits reports whether a node is not too much for a group.
func (g *grouper) fits(c *cluster, n *graph.Node) bool {
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
	return len(c.nodes) < maxGroup && results <= maxResults && reads+results <= expr.MaxOperands
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
	if len(a.nodes)+len(b.nodes) >= maxGroup || a.results+b.results > maxResults ||
		reads+a.results+b.results > expr.MaxOperands {
		return a
	}
	for _, m := range append(slices.Clone(a.nodes), n) {
		for _, v := range m.Out {
			for _, r := range g.uses.nodes.At(v) {
				if c := g.group(r); c != a && c != b && r != n && g.when(r) <= b.at {
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

// build makes the nodes of the groups.
func (g *grouper) build() error {
	graphNodes := g.p.Graph.Nodes
	instead, gone := map[int]*graph.Node{}, map[*graph.Node]bool{}
	for _, c := range slices.Backward(g.clusters) {
		if len(c.nodes) < 2 {
			continue
		}
		slices.Reverse(c.nodes)
		stored, any := map[*graph.Value]bool{}, false
		for _, n := range c.nodes {
			for _, v := range n.Out {
				stored[v] = g.stored(v, c)
				any = any || stored[v]
			}
		}
		if !any {
			continue // no output depends on it
		}
		n, err := g.p.Graph.Fuse(c.nodes, func(v *graph.Value) bool { return stored[v] })
		if err != nil {
			return g.p.Graph.Fail(c.nodes[len(c.nodes)-1], err)
		}
		for _, m := range c.nodes {
			gone[m] = true
		}
		instead[c.at] = n
		g.p.Groups = append(g.p.Groups, Group{n.Name, n.Attrs.(*graph.Fusion).Names()})
	}
	if len(gone) == 0 {
		return nil
	}
	nodes := make([]*graph.Node, 0, len(graphNodes)-len(gone)+len(instead))
	for i, n := range graphNodes {
		if m := instead[i]; m != nil {
			nodes = append(nodes, m)
		}
		if !gone[n] {
			nodes = append(nodes, n)
		}
	}
	g.p.Graph.Nodes = nodes
	g.p.Note("%s as %d", counted(len(gone), "node", "nodes"), len(instead))
	return nil
}
