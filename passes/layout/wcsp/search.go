package wcsp

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
)

// search is the state of a depth-first branch and bound. A node of the search minimizes an [instance]: cost functions
// and a constant, whose sum is the cost of an assignment. It calls the methods in this order:
//
//	minimize: eliminates the variables with small tables
//	  minimizeParts: for each independent part of the remaining problem
//	    tightenAndCut: moves costs to get a lower bound; cuts labels that cost too much
//	      minimizeAfterCuts: if many labels are cut: calls minimize for the remaining labels
//	      tablesOrBranch: if not: uses large tables, or a bound and a heuristic assignment
//	        minimizeByBranching: if bound and cost differ: calls minimize for each label of one variable
//
// In the methods, `reduced` is an [elimination]: an instance after the elimination of some variables. `relaxed` is an
// elimination of all variables with small tables, whose constant is a lower bound. Assignments that cost at least the
// cutoff are irrelevant. `best` is the best result so far. `isRoot` is false below a split into labels, where tables
// have lower limits. solve.go has the limits.
//
// For example, let an instance have the lower bound 4 and an assignment of cost 7. A variable with two labels gives two
// children, with the bounds 5 and 8. The first child is minimized with the cutoff 7, and its minimum is 6. The second
// child is not minimized, because its bound is not below 6. The result has the cost 6 and the bound 6.
type search struct {
	ctx                context.Context
	maxEntries         int           // maximum number of entries of a message, the table that replaces a variable
	maxBoundEntries    int           // maximum number of entries of a message for a bound
	timeLimit          time.Duration // see [Options.TimeLimit]
	deadline           time.Time
	limitExceeded      bool // whether the limit on time, nodes or proof entries is exceeded
	wantProof          bool
	nodes              int  // number of visited nodes
	maxNodes           int  // maximum number of visited nodes; 0: no limit
	proofEntries       int  // number of entries of all tables of the proof
	infeasibleVariable int  // the first variable that was found to have no feasible label; the error names it
	hasInfeasible      bool // whether infeasibleVariable is set
}

// newSearch returns the initial state of a search. A time limit of 0 is exceeded from the start.
func newSearch(options Options) *search {
	maxEntries := options.MaxTable
	if maxEntries <= 0 {
		maxEntries = defaultMaxEntries
	}
	maxEntries = min(maxEntries, largestMaxEntries)
	return &search{ctx: options.Context, maxEntries: maxEntries, maxBoundEntries: min(maxSearchBoundEntries, maxEntries),
		timeLimit: options.TimeLimit, deadline: time.Now().Add(options.TimeLimit), limitExceeded: options.TimeLimit == 0,
		maxNodes: options.MaxNodes, wantProof: options.Proof}
}

// expired reports whether the limit on time, nodes, or memory for proofs is exceeded.
func (s *search) expired() bool {
	if !s.limitExceeded {
		isTimeUp := s.timeLimit > 0 && time.Now().After(s.deadline)
		hasTooManyNodes := s.maxNodes > 0 && s.nodes > s.maxNodes
		s.limitExceeded = isTimeUp || hasTooManyNodes || s.proofEntries > maxProofEntries
	}
	return s.limitExceeded
}

// result is the result of minimizing an instance. Costs include the instance's constant.
type result struct {
	bound  int64     // lower bound; at or above the cutoff, it proves that no assignment costs less than the cutoff
	cost   int64     // cost of labels; Forbidden if no assignment below the cutoff was found
	labels []int     // labels of the variables that the instance had not eliminated
	proof  proofNode // proof of bound
}

// minimize minimizes an instance. At the root, elimination ignores the time limit.
func (s *search) minimize(instance *instance, cutoff int64, isRoot bool) result {
	s.nodes++
	reduced := instance.newElimination()
	if isRoot || !s.expired() {
		s.eliminateCheapVariables(reduced)
	}
	if reduced.remainingCount() == 0 {
		solved := result{bound: reduced.constant, cost: reduced.constant,
			proof: proofNode{bound: reduced.constant, steps: s.proofSteps(reduced)}}
		s.recordInfeasible(reduced)
		if solved.cost >= cutoff {
			solved.cost = Forbidden
		}
		return s.withEliminatedLabels(reduced, solved)
	}
	return s.withEliminatedLabels(reduced, s.minimizeParts(reduced, reduced.remaining().components(), cutoff, isRoot))
}

