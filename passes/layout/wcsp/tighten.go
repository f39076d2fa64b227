package wcsp

import (
	"slices"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
)

// tightening moves costs between the functions of an instance to raise the sum of their least entries. This sum is a
// lower bound on the cost of every assignment. With a high bound, expensive labels can be cut, and the remaining
// problem is often small enough for elimination. An [instance] has variables and functions. A variable v has sizes[v]
// labels. A function is a table of costs over the labels of its variables (its scope), in row-major order.
//
// The method is sequential reweighted message passing (TRW-S, SRMP) in integers. Variables are visited in order. Each
// visit of a variable has two steps. First, for each label of the variable, the least cost in each of its functions is
// moved from the function to the variable. Then the costs of the variable are distributed in equal shares to its
// functions with later variables. The cost of every assignment is unchanged, no entry becomes negative, and the bound
// never decreases. If the costs are submodular, the bound converges to the least cost. The costs of two layouts are
// submodular if a copy costs more than no copy.
//
// For example, let variable 1, with two labels, share a function with variable 0 and one with variable 2. Variable 1
// has no costs of its own. A table below has a row for each label of variable 1; / separates the rows:
//
//	function with variable 0   function with variable 2   costs of variable 1   bound
//	4 5 / 0 3                  0 2 / 6 7                  0 / 0                 0
//	0 1 / 0 3                  0 2 / 0 1                  4 / 6                 4      least costs moved to variable 1
//	0 1 / 0 3                  0 2 / 2 3                  4 / 4                 4      the excess of label 1 distributed
type tightening struct {
	*instance
	functions         []movedFunction // functions of two or more variables
	least             []int64         // by variable: the cost common to all of its labels
	unary             [][]int64       // by variable and label: the cost in excess of least
	positionsOf       [][]position    // by variable: its positions in functions
	overflow          bool            // whether a sum of costs has reached Forbidden; set by checkedSum
	shares            []int64         // by label: buffer of tightenVariable and distributeShares
	bestLabels        []int           // the best assignment found; set by findAssignment
	bestCost          int64           // cost of bestLabels
	originalFunctions [][]*function   // by variable: its original functions
}

// movedFunction is a function and the costs that its variables have received from it.
type movedFunction struct {
	original *function
	table    []int64
	received [][]int64 // [i][label]: costs moved from the function to variable i of the scope
}

// position is the position of a variable in the scope of a function. The table entries of label i of the variable are
// runs of stride entries. The first run starts at entry i*stride, and the next run starts labelCount*stride entries
// later, where labelCount is the number of labels of the variable. For example, in a table over variables with 2 and 3
// labels, label 1 of the first variable has entries 3 to 5 (stride 3), and label 1 of the second has entries 1 and 4.
type position struct {
	function    int  // index of the function
	stride      int  // stride of the variable's labels in the table
	scopeIndex  int  // index in the scope
	first, last bool // whether it is the first or last variable of the scope; the variables of a scope ascend
}

const (
	tightenPasses = 128     // maximum number of passes
	tightenWork   = 1 << 23 // maximum number of processed entries
	// The gap is the distance of the bound from its goal. Tightening stalls, and ends, if stallPasses successive passes
	// together raise the bound by at most 1/stallDivisor of the gap that is left.
	stallPasses  = 8
	stallDivisor = 64
)

// tighten moves the costs of an instance in which every label is supported (see [instance.supported]). It ends when the
// bound reaches its goal: the cutoff or the best known cost. It also ends when the bound hardly rises, or after a limit
// on passes and work. It returns nil if sums overflow.
func (in *instance) tighten(cutoff int64) *tightening {
	t := in.newTightening()
	entryCount := 1 // at least 1, because it is a divisor
	for i := range t.functions {
		entryCount += len(t.functions[i].table)
	}
	const forward, backward = true, false
	oldBound, stalledPasses := t.bound(), 0
	for pass := range min(tightenPasses, tightenWork/entryCount) {
		for v := range in.problemVariables {
			t.tightenVariable(v, forward)
		}
		for v := len(in.problemVariables) - 1; v >= 0; v-- {
			t.tightenVariable(v, backward)
		}
		if t.overflow {
			return nil
		}
		if pass&(pass-1) == 0 { // passes 0, 1, 2, 4, 8, ...
			t.findAssignment()
		}
		bound, goal := t.bound(), min(cutoff, t.bestCost)
		stalledPasses++
		if bound-oldBound > (goal-bound)/stallDivisor {
			oldBound, stalledPasses = bound, 0
		}
		if bound >= goal || stalledPasses >= stallPasses {
			break
		}
	}
	t.findAssignment()
	return t
}

