package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
)

// splitPrefix splits a group that has row reductions, so that its first nodes can become the epilogue of node n, a
// product or a convolution. The step that computes n then applies them to its result. The prefix of the group consists
// of the pointwise nodes that depend on the result of n but on no row reduction. It becomes a separate group, which
// splitPrefix returns, if this reduces memory traffic. If splitPrefix does not split the group, it returns the reason.
//
// A space (see [space]) is the shape over which a node iterates, and the mask of its reduced dimensions.
//
// Example: n is a matrix product, s = n + x, and a norm and another node read s. The group is [s, norm]. Because s must
// be stored for the other node, the prefix [s] becomes the epilogue of n: the step of n stores s, and the result of n
// is never stored. The norm remains in its group and reads s.
func (g *grouper) splitPrefix(group *nodeGroup, n *graph.Node) (*nodeGroup, string) {
	v := n.Out[0]
	prefixNodes := g.prefixOf(group, v)
	switch {
	case len(prefixNodes) == 0 || !g.reducesTraffic(group, prefixNodes, v):
		return nil, fmt.Sprintf("the step of %s reduces rows of it", group.nodes[0].Name)
	case prefixNodes[0] == group.nodes[0]: // the last node, because the nodes are in reverse order
		return nil, fmt.Sprintf("%s comes after the rest of its group", prefixNodes[0].Name)
	}
	epilogue := &nodeGroup{nodes: prefixNodes, position: g.positions.At(prefixNodes[0].Out[0]),
		space: space{shape: v.Meta.Shape}}
	if why := g.whyOutOfOrder(epilogue, n); why != "" {
		return nil, why
	}
	if err := g.fuser.CheckAnchor(n); err != nil {
		return nil, n.Name + " " + err.Error()
	}
	group.nodes = slices.DeleteFunc(group.nodes, func(member *graph.Node) bool {
		return slices.Contains(prefixNodes, member)
	})
	for _, member := range prefixNodes {
		g.groupOf.Set(member.Out[0], epilogue)
	}
	g.groups = append(g.groups, epilogue)
	sorted.Func(g.groups, func(a, b *nodeGroup) int { return b.position - a.position }) // in reverse order of the graph
	g.recount(group)
	g.recount(epilogue)
	return epilogue, ""
}

// whyOutOfOrder returns the reason why a step of node n and an epilogue cannot be at the position of the epilogue: an
// operand is computed later, or the result of n is read earlier. It returns "" if there is no reason.
func (g *grouper) whyOutOfOrder(epilogue *nodeGroup, n *graph.Node) string {
	isInStep := func(other *graph.Node) bool { return other == n || slices.Contains(epilogue.nodes, other) }
	for _, member := range append(slices.Clone(epilogue.nodes), n) {
		for _, a := range member.In {
			if a.Kind != graph.TensorArg || a.Value.Node == nil || isInStep(a.Value.Node) {
				continue
			}
			if g.position(a.Value.Node) >= epilogue.position {
				return fmt.Sprintf("%s needs %s earlier", member.Name, a.Value.Name)
			}
		}
	}
	for _, reader := range g.uses.readers.At(n.Out[0]) {
		if !slices.Contains(epilogue.nodes, reader) && g.position(reader) <= epilogue.position {
			return fmt.Sprintf("%s also reads it, and comes earlier", reader.Name)
		}
	}
	return ""
}

// prefixOf returns the pointwise nodes of a group that depend on v but on no row reduction of the group. The nodes are
// in reverse order, as in [nodeGroup].
func (g *grouper) prefixOf(group *nodeGroup, v *graph.Value) (nodes []*graph.Node) {
	dependentValues := map[*graph.Value]bool{v: true} // v and the values that the prefix computes from v
	for _, member := range slices.Backward(group.nodes) {
		memberSpace, _ := g.spaceOf(member)
		if memberSpace.mask != nil || !slices.Equal(memberSpace.shape, v.Meta.Shape) {
			continue
		}
		dependsOnV, needsOthers := false, false // others are nodes of the group outside the prefix
		for _, a := range member.In {
			if a.Kind == graph.TensorArg {
				dependsOnV = dependsOnV || dependentValues[a.Value]
				needsOthers = needsOthers || !dependentValues[a.Value] && g.group(a.Value.Node) == group
			}
		}
		if dependsOnV && !needsOthers {
			nodes = append([]*graph.Node{member}, nodes...)
			for _, result := range member.Out {
				dependentValues[result] = true
			}
		}
	}
	return nodes
}

// reducesTraffic reports whether memory traffic falls if the prefix of a group becomes the epilogue of the node that
// computes v. It counts how often the two steps, with the prefix and with the rest of the group, read and write values
// of the size of v.
func (g *grouper) reducesTraffic(group *nodeGroup, prefix []*graph.Node, v *graph.Value) bool {
	split := &groupSplit{g, group, prefix}
	savedAccesses := 0 // number of saved reads and writes of values of the size of v
	if !split.restReads(v) {
		savedAccesses++ // the group no longer reads v from memory
		if !split.isNeededOutside(v) {
			savedAccesses++ // and v is no longer written
		}
	}
	counted := map[*graph.Value]bool{}
	for _, member := range prefix {
		for _, value := range member.Out {
			if split.restReads(value) {
				savedAccesses-- // the rest reads the value from memory
				if !split.isNeededOutside(value) {
					savedAccesses-- // and the value is written only for the rest
				}
			}
		}
		for _, a := range member.In {
			value := a.Value
			isOtherOperand := a.Kind == graph.TensorArg && value != v && !slices.Contains(prefix, value.Node)
			if isOtherOperand && !counted[value] && value.Meta.Numel() == v.Meta.Numel() && split.restReads(value) {
				savedAccesses-- // both steps read the operand
			}
			counted[value] = true
		}
	}
	return savedAccesses > 0
}

// groupSplit is a possible split of a group: the nodes of the prefix, and the rest of its nodes.
type groupSplit struct {
	grouper *grouper
	group   *nodeGroup
	prefix  []*graph.Node
}

// restReads reports whether a node of the rest reads a value.
func (split *groupSplit) restReads(value *graph.Value) bool {
	return slices.ContainsFunc(split.grouper.uses.readers.At(value), func(n *graph.Node) bool {
		return split.grouper.group(n) == split.group && !slices.Contains(split.prefix, n)
	})
}

// isNeededOutside reports whether a value is an output, or a node outside the group reads it.
func (split *groupSplit) isNeededOutside(value *graph.Value) bool {
	uses := split.grouper.uses
	return uses.isOutput[value] || slices.ContainsFunc(uses.readers.At(value), func(n *graph.Node) bool {
		return split.grouper.group(n) != split.group
	})
}
