package operators

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/tensor"
)

// A [graph.ValueRef] lets an attribute refer to one computed value. This file converts operators for which one
// reference is not enough, because they have several computed axes, several computed sizes, or steps of unknown sign.
// WithType and WithRank record the dtype and rank of a result if the op cannot infer them before the graph runs.

// axesVector returns the axes in x as a vector of int64. x is a single axis or a vector. rank is added to negative
// axes.
func axesVector(n *node, x *value, rank int) *value {
	x = n.Cast(x, tensor.Int64)
	if !x.HasRank() || n.Rank(x) != 1 {
		x = n.Reshape(x, -1)
	}
	return n.Op("where", nil, n.Op("lt", nil, x, 0), n.Op("add", nil, x, rank), x).WithType(tensor.Int64, 1)
}

// computedAxes returns the axes in x as 0-dim values, in ascending order. Their number is known.
func computedAxes(n *node, x *value, rank int) []*value {
	axes := make([]*value, n.LengthOf(x))
	x = axesVector(n, x, rank)
	if len(axes) > 1 {
		x = n.Ops("sort", graph.Attrs{"dim": 0}, x)[0]
	}
	for i := range axes {
		axes[i] = n.Element(x, i)
	}
	return axes
}

// scattered returns the vector `into` with the elements of a vector at the given indices.
func scattered(n *node, into, indices, elements *value) *value {
	return n.Op("scatter", graph.Attrs{"dim": 0}, into, indices, n.Cast(elements, tensor.Int64)).WithType(tensor.Int64, 1)
}

// onesAt returns the vector `zeros` with ones at the given indices.
func onesAt(n *node, zeros, indices *value) *value {
	return scattered(n, zeros, indices, n.Op("ones_like", nil, indices).WithType(tensor.Int64, 1))
}

// repeatedInt returns a constant vector of count equal integers.
func repeatedInt(number, count int) *value {
	return convert.IntVector(slices.Repeat([]int{number}, count)...)
}

// reshapeBy reshapes x to the shape in a vector of the graph.
func reshapeBy(n *node, x, shape *value) *value {
	return n.Op("reshape", graph.Attrs{"shape": n.IntsAttr(shape)}, x).WithRank(n.LengthOf(shape))
}

// unsqueezeComputed inserts dimensions of size 1 at computed axes of the result.
func unsqueezeComputed(n *node, x, axes *value) *value {
	rank := n.Rank(x)
	if n.LengthOf(axes) < 0 {
		return unsqueezeUncounted(n, x, axes)
	}
	sortedAxes := computedAxes(n, axes, rank+n.LengthOf(axes))
	for i, axis := range sortedAxes { // in ascending order, so that an insertion does not move earlier insertions
		x = n.Op("unsqueeze", graph.Attrs{"dim": n.IntAttr(axis)}, x).WithRank(rank + i + 1)
	}
	return x
}

// unsqueezeUncounted is [unsqueezeComputed] for an unknown number of axes. It reshapes x to a computed shape. For
// example, the axes 0 and 2 of the result give isNew = [1, 0, 1, 0] for a matrix of shape [3, 4]. The sizes with the
// indices [0, 0, 0, 1] are [3, 3, 3, 4], and the shape is [1, 3, 1, 4].
func unsqueezeUncounted(n *node, x, axes *value) *value {
	resultRank := n.Op("add", nil, n.Element(n.ShapeVector(axes), 0), n.Rank(x))
	axes = n.Cast(axes, tensor.Int64)
	axes = n.Op("where", nil, n.Op("lt", nil, axes, 0), n.Op("add", nil, axes, resultRank), axes)
	zeros := n.Op("full", graph.Attrs{"size": n.IntsAttr(n.Reshape(resultRank, 1)), "fill_value": 0,
		"dtype": tensor.Int64}).WithType(tensor.Int64, 1)
	isNew := onesAt(n, zeros, axes)
	isOld := n.Op("rsub", nil, isNew, 1)
	index := n.Op("sub", nil, n.Op("cumsum", graph.Attrs{"dim": 0}, isOld), 1)
	// The appended 0 is for a scalar, and for axes that occur twice: the reshape then fails.
	sizes := n.Op("cat", nil, n.ShapeVector(x), convert.IntVector(0))
	sizes = n.Op("index_select", graph.Attrs{"dim": 0}, sizes, n.Op("clamp", graph.Attrs{"min": 0}, index))
	one := convert.Constant(tensor.IntScalar(1).Tensor(tensor.Int64))
	return reshapeBy(n, x, n.Op("where", nil, n.Op("eq", nil, isNew, 1), one, sizes).WithType(tensor.Int64, 1))
}

