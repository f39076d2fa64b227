package layout

import (
	"fmt"
	"time"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/passes/layout/wcsp/verify"
)

// This file has the strategies that state a [Problem], the choice of layouts for a graph, as a [Model] and solve it.
// The model has a weighted constraint satisfaction problem (WCSP): variables, labels (the choices for each variable),
// and tables of costs that depend on the labels of one or two variables. A solution has a label for each variable; its
// cost is the sum of the table entries for these labels. A bound is at most the cost of any solution. A solution whose
// cost equals the bound is optimal. The proof of a bound can be checked without solving the problem.
//
// For example, let a node have the labels row-major, with work 10, and channels-last, with work 8, and let its input be
// row-major. Channels-last needs a copy of cost 5. The cost of row-major is thus 10, and the cost of channels-last is
// 8+5 = 13. The bound 10 shows that row-major is optimal.

// Optimal finds a plan of least cost and proves that no plan costs less.
var Optimal Strategy = &modelStrategy{name: "optimal", solver: wcsp.Exact,
	doc: "minimizes the total cost and proves it; the default"}

// SolveLimit is the default time limit of a solver's search. The solver first eliminates variables. It searches only if
// elimination does not find a proven optimum. Most networks are solved within milliseconds.
const SolveLimit = 10 * time.Second

// SearchTimeLimit returns the time limit of the search ([wcsp.Options.TimeLimit]) for [Problem.SolveLimit]. If that
// field is 0, the time limit is the constant SolveLimit. If it is negative, the time limit is 0 (no search).
func (p *Problem) SearchTimeLimit() time.Duration {
	switch {
	case p == nil || p.SolveLimit == 0:
		return SolveLimit
	case p.SolveLimit < 0:
		return 0
	}
	return p.SolveLimit
}

// Solved returns a strategy that solves the model with the given solver. The strategy recomputes the cost of a solver
// other than [wcsp.Exact], and checks its proof. It replaces a bound without a valid proof by 0.
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

// checkedAssignment returns the assignment for a solution of a caller's solver. It recomputes the cost, and drops a
// bound without a valid proof.
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
	hasValidProof := solution.Proof != nil && verify.Solution(m.WCSP, checked) == nil
	if !hasValidProof {
		checked.Bound, checked.Proof = 0, nil
	}
	assignment.Model, assignment.Solution = m, checked
	return assignment, nil
}

// optimum returns the assignment for the solution of strategy Optimal: a solution of least cost or, with a
// [Problem.Slack], a solution with fewer copies whose additional cost is within the slack.
func (m *Model) optimum() (_ *Assignment, err error) {
	defer interrupt.Catch(&err)
	// preference records the choice among plans of nearly equal cost. Its LeastPS is the bound, in picoseconds.
	best, preference, err := m.preferFewerCopies()
	if err != nil {
		return nil, err
	}
	assignment, err := best.Model.Assignment(best.Labels)
	if err != nil {
		return nil, err
	}
	assignment.Model, assignment.Preference = best.Model, preference
	assignment.Solution = &wcsp.Solution{Version: wcsp.Version, Labels: best.Labels, Cost: best.CostPS,
		Bound: preference.LeastPS}
	return assignment, nil
}
