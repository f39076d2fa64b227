package wcsp

import (
	"container/heap"
	"fmt"
	"slices"
	"sort"

	"github.com/graphrun/graphrun/internal/ends"
)

// enumerated is how many assignments [KBest] looks at for each that is wanted, and looks at most.
const (
	enumerated     = 32
	mostEnumerated = 1 << 16
)

// KBest returns the k cheapest assignments that the function same tells apart, the cheapest first; a nil function tells
// all apart. There are fewer where there are no more that are allowed; where the 32 k cheapest of all, or 65536, are
// the same as those returned; and where a problem does not fit MaxTable and the time runs out. The bound of each is
// that of the first, which alone has a proof, if one is asked for.
func KBest(p *Problem, k int, o Options, same func(a, b []int) bool) (_ []*Solution, err error) {
	defer ends.Catch(&err)
	if k < 1 {
		return nil, fmt.Errorf("wcsp: %d assignments are asked for; it must be 1 or more", k)
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

// lister lists assignments by cost: Lawler's partition of what is left after each, in cells whose cheapest assignment
// is known; and, where elimination does not fit, cells with a bound, which are split when it is their turn.
type lister struct {
	*search
	cells cells
	count int
	tries int // assignments that will be listed yet, at most
}

// cell is a set of assignments. Open, none is known but a bound. Else it is those that have the labels of one that was
// listed for all variables that were eliminated after a stage, and a label for the variable of the stage.
type cell struct {
	bound  int64
	number int // in the order in which they came
	stages []stage
	open   *elimination

	like  []int
	stage int // from len(stages) on: all assignments
	label int
}

// stage is a step of an elimination. A variable that a split gave a label has that one alone.
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

// push adds a cell, unless nothing in it is allowed.
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

// trim forgets cells whose turn does not come: all but the cheapest that have an assignment each.
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

// next returns the cheapest assignment that was not listed yet; nil when there is none, or no time to find it.
func (l *lister) next() ([]int, int64) {
	for len(l.cells) > 0 {
		ends.Look(l.ctx)
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

// expand replaces an open cell by the one with its cheapest assignment, or by branches; false: there was no time.
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

// list returns the cheapest assignment of a cell and divides the others of it into cells.
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
			// All that the label changes is in the step, as what was eliminated before is in its messages.
			if cost := s.cost(s.sizes, labels, other); cost < Forbidden {
				l.push(&cell{bound: c.bound - best + cost, stages: c.stages, like: labels, stage: i, label: other})
			}
		}
	}
	return labels
}
