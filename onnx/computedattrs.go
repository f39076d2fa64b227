package onnx

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts operators whose computed parameters cannot be expressed by a single reference in an attribute
// ([graph.Ref]): several axes, several sizes, or steps of unknown sign.

// computedAxes splits x, a vector of axes of known length, into non-negative 0-dim values in ascending order.
func (n *node) computedAxes(x *val, rank int) []*val {
	count := n.lengthOf(x)
	if count < 0 {
		n.failf("the number of axes must be known before the graph runs")
	}
	x = n.cast(x, tensor.Int64)
	if x.meta().Rank() == 0 {
		x = n.reshape(x, 1)
	}
	x = n.op("where", nil, n.op("lt", nil, x, 0), n.op("add", nil, x, rank), x)
	if count > 1 {
		x = n.ops("sort", graph.Attrs{"dim": 0}, x)[0]
	}
	axes := make([]*val, count)
	for i := range axes {
		axes[i] = n.element(x, i)
	}
	return axes
}

func (n *node) unsqueezeComputed(x, axes *val) *val {
	rank := n.rank(x)
	list := n.computedAxes(axes, rank+n.lengthOf(axes))
	for i, a := range list {
		x = n.op("unsqueeze", graph.Attrs{"dim": n.scalarAttr(a)}, x).withRank(rank + i + 1)
	}
	return x
}

func (n *node) squeezeComputed(x, axes *val) *val {
	rank := n.rank(x) - n.lengthOf(axes)
	return n.op("squeeze", graph.Attrs{"dim": n.vectorAttr(axes)}, x).withRank(rank)
}

// sliceComputed slices x along a computed axis with computed bounds. It computes the indices of the selected elements
// by Python's rules of slices.
func (n *node) sliceComputed(x, axis, start, end, step *val) *val {
	scalar := func(v *val) *val { // v as a 0-dim int64
		v = n.cast(v, tensor.Int64)
		if !v.isDynamic() && v.meta().Rank() > 0 {
			v = n.reshape(v)
		}
		return v
	}
	axis, start, end, step = scalar(axis), scalar(start), scalar(end), scalar(step)
	size := n.op("index", nil, n.shapeVector(x), axis).withType(tensor.Int64, 0)
	isBackward := n.op("lt", nil, step, 0)
	low := n.op("where", nil, isBackward, constValue(tensor.IntScalar(-1).Tensor(tensor.Int64)),
		constValue(tensor.IntScalar(0).Tensor(tensor.Int64)))
	high := n.op("add", nil, size, low)
	bound := func(v *val) *val {
		v = n.op("where", nil, n.op("lt", nil, v, 0), n.op("add", nil, v, size), v)
		return n.op("minimum", nil, n.op("maximum", nil, v, low), high).withType(tensor.Int64, 0)
	}
	start, end = bound(start), bound(end)
	// If the end is before the start in the direction of the step, the slice is empty. The end is then the start.
	end = n.op("where", nil, isBackward, n.op("minimum", nil, start, end),
		n.op("maximum", nil, start, end)).withType(tensor.Int64, 0)
	index := n.op("arange", graph.Attrs{"start": n.scalarAttr(start), "end": n.scalarAttr(end), "step": n.scalarAttr(step),
		"dtype": tensor.Int64}).withType(tensor.Int64, 1)
	return n.op("index_select", graph.Attrs{"dim": n.scalarAttr(axis)}, x, index).withType(x.dtype(), n.rank(x))
}

// splitComputed splits x into parts of computed sizes.
func (n *node) splitComputed(x, sizes *val, axis, parts int) []*val {
	if c := n.lengthOf(sizes); c >= 0 && c != parts {
		n.failf("%d sizes do not suit %d outputs", c, parts)
	}
	sizes = n.cast(sizes, tensor.Int64)
	starts := n.op("sub", nil, n.op("cumsum", graph.Attrs{"dim": 0}, sizes), sizes)
	out := make([]*val, parts)
	for i := range out {
		out[i] = n.op("narrow", graph.Attrs{"dim": axis, "start": n.scalarAttr(n.element(starts, i)),
			"length": n.scalarAttr(n.element(sizes, i))}, x).withType(x.dtype(), n.rank(x))
	}
	return out
}

// padMirroredComputed pads x with its own elements. widths is a vector: first the width before each dimension, then the
// width after each dimension.
func (n *node) padMirroredComputed(x, widths *val, mode string) *val {
	rank := n.rank(x)
	sizes := n.shapeVector(x)
	for dim := range rank {
		before, after := n.element(widths, dim), n.element(widths, rank+dim)
		size := n.element(sizes, dim)
		start := n.op("neg", nil, before)
		index := n.op("arange", graph.Attrs{"start": n.scalarAttr(start), "end": n.scalarAttr(n.op("add", nil, size, after)),
			"dtype": tensor.Int64}).withType(tensor.Int64, 1)
		last := n.op("sub", nil, size, 1)
		switch mode {
		case "edge":
			index = n.op("minimum", nil, n.op("clamp_min", graph.Attrs{"min": 0}, index), last)
		case "wrap":
			index = n.op("remainder", nil, index, size)
		case "reflect":
			period := n.op("clamp_min", graph.Attrs{"min": 1}, n.op("mul", nil, last, 2))
			index = n.op("remainder", nil, index, period)
			index = n.op("minimum", nil, index, n.op("sub", nil, period, index))
			index = n.op("minimum", nil, index, last)
		default:
			n.failf("mode %q is not supported", mode)
		}
		x = n.op("index_select", graph.Attrs{"dim": dim}, x,
			index.withType(tensor.Int64, 1)).withType(x.dtype(), rank)
	}
	return x
}
