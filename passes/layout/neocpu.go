package layout

import (
	"cmp"
	"errors"
	"slices"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

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
		// In the edge model, each edge has costs. A node that is not compute-bound has no variable of its own: the
		// variable of its first operand determines its label.
		edges := newEdgeModel(m, notComputeBound)
		list, err := edges.solve(wcsp.InOrder(edges.lastReaderOrder()))
		if errors.Is(err, wcsp.ErrTooLarge) {
			return edges.solve(wcsp.PBQP)
		}
		return list, err
	}}

// lastReaderOrder returns an order of elimination: the variables, sorted by the greatest variable with which they share
// a factor. Variables are numbered in topological order, so the greatest variable belongs to the last reader.
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