// newTightening returns the state before any move.
func (in *instance) newTightening() *tightening {
	t := &tightening{instance: in, unary: make([][]int64, len(in.problemVariables)),
		least: make([]int64, len(in.problemVariables)), positionsOf: make([][]position, len(in.problemVariables)),
		originalFunctions: in.newElimination().functionsOf, bestCost: Forbidden}
	maxLabelCount := 0
	for v, labelCount := range in.sizes {
		t.unary[v] = make([]int64, labelCount)
		maxLabelCount = max(maxLabelCount, labelCount)
	}
	t.shares = make([]int64, maxLabelCount)
	for _, original := range in.functions {
		if len(original.scope) > 1 {
			t.addFunction(original)
			continue
		}
		unary := t.unary[original.scope[0]]
		for label, cost := range original.table {
			unary[label] = t.checkedSum(unary[label], cost)
		}
	}
	return t
}

// addFunction adds a function of two or more variables.
func (t *tightening) addFunction(original *function) {
	moved := movedFunction{original: original, table: slices.Clone(original.table),
		received: make([][]int64, len(original.scope))}
	stride := 1
	for scopeIndex := len(original.scope) - 1; scopeIndex >= 0; scopeIndex-- {
		v := original.scope[scopeIndex]
		moved.received[scopeIndex] = make([]int64, t.sizes[v])
		t.positionsOf[v] = append(t.positionsOf[v], position{function: len(t.functions), stride: stride,
			scopeIndex: scopeIndex, first: scopeIndex == 0, last: scopeIndex == len(original.scope)-1})
		stride *= t.sizes[v]
	}
	t.functions = append(t.functions, moved)
}

// tightenVariable collects costs from the functions of v, and divides them into shareCount equal shares. Each function
// with a variable that this pass visits after v gets a share. v keeps the other shares. A forward pass visits the
// variables in ascending order.
func (t *tightening) tightenVariable(v int, forward bool) {
	interrupt.Check(t.ctx)
	unary := t.unary[v]
	withLater, withEarlier := 0, 0 // numbers of functions with a later and with an earlier variable
	for _, position := range t.positionsOf[v] {
		t.collectCosts(v, position)
		if !position.last {
			withLater++
		}
		if !position.first {
			withEarlier++
		}
	}
	least := unary[0]
	for _, cost := range unary {
		least = min(least, cost)
	}
	shareCount := int64(max(withLater, withEarlier, 1)) // the same in both directions, as in TRW-S
	// The cost that all labels have in common is part of the bound; only the excess is shared.
	t.least[v] = t.checkedSum(t.least[v], least)
	orOfShares := int64(0) // bitwise or; 0 if all shares are 0
	for label := range unary {
		unary[label] -= least
		t.shares[label] = unary[label] / shareCount
		orOfShares |= t.shares[label]
	}
	if orOfShares == 0 {
		return
	}
	for _, position := range t.positionsOf[v] {
		isLastInPass := forward && position.last || !forward && position.first // last of the scope in this pass
		if !isLastInPass {
			t.distributeShares(v, position)
		}
	}
}

// collectCosts moves the least cost of each label of v from a function to v.
func (t *tightening) collectCosts(v int, position position) {
	source := &t.functions[position.function]
	unary, received := t.unary[v], source.received[position.scopeIndex]
	runDistance := t.sizes[v] * position.stride // distance from a run of a label to its next run
	for label := range t.sizes[v] {
		least := Forbidden
		for start := label * position.stride; start < len(source.table); start += runDistance {
			for _, cost := range source.table[start : start+position.stride] {
				least = min(least, cost)
			}
		}
		if least == 0 {
			continue
		}
		for start := label * position.stride; start < len(source.table); start += runDistance {
			for i, cost := range source.table[start : start+position.stride] {
				if cost < Forbidden {
					source.table[start+i] = cost - least
				}
			}
		}
		unary[label] = t.checkedSum(unary[label], least)
		received[label] += least
	}
}

// distributeShares moves the shares from v to a function.
func (t *tightening) distributeShares(v int, position position) {
	target := &t.functions[position.function]
	runDistance := t.sizes[v] * position.stride
	for label := range t.sizes[v] {
		share := t.shares[label]
		if share == 0 {
			continue
		}
		t.unary[v][label] -= share
		target.received[position.scopeIndex][label] -= share
		for start := label * position.stride; start < len(target.table); start += runDistance {
			for i, cost := range target.table[start : start+position.stride] {
				if cost < Forbidden {
					target.table[start+i] = t.checkedSum(cost, share)
				}
			}
		}
	}
}

// checkedSum returns sum+cost. If this reaches Forbidden, it sets t.overflow and returns Forbidden-1.
func (t *tightening) checkedSum(sum, cost int64) int64 {
	if sum += cost; sum >= Forbidden {
		t.overflow = true
		return Forbidden - 1
	}
	return sum
}

