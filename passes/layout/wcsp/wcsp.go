// Package wcsp solves weighted constraint problems exactly, with a proof.
//
// A [Problem] has variables, and cost tables (factors) over one or two variables. Each variable has finitely many
// labels. A solution assigns a label to each variable and minimizes the sum of costs. Such problems are also called
// weighted CSPs, cost function networks, or partitioned Boolean quadratic problems (PBQP). For example, two nodes a and
// b can each be computed in two layouts, and a copy between different layouts costs 4:
//
//	cost of a: [5, 3]   cost of b: [1, 6]   cost of both: [[0, 4], [4, 0]]
//
// The cheapest assignment is label 0 for both, with cost 5 + 1 + 0.
//
// [Exact] is the solver. It works in four stages:
//
//   - Pruning removes labels that another label dominates (Goldstein's criterion).
//   - Bucket elimination removes one variable at a time. The functions of the variable, which are factors and earlier
//     messages, are added up. A message replaces them: the minimum of the sum over the variable's labels, as a function
//     of the neighbouring variables. Most layout problems of networks have a small treewidth, and elimination alone
//     solves them.
//   - If tables would exceed [Options.MaxTable], costs are moved between functions to raise the sum of their minima, a
//     lower bound (sequential reweighted message passing; Kolmogorov, "A new look at reweighted message passing",
//     2015). Labels whose bound exceeds the best known cost are then cut.
//   - The remaining problem is split into independent parts, or on a variable (branch and bound). Elimination with
//     small tables gives the bounds (mini-buckets).
//
// [PBQP] and [InOrder] are the solvers of published layout optimizers, for comparisons.
//
// A [Solution] has a cost and a lower bound. It is optimal if both are equal. Its [Proof] lists the prunings, cost
// shifts, cuts, messages and splits, so that package verify can check the bound without the solver's code. [KBest]
// lists the cheapest assignments by Lawler's partition. Results are deterministic: there are no goroutines, and ties
// are broken by index. Only results of a search with a time limit depend on the machine.
package wcsp

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
)

// Forbidden is the cost of a forbidden combination of labels. Sums saturate at Forbidden. Up to four costs can be added
// before a saturation, because four times Forbidden fits an int64.
const Forbidden = int64(math.MaxInt64 / 4)

// Version is the version of the file formats of problems and solutions.
const Version = 1

// Problem asks for a label for each variable that minimizes the sum of the factors.
type Problem struct {
	Version   int        `json:"version" doc:"The version of the file: 1."`
	Variables []Variable `json:"variables" doc:"The variables."`
	Factors   []Factor   `json:"factors" doc:"The costs of labels."`
}

// Variable is a decision among labels.
type Variable struct {
	Name   string   `json:"name" doc:"The name of the variable."`
	Labels []string `json:"labels" doc:"The alternatives."`
}

// Factor is a cost table over the variables of its scope.
type Factor struct {
	// Scope holds the indices of zero, one or two different variables.
	Scope []int `json:"scope" doc:"The indices of the variables that the costs depend on: none, one or two."`
	// Costs are picoseconds, at least 0, by the labels of the scope in row-major order.
	Costs Costs `json:"costs" doc:"Picoseconds by the labels of the scope, row-major; null: forbidden."`
}

// Costs is a list of costs; [Forbidden] is null in JSON.
type Costs []int64

// add returns the sum of two costs, saturated at Forbidden.
func add(a, b int64) int64 { return min(a+b, Forbidden) }

// Validate returns an error that names the first fault of the problem. The largest allowed costs of all factors must
// add up to less than Forbidden, so that sums of allowed costs are exact.
func (p *Problem) Validate() error {
	if p.Version != 0 && p.Version != Version { // 0: the problem was not read from a file
		return fmt.Errorf("wcsp: version %d is not supported; want %d", p.Version, Version)
	}
	for i, v := range p.Variables {
		if len(v.Labels) == 0 {
			return fmt.Errorf("wcsp: variable %d (%q) has no labels", i, v.Name)
		}
	}
	var total int64
	for i := range p.Factors {
		largest, err := p.checkFactor(&p.Factors[i])
		if err != nil {
			return fmt.Errorf("wcsp: factor %d: %w", i, err)
		}
		total = add(total, largest)
		if total == Forbidden {
			return fmt.Errorf("wcsp: factor %d: the costs add up to more than %d", i, Forbidden-1)
		}
	}
	return nil
}

