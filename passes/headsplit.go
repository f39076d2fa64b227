package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
)

// split takes the loops that a group, which folds rows, begins with out of it, to be the tail of a node: those that go
// over what the node makes. It does so where that saves passes over memory, as where a sum that a norm reads is stored
// all the same: the step of the node then writes it, and what it made before is never in memory. Else it tells why not.
func (g *grouper) split(c *cluster, n *graph.Node) (*cluster, string) {
	v := n.Out[0]
	t := g.prefix(c, v)
	switch {
	case len(t) == 0 || !g.saves(c, t, v):
		return nil, fmt.Sprintf("the step of %s folds rows of it", c.nodes[0].Name)
	case t[0] == c.nodes[0]:
		return nil, fmt.Sprintf("%s comes after what it would be parted from", t[0].Name)
	}
	first := &cluster{nodes: t, at: g.place.At(t[0].Out[0]), space: space{shape: v.Meta.Shape}}
	for _, m := range append(slices.Clone(t), n) {
		for _, a := range m.In {
			if w := a.Value; a.Kind == graph.TensorArg && w.Node != nil && w.Node != n && !slices.Contains(t, w.Node) &&
				g.when(w.Node) >= first.at {
				return nil, fmt.Sprintf("%s needs %s before", m.Name, w.Name)
			}
		}
	}
	for _, r := range g.uses.nodes.At(v) {
		if !slices.Contains(t, r) && g.when(r) <= first.at {
			return nil, fmt.Sprintf("%s reads it, too, and comes before", r.Name)
		}
	}
	if err := g.fuser.Heads(n); err != nil {
		return nil, n.Name + " " + err.Error()
	}
	c.nodes = slices.DeleteFunc(c.nodes, func(m *graph.Node) bool { return slices.Contains(t, m) })
	for _, m := range t {
		g.of.Set(m.Out[0], first)
	}
	g.clusters = append(g.clusters, first)
	slices.SortStableFunc(g.clusters, func(a, b *cluster) int { return b.at - a.at })
	g.count(c)
	g.count(first)
	return first, ""
}

// prefix lists the loops of a group that go over a value and what is made of it before any row is folded, the last
// first.
func (g *grouper) prefix(c *cluster, v *graph.Value) (t []*graph.Node) {
	made := map[*graph.Value]bool{v: true}
	for _, m := range slices.Backward(c.nodes) {
		s, _ := g.spaceOf(m)
		if s.mask != nil || !slices.Equal(s.shape, v.Meta.Shape) {
			continue
		}
		over, ready := false, true
		for _, a := range m.In {
			if a.Kind == graph.TensorArg {
				over = over || made[a.Value]
				ready = ready && (made[a.Value] || g.group(a.Value.Node) != c)
			}
		}
		if over && ready {
			t = append([]*graph.Node{m}, t...)
			for _, w := range m.Out {
				made[w] = true
			}
		}
	}
	return t
}

// saves reports whether memory is gone over less often where t is the tail of what makes v: by values of that size, as
// they are written and read by the steps of t and of the rest of the group.
func (g *grouper) saves(c *cluster, t []*graph.Node, v *graph.Value) bool {
	within := func(n *graph.Node) bool { return slices.Contains(t, n) }
	rest := func(n *graph.Node) bool { return g.group(n) == c && !within(n) }
	readBy := func(w *graph.Value, by func(*graph.Node) bool) bool {
		return slices.ContainsFunc(g.uses.nodes.At(w), by)
	}
	outside := func(w *graph.Value) bool {
		return g.uses.output[w] || readBy(w, func(n *graph.Node) bool { return g.group(n) != c })
	}
	saved := 1 // the group reads v
	if readBy(v, rest) {
		saved--
	} else if !outside(v) {
		saved++ // and somebody writes it
	}
	seen := map[*graph.Value]bool{}
	for _, m := range t {
		for _, w := range m.Out {
			if readBy(w, rest) {
				saved--
				if !outside(w) {
					saved--
				}
			}
		}
		for _, a := range m.In {
			w := a.Value
			if a.Kind == graph.TensorArg && w != v && !seen[w] && !within(w.Node) && w.Meta.Numel() == v.Meta.Numel() &&
				readBy(w, rest) {
				saved--
			}
			seen[w] = true
		}
	}
	return saved > 0
}
