package operators

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts operators that reduce dimensions or accumulate along one: Reduce operators, ArgMax, CumSum and
// TopK. A Reduce operator is an optional pointwise op, a reducing op and another optional pointwise op. For example,
// ReduceL2 is mul(x, x), sum and sqrt.
//
// A value is a tensor of the model, and node.Op adds an op to the graph. WithRank records the rank of a result whose
// shape depends on data.

// reduction has the parameters of a Reduce operator.
type reduction struct {
	// The reduced dimensions: a sorted []int, or the attribute for computed dimensions (IntsAttr). nil stands for all.
	axes     any
	keepDims bool // whether the result keeps the reduced dimensions, with size 1
	rank     int  // rank of the result, if it is known
}

// reductionOf returns the parameters of a Reduce operator on x. The axes are operand 1 from operator set operandSince
// on, and an attribute in earlier sets. If the axes are missing or empty, all dimensions are reduced. With the
// attribute noop_with_empty_axes, no dimension is reduced in this case, and isPointwiseOnly is true.
func reductionOf(n *node, x *value, operandSince int) (params reduction, isPointwiseOnly bool) {
	params.keepDims = n.Flag("keepdims", true)
	axes, hasAxes := n.Ints("axes")
	if n.Opset >= operandSince {
		axes, hasAxes = nil, false
		axesOperand := n.OperandOrNil(1)
		isComputed := axesOperand != nil && axesOperand.Data() == nil
		isEmpty := axesOperand != nil && n.IsStatic(axesOperand) && axesOperand.Meta().Numel() == 0
		switch {
		case axesOperand == nil || isComputed && isEmpty: // no axes: hasAxes remains false
		case isComputed && n.IsStatic(axesOperand): // computed axes of known number
			params.axes, params.rank = n.IntsAttr(axesOperand), n.Rank(x)
			if !params.keepDims {
				params.rank -= axesOperand.Meta().Numel()
			}
			return params, false
		default: // constant axes; ConstantInts rejects computed axes of unknown number
			axes, hasAxes = n.ConstantInts(1), true
		}
	}
	if !hasAxes || len(axes) == 0 {
		if n.Flag("noop_with_empty_axes", false) {
			return params, true
		}
		if !x.HasRank() && !params.keepDims {
			return params, false // all dimensions, to a result of rank 0
		}
		axes = make([]int, n.Rank(x))
		for i := range axes {
			axes[i] = i
		}
	}
	axes = n.AxisSet(axes, n.Rank(x)) // reduceProduct visits them from the last
	params.axes, params.rank = axes, n.Rank(x)
	if !params.keepDims {
		params.rank -= len(axes)
	}
	return params, false
}

// attrs returns the attributes keepdim and dim of a reducing op.
func (r reduction) attrs() graph.Attrs {
	attrs := graph.Attrs{"keepdim": r.keepDims}
	if r.axes != nil {
		attrs["dim"] = r.axes
	}
	return attrs
}

// reduce returns the converter of a Reduce operator. kind names the reduction, as in [reduceBy]. The axes are an
// operand since operator set 13 for ReduceSum, and since 18 for the other operators.
func reduce(kind string) converter {
	return func(n *node) []*value {
		operandSince := 18
		if kind == "sum" {
			operandSince = 13
		}
		x := n.Operand(0)
		params, isPointwiseOnly := reductionOf(n, x, operandSince)
		y := reduceBy(n, kind, x, params, isPointwiseOnly)
		if y.IsDynamic() {
			y.WithRank(params.rank)
		}
		return single(y)
	}
}

// reduceBy applies a reduction and the pointwise ops of the operator: l1 is sum(|x|), l2 is sqrt(sum(x²)), sumsquare is
// sum(x²), logsum is log(sum(x)), logsumexp is log(sum(exp(x))); any other kind is a reducing op. If isPointwiseOnly is
// true, it applies the pointwise ops alone.
func reduceBy(n *node, kind string, x *value, params reduction, isPointwiseOnly bool) *value {
	reduced := func(op string, x *value) *value {
		switch {
		case isPointwiseOnly:
			return x
		case op == "prod":
			return reduceProduct(n, x, params)
		}
		return reduceOp(n, op, x, params)
	}
	switch kind {
	case "l1":
		return reduced("sum", n.Op("abs", nil, x))
	case "l2":
		return n.Cast(n.Op("sqrt", nil, reduced("sum", n.Op("mul", nil, x, x))), x.DType())
	case "sumsquare":
		return reduced("sum", n.Op("mul", nil, x, x))
	case "logsum":
		return n.Cast(n.Op("log", nil, reduced("sum", x)), x.DType())
	case "logsumexp":
		if isPointwiseOnly {
			return x // log(exp(x))
		}
		dtype := x.DType()
		if !dtype.IsFloat() {
			x = n.Cast(x, tensor.Float64)
		}
		return n.Cast(reduced("logsumexp", x), dtype)
	}
	return reduced(kind, x)
}

