package layout

import "github.com/graphrun/graphrun/passes/layout/wcsp"

// PBQP chooses implementations as Andrew Anderson and David Gregg, "Optimal DNN Primitive Selection with Partitioned
// Boolean Quadratic Programming", CGO 2018 (arXiv 1710.01079). Each layer is a node with the costs of its
// implementations; each edge has a matrix of the costs of conversions between the layouts of both ends, as cheapest
// chains of conversions. The solver is that of Hames and Scholz: reductions R0, RI and RII are exact; RN, for nodes
// with three or more neighbours, is heuristic. See [wcsp.PBQP].
//
// A conversion is priced for each edge, as published, although readers can share it: so the choice may differ from
// the optimum even without RN. The copies of the plan itself are shared, and its cost is that of [Model]. Deviations:
// layouts are dense orders, not blocked formats; costs are predicted by the profile instead of measured for each
// layer; all nodes are priced, not only convolutions; if the heuristic ends in a forbidden combination, which cannot
// occur in the paper, the same problem is solved exactly.
var PBQP Strategy = &perNode{name: "pbqp",
	doc: "solves a partitioned Boolean quadratic problem with a copy for each reader, by exact reductions and the " +
		"heuristic RN, as in Anderson and Gregg, CGO 2018",
	label: func(m *Model) ([]int, error) { return newEdgeModel(m, nil).solve(wcsp.PBQP) }}
