package layout

import (
	"slices"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// maxUnits is the maximum number of units of memory in bestCombination.
const maxUnits = 1 << 14

// bestCombination chooses one variant (a number of bytes, and a cost) for each node of the list. limits has the present
// bytes by node. The combination has the least total cost among the combinations that need at most `available` bytes
// more than the present bytes. bestCombination returns nil if no combination fits. The variants of a node are adjacent
// in the list, in any order.
//
// For example, let nodes 0 and 1 both have the variants (8 bytes, cost 5) and (4 bytes, cost 9). Let limits be [4, 4]
// and available be 4. One of the nodes can have 8 bytes, so that the cost is 5+9.
//
// It is a multiple-choice knapsack problem. bestCombination solves it by dynamic programming over units of memory. A
// unit is the greatest common divisor of all differences of bytes (here 4), or more if there would be more than
// maxUnits units. Bytes are rounded up to units. A node's smallest variant takes 0 units.
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
	costs := make([]int64, units+1)                                // by units used: the least cost of the nodes so far
	var chosen [][]int32                                           // by node and units used: the index in variants
	for first, next := 0, 0; first < len(variants); first = next { // first to next-1 are the variants of one node
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
	for used, node := units, len(chosen)-1; node >= 0; node-- { // follow the choices back from the last node
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
