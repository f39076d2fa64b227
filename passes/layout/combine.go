package layout

import (
	"cmp"
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/sorted"
)

// This file is the last stage of [Model.CheapestWithin], which looks for the cheapest plan whose run fits into a limit
// on memory. It combines changes of several nodes to a plan that fits. To examine a plan is to compute the bytes that
// its run needs.
//
// A run needs memory for constants, and other memory: inputs, intermediate values, scratch memory of kernels. The
// constants of all nodes add up, but the other memory is the greatest need of any step. With a limit of 100 MB, for
// example, the constants may have 90 MB if no step needs more than 10 MB of other memory. They may have 60 MB if a step
// needs 40 MB of other memory. [memorySearch.combine] tries such divisions of the limit. For each, it finds the
// cheapest constants that fit.
//
// Other files define these types:
//
//   - pricedPlan: a plan. CostPS is its cost in picoseconds, constantBytes the bytes of its constants, and unusedBytes
//     the limit minus the bytes of a run. The plan fits if unusedBytes is at least 0.
//   - nodeLimit: a limit on the bytes of the constants of one node. Its costPS is the cost of the plan in which only
//     this limit is changed.
//   - memorySearch: the state of CheapestWithin. leastPS is the cost of the cheapest fitting plan so far. bytesByLabel
//     is nil for a node whose constants are the same in all plans.

// combination is a choice of limits on the constants of nodes.
type combination struct {
	limits     []int64 // by node, in bytes
	costPS     int64   // the predicted cost of the plan with these limits, in picoseconds
	otherBytes int64   // the limit on other memory, in bytes
}

// constantBytes returns the bytes of constants that the limits allow.
func (c *combination) constantBytes() (sum int64) {
	for _, limit := range c.limits {
		sum += limit
	}
	return sum
}

// combiner finds combinations of changes of a plan.
type combiner struct {
	search     *memorySearch
	plan       *pricedPlan
	nodeLimits []nodeLimit    // the possible limits of each node; the limits of a node are adjacent
	candidates []*combination // combinations to examine
	skipped    []*combination // combinations to examine after the first plan fits
}

// maxCombinations is the maximum number of combinations that [memorySearch.combine] examines.
const maxCombinations = 64

// combine returns a plan that fits and is cheaper than all fitting plans so far, or else the given plan. It examines
// combinations in the order of their predicted costs, at first the cheapest for each amount of other memory. The plan
// of a combination may not fit, because there are gaps between values in memory, or because the estimate of its other
// memory is too small. Then a combination with fewer bytes of constants becomes a candidate:
//
//   - Before any plan fits, the bytes are reduced by the excess of the plan. This may skip combinations, which are
//     examined after a plan fits.
//   - Later, the bytes are reduced by one.
func (s *memorySearch) combine(plan *pricedPlan, nodeLimits []nodeLimit) (*pricedPlan, error) {
	combiner := &combiner{search: s, plan: plan, nodeLimits: nodeLimits}
	for _, otherBytes := range combiner.otherByteCounts() {
		combiner.addCombination(&combiner.candidates, otherBytes, s.limit-otherBytes)
	}
	best := plan
	for range maxCombinations {
		candidate := removeCheapest(&combiner.candidates)
		if candidate == nil || candidate.costPS >= s.leastPS || s.isExhausted() {
			break
		}
		fitting, fittingBytes, err := s.examine(candidate)
		if err != nil {
			return nil, err
		}
		noneFitsYet, fewerBytes := best == plan, candidate.constantBytes()-1
		switch {
		case fitting != nil && noneFitsYet: // cheaper plans that fit may be among the skipped combinations
			best, combiner.candidates = fitting, combiner.skipped
		case fitting != nil:
			best = fitting
		case noneFitsYet: // reduce the bytes by the excess of the plan
			combiner.addCombination(&combiner.candidates, candidate.otherBytes, min(fittingBytes, fewerBytes))
			combiner.addCombination(&combiner.skipped, candidate.otherBytes, fewerBytes)
		default: // reduce the bytes by one
			combiner.addCombination(&combiner.candidates, candidate.otherBytes, fewerBytes)
		}
	}
	return best, nil
}

// otherByteCounts returns the bytes of other memory that the limits need, each number once, in ascending order.
func (c *combiner) otherByteCounts() (counts []int64) {
	for _, limit := range c.nodeLimits {
		counts = append(counts, c.search.otherBytesOf(limit))
	}
	sorted.Func(counts, func(a, b int64) int { return cmp.Compare(a, b) })
	return slices.Compact(counts)
}

