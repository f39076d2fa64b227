package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// reportUnfused lists the pairs of a node and a reader of its results that run in different steps, ordered by the first
// node. The reader is a candidate: it is pointwise, a row reduction, or an op that states why it is never fused
// ([graph.Op.UnfusableReason]). The node is a candidate, too, or a product or a convolution, which may compute readers
// of its result in the same step, as its epilogue. It is then the anchor of a group.
func (g *grouper) reportUnfused() {
	reported := map[*graph.Node]*graph.Node{} // by reader: the last reported n, because a reader may read n several times
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
					g.plan.Unfused = append(g.plan.Unfused, report.Unfused{Node: n.Name, Reader: reader.Name,
						Why: g.whyUnfused(n, reader)})
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

// whyUnfused returns why n is not in the group of its reader, or "" if no reason is known. A reason in
// g.noGroupReasons holds for every group. A reason in g.notJoinedReasons holds for the group that n tried to join,
// which may be the group of another reader.
func (g *grouper) whyUnfused(n, reader *graph.Node) string {
	notJoined := g.notJoinedReasons[n]
	for _, node := range []*graph.Node{n, reader} {
		// A product or a convolution is in noGroupReasons, because it has no expression, but it may be an anchor. The
		// reason why it did not become the anchor of its readers' group says more.
		hasBetterReason := !isCandidate(node) && g.notJoinedReasons[node] != ""
		if why := g.noGroupReasons[node]; why != "" && !hasBetterReason {
			return node.Name + " " + why
		}
	}
	shape, readerShape := n.Out[0].Meta.Shape, reader.Out[0].Meta.Shape
	isAboutRows := notJoined == reasonDimsDiffer || notJoined == reasonSecondPass // says more than the shapes
	if !isCandidate(n) || slices.Equal(shape, readerShape) || isAboutRows {
		return notJoined
	}
	// The shapes differ. This is the reason if no other reason is known, or if the shapes exclude a common loop:
	// notJoined may then be about the group of another reader.
	if notJoined == "" || !g.haveCommonSpace(shape, reader) {
		return fmt.Sprintf("%s iterates over %s, %s over %s", n.Name, tensor.ListString(shape), reader.Name,
			tensor.ListString(readerShape))
	}
	return notJoined
}

// haveCommonSpace reports whether one loop can compute a pointwise node of the given shape and the group of the reader.
// The reader must be in a group, as every node without a reason in g.noGroupReasons is.
func (g *grouper) haveCommonSpace(shape []int, reader *graph.Node) bool {
	return commonSpace(space{shape: shape}, g.group(reader).space).shape != nil
}
