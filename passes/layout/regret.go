package layout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/pricing"
)

// RegretBound bounds how much more a plan costs than the cheapest plan, at any prices within the intervals of the prices
// ([pricing.Ratio]).
//
// Let the sum of a plan's entries in the cost tables be its cost. Entries have a price in an interval. The regret is
// greatest if the entries of the plan have the highest prices, and all others the lowest. [Model.RegretProblem] has these
// costs: a single search bounds the cost of all other plans in it. Intervals count as independent, so that the bound also
// holds if several entries share a price. The entries of a label are its work and its reads, at one ratio. The copies of
// the plan are those of the model's prices; other plans have the copies that are cheapest at the lowest prices.
type RegretBound struct {
	NS    float64 `json:"ns" doc:"The greatest regret, in nanoseconds."`
	Share float64 `json:"share" doc:"The greatest regret as a share of the cost of the plan."`
	// Prices is 0 without measured prices; the intervals then say nothing about the machine.
	Prices    int        `json:"prices" doc:"The number of measured prices; those that were not measured lie within a factor of 1.5 to 2.5."`
	Intervals []Interval `json:"intervals" doc:"The intervals that contribute to the regret, the greatest first."`

	problem *wcsp.Problem // see RegretProblem
	// solution is the plan of least cost in the problem, with the lower bound on the cost of any plan.
	solution *wcsp.Solution
	labels   []int // of the plan
	// costPS is the cost of the plan in the problem, and planPS in the model, in picoseconds.
	costPS, planPS int64
}

// Interval is the uncertain price of a label in which two plans differ.
type Interval struct {
	Choice string  `json:"choice" doc:"The variable of the problem: a node, or the copies of a value."`
	Label  string  `json:"label" doc:"Its label."`
	Plan   bool    `json:"plan" doc:"Whether the plan has the label; if false, the plan that may be cheaper has it."`
	NS     float64 `json:"ns" doc:"The part of the interval that counts, in nanoseconds: above the price for the plan, below it for the other plan."`
}

// ps returns the greatest regret in picoseconds.
func (r *RegretBound) ps() int64 {
	if r == nil || r.solution == nil {
		return 0
	}
	return max(0, r.costPS-r.solution.Bound)
}

// Other returns the labels of the plan that may be cheaper than the plan.
func (r *RegretBound) Other() []int {
	if r == nil || r.solution == nil {
		return nil
	}
	return slices.Clone(r.solution.Labels)
}

// Proof returns the plan as a solution of [Model.RegretProblem]: with its cost there, the lower bound on the cost of any
// plan and, if [Model.Regret] was asked for it, the proof of the bound.
func (r *RegretBound) Proof() *wcsp.Solution {
	if r == nil || r.solution == nil {
		return nil
	}
	return &wcsp.Solution{Version: wcsp.Version, Labels: slices.Clone(r.labels), Cost: r.costPS, Bound: r.solution.Bound,
		Proof: r.solution.Proof}
}

// String states the regret in words, with the intervals that contribute most.
func (r *RegretBound) String() string {
	if r == nil {
		return ""
	}
	text := fmt.Sprintf("at most %.2g%% from the best at any prices within the measured intervals", 100*r.Share)
	var list []string
	for _, interval := range r.Intervals[:min(3, len(r.Intervals))] {
		list = append(list, fmt.Sprintf("%s by %s (%s)", interval.Choice, interval.Label, machine.Nanoseconds(interval.NS)))
	}
	if list != nil {
		text += "; most uncertain: " + strings.Join(list, ", ")
	}
	return text
}

// Regret bounds the regret of the plan with the given labels, by variable of WCSP. If proof is set, the solution has a
// proof of the bound.
func (m *Model) Regret(labels []int, proof bool) (_ *RegretBound, err error) {
	defer interrupt.Catch(&err)
	problem, err := m.RegretProblem(labels)
	if err != nil {
		return nil, err
	}
	regret := &RegretBound{problem: problem, labels: slices.Clone(labels)}
	regret.planPS, _ = m.WCSP.Cost(labels) // no error, because the problem was made
	if regret.costPS, err = problem.Cost(labels); err != nil {
		return nil, err
	}
	options := m.Problem.options()
	options.Proof = proof
	if regret.solution, err = wcsp.Exact.Solve(regret.problem, options); err != nil {
		return nil, err
	}
	regret.Intervals = m.intervals(regret, labels)
	regret.NS = float64(regret.ps()) / pricing.PSPerNS
	regret.Share = float64(regret.ps()) / float64(max(1, regret.planPS))
	if m.Problem.Profile != nil {
		regret.Prices = len(m.Problem.Profile.Prices)
	}
	return regret, nil
}

// RegretProblem returns the Problem of a [RegretBound], without a solution.
func (m *Model) RegretProblem(labels []int) (_ *wcsp.Problem, err error) {
	defer interrupt.Catch(&err)
	if err := m.check(); err != nil {
		return nil, err
	}
	if ps, err := m.WCSP.Cost(labels); err != nil {
		return nil, err
	} else if ps >= wcsp.Forbidden {
		return nil, errors.New("the labels are no plan: their combination is forbidden")
	}
	model := *m
	model.against = labels
	if err := model.build(); err != nil {
		return nil, err
	}
	if len(model.WCSP.Factors) != len(m.WCSP.Factors) {
		return nil, fmt.Errorf("the problem of the regret has %d factors, not %d", len(model.WCSP.Factors), len(m.WCSP.Factors))
	}
	return model.WCSP, nil
}

// intervals lists the parts of intervals by which the plan and the solution of a regret differ from the model's prices.
func (m *Model) intervals(regret *RegretBound, labels []int) []Interval {
	type key struct {
		variable int
		plan     bool
	}
	sums := map[key]int64{}
	for i, factor := range regret.problem.Factors {
		if len(factor.Scope) == 0 {
			continue
		}
		variable := factor.Scope[0]
		if m.isCopyFactor[i] {
			variable = factor.Scope[len(factor.Scope)-1]
		}
		nominal := m.WCSP.Factors[i].Costs
		ofPlan, _ := m.WCSP.Entry(i, labels) // both are labels of the problem
		ofOther, _ := m.WCSP.Entry(i, regret.solution.Labels)
		if ofPlan == ofOther || factor.Costs[ofOther] > nominal[ofOther] { // the price of the plan, too
			continue
		}
		sums[key{variable, true}] += factor.Costs[ofPlan] - nominal[ofPlan]
		sums[key{variable, false}] += nominal[ofOther] - factor.Costs[ofOther]
	}
	list := []Interval{}
	for k, ps := range sums {
		if ps <= 0 {
			continue
		}
		chosen := labels
		if !k.plan {
			chosen = regret.solution.Labels
		}
		variable := m.WCSP.Variables[k.variable]
		list = append(list, Interval{Choice: variable.Name, Label: variable.Labels[chosen[k.variable]], Plan: k.plan,
			NS: float64(ps) / pricing.PSPerNS})
	}
	slices.SortFunc(list, func(a, b Interval) int {
		return cmp.Or(cmp.Compare(b.NS, a.NS), cmp.Compare(a.Choice, b.Choice), cmp.Compare(a.Label, b.Label))
	})
	return list
}
