package wcsp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/graphrun/graphrun/internal/interrupt"
)

// Solver finds an assignment of low cost for a [Problem]. An assignment chooses a label for each variable. Factors have
// the costs of labels.
type Solver interface {
	// Solve returns the best assignment found, with a lower bound. It must not modify p. It fails if the problem is
	// invalid or has no feasible assignment.
	Solve(p *Problem, options Options) (*Solution, error)
}

// Options limit the effort of a solver.
type Options struct {
	// TimeLimit is the maximum time of the search. The search starts if elimination with tables of at most MaxTable
	// entries does not solve the problem. Zero means no search, so that results do not depend on time. A negative value
	// means no limit.
	TimeLimit time.Duration
	// MaxTable is the maximum number of entries of a table; zero means 4194304.
	MaxTable int
	// MaxNodes is the maximum number of nodes of the search, independently of time; zero means no limit.
	MaxNodes int
	// Context cancels the work. The error is then the cause of the context. Nil means no context.
	Context context.Context
	// Proof requests [Solution.Proof]. A search then also ends when its tables exceed half a gigabyte.
	Proof bool
}

// Limits of the solver. A table size is a number of entries. The solver first eliminates variables. If this takes too
// large tables, it searches a tree. At a node, it computes a lower bound of the costs, and cuts the labels that cannot
// improve the best assignment found. It then branches: a child of the node has fewer labels of a variable.
const (
	defaultMaxEntries = 1 << 22 // default of MaxTable
	largestMaxEntries = 1 << 30 // maximum of MaxTable
	// Bounds during a search use small tables, because the problem is split further anyway. The bound at the root uses
	// more work.
	maxSearchBoundEntries = 1 << 8  // maximum size for a bound below the root
	maxRootBoundEntries   = 1 << 16 // maximum size for the bound at the root
	maxRelaxedWork        = 1 << 25 // approximate limit on the total number of table entries of one lower bound
	maxBranchEntries      = 1 << 16 // maximum table size for eliminating all variables of a node below the root
	// Before a search, all variables are eliminated if the work is at most maxLightWork plus maxLightVariableWork per
	// variable. Otherwise only the variables whose tables have at most maxLightEntries entries are eliminated.
	maxLightWork         = 1 << 18
	maxLightVariableWork = 1 << 8
	maxLightEntries      = 1 << 6
	// If a lower bound cuts at least 1/minCutDivisor of the labels, the search starts again with the remaining labels.
	// Otherwise it uses larger tables or branches.
	minCutDivisor = 16
	// A search with a proof ends when its tables have this many entries in total.
	maxProofEntries = 1 << 26
)

// Exact prunes labels, eliminates variables and searches. If it finishes within its limits, the solution is optimal.
// Otherwise the solution is the best assignment found, with the gap Cost - Bound. Ties are broken deterministically.
var Exact Solver = exact{}

// exact is the type of [Exact].
type exact struct{}

// Solve implements Solver.
func (exact) Solve(p *Problem, options Options) (*Solution, error) {
	return newSearch(options).solve(p)
}

// solve is [Exact] with the options of the search.
func (s *search) solve(p *Problem) (_ *Solution, err error) {
	defer interrupt.Catch(&err)
	instance, err := prepare(s.ctx, p)
	if err != nil {
		return nil, err
	}
	remaining, prunings := prune(instance)
	const noCutoff, isRoot = Forbidden, true // without an upper limit on costs
	found := s.minimize(instance.restrict(remaining), noCutoff, isRoot)
	switch {
	case found.bound == Forbidden: // proved: every assignment is forbidden; minimize has set infeasibleVariable
		return nil, &InfeasibleError{Variable: s.infeasibleVariable, Factor: -1, Name: p.Variables[s.infeasibleVariable].Name}
	case found.cost == Forbidden:
		return nil, ErrNotFound
	}
	for v, label := range found.labels {
		found.labels[v] = remaining[v][label]
	}
	solution := &Solution{Version: Version, Labels: found.labels, Bound: found.bound}
	if solution.Cost = p.cost(found.labels); solution.Cost != found.cost || found.cost < found.bound {
		panic(fmt.Sprintf("wcsp: an assignment costs %d, but was computed as %d with bound %d", solution.Cost, found.cost,
			found.bound))
	}
	if s.wantProof {
		solution.Proof = &Proof{Prunings: prunings}
		// The proof is a tree of nodes. toNode gets the bound to prove. The tree may prove a greater one, which becomes
		// the bound of the solution.
		solution.Proof.Root, solution.Bound = found.proof.toNode(found.proof.bound)
	}
	return solution, nil
}

// prepare validates the problem and returns it as an instance. Methods of the instance panic when ctx ends; see
// [interrupt.Check]. [interrupt.Catch] turns the panic into an error.
func prepare(ctx context.Context, p *Problem) (*instance, error) {
	if p == nil {
		return nil, errors.New("wcsp: the problem is nil")
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	for i := range p.Factors {
		if !slices.ContainsFunc(p.Factors[i].Costs, func(c int64) bool { return c < Forbidden }) {
			return nil, &InfeasibleError{Variable: -1, Factor: i}
		}
	}
	return newInstance(ctx, p), nil
}

// InfeasibleError reports that no assignment of a problem is allowed.
type InfeasibleError struct {
	Variable int    // index of a variable without a feasible label; -1 if Factor is the reason
	Factor   int    // index of a factor whose entries are all forbidden; -1 if Variable is the reason
	Name     string // name of the variable
}

// Error names the variable or the factor.
func (e *InfeasibleError) Error() string {
	if e.Variable < 0 {
		return fmt.Sprintf("wcsp: no assignment is allowed: all costs of factor %d are forbidden", e.Factor)
	}
	return fmt.Sprintf("wcsp: no assignment is allowed: variable %d (%q) has no label that the other variables allow",
		e.Variable, e.Name)
}

// ErrNotFound reports that the search found no feasible assignment and did not prove that there is none.
var ErrNotFound = errors.New("wcsp: no feasible assignment was found within the limits")
