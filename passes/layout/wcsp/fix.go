package wcsp

import "fmt"

// Fix returns the problem that is left where some variables have the labels given, by their numbers, and a function
// that makes labels of it those of the whole, one for each variable that is left. The error names a label that there is
// not, or what is wrong with the problem.
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

// fixed is what a factor is where some of its variables have one label.
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