// checkFactor validates a factor and returns its largest allowed cost.
func (p *Problem) checkFactor(f *Factor) (largest int64, err error) {
	if len(f.Scope) > 2 {
		return 0, fmt.Errorf("the costs depend on %d variables; the limit is 2", len(f.Scope))
	}
	size := 1
	for _, v := range f.Scope {
		if v < 0 || v >= len(p.Variables) {
			return 0, fmt.Errorf("variable %d does not exist: the problem has %d variables", v, len(p.Variables))
		}
		if size > len(f.Costs) { // the sizes differ; a further product could overflow
			break
		}
		size *= len(p.Variables[v].Labels)
	}
	if len(f.Scope) == 2 && f.Scope[0] == f.Scope[1] {
		return 0, fmt.Errorf("variable %d occurs twice", f.Scope[0])
	}
	if size != len(f.Costs) {
		return 0, fmt.Errorf("the number of costs, %d, does not match the labels of variables %v", len(f.Costs), f.Scope)
	}
	for i, c := range f.Costs {
		if c < 0 || c > Forbidden {
			return 0, fmt.Errorf("cost %d is %d; want 0 to %d", i, c, Forbidden)
		}
		if c < Forbidden {
			largest = max(largest, c)
		}
	}
	return largest, nil
}

// Cost returns the cost of an assignment, which has a label for each variable. The cost is Forbidden if any factor
// forbids the labels.
func (p *Problem) Cost(labels []int) (int64, error) {
	if err := p.Validate(); err != nil {
		return 0, err
	}
	if len(labels) != len(p.Variables) {
		return 0, fmt.Errorf("wcsp: Cost: the assignment has %d labels, but the problem has %d variables", len(labels),
			len(p.Variables))
	}
	for i, label := range labels {
		variable := &p.Variables[i]
		if label < 0 || label >= len(variable.Labels) {
			return 0, fmt.Errorf("wcsp: variable %d (%q) has no label %d: it has %d labels", i, variable.Name, label,
				len(variable.Labels))
		}
	}
	return p.cost(labels), nil
}

// cost is Cost for a valid problem and valid labels.
func (p *Problem) cost(labels []int) int64 {
	var sum int64
	for i := range p.Factors {
		f := &p.Factors[i]
		sum = add(sum, f.Costs[f.entry(p, labels)])
	}
	return sum
}

// entry returns the index in Costs of the labels of all variables of p.
func (f *Factor) entry(p *Problem, labels []int) int {
	index := 0
	for _, v := range f.Scope {
		index = index*len(p.Variables[v].Labels) + labels[v]
	}
	return index
}

// Entry returns the index of a factor's cost for the labels of all variables, or an error if labels or factor do not fit
// the problem.
func (p *Problem) Entry(factor int, labels []int) (int, error) {
	if p == nil || factor < 0 || factor >= len(p.Factors) {
		return 0, fmt.Errorf("the problem has no factor %d", factor)
	}
	for _, v := range p.Factors[factor].Scope {
		if v < 0 || v >= len(p.Variables) || v >= len(labels) || labels[v] < 0 || labels[v] >= len(p.Variables[v].Labels) {
			return 0, fmt.Errorf("variable %d of factor %d has no such label", v, factor)
		}
	}
	return p.Factors[factor].entry(p, labels), nil
}

// function is a cost table over one or more variables: a sum of factors of the problem, or a message. If the scope is
// [1 4] and variable 4 has 3 labels, table[3*i+k] is the cost of label i of variable 1 with label k of variable 4.
//
// A [Proof] numbers functions: first the factors, then messages and shifted functions in the order of their creation. A
// message is the function that replaces an eliminated variable. A shifted function has costs that were moved to it or
// from it ([Shift]).
type function struct {
	scope      []int   // ascending
	table      []int64 // row-major
	proofTerms []int   // numbers in the proof: this function is the sum of the functions with these numbers
}

