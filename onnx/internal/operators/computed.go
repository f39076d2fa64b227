package operators

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/tensor"
)

// A [graph.ValueRef] lets an attribute refer to one computed value. This file converts operators for which one
// reference is not enough, because they have several computed axes, several computed sizes, or steps of unknown sign.
// WithType and WithRank record the dtype and rank of a result if the op cannot infer them before the graph runs.

// computedAxes returns the axes in x as 0-dim values, in ascending order. x is a single axis or a vector of known
// length. rank is added to negative axes.
func computedAxes(n *node, x *value, rank int) []*value {
	count := n.LengthOf(x)
	if count < 0 {
		n.Failf("the number of axes must be known before the graph runs")
	}
	x = n.Cast(x, tensor.Int64)
	if x.Meta().Rank() == 0 {
		x = n.Reshape(x, 1)
	}
	x = n.Op("where", nil, n.Op("lt", nil, x, 0), n.Op("add", nil, x, rank), x)
	if count > 1 {
		x = n.Ops("sort", graph.Attrs{"dim": 0}, x)[0]
	}
	axes := make([]*value, count)
	for i := range axes {
		axes[i] = n.Element(x, i)
	}
	return axes
}

// unsqueezeComputed inserts dimensions of size 1 at computed axes of the result.
func unsqueezeComputed(n *node, x, axes *value) *value {
	rank := n.Rank(x)
	sortedAxes := computedAxes(n, axes, rank+n.LengthOf(axes))
	for i, axis := range sortedAxes { // in ascending order, so that an insertion does not move earlier insertions
		x = n.Op("unsqueeze", graph.Attrs{"dim": n.IntAttr(axis)}, x).WithRank(rank + i + 1)
	}
	return x
}

// squeezeComputed removes the dimensions at computed axes. These dimensions must have size 1.
func squeezeComputed(n *node, x, axes *value) *value {
	rank := n.Rank(x) - n.LengthOf(axes)
	return n.Op("squeeze", graph.Attrs{"dim": n.IntsAttr(axes)}, x).WithRank(rank)
}

// sliceComputed slices x along a computed axis with computed bounds. It computes the indices of the selected elements
// by Python's rules of slices.
func sliceComputed(n *node, x, axis, start, end, step *value) *value {
	scalar := func(v *value) *value { // v, one integer of any rank, as a 0-dim int64
		v = n.Cast(v, tensor.Int64)
		if !v.IsDynamic() && v.Meta().Rank() > 0 {
			v = n.Reshape(v)
		}
		return v
	}
	axis, start, end, step = scalar(axis), scalar(start), scalar(end), scalar(step)
	size := n.Op("index", nil, n.ShapeVector(x), axis).WithType(tensor.Int64, 0)
	// Bounds are clamped to [0, size]. If the step is negative, they are clamped to [-1, size-1], where the exclusive
	// end -1 means that index 0 is included.
	isBackward := n.Op("lt", nil, step, 0)
	low := n.Op("where", nil, isBackward, convert.Constant(tensor.IntScalar(-1).Tensor(tensor.Int64)),
		convert.Constant(tensor.IntScalar(0).Tensor(tensor.Int64)))
	high := n.Op("add", nil, size, low)
	clampBound := func(v *value) *value {
		v = n.Op("where", nil, n.Op("lt", nil, v, 0), n.Op("add", nil, v, size), v)
		return n.Op("minimum", nil, n.Op("maximum", nil, v, low), high).WithType(tensor.Int64, 0)
	}
	start, end = clampBound(start), clampBound(end)
	// If the end is before the start in the direction of the step, the slice is empty. The op arange rejects such an
	// end, so the end is replaced by the start.
	end = n.Op("where", nil, isBackward, n.Op("minimum", nil, start, end),
		n.Op("maximum", nil, start, end)).WithType(tensor.Int64, 0)
	index := n.Op("arange", graph.Attrs{"start": n.IntAttr(start), "end": n.IntAttr(end), "step": n.IntAttr(step),
		"dtype": tensor.Int64}).WithType(tensor.Int64, 1)
	return n.Op("index_select", graph.Attrs{"dim": n.IntAttr(axis)}, x, index).WithType(x.DType(), n.Rank(x))
}

// padMirroredAtRuntime pads x with its own elements. widths is a vector: first the width before each dimension, then
// the width after each dimension. Indices are computed for each dimension, by the same formulas as in [mirror].
func padMirroredAtRuntime(n *node, x, widths *value, mode string) *value {
	rank := n.Rank(x)
	sizes := n.ShapeVector(x)
	for dim := range rank {
		before, after := n.Element(widths, dim), n.Element(widths, rank+dim)
		size := n.Element(sizes, dim)
		start := n.Op("neg", nil, before)
		index := n.Op("arange", graph.Attrs{"start": n.IntAttr(start), "end": n.IntAttr(n.Op("add", nil, size, after)),
			"dtype": tensor.Int64}).WithType(tensor.Int64, 1)
		last := n.Op("sub", nil, size, 1)
		switch mode {
		case "edge":
			index = n.Op("minimum", nil, n.Op("clamp_min", graph.Attrs{"min": 0}, index), last)
		case "wrap":
			index = n.Op("remainder", nil, index, size)
		case "reflect":
			period := n.Op("clamp_min", graph.Attrs{"min": 1}, n.Op("mul", nil, last, 2))
			index = n.Op("remainder", nil, index, period)
			index = n.Op("minimum", nil, index, n.Op("sub", nil, period, index))
			index = n.Op("minimum", nil, index, last)
		default:
			n.Failf("mode %q is not supported", mode)
		}
		x = n.Op("index_select", graph.Attrs{"dim": dim}, x,
			index.WithType(tensor.Int64, 1)).WithType(x.DType(), rank)
	}
	return x
}
