package wcsp

import (
	"slices"

	"github.com/graphrun/graphrun/internal/interrupt"
)

// pruneWork is the approximate maximum number of table entries that pruning reads.
const pruneWork = 1 << 23

// pruner removes dominated labels by Goldstein's criterion: label k is removed if another label k' never costs more
// than k, for all labels of the neighbours. For each factor, the pruner takes the least difference cost(k) - cost(k')
// over the neighbour's labels. Label k is dominated if the sum of these differences is at least 0. If k is forbidden,
// the difference is infinite.
type pruner struct {
	*instance
	unary     [][]int64 // by variable: function of this variable only; nil if there is none
	edges     [][]edge  // by variable: functions of two variables
	remaining [][]int   // by variable: remaining labels
	list      []Pruning // prunings so far
	work      int       // number of costs read so far

	least [][]int // by label and edge: the other variable's label with the least cost
	sums  []int64 // by label: the sum of these least costs
}

// edge is a function of two variables, seen from one variable.
type edge struct {
	table               []int64
	other               int
	stride, otherStride int // strides of the labels in the table
}

// prune returns the remaining labels by variable, and the prunings.
func prune(in *instance) ([][]int, []Pruning) {
	p := &pruner{instance: in, unary: make([][]int64, len(in.problemVariables)),
		edges:     make([][]edge, len(in.problemVariables)),
		remaining: make([][]int, len(in.problemVariables))}
	for v, n := range in.sizes {
		for a := range n {
			p.remaining[v] = append(p.remaining[v], a)
		}
	}
	for _, f := range in.functions {
		if len(f.scope) == 1 {
			p.unary[f.scope[0]] = f.table
			continue
		}
		a, b := f.scope[0], f.scope[1]
		p.edges[a] = append(p.edges[a], edge{f.table, b, in.sizes[b], 1})
		p.edges[b] = append(p.edges[b], edge{f.table, a, 1, in.sizes[b]})
	}
	queue, queued := make([]int, len(in.problemVariables)), make([]bool, len(in.problemVariables))
	for v := range queue {
		queue[v], queued[v] = v, true
	}
	for len(queue) > 0 && p.work < pruneWork {
		interrupt.Check(in.ctx)
		v := queue[0]
		queue, queued[v] = queue[1:], false
		if !p.pruneVariable(v) {
			continue
		}
		for _, e := range p.edges[v] {
			if !queued[e.other] && len(p.remaining[e.other]) > 1 {
				queue, queued[e.other] = append(queue, e.other), true
			}
		}
	}
	return p.remaining, p.list
}

// pruneVariable prunes the labels of v and reports whether any was removed.
func (p *pruner) pruneVariable(v int) bool {
	labels := p.remaining[v]
	if len(labels) == 1 {
		return false
	}
	p.prepare(v)
	before := len(p.list)
	for i := len(labels) - 1; i >= 0 && p.work < pruneWork; i-- {
		for _, dominator := range labels {
			if label := labels[i]; dominator != label && p.dominates(v, dominator, label) {
				p.list = append(p.list, Pruning{v, label, dominator})
				labels = slices.Delete(labels, i, i+1)
				break
			}
		}
	}
	p.remaining[v] = labels
	return len(p.list) > before
}

// prepare computes the least cost of each label of v.
func (p *pruner) prepare(v int) {
	n := p.sizes[v]
	p.sums = slices.Grow(p.sums[:0], n)[:n]
	for len(p.least) < n {
		p.least = append(p.least, nil)
	}
	for _, k := range p.remaining[v] {
		var sum int64
		if p.unary[v] != nil {
			sum = p.unary[v][k]
		}
		least := p.least[k][:0]
		for _, e := range p.edges[v] {
			others := p.remaining[e.other]
			p.work += len(others)
			bestLabel, cost := others[0], e.table[k*e.stride+others[0]*e.otherStride]
			for _, l := range others[1:] {
				if c := e.table[k*e.stride+l*e.otherStride]; c < cost {
					bestLabel, cost = l, c
				}
			}
			least, sum = append(least, bestLabel), add(sum, cost)
		}
		p.least[k], p.sums[k] = least, sum
	}
}

// dominates reports whether label dominator of v never costs more than the given label.
func (p *pruner) dominates(v, dominator, label int) bool {
	if p.sums[label] == Forbidden {
		return true
	}
	// This cheap test rejects most pairs: at the neighbours' labels at which label is cheapest, dominator must not cost
	// more.
	var otherSum, sum int64
	if p.unary[v] != nil {
		otherSum, sum = p.unary[v][dominator], p.unary[v][label]-p.unary[v][dominator]
	}
	for i, e := range p.edges[v] {
		otherSum = add(otherSum, e.table[dominator*e.stride+p.least[label][i]*e.otherStride])
	}
	p.work += len(p.edges[v]) + 1
	if otherSum > p.sums[label] {
		return false
	}
	for _, e := range p.edges[v] {
		p.work += len(p.remaining[e.other])
		least := Forbidden
		for _, l := range p.remaining[e.other] {
			c := e.table[label*e.stride+l*e.otherStride]
			if c == Forbidden {
				continue
			}
			d := e.table[dominator*e.stride+l*e.otherStride]
			if d == Forbidden {
				return false
			}
			least = min(least, c-d)
		}
		sum += least
	}
	return sum >= 0
}
