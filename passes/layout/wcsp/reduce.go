package wcsp

import (
	"errors"
	"slices"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
)

// This file has the solvers of published layout optimizers. Both eliminate variables and return no proof.
//
// The cost of an assignment is a sum of functions: tables of costs by the labels of the one or two variables in their
// scope. Two variables are neighbours if they have a common function. An elimination of a variable replaces its
// functions by one function of its neighbours, the minimum over the variable's labels. It is recorded as a step, from
// which decode later computes the variable's label.

// PBQP is the published solver for partitioned Boolean quadratic problems. Its sources are Scholz and Eckstein,
// "Register allocation for irregular architectures", LCTES 2002, and Hames and Scholz, "Nearly optimal register
// allocation with PBQP", JMLC 2006. It removes variables with at most two neighbours, fewest first (the exact
// reductions R0, RI and RII). If there are none, the heuristic reduction RN removes the variable with the most
// neighbours. This variable gets the label with the least local cost, which assumes that each neighbour has its best
// label. Ties are broken by index. Without RN, the solution is optimal and the bound is the cost. If RN leads to a
// forbidden assignment, the error is [ErrNotFound].
var PBQP Solver = pbqp{}

// pbqp is the type of [PBQP].
type pbqp struct{}

// Solve implements [Solver].
func (pbqp) Solve(problem *Problem, options Options) (_ *Solution, err error) {
	defer interrupt.Catch(&err)
	instance, err := prepare(options.Context, problem)
	if err != nil {
		return nil, err
	}
	remaining := instance.newElimination()
	exact := true                                          // reduction RN has not been used
	degrees := make([]int, len(instance.problemVariables)) // by variable: number of neighbours
	countNeighbours := func(v int) { degrees[v] = len(remaining.otherVariables(v, remaining.functionsOf[v])) }
	for v := range degrees {
		countNeighbours(v)
	}
	for range degrees {
		least, most := remaining.extremes(degrees)
		v := least
		if degrees[least] > 2 { // only reduction RN is possible
			v, exact = most, false
		}
		neighbours := remaining.otherVariables(v, remaining.functionsOf[v])
		if degrees[v] <= 2 {
			remaining.eliminateVariable(v, largestMaxEntries) // in effect without a limit on the new function's entries
		} else {
			remaining.fixLocally(v, remaining.localBest(v))
		}
		for _, neighbour := range neighbours {
			countNeighbours(neighbour)
		}
	}
	return remaining.solution(problem, exact)
}

// extremes returns the remaining variables with the fewest and the most neighbours.
func (e *elimination) extremes(degrees []int) (least, most int) {
	least, most = -1, -1
	for v, degree := range degrees {
		if e.eliminated[v] {
			continue
		}
		if least < 0 || degree < degrees[least] {
			least = v
		}
		if most < 0 || degree > degrees[most] {
			most = v
		}
	}
	return least, most
}

// localBest returns the label of v with the least local cost. The local cost is the label's own cost (by the functions
// of v alone) plus a term for each neighbour. The term is the minimum, over the labels of the neighbour, of the cost of
// the common function plus the neighbour's own cost.
func (e *elimination) localBest(v int) int {
	labels := make([]int, len(e.sizes))
	leastCost, bestLabel := Forbidden, 0
	for label := range e.sizes[v] {
		labels[v] = label
		var sum int64
		for _, f := range e.functionsOf[v] {
			if len(f.scope) == 1 {
				sum = add(sum, f.cost(e.sizes, labels))
			}
		}
		for _, neighbour := range e.otherVariables(v, e.functionsOf[v]) {
			least := Forbidden
			for labels[neighbour] = range e.sizes[neighbour] {
				var cost int64
				for _, f := range e.functionsOf[neighbour] {
					if len(f.scope) == 1 || f.dependsOn(v) {
						cost = add(cost, f.cost(e.sizes, labels))
					}
				}
				least = min(least, cost)
			}
			sum = add(sum, least)
		}
		if sum < leastCost {
			leastCost, bestLabel = sum, label
		}
	}
	return bestLabel
}

