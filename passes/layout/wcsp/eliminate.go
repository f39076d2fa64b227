package wcsp

import (
	"cmp"
	"math"
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

// message eliminates a variable from a sum of functions. For each combination of labels of the other variables, the
// entry of the message is the minimum of the sum over the labels of the eliminated variable. For the functions f(a,v),
// g(b,v) and h(v), for example, the elimination of v gives the message
//
//	m(a,b) = min over v of f(a,v) + g(b,v) + h(v)
//
// message works row by row along the last variable of its scope, here b. Functions that do not depend on this variable,
// here f and h, are added once per row.
func (e *elimination) message(eliminated int, functions []*function) *function {
	scope := e.otherVariables(eliminated, functions)
	result := &function{scope: scope, table: make([]int64, e.tableEntries(scope))}
	rowLength := 1
	if len(scope) > 0 {
		rowLength = e.sizes[scope[len(scope)-1]]
	}
	operands := e.operands(eliminated, scope, functions)
	constant, varying := splitByRowStride(operands)
	labels, sums := make([]int, len(scope)), make([]int64, e.sizes[eliminated])
	entriesSinceCheck := 0
	for row := result.table; len(row) > 0; row = row[rowLength:] {
		if entriesSinceCheck += rowLength * len(sums) * len(operands); entriesSinceCheck >= entriesPerCheck {
			interrupt.Check(e.ctx)
			entriesSinceCheck = 0
		}
		clear(sums)
		for _, f := range constant {
			for label := range sums {
				sums[label] = add(sums[label], f.table[f.index+label*f.eliminatedStride])
			}
		}
		rowMinima(row[:rowLength], sums, varying)
		e.advanceRow(scope, labels, operands)
	}
	return result
}

// entriesPerCheck is the number of table entries processed between two checks of the context.
const entriesPerCheck = 1 << 20

// operand is one of the functions that a message sums, with the strides of its table. The stride of a variable that the
// function does not depend on is 0.
type operand struct {
	table            []int64
	index            int   // current index into table
	eliminatedStride int   // of the variable that is eliminated
	rowStride        int   // of the last variable of the message's scope, which runs along a row; 0 for an empty scope
	strides          []int // by variable of the message's scope
}

// operands returns the functions with their strides along the variables of scope and along the eliminated variable. The
// variables in scope are in ascending order.
func (e *elimination) operands(eliminated int, scope []int, functions []*function) []operand {
	operands := make([]operand, len(functions))
	strides := make([]int, len(functions)*len(scope))
	for i, f := range functions {
		operand := operand{table: f.table, strides: strides[i*len(scope):][:len(scope)]}
		stride := 1
		for k := len(f.scope) - 1; k >= 0; k-- {
			if variable := f.scope[k]; variable == eliminated {
				operand.eliminatedStride = stride
			} else {
				index, _ := slices.BinarySearch(scope, variable)
				operand.strides[index] = stride
			}
			stride *= e.sizes[f.scope[k]]
		}
		if len(scope) > 0 {
			operand.rowStride = operand.strides[len(scope)-1]
		}
		operands[i] = operand
	}
	return operands
}

// splitByRowStride sorts the operands that are constant along a row before the others, and returns both parts.
func splitByRowStride(operands []operand) (constant, varying []operand) {
	// The sort key is 0 for a constant operand and 1 for the others.
	sorted.Func(operands, func(a, b operand) int { return min(a.rowStride, 1) - min(b.rowStride, 1) })
	firstVarying := slices.IndexFunc(operands, func(f operand) bool { return f.rowStride > 0 })
	if firstVarying < 0 {
		return operands, nil
	}
	return operands[:firstVarying], operands[firstVarying:]
}

// rowMinima computes a row of a message. sums has, by label of the eliminated variable, the sum of the functions that
// are constant along the row. varying has the other functions. Up to two varying functions are frequent and have loops
// of their own. These loops add up to three costs without add, which saturates at Forbidden: three costs do not
// overflow int64, and best, which starts at Forbidden, limits the sum.
func rowMinima(row, sums []int64, varying []operand) {
	for i := range row {
		best := Forbidden
		switch len(varying) {
		case 0:
			for _, sum := range sums {
				best = min(best, sum)
			}
		case 1:
			first := &varying[0]
			firstIndex := first.index + i*first.rowStride
			for _, sum := range sums {
				best = min(best, sum+first.table[firstIndex])
				firstIndex += first.eliminatedStride
			}
		case 2:
			first, second := &varying[0], &varying[1]
			firstIndex, secondIndex := first.index+i*first.rowStride, second.index+i*second.rowStride
			for _, sum := range sums {
				best = min(best, sum+first.table[firstIndex]+second.table[secondIndex])
				firstIndex, secondIndex = firstIndex+first.eliminatedStride, secondIndex+second.eliminatedStride
			}
		default:
			for label, sum := range sums {
				for j := range varying {
					f := &varying[j]
					sum = add(sum, f.table[f.index+i*f.rowStride+label*f.eliminatedStride])
				}
				best = min(best, sum)
			}
		}
		row[i] = best
	}
}

// advanceRow advances labels and the indices of operands to the next row of a message. Labels are by variable of the
// scope; the label of the last variable, which runs along the row, stays 0.
func (e *elimination) advanceRow(scope, labels []int, operands []operand) {
	for k := len(scope) - 2; k >= 0; k-- {
		labels[k]++
		size, increment := e.sizes[scope[k]], 1
		if labels[k] == size {
			labels[k], increment = 0, 1-size
		}
		for j := range operands {
			operands[j].index += increment * operands[j].strides[k]
		}
		if increment == 1 { // no carry
			break
		}
	}
}

// eliminationRule selects the next variable to eliminate.
type eliminationRule int

const (
	leastWork eliminationRule = iota // least work for the message
	leastFill                        // fewest new pairs of neighbours
)

// eliminationPlan is an elimination order and its estimated work.
type eliminationPlan struct {
	order         []int
	work          int64 // approximate number of costs read
	tooLargeCount int   // number of variables that are not in order, because their messages would be too large
}

// plan returns the better of the elimination orders of both rules. If the order of the first rule is cheap, plan does
// not try the second rule. The elimination of a variable replaces the functions that depend on it by a message: a table
// over the labels of its neighbours, the other variables of these functions. Each message has at most limit entries.
// All messages together have at most 4*limit entries, plus entriesPerVariable entries for each variable.
//
// The order determines the work. Let a variable c share a function with each of the variables v1, ..., vn, and let all
// have 4 labels. The elimination of c first gives a message of 4^n entries, because it depends on all the others. If
// v1, ..., vn are eliminated first, each message depends on c alone and has 4 entries.
func (in *instance) plan(limit int) eliminationPlan {
	const cheapWork = 1 << 17 // number of costs read; reading them takes less than a millisecond
	byWork := in.order(limit, leastWork)
	if byWork.tooLargeCount == 0 && byWork.work < cheapWork {
		return byWork
	}
	byFill := in.order(limit, leastFill)
	if byFill.tooLargeCount < byWork.tooLargeCount ||
		byFill.tooLargeCount == byWork.tooLargeCount && byFill.work < byWork.work {
		return byFill
	}
	return byWork
}

// entriesPerVariable limits the total number of message entries of a plan: see [instance.plan].
const entriesPerVariable = 1 << 6

// ordering is a greedy elimination without tables. It is a graph of variables: edges join variables that share a
// function or a message. Each variable has a key. The variable with the least key is eliminated next, which may change
// the keys of others.
type ordering struct {
	*instance
	rule       eliminationRule
	limit      int64            // maximum number of entries of a message
	neighbours [][]int          // by variable, ascending
	keys       []int64          // by variable: the result of the method key, or eliminatedKey
	queue      queue[candidate] // an entry is stale if its key is not the current key of its variable
}

// Keys of variables that cannot be eliminated.
const (
	tooLarge      = math.MaxInt64 // the message of the variable exceeds the limit
	eliminatedKey = -1
)

// order returns the elimination order of a rule.
func (in *instance) order(limit int, rule eliminationRule) eliminationPlan {
	o := &ordering{instance: in, rule: rule, limit: int64(limit),
		neighbours: make([][]int, len(in.problemVariables)), keys: make([]int64, len(in.problemVariables))}
	o.findNeighbours()
	var plan eliminationPlan
	for v := range o.neighbours {
		switch {
		case in.eliminated[v]:
		case in.sizes[v] == 1: // the elimination of a variable with one label joins no neighbours
			plan.order = append(plan.order, v)
		default:
			interrupt.Check(in.ctx)
			o.updateKey(v)
			plan.tooLargeCount++ // eliminateGreedily subtracts the variables that it adds to the order
		}
	}
	o.eliminateGreedily(&plan)
	return plan
}

// findNeighbours sets neighbours. Variables with one label have none.
func (o *ordering) findNeighbours() {
	for _, f := range o.functions {
		for _, v := range f.scope {
			for _, neighbour := range f.scope {
				if neighbour != v && o.sizes[neighbour] > 1 && o.sizes[v] > 1 {
					o.neighbours[v] = append(o.neighbours[v], neighbour)
				}
			}
		}
	}
	for v := range o.neighbours {
		sorted.Ints(o.neighbours[v])
		o.neighbours[v] = slices.Compact(o.neighbours[v])
	}
}

// eliminateGreedily eliminates variables from the graph. It stops if the messages of all remaining variables would be
// too large, or if the next message would exceed the limit on the entries of all messages: see [instance.plan].
func (o *ordering) eliminateGreedily(plan *eliminationPlan) {
	totalEntries, maxTotalEntries := int64(0), 4*o.limit+entriesPerVariable*int64(len(o.problemVariables))
	for len(o.queue) > 0 {
		interrupt.Check(o.ctx)
		next := o.queue.pop()
		v := next.variable
		if o.keys[v] != next.key {
			continue // stale entry
		}
		entryCount := o.messageEntries(v)
		totalEntries += entryCount
		if totalEntries > maxTotalEntries {
			return
		}
		o.keys[v] = eliminatedKey
		plan.order = append(plan.order, v)
		plan.tooLargeCount--
		plan.work = min(plan.work+product(entryCount, o.sizes[v]), math.MaxInt64/4)
		for _, changed := range o.eliminate(v) {
			o.updateKey(changed)
		}
	}
}

// updateKey recomputes the key of variable v. A new key is added to the queue, unless it is tooLarge.
func (o *ordering) updateKey(v int) {
	oldKey := o.keys[v]
	if oldKey == eliminatedKey {
		return
	}
	if o.keys[v] = o.key(v); o.keys[v] != oldKey && o.keys[v] != tooLarge {
		o.queue.push(candidate{key: o.keys[v], variable: v})
	}
}

// key returns the key of variable v: the work of its message, or the fill (the number of new pairs of neighbours) and
// then the work. It is positive.
func (o *ordering) key(v int) int64 {
	entryCount := o.messageEntries(v)
	if entryCount > o.limit {
		return tooLarge
	}
	work := product(entryCount, o.sizes[v])
	if o.rule == leastWork {
		return work
	}
	fill := int64(0)
	for i, neighbour := range o.neighbours[v] {
		for _, other := range o.neighbours[v][i+1:] {
			if _, adjacent := slices.BinarySearch(o.neighbours[neighbour], other); !adjacent {
				fill++
			}
		}
	}
	const workBits = 40
	return fill<<workBits + min(work, 1<<workBits-1) // ties of fill are broken by work
}

// messageEntries returns the number of entries of the message of v. If the number exceeds the limit, it returns
// limit + 1.
func (o *ordering) messageEntries(v int) int64 {
	size := int64(1)
	for _, neighbour := range o.neighbours[v] {
		if size = product(size, o.sizes[neighbour]); size > o.limit {
			return o.limit + 1
		}
	}
	return size
}

// product returns a*b, saturated at 1<<55: more than any limit, and small enough that sums do not overflow.
func product(a int64, b int) int64 {
	const maxProduct = 1 << 55
	if a > maxProduct/int64(b) {
		return maxProduct
	}
	return a * int64(b)
}

// eliminate removes v from the graph and joins its neighbours in pairs. It returns, in ascending order, the variables
// whose keys may change. These are the neighbours of v. With leastFill, they are also the common neighbours of each
// newly joined pair, because their own elimination no longer has to join this pair.
func (o *ordering) eliminate(v int) []int {
	neighbours := o.neighbours[v]
	changed := slices.Clone(neighbours)
	for i, neighbour := range neighbours {
		index, _ := slices.BinarySearch(o.neighbours[neighbour], v)
		o.neighbours[neighbour] = slices.Delete(o.neighbours[neighbour], index, index+1)
		for _, other := range neighbours[:i] {
			index, adjacent := slices.BinarySearch(o.neighbours[neighbour], other)
			if adjacent {
				continue
			}
			if o.rule == leastFill {
				changed = append(changed, intersection(o.neighbours[neighbour], o.neighbours[other])...)
			}
			o.neighbours[neighbour] = slices.Insert(o.neighbours[neighbour], index, other)
			index, _ = slices.BinarySearch(o.neighbours[other], neighbour)
			o.neighbours[other] = slices.Insert(o.neighbours[other], index, neighbour)
		}
	}
	sorted.Ints(changed)
	changed = slices.Compact(changed)
	if i, found := slices.BinarySearch(changed, v); found {
		changed = slices.Delete(changed, i, i+1)
	}
	return changed
}

// intersection returns the intersection of two ascending lists.
func intersection(a, b []int) []int {
	if len(a) > len(b) {
		a, b = b, a
	}
	var both []int
	for _, x := range a {
		if _, found := slices.BinarySearch(b, x); found {
			both = append(both, x)
		}
	}
	return both
}

// candidate is a variable in the queue, with its key at the time of insertion.
type candidate struct {
	key      int64
	variable int
}

// Compare orders candidates by key, and then by variable.
func (c candidate) Compare(other candidate) int {
	return cmp.Or(cmp.Compare(c.key, other.key), c.variable-other.variable)
}

// queue is a priority queue: a binary heap. Element i comes before the elements 2*i+1 and 2*i+2, if they exist, so that
// the first element comes before all others.
type queue[T interface{ Compare(T) int }] []T

// push adds an element.
func (q *queue[T]) push(x T) {
	*q = append(*q, x)
	list := *q
	for i := len(list) - 1; i > 0; {
		parent := (i - 1) / 2
		if list[i].Compare(list[parent]) >= 0 {
			return
		}
		list[i], list[parent] = list[parent], list[i]
		i = parent
	}
}

// pop removes the first element of a nonempty queue and returns it.
func (q *queue[T]) pop() T {
	list := *q
	first, last := list[0], len(list)-1
	list[0] = list[last]
	clear(list[last:]) // so that the element can be freed
	list = list[:last]
	*q = list
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return first
		}
		if child+1 < last && list[child+1].Compare(list[child]) < 0 {
			child++
		}
		if list[child].Compare(list[i]) >= 0 {
			return first
		}
		list[i], list[child] = list[child], list[i]
		i = child
	}
}

