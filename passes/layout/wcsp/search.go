package wcsp

import (
	"context"
	"slices"
	"time"
)

// search is depth-first branch and bound. A node of the search eliminates variables. The remaining problem is divided
// into independent parts, or split on a variable.
type search struct {
	ctx          context.Context
	table        int           // maximum number of entries of a message
	relaxed      int           // maximum number of entries of a message for a bound
	limit        time.Duration // see [Options.TimeLimit]
	deadline     time.Time
	late         bool // whether a limit is exceeded
	wantProof    bool
	nodes        int // number of visited nodes
	most         int // maximum of nodes; 0: no limit
	proofEntries int // number of entries of tables that are kept for the proof
	blamed       int // the first variable found without a feasible label, for an error
	hasBlame     bool
}

// newSearch returns the initial state of a search.
func newSearch(o Options) *search {
	s := &search{ctx: o.Context,
		table: o.MaxTable, limit: o.TimeLimit, most: o.MaxNodes, wantProof: o.Proof, relaxed: searchTable}
	if s.table <= 0 {
		s.table = defaultTable
	}
	s.table = min(s.table, largestTable)
	s.late = s.limit == 0
	s.relaxed = min(s.relaxed, s.table)
	s.deadline = time.Now().Add(s.limit)
	return s
}

// expired reports whether the limit on time, nodes, or memory for proofs is exceeded.
func (s *search) expired() bool {
	if !s.late {
		s.late = s.limit > 0 && time.Now().After(s.deadline) || s.most > 0 && s.nodes > s.most || s.proofEntries > proofTables
	}
	return s.late
}

// result is the outcome for an instance.
type result struct {
	bound  int64 // lower bound; any number at or above the cutoff if no assignment is below it
	cost   int64 // cost of labels; Forbidden if no assignment below the cutoff was found
	labels []int // labels of the variables that the instance had not eliminated
	tree   tree  // proof of bound
}

// node minimizes an instance. Assignments at or above the cutoff are irrelevant. At the top, elimination ignores the
// time limit.
func (s *search) node(in *instance, cutoff int64, top bool) result {
	s.nodes++
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
	return s.finish(e, s.parts(e, e.rest().components(), cutoff, top))
}

// reduce eliminates all variables if that is cheap, otherwise the variables with small tables.
func (s *search) reduce(e *elimination) {
	in := e.rest()
	plan := in.plan(s.table)
	if plan.left > 0 || plan.work > lightWork+lightPart*int64(len(in.names)) {
		plan = in.plan(min(s.table, lightTable))
	}
	e.all(plan.order, s.table)
}

// finish computes the labels of the eliminated variables.
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

// parts minimizes independent parts one by one.
func (s *search) parts(e *elimination, parts []*instance, cutoff int64, top bool) result {
	r := result{labels: make([]int, len(e.names)), bound: e.constant, cost: e.constant,
		tree: tree{steps: s.steps(e), constant: e.constant}}
	bounds := make([]int64, len(parts))
	for i, part := range parts {
		if len(parts) > 1 {
			relaxed := part.eliminate()
			relaxed.relax(s.relaxed)
			bounds[i] = relaxed.constant
		}
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
		found := s.core(part, limit, top)
		bounds[i] = found.bound
		r.bound, r.cost = add(r.bound, found.bound), add(r.cost, found.cost)
		for v, l := range found.labels {
			r.labels[part.outer[v]] = l
		}
		r.tree.parts = append(r.tree.parts, found.tree)
	}
	r.tree.bound = r.bound
	if r.cost >= cutoff {
		r.cost = Forbidden
	}
	return r
}

// core minimizes a connected instance that small tables do not solve. It tightens the bound, and cuts labels that
// cannot be part of a better assignment. It then continues with the remaining labels, or splits the instance if few
// labels are cut.
func (s *search) core(in *instance, cutoff int64, top bool) result {
	r := result{cost: Forbidden}
	if !top && s.expired() {
		return s.whole(in, r, cutoff, top)
	}
	left, cuts, all := in.supported()
	switch {
	case !all:
		return s.whole(in, r, cutoff, top)
	case len(cuts) > 0:
		return s.afterCuts(in, left, cuts, r, Forbidden, cutoff, top)
	}
	t := in.tighten(cutoff)
	if t == nil {
		return s.whole(in, r, cutoff, top)
	}
	if t.cost < cutoff {
		r.cost, r.labels = t.cost, t.best
	}
	tight, shifts := t.shifted()
	bound, limit := t.bound(), min(cutoff, r.cost)
	labels := 0
	for _, n := range in.sizes {
		labels += n
	}
	if left, cut := t.cut(limit - bound); bound < limit && cut*cutPart >= labels {
		r = s.afterCuts(tight, left, tight.cuts(left), r, limit, limit, top)
	} else {
		r = s.whole(tight, r, cutoff, top)
	}
	r.tree.shifts = shifts
	return r
}

