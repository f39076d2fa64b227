package layout

import (
	"fmt"
	"time"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/passes/layout/wcsp/verify"
)

// Optimal finds a plan of least cost and proves that no plan costs less: see [Model].
var Optimal Strategy = &modelStrategy{name: "optimal", solver: wcsp.Exact,
	doc: "minimizes the total cost and proves it; the default"}

// SolveLimit is the default time limit of a search. A search is needed if elimination does not find a proven optimum.
// Most networks are solved within milliseconds.
const SolveLimit = 10 * time.Second

// SearchTimeLimit returns the value of [wcsp.Options.TimeLimit] that corresponds to [Problem.SolveLimit].
func (p *Problem) SearchTimeLimit() time.Duration {
	switch {
	case p == nil || p.SolveLimit == 0:
		return SolveLimit
	case p.SolveLimit < 0:
		return 0
	}
	return p.SolveLimit
}

// Solved returns a strategy that states the problem exactly ([Model]) and solves it with the given solver. The cost,
// bound and proof of a solver other than [wcsp.Exact] are checked. A bound without a valid proof is replaced by 0.
func Solved(name string, solver wcsp.Solver) Strategy {
	return &modelStrategy{name: name, solver: solver}
}

// modelStrategy is a strategy that solves a [Model].
type modelStrategy struct {
	name, doc string
	solver    wcsp.Solver
}

// Name implements [Strategy].
func (s *modelStrategy) Name() string { return s.name }

// Doc describes the strategy in one sentence.
func (s *modelStrategy) Doc() string { return s.doc }

// Choose implements [Strategy].
func (s *modelStrategy) Choose(p *Problem) (*Assignment, error) {
	if s.solver == nil {
		return nil, fmt.Errorf("strategy %s has no solver", s.name)
	}
	m, err := NewModel(p)
	if err != nil {
		return nil, err
	}
	if s.solver == wcsp.Exact {
		return m.optimum()
	}
	solution, err := s.solver.Solve(m.WCSP, p.options())
	if err != nil {
		return nil, err
	}
	if solution == nil {
		return nil, fmt.Errorf("the solver of strategy %s returned no solution", s.name)
	}
	assignment, err := m.checkedAssignment(solution)
	if err != nil {
		return nil, fmt.Errorf("strategy %s: %w", s.name, err)
	}
	return assignment, nil
}

// checkedAssignment returns the assignment of a solution of a caller's solver. It computes the cost, and drops a bound
// without a valid proof.
func (m *Model) checkedAssignment(solution *wcsp.Solution) (*Assignment, error) {
	assignment, err := m.Assignment(solution.Labels)
	if err != nil {
		return nil, err
	}
	cost, err := m.WCSP.Cost(solution.Labels)
	if err != nil {
		return nil, err
	}
	checked := &wcsp.Solution{Version: solution.Version, Labels: solution.Labels, Cost: cost, Bound: solution.Bound,
		Proof: solution.Proof}
	if solution.Proof == nil || verify.Solution(m.WCSP, checked) != nil {
		checked.Bound, checked.Proof = 0, nil
	}
	assignment.Model, assignment.Solution = m, checked
	return assignment, nil
}

// optimum returns the assignment of strategy Optimal.
func (m *Model) optimum() (_ *Assignment, err error) {
	defer interrupt.Catch(&err)
	// preference records the choice among plans of nearly equal cost; its LeastPS is a lower bound on the cost.
	best, preference, err := m.preferFewerCopies(m.Problem.options())
	if err != nil {
		return nil, err
	}
	assignment, err := best.model.Assignment(best.labels)
	if err != nil {
		return nil, err
	}
	assignment.Model, assignment.Preference = best.model, preference
	assignment.Solution = &wcsp.Solution{Version: wcsp.Version, Labels: best.labels, Cost: best.costPS,
		Bound: preference.LeastPS}
	return assignment, nil
}