// instance is a problem that is being solved. It has all variables, including eliminated ones, and the functions of the
// variables that are not eliminated.
type instance struct {
	ctx             context.Context // nil: none
	functions       []*function     // all have at least one variable
	constant        int64           // sum of the functions without variables
	nextProofNumber int             // number in the proof of the next message or shifted function

	// By variable:
	sizes            []int   // number of labels
	eliminated       []bool  // whether the variable is eliminated
	problemVariables []int   // index of the variable in the problem
	problemLabels    [][]int // by label: index of the label in the problem; nil if no label was removed
	outerVariables   []int   // for a connected component of another instance: index of the variable in that instance
}

// newInstance adds up the factors with equal sets of variables, and sorts their scopes. A factor has at most two
// variables.
func newInstance(ctx context.Context, problem *Problem) *instance {
	created := &instance{ctx: ctx, nextProofNumber: len(problem.Factors)}
	for v := range problem.Variables {
		created.problemVariables = append(created.problemVariables, v)
		created.sizes = append(created.sizes, len(problem.Variables[v].Labels))
	}
	created.eliminated = make([]bool, len(created.problemVariables))
	type variablePair struct{ first, last int } // first is last for a factor of one variable
	sums := map[variablePair]*function{}
	for i := range problem.Factors {
		interrupt.Check(ctx)
		factor := &problem.Factors[i]
		if len(factor.Scope) == 0 {
			created.constant = add(created.constant, factor.Costs[0]) // saturates at Forbidden
			continue
		}
		scope := slices.Clone(factor.Scope)
		sorted.Ints(scope)
		pair := variablePair{scope[0], scope[len(scope)-1]}
		sum := sums[pair]
		if sum == nil {
			sum = &function{scope: scope, table: make([]int64, len(factor.Costs))}
			sums[pair] = sum
			created.functions = append(created.functions, sum)
		}
		sum.proofTerms = append(sum.proofTerms, i)
		sum.addFactor(factor, created.sizes)
	}
	return created
}

// addFactor adds a factor over the same variables. The factor may have its two variables in descending order.
func (f *function) addFactor(factor *Factor, sizes []int) {
	if len(factor.Scope) == 1 || factor.Scope[0] < factor.Scope[1] {
		for i, cost := range factor.Costs {
			f.table[i] = add(f.table[i], cost)
		}
		return
	}
	// The table of the function is the transpose of the factor's table.
	rows, columns := sizes[factor.Scope[0]], sizes[factor.Scope[1]]
	for i := range rows {
		for k := range columns {
			entry := &f.table[k*rows+i]
			*entry = add(*entry, factor.Costs[i*columns+k])
		}
	}
}

// restrict returns the instance restricted to the given labels. labels lists, by variable, indices below in.sizes.
// Functions whose variables keep all labels are shared with the result.
func (in *instance) restrict(labels [][]int) *instance {
	result := *in
	result.problemLabels = labels
	if in.problemLabels != nil {
		result.problemLabels = make([][]int, len(labels))
		for v, list := range labels {
			for _, label := range list {
				result.problemLabels[v] = append(result.problemLabels[v], in.problemLabels[v][label])
			}
		}
	}
	result.sizes = make([]int, len(labels))
	for v := range labels {
		result.sizes[v] = len(labels[v])
	}
	result.functions = make([]*function, len(in.functions))
	for i, original := range in.functions {
		isUnchanged := !slices.ContainsFunc(original.scope, func(v int) bool { return in.sizes[v] != result.sizes[v] })
		if isUnchanged {
			result.functions[i] = original
		} else {
			result.functions[i] = original.restrict(labels, in.sizes)
		}
	}
	return &result
}

// restrict returns the function restricted to the given labels, by variable. sizes has the old numbers of labels.
func (f *function) restrict(labels [][]int, sizes []int) *function {
	indices := []int{0} // in f.table, of the entries that remain
	for _, v := range f.scope {
		extended := make([]int, 0, len(indices)*len(labels[v]))
		for _, index := range indices {
			for _, label := range labels[v] {
				extended = append(extended, index*sizes[v]+label)
			}
		}
		indices = extended
	}
	restricted := &function{scope: f.scope, table: make([]int64, len(indices)), proofTerms: f.proofTerms}
	for k, index := range indices {
		restricted.table[k] = f.table[index]
	}
	return restricted
}