// afterCuts minimizes an instance after cuts. Assignments with a cut label cost at least worth. r is the best result so
// far.
func (s *search) afterCuts(in *instance, left [][]int, cuts []Cut, r result, worth, cutoff int64, top bool) result {
	found := s.node(in.restrict(left), cutoff, top)
	if found.cost < r.cost {
		r.cost, r.labels = found.cost, found.labels
		for v, l := range r.labels {
			r.labels[v] = left[v][l]
		}
	}
	r.tree = found.tree
	r.tree.cuts, r.tree.cutoff = cuts, worth
	r.bound = min(found.bound, worth)
	r.tree.bound = r.bound
	return r
}

// whole minimizes a connected instance by large tables or by branching; r is the best result so far.
func (s *search) whole(in *instance, r result, cutoff int64, top bool) result {
	e := in.eliminate()
	table := branchTable
	if top {
		table = s.table
	}
	if plan := in.plan(min(s.table, table)); plan.left == 0 && (top || !s.expired()) {
		e.all(plan.order, s.table)
		s.blame(e)
		found := result{bound: e.constant, cost: Forbidden, tree: tree{bound: e.constant, steps: s.steps(e)}}
		if e.constant < min(cutoff, r.cost) {
			found.cost = e.constant
		} else {
			found.cost, found.labels = r.cost, r.labels
			return found
		}
		return s.finish(e, found)
	}
	limit := min(cutoff, r.cost)
	relaxed := s.bounded(e, limit, top)
	r.bound = relaxed.constant
	if r.bound < limit && r.cost == Forbidden {
		labels := make([]int, len(e.names))
		decode(e.sizes, relaxed.steps, labels)
		g := guess{in: in, at: e.at, labels: labels}
		g.improve()
		if g.cost() == Forbidden && cutoff == Forbidden && g.dive(relaxed.steps) {
			g.improve()
		}
		if c := g.cost(); c < cutoff {
			r.cost, r.labels = c, labels
		}
	}
	if r.bound < min(cutoff, r.cost) && !s.expired() {
		// An interrupted search may return a bound below the known one.
		if r = s.branch(e, r, cutoff); r.bound > relaxed.constant {
			return r
		}
		r.bound = relaxed.constant
	}
	s.blame(relaxed)
	r.tree = tree{bound: r.bound, steps: s.steps(relaxed)}
	return r
}

// bounded returns a relaxation of the remaining problem. The constant of the relaxation is a lower bound. Tables are
// minimal if the bound then reaches the limit, and larger otherwise.
func (s *search) bounded(e *elimination, limit int64, top bool) *elimination {
	relaxed := e.clone()
	if relaxed.relax(1); relaxed.constant >= limit {
		return relaxed
	}
	table := s.relaxed
	if top {
		table = min(s.table, boundTable)
	}
	relaxed = e.clone()
	relaxed.relax(table)
	return relaxed
}

// relax eliminates the remaining variables with messages of at most table entries. The constant is then a lower bound.
// If there are very many functions, messages are even smaller, so that relax takes at most about a second.
func (e *elimination) relax(table int) {
	in := e.rest()
	table = min(table, max(relaxedWork/max(len(in.functions), 1), 1))
	e.all(in.plan(largestTable).order, table)
	for v, gone := range e.gone {
		if !gone { // too dense to be planned
			e.variable(v, table)
		}
	}
}

// branch splits on a variable; r is the best result so far.
func (s *search) branch(e *elimination, r result, cutoff int64) result {
	v := e.hub()
	type child struct {
		label        int
		begun, bound *elimination
	}
	var children []child
	for l := range e.sizes[v] {
		c := e.narrow(v, l)
		children = append(children, child{l, c, s.bounded(c, min(cutoff, r.cost), false)})
	}
	slices.SortStableFunc(children, func(a, b child) int {
		return compare(a.bound.constant, b.bound.constant)
	})
	r.tree = tree{steps: s.steps(e), variable: e.names[v]}
	r.bound = Forbidden
	for _, c := range children {
		limit := min(cutoff, r.cost)
		steps := s.steps(c.begun)
		name := e.labels[v][c.label]
		t := tree{label: name, bound: c.bound.constant, steps: slices.Concat(steps, s.steps(c.bound))}
		if t.bound < limit && !s.expired() {
			found := s.node(c.begun.rest(), limit, false)
			if found.cost < limit {
				r.cost, r.labels = found.cost, found.labels
				r.labels[v] = c.label
			}
			found.tree.label, found.tree.steps = name, slices.Concat(steps, found.tree.steps)
			found.tree.relaxed, found.tree.relaxedBound = t.steps, t.bound
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

// compare orders two costs, for sorting.
func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// hub returns the variable with the most neighbours and, among these, the fewest labels.
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

// narrow returns the elimination after assigning a label to v and eliminating v.
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

// slice returns the function with v fixed to a label.
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

// blame records the first variable whose labels are all forbidden.
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

// steps returns the steps for a proof, if one is requested.
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
			s.proofEntries += len(bucket.Table)
			for i, v := range b.message.scope {
				bucket.Scope[i] = e.names[v]
			}
			out.Buckets = append(out.Buckets, bucket)
		}
		list = append(list, out)
	}
	return list
}
