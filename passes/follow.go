package passes

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file applies the layouts of recorded [Decisions] to the same graph at other sizes, or returns a [Misfit]. The
// decisions have a [layout.Assignment], with a [layout.Choice] for each node: an implementation, a walk (the order of
// the loops, and the orders of the results), and the copies that the node reads in place of its operands. A layouter
// (layout.go) applies the assignment and calls the checks of this file. The layouts before that, as in eager PyTorch,
// are called the layouts of the graph as written.
//
// For example, the decisions for batches of 8 chose the implementation "tiled" for a product, with a row-major result.
// At batches of 1, "tiled" may not support the operands. Then the first other implementation with a row-major result
// replaces it. If there is none, the decisions do not fit.

// followLayouts applies the recorded assignment. An output must have the layout of its pin or of the graph as written.
// An implementation must support its assigned layouts.
func (p *Plan) followLayouts() error {
	if err := p.options.Follow.checkGraph(p.Graph); err != nil {
		return err
	}
	assignment, err := p.options.Follow.layout.assignment(p.Graph, p.options.Device)
	if err != nil {
		return err
	}
	p.noteLayouts(assignment)
	required := make([]outputLayout, len(p.Graph.Outputs))
	for i, output := range p.Graph.Outputs {
		required[i] = outputLayout{pin: output.EffectivePin(), symbolicType: output.Value.Type, meta: output.Value.Meta}
	}
	layouter := newLayouter(p)
	layouter.fromOtherSizes = true
	if err := layouter.apply(assignment); err != nil {
		return err
	}
	return p.checkOutputLayouts(required)
}

// checkGraph returns an error if the layouts were not chosen for the nodes of the graph.
func (d *Decisions) checkGraph(g *graph.Graph) error {
	if d.layout == nil || len(d.nodes) != len(g.Nodes) {
		return misfitError("the graph has %d nodes, but the decisions are for %d nodes", len(g.Nodes), len(d.nodes))
	}
	for i, n := range g.Nodes {
		if d.nodes[i] != signatureOf(n) {
			return misfitError("node %s differs from the node for which the decisions were made", n.Name)
		}
	}
	return nil
}

// outputLayout is the required layout of an output: its pin or, without a pin, the layout of the graph as written.
type outputLayout struct {
	pin          graph.Pin
	symbolicType tensor.Type // in the graph as written, with possibly unknown sizes
	meta         tensor.Meta // in the graph as written
}

