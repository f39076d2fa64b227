package passes

import (
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
)

// cluster is a group in the making.
type cluster struct {
	nodes   []*graph.Node // the last first
	at      int           // the place of the last, which the group takes
	space   space
	results int
	reads   map[*graph.Value]bool // what comes from outside
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

// stored reports whether a value of a group is read outside of it.
func (g *grouper) stored(v *graph.Value, c *cluster) bool {
	return g.uses.output[v] || slices.ContainsFunc(g.uses.nodes.At(v), func(n *graph.Node) bool {
		return g.group(n) != c
	})
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

// merge makes one group of two, at the place of the later one, and returns it: all who read the earlier one or n, which
// may be nil, and are in neither, must come after that. Where they cannot be one it returns the earlier one.
func (g *grouper) merge(a, b *cluster, n *graph.Node) *cluster {
	if a.at > b.at {
		a, b = b, a
	}
	together := joint(a.space, b.space)
	if together.shape == nil {
		return a
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
	readers := slices.Clone(a.nodes)
	if n != nil {
		readers = append(readers, n)
	}
	for _, m := range readers {
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
	b.results, b.reads, b.space, a.nodes = 0, map[*graph.Value]bool{}, together, nil
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
