package onnx

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// reduction has the parameters of a Reduce operator.
type reduction struct {
	axes     any  // the reduced dimensions: a sorted []int, or a graph.Ref to computed dimensions; nil for all dimensions
	keepDims bool // whether the result keeps the reduced dimensions, with size 1
	rank     int  // rank of the result; -1 if unknown
}

// reductionOf returns the parameters of a Reduce operator on x. The axes are an attribute before operator set
// operandSince, and an operand since then. pointwiseOnly is true if no dimension is reduced.
func (n *node) reductionOf(x *val, operandSince int) (r reduction, pointwiseOnly bool) {
	r.keepDims = n.flag("keepdims", true)
	list, hasAxes := n.ints("axes")
	if n.opset >= operandSince {
		list, hasAxes = nil, false
		if a := n.operandOrNil(1); a != nil && a.data == nil && n.isStatic(a) && a.meta().Numel() > 0 {
			r.axes = n.vectorAttr(a)
			r.rank = n.rank(x)
			if !r.keepDims {
				r.rank -= a.meta().Numel()
			}
			return r, false
		} else if a != nil && (a.data != nil || !n.isStatic(a) || a.meta().Numel() > 0) {
			list, hasAxes = n.list(1), true
		}
	}
	if !hasAxes || len(list) == 0 {
		if n.flag("noop_with_empty_axes", false) {
			return r, true
		}
		if x.isDynamic() && x.outline.Sizes == nil && !r.keepDims {
			return r, false
		}
		list = make([]int, n.rank(x))
		for i := range list {
			list[i] = i
		}
	}
	list = n.axes(list, n.rank(x))
	sorted.Ints(list)
	r.axes, r.rank = list, n.rank(x)
	if !r.keepDims {
		r.rank -= len(list)
	}
	return r, false
}

func (r reduction) attrs() graph.Attrs {
	a := graph.Attrs{"keepdim": r.keepDims}
	if r.axes != nil {
		a["dim"] = r.axes
	}
	return a
}

// reduce returns the converter of a Reduce operator. kind names the reduction, as in [node.reduceBy].
func reduce(kind string) converter {
	return func(n *node) []*val {
		operandSince := 18
		if kind == "sum" {
			operandSince = 13
		}
		x := n.operand(0)
		r, pointwiseOnly := n.reductionOf(x, operandSince)
		y := n.reduceBy(kind, x, r, pointwiseOnly)
		if y.isDynamic() {
			y.withRank(r.rank)
		}
		return one(y)
	}
}

// reduceBy applies a reduction and the pointwise ops of the operator. If pointwiseOnly is true, it applies the
// pointwise ops alone.
func (n *node) reduceBy(kind string, x *val, r reduction, pointwiseOnly bool) *val {
	over := func(op string, x *val) *val {
		switch {
		case pointwiseOnly:
			return x
		case op == "prod":
			return n.product(x, r)
		}
		return n.reduceOp(op, x, r)
	}
	switch kind {
	case "l1":
		return over("sum", n.op("abs", nil, x))
	case "l2":
		return n.cast(n.op("sqrt", nil, over("sum", n.op("mul", nil, x, x))), x.dtype())
	case "sumsquare":
		return over("sum", n.op("mul", nil, x, x))
	case "logsum":
		return n.cast(n.op("log", nil, over("sum", x)), x.dtype())
	case "logsumexp":
		if pointwiseOnly {
			return x
		}
		dtype := x.dtype()
		if !dtype.IsFloat() {
			x = n.cast(x, tensor.Float64)
		}
		return n.cast(over("logsumexp", x), dtype)
	}
	return over(kind, x)
}

func (n *node) reduceOp(op string, x *val, r reduction) *val {
	dtype := x.dtype()
	if list, ok := r.axes.([]int); ok && len(list) == 0 {
		return x // a 0-dim value
	}
	attrs := r.attrs()
	switch {
	case op == "sum" && dtype.IsIntegral(true):
		attrs["dtype"] = dtype
	case op == "mean" && !dtype.IsFloat() && !dtype.IsComplex():
		return n.cast(n.op("mean", attrs, n.cast(x, tensor.Float64)), dtype)
	case op == "amax" || op == "amin":
		if n.isStatic(x) && x.meta().Numel() == 0 {
			return n.emptyExtremum(op, x, r)
		}
		if dtype.IsBareUnsigned() {
			y := n.op(op, attrs, n.cast(n.orderedInt64(x), tensor.Int64))
			if dtype == tensor.Uint64 {
				y = n.op("bitwise_xor", nil, y, int64(math.MinInt64))
			}
			return n.cast(y, dtype)
		}
	}
	return n.op(op, attrs, x)
}

