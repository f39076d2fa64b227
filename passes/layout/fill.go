package layout

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// This file improves a plan within a limit on memory. To examine a plan is to compute the bytes that its run needs:
// constants, and other memory, such as intermediate values and the scratch memory of kernels. A memorySearch is the
// state of [Model.CheapestWithin]: leastPS is the cost of the cheapest fitting plan so far, and bytesByLabel has, by
// node and label, the bytes of constants that the label reads. The unusedBytes of a [pricedPlan] are the limit minus
// the bytes of a run; the plan fits if they are not negative.

// Limits on the work of [memorySearch.improvePlan].
const (
	maxRounds       = 3  // maximum number of times that all limits are combined
	maxMeasured     = 32 // maximum number of plans that measureOtherBytes examines
	maxFurtherPlans = 48 // number of plans to examine after measureOtherBytes
)

// nodeLimit is a limit on the bytes of the constants of a node: a variant of the limit in the current plan.
type nodeLimit struct {
	node   int
	bytes  int64
	costPS int64 // the cost of the cheapest plan with this limit and no other change
}

// improvePlan looks for cheaper plans near the given plan, which need not fit into the memory limit. The state of the
// search is a limit for each node on the bytes of its constants, at first the bytes in the given plan. improvePlan
// changes one limit at a time to find the cost of each change. [memorySearch.combine] then makes the changes that
// together fit and save most. Both steps are repeated while the plan becomes cheaper, because the costs of changes
// depend on each other: nodes may need different layouts. Finally it raises limits one at a time, the greatest saving
// per byte first.
func (s *memorySearch) improvePlan(plan *pricedPlan) error {
	// improvePlan solves many problems. The time limit 0 stops each solution before its search.
	defer func(limit time.Duration) { s.options.TimeLimit = limit }(s.options.TimeLimit)
	s.options.TimeLimit = 0

	var variants []nodeLimit
	for round := range maxRounds {
		var err error
		if variants, err = s.nodeLimits(plan); err != nil {
			return err
		}
		if round == 0 {
			if err := s.measureOtherBytes(variants); err != nil {
				return err
			}
			s.maxExamined = len(s.runBytesByLabels) + maxFurtherPlans // runBytesByLabels has all examined plans
		}
		better, err := s.combine(plan, variants)
		if err != nil {
			return err
		} else if better == plan { // no combination is better
			break
		}
		plan = better
	}
	if plan.unusedBytes < 0 { // the plan does not fit
		return nil
	}
	return s.raiseLimits(plan, variants)
}

// raiseLimits raises limits one at a time, the greatest saving per byte first. The plan fits before and after.
func (s *memorySearch) raiseLimits(plan *pricedPlan, variants []nodeLimit) error {
	oldLimits := s.limitsOf(plan)
	savingPerByte := func(variant nodeLimit) float64 {
		return float64(plan.CostPS-variant.costPS) / float64(variant.bytes-oldLimits[variant.node])
	}
	variants = slices.DeleteFunc(slices.Clone(variants), func(variant nodeLimit) bool {
		return variant.bytes <= oldLimits[variant.node] || variant.costPS >= plan.CostPS
	})
	sorted.Func(variants, func(a, b nodeLimit) int { return cmp.Compare(savingPerByte(b), savingPerByte(a)) })
	for _, variant := range variants {
		limits := s.limitsOf(plan)
		addedBytes := variant.bytes - limits[variant.node]
		if addedBytes <= 0 || addedBytes > plan.unusedBytes || s.isExhausted() { // isExhausted: maxExamined is reached
			continue
		}
		limits[variant.node] = variant.bytes
		next, err := s.tryLimits(limits, s.leastPS)
		if err != nil {
			return err
		}
		if next != nil && next.unusedBytes >= 0 {
			plan = next
		}
	}
	return nil
}

