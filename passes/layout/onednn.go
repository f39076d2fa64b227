package layout

import "slices"

// OneDNN propagates layouts like oneDNN (Intel, "Memory Format Propagation", oneDNN Developer Guide and Reference; pass
// layout_propagation of oneDNN Graph). A compute-bound node, such as a convolution or a product, is created with format
// "any" for its operands. It takes its fastest implementation, and operands in other layouts are reordered before the
// node. Every other node takes the layout in which its first operand is written; its other operands are reordered to
// this layout. Graph outputs keep their original layouts.
//
// Readers share the copies of the plan, while oneDNN Graph inserts a reorder for each reader. Deviations: layouts are
// dense orders, not blocked formats. Layouts propagate forwards only, in one pass in topological order; the pass of
// oneDNN Graph propagates in both directions, and repeats until no layout is "any", at most 9 times. The fastest
// implementation is the cheapest by the profile, while oneDNN has an order of preference in its code.
var OneDNN Strategy = &perNode{name: "onednn",
	doc: "takes the fastest implementation of convolutions and products, and copies their operands; other nodes follow " +
		"their first operand, as oneDNN propagates format \"any\"",
	labels: func(m *Model) ([]int, error) {
		// In the edge model, each edge has costs. A node that is not compute-bound is a follower: it has no variable of
		// its own, and the variable of its first operand determines its label.
		edges := newEdgeModel(m, notComputeBound)
		fastest, err := favouriteLabels(m)
		if err != nil {
			return nil, err
		}
		solution := make([]int, len(edges.labelCounts)) // by variable: its label
		for i, n := range edges.nodes {
			if n.labels != nil && !n.isFollower {
				solution[n.variable] = slices.Index(n.labels, fastest[i])
			}
		}
		return edges.labelsOf(solution), nil
	}}
