package passes

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
)

// This file rebuilds the groups of recorded [Decisions] at other sizes. A group is a list of nodes that become one
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
	for _, decision := range slices.Backward(g.plan.decisionsToFollow.groups) {
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