// eliminateCheapVariables eliminates all variables if that is cheap, otherwise the variables with small tables.
func (s *search) eliminateCheapVariables(reduced *elimination) {
	remaining := reduced.remaining()
	plan := remaining.plan(s.maxEntries)
	if plan.tooLargeCount > 0 || plan.work > maxLightWork+maxLightVariableWork*int64(len(remaining.problemVariables)) {
		plan = remaining.plan(min(s.maxEntries, maxLightEntries))
	}
	reduced.eliminateAll(plan.order, s.maxEntries)
}

// withEliminatedLabels computes the labels of the eliminated variables.
func (s *search) withEliminatedLabels(reduced *elimination, found result) result {
	if found.cost == Forbidden {
		found.labels = nil
		return found
	}
	if found.labels == nil {
		found.labels = make([]int, len(reduced.problemVariables))
	}
	decode(reduced.sizes, reduced.steps, found.labels)
	return found
}

// minimizeParts minimizes independent parts one by one. The cutoff of a part is the cutoff minus the bounds of the
// other parts. Relaxations give the first bounds. The minimization of a part gives a better bound, which the later
// parts use.
func (s *search) minimizeParts(reduced *elimination, parts []*instance, cutoff int64, isRoot bool) result {
	total := result{labels: make([]int, len(reduced.problemVariables)), bound: reduced.constant, cost: reduced.constant,
		proof: proofNode{steps: s.proofSteps(reduced), constant: reduced.constant}}
	bounds := make([]int64, len(parts))
	if len(parts) > 1 { // the cutoff of a single part does not depend on bounds
		for i, part := range parts {
			relaxed := part.newElimination()
			relaxed.relax(s.maxBoundEntries)
			bounds[i] = relaxed.constant
		}
	}
	for i, part := range parts {
		partCutoff := Forbidden
		if cutoff < Forbidden {
			partCutoff = max(cutoff-sumOfOthers(reduced.constant, bounds, i), 0)
		}
		found := s.tightenAndCut(part, partCutoff, isRoot)
		bounds[i] = found.bound
		total.bound, total.cost = add(total.bound, found.bound), add(total.cost, found.cost)
		for v, label := range found.labels {
			total.labels[part.outerVariables[v]] = label
		}
		total.proof.parts = append(total.proof.parts, found.proof)
	}
	total.proof.bound = total.bound
	if total.cost >= cutoff {
		total.cost = Forbidden
	}
	return total
}

// sumOfOthers returns the sum of a constant and all bounds except bound i.
func sumOfOthers(constant int64, bounds []int64, i int) int64 {
	sum := constant
	for k, bound := range bounds {
		if k != i {
			sum = add(sum, bound)
		}
	}
	return sum
}

