package onnx

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file recognizes group normalization. Exporters write it as an instance normalization between two reshapes. It is
// converted to the op group_norm, which fuses with the ops after it and accepts any order of dimensions.

// recordedGroupNorm records an instance_norm over [n, groups, ...] whose operand is a reshape of x with shape [n,
// channels, ...].
type recordedGroupNorm struct {
	x            *val
	groups       int
	eps          float64
	weight, bias *val // per group
}

// noteGroups records y = instance_norm(x) if x is a reshape that groups the channels of another value, see
// [recordedGroupNorm].
func (n *node) noteGroups(x, y, weight, bias *val, eps float64) {
	lookup := n.opts.Lookup
	if y.v == nil || y.dynamic() || x.v == nil || x.v.Node == nil || x.v.Node.Op != lookup("reshape") ||
		lookup("group_norm") == nil {
		return
	}
	base := &val{v: x.v.Node.In[0].Value}
	if base.dynamic() {
		return
	}
	from, to := n.shapeOf(base), n.shapeOf(x)
	if len(from) < 2 || len(to) < 3 || !from[0].Same(to[0]) {
		return
	}
	groups, known := to[1].Known()
	if !known || groups < 1 || !from[1].Mod(sym.Of(groups)).Same(sym.Int{}) {
		return
	}
	if n.groupNorms == nil {
		n.groupNorms = map[*graph.Value]recordedGroupNorm{}
	}
	n.groupNorms[y.v] = recordedGroupNorm{base, groups, eps, weight, bias}
}

// regrouped returns the group normalization that is equivalent to a reshape of x to the given shape. This requires that
// noteGroups recorded x, and that the shape is the shape before the grouping; one size may be -1. Otherwise it returns
// nil.
func (n *node) regrouped(x *val, shape []sym.Int) *val {
	f, ok := n.groupNorms[x.v]
	if !ok {
		return nil
	}
	sizes, rest := n.shapeOf(f.x), 0
	if !slices.EqualFunc(sizes, shape, func(a, b sym.Int) bool {
		if isRest(b) {
			rest++
		}
		return isRest(b) || a.Same(b)
	}) || rest > 1 {
		return nil
	}
	var w, b *val
	if !f.weight.all(1) || !f.bias.all(0) {
		w, b = n.repeatGroups(f.weight, f.groups, sizes[1]), n.repeatGroups(f.bias, f.groups, sizes[1])
	}
	return n.op("group_norm", graph.Attrs{"num_groups": f.groups, "eps": f.eps}, f.x, n.convertLike(w, f.x),
		n.convertLike(b, f.x))
}

// repeatGroups repeats each group's parameter for its channels.
func (n *node) repeatGroups(p *val, groups int, channels sym.Int) *val {
	size := n.sizeAttr(sym.Of(groups), channels.Div(sym.Of(groups)))
	return n.reshape(n.op("expand", graph.Attrs{"size": size}, n.reshape(p, groups, 1)), -1)
}

// all reports whether x is constant and all its elements equal a number.
func (x *val) all(number float64) bool {
	if x.data == nil || x.data.DType.IsComplex() {
		return false
	}
	list, err := tensor.ToSlice[float64](x.data.CopyTo(tensor.New(tensor.Float64, x.data.Shape...)))
	return err == nil && !slices.ContainsFunc(list, func(v float64) bool { return v != number })
}