// tryLimits returns the cheapest plan within limits of the nodes if it costs less than ceilingPS picoseconds, else
// nil. It sets unusedBytes of the plan and, if the plan fits, updates the result of the search.
func (s *memorySearch) tryLimits(limits []int64, ceilingPS int64) (*pricedPlan, error) {
	found, err := s.solveLimited(limits)
	if err != nil || found == nil || found.CostPS >= ceilingPS {
		return nil, err
	}
	_, err = s.checkFit(found)
	return found, err
}

// limitsOf returns, for each node, the bytes of the constants that a plan reads.
func (s *memorySearch) limitsOf(plan *pricedPlan) []int64 {
	limits := make([]int64, len(s.bytesByLabel))
	for i, bytes := range s.bytesByLabel {
		if bytes != nil {
			limits[i] = bytes[plan.Labels[s.model.computedNodes[i].id]]
		}
	}
	return limits
}

// nodeLimits returns the limits to consider for each node: its bytes in the plan, and each other number of bytes with
// which the node itself is cheaper than with fewer bytes.
func (s *memorySearch) nodeLimits(plan *pricedPlan) (list []nodeLimit, err error) {
	limits := s.limitsOf(plan)
	for i := range s.bytesByLabel {
		for _, variant := range s.usefulLimits(i, limits[i]) {
			variant.costPS = plan.CostPS
			if variant.bytes != limits[i] {
				changed := slices.Clone(limits)
				changed[i] = variant.bytes
				changedPlan, err := s.solveLimited(changed)
				if err != nil {
					return nil, err
				}
				if changedPlan == nil {
					continue
				}
				variant.costPS = changedPlan.CostPS
			}
			list = append(list, variant)
		}
	}
	return list, nil
}

// usefulLimits returns the limits to consider for a node, as [memorySearch.nodeLimits] specifies, in ascending order.
// current is the node's number of bytes in the plan. costPS is the least cost of the node itself with exactly this
// number of bytes.
func (s *memorySearch) usefulLimits(node int, current int64) (list []nodeLimit) {
	var candidates []nodeLimit
	for label, bytes := range s.bytesByLabel[node] {
		costPS := s.model.computedNodes[node].labels[label].leastCost()
		candidates = append(candidates, nodeLimit{node, bytes, costPS})
	}
	sorted.Func(candidates, func(a, b nodeLimit) int {
		return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.costPS, b.costPS))
	})
	leastPS := int64(math.MaxInt64)
	for _, variant := range candidates {
		isUseful := variant.costPS < leastPS || variant.bytes == current
		leastPS = min(leastPS, variant.costPS)
		if isDuplicate := len(list) > 0 && list[len(list)-1].bytes == variant.bytes; isUseful && !isDuplicate {
			list = append(list, variant)
		}
	}
	return list
}

// leastCost returns the cost of a label (a way to compute a node) that reads each operand in the cheapest layout.
func (l *label) leastCost() int64 {
	sum := l.cost
	for _, costs := range l.readCosts {
		if len(costs) > 0 {
			sum += slices.Min(costs)
		}
	}
	return sum
}

// solveLimited returns the cheapest plan in which the constants of each node have at most the given bytes, or nil if
// none is found without search.
func (s *memorySearch) solveLimited(limits []int64) (*pricedPlan, error) {
	problem := s.withCosts(func(node int, bytes int64) int64 {
		if bytes > limits[node] {
			return wcsp.Forbidden
		}
		return 0
	})
	found, err := wcsp.Exact.Solve(problem, s.options)
	if err != nil {
		var infeasible *wcsp.InfeasibleError
		if errors.Is(err, wcsp.ErrNotFound) || errors.As(err, &infeasible) {
			return nil, nil
		}
		return nil, err
	}
	outcome, err := s.model.Outcome(found.Labels) // the plan for these labels, with its cost
	if err != nil {
		return nil, err
	}
	return &pricedPlan{Outcome: outcome, constantBytes: s.bytesOf(found.Labels)}, nil
}
