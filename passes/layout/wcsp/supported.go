package wcsp

import (
	"slices"

	"github.com/graphrun/graphrun/internal/interrupt"
)

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
