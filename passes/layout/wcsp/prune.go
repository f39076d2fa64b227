package wcsp

import (
	"slices"

	"github.com/graphrun/graphrun/internal/interrupt"
)

// pruneWork is the approximate maximum number of table entries that pruning reads.
const pruneWork = 1 << 23

// pruner removes dominated labels by Goldstein's criterion: label k is removed if another label k' never costs more
// than k, for all labels of the neighbours. A neighbour is a variable that shares a function with the label's variable.
// For each of these functions, the pruner takes the least difference cost(k) - cost(k') over the neighbour's labels.
// Label k is dominated if the sum of these differences is at least 0. Where k is forbidden, the difference is infinite.
//
// For example, let the unary cost of k exceed the unary cost of k' by 2, and let the costs with the labels of the only
// neighbour be (1, 5) for k and (3, 4) for k'. The least difference over the neighbour's labels is min(1-3, 5-4) = -2.
// The sum of the differences is 2 + -2 = 0, so k is removed.
type pruner struct {
	*instance
	unary     [][]int64 // by variable: function of this variable only; nil if there is none
	edges     [][]edge  // by variable: functions of two variables
	remaining [][]int   // by variable: remaining labels
	prunings  []Pruning // prunings so far
	work      int       // number of costs read so far

	// For the variable of the last call of computeCheapest:
	cheapest [][]int // by label and edge: the neighbour's label with the least cost
	sums     []int64 // by label: the unary cost plus these least costs
}

// edge is a function of a variable and a neighbour.
type edge struct {
	table               []int64
	other               int // the neighbour
	stride, otherStride int // strides of the variable's and the neighbour's labels in the table
}

// prune returns the remaining labels by variable, and the prunings. After a pruning, it examines the neighbours of the
// variable again, because the least differences may have become greater.
func prune(problem *instance) ([][]int, []Pruning) {
	pruner := newPruner(problem)
	queue, queued := make([]int, len(problem.problemVariables)), make([]bool, len(problem.problemVariables))
	for variable := range queue {
		queue[variable], queued[variable] = variable, true
	}
	for len(queue) > 0 && pruner.work < pruneWork {
		interrupt.Check(problem.ctx)
		variable := queue[0]
		queue, queued[variable] = queue[1:], false
		if !pruner.pruneVariable(variable) {
			continue
		}
		for _, edge := range pruner.edges[variable] {
			if !queued[edge.other] && len(pruner.remaining[edge.other]) > 1 {
				queue, queued[edge.other] = append(queue, edge.other), true
			}
		}
	}
	return pruner.remaining, pruner.prunings
}

// newPruner returns a pruner of an instance, with all labels.
func newPruner(problem *instance) *pruner {
	pruner := &pruner{instance: problem, unary: make([][]int64, len(problem.problemVariables)),
		edges:     make([][]edge, len(problem.problemVariables)),
		remaining: make([][]int, len(problem.problemVariables))}
	for variable, labelCount := range problem.sizes {
		for label := range labelCount {
			pruner.remaining[variable] = append(pruner.remaining[variable], label)
		}
	}
	for _, function := range problem.functions {
		if len(function.scope) == 1 {
			pruner.unary[function.scope[0]] = function.table
			continue
		}
		first, second := function.scope[0], function.scope[1] // rows and columns of the table
		columns := problem.sizes[second]
		pruner.edges[first] = append(pruner.edges[first],
			edge{table: function.table, other: second, stride: columns, otherStride: 1})
		pruner.edges[second] = append(pruner.edges[second],
			edge{table: function.table, other: first, stride: 1, otherStride: columns})
	}
	return pruner
}

// pruneVariable prunes the labels of v and reports whether any was removed.
func (p *pruner) pruneVariable(v int) bool {
	labels := p.remaining[v]
	if len(labels) == 1 {
		return false
	}
	p.computeCheapest(v)
	oldPruningCount := len(p.prunings)
	for i := len(labels) - 1; i >= 0 && p.work < pruneWork; i-- {
		for _, dominator := range labels {
			if label := labels[i]; dominator != label && p.dominates(v, dominator, label) {
				p.prunings = append(p.prunings, Pruning{Variable: v, Label: label, By: dominator})
				labels = slices.Delete(labels, i, i+1)
				break
			}
		}
	}
	p.remaining[v] = labels
	return len(p.prunings) > oldPruningCount
}

// computeCheapest computes cheapest and sums for v.
func (p *pruner) computeCheapest(v int) {
	size := p.sizes[v]
	p.sums = slices.Grow(p.sums[:0], size)[:size]
	for len(p.cheapest) < size {
		p.cheapest = append(p.cheapest, nil)
	}
	for _, label := range p.remaining[v] {
		var sum int64
		if p.unary[v] != nil {
			sum = p.unary[v][label]
		}
		cheapest := p.cheapest[label][:0]
		for _, edge := range p.edges[v] {
			otherLabels := p.remaining[edge.other]
			p.work += len(otherLabels)
			bestLabel, cost := otherLabels[0], edge.table[label*edge.stride+otherLabels[0]*edge.otherStride]
			for _, otherLabel := range otherLabels[1:] {
				if entry := edge.table[label*edge.stride+otherLabel*edge.otherStride]; entry < cost {
					bestLabel, cost = otherLabel, entry
				}
			}
			cheapest, sum = append(cheapest, bestLabel), add(sum, cost)
		}
		p.cheapest[label], p.sums[label] = cheapest, sum
	}
}

// dominates reports whether label dominator of v never costs more than the given label.
func (p *pruner) dominates(v, dominator, label int) bool {
	if p.sums[label] == Forbidden { // every assignment with the label is forbidden
		return true
	}
	if p.costsMoreAtCheapest(v, dominator, label) {
		return false
	}
	var sum int64 // of the least differences; no unary cost is Forbidden, as the tests above have excluded it
	if p.unary[v] != nil {
		sum = p.unary[v][label] - p.unary[v][dominator]
	}
	for _, edge := range p.edges[v] {
		p.work += len(p.remaining[edge.other])
		least := Forbidden // becomes less, because p.sums[label] < Forbidden: some entry of the label is allowed
		for _, otherLabel := range p.remaining[edge.other] {
			entry := edge.table[label*edge.stride+otherLabel*edge.otherStride]
			if entry == Forbidden {
				continue
			}
			dominatorEntry := edge.table[dominator*edge.stride+otherLabel*edge.otherStride]
			if dominatorEntry == Forbidden {
				return false
			}
			least = min(least, entry-dominatorEntry)
		}
		sum += least
	}
	return sum >= 0
}

// costsMoreAtCheapest reports whether dominator costs more than a label if the neighbours have the labels for which
// that label is cheapest. This cheap test rejects most pairs.
func (p *pruner) costsMoreAtCheapest(v, dominator, label int) bool {
	var dominatorSum int64
	if p.unary[v] != nil {
		dominatorSum = p.unary[v][dominator]
	}
	for i, edge := range p.edges[v] {
		dominatorSum = add(dominatorSum, edge.table[dominator*edge.stride+p.cheapest[label][i]*edge.otherStride])
	}
	p.work += len(p.edges[v]) + 1
	return dominatorSum > p.sums[label]
}
