package wcsp

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Classes returns the cheapest assignment for each of the k cheapest combinations of classes, cheapest first. The
// combination of an assignment consists of the classes of its labels. classes has, by variable, the class of each
// label; nil means that all labels of the variable have the same class.
//
// For example, let the variables have 3, 2 and 4 labels, and let classes be {{0, 0, 1}, {0, 1}, nil}. There are then
// four combinations: (0,0), (0,1), (1,0) and (1,1). The labels of an assignment of combination (0,1) are 0 or 1 for the
// first variable, 1 for the second, and any for the third.
//
// Classes partitions the remaining combinations as in Lawler's algorithm, and solves the problem again for each part.
// If the cheapest assignment has combination (0,1), the parts are (not 0, any) and (0, not 1). In contrast, [KBest] may
// examine many assignments of one combination.
//
// The list is shorter if there are fewer feasible combinations, or if a part has no solution within the limits. In the
// second case, limited is true. TimeLimit applies to all solves together (a negative value means no limit). MaxNodes
// and MaxTable apply to each solve. Proof is ignored. Classes fails if classes do not match the labels, or if the first
// solve fails.
func Classes(p *Problem, k int, options Options, classes [][]int) (list []*Solution, limited bool, err error) {
	if p == nil || k < 1 || len(classes) != len(p.Variables) {
		return nil, false, fmt.Errorf("wcsp: Classes: k is %d and classes has %d elements: want k of at least 1, and a "+
			"list of classes for each variable", k, len(classes))
	}
	for v, ofLabels := range classes {
		if ofLabels != nil && len(ofLabels) != len(p.Variables[v].Labels) {
			return nil, false, fmt.Errorf("wcsp: variable %d has %d labels, but a list of %d classes", v,
				len(p.Variables[v].Labels), len(ofLabels))
		}
	}
	options.Proof = false
	lister := &classLister{problem: p, options: options, classes: classes, deadline: time.Now().Add(options.TimeLimit)}
	first, err := Exact.Solve(p, options)
	if err != nil {
		return nil, false, err
	}
	if err := lister.boundClasses(); err != nil {
		return nil, false, err
	}
	lister.parts = queue[*part]{{bound: first.Cost, solution: first, barred: make([][]bool, len(classes))}}
	for len(list) < k {
		solution, err := lister.next()
		if err != nil {
			return nil, false, err
		}
		if solution == nil {
			break
		}
		solution.Bound = first.Bound // of all assignments, not only of the solution's part
		list = append(list, solution)
	}
	return list, lister.limited, nil
}

// classLister is the state of [Classes]. It divides the assignments that are not listed yet into parts.
type classLister struct {
	problem     *Problem
	options     Options
	classes     [][]int   // by variable and label; nil: all labels of the variable have the same class
	classBounds [][]int64 // by variable and label: lower bound for assignments with any label of the same class
	deadline    time.Time
	parts       queue[*part]
	partCount   int  // number of parts so far
	limited     bool // whether a part had no solution within the limits
}

// part is the set of all assignments without barred labels. If the part is solved, its bound is the cost of its
// cheapest assignment.
type part struct {
	bound    int64     // lower bound on the cost
	number   int       // in order of creation, to break ties
	solution *Solution // the cheapest assignment; nil until it is needed
	barred   [][]bool  // by variable and label; nil: no label of the variable is barred
}

// Compare orders parts by bound.
func (p *part) Compare(other *part) int {
	return cmp.Or(cmp.Compare(p.bound, other.bound), p.number-other.number)
}

// boundClasses computes a lower bound for each class. The bounds of unsolved parts follow from these bounds.
func (c *classLister) boundClasses() error {
	c.classBounds = make([][]int64, len(c.classes))
	for v, classes := range c.classes {
		if classes == nil {
			continue
		}
		c.classBounds[v] = make([]int64, len(classes))
		for label, class := range classes {
			if first := slices.Index(classes, class); first < label {
				c.classBounds[v][label] = c.classBounds[v][first]
				continue
			}
			barred := make([][]bool, len(c.classes))
			barred[v] = labelsOutsideClass(classes, class)
			solution, err := c.solve(barred)
			switch {
			case errors.Is(err, ErrNotFound): // the limits are exceeded: the bound stays 0
			case err != nil:
				return err
			case solution == nil: // no assignment has the class
				c.classBounds[v][label] = Forbidden
			default:
				c.classBounds[v][label] = solution.Bound
			}
		}
	}
	return nil
}