// checkOutputLayouts returns an error if an output does not have the required layout.
func (p *Plan) checkOutputLayouts(required []outputLayout) error {
	for i, output := range p.Graph.Outputs {
		meta, pin, original := output.Value.Meta, required[i].pin, required[i].meta
		if !pin.Matches(meta) || !pin.SetsLayout() && !meta.SameLayout(original) {
			return misfitError("output %q would get the layout %v, but it must keep the layout %v of the graph as "+
				"written", output.Name, meta, original)
		}
		if !pin.SetsLayout() {
			// If sizes are unknown, this records the condition as a guard.
			output.Value.Type.SameLayout(required[i].symbolicType)
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

// implFor returns the implementation and the walk of a node for the recorded choice. The operands already have their
// final layouts. If the recorded implementation does not support the current sizes, implFor returns a replacement.
// exact excludes inexact implementations.
func implFor(n *graph.Node, choice *layout.Choice, exact bool) (*graph.Impl, graph.Walk, error) {
	recorded := choice.Walk
	switch {
	case choice.Impl == nil && len(n.Op.Impls) > 0 && !n.IsView():
		return nil, recorded, misfitError("%s is not a view, but was one when the decisions were made", n.Name)
	case choice.Impl == nil || n.IsView(): // nothing to check: a view, or an op without implementations
		return choice.Impl, recorded, nil
	}
	call := n.Call()
	orders := []tensor.Order{recorded.LoopOrder} // to request from implementations
	if len(recorded.ResultOrders) > 0 && recorded.ResultOrders[0] != recorded.LoopOrder {
		orders = append(orders, recorded.ResultOrders[0])
	}
	for _, walk := range choice.Impl.Walks(call, orders) {
		if walk.LoopOrder == recorded.LoopOrder && givesSameAddresses(n, walk, recorded) {
			return choice.Impl, recorded, nil
		}
	}
	if choice.Impl.OnDevice() { // no host implementation can replace it: its results must be on the device
		return nil, recorded, misfitError("the device has no kernel for %s in the layout of the decisions", n.Name)
	}
	return replacementImpl(n, call, recorded, orders, exact)
}

// replacementImpl returns the first permitted implementation of a node whose results have the layouts of the recorded
// walk, and its walk.
func replacementImpl(n *graph.Node, call *graph.Call, recorded graph.Walk, orders []tensor.Order, exact bool) (
	*graph.Impl, graph.Walk, error) {
	for i := range n.Op.Impls {
		impl := &n.Op.Impls[i]
		isPermitted := (n.Pin.Impl == "" || impl.Name == n.Pin.Impl) && !(exact && impl.Inexact)
		if !isPermitted {
			continue
		}
		for _, walk := range impl.Walks(call, orders) {
			if givesSameAddresses(n, walk, recorded) && impl.Reads(call, walk) {
				return impl, walk, nil
			}
		}
	}
	return nil, recorded, misfitError("no implementation of %s supports the layout of the decisions", n.Name)
}

// givesSameAddresses reports whether the elements of a node's results have the same addresses with both walks.
func givesSameAddresses(n *graph.Node, walkA, walkB graph.Walk) bool {
	for i, v := range n.Out {
		if v.Alias == nil && !walkA.ResultLayout(i, v.Meta).SameAddresses(walkB.ResultLayout(i, v.Meta)) {
			return false
		}
	}
	return true
}

// storageAsWritten reports whether an op that reads the bytes of its operand's memory, such as as_strided, reads the
// same bytes as in the graph as written. v is the operand. replacement, if not nil, is the [layout.Copy] that the op
// reads instead: a copy in other memory, a repeated view, or a value itself (Original).
func (l *layouter) storageAsWritten(v *graph.Value, replacement *layout.Copy) bool {
	if replacement != nil && !replacement.Original {
		hasOriginalStrides := replacement.Strides != nil && !replacement.View
		return hasOriginalStrides && v.Alias == nil && v.Node != nil && v.Node.Op.Kind != graph.View
	}
	if replacement != nil && replacement.Value != v { // another value: it must begin at the start of its memory
		v = replacement.Value
		if v.Alias != nil || v.Meta.Offset != 0 {
			return false
		}
	}
	for viewed := v; viewed != nil; viewed = viewed.Alias {
		if l.changedLayouts[viewed] {
			return false
		}
	}
	return true
}

// recordGuards records guards if sizes are unknown: the conditions on sizes under which the nodes of a group from
// recorded decisions iterate over the same elements. [grouper.checkGroup] has checked these conditions for the hints
// (typical sizes). A call of Holds on a condition records it as a guard.
//
// The space of a node is the shape of its loops, with a mask of the dimensions that it reduces (nil for none). For
// example, let a group have a mul of [N, 3] and a sum of [M, 3] over dimension 1. Its guard is N == M.
func (g *grouper) recordGuards(group *nodeGroup) {
	if !slices.ContainsFunc(group.nodes, func(n *graph.Node) bool { return !hasNumericSizes(n.Out[0].Type) }) {
		return
	}
	var groupShape []sym.Int
	for _, n := range group.nodes {
		if nodeSpace, shape := g.spaceOfType(n); nodeSpace.mask != nil || groupShape == nil {
			groupShape = shape
		}
	}
	for _, n := range group.nodes {
		nodeSpace, shape := g.spaceOfType(n)
		if nodeSpace.mask != nil {
			fits, cut := g.fuser.Rows(n).Suits(shape) // conditions: rows suit a loop; rows are cut into pieces
			fits.Holds()
			cut.Holds()
		}
		same := shapesEqual(shape, groupShape)
		if group.onlyGroupReduces(nodeSpace) {
			const keepDims, removeDims = true, false
			same = same.Or(shapesEqual(shape, reduceDims(groupShape, group.space.mask, keepDims)))
			if group.iteratesOverReduced(space{shape: nodeSpace.shape}, n) {
				same = same.Or(shapesEqual(shape, reduceDims(groupShape, group.space.mask, removeDims)))
			}
		}
		same.Holds()
		g.guardReads(n, group)
	}
}

// spaceOfType returns the iteration space of a grouped node, and its shape with possibly unknown sizes.
func (g *grouper) spaceOfType(n *graph.Node) (nodeSpace space, shape []sym.Int) {
	nodeSpace, _ = g.expressionSpace(n)
	if nodeSpace.mask != nil {
		return nodeSpace, n.In[0].Type().Shape
	}
	return nodeSpace, n.Out[0].Type.Shape
}

// guardReads records guards for operands that the node reads as a single element at each point of its space: the
// conditions that these operands have one element. There are two cases:
//   - the operand is computed in the group, and its rank differs from the rank of the space;
//   - the operand comes from outside of the group, and the node iterates over the shape without the reduced dimensions.
func (g *grouper) guardReads(n *graph.Node, group *nodeGroup) {
	if group.space.mask == nil {
		return
	}
	nodeSpace, _ := g.expressionSpace(n)
	iteratesOverReduced := nodeSpace.mask == nil && group.iteratesOverReduced(nodeSpace, n)
	for _, a := range n.In {
		if a.Kind != graph.TensorArg || a.Value.Meta.Numel() != 1 {
			continue
		}
		isRepeated := iteratesOverReduced // of an operand from outside
		if slices.Contains(group.nodes, a.Value.Node) {
			isRepeated = a.Value.Meta.Rank() != len(nodeSpace.shape)
		}
		if isRepeated {
			a.Type().Numel().Eq(sym.Of(1)).Holds()
		}
	}
}

// guardOriginalStrides records, if sizes are unknown, the conditions under which a result in the given order has the
// strides of the graph as written.
func guardOriginalStrides(v *graph.Value, order tensor.Order, original tensor.Type) {
	chosenType := v.Type
	if hasNumericSizes(chosenType) && hasNumericSizes(original) {
		return
	}
	if order != "" && order.Rank() == len(chosenType.Shape) {
		chosenType = chosenType.WithStrides(order.SymbolicStrides(chosenType.Shape))
	}
	same := sym.BoolOf(true)
	for dim, size := range chosenType.Shape {
		same = same.And(chosenType.Strides[dim].Eq(original.Strides[dim]).Or(size.Eq(sym.Of(1))))
	}
	same.Or(chosenType.Numel().Eq(sym.Int{})).Holds() // strides of a value without elements do not matter
}

// hasNumericSizes reports whether all sizes of a type are numbers.
func hasNumericSizes(t tensor.Type) bool {
	_, known := t.Meta()
	return known
}

// shapesEqual returns the condition that two shapes are the same.
func shapesEqual(a, b []sym.Int) sym.Bool {
	same := sym.BoolOf(len(a) == len(b))
	for dim := range min(len(a), len(b)) {
		same = same.And(a[dim].Eq(b[dim]))
	}
	return same
}

// reduceDims returns a shape in which the dimensions that mask marks have size 1 (keepDims is true) or are removed
// (keepDims is false).
func reduceDims(shape []sym.Int, mask []bool, keepDims bool) []sym.Int {
	var result []sym.Int
	for dim, size := range shape {
		switch {
		case dim >= len(mask) || !mask[dim]:
			result = append(result, size)
		case keepDims:
			result = append(result, sym.Of(1))
		}
	}
	return result
}

// This part rebuilds the groups of recorded [Decisions] at other sizes. A group is a list of nodes that become one
// step. The nodes iterate over one space, which has a shape and a mask of the dimensions that the group reduces. An
// exception is the anchor, a product or convolution with its own loop. The other nodes then form its epilogue.
//
// For example, the decisions have a group of mul and sum over dimension 1, with the mask [false true]. At the new
// sizes, sum reads (4,8), which becomes the shape of the group. Therefore mul must iterate over (4,8), too. A later
// node of the group may iterate over the reduced shape, (4,1) or (4). Otherwise the decisions do not fit ([Misfit]).
//
// A grouper is the state of the group pass. Its field groups lists the groups, groupOf has the group of each node, and
// fuser has the expressions of nodes: pointwise formulas, and row reductions ("rows").

// followGroups rebuilds the recorded groups. As in groupNodes, both the groups and the nodes of a group are listed in
// reverse order of the graph.
func (g *grouper) followGroups() error {
	byNumber := make(map[int]*graph.Node, len(g.plan.Graph.Nodes))
	for _, n := range g.plan.Graph.Nodes {
		byNumber[n.Number()] = n
	}
	for _, decision := range slices.Backward(g.plan.options.Follow.groups) {
		group, err := g.rebuildGroup(decision, byNumber)
		if err != nil {
			return err
		}
		g.groups = append(g.groups, group)
	}
	return g.build() // replaces each group by one fused node
}

// rebuildGroup returns the group of a decision, or an error if its nodes can no longer become one step.
func (g *grouper) rebuildGroup(decision groupDecision, byNumber map[int]*graph.Node) (*nodeGroup, error) {
	// If split is not 0, dimension 1 is split into this number of parts before the mask applies, as in a group_norm.
	group := &nodeGroup{space: space{mask: decision.Mask, split: decision.Split}, resultCount: 1,
		isAttention: decision.Attention}
	for _, number := range slices.Backward(decision.Nodes) {
		n := byNumber[number]
		if n == nil || len(n.Out) == 0 {
			return nil, misfitError("a node of a group does not exist")
		}
		group.nodes = append(group.nodes, n)
		g.groupOf.Set(n.Out[0], group)
	}
	if decision.Attention {
		inOrder := slices.Clone(group.nodes)
		slices.Reverse(inOrder)
		return group, g.checkAttention(inOrder)
	}
	if decision.Anchor {
		group.anchor = group.nodes[len(group.nodes)-1]
	}
	return group, g.checkGroup(group)
}

// checkGroup completes the space of a rebuilt group. It returns an error if the nodes no longer iterate over one space.
// If sizes are unknown, it records guards for these conditions.
func (g *grouper) checkGroup(group *nodeGroup) error {
	spaces, err := g.completeSpace(group)
	if err != nil {
		return err
	}
	for i, nodeSpace := range spaces {
		hasCommonSpace := commonSpace(nodeSpace, group.space).shape != nil
		if !hasCommonSpace && !group.iteratesOverReduced(nodeSpace, group.nodes[i]) {
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

// completeSpace sets the shape of a group's space, and whether the rows are processed in pieces. It returns the spaces
// of the nodes except the anchor.
func (g *grouper) completeSpace(group *nodeGroup) ([]space, error) {
	spaces := make([]space, 0, len(group.nodes))
	fused := group.nodes
	if group.anchor != nil { // the last node, because the nodes are in reverse order
		fused = fused[:len(fused)-1]
	}
	for _, n := range fused {
		nodeSpace, why := g.expressionSpace(n)
		if why != "" {
			return nil, misfitError("%s %s", n.Name, why)
		}
		spaces = append(spaces, nodeSpace)
		reduces := nodeSpace.mask != nil
		if reduces || group.space.shape == nil {
			group.space.shape = nodeSpace.shape
		}
		group.space.inPieces = group.space.inPieces || nodeSpace.inPieces
		if reduces && !g.fuser.Rows(n).Fits(nodeSpace.shape) {
			return nil, misfitError("the rows of %s do not suit the fused loops", n.Name)
		}
	}
	return spaces, nil
}

// iteratesOverReduced reports whether a node with the given space iterates over the shape of the group's reduced
// results, without the reduced dimensions: (4) in the example. Each of its operands from outside of the group must have
// one element: see [mergedSpace].
func (group *nodeGroup) iteratesOverReduced(nodeSpace space, n *graph.Node) bool {
	if !group.onlyGroupReduces(nodeSpace) || !slices.Equal(nodeSpace.shape, group.space.withoutReduced()) {
		return false
	}
	return !slices.ContainsFunc(n.In, func(arg graph.Arg) bool {
		isOutside := arg.Kind == graph.TensorArg && !slices.Contains(group.nodes, arg.Value.Node)
		return isOutside && arg.Value.Meta.Numel() != 1
	})
}

// onlyGroupReduces reports whether the group reduces whole dimensions, but a node with the given space does not.
func (group *nodeGroup) onlyGroupReduces(nodeSpace space) bool {
	return group.space.mask != nil && group.space.split == 0 && nodeSpace.mask == nil
}
