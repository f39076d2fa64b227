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

// Limits on the work of [memorySearch.fill].
const (
	maxRounds = 2
	maxUnits  = 1 << 14 // maximum number of units of memory in bestCombination
)

// nodeLimit is a limit on the bytes of the constants of a node.
type nodeLimit struct {
	node  int
	bytes int64
	ps    int64 // the cost of the cheapest plan with this limit and no other change
}

// fill looks for cheaper plans near a plan that fits into the memory limit. The state of the search is a limit for
// each node on the bytes of its constants, at first the bytes in the given plan. fill changes one limit at a time to
// find the cost of each change, and then makes the changes that together fit and save most. It repeats this while the
// plan becomes cheaper, because the costs of changes depend on each other: nodes may need different layouts. Finally
// it raises limits one at a time, the greatest saving per byte first.
func (s *memorySearch) fill(p *pricedPlan) error {
	defer func(limit time.Duration) { s.options.TimeLimit = limit }(s.options.TimeLimit)
	s.options.TimeLimit = 0 // no search, because many problems are solved
	var variants []nodeLimit
	for range maxRounds {
		var err error
		if variants, err = s.nodeLimits(p); err != nil {
			return err
		}
		better, err := s.combine(p, variants)
		if err != nil {
			return err
		} else if better == p {
			break
		}
		p = better
	}
	first := s.limitsOf(p)
	saving := func(variant nodeLimit) float64 {
		return float64(p.PS-variant.ps) / float64(variant.bytes-first[variant.node])
	}
	variants = slices.DeleteFunc(variants, func(variant nodeLimit) bool {
		return variant.bytes <= first[variant.node] || variant.ps >= p.PS
	})
	sorted.Func(variants, func(a, b nodeLimit) int { return cmp.Compare(saving(b), saving(a)) })
	for _, variant := range variants {
		limits := s.limitsOf(p)
		if more := variant.bytes - limits[variant.node]; more <= 0 || more > p.unused {
			continue
		}
		limits[variant.node] = variant.bytes
		next, err := s.solveLimited(limits)
		if err != nil {
			return err
		}
		if next == nil || next.PS >= p.PS {
			continue
		}
		if fits, err := s.checkFit(next); err != nil {
			return err
		} else if fits {
			p = next
		}
	}
	return nil
}

// limitsOf returns, for each node, the bytes of the constants that a plan reads.
func (s *memorySearch) limitsOf(p *pricedPlan) []int64 {
	limits := make([]int64, len(s.bytes))
	for i, bytes := range s.bytes {
		if bytes != nil {
			limits[i] = bytes[p.Labels[s.model.computedNodes[i].id]]
		}
	}
	return limits
}

// nodeLimits returns the limits to consider for each node: its bytes in the plan, and each other number of bytes with
// which the node itself is cheaper than with fewer bytes.
func (s *memorySearch) nodeLimits(p *pricedPlan) (list []nodeLimit, err error) {
	limits := s.limitsOf(p)
	for i, bytes := range s.bytes {
		var levels []nodeLimit
		for label := range bytes {
			levels = append(levels, nodeLimit{i, bytes[label], s.model.computedNodes[i].labels[label].leastCost()})
		}
		sorted.Func(levels, func(a, b nodeLimit) int {
			return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.ps, b.ps))
		})
		least := int64(math.MaxInt64)
		for _, variant := range levels {
			useful := variant.ps < least || variant.bytes == limits[i]
			repeated := len(list) > 0 && list[len(list)-1].node == i && list[len(list)-1].bytes == variant.bytes
			least = min(least, variant.ps)
			if !useful || repeated {
				continue
			}
			variant.ps = p.PS
			if variant.bytes != limits[i] {
				changed := slices.Clone(limits)
				changed[i] = variant.bytes
				next, err := s.solveLimited(changed)
				if err != nil {
					return nil, err
				}
				if next == nil {
					continue
				}
				variant.ps = next.PS
			}
			list = append(list, variant)
		}
	}
	return list, nil
}

