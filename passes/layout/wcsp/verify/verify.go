// Package verify checks the proof of a solution of a weighted constraint problem, independently of the solver.
//
// It shares only types with package wcsp; [wcsp.Proof] defines the steps of a proof. A pruning removes a label that
// never costs less than another one. A shift moves costs between cost tables. A cut removes a label with which every
// assignment is too expensive. A message replaces the tables of an eliminated variable. A split has a branch for each
// label of a variable.
//
// [Solution] checks each pruning against the factors, each shift and cut, each split, and each entry of each message.
// Each factor and each message must be used exactly once on each path of the proof tree. Any mistake of the solver that
// leads to a wrong bound is therefore detected.
package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// Solution returns nil if the cost of the solution is correct and its proof proves its bound. Otherwise it returns an
// error that names the first fault. It modifies neither argument. The time is at most proportional to the product of
// the sizes of problem and proof. The memory is at most proportional to the sum of these sizes. If ctx ends, the error is
// its cause.
func Solution(ctx context.Context, problem *wcsp.Problem, solution *wcsp.Solution) (err error) {
	defer interrupt.Catch(&err)
	if problem == nil || solution == nil {
		return errors.New("verify: the problem or the solution is nil")
	}
	if err := checkProblem(problem); err != nil {
		return fmt.Errorf("verify: the problem: %w", err)
	}
	if err := checkCost(problem, solution); err != nil {
		return fmt.Errorf("verify: the solution: %w", err)
	}
	if solution.Proof == nil {
		return errors.New("verify: the solution has no proof")
	}
	checker := newChecker(ctx, problem)
	for i, pruning := range solution.Proof.Prunings {
		if err := checker.applyPruning(pruning); err != nil {
			return fmt.Errorf("verify: pruning %d: %w", i, err)
		}
	}
	bound, err := checker.checkRoot(&solution.Proof.Root)
	if err != nil {
		return fmt.Errorf("verify: the proof: %w", err)
	}
	if bound != solution.Bound {
		return fmt.Errorf("verify: the bound of the solution is %d, but the proof gives %d", solution.Bound, bound)
	}
	return nil
}

// add returns the sum of two costs, saturated at Forbidden.
func add(a, b int64) int64 { return min(a+b, wcsp.Forbidden) }

// checkProblem checks that tables match the labels and that sums of allowed costs are exact.
func checkProblem(problem *wcsp.Problem) error {
	for v := range problem.Variables {
		if len(problem.Variables[v].Labels) == 0 {
			return fmt.Errorf("variable %d has no labels", v)
		}
	}
	var total int64
	for i := range problem.Factors {
		largest, err := checkFactor(problem, i)
		if err != nil {
			return fmt.Errorf("factor %d: %w", i, err)
		}
		if total = add(total, largest); total == wcsp.Forbidden {
			return fmt.Errorf("factor %d: the sum of the costs overflows", i)
		}
	}
	return nil
}

// checkFactor checks the scope and the table of factor i, and returns its largest allowed cost.
func checkFactor(problem *wcsp.Problem, i int) (largest int64, err error) {
	factor := &problem.Factors[i]
	if len(factor.Scope) > 2 || len(factor.Scope) == 2 && factor.Scope[0] == factor.Scope[1] {
		return 0, errors.New("the scope is invalid")
	}
	size := 1
	for _, v := range factor.Scope {
		if v < 0 || v >= len(problem.Variables) {
			return 0, fmt.Errorf("variable %d does not exist", v)
		}
		if size = size * len(problem.Variables[v].Labels); size > len(factor.Costs) { // a further product could overflow
			break
		}
	}
	if size != len(factor.Costs) {
		return 0, errors.New("the costs do not fit the labels")
	}
	for k, cost := range factor.Costs {
		if cost < 0 || cost > wcsp.Forbidden {
			return 0, fmt.Errorf("cost %d is %d, which is out of range", k, cost)
		}
		if cost < wcsp.Forbidden {
			largest = max(largest, cost)
		}
	}
	return largest, nil
}

// checkCost checks the cost of the labels.
func checkCost(problem *wcsp.Problem, solution *wcsp.Solution) error {
	if len(solution.Labels) != len(problem.Variables) {
		return fmt.Errorf("the solution has %d labels, but the problem has %d variables", len(solution.Labels),
			len(problem.Variables))
	}
	for v, label := range solution.Labels {
		if label < 0 || label >= len(problem.Variables[v].Labels) {
			return fmt.Errorf("variable %d has no label %d", v, label)
		}
	}
	var sum int64
	for _, factor := range problem.Factors {
		index := 0
		for _, v := range factor.Scope {
			index = index*len(problem.Variables[v].Labels) + solution.Labels[v]
		}
		sum = add(sum, factor.Costs[index])
	}
	if sum != solution.Cost || sum == wcsp.Forbidden {
		return fmt.Errorf("the cost of the solution is %d, but its labels cost %d", solution.Cost, sum)
	}
	return nil
}

// checker is the state while a proof is checked.
type checker struct {
	ctx   context.Context
	steps int // steps since the last check of ctx

	problem *wcsp.Problem
	// remainingLabels has the remaining labels of each variable at the current node.
	remainingLabels [][]int
	// functions has the factors and the messages on the path to the current node, by their numbers in the proof.
	functions []function
	// factorsByPair[v][u] lists the factors with the scope {v, u}. It is nil until it is needed.
	factorsByPair []map[int][]int
}

// function is a cost table over the labels that remained when it was created. It is a factor of the problem or a
// message, which replaces the functions of an eliminated variable.
type function struct {
	scope  []int
	labels [][]int // by variable of the scope
	table  []int64 // row-major
}

// newChecker returns the initial state, in which all labels remain.
func newChecker(ctx context.Context, problem *wcsp.Problem) *checker {
	created := &checker{ctx: ctx, problem: problem, remainingLabels: make([][]int, len(problem.Variables))}
	for v := range problem.Variables {
		for label := range problem.Variables[v].Labels {
			created.remainingLabels[v] = append(created.remainingLabels[v], label)
		}
	}
	for _, f := range problem.Factors {
		factor := function{scope: f.Scope, table: f.Costs}
		for _, v := range f.Scope {
			factor.labels = append(factor.labels, created.remainingLabels[v])
		}
		created.functions = append(created.functions, factor)
	}
	return created
}

// stepsPerCheck is the number of simple steps, a few nanoseconds each, between two checks of the context.
const stepsPerCheck = 1 << 18

// countSteps counts steps, and checks the context about every stepsPerCheck steps. If the context has ended, it panics
// as [interrupt.Check] does.
func (c *checker) countSteps(steps int) {
	if c.steps += steps; c.steps >= stepsPerCheck {
		c.steps = 0
		interrupt.Check(c.ctx)
	}
}
