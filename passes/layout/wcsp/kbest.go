package wcsp

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/interrupt"
)

// Limits on the number of assignments that [KBest] examines.
const (
	triesPerResult = 32      // examined assignments per requested assignment
	maxTries       = 1 << 16 // examined assignments in total
)

// KBest returns the k cheapest different assignments, cheapest first. Two assignments are the same if they have equal
// labels, or if the function same, which may be nil, returns true. The list has fewer than k elements in three cases:
//   - there are fewer feasible assignments;
//   - the limit of examined assignments is reached, which is the smaller of 32*k and 65536;
//   - time runs out for a problem that exceeds MaxTable, and timedOut is true.
//
// All solutions have the lower bound of the first solution. If a proof is requested, only the first solution has a
// proof.
func KBest(p *Problem, k int, options Options, same func(a, b []int) bool) (list []*Solution, timedOut bool,
	err error) {
	defer interrupt.Catch(&err)
	if k < 1 {
		return nil, false, fmt.Errorf("wcsp: the number of assignments is %d; want at least 1", k)
	}
	first, err := Exact.Solve(p, options)
	if err != nil {
		return nil, false, err
	}
	list = []*Solution{first}
	prepared, err := prepare(options.Context, p)
	if err != nil {
		return nil, false, err
	}
	lister := assignmentLister{search: newSearch(options), sizes: prepared.sizes,
		remainingTries: triesPerResult * min(k, maxTries/triesPerResult)}
	lister.push(&cell{bound: prepared.constant, labels: make([]int, len(p.Variables)),
		remaining: prepared.newElimination()})
	for ; len(list) < k && lister.remainingTries > 0; lister.remainingTries-- {
		labels, cost := lister.next()
		if labels == nil {
			break
		}
		isListed := slices.ContainsFunc(list, func(s *Solution) bool {
			return slices.Equal(s.Labels, labels) || same != nil && same(s.Labels, labels)
		})
		if !isListed {
			list = append(list, &Solution{Version: Version, Labels: labels, Cost: cost, Bound: first.Bound})
		}
	}
	return list, lister.timedOut, nil
}

// assignmentLister enumerates assignments in order of cost, by Lawler's partition. The assignments that are not listed
// yet are divided into cells. The cheapest assignment of a closed cell is known. An open cell has only a lower bound.
// When an open cell becomes the cheapest cell, elimination closes it, or the cell is split if elimination is too
// expensive. The elimination of a variable replaces the cost functions that depend on it by a message: the minimum of
// their sum over the labels of the variable. A step is the elimination of one variable. Variables get their labels in
// the reverse order. Each gets the cheapest label, given the labels of the variables before it in this order.
//
// For example, let x, y and z have two labels each, and let them be eliminated in this order. If the cheapest
// assignment is x=0, y=0, z=0, the other assignments are divided into three closed cells:
//
//	z=1, any x and y   z=0, y=1, any x   z=0, y=0, x=1
type assignmentLister struct {
	*search
	sizes          []int // by variable: number of labels
	cells          queue[*cell]
	count          int  // number of cells so far
	remainingTries int  // remaining number of assignments to examine
	timedOut       bool // whether time ran out before the list was complete; set by next
}

// cell is a set of assignments, open or closed. In the example of [assignmentLister], the steps eliminate x, y and z,
// and the closed cell "z=0, y=1, any x" has freeCount 1, label 1 and labels 0, 0, 0.
type cell struct {
	bound  int64  // of an open cell: a lower bound; of a closed cell: the cost of its cheapest assignment
	number int    // in order of creation, to break ties
	steps  []step // eliminations so far, without the variables on which the cell was split
	labels []int  // by variable: the label, unless the variable is free or remains to be eliminated

	remaining *elimination // the remaining problem of an open cell; nil for a closed cell

	// Fields of a closed cell. The variables of the first freeCount steps are free: they may have any label. The variable
	// of the next step, if any, has the given label in place of its label in labels.
	freeCount int
	label     int
}

