package graph

import (
	"maps"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// FillDefaults returns the tensors of a run by the names of inputs: given, and the defaults of the inputs that given
// lacks. It returns given itself if there are none.
func FillDefaults(inputs []*Value, given map[string]*tensor.Tensor) map[string]*tensor.Tensor {
	filled := given
	for _, v := range inputs {
		if _, isGiven := given[v.Name]; isGiven || v.Default == nil {
			continue
		}
		if len(filled) == len(given) {
			if filled = maps.Clone(given); filled == nil {
				filled = map[string]*tensor.Tensor{}
			}
		}
		filled[v.Name] = v.Default
	}
	return filled
}

// HasConstantDefault reports whether the input has a default, and the default of an input has the shape of the input for all sizes of symbols.
func (v *Value) HasConstantDefault() bool { return v.Default != nil && v.Dims == nil }

// WithConstantDefaults returns an inferred copy of the graph for runs that use the defaults. Inputs with a default are
// constants in the copy, except inputs with symbols in their shape. It returns g itself if there are no such inputs, or
// if inference rejects the copy.
func (g *Graph) WithConstantDefaults() *Graph {
	if !slices.ContainsFunc(g.Inputs, (*Value).HasConstantDefault) {
		return g
	}
	copied := g.Clone()
	isConstant := map[*Value]bool{}
	copied.Inputs = slices.DeleteFunc(copied.Inputs, func(v *Value) bool {
		if v.HasConstantDefault() {
			v.Const, v.Default, v.decl = v.Default, nil, nil
			copied.Constants = append(copied.Constants, v)
			isConstant[v] = true
		}
		return isConstant[v]
	})
	for _, n := range copied.Nodes {
		if slices.ContainsFunc(n.refs(), func(ref attrRef) bool { return isConstant[ref.value] }) {
			n.Attrs = nil // inference decodes the attributes again
		}
	}
	if copied.Infer() != nil {
		return g
	}
	return copied
}
