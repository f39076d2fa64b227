package onnx

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file recognizes group normalization, which exporters write as an instance normalization between two reshapes.
// The three nodes become the op group_norm, which fuses with later ops and accepts any order of dimensions. The
// instance normalization is recorded ([node.recordGroups]) and replaced at the second reshape ([node.asGroupNorm]).

// groupedNorm is an instance normalization over [n, groups, ...]. Its operand is a reshape of x, which has shape
// [n, channels, ...].
type groupedNorm struct {
	x            *val
	groups       int
	eps          float64
	weight, bias *val // one element for each group
}

// recordGroups records y = instance_norm(x) in n.groupNorms, if x is a reshape of another value that groups its
// channels.
func (n *node) recordGroups(x, y, weight, bias *val, eps float64) {
	lookup := n.opts.Lookup
	if y.graphValue == nil || y.isDynamic() || x.graphValue == nil || x.graphValue.Node == nil ||
		x.graphValue.Node.Op != lookup("reshape") || lookup("group_norm") == nil {
		return
	}
	base := &val{graphValue: x.graphValue.Node.In[0].Value}
	if base.isDynamic() {
		return
	}
	ungrouped, grouped := n.shapeOf(base), n.shapeOf(x)
	if len(ungrouped) < 2 || len(grouped) < 3 || !ungrouped[0].Same(grouped[0]) {
		return
	}
	groups, known := grouped[1].Known()
	if !known || groups < 1 || !ungrouped[1].Mod(sym.Of(groups)).Same(sym.Int{}) {
		return
	}
	if n.groupNorms == nil {
		n.groupNorms = map[*graph.Value]groupedNorm{}
	}
	n.groupNorms[y.graphValue] = groupedNorm{base, groups, eps, weight, bias}
}

// asGroupNorm returns the group normalization that equals a reshape of x to the given shape. It returns nil unless
// recordGroups has recorded x and `shape` is the shape before the first reshape. One size of shape may be -1.
func (n *node) asGroupNorm(x *val, shape []sym.Int) *val {
	norm, ok := n.groupNorms[x.graphValue]
	if !ok {
		return nil
	}
	sizes, inferredSizes := n.shapeOf(norm.x), 0
	if !slices.EqualFunc(sizes, shape, func(a, b sym.Int) bool {
		if isMinusOne(b) {
			inferredSizes++
		}
		return isMinusOne(b) || a.Same(b)
	}) || inferredSizes > 1 {
		return nil
	}
	var w, b *val
	if !norm.weight.allEqual(1) || !norm.bias.allEqual(0) {
		w, b = n.repeatGroups(norm.weight, norm.groups, sizes[1]), n.repeatGroups(norm.bias, norm.groups, sizes[1])
	}
	return n.op("group_norm", graph.Attrs{"num_groups": norm.groups, "eps": norm.eps}, norm.x, n.convertLike(w, norm.x),
		n.convertLike(b, norm.x))
}

// repeatGroups repeats each group's parameter for its channels.
func (n *node) repeatGroups(p *val, groups int, channels sym.Int) *val {
	size := n.sizeAttr(sym.Of(groups), channels.Div(sym.Of(groups)))
	return n.reshape(n.op("expand", graph.Attrs{"size": size}, n.reshape(p, groups, 1)), -1)
}

// allEqual reports whether x is a constant whose elements all equal a number.
func (x *val) allEqual(number float64) bool {
	if x.data == nil || x.data.DType.IsComplex() {
		return false
	}
	list, err := tensor.ToSlice[float64](x.data.CopyTo(tensor.New(tensor.Float64, x.data.Shape...)))
	return err == nil && !slices.ContainsFunc(list, func(v float64) bool { return v != number })
}
