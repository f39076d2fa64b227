package layout

import (
	"errors"
	"fmt"
	"math"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// Preference describes how strategy Optimal chose a plan. The budget is the least cost of a plan plus a slack. Among
// the plans whose cost is within the budget, the strategy searches for a plan with the fewest copies.
//
// Two lower bounds are proved for every plan. Its cost is at least LeastPS. Its weighted cost, a sum of time, copies
// and bytes with the weights Proof, is at least Bound. Therefore every plan within the budget has at least FewestCopies
// copies ([Weights.MinCopiesWithin]).
type Preference struct {
	Slack    float64 // maximum additional cost, as a share of LeastPS; see [Problem.Slack]
	LeastPS  int64   // a proved lower bound on the cost of every plan, in picoseconds
	BudgetPS int64   // LeastPS plus the slack
	CostPS   int64   // the cost of the plan; above BudgetPS only if the search found no plan within the budget
	Copies   int     // the number of copies of the plan
	Units    int64   // the copied bytes, in units of Made.UnitBytes bytes ([Weights])
	// FewestCopies is a proved lower bound on the number of copies in a plan within the budget.
	FewestCopies int
	Made         Weights // the weights that chose the copies, after the implementations were chosen
	Proof        Weights // the weights for which Bound is proved
	Bound        int64   // a proved lower bound on the weighted cost of every plan
}

// Fewest reports whether the plan is proved to have the fewest copies of all plans within the budget.
func (p *Preference) Fewest() bool {
	return p != nil && p.CostPS <= p.BudgetPS && p.Copies == p.FewestCopies
}

// MaxSlack is the largest allowed [Problem.Slack].
const MaxSlack = 1

// CheckSlack returns an error if a slack is outside the allowed range.
func CheckSlack(slack float64) error {
	if !(slack >= 0 && slack <= MaxSlack) {
		return fmt.Errorf("a slack of %g is out of range: a slack is between 0 and %d, such as 0.005 for 0.5%%", slack,
			MaxSlack)
	}
	return nil
}

// Budget returns the maximum cost of a plan with a slack: the least cost plus the given share of it, rounded down.
func Budget(leastPS int64, slack float64) int64 {
	return leastPS + int64(math.Floor(float64(leastPS)*slack))
}

// weightedSolution is a solution of a weighted problem.
type weightedSolution struct {
	model  *Model
	labels []int // by variable of the problem
	costPS int64 // the cost without weights, in picoseconds
	copies int   // number of inserted copies
	units  int64 // the copied bytes, in units of Weights.UnitBytes; 0 if copies have no weight
	bound  int64 // a lower bound on the weighted cost
	cost   int64 // the weighted cost
}

// solve solves the weighted problem of the model.
func (m *Model) solve(options wcsp.Options) (*weightedSolution, error) {
	found, err := wcsp.Exact.Solve(m.Weighted, options)
	if err != nil {
		return nil, err
	}
	solution := &weightedSolution{model: m, labels: found.Labels, bound: found.Bound, cost: found.Cost}
	if solution.costPS, err = m.WCSP.Cost(found.Labels); err != nil {
		return nil, err
	}
	if m.Weights.Copy == 0 {
		outcome, err := m.Outcome(found.Labels)
		if err != nil {
			return nil, err
		}
		solution.copies = outcome.Inserted
		return solution, nil
	}
	weightOfCopying := found.Cost - m.Weights.Time*solution.costPS
	// weightOfCopying is copies*Copy + units. A copy weighs more than all units of a plan: units is the remainder.
	solution.copies, solution.units = int(weightOfCopying/m.Weights.Copy), weightOfCopying%m.Weights.Copy
	return solution, nil
}

// optimal reports whether no plan has a smaller weighted cost.
func (s *weightedSolution) optimal() bool { return s.cost == s.bound }

// preferFewerCopies solves the problem. Among the plans within the slack, it takes a plan with the fewest copies.
//
// The factors (cost tables) of the problem cannot express a limit on the cost. They can express the sum a*cost +
// b*copies with fixed weights a and b (a Lagrangian). The solver minimizes this sum exactly, and each minimum is a
// vertex of the convex hull of the points (cost, number of copies) of all plans. The first weights make a copy as
// expensive as the slack. If this solution is within the budget, no plan within the budget has fewer copies. Otherwise
// the weights are changed step by step until they describe the edge of the hull that crosses the budget: one end is
// within the budget, the other above it. The least weighted sum of this edge gives a lower bound for the copies of all
// plans within the budget. The search misses plans within the budget that are not on the hull; one of them may have
// fewer copies.
//
// For example, let the plans be (100, 5), (101, 3) and (104, 1), and the budget 102. The first weights, 1 and 3, give
// (104, 1), which is above the budget. The weights of the edge from (100, 5) to (104, 1) are 4 and 4. They give
// (101, 3), which is within the budget. The weights of the edge from (101, 3) to (104, 1) are 2 and 3. With them, no
// plan has a smaller sum than 211. A plan within the budget thus has at least (211 - 2*102)/3 copies, that is, 3.
func (m *Model) preferFewerCopies(options wcsp.Options) (*weightedSolution, *Preference, error) {
	best, err := m.solve(options)
	if err != nil {
		return nil, nil, err
	}
	weights := m.Weights
	// A picosecond weighs more than all copies and units of a plan, so that best.bound / weights.Time bounds the time.
	preference := &Preference{Slack: m.Problem.Slack, LeastPS: best.bound / weights.Time, Made: weights, Proof: weights,
		Bound: best.bound}
	preference.BudgetPS = Budget(preference.LeastPS, preference.Slack)
	if preference.Slack > 0 && best.copies > 0 && best.costPS <= preference.BudgetPS {
		if best, err = m.findFewerCopies(options, best, preference); err != nil {
			return nil, nil, err
		}
	}
	preference.CostPS, preference.Copies, preference.Units = best.costPS, best.copies, best.units
	preference.Made = best.model.Weights
	maxUnits := m.planBounds.maxUnits(preference.Proof.UnitBytes)
	preference.FewestCopies = min(preference.Copies,
		preference.Proof.MinCopiesWithin(preference.Bound, preference.BudgetPS, maxUnits))
	return best, preference, nil
}

// maxEdges is the maximum number of problems that are solved for a slack. Usually a few steps along the hull suffice.
const maxEdges = 64

// findFewerCopies looks for a plan within the budget that has fewer copies, and sets the proof of the preference.
func (m *Model) findFewerCopies(options wcsp.Options, best *weightedSolution,
	preference *Preference) (*weightedSolution, error) {
	timeWeight, copyWeight := int64(1), preference.BudgetPS-preference.LeastPS+1 // a copy weighs more than the slack
	// The ends of the edge are best, which is within the budget, and overBudget, which is above it.
	var overBudget *weightedSolution
	for range maxEdges {
		interrupt.Check(options.Context)
		weights, ok := m.findWeights(timeWeight, copyWeight)
		if !ok {
			return best, nil
		}
		weighted, err := m.WithWeights(weights)
		if err != nil {
			return nil, err
		}
		solution, err := weighted.solve(options)
		if errors.Is(err, wcsp.ErrNotFound) {
			return best, nil
		} else if err != nil {
			return nil, err
		}
		preference.Proof, preference.Bound = weights, solution.bound
		weightedSum := func(s *weightedSolution) int64 { return timeWeight*s.costPS + copyWeight*int64(s.copies) }
		isBetter := weightedSum(solution) < weightedSum(best)
		isWithinBudget := solution.costPS <= preference.BudgetPS
		if isWithinBudget && solution.copies < best.copies {
			best = solution
		}
		reachedLimit := !solution.optimal()
		noVertexBetween := overBudget != nil && !isBetter          // of the hull, between the ends of the edge
		isFirstWithinBudget := overBudget == nil && isWithinBudget // with the first weights
		if reachedLimit || noVertexBetween || isFirstWithinBudget {
			return best, nil
		}
		if !isWithinBudget {
			overBudget = solution
		}
		// With these weights, both ends of the edge have the same weighted sum.
		timeWeight, copyWeight = int64(best.copies-overBudget.copies), overBudget.costPS-best.costPS
	}
	return best, nil
}