// addCombination adds the result of [combiner.cheapest] to a list, unless the list has it.
func (c *combiner) addCombination(list *[]*combination, otherBytes, constantBytes int64) {
	added := c.cheapest(otherBytes, constantBytes)
	isListed := func(listed *combination) bool { return slices.Equal(added.limits, listed.limits) }
	if added != nil && !slices.ContainsFunc(*list, isListed) {
		*list = append(*list, added)
	}
}

// cheapest returns the combination of least predicted cost whose constants have at most constantBytes bytes, and that
// needs at most otherBytes bytes of other memory. It returns nil if there is none.
func (c *combiner) cheapest(otherBytes, constantBytes int64) *combination {
	needsMore := func(limit nodeLimit) bool { return c.search.otherBytesOf(limit) > otherBytes }
	allowed := slices.DeleteFunc(slices.Clone(c.nodeLimits), needsMore)
	if countNodes(allowed) < countNodes(c.nodeLimits) { // a node has no allowed limit
		return nil
	}
	chosen := &combination{limits: c.search.limitsOf(c.plan), costPS: c.plan.CostPS, otherBytes: otherBytes}
	best := bestCombination(allowed, chosen.limits, constantBytes-c.plan.constantBytes) // a knapsack problem
	if best == nil {
		return nil
	}
	for _, limit := range best { // predict that the differences of cost add up
		chosen.limits[limit.node] = limit.bytes
		chosen.costPS += limit.costPS - c.plan.CostPS
	}
	return chosen
}

// countNodes returns the number of nodes that have a limit in the list. The limits of a node are adjacent.
func countNodes(list []nodeLimit) int {
	return len(slices.CompactFunc(slices.Clone(list), func(a, b nodeLimit) bool { return a.node == b.node }))
}

// removeCheapest removes the combination of least predicted cost from a list and returns it. It returns nil if there
// is none.
func removeCheapest(list *[]*combination) *combination {
	if len(*list) == 0 {
		return nil
	}
	cheapest := slices.MinFunc(*list, func(a, b *combination) int { return cmp.Compare(a.costPS, b.costPS) })
	k := slices.Index(*list, cheapest)
	*list = slices.Delete(*list, k, k+1)
	return cheapest
}

// examine returns a plan with the limits of a combination that fits and is cheaper than all fitting plans so far. If
// there is none, it returns the bytes of constants with which a plan would fit. It examines three orders of the limits
// of equal nodes, because the order affects the gaps in memory.
func (s *memorySearch) examine(candidate *combination) (fitting *pricedPlan, fittingBytes int64, err error) {
	fittingBytes = math.MinInt64
	for _, order := range []limitOrder{unchanged, ascending, descending} {
		tried, err := s.tryLimits(s.rearranged(candidate.limits, order), s.leastPS)
		if err != nil {
			return nil, 0, err
		}
		if tried == nil {
			continue
		}
		if tried.unusedBytes >= 0 {
			return tried, 0, nil
		}
		fittingBytes = max(fittingBytes, tried.constantBytes+tried.unusedBytes)
	}
	if fittingBytes == math.MinInt64 { // no order gave a cheaper plan, so the excess is unknown
		fittingBytes = candidate.constantBytes()
	}
	return nil, fittingBytes, nil
}

// limitOrder is an order of the limits of equal nodes. The value of an order is its factor for comparisons.
type limitOrder int

const (
	unchanged  limitOrder = 0
	ascending  limitOrder = 1
	descending limitOrder = -1
)

// rearranged returns limits by node, in the given order within each class of equal nodes (findClasses).
func (s *memorySearch) rearranged(limits []int64, order limitOrder) []int64 {
	result := slices.Clone(limits)
	if order == unchanged {
		return result
	}
	nodesOf := map[int64][]int{} // by class: indices of its nodes
	for i, bytes := range s.bytesByLabel {
		if bytes != nil {
			nodesOf[s.classes[i]] = append(nodesOf[s.classes[i]], i)
		}
	}
	for _, nodes := range nodesOf {
		var values []int64
		for _, i := range nodes {
			values = append(values, limits[i])
		}
		sorted.Func(values, func(a, b int64) int { return int(order) * cmp.Compare(a, b) })
		for k, i := range nodes {
			result[i] = values[k]
		}
	}
	return result
}

// isExhausted reports whether the search may examine no further plan.
func (s *memorySearch) isExhausted() bool { return len(s.runBytesByLabels) >= s.maxExamined }
