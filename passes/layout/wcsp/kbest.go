package wcsp

import (
	"container/heap"
	"fmt"
	"slices"
	"sort"

	"github.com/graphrun/graphrun/internal/interrupt"
)

// Limits on the number of assignments that [KBest] examines.
const (
	triesPerResult = 32      // examined assignments per requested assignment
	maxTries       = 1 << 16 // examined assignments in total
)

// KBest returns the k cheapest different assignments, cheapest first. Two assignments are the same if they have equal
// labels, or if the function same, which may be nil, returns true. The list has fewer than k elements in three cases:
// there are fewer feasible assignments; the limit of examined assignments is reached, which is the smaller of 32*k
// and 65536; or time runs out for a problem that exceeds MaxTable. timedOut reports the last case. All solutions have
// the lower bound of the first solution. If a proof is requested, only the first solution has a proof.
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
	lister := assignmentLister{search: newSearch(options),
		remainingTries: triesPerResult * min(k, maxTries/triesPerResult)}
	lister.push(&cell{bound: prepared.constant, remaining: prepared.newElimination()})
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
// expensive. The elimination of a variable replaces the functions that depend on it by a message: the minimum of their
// sum over the labels of the variable. Variables get their labels in the reverse order. Each gets the cheapest label,
// given the labels of the variables before it in this order.
//
// For example, let x, y and z have two labels each, and let them be eliminated in this order. If the cheapest
// assignment is x=0, y=0, z=0, the other assignments are divided into three closed cells:
//
//	z=1, any x and y   z=0, y=1, any x   z=0, y=0, x=1
type assignmentLister struct {
	*search
	cells          cells
	count          int  // number of cells so far
	remainingTries int  // remaining number of assignments to list
	timedOut       bool // whether time ran out before the list was complete; set by next
}

// cell is a set of assignments, open or closed. An open cell has all assignments of the problem that remains.
//
// In the example of [assignmentLister], the stages eliminate x, y and z. The closed cell "z=0, y=1, any x" has
// stageIndex 1, label 1 and listedLabels 0, 0, 0. The variable of the later stage, z, has its listed label. The
// variable of the earlier stage, x, may have any label, unless the stage has an onlyLabel.
type cell struct {
	bound     int64        // of an open cell: a lower bound; of a closed cell: the cost of its cheapest assignment
	number    int          // in order of creation, to break ties
	stages    []stage      // eliminations so far
	remaining *elimination // the remaining problem of an open cell; nil for a closed cell

	// Fields of a closed cell.
	listedLabels []int // labels of an assignment that was listed
	stageIndex   int   // stages[stageIndex] eliminates the variable with label; len(stages): cell of all assignments
	label        int   // label of the variable of that stage
}

// stage is a step of an elimination.
type stage struct {
	step
	sizes     []int // by variable: number of labels at this step
	onlyLabel int   // the remaining label of the step's variable, if a cell was split on this variable; -1: any label
}

// push adds a cell unless it has no feasible assignment.
func (l *assignmentLister) push(c *cell) {
	if c.bound == Forbidden {
		return
	}
	c.number = l.count
	l.count++
	heap.Push(&l.cells, c)
	if len(l.cells) > 2*l.remainingTries+maxTries { // trim sorts all cells, so it is called rarely
		l.trim()
	}
}

// trim removes all closed cells except the l.remainingTries cheapest: the enumeration cannot reach more.
func (l *assignmentLister) trim() {
	sort.Sort(l.cells) // a sorted list is a heap
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
		c := heap.Pop(&l.cells).(*cell)
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
	oldStepCount := len(e.steps)
	l.eliminateCheapVariables(e)
	for _, step := range e.steps[oldStepCount:] {
		c.stages = append(c.stages, stage{step: step, sizes: e.sizes, onlyLabel: -1})
	}
	c.stages = slices.Clip(c.stages) // each child cell appends to a copy
	if e.remainingCount() == 0 {
		c.remaining, c.bound, c.stageIndex = nil, e.constant, len(c.stages)
		c.listedLabels = make([]int, len(e.problemVariables))
		l.push(c)
		return true
	}
	if l.expired() {
		return false
	}
	variable := e.mostConnected()
	for label := range e.sizes[variable] {
		child := e.fixLabel(variable, label) // its list of steps begins with the step of variable
		stages := append(c.stages, stage{step: child.steps[0], sizes: child.sizes, onlyLabel: label})
		relaxed := child.clone() // relax eliminates its variables approximately: its constant is then a lower bound
		relaxed.relax(l.maxBoundEntries)
		l.push(&cell{bound: relaxed.constant, remaining: child, stages: stages})
	}
	return true
}

// takeCheapest returns the cheapest assignment of a closed cell, and divides the cell's other assignments into new
// cells. It visits the stages before the cell's stage in reverse order, and fixes the label of each stage's variable.
// The cheapest label is part of the returned assignment. Each other label gives a new cell.
func (l *assignmentLister) takeCheapest(c *cell) []int {
	// The new cells share this list. The loop sets labels of earlier stages; a cell reads labels of later stages.
	labels := slices.Clone(c.listedLabels)
	if c.stageIndex < len(c.stages) {
		labels[c.stages[c.stageIndex].variable] = c.label
	}
	for i := c.stageIndex - 1; i >= 0; i-- {
		stage := &c.stages[i]
		if stage.onlyLabel >= 0 {
			labels[stage.variable] = stage.onlyLabel
			continue
		}
		decode(stage.sizes, []step{stage.step}, labels) // sets the variable's label to the cheapest one
		best := stage.cost(stage.sizes, labels, labels[stage.variable])
		for other := range stage.sizes[stage.variable] {
			if other == labels[stage.variable] {
				continue
			}
			// Only the costs of this step depend on the label: they include, as messages, the costs of earlier steps.
			if cost := stage.cost(stage.sizes, labels, other); cost < Forbidden {
				newBound := c.bound - best + cost
				l.push(&cell{bound: newBound, stages: c.stages, listedLabels: labels, stageIndex: i, label: other})
			}
		}
	}
	return labels
}

// cells is a priority queue of cells by bound.
type cells []*cell

func (c cells) Len() int      { return len(c) }
func (c cells) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *cells) Push(x any)   { *c = append(*c, x.(*cell)) }
func (c cells) Less(i, j int) bool {
	if c[i].bound != c[j].bound {
		return c[i].bound < c[j].bound
	}
	return c[i].number < c[j].number
}

func (c *cells) Pop() any {
	last := len(*c) - 1
	x := (*c)[last]
	*c = (*c)[:last]
	return x
}
