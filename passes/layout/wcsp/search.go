package wcsp

import (
	"context"
	"slices"
	"time"

	"github.com/graphrun/graphrun/internal/sorted"
)

// search is the state of a depth-first branch and bound. A node of the search eliminates variables. The remaining
// problem is divided into independent parts, or split on a variable. In the methods, in is an instance, e is an
// elimination of its variables, and r is the best result so far.
type search struct {
	ctx                context.Context
	maxTable           int           // maximum number of entries of a message
	maxRelaxedTable    int           // maximum number of entries of a message for a bound
	timeLimit          time.Duration // see [Options.TimeLimit]
	deadline           time.Time
	limitExceeded      bool // whether the limit on time, nodes or proof entries is exceeded
	wantProof          bool
	nodes              int  // number of visited nodes
	maxNodes           int  // maximum of nodes; 0: no limit
	proofEntries       int  // number of entries of all tables of the proof
	infeasibleVariable int  // the first variable that was found to have no feasible label; the error names it
	hasInfeasible      bool // whether infeasibleVariable is set
}

// newSearch returns the initial state of a search.
func newSearch(options Options) *search {
	s := &search{ctx: options.Context,
		maxTable: options.MaxTable, timeLimit: options.TimeLimit, maxNodes: options.MaxNodes, wantProof: options.Proof,
		maxRelaxedTable: searchTable}
	if s.maxTable <= 0 {
		s.maxTable = defaultTable
	}
	s.maxTable = min(s.maxTable, largestTable)
	s.limitExceeded = s.timeLimit == 0
	s.maxRelaxedTable = min(s.maxRelaxedTable, s.maxTable)
	s.deadline = time.Now().Add(s.timeLimit)
	return s
}

// expired reports whether the limit on time, nodes, or memory for proofs is exceeded.
func (s *search) expired() bool {
	if !s.limitExceeded {
		s.limitExceeded = s.timeLimit > 0 && time.Now().After(s.deadline) || s.maxNodes > 0 && s.nodes > s.maxNodes ||
			s.proofEntries > proofTables
	}
	return s.limitExceeded
}

// result is the result of minimizing an instance. Costs include the instance's constant.
type result struct {
	bound  int64 // lower bound; at or above the cutoff, it proves that no assignment costs less than the cutoff
	cost   int64 // cost of labels; Forbidden if no assignment below the cutoff was found
	labels []int // labels of the variables that the instance had not eliminated
	tree   tree  // proof of bound
}

// minimize minimizes an instance. Assignments that cost the cutoff or more are irrelevant. At the root, elimination
// ignores the time limit.
func (s *search) minimize(in *instance, cutoff int64, isRoot bool) result {
	s.nodes++
	e := in.eliminate()
	if isRoot || !s.expired() {
		s.eliminateCheapVariables(e)
	}
	if e.remainingCount() == 0 {
		r := result{bound: e.constant, cost: e.constant, tree: tree{bound: e.constant, steps: s.proofSteps(e)}}
		s.recordInfeasible(e)
		if r.cost >= cutoff {
			r.cost = Forbidden
		}
		return s.withEliminatedLabels(e, r)
	}
	return s.withEliminatedLabels(e, s.minimizeParts(e, e.remaining().components(), cutoff, isRoot))
}

// eliminateCheapVariables eliminates all variables if that is cheap, otherwise the variables with small tables.
func (s *search) eliminateCheapVariables(e *elimination) {
	in := e.remaining()
	plan := in.plan(s.maxTable)
	if plan.tooLargeCount > 0 || plan.work > lightWork+lightVariableWork*int64(len(in.problemVariables)) {
		plan = in.plan(min(s.maxTable, lightTable))
	}
	e.eliminateAll(plan.order, s.maxTable)
}

// withEliminatedLabels computes the labels of the eliminated variables.
func (s *search) withEliminatedLabels(e *elimination, r result) result {
	if r.cost == Forbidden {
		r.labels = nil
		return r
	}
	if r.labels == nil {
		r.labels = make([]int, len(e.problemVariables))
	}
	decode(e.sizes, e.steps, r.labels)
	return r
}

// minimizeParts minimizes independent parts one by one. bounds has a lower bound of each part, which its minimization
// replaces by a better one. The cutoff of a part is the cutoff less the bounds of the other parts.
func (s *search) minimizeParts(e *elimination, parts []*instance, cutoff int64, isRoot bool) result {
	r := result{labels: make([]int, len(e.problemVariables)), bound: e.constant, cost: e.constant,
		tree: tree{steps: s.proofSteps(e), constant: e.constant}}
	bounds := make([]int64, len(parts))
	for i, part := range parts {
		if len(parts) > 1 {
			relaxed := part.eliminate()
			relaxed.relax(s.maxRelaxedTable)
			bounds[i] = relaxed.constant
		}
	}
	for i, part := range parts {
		otherBounds := e.constant
		for k := range parts {
			if k != i {
				otherBounds = add(otherBounds, bounds[k])
			}
		}
		partCutoff := Forbidden
		if cutoff < Forbidden {
			partCutoff = max(cutoff-otherBounds, 0)
		}
		found := s.tightenAndCut(part, partCutoff, isRoot)
		bounds[i] = found.bound
		r.bound, r.cost = add(r.bound, found.bound), add(r.cost, found.cost)
		for v, l := range found.labels {
			r.labels[part.outerVariables[v]] = l
		}
		r.tree.parts = append(r.tree.parts, found.tree)
	}
	r.tree.bound = r.bound
	if r.cost >= cutoff {
		r.cost = Forbidden
	}
	return r
}

