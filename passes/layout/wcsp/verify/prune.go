package verify

import (
	"fmt"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// applyPruning checks that pruning.Label costs at least as much as pruning.By for all labels of the neighbours, and
// removes Label (Goldstein's criterion). Factors over the same two variables are added up. For each neighbour, take the
// least value of cost(Label) - cost(By) over the neighbour's labels. The sum of these values must be at least 0. The
// factors over the variable alone count as one more neighbour, which has a single label.
//
// For example, let the factors over the variable alone cost 2 more for Label than for By. With the two labels of its
// only neighbour, Label costs 1 and 5, and By 3 and 4. The differences are 2 and min(1-3, 5-4) = -2; their sum is 0, so
// Label may be removed.
func (c *checker) applyPruning(pruning wcsp.Pruning) error {
	variable := pruning.Variable
	if variable < 0 || variable >= len(c.remainingLabels) {
		return fmt.Errorf("variable %d does not exist", variable)
	}
	index := slices.Index(c.remainingLabels[variable], pruning.Label)
	if index < 0 || !slices.Contains(c.remainingLabels[variable], pruning.By) || pruning.Label == pruning.By {
		return fmt.Errorf("labels %d and %d of variable %d are not two remaining labels", pruning.Label, pruning.By, variable)
	}
	var sum int64
	// labelIsForbidden: for some neighbour, Label is forbidden with every label of the neighbour. byIsWorse: for some
	// label of a neighbour, By is forbidden and Label is allowed.
	labelIsForbidden, byIsWorse := false, false
	factorsByNeighbour := c.factorsOf(variable)
	for _, neighbour := range slices.Sorted(maps.Keys(factorsByNeighbour)) {
		leastDifference := wcsp.Forbidden
		labels := c.remainingLabels[neighbour]
		if neighbour == variable {
			labels = []int{0} // factors over the variable alone: pairCost ignores this label
		}
		c.countSteps(2 * len(labels) * len(factorsByNeighbour[neighbour]))
		for _, neighbourLabel := range labels {
			cost := c.pairCost(factorsByNeighbour[neighbour], variable, pruning.Label, neighbourLabel)
			byCost := c.pairCost(factorsByNeighbour[neighbour], variable, pruning.By, neighbourLabel)
			switch {
			case cost == wcsp.Forbidden:
			case byCost == wcsp.Forbidden:
				leastDifference, byIsWorse = min(leastDifference, 0), true // the value does not matter, but must not stay Forbidden
			default:
				leastDifference = min(leastDifference, cost-byCost)
			}
		}
		if leastDifference == wcsp.Forbidden {
			labelIsForbidden = true
		} else {
			sum += leastDifference // sums are exact: checkProblem has checked their range
		}
	}
	if !labelIsForbidden && (byIsWorse || sum < 0) {
		return fmt.Errorf("variable %d: label %d can cost less than label %d", variable, pruning.Label, pruning.By)
	}
	c.remainingLabels[variable] = slices.Delete(slices.Clone(c.remainingLabels[variable]), index, index+1)
	return nil
}

// pairCost returns the sum of the costs of factors if v has label and the other variable has otherLabel. factors are
// indices in problem.Factors. Factors over v alone ignore otherLabel.
func (c *checker) pairCost(factors []int, v, label, otherLabel int) int64 {
	var sum int64
	for _, i := range factors {
		f := &c.problem.Factors[i]
		index := label
		if len(f.Scope) == 2 && f.Scope[0] == v {
			index = label*len(c.problem.Variables[f.Scope[1]].Labels) + otherLabel
		} else if len(f.Scope) == 2 {
			index = otherLabel*len(c.problem.Variables[v].Labels) + label
		}
		sum = add(sum, f.Costs[index])
	}
	return sum
}

// factorsOf returns the indices in problem.Factors of the factors over v, keyed by the other variable of each factor. A
// factor over v alone has the key v. The index is built at the first call.
func (c *checker) factorsOf(v int) map[int][]int {
	if c.factorsByPair == nil {
		c.factorsByPair = make([]map[int][]int, len(c.problem.Variables))
		for i, f := range c.problem.Factors {
			for k, variable := range f.Scope {
				if c.factorsByPair[variable] == nil {
					c.factorsByPair[variable] = map[int][]int{}
				}
				other := f.Scope[len(f.Scope)-1-k] // the variable itself if it is the only one
				c.factorsByPair[variable][other] = append(c.factorsByPair[variable][other], i)
			}
		}
	}
	return c.factorsByPair[v]
}
