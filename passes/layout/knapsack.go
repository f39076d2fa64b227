package layout

import (
	"slices"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// maxUnits is the maximum number of units of memory in bestCombination.
const maxUnits = 1 << 14

// bestCombination chooses one variant for each node of the list. The combination has the least total cost among those
// that need at most the available bytes more than limits. bestCombination returns nil if no combination fits. It solves
// a multiple-choice knapsack problem by dynamic programming over units of memory. Bytes are rounded up to units.
func bestCombination(variants []nodeLimit, limits []int64, available int64) (best []nodeLimit) {
	unit := int64(0)                   // bytes of a unit
	leastBytes := slices.Clone(limits) // by node: the fewest bytes of its variants, which take 0 units
	for _, variant := range variants {
		leastBytes[variant.node] = min(leastBytes[variant.node], variant.bytes)
	}
	for i := range limits {
		available += limits[i] - leastBytes[i]
	}
	for _, variant := range variants {
		unit = gcd(unit, variant.bytes-leastBytes[variant.node])
	}
	unit = max(unit, (available+maxUnits-1)/maxUnits, 1)
	units := int(available / unit)
	if units < 0 {
		return nil
	}
	unitsOf := func(variant nodeLimit) int { return int((variant.bytes - leastBytes[variant.node] + unit - 1) / unit) }
	costs := make([]int64, units+1) // by units used: the least cost of the nodes so far
	var chosen [][]int32            // by node and units used: the index in variants
	// The variants of a node are adjacent, from first to next-1.
	for first, next := 0, 0; first < len(variants); first = next {
		sums, choice := make([]int64, units+1), make([]int32, units+1) // costs and chosen with this node
		for used := range sums {
			sums[used] = wcsp.Forbidden
		}
		for next = first; next < len(variants) && variants[next].node == variants[first].node; next++ {
			variant := variants[next]
			variantUnits := unitsOf(variant)
			for used := variantUnits; used <= units; used++ {
				costBefore := costs[used-variantUnits]
				if sum := costBefore + variant.costPS; sum < sums[used] && costBefore < wcsp.Forbidden {
					sums[used], choice[used] = sum, int32(next)
				}
			}
		}
		costs, chosen = sums, append(chosen, choice)
	}
	if costs[units] >= wcsp.Forbidden {
		return nil
	}
	for used, node := units, len(chosen)-1; node >= 0; node-- {
		variant := variants[chosen[node][used]]
		best = append(best, variant)
		used -= unitsOf(variant)
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
