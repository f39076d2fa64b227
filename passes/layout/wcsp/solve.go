package wcsp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/graphrun/graphrun/internal/interrupt"
)

// Solver finds an assignment of low cost for a [Problem]. An assignment chooses a label for each variable. Factors have
// the costs of labels.
type Solver interface {
	// Solve returns the best assignment found, with a lower bound. It must not modify p. It fails if the problem is
	// invalid or has no feasible assignment.
	Solve(p *Problem, options Options) (*Solution, error)
}

// Options limit the effort of a solver.
type Options struct {
	// TimeLimit is the maximum time of the search. The search starts if elimination with tables of at most MaxTable
	// entries does not solve the problem. Zero means no search, so that results do not depend on time. A negative value
	// means no limit.
	TimeLimit time.Duration
	// MaxTable is the maximum number of entries of a table; zero means 4194304.
	MaxTable int
	// MaxNodes is the maximum number of nodes of the search, independently of time; zero means no limit.
	MaxNodes int
	// Context cancels the work. The error is then the cause of the context. Nil means no context.
	Context context.Context
	// Proof requests [Solution.Proof]. A search then also ends when its tables exceed half a gigabyte.
	Proof bool
}

// Limits of the solver. A table size is a number of entries. The solver first eliminates variables. If this takes too
// large tables, it searches a tree. At a node, it computes a lower bound of the costs, and cuts the labels that cannot
// improve the best assignment found. It then branches: a child of the node has fewer labels of a variable.
const (
	defaultMaxEntries = 1 << 22 // default of MaxTable
	largestMaxEntries = 1 << 30 // maximum of MaxTable
	// Bounds during a search use small tables, because the problem is split further anyway. The bound at the root uses
	// more work.
	maxSearchBoundEntries = 1 << 8  // maximum size for a bound below the root
	maxRootBoundEntries   = 1 << 16 // maximum size for the bound at the root
	maxRelaxedWork        = 1 << 25 // approximate limit on the total number of table entries of one lower bound
	maxBranchEntries      = 1 << 16 // maximum table size for eliminating all variables of a node below the root
	// Before a search, all variables are eliminated if the work is at most maxLightWork plus maxLightVariableWork per
	// variable. Otherwise only the variables whose tables have at most maxLightEntries entries are eliminated.
	maxLightWork         = 1 << 18
	maxLightVariableWork = 1 << 8
	maxLightEntries      = 1 << 6
	// If a lower bound cuts at least 1/minCutDivisor of the labels, the search starts again with the remaining labels.
	// Otherwise it uses larger tables or branches.
	minCutDivisor = 16
	// A search with a proof ends when its tables have this many entries in total.
	maxProofEntries = 1 << 26
)

// Exact prunes labels, eliminates variables and searches. If it finishes within its limits, the solution is optimal.
// Otherwise the solution is the best assignment found, with the gap Cost - Bound. Ties are broken deterministically.
var Exact Solver = exact{}

// exact is the type of [Exact].
type exact struct{}

// Solve implements Solver.
func (exact) Solve(p *Problem, options Options) (*Solution, error) {
	return newSearch(options).solve(p)
}

// solve is [Exact] with the options of the search.
func (s *search) solve(p *Problem) (_ *Solution, err error) {
	defer interrupt.Catch(&err)
	instance, err := prepare(s.ctx, p)
	if err != nil {
		return nil, err
	}
	remaining, prunings := prune(instance)
	const noCutoff, isRoot = Forbidden, true // without an upper limit on costs
	found := s.minimize(instance.restrict(remaining), noCutoff, isRoot)
	switch {
	case found.bound == Forbidden: // proved: every assignment is forbidden; minimize has set infeasibleVariable
		return nil, &InfeasibleError{Variable: s.infeasibleVariable, Factor: -1, Name: p.Variables[s.infeasibleVariable].Name}
	case found.cost == Forbidden:
		return nil, ErrNotFound
	}
	for v, label := range found.labels {
		found.labels[v] = remaining[v][label]
	}
	solution := &Solution{Version: Version, Labels: found.labels, Bound: found.bound}
	if solution.Cost = p.cost(found.labels); solution.Cost != found.cost || found.cost < found.bound {
		panic(fmt.Sprintf("wcsp: an assignment costs %d, but was computed as %d with bound %d", solution.Cost, found.cost,
			found.bound))
	}
	if s.wantProof {
		solution.Proof = &Proof{Prunings: prunings}
		// The proof is a tree of nodes. toNode gets the bound to prove. The tree may prove a greater one, which becomes
		// the bound of the solution.
		solution.Proof.Root, solution.Bound = found.proof.toNode(found.proof.bound)
	}
	return solution, nil
}

