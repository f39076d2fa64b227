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
	maxUnits  = 1 << 14 // units of memory by which changes are combined
)

// nodeLimit is a limit on the bytes of the constants of a node.
type nodeLimit struct {
	node  int
	bytes int64
	ps    int64 // the cost of the cheapest plan if only this limit of the plan changes
}

// fill looks for cheaper plans near a plan that fits. The constants of every node are limited to their bytes in the
// plan. fill changes one limit at a time to find the cost of each change, and then makes the changes that together fit
// and save most. It repeats this if the plan becomes cheaper, because the costs of changes are not independent: nodes
// may need different layouts. Finally limits are raised one at a time, the greatest saving per byte first.
func (s *memorySearch) fill(p *pricedPlan) error {
	defer func(limit time.Duration) { s.options.TimeLimit = limit }(s.options.TimeLimit)
	s.options.TimeLimit = 0 // no search: there are many problems
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
	saving := func(v nodeLimit) float64 { return float64(p.PS-v.ps) / float64(v.bytes-first[v.node]) }
	variants = slices.DeleteFunc(variants, func(v nodeLimit) bool { return v.bytes <= first[v.node] || v.ps >= p.PS })
	sorted.Func(variants, func(a, b nodeLimit) int { return cmp.Compare(saving(b), saving(a)) })
	for _, v := range variants {
		limits := s.limitsOf(p)
		if more := v.bytes - limits[v.node]; more <= 0 || more > p.unused {
			continue
		}
		limits[v.node] = v.bytes
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

// nodeLimits returns limits of each node: its bytes in the plan, and other numbers of bytes only if the node itself is
// then cheaper than with fewer bytes.
func (s *memorySearch) nodeLimits(p *pricedPlan) (list []nodeLimit, err error) {
	limits := s.limitsOf(p)
	for i, bytes := range s.bytes {
		var levels []nodeLimit
		for l := range bytes {
			levels = append(levels, nodeLimit{i, bytes[l], s.model.computedNodes[i].labels[l].leastCost()})
		}
		sorted.Func(levels, func(a, b nodeLimit) int {
			return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.ps, b.ps))
		})
		least := int64(math.MaxInt64)
		for _, v := range levels {
			useful := v.ps < least || v.bytes == limits[i]
			repeated := len(list) > 0 && list[len(list)-1].node == i && list[len(list)-1].bytes == v.bytes
			least = min(least, v.ps)
			if !useful || repeated {
				continue
			}
			v.ps = p.PS
			if v.bytes != limits[i] {
				changed := slices.Clone(limits)
				changed[i] = v.bytes
				next, err := s.solveLimited(changed)
				if err != nil {
					return nil, err
				}
				if next == nil {
					continue
				}
				v.ps = next.PS
			}
			list = append(list, v)
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

// combine returns the plan with the best combination of limits if it is cheaper than p and fits, else p. Memory that
// does not depend on the limits, such as the arena, may differ between the plans: the combination may then need less
// for constants.
func (s *memorySearch) combine(p *pricedPlan, variants []nodeLimit) (*pricedPlan, error) {
	available := p.unused
	for range 2 {
		limits := s.limitsOf(p)
		for _, v := range bestCombination(variants, limits, available) {
			limits[v.node] = v.bytes
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

// bestCombination returns the variants, one limit for each node, with the least sum of costs, whose bytes exceed limits
// by at most the available bytes. It returns none if there is none. It solves a multiple-choice knapsack problem
// by dynamic programming over units of memory. Bytes are rounded up to units.
func bestCombination(variants []nodeLimit, limits []int64, available int64) (best []nodeLimit) {
	unit := int64(0)
	least := slices.Clone(limits)
	for _, v := range variants {
		least[v.node] = min(least[v.node], v.bytes)
	}
	for i := range limits {
		available += limits[i] - least[i]
	}
	for _, v := range variants {
		unit = gcd(unit, v.bytes-least[v.node])
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
			v := variants[next]
			need := int((v.bytes - least[v.node] + unit - 1) / unit)
			for u := need; u <= units; u++ {
				if sum := costs[u-need] + v.ps; sum < sums[u] && costs[u-need] < wcsp.Forbidden {
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
		v := variants[chosen[n][u]]
		best = append(best, v)
		u -= int((v.bytes - least[v.node] + unit - 1) / unit)
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
	o, err := s.model.Outcome(found.Labels)
	if err != nil {
		return nil, err
	}
	return &pricedPlan{Outcome: o, bytes: s.bytesOf(found.Labels)}, nil
}