// bound returns the lower bound: the constant, plus the least entry of each function, plus the least cost of each
// variable.
func (t *tightening) bound() int64 {
	sum := t.constant
	for v, least := range t.least {
		excess := Forbidden
		for _, cost := range t.unary[v] {
			excess = min(excess, cost)
		}
		sum = add(sum, add(least, excess))
	}
	for i := range t.functions {
		least := Forbidden
		for _, cost := range t.functions[i].table {
			least = min(least, cost)
		}
		sum = add(sum, least)
	}
	return sum
}

// findAssignment constructs an assignment greedily, in the order of the variables, and improves it.
func (t *tightening) findAssignment() {
	labels := make([]int, len(t.problemVariables))
	for v := range labels {
		best, bestLabel := Forbidden+1, 0 // above every cost, so that the first label is taken even if it is forbidden
		for label, cost := range t.unary[v] {
			labels[v] = label
			for _, position := range t.positionsOf[v] {
				if position.last { // the other variables of the function have their labels
					f := &t.functions[position.function]
					cost = add(cost, f.table[f.original.index(t.sizes, labels)])
				}
			}
			if cost < best {
				best, bestLabel = cost, label
			}
		}
		labels[v] = bestLabel
	}
	candidate := guess{instance: t.instance, functionsOf: t.originalFunctions, labels: labels}
	candidate.improve()
	if cost := candidate.cost(); cost < t.bestCost {
		t.bestCost, t.bestLabels = cost, labels
	}
}

// cutLabels returns, by variable, the labels that remain, and the number of cut labels. A label is cut if its cost
// exceeds the least cost of the variable by at least gap. This is the distance of the bound from the cutoff or the best
// cost.
func (t *tightening) cutLabels(gap int64) (remaining [][]int, cutCount int) {
	remaining = make([][]int, len(t.problemVariables))
	for v, unary := range t.unary {
		least := slices.Min(unary)
		for label, cost := range unary {
			if cost-least < gap {
				remaining[v] = append(remaining[v], label)
			}
		}
		cutCount += len(unary) - len(remaining[v])
	}
	return remaining, cutCount
}

// withCurrentCosts returns the instance with the current costs, and the shifts by which a [Proof] derives them from the
// original costs. A proof numbers all functions. Each changed function of several variables gets a new number, in the
// order of the shifts. Each variable that received costs then gets one new function. It replaces the functions of this
// variable alone, and includes their costs. proofTerms are the numbers of the functions whose sum a function is.
func (t *tightening) withCurrentCosts() (*instance, []Shift) {
	current := *t.instance
	current.functions = nil
	addNew := func(scope []int, table []int64) { // adds a function with the next number
		current.functions = append(current.functions,
			&function{scope: scope, table: table, proofTerms: []int{current.nextProofNumber}})
		current.nextProofNumber++
	}
	var shifts []Shift
	hasReceived := make([]bool, len(t.problemVariables))
	for i := range t.functions { // functions of several variables
		moved := &t.functions[i]
		if !moved.isChanged() {
			current.functions = append(current.functions, moved.original)
			continue
		}
		shift := Shift{From: slices.Clone(moved.original.proofTerms)}
		sorted.Ints(shift.From)
		for scopeIndex, v := range moved.original.scope {
			hasReceived[v] = true
			shift.By = append(shift.By, moved.received[scopeIndex])
		}
		shifts = append(shifts, shift)
		addNew(moved.original.scope, moved.table)
	}
	for _, f := range t.instance.functions {
		if len(f.scope) == 1 && !hasReceived[f.scope[0]] {
			current.functions = append(current.functions, f)
		}
	}
	for v, received := range hasReceived { // one new function for each variable that received costs
		if received {
			table := slices.Clone(t.unary[v])
			for label := range table {
				table[label] += t.least[v]
			}
			addNew([]int{v}, table)
		}
	}
	return &current, shifts
}

// isChanged reports whether the function has lost costs to its variables or received costs from them.
func (moved *movedFunction) isChanged() bool {
	return slices.ContainsFunc(moved.received, func(costs []int64) bool {
		return slices.ContainsFunc(costs, func(cost int64) bool { return cost != 0 })
	})
}

// cuts returns the labels that do not remain, by their indices in the problem.
func (in *instance) cuts(remaining [][]int) []Cut {
	var list []Cut
	for v, labelCount := range in.sizes {
		for label := range labelCount {
			if !slices.Contains(remaining[v], label) {
				list = append(list, Cut{Variable: in.problemVariables[v], Label: in.problemLabels[v][label]})
			}
		}
	}
	return list
}
