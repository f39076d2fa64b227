package wcsp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/graphrun/graphrun/internal/ends"
)

// Solver finds assignments.
type Solver interface {
	// Solve returns the best assignment that it finds, with a bound. The problem must not be changed by it. An error
	// says what is wrong with the problem, or that no assignment of it is allowed.
	Solve(p *Problem, o Options) (*Solution, error)
}

// Options say how much may be spent on a solution, and what is wanted with it.
type Options struct {
	// TimeLimit is how long branches are searched for what elimination within MaxTable does not settle; zero: not at
	// all, so that no result depends on the time; negative: until it is settled.
	TimeLimit time.Duration
	// MaxTable is how many entries a table may have; zero stands for 4194304.
	MaxTable int
	// MaxNodes is how many nodes of a search are gone through at most, so that what is found does not depend on the time
	// that they take; zero: as many as the time allows.
	MaxNodes int
	// Context ends the work when it ends: the error is its cause. Nil: none.
	Context context.Context
	// Proof asks for [Solution.Proof]. A search ends, as if its time were up, when its tables are past half a gigabyte.
	Proof bool
}

const (
	defaultTable = 1 << 22
	largestTable = 1 << 30
	// Tables of bounds in a search are small: what is not settled is split again. The first is computed once.
	searchTable = 1 << 8
	boundTable  = 1 << 16
	relaxedWork = 1 << 25 // entries of the messages of one bound, about
	branchTable = 1 << 16
	// What is eliminated at once: all, where so many costs are looked at, and so many for each variable; else what takes
	// tables of so many entries.
	lightWork  = 1 << 18
	lightPart  = 1 << 8
	lightTable = 1 << 6
	// Of labels at least such a part must be cut; else the problem is split.
	cutPart = 16
	// A search for which a proof is wanted ends when its tables have so many entries together.
	proofTables = 1 << 26
)

// Exact prunes, eliminates and searches. Where the time suffices its solutions are optimal; else they are the best that
// was found, and their gap is Cost - Bound. Of assignments that cost the same it always returns the same one.
var Exact Solver = exact{}

type exact struct{}

// InfeasibleError says that no assignment of a problem is allowed.
type InfeasibleError struct {
	// Variable has no label that goes with any of the others; -1 where a factor alone forbids all.
	Variable int
	// Factor has no cost that is allowed; -1 where none is to blame alone.
	Factor int
	// Name is the variable's.
	Name string
}

// Error tells what to look at.
func (e *InfeasibleError) Error() string {
	if e.Variable < 0 {
		return fmt.Sprintf("wcsp: no assignment is allowed: all costs of factor %d are forbidden", e.Factor)
	}
	return fmt.Sprintf("wcsp: no assignment is allowed: no label of variable %d (%q) goes with labels of the others",
		e.Variable, e.Name)
}

// ErrNotFound says that no assignment was found that is allowed, and no proof that there is none.
var ErrNotFound = errors.New("wcsp: no assignment that is allowed was found in the time; there may be one")

// prepare checks the problem and returns it as an instance, work on which ends with a context: see [ends.Look].
func prepare(ctx context.Context, p *Problem) (*instance, error) {
	if p == nil {
		return nil, errors.New("wcsp: there is no problem")
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	for i := range p.Factors {
		if !slices.ContainsFunc(p.Factors[i].Costs, func(c int64) bool { return c < Forbidden }) {
			return nil, &InfeasibleError{Variable: -1, Factor: i}
		}
	}
	return sums(ctx, p), nil
}

// Solve implements Solver.
func (exact) Solve(p *Problem, o Options) (*Solution, error) {
	return newSearch(o).solve(p)
}

func (s *search) solve(p *Problem) (_ *Solution, err error) {
	defer ends.Catch(&err)
	in, err := prepare(s.ctx, p)
	if err != nil {
		return nil, err
	}
	left, prunings := prune(in)
	r := s.node(in.kept(left), Forbidden, true)
	switch {
	case r.bound == Forbidden:
		return nil, &InfeasibleError{Variable: s.blamed, Factor: -1, Name: p.Variables[s.blamed].Name}
	case r.cost == Forbidden:
		return nil, ErrNotFound
	}
	solution := &Solution{Version: Version, Labels: r.labels, Bound: r.bound}
	for v, l := range r.labels {
		r.labels[v] = left[v][l]
	}
	if solution.Cost = p.cost(r.labels); solution.Cost != r.cost || r.cost < r.bound {
		panic(fmt.Sprintf("wcsp: an assignment costs %d, which was computed as %d, at least %d", solution.Cost, r.cost,
			r.bound))
	}
	if s.wantProof {
		solution.Proof = &Proof{Prunings: prunings}
		solution.Proof.Root, solution.Bound = r.tree.node(r.tree.bound)
	}
	return solution, nil
}
