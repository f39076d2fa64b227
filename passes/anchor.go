package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
)

// joinAnchors fuses each product or convolution, called an anchor, with the group of nodes that iterate over its
// result. The other nodes of the group become the epilogue of the anchor: they read the anchor's result from a cache or
// from registers. In relu(conv(x) + y), for example, conv is the anchor, and add and relu are its epilogue. A group has
// at most one anchor: the last candidate in the graph. Readers of the anchor's result outside the group must come after
// the group.
//
// A grouper is the state of the group pass, and a nodeGroup a group under construction. The space of a group is the
// shape of its loops, with a mask of the dimensions that it reduces (nil for none).
func (g *grouper) joinAnchors() {
	for _, n := range slices.Backward(g.plan.Graph.Nodes) {
		interrupt.Check(g.plan.ctx)
		if !g.canBeAnchor(n) {
			continue
		}
		group, why := g.groupToAnchor(n)
		if why != "" {
			g.notJoinedReasons[n] = why
			continue
		}
		group.anchor = n
		group.addNode(g, n)
	}
}

// groupToAnchor returns the group whose anchor a node can become, or the reason why there is none.
func (g *grouper) groupToAnchor(n *graph.Node) (group *nodeGroup, why string) {
	whole, why := g.epilogueOf(n)
	if why != "" {
		return nil, why
	}
	group = whole
	if whole.space.mask != nil { // only its nodes that depend on no reduction may become an epilogue
		if group, why = g.splitPrefix(whole, n); why != "" {
			return nil, why
		}
	}
	why = g.whyNoAnchor(group, n)
	if why != "" && group != whole { // undo the split
		var joining *graph.Node // no further node joins
		g.merge(group, whole, joining)
	}
	return group, why
}

// canBeAnchor reports whether a node can become an anchor: it is in no group, and its op accepts an epilogue.
func (g *grouper) canBeAnchor(n *graph.Node) bool {
	return len(n.Out) == 1 && g.group(n) == nil && fusion.TakesEpilogue(n.Op)
}

// epilogueOf returns the group that can become the epilogue of a node: the group of the node's first reader. If this
// group cannot be the epilogue, epilogueOf returns the reason.
func (g *grouper) epilogueOf(n *graph.Node) (*nodeGroup, string) {
	var first *graph.Node
	v := n.Out[0]
	for _, reader := range g.uses.readers.At(v) {
		if first == nil || g.position(reader) < g.position(first) {
			first = reader
		}
	}
	if first == nil {
		return nil, "no node reads its result"
	}
	group := g.group(first)
	switch {
	case group != nil && group.isAttention:
		return nil, fmt.Sprintf("the step of %s computes an attention", group.nodes[0].Name)
	case group == nil || group.anchor == first:
		return nil, fmt.Sprintf("%s also reads it, and comes earlier", first.Name)
	case group.anchor != nil:
		return nil, fmt.Sprintf("the step of %s already has the anchor %s", first.Name, group.anchor.Name)
	case !slices.Equal(group.space.shape, v.Meta.Shape):
		return nil, reasonRowsDiffer
	}
	return group, ""
}

// whyNoAnchor returns the reason why a node cannot be the anchor of a group; "" if it can.
func (g *grouper) whyNoAnchor(group *nodeGroup, n *graph.Node) string {
	v := n.Out[0]
	switch err := g.fuser.CheckAnchor(n); {
	case err != nil:
		return n.Name + " " + err.Error()
	case n.Pin != (graph.Pin{Impl: n.Pin.Impl}): // a pin of the implementation alone is no obstacle
		return n.Name + " is pinned, so it is a separate step"
	case v.Meta.Numel() == 0:
		return n.Name + " has no elements"
	}
	// The operands of the group include the anchor's result. If this result is read outside of the group, it is also a
	// result of the group.
	resultCount := group.resultCount
	if g.isReadOutside(v, group, n) {
		resultCount++
	} else if !g.hasRoomFor(group, v) {
		return fmt.Sprintf("no result of the step of %s has elements of the size of %v, whose buffer it could share",
			group.nodes[0].Name, v.Meta.DType)
	}
	return overLimit(len(group.nodes)+1, resultCount, len(group.operands))
}

// isReadOutside reports whether v, which node n of the group computes, has readers outside of the group.
func (g *grouper) isReadOutside(v *graph.Value, group *nodeGroup, n *graph.Node) bool {
	return g.uses.isOutput[v] || slices.ContainsFunc(g.uses.readers.At(v), func(reader *graph.Node) bool {
		return reader != n && g.group(reader) != group
	})
}

// hasRoomFor reports whether a stored result of the group can hold v in its buffer: see [fusion.HasRoom].
func (g *grouper) hasRoomFor(group *nodeGroup, v *graph.Value) bool {
	return slices.ContainsFunc(group.nodes, func(n *graph.Node) bool {
		return slices.ContainsFunc(n.Out, func(result *graph.Value) bool {
			return fusion.HasRoom(result.Meta.DType, v.Meta.DType) && g.isStored(result, group)
		})
	})
}

// checkAnchor returns an error if the anchor of a group from recorded [Decisions] is impossible at the current sizes.
func (g *grouper) checkAnchor(group *nodeGroup) error {
	n := group.anchor
	if len(n.Out) != 1 || !slices.Equal(n.Out[0].Meta.Shape, group.space.shape) {
		return misfitError("the result of %s does not have the shape of its epilogue", n.Name)
	}
	if err := g.fuser.CheckAnchor(n); err != nil {
		return misfitError("%s %v", n.Name, err)
	}
	return nil
}
