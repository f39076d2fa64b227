package wcsp

import (
	"context"
	"slices"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
)

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