// tightenAndCut minimizes a connected instance that small tables do not solve. It tightens the bound, and cuts labels
// that cannot be part of a better assignment. It then continues with the remaining labels, or splits the instance if
// few labels are cut.
func (s *search) tightenAndCut(in *instance, cutoff int64, isRoot bool) result {
	r := result{cost: Forbidden}
	if !isRoot && s.expired() {
		return s.tablesOrBranch(in, r, cutoff, isRoot)
	}
	remaining, cuts, feasible := in.supported()
	switch {
	case !feasible:
		return s.tablesOrBranch(in, r, cutoff, isRoot)
	case len(cuts) > 0: // an assignment with an unsupported label costs Forbidden
		return s.minimizeAfterCuts(in, remaining, cuts, r, Forbidden, cutoff, isRoot)
	}
	tightening := in.tighten(cutoff)
	if tightening == nil {
		return s.tablesOrBranch(in, r, cutoff, isRoot)
	}
	if tightening.bestCost < cutoff {
		r.cost, r.labels = tightening.bestCost, tightening.bestLabels
	}
	tightened, shifts := tightening.withCurrentCosts()
	bound, limit := tightening.bound(), min(cutoff, r.cost)
	labels := 0
	for _, n := range in.sizes {
		labels += n
	}
	if remaining, cutCount := tightening.cutLabels(limit - bound); bound < limit && cutCount*minCutDivisor >= labels {
		r = s.minimizeAfterCuts(tightened, remaining, tightened.cuts(remaining), r, limit, limit, isRoot)
	} else {
		r = s.tablesOrBranch(tightened, r, cutoff, isRoot)
	}
	r.tree.shifts = shifts
	return r
}

// minimizeAfterCuts minimizes an instance after cuts. Assignments with a cut label cost at least cutBound. r is the
// best result so far.
func (s *search) minimizeAfterCuts(in *instance, remaining [][]int, cuts []Cut, r result,
	cutBound, cutoff int64, isRoot bool) result {
	found := s.minimize(in.restrict(remaining), cutoff, isRoot)
	if found.cost < r.cost {
		r.cost, r.labels = found.cost, found.labels
		for v, l := range r.labels {
			r.labels[v] = remaining[v][l]
		}
	}
	r.tree = found.tree
	r.tree.cuts, r.tree.cutoff = cuts, cutBound
	r.bound = min(found.bound, cutBound)
	r.tree.bound = r.bound
	return r
}

// tablesOrBranch minimizes a connected instance by large tables or by branching; r is the best result so far.
func (s *search) tablesOrBranch(in *instance, r result, cutoff int64, isRoot bool) result {
	e := in.eliminate()
	maxEntries := branchTable
	if isRoot {
		maxEntries = s.maxTable
	}
	if plan := in.plan(min(s.maxTable, maxEntries)); plan.tooLargeCount == 0 && (isRoot || !s.expired()) {
		e.eliminateAll(plan.order, s.maxTable)
		s.recordInfeasible(e)
		found := result{bound: e.constant, cost: e.constant, tree: tree{bound: e.constant, steps: s.proofSteps(e)}}
		if e.constant >= min(cutoff, r.cost) {
			found.cost, found.labels = r.cost, r.labels
			return found
		}
		return s.withEliminatedLabels(e, found)
	}
	limit := min(cutoff, r.cost)
	relaxed := s.relaxation(e, limit, isRoot)
	r.bound = relaxed.constant
	if r.bound < limit && r.cost == Forbidden {
		labels := make([]int, len(e.problemVariables))
		decode(e.sizes, relaxed.steps, labels)
		candidate := guess{instance: in, functionsOf: e.functionsOf, labels: labels}
		candidate.improve()
		if candidate.cost() == Forbidden && cutoff == Forbidden && candidate.depthFirst(relaxed.steps) {
			candidate.improve()
		}
		if c := candidate.cost(); c < cutoff {
			r.cost, r.labels = c, labels
		}
	}
	if r.bound < min(cutoff, r.cost) && !s.expired() {
		// The bound of an interrupted search may be below the bound of the relaxation, which is then used instead.
		if r = s.minimizeByBranching(e, r, cutoff); r.bound > relaxed.constant {
			return r
		}
		r.bound = relaxed.constant
	}
	s.recordInfeasible(relaxed)
	r.tree = tree{bound: r.bound, steps: s.proofSteps(relaxed)}
	return r
}

