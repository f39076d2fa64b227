package passes

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// Decisions are the results of the searches of one planning run: folded nodes, groups, layouts, implementations,
// copies, and values that are placed in other values. [Options.Follow] applies them to the same graph at other sizes,
// with the same list of passes. Decisions are immutable.
//
// A decision refers to nodes and values by their numbers, which are the same at all sizes. For example, a plan for
// batches of 8 folded node 3, and fused nodes 5, 6 and 7. A plan for batches of 1 that follows it does the same without
// a search, or fails with a [Misfit] if, at this size, the nodes do not iterate over the same elements.
type Decisions struct {
	foldedNodes  []map[int]bool     // numbers of folded nodes, by fold pass
	groups       []groupDecision    // fused groups
	nodes        []signature        // signatures of the nodes for which layouts were chosen
	results      [][]tensor.Meta    // results of these nodes
	layout       *layout.Assignment // chosen layouts, implementations and copies
	placedValues map[int]bool       // numbers of values that are stored inside other values

	stored *storedLayout // the layout as read from a file; layout is nil if stored is set
}

// groupDecision is a group of nodes that become one step, by node numbers in a valid order of execution. mask marks the
// dimensions that the group reduces.
type groupDecision struct {
	nodes       []int
	hasAnchor   bool   // whether the first node, the anchor, has its own loop: see [nodeGroup]
	isAttention bool   // whether the nodes compute an attention
	mask        []bool // see space.mask
	split       int    // see space.split
}

// signature identifies a node independently of sizes. It has the op, the number of the node, the number of its results,
// and the numbers of its operands. The number of an operand that is not a tensor is -1. If the signatures of all nodes
// are equal, the decisions were made for the same graph.
type signature string

// Misfit is the error for decisions that do not apply to a graph at its sizes: other nodes would run, or values would
// have other layouts. The graph must then be planned without these decisions.
type Misfit struct{ Why string }

// Error gives the reason.
func (e *Misfit) Error() string { return "the decisions do not fit: " + e.Why }

// misfitError returns a [*Misfit] with a formatted reason. It is not inlined, to save compile time: it has many
// callers, none of them hot.
//
//go:noinline
func misfitError(format string, args ...any) error { return &Misfit{fmt.Sprintf(format, args...)} }

// signatureOf returns the signature of a node.
func signatureOf(n *graph.Node) signature {
	text := append(make([]byte, 0, 64), n.Op.Name...)
	for _, number := range []int{n.Number(), len(n.Out)} {
		text = strconv.AppendInt(append(text, ' '), int64(number), 10)
	}
	for _, arg := range n.In {
		number := -1
		if arg.Kind == graph.TensorArg {
			number = arg.Value.Number()
		}
		text = strconv.AppendInt(append(text, ' '), int64(number), 10)
	}
	return signature(text)
}

// decidedFolds returns the numbers of the nodes that the current fold pass must fold. It returns nil if there are no
// decisions to follow.
func (p *Plan) decidedFolds() map[int]bool {
	pass := p.foldPasses
	p.foldPasses++
	if p.Decisions != nil {
		p.Decisions.foldedNodes = append(p.Decisions.foldedNodes, map[int]bool{})
	}
	switch {
	case p.decisionsToFollow != nil && pass < len(p.decisionsToFollow.foldedNodes):
		return p.decisionsToFollow.foldedNodes[pass]
	case p.decisionsToFollow != nil:
		return map[int]bool{}
	}
	return nil
}

// noteFolded records that a node was folded.
func (p *Plan) noteFolded(n *graph.Node) {
	if p.Decisions != nil {
		p.Decisions.foldedNodes[p.foldPasses-1][n.Number()] = true
	}
}

