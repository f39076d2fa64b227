package operators

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/onnx/internal/symbolic"
	"github.com/graphrun/graphrun/sym"
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
		isEmpty := axesOperand != nil && n.IsStatic(axesOperand) && axesOperand.Meta().Numel() == 0
		switch {
		case axesOperand == nil || isEmpty: // no axes: hasAxes remains false
		case axesOperand.Data() == nil: // computed axes of known number: see reduce
			params.axes, params.rank = n.IntsAttr(axesOperand), n.Rank(x)
			if !params.keepDims {
				params.rank -= n.LengthOf(axesOperand)
			}
			return params, false
		default:
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
		if n.Opset >= operandSince && n.HasOperand(1) {
			// The ops take one computed axis, except prod, which takes a number. Several axes may be equal.
			axes := n.Operand(1)
			if count := n.LengthOf(axes); axes.Data() == nil && (count < 0 || count > 1 || count > 0 && kind == "prod") {
				return single(reduceComputed(n, kind, x, axes, n.Flag("keepdims", true)))
			}
		}
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
	dtype := x.DType()
	asFloat := func() *value { // integers would overflow before the square root or the logarithm
		if dtype.IsFloat() {
			return x
		}
		return n.Cast(x, tensor.Float64)
	}
	switch kind {
	case "l1":
		return reduced("sum", n.Op("abs", nil, x))
	case "l2":
		if isPointwiseOnly {
			return n.Op("abs", nil, x) // sqrt(x²)
		}
		x := asFloat()
		return n.Cast(n.Op("sqrt", nil, reduced("sum", n.Op("mul", nil, x, x))), dtype)
	case "sumsquare":
		return reduced("sum", n.Op("mul", nil, x, x))
	case "logsum":
		return n.Cast(n.Op("log", nil, reduced("sum", asFloat())), dtype)
	case "logsumexp":
		if isPointwiseOnly {
			return x // log(exp(x))
		}
		return n.Cast(reduced("logsumexp", asFloat()), dtype)
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
		if dtype == tensor.Int64 || dtype == tensor.Uint64 {
			return integerMean(n, x, params)
		}
		return n.Cast(n.Op("mean", attrs, n.Cast(x, tensor.Float64)), dtype)
	case op == "amax" || op == "amin":
		acceptEmpty(n, attrs, x)
		if dtype.IsBareUnsigned() { // the op does not support uint16, uint32 and uint64: compare int64s in the same order
			y := n.Op(op, attrs, n.Cast(orderedInt64(n, x), tensor.Int64))
			return n.Cast(undoOrderedInt64(n, y, dtype), dtype)
		}
	}
	return n.Op(op, attrs, x)
}

// integerMean returns the mean of integers, rounded towards 0, by integer arithmetic: float64 would round elements.
func integerMean(n *node, x *value, params reduction) *value {
	dtype := x.DType()
	var count any // of the elements of a mean; 1 if there are none
	axes, areKnown := params.axes.([]int)
	if sizes := n.TrySymShape(x); areKnown && sizes != nil {
		elements := sym.Of(1)
		for _, axis := range axes {
			elements = elements.Mul(sizes[axis])
		}
		count = n.SizeOperand(elements.Max(sym.Of(1)))
	} else {
		reduced := n.ShapeVector(x)
		switch {
		case areKnown:
			reduced = n.Op("index", nil, reduced, convert.IntVector(axes...))
		case params.axes != nil: // computed axes
			reduced = n.Op("index", nil, reduced, n.Operand(1))
		}
		count = n.Op("clamp_min", graph.Attrs{"min": 1}, n.Op("prod", nil, reduced))
	}
	if computed, ok := count.(*value); ok {
		count = n.Cast(computed, dtype)
	}
	divide := func(x *value, rounding string) *value {
		return n.Op("div", graph.Attrs{"rounding_mode": rounding}, x, count)
	}
	// With x = quotient*count + rest, the mean is the sum of the quotients plus the sum of the rests divided by count.
	// Neither sum overflows.
	quotients := reduceOp(n, "sum", divide(x, "trunc"), params)
	rests := reduceOp(n, "sum", n.Op("fmod", nil, x, count), params)
	floor := n.Op("add", nil, quotients, divide(rests, "floor"))
	if dtype == tensor.Uint64 {
		return floor
	}
	isRounded := n.Op("ne", nil, n.Op("remainder", nil, rests, count), 0)
	wasNegative := n.Op("logical_and", nil, n.Op("lt", nil, floor, 0), isRounded)
	return n.Op("add", nil, floor, n.Cast(wasNegative, dtype))
}

// acceptEmpty sets the attribute of amax and amin with which they reduce no elements, unless x has elements.
func acceptEmpty(n *node, attrs graph.Attrs, x *value) {
	if mayBeEmpty(n.TrySymShape(x)...) {
		attrs["accept_empty"] = true
	}
}

// mayBeEmpty reports whether a size may be 0.
func mayBeEmpty(sizes ...sym.Int) bool {
	return slices.ContainsFunc(sizes, func(size sym.Int) bool { return !symbolic.Positive(size) })
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
	axes, _ := params.axes.([]int) // reduce calls reduceComputed for computed axes
	for _, axis := range slices.Backward(axes) {
		multiply(axis, params.keepDims)
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
		if count := n.LengthOf(axisOperand); count >= 0 && count != 1 {
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
		// is added at the start. The last is dropped afterwards, because there may be none before.
		widths := make([]int, 2*(n.Rank(x)-knownAxis))
		widths[len(widths)-2] = 1
		y := n.Op("constant_pad_nd", graph.Attrs{"pad": widths, "value": first}, x).WithRank(n.Rank(x))
		return n.Op("slice", graph.Attrs{"dim": knownAxis, "start": 0, "end": -1}, y).WithRank(n.Rank(x))
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
	ordered := x
	if x.DType().IsBareUnsigned() {
		ordered = n.Cast(orderedInt64(n, x), tensor.Int64)
	}
	out := n.Ops("topk", attrs, ordered)
	// The op does not infer the types for a k that is computed.
	out[0], out[1] = out[0].WithType(ordered.DType(), n.Rank(x)), out[1].WithType(tensor.Int64, n.Rank(x))
	if ordered != x {
		out[0] = n.Cast(undoOrderedInt64(n, out[0], x.DType()), x.DType())
	}
	return out
}

// lpNormalization converts LpNormalization: x divided by its p-norm along an axis.
func lpNormalization(n *node) []*value {
	x := n.Operand(0)
	attrs := graph.Attrs{"ord": float64(n.Int("p", 2)), "dim": []int{n.Int("axis", -1)}, "keepdim": true}
	norm := n.Op("linalg_vector_norm", attrs, x)
	return single(n.Op("masked_fill", nil, n.Op("div", nil, x, norm), n.Op("eq", nil, norm, 0), 0)) // 0/0 is 0
}
