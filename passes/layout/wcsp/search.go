package wcsp

import (
	"slices"
	"time"
)

// search is branch and bound, depth first. A node eliminates what it can; what is left is split into parts that have
// nothing in common, or on a variable.
type search struct {
	table     int // entries of messages
	relaxed   int // entries of messages of bounds
	limit     time.Duration
	deadline  time.Time
	late      bool
	wantProof bool
	nodes     int // that may yet be searched, where it is not 0
	held      int // entries of tables that proofs were made of
	blamed    int // the variable that an error names: the first whose labels were all found forbidden
	hasBlame  bool
}

func newSearch(o Options) *search {
	s := &search{table: o.MaxTable, limit: o.TimeLimit, wantProof: o.Proof, relaxed: searchTable}
	if s.table <= 0 {
		s.table = defaultTable
	}
	s.table = min(s.table, largestTable)
	s.late = s.limit == 0
	s.relaxed = min(s.relaxed, s.table)
	s.deadline = time.Now().Add(s.limit)
	return s
}

// expired reports whether it is time to end: the time is up, or a proof takes too much memory.
func (s *search) expired() bool {
	if !s.late {
		s.late = s.limit > 0 && time.Now().After(s.deadline) || s.held > proofTables
	}
	return s.late
}

// result is what was found of an instance.
type result struct {
	bound  int64 // what all assignments cost at least, or some number from the cutoff on
	cost   int64 // of the labels; Forbidden where there are none that cost less than the cutoff
	labels []int // of all variables that the instance has not eliminated
	tree   tree
}

// node minimises an instance. Assignments that cost the cutoff or more are of no interest. At the top elimination does
// not ask for the time.
func (s *search) node(in *instance, cutoff int64, top bool) result {
	if s.nodes > 0 {
		if s.nodes--; s.nodes == 0 {
			s.late = true
		}
	}
	e := in.eliminate()
	if top || !s.expired() {
		s.reduce(e)
	}
	if e.left() == 0 {
		r := result{bound: e.constant, cost: e.constant, tree: tree{bound: e.constant, steps: s.steps(e)}}
		s.blame(e)
		if r.cost >= cutoff {
			r.cost = Forbidden
		}
		return s.finish(e, r)
	}
	if parts := e.rest().components(); len(parts) > 1 {
		return s.finish(e, s.parts(e, parts, cutoff, top))
	}
	return s.finish(e, s.whole(e, cutoff, top))
}

// reduce eliminates everything if messages have room, else what takes small tables: then branches cost less than large
// ones.
func (s *search) reduce(e *elimination) {
	in := e.rest()
	plan := in.plan(s.table)
	if plan.left > 0 {
		plan = in.plan(min(s.table, branchTable))
	}
	e.all(plan.order, s.table)
}

// finish gives labels to the variables that were eliminated before those that the result has labels of.
func (s *search) finish(e *elimination, r result) result {
	if r.cost == Forbidden {
		r.labels = nil
		return r
	}
	if r.labels == nil {
		r.labels = make([]int, len(e.names))
	}
	decode(e.sizes, e.steps, r.labels)
	return r
}

// parts minimises what has nothing in common, one by one.
func (s *search) parts(e *elimination, parts []*instance, cutoff int64, top bool) result {
	r := result{labels: make([]int, len(e.names)), bound: e.constant, cost: e.constant,
		tree: tree{steps: s.steps(e), constant: e.constant}}
	bounds := make([]int64, len(parts))
	sum := e.constant
	for i, part := range parts {
		relaxed := part.eliminate()
		relaxed.relax(s.relaxed)
		bounds[i] = relaxed.constant
		sum = add(sum, bounds[i])
	}
	for i, part := range parts {
		others := e.constant
		for k := range parts {
			if k != i {
				others = add(others, bounds[k])
			}
		}
		limit := Forbidden
		if cutoff < Forbidden {
			limit = max(cutoff-others, 0)
		}
		found := s.node(part, limit, top)
		bounds[i] = found.bound
		r.bound, r.cost = add(r.bound, found.bound), add(r.cost, found.cost)
		for v, l := range found.labels {
			r.labels[part.within[v]] = l
		}
		r.tree.parts = append(r.tree.parts, found.tree)
	}
	r.tree.bound = r.bound
	if r.cost >= cutoff {
		r.cost = Forbidden
	}
	return r
}

// whole minimises what is left in one piece.
func (s *search) whole(e *elimination, cutoff int64, top bool) result {
	table := s.relaxed
	if top {
		table = min(s.table, boundTable)
	}
	relaxed := e.clone()
	relaxed.relax(table)
	r := result{bound: relaxed.constant, cost: Forbidden}
	if r.bound < cutoff {
		labels := make([]int, len(e.names))
		decode(e.sizes, relaxed.steps, labels)
		g := guess{in: e.rest(), at: e.at, labels: labels}
		g.improve()
		if g.cost() == Forbidden && cutoff == Forbidden && g.dive(relaxed.steps) {
			g.improve()
		}
		if c := g.cost(); c < cutoff {
			r.cost, r.labels = c, labels
		}
	}
	if r.bound < min(cutoff, r.cost) && !s.expired() {
		// A search that is cut short may end with less than what was known.
		if r = s.branch(e, r, cutoff); r.bound > relaxed.constant {
			return r
		}
		r.bound = relaxed.constant
	}
	s.blame(relaxed)
	r.tree = tree{bound: r.bound, steps: slices.Concat(s.steps(e), s.steps(relaxed))}
	return r
}

