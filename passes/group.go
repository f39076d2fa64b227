package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
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
	g.fuser.Device = plan.options.Device != nil
	if plan.options.Follow != nil { // use the groups of an earlier plan
		return g.followGroups()
	}
	for i, n := range plan.Graph.Nodes {
		if len(n.Out) > 0 {
			g.positions.Set(n.Out[0], i)
		}
	}
	g.joinAttentions()
	for i, n := range slices.Backward(plan.Graph.Nodes) {
		interrupt.Check(plan.options.Context)
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

// nodeGroup is a group of nodes under construction: the nodes of one future fused node, that is, of one step. See
// package fusion for anchors, epilogues and attentions.
//
// For example, let nodes compute p = x*y, s = p+z and t = relu(s), and let s also be an output. Their group has the
// nodes [relu, add, mul], the operands x, y and z, and two results, t and s. The value p exists only within the step.
type nodeGroup struct {
	nodes       []*graph.Node         // in reverse order
	position    int                   // position of the last node, where the fused node is inserted
	space       space                 // iteration space of all nodes except the anchor
	resultCount int                   // number of values that the fused node stores
	operands    map[*graph.Value]bool // operands computed outside of the group
	isAttention bool                  // the group is an attention; no further node joins it
	anchor      *graph.Node           // a product or convolution before all nodes of its epilogue; nil for none
}

// addNode adds a node that comes before all other nodes of the group.
func (group *nodeGroup) addNode(g *grouper, n *graph.Node) {
	group.nodes = append(group.nodes, n)
	g.groupOf.Set(n.Out[0], group)
	for _, v := range n.Out {
		delete(group.operands, v)
		if g.isStored(v, group) {
			group.resultCount++
		}
	}
	for _, a := range n.In {
		if a.Kind == graph.TensorArg {
			group.operands[a.Value] = true
		}
	}
}

// group returns the group of a node, or nil.
// It is not inlined, to save compile time: it has many callers, none of them hot.
//
//go:noinline
func (g *grouper) group(n *graph.Node) *nodeGroup {
	if n == nil || len(n.Out) == 0 {
		return nil
	}
	return g.groupOf.At(n.Out[0])
}

// position returns the position of a node in the graph, or the position of its group.
func (g *grouper) position(n *graph.Node) int {
	if group := g.group(n); group != nil {
		return group.position
	}
	return g.positions.At(n.Out[0])
}

// isStored reports whether a value of the group is read outside of it, so that the group must store the value.
func (g *grouper) isStored(v *graph.Value, group *nodeGroup) bool {
	return g.uses.isOutput[v] || slices.ContainsFunc(g.uses.readers.At(v), func(n *graph.Node) bool {
		return g.group(n) != group
	})
}

// whyTooLarge returns the limit that the group would exceed with another node; "" if it would exceed none.
func (g *grouper) whyTooLarge(group *nodeGroup, n *graph.Node) string {
	resultCount, operandCount := group.resultCount, len(group.operands)
	for _, v := range n.Out {
		if group.operands[v] { // computed in the group from now on
			operandCount--
		}
		if g.isStored(v, group) {
			resultCount++
		}
	}
	for _, a := range n.In {
		if a.Kind == graph.TensorArg && !group.operands[a.Value] {
			operandCount++
		}
	}
	return overLimit(len(group.nodes)+1, resultCount, operandCount)
}

// overLimit describes the limit that a group with the given numbers of nodes, stored results and operands exceeds. It
// returns "" if the group is within all limits.
func overLimit(nodeCount, resultCount, operandCount int) string {
	switch {
	case nodeCount > maxNodes:
		return fmt.Sprintf("a step has at most %d nodes", maxNodes)
	case resultCount > maxResults:
		return fmt.Sprintf("the step would store %d results; the limit is %d", resultCount, maxResults)
	case operandCount+resultCount > expr.MaxOperands:
		return fmt.Sprintf("the step would have %d operands and results; the limit is %d", operandCount+resultCount,
			expr.MaxOperands)
	}
	return ""
}

// merge unites two groups, given in any order, at the position of the later group, and returns this group. n is a node
// that will join the union, or nil. If the groups cannot be united, merge records the reason for n and returns the
// earlier group, so that n may still join it. Neither group has an anchor yet, and no attention is merged, because its
// space equals no other space.
func (g *grouper) merge(earlier, later *nodeGroup, n *graph.Node) *nodeGroup {
	interrupt.Check(g.plan.options.Context)
	if earlier.position > later.position {
		earlier, later = later, earlier
	}
	merged := mergedSpace(earlier.space, later, func(v *graph.Value) bool { return g.group(v.Node) == earlier })
	if why := g.whyNotMerged(earlier, later, n, merged); why != "" {
		g.recordUnfused(n, why)
		return earlier
	}
	for _, member := range earlier.nodes {
		g.groupOf.Set(member.Out[0], later)
	}
	// Both lists are in reverse order.
	later.nodes = append(later.nodes, earlier.nodes...)
	sorted.Func(later.nodes, func(a, b *graph.Node) int { return g.positions.At(b.Out[0]) - g.positions.At(a.Out[0]) })
	later.space, earlier.nodes = merged, nil
	g.recount(later)
	return later
}

// whyNotMerged returns the reason why two groups and n cannot be one group with the space merged; "" if they can. n may
// be nil.
func (g *grouper) whyNotMerged(earlier, later *nodeGroup, n *graph.Node, merged space) string {
	if merged.shape == nil {
		return reasonRowsDiffer
	}
	if why := g.whyMisaligned(merged, slices.Concat(earlier.nodes, later.nodes)...); why != "" {
		return why
	}
	operandCount := len(later.operands)
	for v := range earlier.operands {
		if !later.operands[v] {
			operandCount++
		}
	}
	nodeCount := len(earlier.nodes) + len(later.nodes) + 1 // with n, whose operands whyTooLarge checks when n joins
	// The counts of results and operands are upper bounds: the union need not store or load what one group reads from
	// the other.
	resultCount := earlier.resultCount + later.resultCount
	if why := overLimit(nodeCount, resultCount, operandCount); why != "" {
		return why
	}
	return g.whyNotLater(earlier, later, n)
}

// Reasons why a node is not in the group of its readers.
const (
	// reasonRowsDiffer: the groups reduce different dimensions or iterate over different shapes.
	reasonRowsDiffer = "its readers iterate over different rows"
	// reasonDimsDiffer: a reader broadcasts a reduced value along dimensions that the node did not reduce.
	reasonDimsDiffer = "its readers broadcast its reduced values along other dimensions"
	// reasonSecondPass: rows are processed in pieces, so that reduced values are known only after the pass over all
	// pieces.
	reasonSecondPass = "its rows are processed in pieces: readers of its results run in a later step"
)

// whyNotLater returns the reason why n and the nodes of the earlier group cannot run at the position of the later
// group: a reader outside both groups needs their results before. It returns "" if there is no such reader.
func (g *grouper) whyNotLater(earlier, later *nodeGroup, n *graph.Node) string {
	moved := slices.Clone(earlier.nodes)
	if n != nil {
		moved = append(moved, n)
	}
	for _, member := range moved {
		for _, v := range member.Out {
			for _, reader := range g.uses.readers.At(v) {
				group := g.group(reader)
				isInside := group == earlier || group == later || reader == n
				if !isInside && g.position(reader) <= later.position {
					return fmt.Sprintf("%s needs %s earlier", reader.Name, v.Name)
				}
			}
		}
	}
	return ""
}

// recordUnfused records why a node is not in a group of its readers. It ignores a nil node.
func (g *grouper) recordUnfused(n *graph.Node, why string) {
	if n != nil {
		g.notJoinedReasons[n] = why
	}
}

// recount recomputes the operands and the number of results of a group.
func (g *grouper) recount(group *nodeGroup) {
	group.resultCount, group.operands = 0, map[*graph.Value]bool{}
	for _, n := range group.nodes {
		for _, operand := range n.In {
			if operand.Kind == graph.TensorArg && g.group(operand.Value.Node) != group {
				group.operands[operand.Value] = true
			}
		}
		for _, v := range n.Out {
			if g.isStored(v, group) {
				group.resultCount++
			}
		}
	}
}

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
		interrupt.Check(g.plan.options.Context)
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
