package layout

import "github.com/graphrun/graphrun/passes/layout/wcsp"

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
