package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
)

// Group describes a fused node. Parts are the names of the nodes that it replaces, in the order of execution.
type Group struct {
	Node  string
	Parts []string
}

// Limits of a group.
const (
	maxNodes   = 64 // maximum number of nodes: the values of more nodes would not fit in registers
	maxResults = 4  // maximum number of stored values; each stored value is a separate stream of writes to memory
)

// grouper is the state of the group pass. It visits nodes in reverse, so that the readers of a node are assigned to
// groups before the node. A [nodeGroup] is a group under construction: nodes (in reverse order), their common space,
// the operands from outside, and resultCount, the number of stored values. A [space] is the shape over which nodes
// iterate, with a mask of the reduced dimensions. An anchor is a product or a convolution whose kernel applies the
// expression of the other nodes of its group. uses has the readers of each value.
type grouper struct {
	plan      *Plan
	fuser     *fusion.Fuser             // makes the fused nodes
	positions graph.ByValue[int]        // index of a node in the graph, by its first output
	groupOf   graph.ByValue[*nodeGroup] // group of a node, by its first output
	uses      *uses
	groups    []*nodeGroup

	noGroupReasons   map[*graph.Node]string // why nodes cannot be in a group, except as an anchor
	notJoinedReasons map[*graph.Node]string // why nodes did not join the group of a reader
}

// groupNodes fuses nodes that iterate over the same elements and read each other's results: pointwise nodes, and row
// reductions with the nodes before and after them. A node joins the group of its first reader. Its other readers must
// come after that group, because the group stores the value for them. The groups depend only on the graph, shapes,
// dtypes and inferred layouts. Groups of attentions also depend on the prices of a device.
//
// For example, in y = div(x, sqrt(mean(mul(x, x)))), the reverse visit starts a group with div and sqrt, which iterate
// over different spaces: all elements, and one element for each row. The mean, a row reduction, has a space that covers
// both, and mul joins it. One step then reads x and writes y.
func groupNodes(plan *Plan) error {
	plan.dropNodes() // dead readers would force values to be stored
	g := &grouper{plan: plan, fuser: fusion.NewFuser(plan.Graph), positions: graph.NewByValue[int](plan.Graph),
		groupOf: graph.NewByValue[*nodeGroup](plan.Graph), uses: usesOf(plan.Graph),
		noGroupReasons: map[*graph.Node]string{}, notJoinedReasons: map[*graph.Node]string{}}
	g.fuser.Device = plan.device != nil
	if plan.decisionsToFollow != nil { // use the groups of an earlier plan
		return g.followGroups()
	}
	for i, n := range plan.Graph.Nodes {
		if len(n.Out) > 0 {
			g.positions.Set(n.Out[0], i)
		}
	}
	g.joinAttentions()
	for i, n := range slices.Backward(plan.Graph.Nodes) {
		interrupt.Check(plan.ctx)
		if g.group(n) != nil {
			continue
		}
		if nodeSpace, why := g.spaceOf(n); why != "" {
			g.noGroupReasons[n] = why
		} else {
			g.addToGroups(i, n, nodeSpace)
		}
	}
	g.joinRows()
	g.joinAnchors()
	g.reportUnfused()
	return g.build()
}

// spaceOf returns the iteration space of a node. If the node cannot be grouped, spaceOf returns the reason: the node
// has no expression, its rows do not suit fused loops, or it is pinned.
func (g *grouper) spaceOf(n *graph.Node) (nodeSpace space, why string) {
	switch {
	case len(n.Out) == 0:
		return nodeSpace, "has no results"
	case n.Pin != (graph.Pin{}):
		return nodeSpace, "is pinned, so it is a separate step"
	case n.Op.Copies:
		return nodeSpace, "is a copy, which a later pass may remove"
	case n.Out[0].Meta.Numel() == 0:
		return nodeSpace, "has no elements"
	}
	if nodeSpace, why = g.expressionSpace(n); why == "" && nodeSpace.mask != nil {
		why = g.fuser.Rows(n).UnsuitedReason(nodeSpace.shape)
	}
	return nodeSpace, why
}