// tightenAndCut minimizes a connected instance that small tables do not solve. It tightens the bound, and cuts labels
// that cannot be part of a better assignment. It then continues with the remaining labels or, if few labels are cut,
// with tablesOrBranch.
func (s *search) tightenAndCut(instance *instance, cutoff int64, isRoot bool) result {
	best := result{cost: Forbidden}
	if !isRoot && s.expired() {
		return s.tablesOrBranch(instance, best, cutoff, isRoot)
	}
	// A label is supported if each function allows it together with supported labels of its other variables.
	supported, cuts, feasible := instance.supported()
	switch {
	case !feasible: // a variable has no supported label: every assignment is forbidden, which tablesOrBranch proves
		return s.tablesOrBranch(instance, best, cutoff, isRoot)
	case len(cuts) > 0: // minimize calls tightenAndCut again, unless small tables solve the rest
		unsupported := labelCuts{remaining: supported, cuts: cuts, bound: Forbidden}
		return s.minimizeAfterCuts(instance, unsupported, best, cutoff, isRoot)
	}

	tightening := instance.tighten(cutoff)
	if tightening == nil { // sums of costs overflow
		return s.tablesOrBranch(instance, best, cutoff, isRoot)
	}
	if tightening.bestCost < cutoff {
		best.cost, best.labels = tightening.bestCost, tightening.bestLabels
	}
	tightened, shifts := tightening.withCurrentCosts()
	bound, limit := tightening.bound(), min(cutoff, best.cost)

	labelCount := 0
	for _, size := range instance.sizes {
		labelCount += size
	}
	remaining, cutCount := tightening.cutLabels(limit - bound)
	cutsManyLabels := cutCount*minCutDivisor >= labelCount // at least 1/minCutDivisor of the labels
	if bound < limit && cutsManyLabels {
		expensive := labelCuts{remaining: remaining, cuts: tightened.cuts(remaining), bound: limit}
		best = s.minimizeAfterCuts(tightened, expensive, best, limit, isRoot)
	} else {
		best = s.tablesOrBranch(tightened, best, cutoff, isRoot)
	}
	best.proof.shifts = shifts
	return best
}

// labelCuts removes labels of an instance.
type labelCuts struct {
	remaining [][]int // by variable: the labels that are not cut
	cuts      []Cut   // the cut labels, by their indices in the problem
	bound     int64   // lower bound on the cost of assignments with a cut label
}

// minimizeAfterCuts minimizes an instance without the cut labels. The bound of the result is valid for assignments with
// cut labels, too: it is at most cut.bound.
func (s *search) minimizeAfterCuts(instance *instance, cut labelCuts, best result, cutoff int64, isRoot bool) result {
	found := s.minimize(instance.restrict(cut.remaining), cutoff, isRoot)
	if found.cost < best.cost {
		best.cost, best.labels = found.cost, found.labels
		for v, label := range best.labels {
			best.labels[v] = cut.remaining[v][label]
		}
	}
	best.proof = found.proof
	best.proof.cuts, best.proof.cutoff = cut.cuts, cut.bound
	best.bound = min(found.bound, cut.bound)
	best.proof.bound = best.bound
	return best
}

// tablesOrBranch minimizes a connected instance by large tables or by branching. If the tables of an elimination of all
// variables are small enough, the elimination gives the minimum. Otherwise a relaxation gives a lower bound. The upper
// bound is the cost of best or of a heuristic assignment ([guess]). If the bounds differ, the problem is split on a
// variable.
func (s *search) tablesOrBranch(instance *instance, best result, cutoff int64, isRoot bool) result {
	reduced := instance.newElimination()
	maxEntries := maxBranchEntries
	if isRoot {
		maxEntries = s.maxEntries
	}
	if plan := instance.plan(min(s.maxEntries, maxEntries)); plan.tooLargeCount == 0 && (isRoot || !s.expired()) {
		return s.minimizeByTables(reduced, plan, best, cutoff)
	}
	limit := min(cutoff, best.cost)
	relaxed := s.relaxation(reduced, limit, isRoot)
	best.bound = relaxed.constant
	if best.bound < limit && best.cost == Forbidden {
		if labels, cost := guessLabels(instance, reduced, relaxed.steps, cutoff); cost < cutoff {
			best.cost, best.labels = cost, labels
		}
	}
	if best.bound < min(cutoff, best.cost) && !s.expired() {
		best = s.minimizeByBranching(reduced, best, cutoff)
		if best.bound > relaxed.constant {
			return best
		}
		best.bound = relaxed.constant // an interrupted search may have a lower bound than the relaxation
	}
	s.recordInfeasible(relaxed)
	best.proof = proofNode{bound: best.bound, steps: s.proofSteps(relaxed)} // the relaxation proves the bound
	return best
}

