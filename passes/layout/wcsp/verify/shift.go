package verify

import (
	"fmt"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// This file checks the shifts and cuts of a proof ([wcsp.Shift], [wcsp.Cut]).
//
// A shift moves costs from a function of several variables to each of its variables; the cost of every assignment stays
// the same. For example, a shift moves 4 and 0 to the labels of variable 1, and 0 and 1 to the labels of variable 2. In
// the first table, rows are labels of variable 1, and columns are labels of variable 2:
//
//	function of variables 1 and 2:  4 6 / 0 3  becomes  0 1 / 0 2
//	function of variable 1:         0 / 2      becomes  4 / 2
//	function of variable 2:         0 / 0      becomes  0 / 1
//
// The least entries of all functions add up to a lower bound: in the example, it rises from 0 to 2. A cut removes a
// label with which the bound reaches the cutoff. With label 0 of variable 1, the bound is 0+4+0 = 4, so that this label
// may be cut if the cutoff is at most 4. Functions of the same variables, a group, are added up before their least
// entry is taken, which gives a higher bound.
//
// A checker has the functions by number (functions) and the labels of each variable that are not removed
// (remainingLabels). The parameter functionsOf has, by variable, the numbers of the functions that depend on it. A term
// is a function in a sum: while forEachEntry iterates over labels, term.index is the index in term.table of the entry
// for the current labels.

// applyShifts checks and applies the shifts of a node of the proof tree, and adds the resulting functions of single
// variables.
func (c *checker) applyShifts(list []wcsp.Shift, functionsOf functionsByVariable) error {
	received := map[int][]int64{} // by variable and remaining label
	for i := range list {
		if err := c.applyShift(&list[i], functionsOf, received); err != nil {
			return fmt.Errorf("shift %d: %w", i, err)
		}
	}
	for _, variable := range slices.Sorted(maps.Keys(received)) {
		if err := c.addReceived(variable, received[variable], functionsOf); err != nil {
			return err
		}
	}
	return nil
}

// applyShift replaces functions of the same variables by their sum minus the moved costs. It adds the moved costs to
// received.
func (c *checker) applyShift(shift *wcsp.Shift, functionsOf functionsByVariable, received map[int][]int64) error {
	scope, err := c.commonScope(shift.From, functionsOf)
	if err != nil {
		return err
	}
	if err := c.receiveCosts(shift, scope, received); err != nil {
		return err
	}
	return c.replaceFunctions(shift, scope, functionsOf)
}

// commonScope returns the variables of the functions of a shift, at least two, in ascending order. It returns an error
// if the functions cannot be shifted together.
func (c *checker) commonScope(from []int, functionsOf functionsByVariable) ([]int, error) {
	if len(from) == 0 {
		return nil, fmt.Errorf("the shift lists no function")
	}
	var scope []int
	for i, functionIndex := range from {
		if functionIndex < 0 || functionIndex >= len(c.functions) || slices.Contains(from[:i], functionIndex) {
			return nil, fmt.Errorf("function %d does not exist or is listed twice", functionIndex)
		}
		variables := slices.Sorted(slices.Values(c.functions[functionIndex].scope))
		if scope == nil {
			scope = variables
		}
		if len(variables) < 2 || !slices.Equal(variables, scope) || !slices.Contains(functionsOf[scope[0]], functionIndex) {
			return nil, fmt.Errorf("function %d was used before, has fewer than two variables, or has other variables than the "+
				"first function of the shift", functionIndex)
		}
	}
	return scope, nil
}

// receiveCosts adds the costs that a shift moves to the map `received`. scope has the variables of the shift's
// functions.
func (c *checker) receiveCosts(shift *wcsp.Shift, scope []int, received map[int][]int64) error {
	if len(shift.By) != len(scope) {
		return fmt.Errorf("the shift moves costs to %d variables, but its functions have %d", len(shift.By), len(scope))
	}
	for k, variable := range scope {
		if len(shift.By[k]) != len(c.remainingLabels[variable]) {
			return fmt.Errorf("the shift moves %d costs to variable %d, which has %d remaining labels", len(shift.By[k]),
				variable, len(c.remainingLabels[variable]))
		}
		if received[variable] == nil {
			received[variable] = make([]int64, len(c.remainingLabels[variable]))
		}
		for i, moved := range shift.By[k] {
			if moved <= -wcsp.Forbidden || moved >= wcsp.Forbidden {
				return fmt.Errorf("the shift moves the invalid cost %d to variable %d", moved, variable)
			}
			received[variable][i] += moved
			if sum := received[variable][i]; sum <= -wcsp.Forbidden || sum >= wcsp.Forbidden {
				return fmt.Errorf("variable %d receives the invalid cost %d", variable, sum)
			}
		}
	}
	return nil
}

// replaceFunctions adds the shifted function, the sum of the original functions minus the moved costs, and removes the
// original functions. It fails if an entry would be negative.
func (c *checker) replaceFunctions(shift *wcsp.Shift, scope []int, functionsOf functionsByVariable) error {
	terms := make([]term, len(shift.From))
	for i, functionIndex := range shift.From {
		terms[i] = c.term(&c.functions[functionIndex], scope)
	}
	shifted := function{scope: scope}
	size := 1
	for _, variable := range scope {
		shifted.labels = append(shifted.labels, c.remainingLabels[variable])
		size *= len(c.remainingLabels[variable]) // at most the size of the function's table
	}
	shifted.table = make([]int64, 0, size)
	err := c.forEachEntry(terms, scope, func(labels []int) error {
		var cost int64
		for i := range terms {
			cost = add(cost, terms[i].table[terms[i].index])
		}
		cost, err := shiftedCost(cost, shift.By, labels)
		if err != nil {
			return err
		}
		if cost < 0 {
			return fmt.Errorf("the shift changes entry %d of its table to %d: want at least 0", len(shifted.table), cost)
		}
		shifted.table = append(shifted.table, cost)
		return nil
	})
	if err != nil {
		return err
	}
	for _, variable := range scope {
		functionsOf[variable] = slices.DeleteFunc(functionsOf[variable], func(functionIndex int) bool {
			return slices.Contains(shift.From, functionIndex)
		})
		functionsOf[variable] = append(functionsOf[variable], len(c.functions))
	}
	c.functions = append(c.functions, shifted)
	return nil
}

// shiftedCost returns a cost minus the costs that are moved to the given labels. A forbidden cost stays forbidden.
func shiftedCost(cost int64, moved [][]int64, labels []int) (int64, error) {
	if cost == wcsp.Forbidden {
		return cost, nil
	}
	for k, label := range labels {
		cost -= moved[k][label]
		if cost <= -wcsp.Forbidden || cost >= wcsp.Forbidden {
			return 0, fmt.Errorf("a cost overflows")
		}
	}
	return cost, nil
}

// addReceived replaces the functions of only this variable by one function: their sum, plus the costs that the variable
// received.
func (c *checker) addReceived(variable int, received []int64, functionsOf functionsByVariable) error {
	sum, labels := received, c.remainingLabels[variable]
	var wider []int // indices of functions of this variable and others
	for _, functionIndex := range functionsOf[variable] {
		f := &c.functions[functionIndex]
		if len(f.scope) > 1 {
			wider = append(wider, functionIndex)
			continue
		}
		for i, label := range labels {
			sum[i] = addSigned(sum[i], f.table[slices.Index(f.labels[0], label)])
		}
	}
	for i, cost := range sum {
		if cost < 0 || cost > wcsp.Forbidden {
			return fmt.Errorf("variable %d has cost %d at label %d", variable, cost, labels[i])
		}
	}
	functionsOf[variable] = append(wider, len(c.functions))
	c.functions = append(c.functions, function{scope: []int{variable}, labels: [][]int{labels}, table: sum})
	return nil
}

// addSigned adds a cost to a number that may be negative. The sum is Forbidden if an operand is Forbidden.
func addSigned(sum, cost int64) int64 {
	if sum >= wcsp.Forbidden || cost >= wcsp.Forbidden {
		return wcsp.Forbidden
	}
	return sum + cost
}

// applyCuts checks and removes labels. No assignment with a cut label may cost less than the cutoff. To check this, the
// cut label becomes the only label of its variable: the least entries of all groups of functions must then add up to at
// least the cutoff.
func (c *checker) applyCuts(list []wcsp.Cut, cutoff int64, functionsOf functionsByVariable) error {
	if cutoff < 0 || cutoff > wcsp.Forbidden {
		return fmt.Errorf("the cutoff %d is out of range", cutoff)
	}
	sum, groupsOf := c.groupFunctions(functionsOf) // sum is the bound with all remaining labels
	for i, cut := range list {
		variable := cut.Variable
		remaining := c.remainingLabelsOf(variable, functionsOf)
		if len(remaining) <= 1 || !slices.Contains(remaining, cut.Label) {
			return fmt.Errorf("cut %d: label %d of variable %d does not remain, or is the last one", i, cut.Label, variable)
		}
		sumWithLabel := sum // the bound with the cut label as the only label of its variable
		c.remainingLabels[variable] = []int{cut.Label}
		for _, group := range groupsOf[variable] {
			sumWithLabel.replaceCost(group.least, c.least(group))
		}
		if isPossible := sumWithLabel.forbidden == 0; isPossible && sumWithLabel.sum < cutoff {
			return fmt.Errorf("cut %d: with label %d of variable %d, the bound is only %d, which is below the cutoff", i,
				cut.Label, variable, sumWithLabel.sum)
		}
		c.remainingLabels[variable] = slices.DeleteFunc(slices.Clone(remaining), func(label int) bool {
			return label == cut.Label
		})
		for _, group := range groupsOf[variable] { // without the cut label
			oldLeast := group.least
			group.least = c.least(group)
			sum.replaceCost(oldLeast, group.least)
		}
	}
	return nil
}

// remainingLabelsOf returns the remaining labels of a variable; nil if the variable was eliminated or does not exist.
func (c *checker) remainingLabelsOf(variable int, functionsOf functionsByVariable) []int {
	if _, remains := functionsOf[variable]; !remains {
		return nil
	}
	return c.remainingLabels[variable]
}

// functionGroup is the sum of functions of the same variables.
type functionGroup struct {
	scope []int // the variables, ascending
	from  []int // numbers of the functions
	least int64 // least entry of the sum, over remaining labels
}

// groupFunctions returns, by variable, the groups of the remaining functions, and the sum of the least entries of all
// groups.
func (c *checker) groupFunctions(functionsOf functionsByVariable) (saturatedTotal, map[int][]*functionGroup) {
	var sum saturatedTotal
	groupsOf, groups := map[int][]*functionGroup{}, map[string]*functionGroup{}
	grouped := map[int]bool{}
	for _, v := range slices.Sorted(maps.Keys(functionsOf)) {
		c.countSteps(1 + len(functionsOf[v])) // checks the context now and then
		for _, functionIndex := range functionsOf[v] {
			if grouped[functionIndex] {
				continue
			}
			grouped[functionIndex] = true
			scope := slices.Sorted(slices.Values(c.functions[functionIndex].scope))
			key := fmt.Sprint(scope)
			if groups[key] == nil {
				groups[key] = &functionGroup{scope: scope}
				for _, variable := range scope {
					groupsOf[variable] = append(groupsOf[variable], groups[key])
				}
			}
			groups[key].from = append(groups[key].from, functionIndex)
		}
	}
	for _, v := range slices.Sorted(maps.Keys(groupsOf)) {
		for _, group := range groupsOf[v] {
			if group.scope[0] == v { // each group counts once, at its first variable
				group.least = c.least(group)
				sum.addCost(group.least)
			}
		}
	}
	return sum, groupsOf
}

// saturatedTotal is a sum of costs that counts forbidden terms separately, so that they can be subtracted again.
type saturatedTotal struct {
	sum       int64
	forbidden int
}

// addCost adds a cost. The sum saturates at Forbidden.
func (t *saturatedTotal) addCost(cost int64) {
	if cost == wcsp.Forbidden {
		t.forbidden++
	} else {
		t.sum = add(t.sum, cost)
	}
}

// replaceCost subtracts an old cost and adds a new cost. A subtraction from a saturated sum gives too low a sum, which
// is still a valid bound.
func (t *saturatedTotal) replaceCost(oldCost, newCost int64) {
	if oldCost == wcsp.Forbidden {
		t.forbidden--
	} else {
		t.sum = add(t.sum, -oldCost)
	}
	t.addCost(newCost)
}

// least returns the least entry of the sum of a group, over remaining labels.
func (c *checker) least(group *functionGroup) int64 {
	terms := make([]term, len(group.from))
	for i, functionIndex := range group.from {
		terms[i] = c.term(&c.functions[functionIndex], group.scope)
	}
	least := wcsp.Forbidden
	_ = c.forEachEntry(terms, group.scope, func([]int) error { // the callback returns no error
		var sum int64
		for i := range terms {
			sum = add(sum, terms[i].table[terms[i].index])
		}
		least = min(least, sum)
		return nil
	})
	return least
}
