package wcsp

import (
	"context"
	"slices"

	"github.com/graphrun/graphrun/internal/ends"
)

// function is a cost by the labels of some variables: factors of the problem that were added up, or a message.
type function struct {
	scope []int   // ascending
	table []int64 // row-major
	from  []int   // the numbers, in a proof, of what it is the sum of
}

// has reports whether a variable is in the scope.
func (f *function) has(v int) bool { return slices.Contains(f.scope, v) }

// instance is a problem within a problem: what is left to do after some variables were eliminated.
type instance struct {
	ctx       context.Context // nil: none
	names     []int           // the numbers that the variables have in the problem
	within    []int           // those that they have in the instance that this is a part of
	sizes     []int           // how many labels they have
	labels    [][]int         // the numbers that these have in the problem, where labels were taken away
	gone      []bool
	functions []*function // none of them without variables
	constant  int64
	next      int // the number of the next message in the proof
}

// left counts the variables.
func (in *instance) left() int {
	n := 0
	for _, gone := range in.gone {
		if !gone {
			n++
		}
	}
	return n
}

// sums adds up the factors of a problem that have the same variables, over all labels, and sorts their scopes.
func sums(ctx context.Context, p *Problem) *instance {
	in := &instance{ctx: ctx, next: len(p.Factors)}
	for v := range p.Variables {
		in.names = append(in.names, v)
		in.sizes = append(in.sizes, len(p.Variables[v].Labels))
	}
	in.gone = make([]bool, len(in.names))
	type pair struct{ a, b int }
	found := map[pair]*function{}
	for i := range p.Factors {
		ends.Look(ctx)
		f := &p.Factors[i]
		if len(f.Scope) == 0 {
			in.constant = add(in.constant, f.Costs[0])
			continue
		}
		scope := slices.Sorted(slices.Values(f.Scope))
		key := pair{scope[0], scope[len(scope)-1]}
		sum := found[key]
		if sum == nil {
			sum = &function{scope: scope, table: make([]int64, len(f.Costs))}
			found[key] = sum
			in.functions = append(in.functions, sum)
		}
		sum.from = append(sum.from, i)
		sum.add(f, in.sizes)
	}
	return in
}

// add adds a factor on the same variables, whose scope may be the other way round.
func (f *function) add(g *Factor, sizes []int) {
	if len(g.Scope) == 1 || g.Scope[0] < g.Scope[1] {
		for i, c := range g.Costs {
			f.table[i] = add(f.table[i], c)
		}
		return
	}
	rows, columns := sizes[g.Scope[0]], sizes[g.Scope[1]]
	for i := range rows {
		for k := range columns {
			at := &f.table[k*rows+i]
			*at = add(*at, g.Costs[i*columns+k])
		}
	}
}

// kept returns the instance with those labels alone that are listed by variable.
func (in *instance) kept(labels [][]int) *instance {
	out := *in
	out.labels = labels
	if in.labels != nil {
		out.labels = make([][]int, len(labels))
		for v, list := range labels {
			for _, l := range list {
				out.labels[v] = append(out.labels[v], in.labels[v][l])
			}
		}
	}
	out.sizes = make([]int, len(labels))
	for v := range labels {
		out.sizes[v] = len(labels[v])
	}
	out.functions = make([]*function, len(in.functions))
	for i, f := range in.functions {
		whole := true
		for _, v := range f.scope {
			whole = whole && in.sizes[v] == out.sizes[v]
		}
		if out.functions[i] = f; whole {
			continue
		}
		g := &function{scope: f.scope, from: f.from}
		places := []int{0}
		for _, v := range f.scope {
			next := make([]int, 0, len(places)*len(labels[v]))
			for _, at := range places {
				for _, l := range labels[v] {
					next = append(next, at*in.sizes[v]+l)
				}
			}
			places = next
		}
		g.table = make([]int64, len(places))
		for k, at := range places {
			g.table[k] = f.table[at]
		}
		out.functions[i] = g
	}
	return &out
}

// components returns what has no function in common as instances of their own, ordered by their least variables.
func (in *instance) components() []*instance {
	root := make([]int, len(in.names))
	for v := range root {
		root[v] = v
	}
	find := func(v int) int {
		for root[v] != v {
			root[v] = root[root[v]]
			v = root[v]
		}
		return v
	}
	for _, f := range in.functions {
		for _, v := range f.scope[1:] {
			a, b := find(f.scope[0]), find(v)
			root[max(a, b)] = min(a, b)
		}
	}
	var list []*instance
	of := map[int]*instance{}
	local := make([]int, len(in.names))
	for v := range in.names {
		if in.gone[v] {
			continue
		}
		c := of[find(v)]
		if c == nil {
			c = &instance{ctx: in.ctx, next: in.next}
			of[find(v)] = c
			list = append(list, c)
		}
		local[v] = len(c.names)
		c.names, c.within = append(c.names, in.names[v]), append(c.within, v)
		c.sizes = append(c.sizes, in.sizes[v])
		c.labels = append(c.labels, in.labels[v])
		c.gone = append(c.gone, false)
	}
	for _, f := range in.functions {
		g := &function{scope: make([]int, len(f.scope)), table: f.table, from: f.from}
		for i, v := range f.scope {
			g.scope[i] = local[v]
		}
		c := of[find(f.scope[0])]
		c.functions = append(c.functions, g)
	}
	return list
}
