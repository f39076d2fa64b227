package passes

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
)

// Group is a node that stands for several, which run as one step: their names, in the order in which they are computed.
type Group struct {
	Node  string
	Parts []string
}

// What bounds a group: maxGroup nodes, more of which would not find room in registers; maxResults values that it
// stores, each one more stream of memory; and of groups that fold rows, rows that stay in the cache from sweep to
// sweep, and so many of them that workers find work.
const (
	maxGroup   = 64
	maxResults = 4
	maxRow     = 1 << 16
	longRow    = 1 << 12
	minRows    = 4
)

// grouper goes from the last node to the first: where a node comes, all that read it are in their groups.
type grouper struct {
	p        *Plan
	place    graph.ByValue[int]      // of a node, by its first output
	of       graph.ByValue[*cluster] // of a node, by its first output
	uses     *uses
	clusters []*cluster
}

// groupNodes makes one node of nodes that go over the same elements, where one reads what the other makes: pointwise
// ones, and those that fold rows with what comes before and after. What may be joined follows from graph, shapes and
// dtypes alone. A node joins the group of the first of its readers; others must come after that group, which then
// stores the value for them.
func groupNodes(p *Plan) error {
	g := &grouper{p: p, place: graph.NewByValue[int](p.Graph), of: graph.NewByValue[*cluster](p.Graph),
		uses: usesOf(p.Graph)}
	for i, n := range p.Graph.Nodes {
		if len(n.Out) > 0 {
			g.place.Set(n.Out[0], i)
		}
	}
	for i, n := range slices.Backward(p.Graph.Nodes) {
		if s := spaceOf(n); s.shape != nil {
			g.add(i, n, s)
		}
	}
	g.joinRows()
	return g.build()
}

// space is what a node or a group goes over: the elements of a shape, and, where mask is not nil, rows along the
// dimensions that it marks.
type space struct {
	shape []int
	mask  []bool
}

// rows is the shape that is left of the rows, with size 1 in their dimensions.
func (s space) rows() []int {
	kept := slices.Clone(s.shape)
	for d, folded := range s.mask {
		if folded {
			kept[d] = 1
		}
	}
	return kept
}

// spaceOf is what a node goes over; no shape for one that is no loop of an expression, or that somebody wants laid out
// in a way of its own.
func spaceOf(n *graph.Node) space {
	if len(n.Out) == 0 || n.Pin != (graph.Pin{}) || n.Op.Copies || n.Out[0].Meta.Numel() == 0 {
		return space{}
	}
	if r := n.RowExpression(); r != nil && r.Code.Compilable() {
		s := space{n.In[0].Meta().Shape, r.Mask}
		length, count := 1, 1
		for d, size := range s.shape {
			if s.mask[d] {
				length *= size
			} else {
				count *= size
			}
		}
		if length == 0 || length > maxRow || length > longRow && count < minRows {
			return space{}
		}
		return s
	}
	for _, v := range n.Out[1:] {
		if !slices.Equal(v.Meta.Shape, n.Out[0].Meta.Shape) {
			return space{}
		}
	}
	if c := n.Expression(); c == nil || !c.Compilable() {
		return space{}
	}
	return space{shape: n.Out[0].Meta.Shape}
}

// joint is what two groups, the first of which is read by the other, go over together; no shape where that is nothing.
func joint(a, b space) space {
	same := slices.Equal(a.shape, b.shape)
	switch {
	case a.mask == nil && b.mask == nil && same:
		return a
	case a.mask == nil && b.mask != nil && (same || slices.Equal(a.shape, b.rows())):
		return b
	case a.mask != nil && b.mask == nil && (same || slices.Equal(b.shape, a.rows())):
		return a
	case a.mask != nil && b.mask != nil && same && slices.Equal(a.mask, b.mask):
		return a
	}
	return space{}
}

// add puts a node into the group of its first reader, or begins one.
func (g *grouper) add(i int, n *graph.Node, s space) {
	c := g.joins(n, s)
	if c == nil {
		c = &cluster{at: i, space: s, reads: map[*graph.Value]bool{}}
		g.clusters = append(g.clusters, c)
	}
	c.take(g, n)
}

// joins returns the group that a node can join: that of all its readers where these can be one, else that of the first;
// nil if none.
func (g *grouper) joins(n *graph.Node, s space) *cluster {
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
	if first == nil || joint(s, first.space).shape == nil {
		return nil
	}
	for _, c := range all {
		if c != first && joint(s, c.space).shape != nil {
			first = g.merge(first, c, n)
		}
	}
	together := joint(s, first.space)
	if together.shape == nil || !g.fits(first, n) {
		return nil
	}
	first.space = together
	return first
}

// joinRows puts groups that fold rows together with groups that read what they give a row, such as the division by a
// root of a mean of squares: no node between them asks for it.
func (g *grouper) joinRows() {
	for _, c := range g.clusters {
		if c.space.mask == nil {
			continue
		}
		for again := true; again; {
			again = false
			for _, n := range slices.Clone(c.nodes) {
				for _, v := range n.Out {
					for _, r := range g.uses.nodes.At(v) {
						if d := g.group(r); d != nil && d != c && len(c.nodes) > 0 && g.merge(c, d, nil) == d {
							c, again = d, true
						}
					}
				}
			}
		}
	}
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
		n, err := g.p.Graph.Fuse(c.nodes, c.space.mask, func(v *graph.Value) bool { return stored[v] })
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