// components returns the connected components as instances, ordered by their least variables. Variables are connected
// by functions.
func (in *instance) components() []*instance {
	sets := newDisjointSets(len(in.problemVariables))
	for _, f := range in.functions {
		for _, v := range f.scope[1:] {
			sets.join(f.scope[0], v)
		}
	}
	var list []*instance
	byLeast := map[int]*instance{} // by least variable of the component
	indexInComponent := make([]int, len(in.problemVariables))
	for v := range in.problemVariables {
		if in.eliminated[v] {
			continue
		}
		component := byLeast[sets.least(v)]
		if component == nil {
			component = &instance{ctx: in.ctx, nextProofNumber: in.nextProofNumber}
			byLeast[sets.least(v)] = component
			list = append(list, component)
		}
		indexInComponent[v] = len(component.sizes)
		component.addVariable(in, v)
	}
	for _, f := range in.functions {
		renumbered := &function{scope: make([]int, len(f.scope)), table: f.table, proofTerms: f.proofTerms}
		for i, v := range f.scope {
			renumbered.scope[i] = indexInComponent[v]
		}
		component := byLeast[sets.least(f.scope[0])]
		component.functions = append(component.functions, renumbered)
	}
	return list
}

// addVariable adds variable v of outer. The instance is a component of outer.
func (in *instance) addVariable(outer *instance, v int) {
	in.sizes = append(in.sizes, outer.sizes[v])
	in.eliminated = append(in.eliminated, false)
	in.problemVariables = append(in.problemVariables, outer.problemVariables[v])
	in.problemLabels = append(in.problemLabels, outer.problemLabels[v]) // not nil: solve calls restrict first
	in.outerVariables = append(in.outerVariables, v)
}

// remainingCount returns the number of variables that are not eliminated.
func (in *instance) remainingCount() int {
	count := 0
	for _, isEliminated := range in.eliminated {
		if !isEliminated {
			count++
		}
	}
	return count
}

// disjointSets is a disjoint-set forest of variables. Element v is the parent of variable v: v itself or a lesser
// variable of the same set.
type disjointSets []int

// newDisjointSets returns n sets of one variable.
func newDisjointSets(n int) disjointSets {
	sets := make(disjointSets, n)
	for v := range sets {
		sets[v] = v
	}
	return sets
}

// least returns the least variable of v's set. It shortens the path from v to this variable.
func (sets disjointSets) least(v int) int {
	for sets[v] != v {
		sets[v] = sets[sets[v]]
		v = sets[v]
	}
	return v
}

// join joins the sets of two variables.
func (sets disjointSets) join(a, b int) {
	leastA, leastB := sets.least(a), sets.least(b)
	sets[max(leastA, leastB)] = min(leastA, leastB)
}

// dependsOn reports whether a variable is in the scope.
func (f *function) dependsOn(v int) bool { return slices.Contains(f.scope, v) }

// slice returns the function with v fixed to a label. v stays in the scope, with one label.
func (f *function) slice(v, label int, sizes []int) *function {
	runLength := 1 // number of adjacent entries with the same label of v
	for _, variable := range f.scope[slices.Index(f.scope, v)+1:] {
		runLength *= sizes[variable]
	}
	restricted := &function{scope: f.scope, proofTerms: f.proofTerms, table: make([]int64, 0, len(f.table)/sizes[v])}
	for start := label * runLength; start < len(f.table); start += sizes[v] * runLength {
		restricted.table = append(restricted.table, f.table[start:start+runLength]...)
	}
	return restricted
}

