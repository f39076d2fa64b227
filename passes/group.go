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
		return g.of.At(n.Out[0]) != c
	})
}

// joins returns the group that a node can join; nil if none.
func (g *grouper) joins(n *graph.Node) *cluster {
	var first *cluster
	at := -1
	for _, v := range n.Out {
		for _, r := range g.uses.nodes.At(v) {
			c, place := g.of.At(r.Out[0]), g.place.At(r.Out[0])
			if c != nil {
				place = c.at
			}
			if at < 0 || place < at {
				first, at = c, place
			}
		}
	}
	if first == nil || len(first.nodes) >= maxGroup || !slices.Equal(first.nodes[0].Out[0].Meta.Shape, n.Out[0].Meta.Shape) {
		return nil
	}
	results, reads := first.results, len(first.reads)
	for _, v := range n.Out {
		if first.reads[v] {
			reads--
		}
		if g.stored(v, first) {
			results++
		}
	}
	for _, a := range n.In {
		if a.Kind == graph.TensorArg && !first.reads[a.Value] {
			reads++
		}
	}
	if results > maxResults || reads+results > expr.MaxOperands {
		return nil
	}
	return first
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
		stored := map[*graph.Value]bool{}
		for _, n := range c.nodes {
			for _, v := range n.Out {
				stored[v] = g.stored(v, c)
			}
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
