package verify

import (
	"fmt"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// factorsOf returns the factors of v by their other variable. A factor over v alone has the key v. The index is built
// at the first call.
func (c *checker) factorsOf(v int) map[int][]int {
	if c.pairs == nil {
		c.pairs = make([]map[int][]int, len(c.problem.Variables))
		for i, f := range c.problem.Factors {
			for k, u := range f.Scope {
				if c.pairs[u] == nil {
					c.pairs[u] = map[int][]int{}
				}
				other := f.Scope[len(f.Scope)-1-k]
				c.pairs[u][other] = append(c.pairs[u][other], i)
			}
		}
	}
	return c.pairs[v]
}

// prune checks that the pruned label costs at least as much as By for all labels of the neighbours, and removes it.
// Factors over the same two variables are added up. The least differences over the labels of each neighbour must then
// add up to at least 0.
func (c *checker) prune(pr wcsp.Pruning) error {
	v := pr.Variable
	if v < 0 || v >= len(c.remainingLabels) {
		return fmt.Errorf("no variable %d", v)
	}
	index := slices.Index(c.remainingLabels[v], pr.Label)
	if index < 0 || !slices.Contains(c.remainingLabels[v], pr.By) || pr.Label == pr.By {
		return fmt.Errorf("labels %d and %d of variable %d are not two remaining labels", pr.Label, pr.By, v)
	}
	var sum int64
	// isForbidden: a neighbour forbids Label for all its labels. byIsWorse: By is forbidden where Label is not.
	isForbidden, byIsWorse := false, false
	others := c.factorsOf(v)
	for _, other := range slices.Sorted(maps.Keys(others)) {
		least := wcsp.Forbidden
		labels := c.remainingLabels[other]
		if other == v {
			labels = []int{0}
		}
		c.count(2 * len(labels) * len(others[other]))
		for _, l := range labels {
			a, b := c.pairCost(others[other], v, pr.Label, l), c.pairCost(others[other], v, pr.By, l)
			switch {
			case a == wcsp.Forbidden:
			case b == wcsp.Forbidden:
				least, byIsWorse = min(least, 0), true
			default:
				least = min(least, a-b)
			}
		}
		if least == wcsp.Forbidden {
			isForbidden = true
		} else {
			sum += least // sums are exact: problem has checked their range
		}
	}
	if !isForbidden && (byIsWorse || sum < 0) {
		return fmt.Errorf("variable %d: label %d can cost less than label %d", v, pr.Label, pr.By)
	}
	c.remainingLabels[v] = slices.Delete(slices.Clone(c.remainingLabels[v]), index, index+1)
	return nil
}

// pairCost returns a sum of factors over v alone, or over v and one other variable. k is the label of v, and l the
// label of the other variable.
func (c *checker) pairCost(factors []int, v, k, l int) int64 {
	var sum int64
	for _, i := range factors {
		f := &c.problem.Factors[i]
		index := k
		if len(f.Scope) == 2 && f.Scope[0] == v {
			index = k*len(c.problem.Variables[f.Scope[1]].Labels) + l
		} else if len(f.Scope) == 2 {
			index = l*len(c.problem.Variables[v].Labels) + k
		}
		sum = add(sum, f.Costs[index])
	}
	return sum
}
