// Package verify checks the proof of a solution of a weighted constraint problem, independently of the solver.
//
// It shares only types with package wcsp. [Solution] checks each pruning against the factors, each shift and cut, and
// each entry of each message. It also checks that each factor and each message is used exactly once on each path of the
// proof tree, and that each split has a branch for each label. Any mistake of the solver that leads to a wrong bound is
// therefore detected.
package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// Solution returns nil if the cost of s is correct and its proof proves its bound. Otherwise it returns an error that
// names the first fault. It modifies neither argument. The time is at most proportional to the product of the sizes of
// problem and proof. The memory is at most proportional to the sum of these sizes.
func Solution(p *wcsp.Problem, s *wcsp.Solution) error {
	return SolutionContext(context.Background(), p, s)
}

// SolutionContext is [Solution] with a context. If the context ends, the error is its cause.
func SolutionContext(ctx context.Context, p *wcsp.Problem, s *wcsp.Solution) (err error) {
	defer interrupt.Catch(&err)
	if p == nil || s == nil {
		return errors.New("verify: the problem or the solution is nil")
	}
	if err := checkProblem(p); err != nil {
		return fmt.Errorf("verify: the problem: %w", err)
	}
	if err := checkCost(p, s); err != nil {
		return fmt.Errorf("verify: the solution: %w", err)
	}
	if s.Proof == nil {
		return errors.New("verify: the solution has no proof")
	}
	checker := newChecker(ctx, p)
	for i, pruning := range s.Proof.Prunings {
		if err := checker.prune(pruning); err != nil {
			return fmt.Errorf("verify: pruning %d: %w", i, err)
		}
	}
	bound, err := checker.root(&s.Proof.Root)
	if err != nil {
		return fmt.Errorf("verify: the proof: %w", err)
	}
	if bound != s.Bound {
		return fmt.Errorf("verify: the bound of the solution is %d, but the proof gives %d", s.Bound, bound)
	}
	return nil
}

// add returns the sum of two costs, saturated at Forbidden.
func add(a, b int64) int64 { return min(a+b, wcsp.Forbidden) }

// checkProblem checks that tables match the labels and that sums of allowed costs are exact.
func checkProblem(p *wcsp.Problem) error {
	for v := range p.Variables {
		if len(p.Variables[v].Labels) == 0 {
			return fmt.Errorf("variable %d has no labels", v)
		}
	}
	var total int64
	for i, f := range p.Factors {
		if len(f.Scope) > 2 || len(f.Scope) == 2 && f.Scope[0] == f.Scope[1] {
			return fmt.Errorf("factor %d: the scope is invalid", i)
		}
		size := 1
		for _, v := range f.Scope {
			if v < 0 || v >= len(p.Variables) {
				return fmt.Errorf("factor %d: variable %d does not exist", i, v)
			}
			if size = size * len(p.Variables[v].Labels); size > len(f.Costs) { // a further product could overflow
				break
			}
		}
		if size != len(f.Costs) {
			return fmt.Errorf("factor %d: the costs do not fit the labels", i)
		}
		var largest int64
		for k, c := range f.Costs {
			if c < 0 || c > wcsp.Forbidden {
				return fmt.Errorf("factor %d: cost %d is %d, which is out of range", i, k, c)
			}
			if c < wcsp.Forbidden {
				largest = max(largest, c)
			}
		}
		if total = add(total, largest); total == wcsp.Forbidden {
			return fmt.Errorf("factor %d: the sum of the costs overflows", i)
		}
	}
	return nil
}

// checkCost checks the cost of the labels.
func checkCost(p *wcsp.Problem, s *wcsp.Solution) error {
	if len(s.Labels) != len(p.Variables) {
		return fmt.Errorf("the solution has %d labels, but the problem has %d variables", len(s.Labels), len(p.Variables))
	}
	for v, l := range s.Labels {
		if l < 0 || l >= len(p.Variables[v].Labels) {
			return fmt.Errorf("variable %d has no label %d", v, l)
		}
	}
	var sum int64
	for _, f := range p.Factors {
		index := 0
		for _, v := range f.Scope {
			index = index*len(p.Variables[v].Labels) + s.Labels[v]
		}
		sum = add(sum, f.Costs[index])
	}
	if sum != s.Cost || sum == wcsp.Forbidden {
		return fmt.Errorf("the cost of the solution is %d, but its labels cost %d", s.Cost, sum)
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

// function is a factor or a message: a cost table over the labels that remained when it was created.
type function struct {
	scope  []int
	labels [][]int // by variable of the scope
	table  []int64 // row-major
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

// newChecker returns the initial state, in which all labels remain.
func newChecker(ctx context.Context, p *wcsp.Problem) *checker {
	created := &checker{ctx: ctx, problem: p, remainingLabels: make([][]int, len(p.Variables))}
	for v := range p.Variables {
		for label := range p.Variables[v].Labels {
			created.remainingLabels[v] = append(created.remainingLabels[v], label)
		}
	}
	for _, f := range p.Factors {
		factor := function{scope: f.Scope, table: f.Costs}
		for _, v := range f.Scope {
			factor.labels = append(factor.labels, created.remainingLabels[v])
		}
		created.functions = append(created.functions, factor)
	}
	return created
}
