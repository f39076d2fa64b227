package layout

import (
	"cmp"
	"errors"
	"slices"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// Published returns the strategies that reproduce the layout decisions of published optimizers. They exist for
// comparisons: command compare measures them only on request.
func Published() []Strategy { return []Strategy{NeoCPU, PBQP, OneDNN, Inductor, SmartMem} }

// NeoCPU chooses implementations by the method of Yizhi Liu, Yao Wang, Ruofei Yu, Mu Li, Vin Sharma and Yida Wang,
// "Optimizing CNN Model Inference on CPUs", USENIX ATC 2019 (arXiv 1809.02697). The graph tuner of TVM implements
// this paper. The search chooses the implementations of convolutions and matrix products. All other nodes keep the
// layout of their first operand; other operands are converted to this layout. The cost of a plan is the time of the
// convolutions and products, and of the conversions on each edge. Dynamic programming over the graph in topological
// order finds the minimum. A table has one dimension for each visited node with unvisited readers. If the tables become
// too large, the solver of [PBQP] is used instead.
//
// The search counts a copy for each reader. In the resulting plan readers share copies, and [Model] gives its cost.
// Deviations: layouts are dense orders, not NCHW[x]c, so there is no choice of block sizes. The paper searches
// convolutions only, and considers for each convolution the candidates that were fastest in a separate search; here all
// implementations are candidates. Costs are predicted by the profile instead of measured. The paper limits the time of
// dynamic programming; here, as in TVM's tuner, the size of the tables is limited.
var NeoCPU Strategy = &perNode{name: "neocpu",
	doc: "chooses implementations of convolutions and products by dynamic programming that charges a copy to each " +
		"reader; other nodes follow their first operand, as in NeoCPU, ATC 2019",
	labels: func(m *Model) ([]int, error) {
		// In the edge model, each edge (one use of a value by a reader) has the cost of its copies. The label of a node
		// is its implementation and loop order. A node that is not compute-bound has no variable of its own: the
		// variable of its first operand determines its label.
		edges := newEdgeModel(m, notComputeBound)
		list, err := edges.solve(wcsp.InOrder(edges.lastReaderOrder()))
		if errors.Is(err, wcsp.ErrTooLarge) {
			return edges.solve(wcsp.PBQP)
		}
		return list, err
	}}

// lastReaderOrder returns an order of elimination: the variables, sorted by the greatest variable with which they share
// a factor. A factor is a table of costs over the labels of the variables in its Scope. Variables are numbered in
// topological order, so the greatest variable belongs to the last reader.
func (e *edgeModel) lastReaderOrder() []int {
	lastNeighbour, order := make([]int, len(e.problem.Variables)), make([]int, len(e.problem.Variables))
	for v := range lastNeighbour {
		lastNeighbour[v], order[v] = v, v
	}
	for _, f := range e.problem.Factors {
		for _, v := range f.Scope {
			lastNeighbour[v] = max(lastNeighbour[v], slices.Max(f.Scope))
		}
	}
	sorted.Func(order, func(a, b int) int { return cmp.Compare(lastNeighbour[a], lastNeighbour[b]) })
	return order
}

// PBQP chooses implementations by the method of Andrew Anderson and David Gregg, "Optimal DNN Primitive Selection with
// Partitioned Boolean Quadratic Programming", CGO 2018 (arXiv 1710.01079). Each layer is a node with the costs of its
// implementations. Each edge has a matrix of conversion costs: for each pair of layouts of its ends, the cost of the
// cheapest chain of conversions. The solver is by Hames and Scholz: reductions R0, RI and RII are exact; reduction RN,
// for nodes with three or more neighbours, is heuristic. See [wcsp.PBQP].
//
// As published, the method prices a conversion for each edge. In the resulting plan, readers share copies, and
// [Model] computes the cost of the plan. The choice may therefore differ from the optimum even without RN.
// Deviations: layouts are dense orders, not blocked formats. Costs are predicted by the profile instead of measured for
// each layer. All nodes are priced and have implementations to choose from. In the paper only convolutions have
// implementations; the other layers accept several layouts at no cost. If the heuristic ends in a forbidden
// combination, which cannot occur in the paper, the same problem is solved exactly.
var PBQP Strategy = &perNode{name: "pbqp",
	doc: "solves a partitioned Boolean quadratic problem with a copy for each reader, by exact reductions and the " +
		"heuristic RN, as in Anderson and Gregg, CGO 2018",
	labels: func(m *Model) ([]int, error) { return newEdgeModel(m, nil).solve(wcsp.PBQP) }} // one variable per node

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
		// As for NeoCPU, each edge has costs, and a node that is not compute-bound is a follower: it has no variable of
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