// expressionSpace returns the iteration space of a node whose op has a pointwise expression, or a row reduction by an
// expression. For other nodes it returns the reason why the node cannot be fused.
func (g *grouper) expressionSpace(n *graph.Node) (nodeSpace space, why string) {
	if rows := g.fuser.Rows(n); rows != nil && rows.Code.Compilable() {
		shape := n.In[0].Meta().Shape
		// ChannelGroups is the number of groups of a group norm, which split dimension 1; else 0.
		return space{shape: shape, mask: rows.Mask, split: rows.ChannelGroups, inPieces: rows.SplitsRows(shape)}, ""
	}
	for _, v := range n.Out[1:] {
		if !slices.Equal(v.Meta.Shape, n.Out[0].Meta.Shape) {
			return nodeSpace, "has results of several shapes"
		}
	}
	code, err := g.fuser.Expression(n)
	switch {
	case n.Op.UnfusableReason != "":
		return nodeSpace, n.Op.UnfusableReason
	case err != nil && n.Op.Rows != nil:
		return nodeSpace, "reduces rows by a separate kernel"
	case err != nil:
		return nodeSpace, err.Error()
	case !code.Compilable():
		return nodeSpace, "calls functions that have no machine code"
	}
	return space{shape: n.Out[0].Meta.Shape}, ""
}

// isAligned reports whether a reader can read value v of the same step: v has the rank of the reader's space, or one
// element.
func (g *grouper) isAligned(v *graph.Value, reader *graph.Node) bool {
	readerSpace, why := g.expressionSpace(reader)
	return why == "" && (v.Meta.Rank() == len(readerSpace.shape) || v.Meta.Numel() == 1)
}

// whyMisaligned returns the reason why nodes cannot share a space, or "" if they can share it. A possible reason is
// that a node reads the result of another node along other dimensions. Another is that rows are processed in pieces,
// and a node needs the reduced values of a row while the row is being reduced.
func (g *grouper) whyMisaligned(shared space, nodes ...*graph.Node) string {
	if shared.mask == nil {
		return ""
	}
	computed := map[*graph.Value]bool{}
	for _, n := range nodes {
		for _, v := range n.Out {
			computed[v] = true
		}
	}
	for _, n := range nodes {
		for _, arg := range n.In {
			switch v := arg.Value; {
			case arg.Kind != graph.TensorArg || !computed[v]: // not a result of these nodes
			case !g.isAligned(v, n):
				return reasonDimsDiffer
			case shared.inPieces && g.iteratesOverAll(n, shared) && !slices.Equal(v.Meta.Shape, shared.shape):
				return reasonSecondPass // v is a reduced value, which is known only after all pieces of a row
			}
		}
	}
	return ""
}

// iteratesOverAll reports whether a node iterates over all elements of a space, not over its reduced dimensions.
func (g *grouper) iteratesOverAll(n *graph.Node, whole space) bool {
	nodeSpace, _ := g.spaceOf(n)
	return slices.Equal(nodeSpace.shape, whole.shape)
}

// addToGroups puts a node into the group of its first reader, or starts a group.
func (g *grouper) addToGroups(position int, n *graph.Node, nodeSpace space) {
	group := g.groupFor(n, nodeSpace)
	if group == nil {
		group = &nodeGroup{position: position, space: nodeSpace, operands: map[*graph.Value]bool{}}
		g.groups = append(g.groups, group)
	}
	group.addNode(g, n)
}

