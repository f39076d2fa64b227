// Package verify checks the proof of a solution, with no code of the solver's.
//
// Of package wcsp it takes the types alone. Whoever trusts these few hundred lines, and has the problem, needs no trust
// in the solver, in its search, or in the machine that it ran on: a solution that passes costs what it says, and no
// assignment costs less than its bound.
package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// Solution returns nil if the labels of the solution cost what it says, and its proof proves its bound; else an error
// that names the first thing that is wrong. Neither is changed. The time it takes is within the size of the problem
// times that of the proof, and so is the memory within a few times their sum.
func Solution(p *wcsp.Problem, s *wcsp.Solution) error {
	return SolutionContext(context.Background(), p, s)
}

// SolutionContext is [Solution] that ends when the context does: the error is then [context.Cause].
func SolutionContext(ctx context.Context, p *wcsp.Problem, s *wcsp.Solution) (err error) {
	defer ends.Catch(&err)
	if p == nil || s == nil {
		return errors.New("verify: there is no problem, or no solution")
	}
	if err := problem(p); err != nil {
		return fmt.Errorf("verify: the problem: %w", err)
	}
	if err := cost(p, s); err != nil {
		return fmt.Errorf("verify: the solution: %w", err)
	}
	if s.Proof == nil {
		return errors.New("verify: the solution has no proof")
	}
	c := newChecker(ctx, p)
	for i, pr := range s.Proof.Prunings {
		if err := c.prune(pr); err != nil {
			return fmt.Errorf("verify: pruning %d: %w", i, err)
		}
	}
	bound, err := c.root(&s.Proof.Root)
	if err != nil {
		return fmt.Errorf("verify: the proof: %w", err)
	}
	if bound != s.Bound {
		return fmt.Errorf("verify: the solution's bound is %d; what is proved is %d", s.Bound, bound)
	}
	return nil
}

// add is a sum of costs.
func add(a, b int64) int64 { return min(a+b, wcsp.Forbidden) }

// problem checks what the rest relies on: tables fit the labels, and sums of allowed costs are exact.
func problem(p *wcsp.Problem) error {
	for v := range p.Variables {
		if len(p.Variables[v].Labels) == 0 {
			return fmt.Errorf("variable %d has no labels", v)
		}
	}
	var all int64
	for i, f := range p.Factors {
		if len(f.Scope) > 2 || len(f.Scope) == 2 && f.Scope[0] == f.Scope[1] {
			return fmt.Errorf("factor %d: the scope is none", i)
		}
		size := 1
		for _, v := range f.Scope {
			if v < 0 || v >= len(p.Variables) {
				return fmt.Errorf("factor %d: there is no variable %d", i, v)
			}
			if size = size * len(p.Variables[v].Labels); size > len(f.Costs) {
				break
			}
		}
		if size != len(f.Costs) {
			return fmt.Errorf("factor %d: the costs do not fit the labels", i)
		}
		var most int64
		for k, c := range f.Costs {
			if c < 0 || c > wcsp.Forbidden {
				return fmt.Errorf("factor %d: cost %d is %d", i, k, c)
			}
			if c < wcsp.Forbidden {
				most = max(most, c)
			}
		}
		if all = add(all, most); all == wcsp.Forbidden {
			return fmt.Errorf("factor %d: the costs add up to too much", i)
		}
	}
	return nil
}

// cost adds up what the labels cost.
func cost(p *wcsp.Problem, s *wcsp.Solution) error {
	if len(s.Labels) != len(p.Variables) {
		return fmt.Errorf("%d labels for %d variables", len(s.Labels), len(p.Variables))
	}
	for v, l := range s.Labels {
		if l < 0 || l >= len(p.Variables[v].Labels) {
			return fmt.Errorf("variable %d has no label %d", v, l)
		}
	}
	var sum int64
	for _, f := range p.Factors {
		at := 0
		for _, v := range f.Scope {
			at = at*len(p.Variables[v].Labels) + s.Labels[v]
		}
		sum = add(sum, f.Costs[at])
	}
	if sum != s.Cost || sum == wcsp.Forbidden {
		return fmt.Errorf("its cost is %d; the labels cost %d", s.Cost, sum)
	}
	return nil
}

// checker follows a proof.
type checker struct {
	ctx   context.Context
	steps int // since it was last checked

	p *wcsp.Problem
	// left are the labels of each variable that are left here.
	left [][]int
	// functions are the factors and the messages on the way here, by their numbers in the proof.
	functions []function
	// by are the factors of each variable, by the other variable, when they were asked for.
	by []map[int][]int
}

// function is a factor or a message: a cost by those labels that were left of its variables when it was made.
type function struct {
	scope  []int
	labels [][]int
	table  []int64
}

// lookEvery is the number of simple steps, a few nanoseconds each, between two checks of the context.
const lookEvery = 1 << 18

// count checks the context about every lookEvery steps. It panics as [ends.Look] does.
func (c *checker) count(steps int) {
	if c.steps += steps; c.steps >= lookEvery {
		c.steps = 0
		ends.Look(c.ctx)
	}
}

func newChecker(ctx context.Context, p *wcsp.Problem) *checker {
	c := &checker{ctx: ctx, p: p, left: make([][]int, len(p.Variables))}
	for v := range p.Variables {
		for l := range p.Variables[v].Labels {
			c.left[v] = append(c.left[v], l)
		}
	}
	for _, f := range p.Factors {
		g := function{scope: f.Scope, table: f.Costs}
		for _, v := range f.Scope {
			g.labels = append(g.labels, c.left[v])
		}
		c.functions = append(c.functions, g)
	}
	return c
}