// relaxation returns a relaxation of the remaining problem, whose constant is a lower bound on all costs. Larger
// tables give a higher bound. They are used only if the bound from the smallest tables is below the limit.
func (s *search) relaxation(e *elimination, limit int64, isRoot bool) *elimination {
	relaxed := e.clone()
	if relaxed.relax(1); relaxed.constant >= limit {
		return relaxed
	}
	maxEntries := s.maxRelaxedTable
	if isRoot {
		maxEntries = min(s.maxTable, boundTable)
	}
	relaxed = e.clone()
	relaxed.relax(maxEntries)
	return relaxed
}

// relax eliminates the remaining variables with messages of at most maxEntries entries. The constant is then a lower
// bound. With very many functions, messages are smaller, so that relax takes at most about a second.
func (e *elimination) relax(maxEntries int) {
	in := e.remaining()
	maxEntries = min(maxEntries, max(relaxedWork/max(len(in.functions), 1), 1))
	e.eliminateAll(in.plan(largestTable).order, maxEntries)
	for v, isEliminated := range e.eliminated {
		if !isEliminated { // the plan stopped before this variable, because the graph is too dense
			e.eliminateVariable(v, maxEntries)
		}
	}
}

// minimizeByBranching splits on a variable; r is the best result so far.
func (s *search) minimizeByBranching(e *elimination, r result, cutoff int64) result {
	v := e.mostConnected()
	type child struct {
		label   int
		fixed   *elimination // v is fixed to the label
		relaxed *elimination // relaxation of fixed
	}
	var children []child
	for l := range e.sizes[v] {
		c := e.fixLabel(v, l)
		children = append(children, child{l, c, s.relaxation(c, min(cutoff, r.cost), false)})
	}
	sorted.Func(children, func(a, b child) int {
		return compare(a.relaxed.constant, b.relaxed.constant)
	})
	r.tree = tree{steps: s.proofSteps(e), variable: e.problemVariables[v]}
	r.bound = Forbidden
	for _, c := range children {
		limit := min(cutoff, r.cost)
		steps := s.proofSteps(c.fixed)
		problemLabel := e.problemLabels[v][c.label]
		branch := tree{label: problemLabel, bound: c.relaxed.constant,
			steps: slices.Concat(steps, s.proofSteps(c.relaxed))}
		if branch.bound < limit && !s.expired() {
			found := s.minimize(c.fixed.remaining(), limit, false)
			if found.cost < limit {
				r.cost, r.labels = found.cost, found.labels
				r.labels[v] = c.label
			}
			found.tree.label, found.tree.steps = problemLabel, slices.Concat(steps, found.tree.steps)
			found.tree.relaxed, found.tree.relaxedBound = branch.steps, branch.bound
			branch = found.tree
		}
		r.bound = min(r.bound, branch.bound)
		r.tree.branches = append(r.tree.branches, branch)
	}
	r.tree.bound = r.bound
	if !s.hasInfeasible && r.bound == Forbidden {
		s.infeasibleVariable, s.hasInfeasible = e.problemVariables[v], true
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
	in := e.remaining()
	in.sizes = slices.Clone(in.sizes)
	for i, f := range in.functions {
		if f.dependsOn(v) {
			in.functions[i] = f.slice(v, label, e.sizes)
		}
	}
	in.sizes[v] = 1
	fixed := in.eliminate()
	fixed.eliminateVariable(v, 0)
	return fixed
}

// slice returns the function with v fixed to a label.
func (f *function) slice(v, label int, sizes []int) *function {
	inner := 1
	for _, variable := range f.scope[slices.Index(f.scope, v)+1:] {
		inner *= sizes[variable]
	}
	restricted := &function{scope: f.scope, terms: f.terms, table: make([]int64, 0, len(f.table)/sizes[v])}
	for start := label * inner; start < len(f.table); start += sizes[v] * inner {
		restricted.table = append(restricted.table, f.table[start:start+inner]...)
	}
	return restricted
}

// recordInfeasible records the first variable whose labels are all forbidden.
func (s *search) recordInfeasible(e *elimination) {
	if s.hasInfeasible || e.constant < Forbidden {
		return
	}
	for _, step := range e.steps {
		for _, b := range step.buckets {
			if !slices.ContainsFunc(b.message.table, func(c int64) bool { return c < Forbidden }) {
				s.infeasibleVariable, s.hasInfeasible = e.problemVariables[step.variable], true
				return
			}
		}
	}
}

// proofSteps returns the steps for a proof, if one is requested.
func (s *search) proofSteps(e *elimination) []Step {
	if !s.wantProof {
		return nil
	}
	list := make([]Step, 0, len(e.steps))
	for _, step := range e.steps {
		out := Step{Variable: e.problemVariables[step.variable]}
		for _, b := range step.buckets {
			bucket := Bucket{From: []int{}, Scope: make([]int, len(b.message.scope)), Table: b.message.table}
			for _, f := range b.functions {
				bucket.From = append(bucket.From, f.terms...)
			}
			sorted.Ints(bucket.From)
			s.proofEntries += len(bucket.Table)
			for i, v := range b.message.scope {
				bucket.Scope[i] = e.problemVariables[v]
			}
			out.Buckets = append(out.Buckets, bucket)
		}
		list = append(list, out)
	}
	return list
}
