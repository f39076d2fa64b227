package operators

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/onnx/internal/symbolic"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file recognizes group normalization, which exporters write as an instance normalization between two reshapes.
// The three nodes become the op group_norm, which fuses with later ops and accepts any order of dimensions. The
// instance normalization is recorded ([recordGroups]) and replaced at the second reshape ([asGroupNorm]).

// groupedNorm is an instance normalization of a value of shape [n, groups, ...], which is a reshape of x. The shape of
// x is [n, channels, ...].
type groupedNorm struct {
	x            *value
	groups       int
	eps          float64
	weight, bias *value // one element for each group
}

// recordGroups stores a groupedNorm in y.Note, where y = instance_norm(x), if x is a reshape that divides the
// channels of another value into groups.
func recordGroups(n *node, x, y, weight, bias *value, eps float64) {
	isPlanned := y.GraphValue() != nil && !y.IsDynamic() && n.Lookup("group_norm") != nil
	isReshape := x.GraphValue() != nil && x.GraphValue().Node != nil && x.GraphValue().Node.Op == n.Lookup("reshape")
	if !isPlanned || !isReshape {
		return
	}
	ungroupedX := convert.FromGraph(x.GraphValue().Node.In[0].Value)
	if ungroupedX.IsDynamic() {
		return
	}
	ungrouped, grouped := n.TrySymShape(ungroupedX), n.TrySymShape(x)
	if len(ungrouped) < 2 || len(grouped) < 3 || !ungrouped[0].Same(grouped[0]) {
		return
	}
	groups, known := grouped[1].Known()
	if !known || groups < 1 || !ungrouped[1].Mod(sym.Of(groups)).Same(sym.Int{}) {
		return
	}
	y.Note = groupedNorm{x: ungroupedX, groups: groups, eps: eps, weight: weight, bias: bias}
}

// asGroupNorm returns the group normalization that equals a reshape of x, an instance normalization, to the given
// shape. It returns nil unless recordGroups has stored a Note in x and `shape` is the shape before the first reshape.
// One size of shape may be -1.
func asGroupNorm(n *node, x *value, shape []sym.Int) *value {
	norm, ok := x.Note.(groupedNorm)
	if !ok {
		return nil
	}
	// A -1 in shape stands for the size that follows from the others. Two of them would leave the sizes open.
	sizes, inferredSizes := n.TrySymShape(norm.x), 0
	isSameShape := slices.EqualFunc(sizes, shape, func(a, b sym.Int) bool {
		if symbolic.IsMinusOne(b) {
			inferredSizes++
		}
		return symbolic.IsMinusOne(b) || a.Same(b)
	})
	if !isSameShape || inferredSizes > 1 {
		return nil
	}
	var weight, bias *value // nil means 1 and 0
	if !allEqual(norm.weight, 1) || !allEqual(norm.bias, 0) {
		weight = repeatGroups(n, norm.weight, norm.groups, sizes[1])
		bias = repeatGroups(n, norm.bias, norm.groups, sizes[1])
	}
	return n.Op("group_norm", graph.Attrs{"num_groups": norm.groups, "eps": norm.eps}, norm.x,
		convertLike(n, weight, norm.x), convertLike(n, bias, norm.x))
}

// repeatGroups repeats each group's parameter for its channels: [groups] becomes [channels].
func repeatGroups(n *node, params *value, groups int, channels sym.Int) *value {
	size := n.SizesAttr(sym.Of(groups), channels.Div(sym.Of(groups)))
	return n.Reshape(n.Op("expand", graph.Attrs{"size": size}, n.Reshape(params, groups, 1)), -1)
}

// allEqual reports whether x is a constant whose elements all equal a number.
func allEqual(x *value, number float64) bool {
	if x.Data() == nil || x.Data().DType.IsComplex() {
		return false
	}
	list, err := tensor.ToSlice[float64](x.Data().CopyTo(tensor.New(tensor.Float64, x.Data().Shape...)))
	return err == nil && !slices.ContainsFunc(list, func(element float64) bool { return element != number })
}