// noteGroups records the groups.
func (p *Plan) noteGroups(groups []fusion.Group) {
	if p.Decisions == nil {
		return
	}
	for _, group := range groups {
		decision := groupDecision{nodes: make([]int, len(group.Nodes)), hasAnchor: group.Anchor, isAttention: group.Attention,
			mask: group.Mask, split: group.Split}
		for i, n := range group.Nodes {
			decision.nodes[i] = n.Number()
		}
		p.Decisions.groups = append(p.Decisions.groups, decision)
	}
}

// followGroups rebuilds the recorded groups. As in groupNodes, both the groups and the nodes of a group are listed in
// reverse order of the graph.
func (g *grouper) followGroups() error {
	byNumber := make(map[int]*graph.Node, len(g.plan.Graph.Nodes))
	for _, n := range g.plan.Graph.Nodes {
		byNumber[n.Number()] = n
	}
	for _, decision := range slices.Backward(g.plan.decisionsToFollow.groups) {
		group, err := g.rebuildGroup(decision, byNumber)
		if err != nil {
			return err
		}
		g.groups = append(g.groups, group)
	}
	return g.build()
}

// rebuildGroup returns the group of a decision, or an error if its nodes can no longer become one step.
func (g *grouper) rebuildGroup(decision groupDecision, byNumber map[int]*graph.Node) (*nodeGroup, error) {
	group := &nodeGroup{space: space{mask: decision.mask, split: decision.split}, resultCount: 1,
		isAttention: decision.isAttention}
	for _, number := range slices.Backward(decision.nodes) {
		n := byNumber[number]
		if n == nil || len(n.Out) == 0 {
			return nil, misfitError("a node of a group does not exist")
		}
		group.nodes = append(group.nodes, n)
		g.groupOf.Set(n.Out[0], group)
	}
	if decision.isAttention {
		nodes := slices.Clone(group.nodes)
		slices.Reverse(nodes)
		return group, g.checkAttention(nodes)
	}
	if decision.hasAnchor {
		group.anchor = group.nodes[len(group.nodes)-1]
	}
	return group, g.checkGroup(group)
}

// checkGroup sets the shape of a recorded group's space. It returns an error if the nodes no longer iterate over one
// space.
func (g *grouper) checkGroup(group *nodeGroup) error {
	spaces := make([]space, 0, len(group.nodes))
	fused := group.nodes // without the anchor, which has its own loop and is last
	if group.anchor != nil {
		fused = fused[:len(fused)-1]
	}
	for _, n := range fused {
		nodeSpace, why := g.expressionSpace(n)
		if why != "" {
			return misfitError("%s %s", n.Name, why)
		}
		spaces = append(spaces, nodeSpace)
		if nodeSpace.mask != nil || group.space.shape == nil {
			group.space.shape = nodeSpace.shape
		}
		group.space.inPieces = group.space.inPieces || nodeSpace.inPieces
		if nodeSpace.mask != nil && !g.fuser.Rows(n).Fits(nodeSpace.shape) {
			return misfitError("the rows of %s do not suit the fused loops", n.Name)
		}
	}
	for i, nodeSpace := range spaces {
		if commonSpace(nodeSpace, group.space).shape == nil && !group.iteratesOverReduced(nodeSpace, group.nodes[i]) {
			return misfitError("%s and its group do not iterate over the same elements", group.nodes[i].Name)
		}
	}
	if why := g.whyMisaligned(group.space, group.nodes...); why != "" {
		return misfitError("%s: %s", group.nodes[len(group.nodes)-1].Name, why)
	}
	if group.anchor != nil {
		if err := g.checkAnchor(group); err != nil {
			return err
		}
	}
	g.recordGuards(group)
	return nil
}

// iteratesOverReduced reports whether a node with the given space iterates over the shape of the group's reduced
// results, without the reduced dimensions. All its operands from outside of the group must have one element: see
// [mergedSpace].
func (group *nodeGroup) iteratesOverReduced(nodeSpace space, n *graph.Node) bool {
	if !group.onlyGroupReduces(nodeSpace) || !slices.Equal(nodeSpace.shape, group.space.withoutReduced()) {
		return false
	}
	return !slices.ContainsFunc(n.In, func(arg graph.Arg) bool {
		return arg.Kind == graph.TensorArg && !slices.Contains(group.nodes, arg.Value.Node) && arg.Value.Meta.Numel() != 1
	})
}