// minimizeByTables eliminates all variables in the order of a plan, which gives the minimum. If the minimum is at least
// the cutoff or the cost of best, it returns best with the minimum as its bound.
func (s *search) minimizeByTables(reduced *elimination, plan eliminationPlan, best result, cutoff int64) result {
	reduced.eliminateAll(plan.order, s.maxEntries)
	s.recordInfeasible(reduced)
	found := result{bound: reduced.constant, cost: reduced.constant,
		proof: proofNode{bound: reduced.constant, steps: s.proofSteps(reduced)}}
	if reduced.constant >= min(cutoff, best.cost) {
		found.cost, found.labels = best.cost, best.labels
		return found
	}
	return s.withEliminatedLabels(reduced, found)
}

// guessLabels returns a heuristic assignment and its cost. It decodes the labels of a relaxation and improves them. If
// every assignment is wanted (the cutoff is Forbidden), but these labels are forbidden, it searches for allowed labels.
func guessLabels(instance *instance, reduced *elimination, relaxedSteps []step, cutoff int64) ([]int, int64) {
	labels := make([]int, len(reduced.problemVariables))
	decode(reduced.sizes, relaxedSteps, labels)
	candidate := guess{instance: instance, functionsOf: reduced.functionsOf, labels: labels}
	candidate.improve()
	if candidate.cost() == Forbidden && cutoff == Forbidden && candidate.depthFirst(relaxedSteps) {
		candidate.improve()
	}
	return labels, candidate.cost()
}

// relaxation returns a relaxation of the remaining problem, whose constant is a lower bound on all costs. Larger
// tables give a higher bound. They are used only if the bound from the smallest tables is below the limit.
func (s *search) relaxation(reduced *elimination, limit int64, isRoot bool) *elimination {
	relaxed := reduced.clone()
	relaxed.relax(1) // with the smallest tables
	if relaxed.constant >= limit {
		return relaxed
	}
	maxEntries := s.maxBoundEntries
	if isRoot {
		maxEntries = min(s.maxEntries, maxRootBoundEntries)
	}
	relaxed = reduced.clone()
	relaxed.relax(maxEntries)
	return relaxed
}

// minimizeByBranching splits on the variable with the most neighbours: it makes a child for each label, and minimizes
// the children in ascending order of their lower bounds. A child whose bound reaches the cutoff or the best cost is not
// minimized; its relaxation proves this bound.
func (s *search) minimizeByBranching(reduced *elimination, best result, cutoff int64) result {
	v := reduced.mostConnected()
	children := s.children(reduced, v, min(cutoff, best.cost))
	best.proof = proofNode{steps: s.proofSteps(reduced), variable: reduced.problemVariables[v]}
	best.bound = Forbidden
	for _, next := range children {
		limit := min(cutoff, best.cost)
		fixingSteps := s.proofSteps(next.fixed)
		problemLabel := reduced.problemLabels[v][next.label]
		branch := proofNode{label: problemLabel, bound: next.relaxed.constant,
			steps: slices.Concat(fixingSteps, s.proofSteps(next.relaxed))}
		if branch.bound < limit && !s.expired() {
			found := s.minimize(next.fixed.remaining(), limit, notRoot)
			if found.cost < limit {
				best.cost, best.labels = found.cost, found.labels
				best.labels[v] = next.label
			}
			minimized := found.proof
			minimized.label, minimized.steps = problemLabel, slices.Concat(fixingSteps, minimized.steps)
			minimized.relaxed, minimized.relaxedBound = branch.steps, branch.bound // a shorter proof of a weaker bound
			branch = minimized
		}
		best.bound = min(best.bound, branch.bound)
		best.proof.branches = append(best.proof.branches, branch)
	}
	best.proof.bound = best.bound
	if !s.hasInfeasible && best.bound == Forbidden {
		s.infeasibleVariable, s.hasInfeasible = reduced.problemVariables[v], true
	}
	return best
}

// notRoot is the argument isRoot for the children.
const notRoot = false

// child is the remaining problem for one label of a variable.
type child struct {
	label   int
	fixed   *elimination // the variable is fixed to the label
	relaxed *elimination // relaxation of fixed
}