// next returns the cheapest assignment of all parts, and divides the part of this assignment. It returns nil if no
// assignment is left.
func (c *classLister) next() (*Solution, error) {
	for len(c.parts) > 0 {
		cheapest := c.parts.pop()
		if cheapest.solution != nil {
			c.divide(cheapest)
			return cheapest.solution, nil
		}
		s, err := c.solve(cheapest.barred)
		switch {
		case errors.Is(err, ErrNotFound): // the part is dropped
			c.limited = true
		case err != nil:
			return nil, err
		case s != nil:
			cheapest.bound, cheapest.solution = s.Cost, s
			c.parts.push(cheapest)
		}
	}
	return nil, nil
}

// divide divides a part into new parts. Together they have all assignments of the part, except the assignments with
// the same classes as the cheapest assignment. There is a new part for each variable. Its assignments differ from the
// cheapest assignment in the class of this variable, and agree with it in the classes of all earlier variables.
func (c *classLister) divide(divided *part) {
	// For earlier variables, barredSoFar also bars the labels outside the classes of the cheapest assignment.
	barredSoFar := slices.Clone(divided.barred)
	for v, classes := range c.classes {
		if classes == nil {
			continue
		}
		class := classes[divided.solution.Labels[v]]
		barredLabels := barredInEither(divided.barred[v], labelsInClass(classes, class))
		if bound := c.leastBound(v, barredLabels); bound < Forbidden {
			barred := slices.Clone(barredSoFar)
			barred[v] = barredLabels
			c.partCount++
			c.parts.push(&part{bound: max(divided.bound, bound), number: c.partCount, barred: barred})
		}
		barredSoFar[v] = barredInEither(divided.barred[v], labelsOutsideClass(classes, class))
	}
}

// labelsInClass marks the labels of one class. classes has the class of each label.
func labelsInClass(classes []int, marked int) []bool {
	list := make([]bool, len(classes))
	for label, class := range classes {
		list[label] = class == marked
	}
	return list
}

// labelsOutsideClass marks the labels of all classes but one.
func labelsOutsideClass(classes []int, unmarked int) []bool {
	list := make([]bool, len(classes))
	for label, class := range classes {
		list[label] = class != unmarked
	}
	return list
}

// barredInEither returns the labels that are barred in one of two lists of a variable. The first may be nil.
func barredInEither(first, second []bool) []bool {
	if first == nil {
		return second
	}
	union := slices.Clone(first)
	for label := range union {
		union[label] = union[label] || second[label]
	}
	return union
}

// leastBound returns the least class bound of the labels of v that are not barred, or Forbidden if all are barred.
func (c *classLister) leastBound(v int, barred []bool) int64 {
	bound := Forbidden
	for label, isBarred := range barred {
		if !isBarred {
			bound = min(bound, c.classBounds[v][label])
		}
	}
	return bound
}

// solve returns the cheapest assignment without barred labels, or nil if no assignment is feasible. It returns
// [ErrNotFound] if the limits are exceeded.
func (c *classLister) solve(barred [][]bool) (*Solution, error) {
	options := c.options
	if options.TimeLimit > 0 {
		if options.TimeLimit = time.Until(c.deadline); options.TimeLimit <= 0 {
			return nil, ErrNotFound
		}
	}
	p := &Problem{Version: c.problem.Version, Variables: c.problem.Variables, Factors: slices.Clone(c.problem.Factors)}
	for v, list := range barred {
		if list == nil {
			continue
		}
		costs := make(Costs, len(list))
		for label, isBarred := range list {
			if isBarred {
				costs[label] = Forbidden
			}
		}
		p.Factors = append(p.Factors, Factor{Scope: []int{v}, Costs: costs})
	}
	solution, err := Exact.Solve(p, options)
	var infeasible *InfeasibleError
	if errors.As(err, &infeasible) {
		return nil, nil
	}
	return solution, err
}
