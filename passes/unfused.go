package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Unfused is a pair of a node and its reader that run in different steps, although nodes of these kinds can be fused.
// Why is the reason. The reader is pointwise, a row reduction, or an op that states why it is never fused
// ([graph.Op.UnfusableReason]). The node is of one of these kinds, or accepts an epilogue: a product or a
// convolution.
type Unfused struct{ Node, Reader, Why string }

// reportUnfused lists the pairs of nodes that could be fused but are in different groups, ordered by the first node.
func (g *grouper) reportUnfused() {
	reported := map[*graph.Node]*graph.Node{} // by reader: the last reported node; a reader may read it several times
	for _, n := range g.plan.Graph.Nodes {
		if !isCandidate(n) && !fusion.TakesEpilogue(n.Op) {
			continue
		}
		for _, v := range n.Out {
			for _, reader := range g.uses.readers.At(v) {
				if reported[reader] == n || !isCandidate(reader) {
					continue
				}
				reported[reader] = n
				group := g.group(n)
				if group == nil || group != g.group(reader) {
					g.plan.Unfused = append(g.plan.Unfused, Unfused{n.Name, reader.Name, g.whyUnfused(n, reader)})
				}
			}
		}
	}
}

// isCandidate reports whether the op of a node can be fused with others, or states why it is never fused.
func isCandidate(n *graph.Node) bool {
	isFusable := n.Op.Pointwise != nil || n.Op.Expression != nil || n.Op.Rows != nil
	return len(n.Out) > 0 && (isFusable || n.Op.UnfusableReason != "")
}

// whyUnfused returns why n is not in the group of its reader, or "" if no reason is known. A reason in g.unfusable
// holds for every group, a reason in g.unfused only for the readers that were tried.
func (g *grouper) whyUnfused(n, reader *graph.Node) string {
	for _, node := range []*graph.Node{n, reader} {
		if why := g.unfusable[node]; why != "" && (isCandidate(node) || g.unfused[node] == "") {
			return node.Name + " " + why
		}
	}
	shape, readerShape := n.Out[0].Meta.Shape, reader.Out[0].Meta.Shape
	why := g.unfused[n]
	if !isCandidate(n) || slices.Equal(shape, readerShape) || why == reasonDimsDiffer || why == reasonSecondPass {
		return why
	}
	// Different shapes explain more than a missing reason, or than the reason for another reader of n.
	if why == "" || commonSpace(space{shape: shape}, g.group(reader).space).shape == nil {
		return fmt.Sprintf("%s iterates over %s, %s over %s", n.Name, tensor.ListString(shape), reader.Name,
			tensor.ListString(readerShape))
	}
	return why
}
