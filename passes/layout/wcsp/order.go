package wcsp

import (
	"container/heap"
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/ends"
)

// rule says which variable is eliminated next.
type rule int

const (
	leastWork rule = iota // the one whose message takes least work
	leastFill             // the one that joins the fewest variables that were not joined
)

// plan is an order of elimination, found on the graph of variables alone.
type plan struct {
	order []int
	work  int64 // costs looked at, about
	left  int   // variables whose message would be too large
}

// roomPart is how many entries messages may have together for each variable.
const roomPart = 1 << 6

// plan returns an order in which variables can be eliminated with messages of at most so many entries each, and four
// times that together besides some for each variable: those of no neighbour, one and two come first by themselves. The
// better of two orders is taken, unless there is little to do anyway.
func (in *instance) plan(limit int) plan {
	const little = 1 << 17
	a := in.order(limit, leastWork)
	if a.left == 0 && a.work < little {
		return a
	}
	b := in.order(limit, leastFill)
	if b.left < a.left || b.left == a.left && b.work < a.work {
		return b
	}
	return a
}

// candidate is a variable in the queue, with its key when it was put there.
type candidate struct {
	key      int64
	variable int
}

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

// ordering is a graph in which variables are joined that share a function, now or by a message.
type ordering struct {
	*instance
	rule  rule
	limit int64
	near  [][]int // ascending
	keys  []int64
	queue queue
}

// tooLarge is the key of a variable whose message is too large.
const tooLarge = math.MaxInt64

func (in *instance) order(limit int, r rule) plan {
	o := &ordering{instance: in, rule: r, limit: int64(limit), near: make([][]int, len(in.names)),
		keys: make([]int64, len(in.names))}
	var p plan
	for _, f := range in.functions {
		for _, v := range f.scope {
			for _, u := range f.scope {
				if u != v && in.sizes[u] > 1 && in.sizes[v] > 1 {
					o.near[v] = append(o.near[v], u)
				}
			}
		}
	}
	for v := range o.near {
		if in.gone[v] {
			continue
		}
		if in.sizes[v] == 1 { // joins nobody: functions of one label are others' with the same tables
			p.order = append(p.order, v)
			continue
		}
		slices.Sort(o.near[v])
		o.near[v] = slices.Compact(o.near[v])
		p.left++
	}
	for v := range o.near {
		if !in.gone[v] && in.sizes[v] > 1 {
			ends.Look(in.ctx)
			o.enter(v)
		}
	}
	heap.Init(&o.queue)
	o.run(&p)
	return p
}

// run takes variables until what is left is too large.
func (o *ordering) run(p *plan) {
	entries := int64(0)
	for len(o.queue) > 0 {
		ends.Look(o.ctx)
		c := heap.Pop(&o.queue).(candidate)
		v := c.variable
		if o.keys[v] != c.key {
			continue // it was entered again since
		}
		table := o.table(v)
		if entries += table; entries > 4*o.limit+roomPart*int64(len(o.names)) {
			return
		}
		o.keys[v] = -1
		p.order = append(p.order, v)
		p.left--
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

func (o *ordering) enter(v int) {
	if o.keys[v] = o.key(v); o.keys[v] != tooLarge {
		o.queue = append(o.queue, candidate{o.keys[v], v})
	}
}

// table is how many entries the message of v has, or some number above the limit.
func (o *ordering) table(v int) int64 {
	size := int64(1)
	for _, u := range o.near[v] {
		if size = product(size, o.sizes[u]); size > o.limit {
			return o.limit + 1
		}
	}
	return size
}

// product is a*b, or many where that is more.
func product(a int64, b int) int64 {
	const many = 1 << 55
	if a > many/int64(b) {
		return many
	}
	return a * int64(b)
}

// key is what variables are taken in the order of.
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
	for i, u := range o.near[v] {
		for _, w := range o.near[v][i+1:] {
			if _, joined := slices.BinarySearch(o.near[u], w); !joined {
				fill++
			}
		}
	}
	return fill<<40 + min(work, 1<<40-1)
}

// eliminate joins the neighbours of v and returns, ascending, the variables whose keys may be others now: the
// neighbours and, where fill counts, whoever is near two that were not joined before.
func (o *ordering) eliminate(v int) []int {
	near := o.near[v]
	changed := slices.Clone(near)
	for i, u := range near {
		at, _ := slices.BinarySearch(o.near[u], v)
		o.near[u] = slices.Delete(o.near[u], at, at+1)
		for _, w := range near[:i] {
			at, there := slices.BinarySearch(o.near[u], w)
			if there {
				continue
			}
			if o.rule == leastFill {
				changed = append(changed, shared(o.near[u], o.near[w])...)
			}
			o.near[u] = slices.Insert(o.near[u], at, w)
			at, _ = slices.BinarySearch(o.near[w], u)
			o.near[w] = slices.Insert(o.near[w], at, u)
		}
	}
	slices.Sort(changed)
	changed = slices.Compact(changed)
	if i, there := slices.BinarySearch(changed, v); there {
		changed = slices.Delete(changed, i, i+1)
	}
	return changed
}

// shared is what two ascending lists have in common.
func shared(a, b []int) []int {
	if len(a) > len(b) {
		a, b = b, a
	}
	var both []int
	for _, x := range a {
		if _, there := slices.BinarySearch(b, x); there {
			both = append(both, x)
		}
	}
	return both
}
