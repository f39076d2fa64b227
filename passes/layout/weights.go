package layout

import (
	"errors"
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// This file converts products of floats explicitly, which prevents fused multiply-adds: results are then the same on
// every processor.

// Weights combine the time, the copies and the copied bytes of a plan into one number, the weighted cost. A
// picosecond has the weight Time, a copy the weight Copy, and a unit of copied bytes the weight 1. A unit has UnitBytes
// bytes; the last unit of a copy may be incomplete. [Model.Weighted] has these costs:
//
//	weighted cost = Time*picoseconds + Copy*copies + units
//
// The weights of a new model are lexicographic: a picosecond weighs more than all copies and units of any plan, and a
// copy weighs more than all units. Among the plans of least time, the plan with the least weighted cost thus has the
// fewest copies and then the fewest units. If no plan has more than 10 copies and 100 units, for example, Copy is 101
// and Time is 11*101. The unit is as small as possible without an overflow of sums (61 bits). For large graphs
// UnitBytes is 0, and bytes do not count.
//
// A copy is an inserted step that moves elements into another layout. A node of the graph may also copy, such as a
// reshape that cannot be a view: this copy is not counted, but its bytes are.
type Weights struct {
	Time      int64 `json:"picosecond" doc:"The weight of a picosecond."`
	Copy      int64 `json:"copy" doc:"The weight of a copy; 0: copies do not count."`
	UnitBytes int64 `json:"unit_bytes" doc:"The number of copied bytes that weigh 1; the bytes of a copy are rounded up to a multiple; 0: bytes do not count."`
}

// copyWeight returns the weight of a copy of the given number of bytes, without the weight of its time.
func (w Weights) copyWeight(bytes int) int64 {
	return w.Copy + w.UnitsOf(bytes)
}

// UnitsOf returns the number of units of a copy of the given number of bytes.
func (w Weights) UnitsOf(bytes int) int64 {
	if w.UnitBytes < 1 {
		return 0
	}
	return (int64(bytes) + w.UnitBytes - 1) / w.UnitBytes
}

// MinCopiesWithin returns a lower bound on the number of copies of a plan that costs at most budgetPS picoseconds.
// weightedBound is a lower bound on the weighted cost of every plan, and maxUnits is an upper bound on the units of
// every plan. Therefore
//
//	Time*budgetPS + Copy*copies + maxUnits >= weightedBound
func (w Weights) MinCopiesWithin(weightedBound, budgetPS, maxUnits int64) int {
	if w.Copy < 1 {
		return 0
	}
	weightOfCopies := w.minWeightOfCopying(weightedBound, budgetPS) - maxUnits // a lower bound
	return int(max(0, (weightOfCopies+w.Copy-1)/w.Copy))
}

// MinUnitsWithin returns a lower bound on the units of a plan that costs at most budgetPS picoseconds and has at most
// the given number of copies. weightedBound is a lower bound on the weighted cost of every plan.
func (w Weights) MinUnitsWithin(weightedBound, budgetPS int64, copies int) int64 {
	if w.UnitBytes == 0 {
		return 0
	}
	weightOfCopying := w.minWeightOfCopying(weightedBound, budgetPS)
	if w.Copy > 0 && int64(copies) > weightOfCopying/w.Copy {
		return 0
	}
	return weightOfCopying - w.Copy*int64(copies)
}

// minWeightOfCopying returns a lower bound on the weight of the copies and units of a plan that costs at most budgetPS
// picoseconds.
func (w Weights) minWeightOfCopying(weightedBound, budgetPS int64) int64 {
	if w.Time < 1 || budgetPS < 0 || budgetPS > weightedBound/w.Time { // the time alone may reach the bound
		return 0
	}
	return weightedBound - w.Time*budgetPS
}

// WithWeights returns the model with other weights. Labels have the same meaning in both models, but each model chooses
// the copies that a label requires by its own weights. WithWeights fails if sums of weighted costs exceed the range.
func (m *Model) WithWeights(w Weights) (_ *Model, err error) {
	defer interrupt.Catch(&err)
	if err := m.check(); err != nil {
		return nil, err
	}
	if w.Time < 1 || w.Copy < 0 || w.UnitBytes < 0 || !m.weightsFit(float64(w.Time), float64(w.Copy), w.UnitBytes) {
		return nil, fmt.Errorf("the weights are out of range: %d for a picosecond, %d for a copy, and units of %d bytes",
			w.Time, w.Copy, w.UnitBytes)
	}
	reweighted, err := m.with(&Changed{Weights: w})
	if err != nil {
		return nil, err
	}
	return reweighted, reweighted.Weighted.Validate()
}

// lexicographicWeights returns the weights of a new model. If the costs are too large, only time counts.
func (m *Model) lexicographicWeights() Weights {
	if w, ok := m.findWeights(m.planBounds.copies+1, 1); ok { // a picosecond weighs more than all copies
		return w
	}
	return Weights{Time: 1}
}

// findWeights returns weights whose ratio Time/Copy is timeWeight/copyWeight. Units only break ties. The unit is the
// smallest power of two for which sums of weighted costs stay in range. If there is none, it is 0: bytes do not count.
// findWeights returns false if sums exceed the range even then.
func (m *Model) findWeights(timeWeight, copyWeight int64) (Weights, bool) {
	for unit := int64(1); unit <= maxUnitBytes; unit *= 2 {
		scale := m.planBounds.maxUnits(unit) + 1 // a copy then weighs more than all units
		if m.weightsFit(float64(timeWeight)*float64(scale), float64(copyWeight)*float64(scale), unit) {
			return Weights{Time: timeWeight * scale, Copy: copyWeight * scale, UnitBytes: unit}, true
		}
	}
	return Weights{Time: timeWeight, Copy: copyWeight}, m.weightsFit(float64(timeWeight), float64(copyWeight), 0)
}

// maxUnitBytes is the largest unit that findWeights tries.
const maxUnitBytes = 1 << 40

// weightsFit reports whether sums of weighted costs stay in range for the given weights of a picosecond and of a copy.
func (m *Model) weightsFit(timeWeight, copyWeight float64, unitBytes int64) bool {
	sum := float64(timeWeight*(m.planBounds.ps+1)) + float64(copyWeight*float64(m.planBounds.copies+1)) +
		float64(m.planBounds.maxUnits(unitBytes))
	return sum < float64(wcsp.Forbidden)/2
}

// planBounds has upper bounds that hold for every plan of a model.
type planBounds struct {
	ps     float64 // cost in picoseconds
	copies int64   // number of copies
	bytes  float64 // copied bytes
}

// maxUnits returns an upper bound on the units of a plan.
func (b *planBounds) maxUnits(unitBytes int64) int64 {
	if unitBytes == 0 {
		return 0
	}
	return int64(b.bytes/float64(unitBytes)) + b.copies // the last unit of each copy may be incomplete
}

// MaxUnits returns an upper bound on the units of any plan, for the weights of the model.
func (m *Model) MaxUnits() int64 {
	if m == nil {
		return 0
	}
	return m.planBounds.maxUnits(m.Weights.UnitBytes)
}

// findPlanBounds sets planBounds.
func (m *Model) findPlanBounds() {
	m.planBounds = planBounds{}
	for i, computed := range m.computedNodes {
		if computed == nil {
			continue
		}
		// Both are maxima over the labels.
		nodeBound, readBounds := 0.0, make([]float64, len(m.Problem.Graph.Nodes[i].In)) // readBounds: by operand
		for k := range computed.labels {
			nodeBound = max(nodeBound, float64(computed.labels[k].cost))
			for operand, costs := range computed.labels[k].readCosts {
				readBounds[operand] = max(readBounds[operand], largest(costs))
			}
		}
		for _, readBound := range readBounds {
			nodeBound += readBound
		}
		m.planBounds.ps += nodeBound
	}
	m.addCopyBounds()
}

// addCopyBounds adds the copies of all values to planBounds.
func (m *Model) addCopyBounds() {
	views := graph.NewByValue[*viewNode](m.Problem.Graph) // by result
	for _, view := range m.viewNodes {
		if view == nil {
			continue
		}
		for _, out := range view.node.Out {
			views.Set(out, view)
		}
	}
	for _, variable := range m.variableList {
		view := views.At(variable.value)
		if variable.neededForms == 0 || isFreeConstant(variable.value) || view == nil && len(variable.forms) == 1 {
			continue // no copies
		}
		maxCopies := int64(len(variable.forms)) // at most one copy makes each form (layout) of the value
		if variable.pin >= 0 {
			maxCopies *= 2 // the copies that make the pinned form, and the copies of the pinned form
		}
		m.planBounds.ps += float64(float64(maxCopies) * m.maxCopyCost(variable, view))
		m.planBounds.copies += maxCopies
		m.planBounds.bytes += float64(float64(maxCopies) * float64(variable.value.Meta.Bytes()))
	}
}

// maxCopyCost returns the largest cost of a copy of a value in picoseconds. view is the view that computes the value,
// or nil.
func (m *Model) maxCopyCost(variable *variable, view *viewNode) float64 {
	maxCost := 0.0
	if len(variable.forms) > 1 {
		maxCost = largest(m.copyCostMatrix(variable))
	}
	if view != nil && view.copyCosts != nil { // copies from the operand of the view
		for _, costs := range view.copyCosts[variable.value.Index] {
			maxCost = max(maxCost, largest(costs))
		}
		for _, costs := range view.insertedCosts {
			maxCost = max(maxCost, largest(costs))
		}
	}
	return maxCost
}

// largest returns the largest cost in a list that is not [wcsp.Forbidden], or 0.
func largest(costs []int64) float64 {
	var maxCost int64
	for _, c := range costs {
		if c < wcsp.Forbidden {
			maxCost = max(maxCost, c)
		}
	}
	return float64(maxCost)
}

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

// countedSolution is a solution with the inserted copies of its plan, and their bytes in units of Weights.UnitBytes; 0
// units if copies have no weight.
type countedSolution struct {
	*Solution
	copies int
	units  int64
}

// solveCounting solves the model with other weights; the zero value keeps those of the model.
func (m *Model) solveCounting(weights Weights) (*countedSolution, error) {
	found, err := m.Solve(Changed{Weights: weights})
	if err != nil {
		return nil, err
	}
	solution, weights := &countedSolution{Solution: found}, found.Model.Weights
	if weights.Copy == 0 {
		outcome, err := found.Outcome()
		if err != nil {
			return nil, err
		}
		solution.copies = outcome.Inserted
		return solution, nil
	}
	weightOfCopying := found.Cost - weights.Time*found.CostPS
	// weightOfCopying is copies*Copy + units. A copy weighs more than all units of a plan: units is the remainder.
	solution.copies, solution.units = int(weightOfCopying/weights.Copy), weightOfCopying%weights.Copy
	return solution, nil
}

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
func (m *Model) preferFewerCopies() (*countedSolution, *Preference, error) {
	best, err := m.solveCounting(Weights{})
	if err != nil {
		return nil, nil, err
	}
	weights := m.Weights
	// A picosecond weighs more than all copies and units of a plan, so that best.Bound / weights.Time bounds the time.
	preference := &Preference{Slack: m.Problem.Slack, LeastPS: best.Bound / weights.Time, Made: weights, Proof: weights,
		Bound: best.Bound}
	preference.BudgetPS = Budget(preference.LeastPS, preference.Slack)
	if preference.Slack > 0 && best.copies > 0 && best.CostPS <= preference.BudgetPS {
		if best, err = m.findFewerCopies(best, preference); err != nil {
			return nil, nil, err
		}
	}
	preference.CostPS, preference.Copies, preference.Units = best.CostPS, best.copies, best.units
	preference.Made = best.Model.Weights
	maxUnits := m.planBounds.maxUnits(preference.Proof.UnitBytes)
	preference.FewestCopies = min(preference.Copies,
		preference.Proof.MinCopiesWithin(preference.Bound, preference.BudgetPS, maxUnits))
	return best, preference, nil
}

// maxEdges is the maximum number of problems that are solved for a slack. Usually a few steps along the hull suffice.
const maxEdges = 64

// findFewerCopies looks for a plan within the budget that has fewer copies, and sets the proof of the preference.
func (m *Model) findFewerCopies(best *countedSolution, preference *Preference) (*countedSolution, error) {
	timeWeight, copyWeight := int64(1), preference.BudgetPS-preference.LeastPS+1 // a copy weighs more than the slack
	// The ends of the edge are best, which is within the budget, and overBudget, which is above it.
	var overBudget *countedSolution
	for range maxEdges {
		interrupt.Check(m.Problem.Context())
		weights, ok := m.findWeights(timeWeight, copyWeight)
		if !ok {
			return best, nil
		}
		solution, err := m.solveCounting(weights)
		if errors.Is(err, wcsp.ErrNotFound) {
			return best, nil
		} else if err != nil {
			return nil, err
		}
		preference.Proof, preference.Bound = weights, solution.Bound
		weightedSum := func(s *countedSolution) int64 { return timeWeight*s.CostPS + copyWeight*int64(s.copies) }
		isBetter := weightedSum(solution) < weightedSum(best)
		isWithinBudget := solution.CostPS <= preference.BudgetPS
		if isWithinBudget && solution.copies < best.copies {
			best = solution
		}
		reachedLimit := !solution.Optimal()
		noVertexBetween := overBudget != nil && !isBetter          // of the hull, between the ends of the edge
		isFirstWithinBudget := overBudget == nil && isWithinBudget // with the first weights
		if reachedLimit || noVertexBetween || isFirstWithinBudget {
			return best, nil
		}
		if !isWithinBudget {
			overBudget = solution
		}
		// With these weights, both ends of the edge have the same weighted sum.
		timeWeight, copyWeight = int64(best.copies-overBudget.copies), overBudget.CostPS-best.CostPS
	}
	return best, nil
}
