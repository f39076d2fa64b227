// Package wcsp solves weighted constraint problems exactly, with a proof.
//
// A [Problem] has variables, and cost tables (factors) over one or two variables. Each variable has finitely many
// labels. A solution assigns a label to each variable and minimizes the sum of costs. Such problems are also called
// weighted CSPs, cost function networks, or partitioned Boolean quadratic problems (PBQP). For example, two nodes a and
// b can each be computed in two layouts, and a copy between different layouts costs 4:
//
//	cost of a: [5, 3]   cost of b: [1, 6]   cost of both: [[0, 4], [4, 0]]
//
// The cheapest assignment is label 0 for both, with cost 5 + 1 + 0.
//
// [Exact] is the solver. It works in four stages:
//
//   - Pruning removes labels that another label dominates (Goldstein's criterion).
//   - Bucket elimination removes one variable at a time. The functions of the variable, which are factors and earlier
//     messages, are added up. A message replaces them: the minimum of the sum over the variable's labels, as a function
//     of the neighbouring variables. Most layout problems of networks have a small treewidth, and elimination alone
//     solves them.
//   - If tables would exceed [Options.MaxTable], costs are moved between functions to raise the sum of their minima, a
//     lower bound (sequential reweighted message passing; Kolmogorov, "A new look at reweighted message passing",
//     2015). Labels whose bound exceeds the best known cost are then cut.
//   - The remaining problem is split into independent parts, or on a variable (branch and bound). Elimination with
//     small tables gives the bounds (mini-buckets).
//
// [PBQP] and [InOrder] are the solvers of published layout optimizers, for comparisons.
//
// A [Solution] has a cost and a lower bound. It is optimal if both are equal. Its [Proof] lists the prunings, cost
// shifts, cuts, messages and splits, so that package verify can check the bound without the solver's code. [KBest]
// lists the cheapest assignments by Lawler's partition. Results are deterministic: there are no goroutines, and ties
// are broken by index. Only results of a search with a time limit depend on the machine.
package wcsp

import (
	"fmt"
	"math"
)

// Forbidden is the cost of a forbidden combination of labels. Sums saturate at Forbidden. Up to four costs can be added
// before a saturation, because four times Forbidden fits an int64.
const Forbidden = int64(math.MaxInt64 / 4)

// Version is the version of the file formats of problems and solutions.
const Version = 1

// Problem asks for a label for each variable that minimizes the sum of the factors.
type Problem struct {
	Version   int        `json:"version" doc:"The version of the file: 1."`
	Variables []Variable `json:"variables" doc:"The variables."`
	Factors   []Factor   `json:"factors" doc:"The costs of labels."`
}

// Variable is a decision among labels.
type Variable struct {
	Name   string   `json:"name" doc:"The name of the variable."`
	Labels []string `json:"labels" doc:"The alternatives."`
}

// Factor is a cost table over the variables of its scope.
type Factor struct {
	// Scope holds the indices of zero, one or two different variables.
	Scope []int `json:"scope" doc:"The indices of the variables that the costs depend on: none, one or two."`
	// Costs are picoseconds, at least 0, by the labels of the scope in row-major order.
	Costs Costs `json:"costs" doc:"Picoseconds by the labels of the scope, row-major; null: forbidden."`
}

// Costs is a list of costs; [Forbidden] is null in JSON.
type Costs []int64

// add returns the sum of two costs, saturated at Forbidden.
func add(a, b int64) int64 { return min(a+b, Forbidden) }

// Validate returns an error that names the first fault of the problem. The largest allowed costs of all factors must
// add up to less than Forbidden, so that sums of allowed costs are exact.
func (p *Problem) Validate() error {
	if p.Version != 0 && p.Version != Version { // 0: the problem was not read from a file
		return fmt.Errorf("wcsp: version %d is not supported; want %d", p.Version, Version)
	}
	for i, v := range p.Variables {
		if len(v.Labels) == 0 {
			return fmt.Errorf("wcsp: variable %d (%q) has no labels", i, v.Name)
		}
	}
	var total int64
	for i := range p.Factors {
		largest, err := p.checkFactor(&p.Factors[i])
		if err != nil {
			return fmt.Errorf("wcsp: factor %d: %w", i, err)
		}
		total = add(total, largest)
		if total == Forbidden {
			return fmt.Errorf("wcsp: factor %d: the costs add up to more than %d", i, Forbidden-1)
		}
	}
	return nil
}

// checkFactor validates a factor and returns its largest allowed cost.
func (p *Problem) checkFactor(f *Factor) (largest int64, err error) {
	if len(f.Scope) > 2 {
		return 0, fmt.Errorf("the costs depend on %d variables; the limit is 2", len(f.Scope))
	}
	size := 1
	for _, v := range f.Scope {
		if v < 0 || v >= len(p.Variables) {
			return 0, fmt.Errorf("variable %d does not exist: the problem has %d variables", v, len(p.Variables))
		}
		if size > len(f.Costs) { // the sizes differ; a further product could overflow
			break
		}
		size *= len(p.Variables[v].Labels)
	}
	if len(f.Scope) == 2 && f.Scope[0] == f.Scope[1] {
		return 0, fmt.Errorf("variable %d occurs twice", f.Scope[0])
	}
	if size != len(f.Costs) {
		return 0, fmt.Errorf("the number of costs, %d, does not match the labels of variables %v", len(f.Costs), f.Scope)
	}
	for i, c := range f.Costs {
		if c < 0 || c > Forbidden {
			return 0, fmt.Errorf("cost %d is %d; want 0 to %d", i, c, Forbidden)
		}
		if c < Forbidden {
			largest = max(largest, c)
		}
	}
	return largest, nil
}

// Cost returns the cost of an assignment, which has a label for each variable. The cost is Forbidden if any factor
// forbids the labels.
func (p *Problem) Cost(labels []int) (int64, error) {
	if err := p.Validate(); err != nil {
		return 0, err
	}
	if len(labels) != len(p.Variables) {
		return 0, fmt.Errorf("wcsp: Cost: the assignment has %d labels, but the problem has %d variables", len(labels),
			len(p.Variables))
	}
	for i, label := range labels {
		variable := &p.Variables[i]
		if label < 0 || label >= len(variable.Labels) {
			return 0, fmt.Errorf("wcsp: variable %d (%q) has no label %d: it has %d labels", i, variable.Name, label,
				len(variable.Labels))
		}
	}
	return p.cost(labels), nil
}

// cost is Cost for a valid problem and valid labels.
func (p *Problem) cost(labels []int) int64 {
	var sum int64
	for _, f := range p.Factors {
		index := 0
		for _, v := range f.Scope {
			index = index*len(p.Variables[v].Labels) + labels[v]
		}
		sum = add(sum, f.Costs[index])
	}
	return sum
}
