package wcsp

import (
	"container/heap"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Classes returns the cheapest assignments of the k cheapest combinations of classes, the cheapest first: classes has
// the class of each label by variable, nil for a variable whose labels are all one class. Unlike [KBest], which may
// look at very many assignments that mean the same, it solves the problem anew for each part of what is left that could
// hold the next combination, without the labels that are not of the part: Lawler's partition.
//
// There are fewer where there are no more that are allowed; where TimeLimit passed, which is for all together; and
// where nothing was found of a part within the options. A negative TimeLimit is none. MaxNodes and MaxTable are those
// of each solution; Proof does not count. The error is that of the first solution, or that classes are not those of the
// problem's labels.
func Classes(p *Problem, k int, o Options, classes [][]int) ([]*Solution, error) {
	if p == nil || k < 1 || len(classes) != len(p.Variables) {
		return nil, fmt.Errorf("wcsp: %d combinations of classes are asked for, of %d variables; it must be 1 or more, "+
			"with classes for each variable of a problem", k, len(classes))
	}
	for v, list := range classes {
		if list != nil && len(list) != len(p.Variables[v].Labels) {
			return nil, fmt.Errorf("wcsp: variable %d has %d labels and %d classes", v, len(p.Variables[v].Labels), len(list))
		}
	}
	o.Proof = false
	c := &classLister{problem: p, options: o, classes: classes, until: time.Now().Add(o.TimeLimit)}
	first, err := Exact.Solve(p, o)
	if err != nil {
		return nil, err
	}
	if err := c.price(); err != nil {
		return nil, err
	}
	c.parts = partition{{bound: first.Cost, solved: first, barred: make([][]bool, len(classes))}}
	var list []*Solution
	for len(list) < k {
		s, err := c.next()
		if err != nil {
			return nil, err
		}
		if s == nil {
			break
		}
		s.Bound = first.Bound
		list = append(list, s)
	}
	return list, nil
}

// classLister divides what was not listed yet into parts.
type classLister struct {
	problem *Problem
	options Options
	classes [][]int
	least   [][]int64 // by variable and label: what any assignment costs that has a label of its class
	until   time.Time
	parts   partition
	count   int
}

// part is the assignments without barred labels. Solved, the bound is what the cheapest of them costs.
type part struct {
	bound  int64
	number int
	solved *Solution
	barred [][]bool // by variable and label; nil: none of a variable is
}

type partition []*part

func (q partition) Len() int      { return len(q) }
func (q partition) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *partition) Push(x any)   { *q = append(*q, x.(*part)) }
func (q partition) Less(i, j int) bool {
	return q[i].bound < q[j].bound || q[i].bound == q[j].bound && q[i].number < q[j].number
}

func (q *partition) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

// price finds what each class costs at least: the bounds of parts that were not solved.
func (c *classLister) price() error {
	c.least = make([][]int64, len(c.classes))
	for v, list := range c.classes {
		if list == nil {
			continue
		}
		c.least[v] = make([]int64, len(list))
		for label, class := range list {
			if first := slices.Index(list, class); first < label {
				c.least[v][label] = c.least[v][first]
				continue
			}
			barred := make([][]bool, len(c.classes))
			barred[v] = without(list, func(other int) bool { return other != class })
			s, err := c.solve(barred)
			switch {
			case errors.Is(err, ErrNotFound): // the bound is 0
			case err != nil:
				return err
			case s == nil:
				c.least[v][label] = Forbidden
			default:
				c.least[v][label] = s.Bound
			}
		}
	}
	return nil
}

// without marks the labels of classes.
func without(classes []int, barred func(class int) bool) []bool {
	list := make([]bool, len(classes))
	for label, class := range classes {
		list[label] = barred(class)
	}
	return list
}

// solve returns the cheapest assignment without barred labels; nil: none is allowed. The error is [ErrNotFound] where
// the time is up, too.
func (c *classLister) solve(barred [][]bool) (*Solution, error) {
	o := c.options
	if o.TimeLimit > 0 {
		if o.TimeLimit = time.Until(c.until); o.TimeLimit <= 0 {
			return nil, ErrNotFound
		}
	}
	p := &Problem{Version: c.problem.Version, Variables: c.problem.Variables, Factors: slices.Clone(c.problem.Factors)}
	for v, list := range barred {
		if list == nil {
			continue
		}
		costs := make(Costs, len(list))
		for label, no := range list {
			if no {
				costs[label] = Forbidden
			}
		}
		p.Factors = append(p.Factors, Factor{Scope: []int{v}, Costs: costs})
	}
	s, err := Exact.Solve(p, o)
	var none *InfeasibleError
	if errors.As(err, &none) {
		return nil, nil
	}
	return s, err
}

// next returns the cheapest assignment of all parts, and divides the rest of its part; nil when there is none.
func (c *classLister) next() (*Solution, error) {
	for len(c.parts) > 0 {
		x := heap.Pop(&c.parts).(*part)
		if x.solved != nil {
			c.divide(x)
			return x.solved, nil
		}
		s, err := c.solve(x.barred)
		switch {
		case errors.Is(err, ErrNotFound):
		case err != nil:
			return nil, err
		case s != nil:
			x.bound, x.solved = s.Cost, s
			heap.Push(&c.parts, x)
		}
	}
	return nil, nil
}

// divide makes parts of those assignments of a part whose classes are not those of its cheapest: for each variable the
// ones of another class there, and of the same one before.
func (c *classLister) divide(x *part) {
	same := slices.Clone(x.barred)
	for v, list := range c.classes {
		if list == nil {
			continue
		}
		class := list[x.solved.Labels[v]]
		was := x.barred[v]
		is := func(keep bool) ([]bool, int64) {
			bound, any := Forbidden, without(list, func(other int) bool { return (other == class) != keep })
			for label := range any {
				if any[label] = any[label] || was != nil && was[label]; !any[label] {
					bound = min(bound, c.least[v][label])
				}
			}
			return any, bound
		}
		other, bound := is(false)
		if bound < Forbidden {
			barred := slices.Clone(same)
			barred[v] = other
			c.count++
			heap.Push(&c.parts, &part{bound: max(x.bound, bound), number: c.count, barred: barred})
		}
		same[v], _ = is(true)
	}
}