// proofNode is a node of the tree that proves a lower bound, under construction. The search makes a node for each
// subproblem; toNode converts it to a [Node] of the [Proof].
type proofNode struct {
	bound int64 // lower bound that the node proves
	label int   // label of the parent's variable, if the node is a branch

	// As in Node.
	shifts   []Shift
	cuts     []Cut
	cutoff   int64 // if there are cuts, bound is at most cutoff
	steps    []Step
	variable int
	branches []proofNode
	parts    []proofNode

	constant int64 // bound minus the sum of the bounds of the parts
	// relaxed are alternative steps, without branches, that prove the weaker bound relaxedBound.
	relaxed      []Step
	relaxedBound int64
}

// toNode returns a proof of a bound of at least target, and the proved bound. target is at most p.bound. If the relaxed
// steps prove the target, they replace the branches. This shortens the proof if the search explored more branches than
// the target needs.
func (p *proofNode) toNode(target int64) (Node, int64) {
	if p.relaxed != nil && p.relaxedBound >= target {
		return Node{Steps: p.relaxed}, p.relaxedBound
	}
	node, bound := Node{Shifts: p.shifts, Cuts: p.cuts, Steps: p.steps}, p.bound
	switch {
	case len(p.branches) > 0:
		node.Variable = p.variable
		node.Branches, bound = p.branchProofs(target)
	case len(p.parts) > 0:
		node.Parts, bound = p.partProofs(target)
	}
	if len(p.cuts) > 0 {
		node.Cutoff = p.cutoff
		bound = min(bound, p.cutoff)
	}
	return node, bound
}