// onlyGroupReduces reports whether the group reduces whole dimensions, but a node with the given space does not.
func (group *nodeGroup) onlyGroupReduces(nodeSpace space) bool {
	return group.space.mask != nil && group.space.split == 0 && nodeSpace.mask == nil
}

// noteLayouts records an assignment before it is applied.
func (p *Plan) noteLayouts(assignment *layout.Assignment) {
	if p.Decisions == nil {
		return
	}
	p.Decisions.layout = assignment
	for _, n := range p.Graph.Nodes {
		results := make([]tensor.Meta, len(n.Out))
		for i, v := range n.Out {
			results[i] = v.Meta
		}
		p.Decisions.nodes = append(p.Decisions.nodes, signatureOf(n))
		p.Decisions.results = append(p.Decisions.results, results)
	}
}

// followLayouts applies the recorded assignment. Outputs must have the layouts of the graph as written, and
// implementations must support the layouts assigned to them.
func (p *Plan) followLayouts() error {
	decisions := p.decisionsToFollow
	if decisions.layout == nil && decisions.stored == nil || len(decisions.nodes) != len(p.Graph.Nodes) {
		return misfitError("the graph has %d nodes, but the decisions are for %d nodes", len(p.Graph.Nodes),
			len(decisions.nodes))
	}
	for i, n := range p.Graph.Nodes {
		if decisions.nodes[i] != signatureOf(n) {
			return misfitError("node %s differs from the node for which the decisions were made", n.Name)
		}
	}
	assignment := decisions.layout.Of(p.Graph)
	if decisions.stored != nil {
		var err error
		if assignment, err = decisions.stored.assignment(p.Graph, p.device); err != nil {
			return err
		}
	}
	p.noteLayouts(assignment)
	p.strategyChoseCopies = assignment.Final
	originals, pins := make([]originalLayout, len(p.Graph.Outputs)), make([]graph.Pin, len(p.Graph.Outputs))
	for i, output := range p.Graph.Outputs {
		pins[i] = output.EffectivePin()
		originals[i] = originalLayout{symbolicType: output.Value.Type, meta: output.Value.Meta}
	}
	layouter := newLayouter(p)
	layouter.fromOtherSizes = true
	if err := layouter.apply(assignment); err != nil {
		return err
	}
	return p.checkOutputLayouts(originals, pins)
}

// checkOutputLayouts returns an error if an output has neither its pinned layout nor the layout of the graph as
// written.
func (p *Plan) checkOutputLayouts(originals []originalLayout, pins []graph.Pin) error {
	for i, output := range p.Graph.Outputs {
		meta, pin := output.Value.Meta, pins[i]
		if !pin.Matches(meta) || !pin.SetsLayout() && !meta.SameLayout(originals[i].meta) {
			return misfitError("output %q would get the layout %v, but it must keep the layout %v of the graph as "+
				"written", output.Name, meta, originals[i].meta)
		}
		if !pin.SetsLayout() {
			// If sizes are unknown, this records the condition as a guard.
			output.Value.Type.SameLayout(originals[i].symbolicType)
		}
	}
	return nil
}

// checkNodeLayouts returns an error if a node does not meet its pin or cannot read its operands.
func (l *layouter) checkNodeLayouts(n *graph.Node) error {
	for _, v := range n.Out {
		if !n.Pin.Matches(v.Meta) {
			return misfitError("%q is %v, but is pinned to %v", v.Name, v.Meta, n.Pin)
		}
	}
	if n.Impl != nil && !n.IsView() && n.Impl.MayRejectLayouts() && !n.Impl.Reads(n.Call(), n.Walk) {
		return misfitError("implementation %s cannot read the operands of %s in their layouts", n.Impl.Name, n.Name)
	}
	return nil
}

