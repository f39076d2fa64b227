package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
)

// cluster is a group in the making.
type cluster struct {
	nodes   []*graph.Node // the last first
	at      int           // the place of the last, which the group takes
	space   space
	results int
	reads   map[*graph.Value]bool // what comes from outside
	attends bool                  // an attention, which nothing joins
	head    *graph.Node           // the first, where that is a product or a convolution whose result the others go over
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

// otherRows is why groups cannot be one that fold different dimensions, or go over different elements.
const otherRows = "its readers go over different rows"

// otherDims is why a group that reads what is left of rows, without their dimensions, is not one with that which makes
// it.
const otherDims = "what is left of its rows is read along other dimensions"

// secondSweep is why what reads results of long rows is not one with those, unless it goes over what is left of rows.
const secondSweep = "its rows are long, and gone over in pieces: what needs their results comes in another step"

// says keeps why a node is not in a group of its readers; nobody asks it of no node.
func (g *grouper) says(n *graph.Node, why string) {
	if n != nil {
		g.apart[n] = why
	}
}

// merge makes one group of two, at the place of the later one, and returns it: all who read the earlier one or n, which
// may be nil, and are in neither, must come after that. Where they cannot be one it returns the earlier one.
func (g *grouper) merge(a, b *cluster, n *graph.Node) *cluster {
	ends.Look(g.p.ctx)
	if a.at > b.at {
		a, b = b, a
	}
	together := unite(a.space, b, func(v *graph.Value) bool { return g.group(v.Node) == a })
	why := otherRows
	if together.shape != nil {
		why = g.inLine(together, slices.Concat(a.nodes, b.nodes)...)
	}
	if why != "" {
		g.says(n, why)
		return a
	}
	reads := len(b.reads)
	for v := range a.reads {
		if !b.reads[v] {
			reads++
		}
	}
	if why := excess(len(a.nodes)+len(b.nodes)+1, a.results+b.results, reads); why != "" {
		g.says(n, why)
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
					g.says(n, fmt.Sprintf("%s needs %s before", r.Name, v.Name))
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
	b.space, a.nodes = together, nil
	g.count(b)
	return b
}

// count finds what a group reads and stores.
func (g *grouper) count(c *cluster) {
	c.results, c.reads = 0, map[*graph.Value]bool{}
	for _, n := range c.nodes {
		for _, x := range n.In {
			if x.Kind == graph.TensorArg && g.group(x.Value.Node) != c {
				c.reads[x.Value] = true
			}
		}
		for _, v := range n.Out {
			if g.stored(v, c) {
				c.results++
			}
		}
	}
}