// fixLocally fixes the label of v and removes v. Each function of v and of another variable becomes a function of the
// other variable alone.
func (e *elimination) fixLocally(v, label int) {
	onlyLabel := &function{scope: []int{v}, table: slices.Repeat([]int64{Forbidden}, e.sizes[v])}
	onlyLabel.table[label] = 0
	labels := make([]int, len(e.sizes)) // by variable; f.cost uses only the labels of its scope
	labels[v] = label
	for _, f := range e.functionsOf[v] {
		if len(f.scope) == 1 {
			continue
		}
		neighbour := f.scope[0] + f.scope[1] - v // the variable of the scope that is not v
		reduced := &function{scope: []int{neighbour}, table: make([]int64, e.sizes[neighbour])}
		for labels[neighbour] = range e.sizes[neighbour] {
			reduced.table[labels[neighbour]] = f.cost(e.sizes, labels)
		}
		others := slices.DeleteFunc(e.functionsOf[neighbour], func(other *function) bool { return other == f })
		e.functionsOf[neighbour] = append(others, reduced)
	}
	e.functionsOf[v], e.eliminated[v] = nil, true
	e.steps = append(e.steps, step{variable: v, buckets: []bucket{{functions: []*function{onlyLabel}}}})
}

// solution decodes the steps of an elimination of all variables. If the elimination was exact, the bound is the cost;
// otherwise the bound is 0.
func (e *elimination) solution(problem *Problem, exact bool) (*Solution, error) {
	solution := &Solution{Version: Version, Labels: make([]int, len(e.sizes))}
	decode(e.sizes, e.steps, solution.Labels)
	if solution.Cost = problem.cost(solution.Labels); solution.Cost == Forbidden {
		return nil, ErrNotFound
	}
	if exact {
		solution.Bound = solution.Cost
	}
	return solution, nil
}

// ErrTooLarge is the error of [InOrder] if the tables have too many entries.
var ErrTooLarge = errors.New("wcsp: the tables of the dynamic programming are too large")

// InOrder returns a solver that eliminates the variables in the given order, by dynamic programming. The result is
// optimal. The order must have each variable of the problem once. [Options.MaxTable] limits the number of costs that
// the solver adds up, for all variables together; above this limit, the error is [ErrTooLarge].
func InOrder(order []int) Solver { return inOrder(order) }

// inOrder is the solver of [InOrder]: the order of the variables.
type inOrder []int

// Solve implements [Solver].
func (order inOrder) Solve(problem *Problem, options Options) (_ *Solution, err error) {
	defer interrupt.Catch(&err)
	instance, err := prepare(options.Context, problem)
	if err != nil {
		return nil, err
	}
	variables := slices.Clone(order)
	sorted.Ints(variables)
	// Sorted variables that start at 0, end at len-1 and do not repeat are all variables.
	if len(variables) != len(instance.problemVariables) ||
		len(variables) > 0 && (variables[0] != 0 || variables[len(variables)-1] != len(variables)-1) ||
		len(slices.Compact(variables)) != len(order) {
		return nil, errors.New("wcsp: the order must contain each variable exactly once")
	}
	entriesLeft := int64(defaultMaxEntries) // costs that may still be added up
	if options.MaxTable > 0 {
		entriesLeft = int64(options.MaxTable)
	}
	remaining := instance.newElimination()
	for _, v := range order {
		entries := remaining.tableEntries(remaining.otherVariables(v, remaining.functionsOf[v]))
		if entriesLeft -= product(entries, remaining.sizes[v]); entriesLeft < 0 {
			return nil, ErrTooLarge
		}
		remaining.eliminateVariable(v, largestMaxEntries)
	}
	const exact = true
	return remaining.solution(problem, exact)
}
