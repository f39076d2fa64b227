package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
)

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
	interrupt.Check(g.plan.ctx)
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