// branchProofs returns the proofs of the branches and their least bound. Each branch must prove the target.
func (p *proofNode) branchProofs(target int64) (list []Branch, bound int64) {
	bound = Forbidden
	for i := range p.branches {
		child, childBound := p.branches[i].toNode(target)
		list = append(list, Branch{p.branches[i].label, child})
		bound = min(bound, childBound)
	}
	sorted.Func(list, func(a, b Branch) int { return a.Label - b.Label })
	return list, bound
}

// partProofs returns the proofs of the parts, and the sum of their bounds and of the constant. If this sum exceeds the
// target, parts may prove lower bounds, which need shorter proofs. Earlier parts use up the excess first.
func (p *proofNode) partProofs(target int64) (list []Node, bound int64) {
	spare := p.constant - target // the amount by which the sum of the parts' bounds may fall
	for i := range p.parts {
		spare = add(spare, p.parts[i].bound)
	}
	bound = p.constant
	for i := range p.parts {
		partBound := p.parts[i].bound
		child, childBound := p.parts[i].toNode(max(partBound-spare, 0))
		spare -= max(partBound-childBound, 0)
		list = append(list, child)
		bound = add(bound, childBound)
	}
	return list, bound
}

// proofSteps returns the steps of an elimination for a proof, if one is requested.
func (s *search) proofSteps(reduced *elimination) []Step {
	if !s.wantProof {
		return nil
	}
	list := make([]Step, 0, len(reduced.steps))
	for _, step := range reduced.steps {
		proofStep := Step{Variable: reduced.problemVariables[step.variable]}
		for _, derived := range step.buckets {
			bucket := Bucket{From: []int{}, Scope: make([]int, len(derived.message.scope)),
				Table: derived.message.table}
			for _, summand := range derived.functions {
				bucket.From = append(bucket.From, summand.proofTerms...)
			}
			sorted.Ints(bucket.From)
			s.proofEntries += len(bucket.Table)
			for i, v := range derived.message.scope {
				bucket.Scope[i] = reduced.problemVariables[v]
			}
			proofStep.Buckets = append(proofStep.Buckets, bucket)
		}
		list = append(list, proofStep)
	}
	return list
}