// children returns a child for each label of variable v, in ascending order of their lower bounds.
func (s *search) children(reduced *elimination, v int, limit int64) []child {
	var list []child
	for label := range reduced.sizes[v] {
		fixed := reduced.fixLabel(v, label)
		list = append(list, child{label, fixed, s.relaxation(fixed, limit, notRoot)})
	}
	sorted.Func(list, func(a, b child) int { return cmp.Compare(a.relaxed.constant, b.relaxed.constant) })
	return list
}

// recordInfeasible records the first variable whose labels are all forbidden.
func (s *search) recordInfeasible(reduced *elimination) {
	if s.hasInfeasible || reduced.constant < Forbidden {
		return
	}
	for _, step := range reduced.steps {
		for _, bucket := range step.buckets {
			if !slices.ContainsFunc(bucket.message.table, func(cost int64) bool { return cost < Forbidden }) {
				s.infeasibleVariable, s.hasInfeasible = reduced.problemVariables[step.variable], true
				return
			}
		}
	}
}

// pruneWork is the approximate maximum number of table entries that pruning reads.
const pruneWork = 1 << 23

// pruner removes dominated labels by Goldstein's criterion: label k is removed if another label k' never costs more
// than k, for all labels of the neighbours. A neighbour is a variable that shares a function with the label's variable.
// For each of these functions, the pruner takes the least difference cost(k) - cost(k') over the neighbour's labels.
// Label k is dominated if the sum of these differences is at least 0. Where k is forbidden, the difference is infinite.
//
// For example, let the unary cost of k exceed the unary cost of k' by 2, and let the costs with the labels of the only
// neighbour be (1, 5) for k and (3, 4) for k'. The least difference over the neighbour's labels is min(1-3, 5-4) = -2.
// The sum of the differences is 2 + -2 = 0, so k is removed.
type pruner struct {
	*instance
	unary     [][]int64 // by variable: function of this variable only; nil if there is none
	edges     [][]edge  // by variable: functions of two variables
	remaining [][]int   // by variable: remaining labels
	prunings  []Pruning // prunings so far
	work      int       // number of costs read so far

	// For the variable of the last call of computeCheapest:
	cheapest [][]int // by label and edge: the neighbour's label with the least cost
	sums     []int64 // by label: the unary cost plus these least costs
}

// edge is a function of a variable and a neighbour.
type edge struct {
	table               []int64
	other               int // the neighbour
	stride, otherStride int // strides of the variable's and the neighbour's labels in the table
}

// prune returns the remaining labels by variable, and the prunings. After a pruning, it examines the neighbours of the
// variable again, because the least differences may have become greater.
func prune(problem *instance) ([][]int, []Pruning) {
	pruner := newPruner(problem)
	queue, queued := make([]int, len(problem.problemVariables)), make([]bool, len(problem.problemVariables))
	for variable := range queue {
		queue[variable], queued[variable] = variable, true
	}
	for len(queue) > 0 && pruner.work < pruneWork {
		interrupt.Check(problem.ctx)
		variable := queue[0]
		queue, queued[variable] = queue[1:], false
		if !pruner.pruneVariable(variable) {
			continue
		}
		for _, edge := range pruner.edges[variable] {
			if !queued[edge.other] && len(pruner.remaining[edge.other]) > 1 {
				queue, queued[edge.other] = append(queue, edge.other), true
			}
		}
	}
	return pruner.remaining, pruner.prunings
}

// newPruner returns a pruner of an instance, with all labels.
func newPruner(problem *instance) *pruner {
	pruner := &pruner{instance: problem, unary: make([][]int64, len(problem.problemVariables)),
		edges:     make([][]edge, len(problem.problemVariables)),
		remaining: make([][]int, len(problem.problemVariables))}
	for variable, labelCount := range problem.sizes {
		for label := range labelCount {
			pruner.remaining[variable] = append(pruner.remaining[variable], label)
		}
	}
	for _, function := range problem.functions {
		if len(function.scope) == 1 {
			pruner.unary[function.scope[0]] = function.table
			continue
		}
		first, second := function.scope[0], function.scope[1] // rows and columns of the table
		columns := problem.sizes[second]
		pruner.edges[first] = append(pruner.edges[first],
			edge{table: function.table, other: second, stride: columns, otherStride: 1})
		pruner.edges[second] = append(pruner.edges[second],
			edge{table: function.table, other: first, stride: 1, otherStride: columns})
	}
	return pruner
}