// groupFor returns the group that a node can join: the merged group of all readers, or the group of the first reader.
// It returns nil if there is no such group.
func (g *grouper) groupFor(n *graph.Node, nodeSpace space) *nodeGroup {
	firstReader := g.firstReaderOf(n)
	firstGroup := g.group(firstReader) // nil if the reader is in no group
	computedByNode := func(v *graph.Value) bool { return v.Node == n }
	switch {
	case firstReader == nil: // no node reads the results
		return nil
	case firstGroup != nil && firstGroup.isAttention:
		g.notJoinedReasons[n] = fmt.Sprintf("the step of %s computes an attention", firstGroup.nodes[0].Name)
		return nil
	case firstGroup == nil || mergedSpace(nodeSpace, firstGroup, computedByNode).shape == nil:
		g.notJoinedReasons[n] = fmt.Sprintf("%s also reads it, and comes earlier", firstReader.Name)
		readsReducedRows := firstGroup != nil && nodeSpace.mask != nil &&
			slices.Equal(firstGroup.space.shape, nodeSpace.withoutReduced())
		if readsReducedRows {
			g.notJoinedReasons[n] = fmt.Sprintf("the step of %s reads more than the reduced rows of %s", firstReader.Name,
				n.Name)
		}
		return nil
	}
	// The groups of the other readers are merged with the first, as far as possible.
	group := firstGroup
	for _, v := range n.Out {
		for _, reader := range g.uses.readers.At(v) {
			other := g.group(reader)
			if other != nil && other != group && mergedSpace(nodeSpace, other, computedByNode).shape != nil {
				group = g.merge(group, other, n) // the earlier of both if they cannot be merged
			}
		}
	}
	merged := mergedSpace(nodeSpace, group, computedByNode)
	if why := g.whyCannotJoin(n, group, merged); why != "" {
		g.notJoinedReasons[n] = why
		return nil
	}
	group.space = merged
	return group
}

// whyCannotJoin returns the reason why a node cannot join the group of its readers, or "" if it can. merged is the
// mergedSpace of the node and the group.
func (g *grouper) whyCannotJoin(n *graph.Node, group *nodeGroup, merged space) string {
	if merged.shape == nil {
		return reasonRowsDiffer
	}
	if why := g.whyTooLarge(group, n); why != "" {
		return why
	}
	return g.whyMisaligned(merged, append(slices.Clone(group.nodes), n)...)
}

// firstReaderOf returns the first reader of a node; nil if there is none.
func (g *grouper) firstReaderOf(n *graph.Node) (first *graph.Node) {
	for _, v := range n.Out {
		for _, reader := range g.uses.readers.At(v) {
			if first == nil || g.position(reader) < g.position(first) {
				first = reader
			}
		}
	}
	return first
}

// joinRows merges groups that reduce rows with groups that read the reduced values. For example, the group of a mean of
// squares is merged with the group that divides by the root of that mean.
func (g *grouper) joinRows() {
	for _, group := range g.groups {
		if group.space.mask == nil {
			continue
		}
		for changed := true; changed; {
			group, changed = g.mergeWithReaders(group)
		}
	}
}

// mergeWithReaders merges a group with the groups that read its results, where possible. It returns the merged group,
// and whether the given group became part of another group.
func (g *grouper) mergeWithReaders(group *nodeGroup) (merged *nodeGroup, changed bool) {
	merged = group
	for _, n := range slices.Clone(group.nodes) {
		for _, v := range n.Out {
			for _, reader := range g.uses.readers.At(v) {
				readerGroup := g.group(reader)
				// A group without nodes was merged into another group.
				if readerGroup != nil && readerGroup != merged && len(merged.nodes) > 0 &&
					g.merge(merged, readerGroup, nil /* no node joins them */) == readerGroup {
					merged, changed = readerGroup, true
				}
			}
		}
	}
	return merged, changed
}

// build creates the fused nodes. Groups that no output depends on stay unfused.
func (g *grouper) build() error {
	isStored := func(v *graph.Value) bool { return g.isStored(v, g.group(v.Node)) }
	var groups []fusion.Group
	parts := 0
	for _, group := range slices.Backward(g.groups) {
		if len(group.nodes) < 2 || group.resultCount == 0 {
			continue
		}
		slices.Reverse(group.nodes)
		groups = append(groups, fusion.Group{Nodes: group.nodes, Anchor: group.anchor != nil, Attention: group.isAttention,
			Mask: group.space.mask, Split: group.space.split})
		parts += len(group.nodes)
	}
	g.plan.noteGroups(groups)
	fused, err := g.fuser.Fuse(groups, isStored)
	if err != nil {
		return err
	}
	for _, n := range fused {
		g.plan.Groups = append(g.plan.Groups, Group{n.Name, n.Attrs.(*fusion.Fusion).Names()})
	}
	if len(fused) > 0 {
		g.plan.Note("%s as %d", countText(parts, "node", "nodes"), len(fused))
	}
	return nil
}
