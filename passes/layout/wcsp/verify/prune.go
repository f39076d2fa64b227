package verify

import (
	"fmt"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// applyPruning checks that pruning.Label costs at least as much as pruning.By for all labels of the neighbours, and
// removes Label (Goldstein's criterion). Neighbours are the variables that have a factor with the variable. For each
// neighbour, take the least value of cost(Label) - cost(By) over the neighbour's labels. The sum of these values must
// be at least 0. The factors over the variable alone count as one more neighbour, which has a single label.
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
	labelIsForbidden, anyByIsForbidden := false, false
	factorsByNeighbour := c.factorsOf(variable)
	for _, neighbour := range slices.Sorted(maps.Keys(factorsByNeighbour)) {
		difference, byIsForbidden := c.leastDifference(pruning, neighbour, factorsByNeighbour[neighbour])
		anyByIsForbidden = anyByIsForbidden || byIsForbidden
		if difference == wcsp.Forbidden {
			labelIsForbidden = true
		} else {
			sum += difference // sums are exact: checkProblem has checked their range
		}
	}
	if !labelIsForbidden && (anyByIsForbidden || sum < 0) {
		return fmt.Errorf("variable %d: label %d can cost less than label %d", variable, pruning.Label, pruning.By)
	}
	c.remainingLabels[variable] = slices.Delete(slices.Clone(c.remainingLabels[variable]), index, index+1)
	return nil
}

// leastDifference returns the least value of cost(Label) - cost(By) over the labels of a neighbour with which Label is
// allowed. It returns [wcsp.Forbidden] if there are none. byIsForbidden reports whether By is forbidden with one of
// these labels; the difference is then without meaning. factors lists the factors over the variable and the neighbour.
func (c *checker) leastDifference(pruning wcsp.Pruning, neighbour int,
	factors []int) (least int64, byIsForbidden bool) {
	least = wcsp.Forbidden
	labels := c.remainingLabels[neighbour]
	if neighbour == pruning.Variable {
		labels = []int{0} // factors over the variable alone: pairCost ignores this label
	}
	c.countSteps(2 * len(labels) * len(factors))
	for _, neighbourLabel := range labels {
		cost := c.pairCost(factors, pruning.Variable, pruning.Label, neighbourLabel)
		byCost := c.pairCost(factors, pruning.Variable, pruning.By, neighbourLabel)
		switch {
		case cost == wcsp.Forbidden: // Label is not allowed here
		case byCost == wcsp.Forbidden:
			least, byIsForbidden = min(least, 0), true // any value but Forbidden
		default:
			least = min(least, cost-byCost)
		}
	}
	return least, byIsForbidden
}

// pairCost returns the sum of the costs of factors if v has label and the other variable has otherLabel. Factors over v
// alone ignore otherLabel. factors are indices in problem.Factors.
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