// prepare validates the problem and returns it as an instance. Methods of the instance panic when ctx ends; see
// [interrupt.Check]. [interrupt.Catch] turns the panic into an error.
func prepare(ctx context.Context, p *Problem) (*instance, error) {
	if p == nil {
		return nil, errors.New("wcsp: the problem is nil")
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	for i := range p.Factors {
		if !slices.ContainsFunc(p.Factors[i].Costs, func(c int64) bool { return c < Forbidden }) {
			return nil, &InfeasibleError{Variable: -1, Factor: i}
		}
	}
	return newInstance(ctx, p), nil
}

// InfeasibleError reports that no assignment of a problem is allowed.
type InfeasibleError struct {
	Variable int    // index of a variable without a feasible label; -1 if Factor is the reason
	Factor   int    // index of a factor whose entries are all forbidden; -1 if Variable is the reason
	Name     string // name of the variable
}

// Error names the variable or the factor.
func (e *InfeasibleError) Error() string {
	if e.Variable < 0 {
		return fmt.Sprintf("wcsp: no assignment is allowed: all costs of factor %d are forbidden", e.Factor)
	}
	return fmt.Sprintf("wcsp: no assignment is allowed: variable %d (%q) has no label that the other variables allow",
		e.Variable, e.Name)
}

// ErrNotFound reports that the search found no feasible assignment and did not prove that there is none.
var ErrNotFound = errors.New("wcsp: no feasible assignment was found within the limits")

// guess is a heuristic assignment of a label to each variable. Its cost is an upper bound on the least cost. improve
// changes one label at a time. If the cost is [Forbidden], depthFirst searches for an assignment with a lower cost.
type guess struct {
	instance    *instance
	functionsOf [][]*function // by variable: the functions that depend on it
	labels      []int         // by variable: its label
}

const (
	improvePasses   = 8       // maximum number of passes over all variables
	maxSearchLabels = 1 << 14 // maximum number of labels that depthFirst tries
)

// improve changes labels one at a time until no change reduces the cost, or for improvePasses passes.
func (g *guess) improve() {
	for range improvePasses {
		improved := false
		for v, isEliminated := range g.instance.eliminated {
			if isEliminated {
				continue
			}
			interrupt.Check(g.instance.ctx)
			best := g.localCost(v, g.labels[v])
			for label := range g.instance.sizes[v] {
				if cost := g.localCost(v, label); cost < best {
					best, g.labels[v], improved = cost, label, true
				}
			}
		}
		if !improved {
			return
		}
	}
}

// localCost returns the sum of the functions of v if v has the given label and the other variables keep theirs.
func (g *guess) localCost(v, label int) int64 {
	oldLabel := g.labels[v]
	g.labels[v] = label
	var sum int64
	for _, f := range g.functionsOf[v] {
		sum = add(sum, f.cost(g.instance.sizes, g.labels))
	}
	g.labels[v] = oldLabel
	return sum
}

// depthFirst searches for an assignment that is not forbidden, by depth-first search. Each of the steps has eliminated
// one variable (bucket elimination), together with the functions that depended on it. These functions depend only on
// this variable and on variables of later steps. Therefore the last step's variable is assigned first. The labels of a
// variable are tried in order of cost. depthFirst reports whether it found an assignment.
func (g *guess) depthFirst(steps []step) bool {
	triedCount := 0
	var assignFrom func(i int) bool // assigns the variables of steps i, i-1, ..., 0
	assignFrom = func(i int) bool {
		if i < 0 {
			return g.cost() < Forbidden
		}
		step := &steps[i]
		last, lastCost := -1, int64(-1) // the label that was tried last, and its cost
		for {
			interrupt.Check(g.instance.ctx)
			// Labels are tried in the order of costs; labels of equal cost in the order of indices.
			best, bestCost := -1, Forbidden
			for label := range g.instance.sizes[step.variable] {
				cost := step.cost(g.instance.sizes, g.labels, label)
				isUntried := cost > lastCost || cost == lastCost && label > last
				if isUntried && cost < bestCost {
					best, bestCost = label, cost
				}
			}
			triedCount++
			if best < 0 || triedCount > maxSearchLabels { // after the limit, all levels of the recursion return false
				return false
			}
			g.labels[step.variable], last, lastCost = best, best, bestCost
			if assignFrom(i - 1) {
				return true
			}
		}
	}
	return assignFrom(len(steps) - 1)
}

// cost returns the cost of the assignment.
func (g *guess) cost() int64 {
	sum := g.instance.constant
	for _, f := range g.instance.functions {
		sum = add(sum, f.cost(g.instance.sizes, g.labels))
	}
	return sum
}

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
