package quantized

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/conv"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/tensor"
)

type quantConvAttrs struct {
	Stride   []int `attr:"stride" default:"1" doc:"steps of the window"`
	Padding  []int `attr:"padding" default:"0" doc:"number of zero points around the input, for each dimension, or first for all beginnings and then for all ends"`
	Dilation []int `attr:"dilation" default:"1" doc:"distance between the elements of the window"`
	Groups   int   `attr:"groups" default:"1" doc:"number of groups of channels that are convolved separately"`
}

// quantConv describes a quantized convolution op. Operands are given by their indices.
type quantConv struct {
	name         string
	weight       int  // index of the weight
	xZero, wZero int  // indices of the input's zero points and of the weight's zero points
	scaled       bool // the op scales sums to a byte dtype; otherwise the result is int32
}

// usesBytes reports whether a quantized convolution should be computed as a byte convolution. It must be a convolution
// of images with a constant weight, in shapes that have machine code. If the op scales sums, the sums and the bias must
// be far from the bounds of int32. If the weight minus its zero points does not fit int8, sums of windows are also
// needed (see correctedSums). They are supported only for one group, or if each channel is a group.
func (q *quantConv) usesBytes(call *graph.Call) bool {
	w := call.Meta(q.weight)
	if w.Rank() != 4 || call.Const(q.weight) == nil || tensor.Numel(w.Shape[1:]) > maxTerms ||
		!sameZeroDType(call, 0, q.xZero) {
		return false
	}
	if q.scaled && call.Has(biasOperand) && !magnitudesAtMost(call.Const(biasOperand), math.MaxInt32/2) {
		return false
	}
	fits := q.weightFitsInt8(call)
	if groups := kit.Attrs[quantConvAttrs](call).Groups; !fits && groups > 1 && (groups != w.Shape[0] || w.Shape[1] > 1) {
		return false
	}
	_, floats, err := q.floatCall(call, tensor.Float32)
	if err != nil {
		return false
	}
	floats.Out = call.Out
	if !fits {
		floats.Out = []tensor.Meta{call.Out[0].WithDType(tensor.Int32)}
	}
	_, supported := conv.InBytes(floats, call.Type(0).DType, tensor.Int8)
	return supported
}

// weightFitsInt8 reports whether the constant weight minus its zero points fits int8. It returns false if the zero
// points are unknown.
func (q *quantConv) weightFitsInt8(c *graph.Call) bool {
	w, zero := c.Const(q.weight), c.Const(q.wZero)
	if c.Has(q.wZero) && zero == nil {
		return false
	}
	ok := true
	kit.EachIndex(w.Shape, func(at []int) {
		v := w.At(at...).Float()
		if zero != nil {
			v -= kit.ElementAlong(zero, at, 0)
		}
		ok = ok && v >= math.MinInt8 && v <= math.MaxInt8
	})
	return ok
}

