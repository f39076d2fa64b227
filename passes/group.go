package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
)

// Group is a node that stands for several, which run as one step: their names, in the order in which they are computed.
type Group struct {
	Node  string
	Parts []string
}

// What bounds a group: maxGroup nodes, more of which would not find room in registers, and maxResults values that it
// stores, each one more stream of memory.
const (
	maxGroup   = 64
	maxResults = 4
)

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

// groupNodes makes one node of nodes that go over the same elements, where one reads what the other makes: pointwise
// ones, and those that fold rows with what comes before and after. What may be joined follows from graph, shapes and
// dtypes alone, and from what ops make of rows as they are inferred to lie. A node joins the group of the first of its
// readers; others must come after that group, which then stores the value for them.
func groupNodes(p *Plan) error {
	p.dropNodes() // they would keep values in memory that only they read
	g := &grouper{p: p, fuser: graph.NewFuser(p.Graph), place: graph.NewByValue[int](p.Graph),
		of: graph.NewByValue[*cluster](p.Graph), uses: usesOf(p.Graph), alone: map[*graph.Node]string{},
		apart: map[*graph.Node]string{}}
	if p.follow != nil {
		return g.followGroups()
	}
	for i, n := range p.Graph.Nodes {
		if len(n.Out) > 0 {
			g.place.Set(n.Out[0], i)
		}
	}
	g.joinAttentions()
	for i, n := range slices.Backward(p.Graph.Nodes) {
		ends.Look(p.ctx)
		if g.group(n) != nil {
			continue
		}
		if s, why := g.spaceOf(n); why != "" {
			g.alone[n] = why
		} else {
			g.add(i, n, s)
		}
	}
	g.joinRows()
	g.joinHeads()
	g.tellApart()
	return g.build()
}

// space is what a node or a group goes over: the elements of a shape, and, where mask is not nil, rows along the
// dimensions that it marks: of the shape in which dimension 1 is split in so many parts, where that is not 0. Rows that
// are cut are gone over once.
type space struct {
	shape []int
	mask  []bool
	split int
	cut   bool
}

// rows is the shape that is left of the rows of a space that is not split, with size 1 in their dimensions.
func (s space) rows() []int {
	kept := slices.Clone(s.shape)
	for d, folded := range s.mask {
		if folded {
			kept[d] = 1
		}
	}
	return kept
}

// spaceOf is what a node goes over, or why it is in no group: it is no loop of an expression, its rows are for a kernel
// of their own, or somebody wants its results laid out in a way of its own.
func (g *grouper) spaceOf(n *graph.Node) (s space, why string) {
	switch {
	case len(n.Out) == 0:
		return s, "makes nothing"
	case n.Pin != (graph.Pin{}):
		return s, "is pinned"
	case n.Op.Copies:
		return s, "copies, which may turn out to be needless"
	case n.Out[0].Meta.Numel() == 0:
		return s, "has no elements"
	}
	if s, why = g.loopOf(n); why == "" && s.mask != nil {
		why = g.fuser.Rows(n).Unsuited(s.shape)
	}
	return s, why
}

// loopOf is what a node goes over if it is a loop of an expression, or folds rows by one.
func (g *grouper) loopOf(n *graph.Node) (s space, why string) {
	if r := g.fuser.Rows(n); r != nil && r.Code.Compilable() {
		shape := n.In[0].Meta().Shape
		return space{shape, r.Mask, r.Split, r.Cut(shape)}, ""
	}
	for _, v := range n.Out[1:] {
		if !slices.Equal(v.Meta.Shape, n.Out[0].Meta.Shape) {
			return s, "has results of several shapes"
		}
	}
	c, err := g.fuser.Expression(n)
	switch {
	case n.Op.Alone != "":
		return s, n.Op.Alone
	case err != nil && n.Op.Rows != nil:
		return s, "folds by a kernel of its own"
	case err != nil:
		return s, err.Error()
	case !c.Compilable():
		return s, "calls functions that only Go has"
	}
	return space{shape: n.Out[0].Meta.Shape}, ""
}

// joint is what two groups, the first of which is read by the other, go over together; no shape where that is nothing.
func joint(a, b space) space {
	same := slices.Equal(a.shape, b.shape)
	switch {
	case a.mask == nil && b.mask == nil && same:
		return a
	case a.mask == nil && b.mask != nil && (same || b.split == 0 && slices.Equal(a.shape, b.rows())):
		return b
	case a.mask != nil && b.mask == nil && (same || a.split == 0 && slices.Equal(b.shape, a.rows())):
		return a
	case a.mask != nil && b.mask != nil && same && a.split == b.split && slices.Equal(a.mask, b.mask):
		return a
	}
	return space{}
}

