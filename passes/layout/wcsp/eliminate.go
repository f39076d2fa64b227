package wcsp

import (
	"slices"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
)

// This file eliminates variables (bucket elimination). To eliminate a variable, a message replaces all functions that
// depend on it. The message is the minimum of the sum of these functions over the variable's labels, as a function of
// the other variables. For the functions f(x, y) and g(x, z) of x, it is
//
//	m(y, z) = min over x of f(x, y) + g(x, z)
//
// If the message would be too large, the functions are divided into buckets with one message each, here min f(x, y) and
// min g(x, z). When all variables are eliminated, only constants remain, and their sum is a lower bound on the cost of
// every assignment. In the methods, maxEntries is the maximum number of entries of a message.

// step is the elimination of one variable.
type step struct {
	variable int // index in the instance
	buckets  []bucket
}

// bucket holds functions of a variable and the message that replaces them.
type bucket struct {
	functions []*function
	message   *function
}

// elimination is an instance (see [instance]) whose variables are eliminated step by step. Its functions are in
// functionsOf; the field instance.functions is nil.
type elimination struct {
	instance
	functionsOf [][]*function // by variable: the functions that depend on it
	steps       []step        // the eliminations so far
}

// newElimination returns an elimination for a copy of the instance.
func (in *instance) newElimination() *elimination {
	e := &elimination{instance: *in, functionsOf: make([][]*function, len(in.problemVariables))}
	e.eliminated = slices.Clone(in.eliminated)
	functionCounts := make([]int, len(in.problemVariables))
	for _, f := range in.functions {
		for _, v := range f.scope {
			functionCounts[v]++
		}
	}
	for v, count := range functionCounts {
		e.functionsOf[v] = make([]*function, 0, count)
	}
	for _, f := range in.functions {
		for _, v := range f.scope {
			e.functionsOf[v] = append(e.functionsOf[v], f)
		}
	}
	e.functions = nil
	return e
}

// clone returns an independent copy.
func (e *elimination) clone() *elimination {
	in := e.remaining()
	return in.newElimination()
}

// remaining returns the remaining variables and functions as an instance.
func (e *elimination) remaining() *instance {
	in := e.instance
	in.eliminated, in.functions = slices.Clone(e.eliminated), nil
	for v, list := range e.functionsOf {
		for _, f := range list {
			if f.scope[0] == v { // once, although each variable of f has f in its list
				in.functions = append(in.functions, f)
			}
		}
	}
	return &in
}

// eliminateAll eliminates variables in order. A message of several functions has at most maxEntries entries. If a
// variable with more than one label has several buckets, the remaining problem only bounds the cost from below.
func (e *elimination) eliminateAll(order []int, maxEntries int) {
	for _, v := range order {
		e.eliminateVariable(v, maxEntries)
	}
}

// eliminateVariable eliminates v. Messages have at most maxEntries entries, as in eliminateAll.
func (e *elimination) eliminateVariable(v, maxEntries int) {
	interrupt.Check(e.ctx)
	eliminated := step{variable: v}
	for _, functions := range e.buckets(v, maxEntries) {
		message := e.message(v, functions)
		message.proofTerms = []int{e.nextProofNumber} // a proof refers to the message by this number
		e.nextProofNumber++
		eliminated.buckets = append(eliminated.buckets, bucket{functions, message})
	}
	// The messages replace the functions of v in the lists of its neighbours.
	for _, b := range eliminated.buckets {
		for _, neighbour := range b.message.scope {
			e.functionsOf[neighbour] = slices.DeleteFunc(e.functionsOf[neighbour], func(f *function) bool {
				return f.dependsOn(v)
			})
		}
	}
	for _, b := range eliminated.buckets {
		if len(b.message.scope) == 0 { // the functions depend on v alone: the message is a number
			e.constant = add(e.constant, b.message.table[0])
		}
		for _, neighbour := range b.message.scope {
			e.functionsOf[neighbour] = append(e.functionsOf[neighbour], b.message)
		}
	}
	e.functionsOf[v], e.eliminated[v] = nil, true
	e.steps = append(e.steps, eliminated)
}

