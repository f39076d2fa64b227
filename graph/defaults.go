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
		if v == nil || v.Default == nil {
			continue
		}
		if _, isGiven := given[v.Name]; isGiven {
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

// HasConstantDefault reports whether the input has a default, and the default of an input has the shape of the input
// for all sizes of symbols.
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
	if copied.inferWithConstantAttrs() != nil {
		return g
	}
	return copied
}

// inferWithConstantAttrs infers the graph after inputs have become constants. Nodes on which attributes depend, such as
// the computation of a shape, are replaced by their results if their operands are constants.
func (g *Graph) inferWithConstantAttrs() error {
	decides := map[*Value]bool{} // the values on which attributes depend
	for _, n := range slices.Backward(g.Nodes) {
		for _, ref := range n.refs() {
			decides[ref.value] = true
			n.Attrs = nil // inference decodes the attributes again
		}
		if slices.ContainsFunc(n.Out, func(v *Value) bool { return decides[v] }) {
			for _, arg := range n.In {
				decides[arg.Value] = true
			}
		}
	}
	var state inference
	var kept []*Node
	for _, n := range g.Nodes {
		if err := n.infer(&state); err != nil {
			return err
		}
		if !slices.ContainsFunc(n.Out, func(v *Value) bool { return decides[v] }) || !g.replaceByResults(n) {
			kept = append(kept, n)
		}
	}
	g.Nodes = kept
	return nil
}

// replaceByResults makes the results of an inferred node constants, if its operands are constants and the results are
// small enough for an attribute.
func (g *Graph) replaceByResults(n *Node) bool {
	tensors := map[*Value]*tensor.Tensor{}
	for _, arg := range n.In {
		switch {
		case arg.Value == nil: // a number, or an absent operand
		case arg.Value.Const == nil:
			return false
		default:
			tensors[arg.Value] = arg.Value.Data()
		}
	}
	for _, v := range n.Out {
		if v.Dynamic || v.Meta.Numel() > maxAttrElements {
			return false
		}
	}
	const dynamic = false
	if n.evaluate(g, tensors, dynamic) != nil {
		return false
	}
	for _, v := range n.Out {
		v.Node, v.Index, v.Alias, v.Const = nil, 0, nil, tensors[v]
		v.SetMeta(v.Const.Meta)
		g.Constants = append(g.Constants, v)
	}
	return true
}