// reduceOp applies a reducing op. The result has the dtype of x. Dtypes that the op does not support are converted.
func reduceOp(n *node, op string, x *value, params reduction) *value {
	dtype := x.DType()
	if axes, ok := params.axes.([]int); ok && len(axes) == 0 {
		return x // x has no dimensions
	}
	attrs := params.attrs()
	switch {
	case op == "sum" && dtype.IsIntegral(true): // integers or bool, which the op would sum to an int64
		attrs["dtype"] = dtype
	case op == "mean" && !dtype.IsFloat() && !dtype.IsComplex():
		return n.Cast(n.Op("mean", attrs, n.Cast(x, tensor.Float64)), dtype)
	case op == "amax" || op == "amin":
		if n.IsStatic(x) && x.Meta().Numel() == 0 {
			return emptyExtremum(n, op, x, params)
		}
		if dtype.IsBareUnsigned() { // the op does not support uint16, uint32 and uint64: compare int64s in the same order
			y := n.Op(op, attrs, n.Cast(orderedInt64(n, x), tensor.Int64))
			return n.Cast(undoOrderedInt64(n, y, dtype), dtype)
		}
	}
	return n.Op(op, attrs, x)
}

// emptyExtremum returns the extremum over no elements: the least number of the dtype for amax, the greatest for amin.
func emptyExtremum(n *node, op string, x *value, params reduction) *value {
	axes, ok := params.axes.([]int)
	if !ok {
		n.Failf("axes of a value without elements must be known before the graph runs")
	}
	var shape []int
	for i, size := range x.Meta().Shape {
		switch {
		case !slices.Contains(axes, i):
			shape = append(shape, size)
		case params.keepDims:
			shape = append(shape, 1)
		}
	}
	return n.Op("full", graph.Attrs{"size": shape, "fill_value": extremeNumber(x.DType(), op == "amin"),
		"dtype": x.DType()})
}

// extremeNumber returns the greatest or the least number of a dtype, for an attribute: an infinite float, or an int
// with the bits of the number.
func extremeNumber(dtype tensor.DType, greatest bool) any {
	if dtype.IsFloat() {
		if greatest {
			return math.Inf(1)
		}
		return math.Inf(-1)
	}
	bits := 8 * dtype.Size()
	switch {
	case dtype == tensor.Bool && greatest:
		return 1
	case !dtype.IsSigned() && !greatest || dtype == tensor.Bool:
		return 0
	case dtype == tensor.Uint64:
		return -1 // all bits set
	case !dtype.IsSigned():
		return int64(1)<<bits - 1
	case greatest:
		return int64(1)<<(bits-1) - 1
	}
	return int64(-1) << (bits - 1)
}

// reduceProduct multiplies over one dimension after another, because the op prod reduces only one dimension. It starts
// with the last dimension, so that the indices of the others stay valid.
func reduceProduct(n *node, x *value, params reduction) *value {
	dtype := x.DType()
	multiply := func(axis any, keepDim bool) {
		attrs := graph.Attrs{"dim": axis, "keepdim": keepDim}
		if dtype.IsIntegral(true) {
			attrs["dtype"] = dtype
		}
		x = n.Op("prod", attrs, x)
	}
	if axes, ok := params.axes.([]int); ok {
		for _, axis := range slices.Backward(axes) {
			multiply(axis, params.keepDims)
		}
		return x
	}
	axes := n.Operand(1)
	for i := range axes.Meta().Numel() {
		const keepDim = true // so that the indices of the other axes stay valid
		multiply(n.IntAttr(n.Element(axes, i)), keepDim)
	}
	if !params.keepDims {
		x = n.Op("squeeze", graph.Attrs{"dim": params.axes}, x)
	}
	return x
}

