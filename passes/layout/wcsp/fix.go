package wcsp

import "fmt"

// Fix returns the problem that remains when some variables have fixed labels. It also returns a function that extends
// labels of the remaining variables to labels of all variables. labels has the fixed labels by index of the variable.
// Fix fails if a label or the problem is invalid. For example, let label 2 be fixed for variable b in a problem of
// variables a, b and c. The remaining problem has the variables a and c, and the function extends the labels [0, 1] to
// [0, 2, 1].
func (p *Problem) Fix(labels map[int]int) (*Problem, func([]int) []int, error) {
	if err := p.Validate(); err != nil {
		return nil, nil, err
	}
	remaining, newIndex := &Problem{Version: p.Version}, make([]int, len(p.Variables))
	for i, v := range p.Variables {
		newIndex[i] = -1
		label, isFixed := labels[i]
		switch {
		case !isFixed:
			newIndex[i] = len(remaining.Variables)
			remaining.Variables = append(remaining.Variables, v)
		case label < 0 || label >= len(v.Labels):
			return nil, nil, fmt.Errorf("wcsp: variable %d (%q) has no label %d: it has %d labels", i, v.Name, label,
				len(v.Labels))
		}
	}
	for _, f := range p.Factors {
		remaining.Factors = append(remaining.Factors, p.restrictedFactor(&f, labels, newIndex))
	}
	extend := func(chosen []int) []int {
		all := make([]int, len(newIndex))
		for i, remainingIndex := range newIndex {
			if remainingIndex < 0 {
				all[i] = labels[i]
			} else {
				all[i] = chosen[remainingIndex]
			}
		}
		return all
	}
	return remaining, extend, nil
}

// restrictedFactor returns a factor, a cost table over the variables of its scope, for the fixed labels. newIndex has
// the index of each variable in the remaining problem; -1 for a fixed variable.
func (p *Problem) restrictedFactor(f *Factor, labels map[int]int, newIndex []int) Factor {
	restricted := Factor{Scope: []int{}}
	for _, v := range f.Scope {
		if newIndex[v] >= 0 {
			restricted.Scope = append(restricted.Scope, newIndex[v])
		}
	}
	for i, cost := range f.Costs {
		if p.hasFixedLabels(f, i, labels, newIndex) {
			restricted.Costs = append(restricted.Costs, cost)
		}
	}
	return restricted
}

// hasFixedLabels reports whether the fixed variables of a factor have their fixed labels in an entry of its costs.
func (p *Problem) hasFixedLabels(f *Factor, entry int, labels map[int]int, newIndex []int) bool {
	remainder := entry // remainder%size is the label of v in the entry
	for k := len(f.Scope) - 1; k >= 0; k-- {
		v := f.Scope[k]
		size := len(p.Variables[v].Labels)
		if newIndex[v] < 0 && remainder%size != labels[v] {
			return false
		}
		remainder /= size
	}
	return true
}
