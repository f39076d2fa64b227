package wcsp

import "fmt"

// Fix returns the problem that remains when some variables have fixed labels, and a function that extends labels of the
// remaining variables to labels of all variables. labels has the fixed labels by index of the variable. Fix fails if a
// label or the problem is invalid.
func (p *Problem) Fix(labels map[int]int) (*Problem, func([]int) []int, error) {
	if err := p.Validate(); err != nil {
		return nil, nil, err
	}
	rest, place := &Problem{Version: p.Version}, make([]int, len(p.Variables))
	for i, v := range p.Variables {
		place[i] = -1
		if l, fixed := labels[i]; fixed {
			if l < 0 || l >= len(v.Labels) {
				return nil, nil, fmt.Errorf("wcsp: variable %d (%q) has no label %d: it has %d", i, v.Name, l, len(v.Labels))
			}
			continue
		}
		place[i] = len(rest.Variables)
		rest.Variables = append(rest.Variables, v)
	}
	for _, f := range p.Factors {
		rest.Factors = append(rest.Factors, p.fixed(&f, labels, place))
	}
	return rest, func(chosen []int) []int {
		whole := make([]int, len(place))
		for i, at := range place {
			if at < 0 {
				whole[i] = labels[i]
			} else {
				whole[i] = chosen[at]
			}
		}
		return whole
	}, nil
}

// fixed returns a factor restricted to the fixed labels. place has the new index of each variable; -1 if it is fixed.
func (p *Problem) fixed(f *Factor, labels map[int]int, place []int) Factor {
	g := Factor{Scope: []int{}}
	for _, v := range f.Scope {
		if place[v] >= 0 {
			g.Scope = append(g.Scope, place[v])
		}
	}
	for i, c := range f.Costs {
		keep, rest := true, i
		for k := len(f.Scope) - 1; k >= 0; k-- {
			v := f.Scope[k]
			n := len(p.Variables[v].Labels)
			if place[v] < 0 && rest%n != labels[v] {
				keep = false
			}
			rest /= n
		}
		if keep {
			g.Costs = append(g.Costs, c)
		}
	}
	return g
}