// Fix returns the problem that remains when some variables have fixed labels. It also returns a function that extends
// labels of the remaining variables to labels of all variables. labels has the fixed labels by index of the variable.
// Fix fails if a label or the problem is invalid. For example, let label 2 be fixed for variable b in a problem of
// variables a, b and c. The remaining problem has the variables a and c, and the function extends the labels [0, 1] to
// [0, 2, 1].
func (p *Problem) Fix(labels map[int]int) (*Problem, func([]int) []int, error) {
	if err := p.Validate(); err != nil {
		return nil, nil, err
	}
	remaining, newIndex := &Problem{Version: p.Version}, make([]int, len(p.Variables))
	for i, v := range p.Variables {
		newIndex[i] = -1
		label, isFixed := labels[i]
		switch {
		case !isFixed:
			newIndex[i] = len(remaining.Variables)
			remaining.Variables = append(remaining.Variables, v)
		case label < 0 || label >= len(v.Labels):
			return nil, nil, fmt.Errorf("wcsp: variable %d (%q) has no label %d: it has %d labels", i, v.Name, label,
				len(v.Labels))
		}
	}
	for _, f := range p.Factors {
		remaining.Factors = append(remaining.Factors, p.restrictedFactor(&f, labels, newIndex))
	}
	extend := func(chosen []int) []int {
		all := make([]int, len(newIndex))
		for i, remainingIndex := range newIndex {
			if remainingIndex < 0 {
				all[i] = labels[i]
			} else {
				all[i] = chosen[remainingIndex]
			}
		}
		return all
	}
	return remaining, extend, nil
}

// restrictedFactor returns a factor, a cost table over the variables of its scope, for the fixed labels. newIndex has
// the index of each variable in the remaining problem; -1 for a fixed variable.
func (p *Problem) restrictedFactor(f *Factor, labels map[int]int, newIndex []int) Factor {
	restricted := Factor{Scope: []int{}}
	for _, v := range f.Scope {
		if newIndex[v] >= 0 {
			restricted.Scope = append(restricted.Scope, newIndex[v])
		}
	}
	for i, cost := range f.Costs {
		if p.hasFixedLabels(f, i, labels, newIndex) {
			restricted.Costs = append(restricted.Costs, cost)
		}
	}
	return restricted
}

// hasFixedLabels reports whether the fixed variables of a factor have their fixed labels in an entry of its costs.
func (p *Problem) hasFixedLabels(f *Factor, entry int, labels map[int]int, newIndex []int) bool {
	remainder := entry // remainder%size is the label of v in the entry
	for k := len(f.Scope) - 1; k >= 0; k-- {
		v := f.Scope[k]
		size := len(p.Variables[v].Labels)
		if newIndex[v] < 0 && remainder%size != labels[v] {
			return false
		}
		remainder /= size
	}
	return true
}

// supported returns, by variable, the supported labels (arc consistency). A label is supported if each function of its
// variable has an allowed entry (less than Forbidden) for this label and supported labels of the other variables.
// supported also returns the removed labels in order of removal, and whether each variable has a supported label.
func (in *instance) supported() (remaining [][]int, cuts []Cut, feasible bool) {
	functionsOf := in.newElimination().functionsOf
	remaining, feasible = make([][]int, len(in.problemVariables)), true
	for v, labelCount := range in.sizes {
		for label := range labelCount {
			remaining[v] = append(remaining[v], label)
		}
	}
	for changed := true; changed; {
		changed = false
		for v := range in.problemVariables {
			interrupt.Check(in.ctx)
			remaining[v] = slices.DeleteFunc(remaining[v], func(label int) bool {
				isUnsupported := slices.ContainsFunc(functionsOf[v], func(f *function) bool {
					return !f.supports(v, label, in.sizes, remaining)
				})
				if isUnsupported {
					cut := Cut{Variable: in.problemVariables[v], Label: in.problemLabels[v][label]}
					changed, cuts = true, append(cuts, cut)
				}
				return isUnsupported
			})
			feasible = feasible && len(remaining[v]) > 0
		}
	}
	return remaining, cuts, feasible
}

// supports reports whether a function has an allowed entry for a label of v and remaining labels of its other
// variables.
func (f *function) supports(v, label int, sizes []int, remaining [][]int) bool {
	// allows continues the row-major index of an entry with the variables of the scope from scopeIndex on.
	var allows func(scopeIndex, index int) bool
	allows = func(scopeIndex, index int) bool {
		if scopeIndex == len(f.scope) {
			return f.table[index] < Forbidden
		}
		other := f.scope[scopeIndex]
		if other == v {
			return allows(scopeIndex+1, index*sizes[other]+label)
		}
		return slices.ContainsFunc(remaining[other], func(otherLabel int) bool {
			return allows(scopeIndex+1, index*sizes[other]+otherLabel)
		})
	}
	return allows(0, 0)
}
