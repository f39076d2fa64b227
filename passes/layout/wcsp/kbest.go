package wcsp

import (
	"container/heap"
	"fmt"
	"slices"
	"sort"

	"github.com/graphrun/graphrun/internal/interrupt"
)

// Limits on the assignments that [KBest] examines, per requested assignment and in total.
const (
	enumerated     = 32
	mostEnumerated = 1 << 16
)

// KBest returns the k cheapest assignments that differ by the function same, cheapest first; a nil function means label
// equality. The list is shorter if there are fewer feasible assignments, if the 32 k cheapest (at most 65536) have been
// examined, or if the problem exceeds MaxTable and time runs out. The bound of each is that of the first, which alone
// has a proof if one is requested.
func KBest(p *Problem, k int, o Options, same func(a, b []int) bool) (_ []*Solution, err error) {
	defer interrupt.Catch(&err)
	if k < 1 {
		return nil, fmt.Errorf("wcsp: the number of assignments is %d; want at least 1", k)
	}
	first, err := Exact.Solve(p, o)
	if err != nil {
		return nil, err
	}
	list := []*Solution{first}
	in, err := prepare(o.Context, p)
	if err != nil {
		return nil, err
	}
	l := lister{search: newSearch(o), tries: enumerated * min(k, mostEnumerated/enumerated)}
	l.push(&cell{bound: in.constant, open: in.eliminate()})
	for ; len(list) < k && l.tries > 0; l.tries-- {
		labels, cost := l.next()
		if labels == nil {
			break
		}
		if !slices.ContainsFunc(list, func(s *Solution) bool {
			return slices.Equal(s.Labels, labels) || same != nil && same(s.Labels, labels)
		}) {
			list = append(list, &Solution{Version: Version, Labels: labels, Cost: cost, Bound: first.Bound})
		}
	}
	return list, nil
}

// lister enumerates assignments by cost with Lawler's partition: after each assignment the rest is divided into cells
// whose cheapest assignments are known. Cells that are too large for elimination have only a bound and are split on
// demand.
type lister struct {
	*search
	cells cells
	count int
	tries int // remaining number of assignments to list
}

// cell is a set of assignments. An open cell has only a bound. Any other cell consists of the assignments that agree
// with a listed one in all variables eliminated after a stage, and have a given label at that stage.
type cell struct {
	bound  int64
	number int // in order of creation, to break ties
	stages []stage
	open   *elimination

	like  []int
	stage int // len(stages): all assignments
	label int
}

// stage is a step of an elimination. label is the only label of a variable that was split on.
type stage struct {
	step
	sizes []int
	label int // -1: any
}

type cells []*cell

func (c cells) Len() int      { return len(c) }
func (c cells) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *cells) Push(x any)   { *c = append(*c, x.(*cell)) }
func (c cells) Less(i, j int) bool {
	return c[i].bound < c[j].bound || c[i].bound == c[j].bound && c[i].number < c[j].number
}

func (c *cells) Pop() any {
	last := len(*c) - 1
	x := (*c)[last]
	*c = (*c)[:last]
	return x
}

// push adds a cell unless it has no feasible assignment.
func (l *lister) push(c *cell) {
	if c.bound == Forbidden {
		return
	}
	c.number = l.count
	l.count++
	heap.Push(&l.cells, c)
	if len(l.cells) > 2*l.tries+mostEnumerated {
		l.trim()
	}
}

// trim removes cells that cannot be reached: all but the cheapest l.tries of those with a known assignment.
func (l *lister) trim() {
	sort.Sort(l.cells)
	known := 0
	l.cells = slices.DeleteFunc(l.cells, func(c *cell) bool {
		if c.open == nil {
			known++
		}
		return c.open == nil && known > l.tries
	})
}

// next returns the cheapest assignment not yet listed; nil if there is none or time runs out.
func (l *lister) next() ([]int, int64) {
	for len(l.cells) > 0 {
		interrupt.Check(l.ctx)
		c := heap.Pop(&l.cells).(*cell)
		if c.open == nil {
			return l.list(c), c.bound
		}
		if !l.expand(c) {
			break
		}
	}
	l.cells = nil
	return nil, 0
}

// expand replaces an open cell by one with a known cheapest assignment, or by branches. It returns false if time runs
// out.
func (l *lister) expand(c *cell) bool {
	e := c.open
	before := len(e.steps)
	l.reduce(e)
	for _, s := range e.steps[before:] {
		c.stages = append(c.stages, stage{s, e.sizes, -1})
	}
	c.stages = slices.Clip(c.stages)
	if e.left() == 0 {
		c.open, c.bound, c.stage = nil, e.constant, len(c.stages)
		c.like = make([]int, len(e.names))
		l.push(c)
		return true
	}
	if l.expired() {
		return false
	}
	v := e.hub()
	for label := range e.sizes[v] {
		child := e.narrow(v, label)
		stages := append(c.stages, stage{child.steps[0], child.sizes, label})
		relaxed := child.clone()
		relaxed.relax(l.relaxed)
		l.push(&cell{bound: relaxed.constant, open: child, stages: stages})
	}
	return true
}

// list returns the cheapest assignment of a cell and divides the others into cells.
func (l *lister) list(c *cell) []int {
	labels := slices.Clone(c.like)
	if c.stage < len(c.stages) {
		labels[c.stages[c.stage].variable] = c.label
	}
	for i := c.stage - 1; i >= 0; i-- {
		s := &c.stages[i]
		if s.label >= 0 {
			labels[s.variable] = s.label
			continue
		}
		decode(s.sizes, []step{s.step}, labels)
		v := s.variable
		best := s.cost(s.sizes, labels, labels[v])
		for other := range s.sizes[v] {
			if other == labels[v] {
				continue
			}
			// The cost difference is that of the step alone: earlier eliminations are in its messages.
			if cost := s.cost(s.sizes, labels, other); cost < Forbidden {
				l.push(&cell{bound: c.bound - best + cost, stages: c.stages, like: labels, stage: i, label: other})
			}
		}
	}
	return labels
}
