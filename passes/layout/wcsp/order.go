package wcsp

import (
	"container/heap"
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
)

// rule selects the next variable to eliminate.
type rule int

const (
	leastWork rule = iota // least work for the message
	leastFill             // fewest new pairs of neighbours
)

// plan is an elimination order and its estimated work.
type plan struct {
	order         []int
	work          int64 // approximate number of costs read
	tooLargeCount int   // variables whose message would be too large
}

// entriesPerVariable is the number of message entries per variable that a plan may have in addition to 4*limit, see
// instance.plan.
const entriesPerVariable = 1 << 6

// plan returns the better elimination order of both rules. If the order of the first rule is cheap, plan does not try
// the second rule. Each message has at most limit entries, and all messages together have at most 4*limit entries plus
// entriesPerVariable entries for each variable.
func (in *instance) plan(limit int) plan {
	const cheapWork = 1 << 17 // work in costs read, below a millisecond
	a := in.order(limit, leastWork)
	if a.tooLargeCount == 0 && a.work < cheapWork {
		return a
	}
	b := in.order(limit, leastFill)
	if b.tooLargeCount < a.tooLargeCount || b.tooLargeCount == a.tooLargeCount && b.work < a.work {
		return b
	}
	return a
}

// candidate is a variable in the queue, with its key at the time of insertion.
type candidate struct {
	key      int64
	variable int
}

// queue is a priority queue of candidates.
type queue []candidate

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(candidate)) }
func (q queue) Less(i, j int) bool {
	return q[i].key < q[j].key || q[i].key == q[j].key && q[i].variable < q[j].variable
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	c := (*q)[last]
	*q = (*q)[:last]
	return c
}

// ordering is the state of the computation of an elimination order. It is a graph of variables: edges join variables
// that share a function or a message.
type ordering struct {
	*instance
	rule       rule
	limit      int64
	neighbours [][]int // by variable, ascending
	keys       []int64 // by variable: present key; -1 if it is eliminated
	queue      queue   // may have stale entries, with other keys
}

// tooLarge is the key of a variable whose message exceeds the limit.
const tooLarge = math.MaxInt64

// order returns the elimination order of a rule.
func (in *instance) order(limit int, r rule) plan {
	o := &ordering{instance: in, rule: r, limit: int64(limit), neighbours: make([][]int, len(in.problemVariables)),
		keys: make([]int64, len(in.problemVariables))}
	var p plan
	for _, f := range in.functions {
		for _, v := range f.scope {
			for _, u := range f.scope {
				if u != v && in.sizes[u] > 1 && in.sizes[v] > 1 {
					o.neighbours[v] = append(o.neighbours[v], u)
				}
			}
		}
	}
	for v := range o.neighbours {
		if in.eliminated[v] {
			continue
		}
		if in.sizes[v] == 1 { // with one label, elimination joins no neighbours
			p.order = append(p.order, v)
			continue
		}
		sorted.Ints(o.neighbours[v])
		o.neighbours[v] = slices.Compact(o.neighbours[v])
		p.tooLargeCount++
	}
	for v := range o.neighbours {
		if !in.eliminated[v] && in.sizes[v] > 1 {
			interrupt.Check(in.ctx)
			o.enqueue(v)
		}
	}
	heap.Init(&o.queue)
	o.run(&p)
	return p
}

// run eliminates variables until the messages of all remaining variables are too large.
func (o *ordering) run(p *plan) {
	entries := int64(0)
	for len(o.queue) > 0 {
		interrupt.Check(o.ctx)
		c := heap.Pop(&o.queue).(candidate)
		v := c.variable
		if o.keys[v] != c.key {
			continue // stale entry
		}
		table := o.table(v)
		if entries += table; entries > 4*o.limit+entriesPerVariable*int64(len(o.problemVariables)) {
			return
		}
		o.keys[v] = -1
		p.order = append(p.order, v)
		p.tooLargeCount--
		p.work = min(p.work+product(table, o.sizes[v]), math.MaxInt64/4)
		for _, u := range o.eliminate(v) {
			if o.keys[u] >= 0 {
				before := o.keys[u]
				if o.keys[u] = o.key(u); o.keys[u] != before && o.keys[u] != tooLarge {
					heap.Push(&o.queue, candidate{o.keys[u], u})
				}
			}
		}
	}
}

// enqueue adds a variable to the queue.
func (o *ordering) enqueue(v int) {
	if o.keys[v] = o.key(v); o.keys[v] != tooLarge {
		o.queue = append(o.queue, candidate{o.keys[v], v})
	}
}

// table returns the number of entries of the message of v. If the number exceeds the limit, it returns limit + 1.
func (o *ordering) table(v int) int64 {
	size := int64(1)
	for _, u := range o.neighbours[v] {
		if size = product(size, o.sizes[u]); size > o.limit {
			return o.limit + 1
		}
	}
	return size
}

// product returns a*b, saturated.
func product(a int64, b int) int64 {
	const maxProduct = 1 << 55
	if a > maxProduct/int64(b) {
		return maxProduct
	}
	return a * int64(b)
}

// key returns the priority of a variable; the least comes first.
func (o *ordering) key(v int) int64 {
	table := o.table(v)
	if table > o.limit {
		return tooLarge
	}
	work := product(table, o.sizes[v])
	if o.rule == leastWork {
		return work
	}
	fill := int64(0)
	for i, u := range o.neighbours[v] {
		for _, w := range o.neighbours[v][i+1:] {
			if _, adjacent := slices.BinarySearch(o.neighbours[u], w); !adjacent {
				fill++
			}
		}
	}
	return fill<<40 + min(work, 1<<40-1) // ties of fill are broken by work
}

// eliminate joins the neighbours of v. It returns, in ascending order, the variables whose keys may change: the
// neighbours and, for leastFill, common neighbours of newly joined pairs.
func (o *ordering) eliminate(v int) []int {
	neighbours := o.neighbours[v]
	changed := slices.Clone(neighbours)
	for i, u := range neighbours {
		at, _ := slices.BinarySearch(o.neighbours[u], v)
		o.neighbours[u] = slices.Delete(o.neighbours[u], at, at+1)
		for _, w := range neighbours[:i] {
			at, adjacent := slices.BinarySearch(o.neighbours[u], w)
			if adjacent {
				continue
			}
			if o.rule == leastFill {
				changed = append(changed, intersection(o.neighbours[u], o.neighbours[w])...)
			}
			o.neighbours[u] = slices.Insert(o.neighbours[u], at, w)
			at, _ = slices.BinarySearch(o.neighbours[w], u)
			o.neighbours[w] = slices.Insert(o.neighbours[w], at, u)
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
