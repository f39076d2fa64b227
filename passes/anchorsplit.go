package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
)

// splitPrefix divides a group that has row reductions. The prefix of the group, its first pointwise nodes that read the
// result of node n, becomes a separate group: the epilogue of n. splitPrefix divides a group only if this reduces the
// traffic to memory. An example is a sum that is stored and that a norm reads: the step of n then writes the sum, and
// the result of n is never stored. If splitPrefix does not divide the group, it returns the reason.
func (g *grouper) splitPrefix(group *nodeGroup, n *graph.Node) (*nodeGroup, string) {
	v := n.Out[0]
	prefixNodes := g.prefix(group, v)
	switch {
	case len(prefixNodes) == 0 || !g.reducesTraffic(group, prefixNodes, v):
		return nil, fmt.Sprintf("the step of %s reduces rows of it", group.nodes[0].Name)
	case prefixNodes[0] == group.nodes[0]:
		return nil, fmt.Sprintf("%s comes after the rest of its group", prefixNodes[0].Name)
	}
	epilogue := &nodeGroup{nodes: prefixNodes, position: g.positions.At(prefixNodes[0].Out[0]),
		space: space{shape: v.Meta.Shape}}
	for _, m := range append(slices.Clone(prefixNodes), n) {
		for _, a := range m.In {
			if w := a.Value; a.Kind == graph.TensorArg && w.Node != nil && w.Node != n &&
				!slices.Contains(prefixNodes, w.Node) && g.position(w.Node) >= epilogue.position {
				return nil, fmt.Sprintf("%s needs %s earlier", m.Name, w.Name)
			}
		}
	}
	for _, r := range g.uses.readers.At(v) {
		if !slices.Contains(prefixNodes, r) && g.position(r) <= epilogue.position {
			return nil, fmt.Sprintf("%s also reads it, and comes earlier", r.Name)
		}
	}
	if err := g.fuser.Anchors(n); err != nil {
		return nil, n.Name + " " + err.Error()
	}
	group.nodes = slices.DeleteFunc(group.nodes, func(m *graph.Node) bool { return slices.Contains(prefixNodes, m) })
	for _, m := range prefixNodes {
		g.groupOf.Set(m.Out[0], epilogue)
	}
	g.groups = append(g.groups, epilogue)
	sorted.Func(g.groups, func(a, b *nodeGroup) int { return b.position - a.position })
	g.recount(group)
	g.recount(epilogue)
	return epilogue, ""
}

// prefix returns, in order, the pointwise nodes of a group that depend on v and do not depend on a row reduction of the
// group.
func (g *grouper) prefix(group *nodeGroup, v *graph.Value) (nodes []*graph.Node) {
	dependent := map[*graph.Value]bool{v: true} // v and the values that the prefix computes from v
	for _, m := range slices.Backward(group.nodes) {
		s, _ := g.spaceOf(m)
		if s.mask != nil || !slices.Equal(s.shape, v.Meta.Shape) {
			continue
		}
		reads, ready := false, true
		for _, a := range m.In {
			if a.Kind == graph.TensorArg {
				reads = reads || dependent[a.Value]
				ready = ready && (dependent[a.Value] || g.group(a.Value.Node) != group)
			}
		}
		if reads && ready {
			nodes = append([]*graph.Node{m}, nodes...)
			for _, w := range m.Out {
				dependent[w] = true
			}
		}
	}
	return nodes
}

// reducesTraffic reports whether memory traffic falls if prefix becomes the epilogue of the producer of v. It counts
// reads and writes of values of the size of v, by the step of prefix and by the step of all other nodes of the group.
func (g *grouper) reducesTraffic(group *nodeGroup, prefix []*graph.Node, v *graph.Value) bool {
	inPrefix := func(n *graph.Node) bool { return slices.Contains(prefix, n) }
	inRest := func(n *graph.Node) bool { return g.group(n) == group && !inPrefix(n) }
	readBy := func(w *graph.Value, by func(*graph.Node) bool) bool {
		return slices.ContainsFunc(g.uses.readers.At(w), by)
	}
	isReadOutside := func(w *graph.Value) bool {
		return g.uses.isOutput[w] || readBy(w, func(n *graph.Node) bool { return g.group(n) != group })
	}
	saved := 1 // the group no longer reads v
	if readBy(v, inRest) {
		saved--
	} else if !isReadOutside(v) {
		saved++ // and v is no longer written
	}
	seen := map[*graph.Value]bool{}
	for _, m := range prefix {
		for _, w := range m.Out {
			if readBy(w, inRest) {
				saved--
				if !isReadOutside(w) {
					saved--
				}
			}
		}
		for _, a := range m.In {
			w := a.Value
			if a.Kind == graph.TensorArg && w != v && !seen[w] && !inPrefix(w.Node) && w.Meta.Numel() == v.Meta.Numel() &&
				readBy(w, inRest) {
				saved--
			}
			seen[w] = true
		}
	}
	return saved > 0
}
