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
// order finds the minimum. The tables have a dimension for a node until the last reader of the node is visited. If
// the tables become too large, the solver of [PBQP] is used instead.
//
// In the resulting plan readers share copies, and the cost of the plan is the cost of [Model]. Deviations: layouts are
// dense orders, not NCHW[x]c, so there is no choice of block sizes. The paper searches convolutions only, and considers
// for each convolution the candidates that were fastest in a separate search; here all implementations are candidates.
// Costs are predicted by the profile instead of measured. The paper limits the time of dynamic programming; here, as in
// TVM's tuner, the limit is a number of costs.
var NeoCPU Strategy = &perNode{name: "neocpu",
	doc: "chooses implementations of convolutions and products by dynamic programming with a copy for each reader; " +
		"other nodes follow their first operand, as in NeoCPU, ATC 2019",
	labels: func(m *Model) ([]int, error) {
		e := newEdgeModel(m, notComputeBound)
		list, err := e.solve(wcsp.InOrder(e.lastReaderOrder()))
		if errors.Is(err, wcsp.ErrTooLarge) {
			return e.solve(wcsp.PBQP)
		}
		return list, err
	}}

// lastReaderOrder returns an elimination order of the variables: by the last variable that shares a factor with the
// variable.
func (e *edgeModel) lastReaderOrder() []int {
	last, order := make([]int, len(e.problem.Variables)), make([]int, len(e.problem.Variables))
	for v := range last {
		last[v], order[v] = v, v
	}
	for _, f := range e.problem.Factors {
		for _, v := range f.Scope {
			last[v] = max(last[v], slices.Max(f.Scope))
		}
	}
	sorted.Func(order, func(a, b int) int { return cmp.Compare(last[a], last[b]) })
	return order
}