// squeezeComputed removes the dimensions at computed axes, which must have size 1: otherwise the reshape fails, and also
// for an axis that occurs twice. For example, the axis 1 of the shape [3, 1, 4] gives isRemoved = [0, 1, 0], which has
// the order [0, 2, 1]. The indices [0, 2] remain.
func squeezeComputed(n *node, x, axes *value) *value {
	rank, count := n.Rank(x), n.LengthOf(axes)
	isRemoved := onesAt(n, repeatedInt(0, rank), axesVector(n, axes, rank))
	order := n.Op("argsort", graph.Attrs{"dim": 0, "stable": true}, isRemoved).WithType(tensor.Int64, 1)
	length := any(rank - count)
	if count < 0 {
		axisCount := n.Element(n.ShapeVector(axesVector(n, axes, rank)), 0)
		length = n.IntAttr(n.Op("rsub", nil, axisCount, rank).WithType(tensor.Int64, 0))
	}
	kept := n.Op("narrow", graph.Attrs{"dim": 0, "start": 0, "length": length}, order).WithType(tensor.Int64, 1)
	shape := n.Op("index_select", graph.Attrs{"dim": 0}, n.ShapeVector(x), kept).WithType(tensor.Int64, 1)
	if count >= 0 {
		shape = shape.WithSizes(tensor.Int64, rank-count)
	}
	return reshapeBy(n, x, shape)
}

// reduceComputed applies the reduction `kind` of [reduceBy] over computed axes: it moves the reduced dimensions to the
// end and joins them. If there are no axes, it reduces all dimensions, or none if the attribute noop_with_empty_axes is
// set.
func reduceComputed(n *node, kind string, x, axes *value, keepDims bool) *value {
	rank, sizes := n.Rank(x), n.ShapeVector(x)
	one := convert.Constant(tensor.IntScalar(1).Tensor(tensor.Int64))
	isReduced := onesAt(n, repeatedInt(0, rank), axesVector(n, axes, rank))
	if !n.Flag("noop_with_empty_axes", false) {
		hasNoAxes := n.Op("eq", nil, product(n, n.ShapeVector(axes)), 0)
		isReduced = n.Op("where", nil, hasNoAxes, one, isReduced).WithType(tensor.Int64, 1)
	}
	// The kept dimensions come first: the order is that of isReduced*rank + index.
	keys := n.Op("add", nil, n.Op("mul", nil, isReduced, rank), convert.IntVector(firstInts(rank)...))
	order := n.Op("argsort", graph.Attrs{"dim": 0}, keys).WithType(tensor.Int64, 1)
	selected := n.Op("eq", nil, isReduced, 1)
	keptSizes := n.Op("where", nil, selected, one, sizes).WithSizes(tensor.Int64, rank)
	reducedSizes := n.Op("where", nil, selected, sizes, one).WithSizes(tensor.Int64, rank)
	matrixShape := n.Op("cat", nil, n.Reshape(product(n, keptSizes), 1),
		n.Reshape(product(n, reducedSizes), 1)).WithSizes(tensor.Int64, 2)
	matrix := reshapeBy(n, n.Op("permute", graph.Attrs{"dims": n.IntsAttr(order)}, x).WithRank(rank), matrixShape)
	const isPointwiseOnly = false
	y := reduceBy(n, kind, matrix, reduction{axes: []int{1}, rank: 1}, isPointwiseOnly)
	if keepDims {
		return reshapeBy(n, y, keptSizes)
	}
	kept := n.Op("nonzero", nil, n.Op("ne", nil, isReduced, 1)).WithSizes(tensor.Int64, -1, 1)
	return reshapeBy(n, y, n.Op("index_select", graph.Attrs{"dim": 0}, sizes,
		n.Reshape(kept, -1)).WithType(tensor.Int64, 1))
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
			index = n.Op("remainder", nil, index, n.Op("clamp_min", graph.Attrs{"min": 1}, size))
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
