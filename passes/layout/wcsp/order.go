package wcsp

import (
	"cmp"
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
)

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
