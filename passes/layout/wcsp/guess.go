package wcsp

import "github.com/graphrun/graphrun/internal/interrupt"

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
