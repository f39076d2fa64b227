package verify

import (
	"fmt"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// shifts checks and applies the shifts of a node, and adds the resulting functions of single variables.
func (c *checker) shifts(list []wcsp.Shift, functionsOf functionsByVariable) error {
	received := map[int][]int64{} // by variable and remaining label
	for i := range list {
		if err := c.shift(&list[i], functionsOf, received); err != nil {
			return fmt.Errorf("shift %d: %w", i, err)
		}
	}
	for _, v := range slices.Sorted(maps.Keys(received)) {
		sum, wider := received[v], []int(nil) // wider: functions of v and other variables
		for _, f := range functionsOf[v] {
			if len(c.functions[f].scope) > 1 {
				wider = append(wider, f)
				continue
			}
			for i, label := range c.remainingLabels[v] {
				sum[i] = plus(sum[i], c.functions[f].table[slices.Index(c.functions[f].labels[0], label)])
			}
		}
		for i, cost := range sum {
			if cost < 0 || cost > wcsp.Forbidden {
				return fmt.Errorf("variable %d has cost %d at label %d", v, cost, c.remainingLabels[v][i])
			}
		}
		functionsOf[v] = append(wider, len(c.functions))
		c.functions = append(c.functions, function{scope: []int{v}, labels: [][]int{c.remainingLabels[v]}, table: sum})
	}
	return nil
}

// plus adds a cost to a number that may be negative. The sum is Forbidden if an operand is Forbidden.
func plus(a, cost int64) int64 {
	if a >= wcsp.Forbidden || cost >= wcsp.Forbidden {
		return wcsp.Forbidden
	}
	return a + cost
}

// shift replaces functions of the same variables by their sum minus the moved costs. It adds the moved costs to
// received.
func (c *checker) shift(s *wcsp.Shift, functionsOf functionsByVariable, received map[int][]int64) error {
	if len(s.From) == 0 {
		return fmt.Errorf("the shift lists no function")
	}
	var scope []int
	for i, f := range s.From {
		if f < 0 || f >= len(c.functions) || slices.Contains(s.From[:i], f) {
			return fmt.Errorf("function %d does not exist or is listed twice", f)
		}
		variables := slices.Sorted(slices.Values(c.functions[f].scope))
		if scope == nil {
			scope = variables
		}
		if len(variables) < 2 || !slices.Equal(variables, scope) || !slices.Contains(functionsOf[scope[0]], f) {
			return fmt.Errorf("function %d was used before, has fewer than two variables, or has other variables than the "+
				"first function of the shift", f)
		}
	}
	if len(s.By) != len(scope) {
		return fmt.Errorf("the shift moves costs to %d variables, but its functions have %d", len(s.By), len(scope))
	}
	for k, v := range scope {
		if len(s.By[k]) != len(c.remainingLabels[v]) {
			return fmt.Errorf("the shift moves %d costs to variable %d, which has %d remaining labels", len(s.By[k]), v,
				len(c.remainingLabels[v]))
		}
		if received[v] == nil {
			received[v] = make([]int64, len(c.remainingLabels[v]))
		}
		for i, moved := range s.By[k] {
			if moved <= -wcsp.Forbidden || moved >= wcsp.Forbidden {
				return fmt.Errorf("the shift moves the invalid cost %d to variable %d", moved, v)
			}
			received[v][i] += moved
			if sum := received[v][i]; sum <= -wcsp.Forbidden || sum >= wcsp.Forbidden {
				return fmt.Errorf("variable %d receives the invalid cost %d", v, sum)
			}
		}
	}
	return c.replace(s, scope, functionsOf)
}

// replace adds the shifted function and removes the original functions.
func (c *checker) replace(s *wcsp.Shift, scope []int, functionsOf functionsByVariable) error {
	terms := make([]term, len(s.From))
	for i, f := range s.From {
		terms[i] = c.term(&c.functions[f], scope, -1)
	}
	shifted := function{scope: scope}
	size := 1
	for _, v := range scope {
		shifted.labels = append(shifted.labels, c.remainingLabels[v])
		size *= len(c.remainingLabels[v]) // at most the size of the function's table
	}
	shifted.table = make([]int64, 0, size)
	err := c.forEachEntry(terms, scope, func(labels []int) error {
		var cost int64
		for i := range terms {
			cost = add(cost, terms[i].table[terms[i].index])
		}
		for k, label := range labels {
			if cost == wcsp.Forbidden {
				break
			}
			cost -= s.By[k][label]
			if cost <= -wcsp.Forbidden || cost >= wcsp.Forbidden {
				return fmt.Errorf("a cost overflows")
			}
		}
		if shifted.table = append(shifted.table, cost); cost < 0 {
			return fmt.Errorf("the shift changes cost %d to the invalid value %d", len(shifted.table)-1, cost)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, v := range scope {
		functionsOf[v] = slices.DeleteFunc(functionsOf[v], func(f int) bool { return slices.Contains(s.From, f) })
		functionsOf[v] = append(functionsOf[v], len(c.functions))
	}
	c.functions = append(c.functions, shifted)
	return nil
}

// functionGroup is the sum of functions of the same variables.
type functionGroup struct {
	scope []int // the variables, ascending
	from  []int // numbers of the functions
	least int64 // least entry of the sum, over remaining labels
}

// cuts checks and removes labels. No assignment with a cut label may cost less than the cutoff. Restricted to the
// label, the least entries of all groups of functions must therefore add up to at least the cutoff.
func (c *checker) cuts(list []wcsp.Cut, cutoff int64, functionsOf functionsByVariable) error {
	if cutoff < 0 || cutoff > wcsp.Forbidden {
		return fmt.Errorf("the cutoff %d is out of range", cutoff)
	}
	sum, groupsOf := c.grouped(functionsOf)
	for i, cut := range list {
		v := cut.Variable
		if _, remains := functionsOf[v]; !remains || !slices.Contains(c.remainingLabels[v], cut.Label) ||
			len(c.remainingLabels[v]) == 1 {
			return fmt.Errorf("cut %d: label %d of variable %d does not remain, or is the last one", i, cut.Label, v)
		}
		remaining := c.remainingLabels[v]
		withLabel := sum
		c.remainingLabels[v] = []int{cut.Label}
		for _, group := range groupsOf[v] {
			withLabel.count(group.least, -1)
			withLabel.count(c.least(group), 1)
		}
		if withLabel.forbidden == 0 && withLabel.sum < cutoff {
			return fmt.Errorf("cut %d: with label %d of variable %d, the bound is only %d, which is below the cutoff", i,
				cut.Label, v, withLabel.sum)
		}
		c.remainingLabels[v] = slices.DeleteFunc(slices.Clone(remaining), func(l int) bool { return l == cut.Label })
		for _, group := range groupsOf[v] {
			sum.count(group.least, -1)
			group.least = c.least(group)
			sum.count(group.least, 1)
		}
	}
	return nil
}

// grouped returns, by variable, the groups of the remaining functions, and the sum of the least entries of all groups.
func (c *checker) grouped(functionsOf functionsByVariable) (saturatedTotal, map[int][]*functionGroup) {
	var sum saturatedTotal
	groupsOf, found := map[int][]*functionGroup{}, map[string]*functionGroup{}
	seen := map[int]bool{}
	for _, v := range slices.Sorted(maps.Keys(functionsOf)) {
		c.countSteps(1 + len(functionsOf[v]))
		for _, f := range functionsOf[v] {
			if seen[f] {
				continue
			}
			seen[f] = true
			scope := slices.Sorted(slices.Values(c.functions[f].scope))
			key := fmt.Sprint(scope)
			if found[key] == nil {
				found[key] = &functionGroup{scope: scope}
				for _, variable := range scope {
					groupsOf[variable] = append(groupsOf[variable], found[key])
				}
			}
			found[key].from = append(found[key].from, f)
		}
	}
	for _, v := range slices.Sorted(maps.Keys(groupsOf)) {
		for _, group := range groupsOf[v] {
			if group.scope[0] == v {
				group.least = c.least(group)
				sum.count(group.least, 1)
			}
		}
	}
	return sum, groupsOf
}

// saturatedTotal is a sum of costs that counts forbidden terms separately.
type saturatedTotal struct {
	sum       int64
	forbidden int
}

// count adds a cost (sign 1) or subtracts it (sign -1). The sum saturates at Forbidden; a subtraction after saturation
// gives too low a sum, which is still a valid bound.
func (t *saturatedTotal) count(cost int64, sign int) {
	if cost == wcsp.Forbidden {
		t.forbidden += sign
	} else {
		t.sum = add(t.sum, int64(sign)*cost)
	}
}

// least returns the least entry of the sum of a group, over remaining labels.
func (c *checker) least(group *functionGroup) int64 {
	terms := make([]term, len(group.from))
	for i, f := range group.from {
		terms[i] = c.term(&c.functions[f], group.scope, -1)
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