// Compare orders cells by bound.
func (c *cell) Compare(other *cell) int {
	return cmp.Or(cmp.Compare(c.bound, other.bound), c.number-other.number)
}

// push adds a cell if the cell has a feasible assignment.
func (l *assignmentLister) push(c *cell) {
	if c.bound == Forbidden {
		return
	}
	c.number = l.count
	l.count++
	l.cells.push(c)
	if len(l.cells) > 2*l.remainingTries+maxTries { // trim sorts all cells, so it is called rarely
		l.trim()
	}
}

// trim removes all closed cells except the l.remainingTries cheapest: the enumeration cannot reach more.
func (l *assignmentLister) trim() {
	slices.SortFunc(l.cells, (*cell).Compare) // a sorted list is a queue
	closed := 0
	l.cells = slices.DeleteFunc(l.cells, func(c *cell) bool {
		isClosed := c.remaining == nil
		if isClosed {
			closed++
		}
		return isClosed && closed > l.remainingTries
	})
}

// next returns the cheapest assignment that is not yet listed. It returns nil if there is none or time runs out.
func (l *assignmentLister) next() ([]int, int64) {
	for len(l.cells) > 0 {
		interrupt.Check(l.ctx)
		c := l.cells.pop()
		if c.remaining == nil {
			return l.takeCheapest(c), c.bound
		}
		if !l.expand(c) {
			l.timedOut = true
			break
		}
	}
	l.cells = nil
	return nil, 0
}

// expand replaces an open cell by a closed cell, or by one cell for each label of a variable. It returns false if time
// runs out.
func (l *assignmentLister) expand(c *cell) bool {
	e := c.remaining
	oldStepCount := len(e.steps) // 1 after a split, for the split variable (fixLabel); otherwise 0
	l.eliminateCheapVariables(e) // all variables, or those with small tables
	steps := slices.Concat(c.steps, e.steps[oldStepCount:])
	if e.remainingCount() == 0 {
		l.push(&cell{bound: e.constant, steps: steps, labels: c.labels, freeCount: len(steps)})
		return true
	}
	if l.expired() {
		return false
	}
	variable := e.mostConnected() // split the cell on this variable
	for label := range e.sizes[variable] {
		labels := slices.Clone(c.labels)
		labels[variable] = label
		child := e.fixLabel(variable, label)
		relaxed := child.clone() // relax eliminates its variables approximately: its constant is then a lower bound
		relaxed.relax(l.maxBoundEntries)
		l.push(&cell{bound: relaxed.constant, steps: steps, labels: labels, remaining: child})
	}
	return true
}

// takeCheapest returns the cheapest assignment of a closed cell, and divides the cell's other assignments into new
// cells. It visits the free variables in the reverse order of their elimination. The cheapest label of each is part of
// the returned assignment. Each other label gives a new cell.
func (l *assignmentLister) takeCheapest(c *cell) []int {
	// The new cells share this list. After a cell is made, the loop only sets labels of variables that are free in it.
	labels := slices.Clone(c.labels)
	if c.freeCount < len(c.steps) {
		labels[c.steps[c.freeCount].variable] = c.label
	}
	for i := c.freeCount - 1; i >= 0; i-- {
		step := &c.steps[i]
		decode(l.sizes, c.steps[i:i+1], labels) // sets the variable's label to the cheapest one
		best := step.cost(l.sizes, labels, labels[step.variable])
		for other := range l.sizes[step.variable] {
			if other == labels[step.variable] {
				continue
			}
			// Only the costs of this step depend on the label: they include, as messages, the costs of earlier steps.
			if cost := step.cost(l.sizes, labels, other); cost < Forbidden {
				l.push(&cell{bound: c.bound - best + cost, steps: c.steps, labels: labels, freeCount: i, label: other})
			}
		}
	}
	return labels
}