// leastCost returns the cost of a label that reads each operand in the cheapest form.
func (l *label) leastCost() int64 {
	sum := l.cost
	for _, costs := range l.readCosts {
		if len(costs) > 0 {
			sum += slices.Min(costs)
		}
	}
	return sum
}

// combine returns the plan with the best combination of limits if this plan is cheaper than p and fits, else p. If
// the plan does not fit because its other memory is larger, such as the arena, combine tries again with less memory
// for constants.
func (s *memorySearch) combine(p *pricedPlan, variants []nodeLimit) (*pricedPlan, error) {
	available := p.unused
	for range 2 {
		limits := s.limitsOf(p)
		for _, variant := range bestCombination(variants, limits, available) {
			limits[variant.node] = variant.bytes
		}
		next, err := s.solveLimited(limits)
		if err != nil || next == nil || next.PS >= p.PS {
			return p, err
		}
		fits, err := s.checkFit(next)
		if err != nil {
			return nil, err
		}
		if fits {
			return next, nil
		}
		available += next.unused
	}
	return p, nil
}

// bestCombination chooses one variant for each node: the combination of least total cost whose bytes exceed those of
// limits by at most the available bytes. It returns nil if no combination fits. It solves a multiple-choice knapsack
// problem by dynamic programming over units of memory. Bytes are rounded up to units.
func bestCombination(variants []nodeLimit, limits []int64, available int64) (best []nodeLimit) {
	unit := int64(0)
	least := slices.Clone(limits)
	for _, variant := range variants {
		least[variant.node] = min(least[variant.node], variant.bytes)
	}
	for i := range limits {
		available += limits[i] - least[i]
	}
	for _, variant := range variants {
		unit = gcd(unit, variant.bytes-least[variant.node])
	}
	unit = max(unit, (available+maxUnits-1)/maxUnits, 1)
	units := int(available / unit)
	if units < 0 {
		return nil
	}
	costs := make([]int64, units+1) // indexed by units: the least cost of the nodes so far
	var chosen [][]int32            // indexed by node and units: the index of the limit
	for first, next := 0, 0; first < len(variants); first = next {
		sums, choice := make([]int64, units+1), make([]int32, units+1)
		for u := range sums {
			sums[u] = wcsp.Forbidden
		}
		for next = first; next < len(variants) && variants[next].node == variants[first].node; next++ {
			variant := variants[next]
			need := int((variant.bytes - least[variant.node] + unit - 1) / unit)
			for u := need; u <= units; u++ {
				if sum := costs[u-need] + variant.ps; sum < sums[u] && costs[u-need] < wcsp.Forbidden {
					sums[u], choice[u] = sum, int32(next)
				}
			}
		}
		costs, chosen = sums, append(chosen, choice)
	}
	if costs[units] >= wcsp.Forbidden {
		return nil
	}
	for u, n := units, len(chosen)-1; n >= 0; n-- {
		variant := variants[chosen[n][u]]
		best = append(best, variant)
		u -= int((variant.bytes - least[variant.node] + unit - 1) / unit)
	}
	return best
}

// gcd returns the greatest common divisor of two numbers that are at least 0.
func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// solveLimited returns the cheapest plan in which the constants of each node have at most the given bytes, or nil if
// none is found without search.
func (s *memorySearch) solveLimited(limits []int64) (*pricedPlan, error) {
	p := s.withCosts(func(node int, bytes int64) int64 {
		if bytes > limits[node] {
			return wcsp.Forbidden
		}
		return 0
	})
	found, err := wcsp.Exact.Solve(p, s.options)
	if err != nil {
		var infeasible *wcsp.InfeasibleError
		if errors.Is(err, wcsp.ErrNotFound) || errors.As(err, &infeasible) {
			return nil, nil
		}
		return nil, err
	}
	outcome, err := s.model.Outcome(found.Labels)
	if err != nil {
		return nil, err
	}
	return &pricedPlan{Outcome: outcome, bytes: s.bytesOf(found.Labels)}, nil
}