// implFor returns the implementation and the walk (loop order and layouts of the results) of a node for the recorded
// choice. The operands already have their final layouts. The recorded implementation may not support the current sizes;
// for example, it supports only few rows. Then implFor returns a replacement.
func (l *layouter) implFor(n *graph.Node, choice *layout.Choice) (*graph.Impl, graph.Walk, error) {
	recorded := choice.Walk
	switch {
	case choice.Impl == nil && len(n.Op.Impls) > 0 && !n.IsView():
		return nil, recorded, misfitError("%s is not a view, but was one when the decisions were made", n.Name)
	case choice.Impl == nil || n.IsView():
		return choice.Impl, recorded, nil
	}
	call := n.Call()
	loopOrders := []tensor.Order{recorded.LoopOrder}
	if len(recorded.ResultOrders) > 0 && recorded.ResultOrders[0] != recorded.LoopOrder {
		loopOrders = append(loopOrders, recorded.ResultOrders[0])
	}
	for _, walk := range choice.Impl.Walks(call, loopOrders) {
		if walk.LoopOrder == recorded.LoopOrder && l.sameAddresses(n, walk, recorded) {
			return choice.Impl, recorded, nil
		}
	}
	if choice.Impl.OnDevice() { // no host implementation can replace it: its results must be on the device
		return nil, recorded, misfitError("the device has no kernel for %s in the layout of the decisions", n.Name)
	}
	return l.replacementImpl(n, call, recorded, loopOrders)
}

// replacementImpl returns the first permitted implementation of a node whose results have the layouts of the recorded
// walk.
func (l *layouter) replacementImpl(n *graph.Node, call *graph.Call, recorded graph.Walk,
	loopOrders []tensor.Order) (*graph.Impl, graph.Walk, error) {
	for i := range n.Op.Impls {
		impl := &n.Op.Impls[i]
		isPermitted := (n.Pin.Impl == "" || impl.Name == n.Pin.Impl) && !(l.plan.exact && impl.Inexact)
		if !isPermitted {
			continue
		}
		for _, walk := range impl.Walks(call, loopOrders) {
			if l.sameAddresses(n, walk, recorded) && impl.Reads(call, walk) {
				return impl, walk, nil
			}
		}
	}
	return nil, recorded, misfitError("no implementation of %s supports the layout of the decisions", n.Name)
}

// sameAddresses reports whether the elements of a node's results have the same addresses with both walks.
func (l *layouter) sameAddresses(n *graph.Node, walkA, walkB graph.Walk) bool {
	for i, v := range n.Out {
		if v.Alias == nil && !walkA.ResultLayout(i, v.Meta).SameAddresses(walkB.ResultLayout(i, v.Meta)) {
			return false
		}
	}
	return true
}

// storageAsWritten reports whether the memory of v has the layout of the graph as written. v is an operand of an op
// that reads the bytes of its operand's memory, such as as_strided. replacement is the copy that the op reads in place
// of v, or nil. Without a copy, the layouts of v and of all values that v views must be unchanged. A copy must have its
// own memory and the original strides.
func (l *layouter) storageAsWritten(v *graph.Value, replacement *layout.Copy) bool {
	if replacement != nil && !replacement.Original {
		return replacement.Strides != nil && !replacement.View && v.Alias == nil && v.Node != nil &&
			v.Node.Op.Kind != graph.View
	}
	if replacement != nil && replacement.Value != v { // another value: it must begin at the start of its memory
		v = replacement.Value
		if v.Alias != nil || v.Meta.Offset != 0 {
			return false
		}
	}
	for ; v != nil; v = v.Alias {
		if l.changedLayouts[v] {
			return false
		}
	}
	return true
}
