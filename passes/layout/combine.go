package layout

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/sorted"
)

// This file is the last stage of [Model.CheapestWithin]: it combines changes of several nodes to a plan that fits into
// the limit on memory. A [nodeLimit] is such a change: it limits the bytes of the constants of one node.
//
// A run needs memory for constants, and other memory: inputs, intermediate values, scratch memory of kernels. The
// constants of all nodes add up, but the other memory of a plan is the greatest need of any of its steps. With a limit
// of 100 MB, for example, the constants may have 90 MB if no step needs more than 10 MB of other memory, or 60 MB if a
// step needs 40 MB. [memorySearch.combine] tries such divisions of the limit, and for each the cheapest constants that
// fit (a knapsack problem, see [bestCombination]).
//
// The other memory that a step needs depends on the label of its node (the way to compute the node). It is not known,
// but it is at most the other memory of each examined plan in which the node has this label. The least of these upper
// bounds is recorded: see [memorySearch.recordOtherMemory].

// combination is a choice of limits on the constants of nodes.
type combination struct {
	limits     []int64 // by node, in bytes
	costPS     int64   // the predicted cost of the plan with these limits
	otherBytes int64   // the limit on the other memory of each node
}

// maxCombinations is the maximum number of combinations that [memorySearch.combine] examines.
const maxCombinations = 64

// combine returns a plan that fits and is cheaper than all fitting plans so far, or else the given plan.
//
//   - For each amount of other memory that a nodeLimit requires, the rest of the memory remains for constants.
//     The cheapest combination whose constants fit into the rest is a candidate.
//   - combine examines the candidates in the order of their predicted costs. A candidate may not fit, because the arena
//     has gaps or the recorded bounds are too small. A candidate with fewer bytes for constants then replaces it: fewer
//     by the bytes by which the plan exceeds the limit.
//   - When a plan fits, combine examines the skipped combinations in the same order.
func (s *memorySearch) combine(plan *pricedPlan, nodeLimits []nodeLimit) (*pricedPlan, error) {
	var candidates, skipped []*combination
	var otherByteCounts []int64
	for _, limit := range nodeLimits {
		otherByteCounts = append(otherByteCounts, s.otherBytesOf(limit))
	}
	sorted.Func(otherByteCounts, func(a, b int64) int { return cmp.Compare(a, b) })
	add := func(list []*combination, otherBytes, constantBytes int64) []*combination {
		return s.addCombination(list, plan, nodeLimits, otherBytes, constantBytes)
	}
	for _, otherBytes := range slices.Compact(otherByteCounts) {
		candidates = add(candidates, otherBytes, s.limit-otherBytes)
	}
	best := plan
	for range maxCombinations {
		candidate := removeCheapest(&candidates)
		if candidate == nil || candidate.costPS >= s.leastPS || s.isExhausted() {
			break
		}
		fittingBytes, fitting, err := s.examine(candidate, s.leastPS)
		if err != nil {
			return nil, err
		}
		noneFitsYet := best == plan
		otherBytes, fewerBytes := candidate.otherBytes, candidate.constantBytes()-1
		switch {
		case fitting != nil && noneFitsYet:
			best, candidates = fitting, skipped
		case fitting != nil:
			best = fitting
		case noneFitsYet: // reduce the bytes to a number with which a plan would fit
			candidates = add(candidates, otherBytes, min(fittingBytes, fewerBytes))
			skipped = add(skipped, otherBytes, fewerBytes)
		default:
			candidates = add(candidates, otherBytes, fewerBytes)
		}
	}
	return best, nil
}

// addCombination adds the result of [memorySearch.cheapestCombination] to a list, unless the list has it.
func (s *memorySearch) addCombination(list []*combination, plan *pricedPlan, nodeLimits []nodeLimit, otherBytes,
	constantBytes int64) []*combination {
	added := s.cheapestCombination(plan, nodeLimits, otherBytes, constantBytes)
	isListed := func(listed *combination) bool { return slices.Equal(added.limits, listed.limits) }
	if added == nil || slices.ContainsFunc(list, isListed) {
		return list
	}
	return append(list, added)
}