// buckets divides the functions of v into buckets. If the message of all functions has at most maxEntries entries,
// there is one bucket. Otherwise functions are assigned to buckets by first fit, widest first. If v has one label,
// several buckets lose nothing, so they are kept small: a function joins a bucket only if it adds no variable to the
// bucket's scope.
func (e *elimination) buckets(v, maxEntries int) [][]*function {
	functions := e.functionsOf[v]
	if e.sizes[v] == 1 {
		maxEntries = 0 // no function may add a variable
	} else if len(functions) > 0 && e.tableEntries(e.otherVariables(v, functions)) <= int64(maxEntries) {
		return [][]*function{functions}
	}
	widestFirst := slices.Clone(functions)
	sorted.Func(widestFirst, func(a, b *function) int { return len(b.scope) - len(a.scope) })
	var list [][]*function
	var scopes [][]int // by bucket: the variables of its message
next:
	for _, f := range widestFirst {
		for i := range list {
			scope := e.otherVariables(v, slices.Concat(list[i], []*function{f}))
			if len(scope) == len(scopes[i]) || e.tableEntries(scope) <= int64(maxEntries) {
				list[i], scopes[i] = append(list[i], f), scope
				continue next
			}
		}
		list, scopes = append(list, []*function{f}), append(scopes, e.otherVariables(v, []*function{f}))
	}
	return list
}

// otherVariables returns the variables of the functions, except v, in ascending order.
func (e *elimination) otherVariables(v int, functions []*function) []int {
	var scope []int
	for _, f := range functions {
		for _, other := range f.scope {
			if other != v && !slices.Contains(scope, other) {
				scope = append(scope, other)
			}
		}
	}
	sorted.Ints(scope)
	return scope
}

// tableEntries returns the number of entries of a table over a scope.
func (e *elimination) tableEntries(scope []int) int64 {
	entries := int64(1)
	for _, variable := range scope {
		entries = product(entries, e.sizes[variable])
	}
	return entries
}

// decode assigns labels to the variables of the steps, in reverse order. Each label minimizes the functions of its
// step, given the labels of the variables that were eliminated later. The result is optimal if, in each step, there
// is only one bucket or the variable has only one label.
func decode(sizes []int, steps []step, labels []int) {
	for i := len(steps) - 1; i >= 0; i-- {
		step := &steps[i]
		best := Forbidden
		labels[step.variable] = 0
		for label := range sizes[step.variable] {
			if cost := step.cost(sizes, labels, label); cost < best {
				best, labels[step.variable] = cost, label
			}
		}
	}
}

// cost returns the sum of the step's functions if its variable has the given label and the other variables have the
// labels in the list labels.
func (s *step) cost(sizes, labels []int, label int) int64 {
	var sum int64
	oldLabel := labels[s.variable]
	labels[s.variable] = label
	for _, b := range s.buckets {
		for _, f := range b.functions {
			sum = add(sum, f.cost(sizes, labels))
		}
	}
	labels[s.variable] = oldLabel
	return sum
}

// cost returns the entry for labels.
func (f *function) cost(sizes, labels []int) int64 { return f.table[f.index(sizes, labels)] }

// index returns the index of the entry for labels.
func (f *function) index(sizes, labels []int) int {
	index := 0
	for _, v := range f.scope {
		index = index*sizes[v] + labels[v]
	}
	return index
}

// relax eliminates the remaining variables with messages of at most maxEntries entries. The constant is then a lower
// bound. With very many functions, messages are smaller, so that relax takes at most about a second.
func (e *elimination) relax(maxEntries int) {
	remaining := e.remaining()
	maxEntries = min(maxEntries, max(maxRelaxedWork/max(len(remaining.functions), 1), 1))
	e.eliminateAll(remaining.plan(largestMaxEntries).order, maxEntries)
	for v, isEliminated := range e.eliminated {
		if !isEliminated { // the plan stopped before this variable, because the graph is too dense
			e.eliminateVariable(v, maxEntries)
		}
	}
}

// mostConnected returns the variable with the most neighbours and, among these, the fewest labels.
func (e *elimination) mostConnected() int {
	best, most := -1, 0
	for v, isEliminated := range e.eliminated {
		if isEliminated {
			continue
		}
		neighbours := len(e.otherVariables(v, e.functionsOf[v]))
		if best < 0 || neighbours > most || neighbours == most && e.sizes[v] < e.sizes[best] {
			best, most = v, neighbours
		}
	}
	return best
}

// fixLabel returns the elimination after assigning a label to v and eliminating v.
func (e *elimination) fixLabel(v, label int) *elimination {
	remaining := e.remaining()
	remaining.sizes = slices.Clone(remaining.sizes)
	for i, f := range remaining.functions {
		if f.dependsOn(v) {
			remaining.functions[i] = f.slice(v, label, e.sizes)
		}
	}
	remaining.sizes[v] = 1
	fixed := remaining.newElimination()
	const maxEntries = 0 // not used, because v has one label
	fixed.eliminateVariable(v, maxEntries)
	return fixed
}