// bytesConv adds a byte convolution that computes the op, and returns the result. The byte convolution also scales the
// sums if the weight minus its zero points fits int8. Otherwise the sums are first corrected and then scaled.
func (builder quantBuilder) bytesConv(q *quantConv) graph.Arg {
	const f = tensor.Float32
	call, n := builder.Call, builder.Call.Meta(q.weight).Shape[0]
	fits := q.weightFitsInt8(call)
	scalar := func(i int) graph.Arg { return builder.BroadcastAlong(call.In[i], 0, 0) }
	var scale, bias, xZero, yZero graph.Arg
	if q.scaled && fits {
		scale = builder.Add(pointwise.Mul, nil, builder.vector(xScaleOperand, 0, 1, f),
			builder.vector(wScaleOperand, 0, 1, f))
		scale = builder.Add(pointwise.Div, nil, scale, builder.vector(resultScaleOperand, 0, 1, f))
		scale = builder.Add(view.Expand, graph.Attrs{"size": []int{n}}, scale)
		yZero = scalar(resultZeroOperand)
	}
	full := func(v int, d tensor.DType, size ...int) graph.Arg {
		return builder.Add(view.Full, graph.Attrs{"size": append([]int{}, size...), "fill_value": v, "dtype": d})
	}
	if bias = full(0, tensor.Int32, n); q.scaled && call.Has(biasOperand) {
		bias = call.In[biasOperand]
	}
	if xZero = full(0, call.Meta(0).DType); call.Has(q.xZero) {
		xZero = scalar(q.xZero)
	}
	convolve := func(w, bias graph.Arg) graph.Arg {
		a := kit.Attrs[quantConvAttrs](call)
		in := []graph.Arg{call.In[0], w, bias, scale, xZero, yZero}
		if yZero.Kind == graph.Null {
			in = in[:5]
		}
		return builder.Add(conv.ConvBytes, graph.Attrs{"stride": a.Stride, "padding": a.Padding, "dilation": a.Dilation,
			"groups": a.Groups}, in...)
	}
	if fits {
		return convolve(builder.int8Weight(q), bias)
	}
	sums := builder.correctedSums(q, bias, convolve)
	if !q.scaled {
		return sums
	}
	return builder.requantize(sums, builder.vector(xScaleOperand, 0, 4, f), builder.vector(wScaleOperand, 1, 4, f))
}

// int8Weight returns the weight minus its zero points as int8. The differences must fit int8. They are exact in
// float32.
func (builder quantBuilder) int8Weight(q *quantConv) graph.Arg {
	w := builder.Call.In[q.weight]
	if builder.Call.Has(q.wZero) && !magnitudesAtMost(builder.Call.Const(q.wZero), 0) {
		w = builder.minusZeroPoint(q.weight, q.wZero, 0, tensor.Float32)
	}
	return builder.Convert(tensor.Int8, w)
}

// correctedSums returns the sums for a weight that does not fit int8 after the subtraction of its zero points. It
// convolves with the weight itself, and subtracts the weight's zero point times the sum of the window's inputs. This
// sum is the result of an additional output channel with weights of 1. If each channel is a group, it is the result of
// a second convolution.
func (builder quantBuilder) correctedSums(q *quantConv, bias graph.Arg,
	convolve func(w, bias graph.Arg) graph.Arg) graph.Arg {
	const f, i32 = tensor.Float32, tensor.Int32
	m := builder.Call.Meta(q.weight)
	w, offset := builder.Call.In[q.weight], 0.0
	if m.DType == tensor.Uint8 {
		offset = 1 << 7
		w = builder.Convert(tensor.Int8, builder.Add(pointwise.Sub, nil, builder.Convert(f, w), compose.Number(offset)))
	}
	zero := builder.Add(view.Full, graph.Attrs{"size": []int{1}, "fill_value": -int(offset), "dtype": i32})
	if builder.Call.Has(q.wZero) {
		zero = builder.Convert(i32, builder.Add(pointwise.Sub, nil, builder.vector(q.wZero, 1, 4, f), compose.Number(offset)))
	}
	groups, n := kit.Attrs[quantConvAttrs](builder.Call).Groups, m.Shape[0]
	ones := builder.Add(view.Full, graph.Attrs{"size": append([]int{groups}, m.Shape[1:]...), "fill_value": 1,
		"dtype": tensor.Int8})
	none := builder.Add(view.Full, graph.Attrs{"size": []int{groups}, "fill_value": 0, "dtype": i32})
	var sums, windows graph.Arg
	if groups > 1 {
		sums, windows = convolve(w, bias), convolve(ones, none)
	} else {
		join := graph.Attrs{"dim": 0}
		all := convolve(builder.Add(view.Cat, join, w, ones), builder.Add(view.Cat, join, bias, none))
		part := func(start, n int) graph.Arg {
			return builder.Add(view.Narrow, graph.Attrs{"dim": 1, "start": start, "length": n}, all)
		}
		sums, windows = part(0, n), part(n, 1)
	}
	return builder.Add(pointwise.Sub, nil, sums, builder.Add(pointwise.Mul, nil, windows, zero))
}