// cheapestCombination returns the limits of least predicted cost whose constants have at most the given bytes, and that
// require at most the given other memory. It returns nil if there are none.
func (s *memorySearch) cheapestCombination(plan *pricedPlan, nodeLimits []nodeLimit,
	otherBytes, constantBytes int64) *combination {
	needsMore := func(limit nodeLimit) bool { return s.otherBytesOf(limit) > otherBytes }
	allowed := slices.DeleteFunc(slices.Clone(nodeLimits), needsMore)
	countNodes := func(list []nodeLimit) int {
		return len(slices.CompactFunc(slices.Clone(list), func(a, b nodeLimit) bool { return a.node == b.node }))
	}
	if countNodes(allowed) < countNodes(nodeLimits) { // a node has no allowed limit
		return nil
	}
	chosen := &combination{limits: s.limitsOf(plan), costPS: plan.CostPS, otherBytes: otherBytes}
	best := bestCombination(allowed, chosen.limits, constantBytes-plan.constantBytes)
	if best == nil {
		return nil
	}
	for _, limit := range best {
		chosen.limits[limit.node] = limit.bytes
		chosen.costPS += limit.costPS - plan.CostPS
	}
	return chosen
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

// constantBytes returns the bytes of constants that the limits allow.
func (c *combination) constantBytes() (sum int64) {
	for _, limit := range c.limits {
		sum += limit
	}
	return sum
}

// examine returns a plan with the limits of a combination that fits and costs less than maxPS picoseconds. If there is
// none, it returns the bytes of constants with which a plan would fit. It examines three orders of the limits of equal
// nodes, because the order affects the gaps in the arena.
func (s *memorySearch) examine(candidate *combination, maxPS int64) (fittingBytes int64, fitting *pricedPlan,
	err error) {
	fittingBytes = math.MinInt64
	for _, sign := range []int{0, 1, -1} {
		tried, err := s.tryLimits(s.rearranged(candidate.limits, sign), maxPS)
		if err != nil {
			return 0, nil, err
		}
		if tried == nil {
			continue
		}
		if tried.unusedBytes >= 0 {
			return 0, tried, nil
		}
		fittingBytes = max(fittingBytes, tried.constantBytes+tried.unusedBytes)
	}
	if fittingBytes == math.MinInt64 {
		fittingBytes = candidate.constantBytes()
	}
	return fittingBytes, nil, nil
}

// rearranged sorts the limits within each class of nodes: in ascending order if sign is 1, in descending order if sign
// is -1. If sign is 0, it returns the limits unchanged.
func (s *memorySearch) rearranged(limits []int64, sign int) []int64 {
	result := slices.Clone(limits)
	if sign == 0 {
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
		sorted.Func(values, func(a, b int64) int { return sign * cmp.Compare(a, b) })
		for k, i := range nodes {
			result[i] = values[k]
		}
	}
	return result
}

// isExhausted reports whether the search may examine no further plan.
func (s *memorySearch) isExhausted() bool { return len(s.runBytesByLabels) >= s.maxExamined }

// classLevel is a class of nodes, and a number of bytes of constants that such a node can read. Nodes of a class have
// results of equal size, and labels with equal bytes and costs. Their kernels probably need equal scratch memory.
type classLevel struct {
	class, bytes int64
}

// findClasses sets the class of each node that has a choice.
func (s *memorySearch) findClasses() {
	s.classes = make([]int64, len(s.bytesByLabel))
	classOf := map[string]int64{} // by the properties that nodes of a class have in common
	for i, bytes := range s.bytesByLabel {
		if bytes == nil {
			continue
		}
		computed := s.model.computedNodes[i]
		resultBytes := int64(0)
		for _, v := range computed.node.Out {
			resultBytes += int64(v.Meta.Bytes())
		}
		properties := []int64{resultBytes}
		for label, labelBytes := range bytes {
			properties = append(properties, labelBytes, computed.labels[label].leastCost())
		}
		text := fmt.Sprint(properties)
		if _, known := classOf[text]; !known {
			classOf[text] = int64(len(classOf))
		}
		s.classes[i] = classOf[text]
	}
}

// recordOtherMemory records the other memory of a plan for the level (class and bytes) of each of its nodes. runBytes
// are the bytes that a run of the plan needs.
func (s *memorySearch) recordOtherMemory(plan *pricedPlan, runBytes int64) {
	for i, bytes := range s.limitsOf(plan) {
		if s.bytesByLabel[i] != nil {
			level := classLevel{s.classes[i], bytes}
			if other, known := s.otherBytes[level]; !known || runBytes-plan.constantBytes < other {
				s.otherBytes[level] = runBytes - plan.constantBytes
			}
		}
	}
}

// otherBytesOf returns the bytes of other memory that a plan with the limit needs. If no such plan was examined, it
// returns the other memory of the plan with the smallest constants.
func (s *memorySearch) otherBytesOf(limit nodeLimit) int64 {
	if other, known := s.otherBytes[s.levelOf(limit)]; known {
		return other
	}
	return s.limit - s.smallest.unusedBytes - s.smallest.constantBytes
}

func (s *memorySearch) levelOf(limit nodeLimit) classLevel {
	return classLevel{s.classes[limit.node], limit.bytes}
}

// measureOtherBytes examines a plan for each unknown level of nodeLimits. Each plan differs in one node from the plan
// with the smallest constants.
func (s *memorySearch) measureOtherBytes(nodeLimits []nodeLimit) error {
	examinedAtEnd := len(s.runBytesByLabels) + maxMeasured // number of examined plans at which measureOtherBytes ends
	for _, limit := range nodeLimits {
		if _, known := s.otherBytes[s.levelOf(limit)]; known {
			continue
		}
		if len(s.runBytesByLabels) >= examinedAtEnd {
			break
		}
		limits := s.limitsOf(s.smallest)
		limits[limit.node] = limit.bytes
		if _, err := s.tryLimits(limits, math.MaxInt64); err != nil {
			return err
		}
	}
	return nil
}