// emptyExtremum returns the extremum over no elements: the least number of the dtype for amax, the greatest for amin.
func (n *node) emptyExtremum(op string, x *val, r reduction) *val {
	list, ok := r.axes.([]int)
	if !ok {
		n.failf("axes of a value without elements must be known")
	}
	var shape []int
	for i, s := range x.meta().Shape {
		switch {
		case !slices.Contains(list, i):
			shape = append(shape, s)
		case r.keepDims:
			shape = append(shape, 1)
		}
	}
	return n.op("full", graph.Attrs{"size": shape, "fill_value": extremeNumber(x.dtype(), op == "amin"),
		"dtype": x.dtype()})
}

// extremeNumber returns the greatest or the least number of a dtype.
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
		return 1<<bits - 1
	case greatest:
		return 1<<(bits-1) - 1
	}
	return -1 << (bits - 1)
}

// product multiplies over one dimension after another, from the last dimension to the first.
func (n *node) product(x *val, r reduction) *val {
	list, ok := r.axes.([]int)
	if !ok {
		n.failf("axes of ReduceProd must be known before the graph runs")
	}
	dtype := x.dtype()
	for _, a := range slices.Backward(list) {
		attrs := graph.Attrs{"dim": a, "keepdim": r.keepDims}
		if dtype.IsIntegral(true) {
			attrs["dtype"] = dtype
		}
		x = n.op("prod", attrs, x)
	}
	return x
}

func argExtremum(op string) converter {
	return func(n *node) []*val {
		x := n.operand(0)
		keep := n.flag("keepdims", true)
		rank := n.rank(x)
		axis := n.axis(n.int("axis", 0), rank)
		attrs := graph.Attrs{"dim": axis, "keepdim": keep}
		if x.dtype().IsBareUnsigned() {
			x = n.cast(n.orderedInt64(x), tensor.Int64)
		}
		if !keep {
			rank--
		}
		if !n.flag("select_last_index", false) {
			return one(n.op(op, attrs, x).withRank(rank))
		}
		y := n.op(op, attrs, n.op("flip", graph.Attrs{"dims": []int{axis}}, x)).withRank(rank)
		size := n.op("select", graph.Attrs{"dim": 0, "index": axis}, n.shapeVector(x)).withRank(0)
		return one(n.op("sub", nil, n.op("sub", nil, size, 1), y))
	}
}

// cumulative returns the converter of CumSum or CumProd. neutral is the neutral element, which an exclusive result
// starts with.
func cumulative(op string, neutral int) converter {
	return func(n *node) []*val {
		x, axisOperand := n.operand(0), n.operand(1)
		if n.lengthOf(axisOperand) != 1 {
			n.failf("want one axis")
		}
		axis := n.scalarAttr(axisOperand)
		attrs := graph.Attrs{"dim": axis}
		if x.dtype().IsIntegral(true) {
			attrs["dtype"] = x.dtype()
		}
		reverse := n.flag("reverse", false)
		flip := func(x *val) *val {
			if !reverse {
				return x
			}
			return n.op("flip", graph.Attrs{"dims": axis}, x)
		}
		y := flip(x)
		if n.flag("exclusive", false) {
			y = n.shiftedBy1(y, axis, neutral)
		}
		return one(flip(n.op(op, attrs, y)))
	}
}

// shiftedBy1 moves elements to the next index of an axis. The first element becomes a number.
func (n *node) shiftedBy1(x *val, axis any, first int) *val {
	if a, ok := axis.(int); ok {
		a = n.axis(a, n.rank(x))
		widths := make([]int, 2*(n.rank(x)-a))
		widths[len(widths)-2], widths[len(widths)-1] = 1, -1
		return n.op("constant_pad_nd", graph.Attrs{"pad": widths, "value": first}, x)
	}
	y := n.op("roll", graph.Attrs{"shifts": 1, "dims": axis}, x)
	ones := n.op("ones_like", graph.Attrs{"dtype": tensor.Int64}, x)
	isFirst := n.op("eq", nil, n.op("cumsum", graph.Attrs{"dim": axis}, ones), 1)
	return n.op("masked_fill", nil, y, isFirst, first)
}

func topK(n *node) []*val {
	x := n.operand(0)
	attrs := graph.Attrs{"dim": n.int("axis", -1), "largest": n.flag("largest", true), "sorted": true}
	if n.opset < 10 {
		attrs["k"] = n.int("k", 0)
	} else {
		attrs["k"] = n.scalarAttr(n.operand(1))
	}
	if !x.dtype().IsBareUnsigned() {
		return n.ops("topk", attrs, x)
	}
	out := n.ops("topk", attrs, n.cast(n.orderedInt64(x), tensor.Int64))
	if x.dtype() == tensor.Uint64 {
		out[0] = n.op("bitwise_xor", nil, out[0], int64(math.MinInt64))
	}
	out[0] = n.cast(out[0], x.dtype())
	return out
}

func lpNormalization(n *node) []*val {
	x := n.operand(0)
	attrs := graph.Attrs{"ord": float64(n.int("p", 2)), "dim": []int{n.int("axis", -1)}, "keepdim": true}
	return one(n.op("div", nil, x, n.op("linalg_vector_norm", attrs, x)))
}
