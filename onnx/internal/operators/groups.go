package operators

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/onnx/internal/symbolic"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file recognizes group normalization, which exporters write as three nodes. For example, let x be N images of 32
// channels, [N, 32, height, width], in 8 groups of 4 channels:
//
//	grouped    = Reshape(x, [N, 8, -1])
//	normalized = InstanceNormalization(grouped, weight, bias)
//	y          = Reshape(normalized, [N, 32, height, width])
//
// The graph gets one op in place of y: group_norm(x), which fuses with later ops and accepts any order of dimensions.
// The converter of InstanceNormalization calls [recordGroups], and the converter of the last Reshape calls
// [asGroupNorm].
//
// A value is a tensor of the model, and node.Op adds an op to the graph. A sym.Int is a size: a number, or an
// expression over symbols such as N.

// groupedNorm describes an instance normalization of grouped channels.
type groupedNorm struct {
	x            *value // the operand of the first Reshape, of shape [N, channels, ...]
	groups       int
	eps          float64
	weight, bias *value // one element for each group
}

// recordGroups stores a groupedNorm in normalized.Note if `grouped` is a Reshape that divides channels into groups. As
// in the example, normalized is InstanceNormalization(grouped, weight, bias).
func recordGroups(n *node, grouped, normalized, weight, bias *value, eps float64) {
	isInGraph := normalized.GraphValue() != nil && grouped.GraphValue() != nil && grouped.GraphValue().Node != nil
	if !isInGraph || n.Lookup("group_norm") == nil || grouped.GraphValue().Node.Op != n.Lookup("reshape") {
		return
	}
	x := convert.FromGraph(grouped.GraphValue().Node.In[0].Value)
	if x.IsDynamic() || normalized.IsDynamic() { // a shape depends on data
		return
	}
	xShape, groupedShape := n.TrySymShape(x), n.TrySymShape(grouped)
	if len(xShape) < 2 || len(groupedShape) < 3 || !xShape[0].Same(groupedShape[0]) {
		return
	}
	groups, isNumber := groupedShape[1].Known()
	if !isNumber || groups < 1 || !xShape[1].Mod(sym.Of(groups)).Same(sym.Of(0)) {
		return
	}
	normalized.Note = groupedNorm{x: x, groups: groups, eps: eps, weight: weight, bias: bias}
}

// asGroupNorm returns the group normalization that equals a reshape of `normalized` to a shape. It returns nil if
// recordGroups stored no groupedNorm in normalized.Note, or if the shape differs from the shape of x.
func asGroupNorm(n *node, normalized *value, shape []sym.Int) *value {
	norm, ok := normalized.Note.(groupedNorm)
	if !ok {
		return nil
	}
	xShape := n.TrySymShape(norm.x)
	if !isShapeOf(shape, xShape) {
		return nil
	}
	var weight, bias *value // nil means 1 and 0
	if !allEqual(norm.weight, 1) || !allEqual(norm.bias, 0) {
		weight = repeatGroups(n, norm.weight, norm.groups, xShape[1])
		bias = repeatGroups(n, norm.bias, norm.groups, xShape[1])
	}
	in := normOperands(n, norm.x, weight, bias)
	return n.Op("group_norm", graph.Attrs{"num_groups": norm.groups, "eps": norm.eps}, in[0], in[1], in[2])
}

// isShapeOf reports whether the operand `shape` of a Reshape describes the given sizes. One element of shape may be -1:
// Reshape computes this size from the other ones.
func isShapeOf(shape, sizes []sym.Int) bool {
	computed := 0
	isSame := slices.EqualFunc(sizes, shape, func(size, element sym.Int) bool {
		if symbolic.IsMinusOne(element) {
			computed++
			return true
		}
		return size.Same(element)
	})
	return isSame && computed <= 1
}

// repeatGroups repeats each group's parameter for the channels of the group. For example, with 2 groups and 4 channels,
// [a, b] becomes [a, a, b, b].
func repeatGroups(n *node, params *value, groups int, channels sym.Int) *value {
	channelsPerGroup := channels.Div(sym.Of(groups))
	size := n.SizesAttr(sym.Of(groups), channelsPerGroup)
	return n.Reshape(n.Op("expand", graph.Attrs{"size": size}, n.Reshape(params, groups, 1)), -1)
}

// allEqual reports whether x is a constant whose elements all equal a number.
func allEqual(x *value, number float64) bool {
	if x.Data() == nil || x.Data().DType.IsComplex() {
		return false
	}
	elements, err := tensor.ToSlice[float64](x.Data().CopyTo(tensor.New(tensor.Float64, x.Data().Shape...)))
	return err == nil && !slices.ContainsFunc(elements, func(element float64) bool { return element != number })
}