// argExtremum returns the converter of ArgMax or ArgMin. With select_last_index, it searches the flipped operand: the
// index is size-1 minus the index found there.
func argExtremum(op string) converter {
	return func(n *node) []*value {
		x := n.Operand(0)
		keepDim := n.Flag("keepdims", true)
		rank := n.Rank(x)
		axis := n.Axis(n.Int("axis", 0), rank)
		attrs := graph.Attrs{"dim": axis, "keepdim": keepDim}
		if x.DType().IsBareUnsigned() {
			x = n.Cast(orderedInt64(n, x), tensor.Int64)
		}
		if !keepDim {
			rank--
		}
		if !n.Flag("select_last_index", false) {
			return single(n.Op(op, attrs, x).WithRank(rank))
		}
		y := n.Op(op, attrs, n.Op("flip", graph.Attrs{"dims": []int{axis}}, x)).WithRank(rank)
		size := n.Op("select", graph.Attrs{"dim": 0, "index": axis}, n.ShapeVector(x)).WithRank(0)
		return single(n.Op("sub", nil, n.Op("sub", nil, size, 1), y))
	}
}

// cumulative returns the converter of CumSum or CumProd. neutral is the neutral element, which an exclusive result
// starts with.
func cumulative(op string, neutral int) converter {
	return func(n *node) []*value {
		x, axisOperand := n.Operand(0), n.Operand(1)
		if n.LengthOf(axisOperand) != 1 {
			n.Failf("want one axis")
		}
		axis := n.IntAttr(axisOperand)
		attrs := graph.Attrs{"dim": axis}
		if x.DType().IsIntegral(true) {
			attrs["dtype"] = x.DType()
		}
		isReversed := n.Flag("reverse", false)
		flip := func(x *value) *value {
			if !isReversed {
				return x
			}
			return n.Op("flip", graph.Attrs{"dims": axis}, x)
		}
		y := flip(x)
		if n.Flag("exclusive", false) {
			y = shiftedBy1(n, y, axis, neutral)
		}
		return single(flip(n.Op(op, attrs, y)))
	}
}

// shiftedBy1 moves each element to the next index of the axis, which is an int or a reference to a computed axis. The
// last element is dropped, and the first becomes the number `first`.
func shiftedBy1(n *node, x *value, axis any, first int) *value {
	if knownAxis, ok := axis.(int); ok {
		knownAxis = n.Axis(knownAxis, n.Rank(x))
		// The pairs of constant_pad_nd begin with the last dimension and end with the axis. Along the axis, one element
		// is added at the start and one is dropped at the end.
		widths := make([]int, 2*(n.Rank(x)-knownAxis))
		widths[len(widths)-2], widths[len(widths)-1] = 1, -1
		return n.Op("constant_pad_nd", graph.Attrs{"pad": widths, "value": first}, x)
	}
	// The index along a computed axis is the cumulative sum of ones, minus one.
	y := n.Op("roll", graph.Attrs{"shifts": 1, "dims": axis}, x)
	ones := n.Op("ones_like", graph.Attrs{"dtype": tensor.Int64}, x)
	isFirst := n.Op("eq", nil, n.Op("cumsum", graph.Attrs{"dim": axis}, ones), 1)
	return n.Op("masked_fill", nil, y, isFirst, first)
}

// topK converts TopK. Unsigned integers are compared as int64.
func topK(n *node) []*value {
	x := n.Operand(0)
	attrs := graph.Attrs{"dim": n.Int("axis", -1), "largest": n.Flag("largest", true), "sorted": true}
	if n.Opset < 10 {
		attrs["k"] = n.Int("k", 0)
	} else {
		attrs["k"] = n.IntAttr(n.Operand(1))
	}
	if !x.DType().IsBareUnsigned() {
		return n.Ops("topk", attrs, x)
	}
	out := n.Ops("topk", attrs, n.Cast(orderedInt64(n, x), tensor.Int64))
	out[0] = n.Cast(undoOrderedInt64(n, out[0], x.DType()), x.DType())
	return out
}

// lpNormalization converts LpNormalization: x divided by its p-norm along an axis.
func lpNormalization(n *node) []*value {
	x := n.Operand(0)
	attrs := graph.Attrs{"ord": float64(n.Int("p", 2)), "dim": []int{n.Int("axis", -1)}, "keepdim": true}
	norm := n.Op("linalg_vector_norm", attrs, x)
	return single(n.Op("masked_fill", nil, n.Op("div", nil, x, norm), n.Op("eq", nil, norm, 0), 0)) // 0/0 is 0
}