// pruneVariable prunes the labels of v and reports whether any was removed.
func (p *pruner) pruneVariable(v int) bool {
	labels := p.remaining[v]
	if len(labels) == 1 {
		return false
	}
	p.computeCheapest(v)
	oldPruningCount := len(p.prunings)
	for i := len(labels) - 1; i >= 0 && p.work < pruneWork; i-- {
		for _, dominator := range labels {
			if label := labels[i]; dominator != label && p.dominates(v, dominator, label) {
				p.prunings = append(p.prunings, Pruning{Variable: v, Label: label, By: dominator})
				labels = slices.Delete(labels, i, i+1)
				break
			}
		}
	}
	p.remaining[v] = labels
	return len(p.prunings) > oldPruningCount
}

// computeCheapest computes cheapest and sums for v.
func (p *pruner) computeCheapest(v int) {
	size := p.sizes[v]
	p.sums = slices.Grow(p.sums[:0], size)[:size]
	for len(p.cheapest) < size {
		p.cheapest = append(p.cheapest, nil)
	}
	for _, label := range p.remaining[v] {
		var sum int64
		if p.unary[v] != nil {
			sum = p.unary[v][label]
		}
		cheapest := p.cheapest[label][:0]
		for _, edge := range p.edges[v] {
			otherLabels := p.remaining[edge.other]
			p.work += len(otherLabels)
			bestLabel, cost := otherLabels[0], edge.table[label*edge.stride+otherLabels[0]*edge.otherStride]
			for _, otherLabel := range otherLabels[1:] {
				if entry := edge.table[label*edge.stride+otherLabel*edge.otherStride]; entry < cost {
					bestLabel, cost = otherLabel, entry
				}
			}
			cheapest, sum = append(cheapest, bestLabel), add(sum, cost)
		}
		p.cheapest[label], p.sums[label] = cheapest, sum
	}
}

// dominates reports whether label dominator of v never costs more than the given label.
func (p *pruner) dominates(v, dominator, label int) bool {
	if p.sums[label] == Forbidden { // every assignment with the label is forbidden
		return true
	}
	if p.costsMoreAtCheapest(v, dominator, label) {
		return false
	}
	var sum int64 // of the least differences; no unary cost is Forbidden, as the tests above have excluded it
	if p.unary[v] != nil {
		sum = p.unary[v][label] - p.unary[v][dominator]
	}
	for _, edge := range p.edges[v] {
		p.work += len(p.remaining[edge.other])
		least := Forbidden // becomes less, because p.sums[label] < Forbidden: some entry of the label is allowed
		for _, otherLabel := range p.remaining[edge.other] {
			entry := edge.table[label*edge.stride+otherLabel*edge.otherStride]
			if entry == Forbidden {
				continue
			}
			dominatorEntry := edge.table[dominator*edge.stride+otherLabel*edge.otherStride]
			if dominatorEntry == Forbidden {
				return false
			}
			least = min(least, entry-dominatorEntry)
		}
		sum += least
	}
	return sum >= 0
}

// costsMoreAtCheapest reports whether dominator costs more than a label if the neighbours have the labels for which
// that label is cheapest. This cheap test rejects most pairs.
func (p *pruner) costsMoreAtCheapest(v, dominator, label int) bool {
	var dominatorSum int64
	if p.unary[v] != nil {
		dominatorSum = p.unary[v][dominator]
	}
	for i, edge := range p.edges[v] {
		dominatorSum = add(dominatorSum, edge.table[dominator*edge.stride+p.cheapest[label][i]*edge.otherStride])
	}
	p.work += len(p.edges[v]) + 1
	return dominatorSum > p.sums[label]
}