// left is the shape that is left of the rows of a space that is not split, without their dimensions.
func (s space) left() []int {
	kept := []int{}
	for d, size := range s.shape {
		if !s.mask[d] {
			kept = append(kept, size)
		}
	}
	return kept
}

// unite is what a node or a group, of space a, and a group that reads it go over together; no shape where that is
// nothing. Results without the dimensions of the rows are read by loops over what is left alone, of which nothing else
// is read but single elements: anything else would lie along other dimensions there. made tells what a makes.
func unite(a space, b *cluster, made func(*graph.Value) bool) space {
	if s := joint(a, b.space); s.shape != nil {
		return s
	}
	if a.mask == nil || a.split != 0 || b.space.mask != nil || !slices.Equal(b.space.shape, a.left()) {
		return space{}
	}
	for v := range b.reads {
		if !made(v) && v.Meta.Numel() != 1 {
			return space{}
		}
	}
	return a
}

// aligned reports whether a node can read a value that the same step makes: it has the dimensions of all that the node
// goes over, or is one element.
func (g *grouper) aligned(v *graph.Value, r *graph.Node) bool {
	s, why := g.loopOf(r)
	return why == "" && (v.Meta.Rank() == len(s.shape) || v.Meta.Numel() == 1)
}

// inLine tells why nodes cannot go together over a space with rows, since one reads what another makes along other
// dimensions, or after a sweep over rows that are cut; empty where they can.
func (g *grouper) inLine(over space, nodes ...*graph.Node) string {
	if over.mask == nil {
		return ""
	}
	made := map[*graph.Value]bool{}
	for _, n := range nodes {
		for _, v := range n.Out {
			made[v] = true
		}
	}
	for _, n := range nodes {
		for _, a := range n.In {
			switch v := a.Value; {
			case a.Kind != graph.TensorArg || !made[v]:
			case !g.aligned(v, n):
				return otherDims
			case over.cut && g.whole(n, over) && !slices.Equal(v.Meta.Shape, over.shape):
				return secondSweep
			}
		}
	}
	return ""
}

// whole reports whether a node goes over all elements of a space, and not over what is left of its rows.
func (g *grouper) whole(n *graph.Node, over space) bool {
	s, _ := g.spaceOf(n)
	return slices.Equal(s.shape, over.shape)
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
	made := func(v *graph.Value) bool { return v.Node == n }
	switch {
	case reader == nil:
		return nil
	case first != nil && first.attends:
		g.apart[n] = fmt.Sprintf("the step of %s computes an attention", first.nodes[0].Name)
		return nil
	case first == nil || unite(s, first, made).shape == nil:
		g.apart[n] = fmt.Sprintf("%s reads it, too, and comes before", reader.Name)
		if first != nil && s.mask != nil && slices.Equal(first.space.shape, s.left()) {
			g.apart[n] = fmt.Sprintf("the step of %s reads more than what %s leaves of its rows", reader.Name, n.Name)
		}
		return nil
	}
	if several {
		first = g.joined(n, s, first)
	}
	together := unite(s, first, made)
	if together.shape == nil {
		g.apart[n] = otherRows
		return nil
	}
	if why := g.tooMuch(first, n); why != "" {
		g.apart[n] = why
		return nil
	}
	if why := g.inLine(together, append(slices.Clone(first.nodes), n)...); why != "" {
		g.apart[n] = why
		return nil
	}
	first.space = together
	return first
}

// joined makes one of the groups of a node's readers, as far as that can be, and returns that which the node can join.
func (g *grouper) joined(n *graph.Node, s space, first *cluster) *cluster {
	for _, v := range n.Out {
		for _, r := range g.uses.nodes.At(v) {
			if c := g.group(r); c != nil && c != first &&
				unite(s, c, func(v *graph.Value) bool { return v.Node == n }).shape != nil {
				first = g.merge(first, c, n)
			}
		}
	}
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

// build makes the nodes of the groups. One that no output depends on is left as it is.
func (g *grouper) build() error {
	keep := func(v *graph.Value) bool { return g.stored(v, g.group(v.Node)) }
	var groups []graph.Together
	parts := 0
	for _, c := range slices.Backward(g.clusters) {
		if len(c.nodes) < 2 || c.results == 0 {
			continue
		}
		slices.Reverse(c.nodes)
		groups = append(groups, graph.Together{Nodes: c.nodes, Head: c.head != nil, Attention: c.attends,
			Mask: c.space.mask, Split: c.space.split})
		parts += len(c.nodes)
	}
	g.p.noteGroups(groups)
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