// relax eliminates all that is left with messages of at most so many entries. The constant that comes out is a bound.
// Where there are very many functions the messages are smaller, so that it stays a matter of a second at most.
func (e *elimination) relax(table int) {
	in := e.rest()
	table = min(table, max(relaxedWork/max(len(in.functions), 1), 1))
	e.all(in.plan(largestTable).order, table)
	for v, gone := range e.gone {
		if !gone { // so dense that it is past planning
			e.variable(v, table)
		}
	}
}

// branch splits on a variable; r has what is known already.
func (s *search) branch(e *elimination, r result, cutoff int64) result {
	v := e.hub()
	type child struct {
		label        int
		begun, bound *elimination
	}
	var children []child
	for l := range e.sizes[v] {
		c := e.narrow(v, l)
		children = append(children, child{l, c, c.clone()})
		children[l].bound.relax(s.relaxed)
	}
	slices.SortStableFunc(children, func(a, b child) int {
		return compare(a.bound.constant, b.bound.constant)
	})
	r.tree = tree{steps: s.steps(e), variable: e.names[v]}
	r.bound = Forbidden
	for _, c := range children {
		limit := min(cutoff, r.cost)
		steps := s.steps(c.begun)
		t := tree{label: c.label, bound: c.bound.constant, steps: slices.Concat(steps, s.steps(c.bound))}
		if t.bound < limit && !s.expired() {
			found := s.node(c.begun.rest(), limit, false)
			if found.cost < limit {
				r.cost, r.labels = found.cost, found.labels
				r.labels[v] = c.label
			}
			found.tree.label, found.tree.steps = c.label, slices.Concat(steps, found.tree.steps)
			found.tree.relaxed, found.tree.loose = t.steps, t.bound
			t = found.tree
		}
		r.bound = min(r.bound, t.bound)
		r.tree.branches = append(r.tree.branches, t)
	}
	r.tree.bound = r.bound
	if !s.hasBlame && r.bound == Forbidden {
		s.blamed, s.hasBlame = e.names[v], true
	}
	return r
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// hub is the variable with the most neighbours, of those the one with the fewest labels.
func (e *elimination) hub() int {
	best, most := -1, 0
	for v, gone := range e.gone {
		if gone {
			continue
		}
		n := len(e.others(v, e.at[v]))
		if best < 0 || n > most || n == most && e.sizes[v] < e.sizes[best] {
			best, most = v, n
		}
	}
	return best
}

// narrow goes on from here with one label of v, and eliminates v.
func (e *elimination) narrow(v, label int) *elimination {
	in := e.rest()
	in.sizes = slices.Clone(in.sizes)
	for i, f := range in.functions {
		if f.has(v) {
			in.functions[i] = f.slice(v, label, e.sizes)
		}
	}
	in.sizes[v] = 1
	c := in.eliminate()
	c.variable(v, 0)
	return c
}

// slice returns the function where v has one label.
func (f *function) slice(v, label int, sizes []int) *function {
	inner := 1
	for _, u := range f.scope[slices.Index(f.scope, v)+1:] {
		inner *= sizes[u]
	}
	g := &function{scope: f.scope, from: f.from, table: make([]int64, 0, len(f.table)/sizes[v])}
	for at := label * inner; at < len(f.table); at += sizes[v] * inner {
		g.table = append(g.table, f.table[at:at+inner]...)
	}
	return g
}

// blame remembers the first variable whose labels are all forbidden.
func (s *search) blame(e *elimination) {
	if s.hasBlame || e.constant < Forbidden {
		return
	}
	for _, step := range e.steps {
		for _, b := range step.buckets {
			if !slices.ContainsFunc(b.message.table, func(c int64) bool { return c < Forbidden }) {
				s.blamed, s.hasBlame = e.names[step.variable], true
				return
			}
		}
	}
}

// steps returns the steps for a proof, if one is wanted.
func (s *search) steps(e *elimination) []Step {
	if !s.wantProof {
		return nil
	}
	list := make([]Step, 0, len(e.steps))
	for _, step := range e.steps {
		out := Step{Variable: e.names[step.variable]}
		for _, b := range step.buckets {
			bucket := Bucket{From: []int{}, Scope: make([]int, len(b.message.scope)), Table: b.message.table}
			for _, f := range b.functions {
				bucket.From = append(bucket.From, f.from...)
			}
			slices.Sort(bucket.From)
			s.held += len(bucket.Table)
			for i, v := range b.message.scope {
				bucket.Scope[i] = e.names[v]
			}
			out.Buckets = append(out.Buckets, bucket)
		}
		list = append(list, out)
	}
	return list
}
