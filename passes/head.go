package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
)

// joinHeads puts products and convolutions into the groups of loops that read what they make, so that these go over
// it while the caches have it and not once more over memory: a group takes one, its head, the last that can be. All
// that the group goes over is what the head makes. Of the readers of that value others may come after the group.
func (g *grouper) joinHeads() {
	for _, n := range slices.Backward(g.p.Graph.Nodes) {
		ends.Look(g.p.ctx)
		if !g.offersTail(n) {
			continue
		}
		c, why := g.tailOf(n)
		rest := c
		if why == "" && c.space.mask != nil {
			c, why = g.split(c, n)
		}
		if why == "" {
			if why = g.unfit(c, n); why != "" && c != rest {
				g.merge(c, rest, nil)
			}
		}
		if why == "" {
			c.head = n
			c.take(g, n)
		} else {
			g.apart[n] = why
		}
	}
}

// offersTail reports whether a node is of an op that goes on with what it makes, and in no group.
func (g *grouper) offersTail(n *graph.Node) bool {
	return len(n.Out) == 1 && g.group(n) == nil && n.Op.HasTail()
}

// tailOf returns the group that could be the tail of a node, that of its first reader, or why there is none.
func (g *grouper) tailOf(n *graph.Node) (*cluster, string) {
	var reader *graph.Node
	v := n.Out[0]
	for _, r := range g.uses.nodes.At(v) {
		if reader == nil || g.when(r) < g.when(reader) {
			reader = r
		}
	}
	if reader == nil {
		return nil, "nobody reads it"
	}
	c := g.group(reader)
	switch {
	case c != nil && c.attends:
		return nil, fmt.Sprintf("the step of %s computes an attention", c.nodes[0].Name)
	case c == nil || c.head == reader:
		return nil, fmt.Sprintf("%s reads it, too, and comes before", reader.Name)
	case c.head != nil:
		return nil, fmt.Sprintf("the step of %s goes on with %s", reader.Name, c.head.Name)
	case !slices.Equal(c.space.shape, v.Meta.Shape):
		return nil, otherRows
	}
	return c, ""
}

// unfit tells why a node cannot be the head of a group; empty where it can.
func (g *grouper) unfit(c *cluster, n *graph.Node) string {
	v := n.Out[0]
	switch err := g.fuser.Heads(n); {
	case err != nil:
		return n.Name + " " + err.Error()
	case n.Pin != (graph.Pin{Impl: n.Pin.Impl}): // an implementation computes the same with a tail
		return n.Name + " is pinned"
	case v.Meta.Numel() == 0:
		return n.Name + " has no elements"
	}
	results, reads := c.results, len(c.reads) // what the head makes is read, besides being a result or not
	if g.storedBy(v, c, n) {
		results++
	} else if !g.stores(c, v) {
		return fmt.Sprintf("no result of the step of %s has elements of the size of %v, to be in its memory",
			c.nodes[0].Name, v.Meta.DType)
	}
	return excess(len(c.nodes)+1, results, reads)
}

// storedBy reports whether what a node would make as part of a group is read outside of it.
func (g *grouper) storedBy(v *graph.Value, c *cluster, n *graph.Node) bool {
	return g.uses.output[v] || slices.ContainsFunc(g.uses.nodes.At(v), func(r *graph.Node) bool {
		return r != n && g.group(r) != c
	})
}

// stores reports whether a group has a result whose memory has room for a value: see [graph.HasRoom].
func (g *grouper) stores(c *cluster, v *graph.Value) bool {
	return slices.ContainsFunc(c.nodes, func(n *graph.Node) bool {
		return slices.ContainsFunc(n.Out, func(w *graph.Value) bool {
			return graph.HasRoom(w.Meta.DType, v.Meta.DType) && g.stored(w, c)
		})
	})
}

// headed reports where a group that was decided with a head could not have it now; nil where it can.
func (g *grouper) headed(c *cluster) error {
	n := c.head
	if len(n.Out) != 1 || !slices.Equal(n.Out[0].Meta.Shape, c.space.shape) {
		return misfit("what %s makes is not what the step behind it goes over", n.Name)
	}
	if err := g.fuser.Heads(n); err != nil {
		return misfit("%s %v", n.Name, err)
	}
	return nil
}
