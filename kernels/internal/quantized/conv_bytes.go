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

// This file computes quantized convolutions as byte convolutions ([conv.ConvBytes]), which multiply bytes by an int8
// weight and add the products in int32. If the weight minus its zero points fits int8, the byte convolution also scales
// the sums. Otherwise separate nodes correct the sums ([byteConvolver.correctedSums]) and then scale them. A
// quantBuilder (builder.go) adds nodes.

// Arguments of functions that take an operand or one of its dimensions.
const (
	xOperand         = 0
	weightChannelDim = 0 // the dimension of the output channels in the weight
	resultChannelDim = 1 // the dimension of the output channels in the result
	anyDim           = 0 // for scales and zero points with one element
)

type quantConvAttrs struct {
	Stride   []int `attr:"stride" default:"1" doc:"steps of the window"`
	Padding  []int `attr:"padding" default:"0" doc:"number of zero points around the input, for each dimension, or first for all beginnings and then for all ends"`
	Dilation []int `attr:"dilation" default:"1" doc:"distance between the elements of the window"`
	Groups   int   `attr:"groups" default:"1" doc:"number of groups of channels that are convolved separately"`
}

// quantConv describes a quantized convolution op. Its methods check calls of the op and decompose them. A quantized
// value is an integer q that stands for the number (q - zero point) * scale. "Bytes" are quantized values of dtype int8
// or uint8. "Sums" are the int32 sums of products of bytes.
type quantConv struct {
	name         string
	weight       int  // index of the weight
	xZero, wZero int  // indices of the operands that have the zero points of the input and of the weight
	isScaled     bool // whether the op scales the sums and quantizes them to bytes; otherwise the result is int32
}

// usesBytes reports whether a quantized convolution is computed as a byte convolution. This requires two-dimensional
// windows, a constant weight, and shapes that have machine code. The int32 sums, with the bias, must not wrap. If the
// weight minus its zero points does not fit int8, there must be a single group, or one group for each channel.
func (q *quantConv) usesBytes(call *graph.Call) bool {
	weight := call.Meta(q.weight)
	isConv2d, isConstant := weight.Rank() == 4, call.Const(q.weight) != nil
	if !isConv2d || !isConstant || tensor.Numel(weight.Shape[1:]) > maxTerms ||
		!zeroPointHasOperandDType(call, xOperand, q.xZero) {
		return false
	}
	if q.isScaled && call.HasOperand(biasOperand) && !magnitudesAtMost(call.Const(biasOperand), math.MaxInt32/2) {
		return false
	}
	weightFits, groups := q.weightFitsInt8(call), kit.Attrs[*quantConvAttrs](call).Groups
	isDepthwise := groups == weight.Shape[0] && weight.Shape[1] == 1 // each channel is a group
	if !weightFits && groups > 1 && !isDepthwise {
		return false
	}
	_, floatCall, err := q.floatCall(call, tensor.Float32)
	if err != nil {
		return false
	}
	floatCall.Out = call.Out
	if !weightFits {
		floatCall.Out = []tensor.Meta{call.Out[0].WithDType(tensor.Int32)}
	}
	_, isSupported := conv.InBytes(floatCall, call.Type(0).DType, tensor.Int8)
	return isSupported
}

// weightFitsInt8 reports whether the constant weight minus its zero points fits int8. It returns false if the zero
// points are unknown.
func (q *quantConv) weightFitsInt8(c *graph.Call) bool {
	weight, zeroPoints := c.Const(q.weight), c.Const(q.wZero)
	if c.HasOperand(q.wZero) && zeroPoints == nil {
		return false
	}
	fits := true
	kit.EachIndex(weight.Shape, func(index []int) {
		difference := weight.At(index...).Float()
		if zeroPoints != nil {
			difference -= kit.ElementAlong(zeroPoints, index, weightChannelDim)
		}
		fits = fits && difference >= math.MinInt8 && difference <= math.MaxInt8
	})
	return fits
}

// bytesConv adds the nodes that compute the op by a byte convolution, and returns the result.
func (builder quantBuilder) bytesConv(q *quantConv) graph.Arg {
	const f32 = tensor.Float32
	call, outputs := builder.Call, builder.Call.Meta(q.weight).Shape[0] // outputs: number of output channels
	weightFits := q.weightFitsInt8(call)
	convolver := byteConvolver{quantBuilder: builder}
	if q.isScaled && weightFits {
		convolver.scale, convolver.resultZero = builder.combinedScale(outputs), builder.scalar(resultZeroOperand)
	}
	bias := builder.full(0, tensor.Int32, outputs)
	if q.isScaled && call.HasOperand(biasOperand) {
		bias = call.In[biasOperand]
	}
	convolver.xZero = builder.full(0, call.Meta(0).DType)
	if call.HasOperand(q.xZero) {
		convolver.xZero = builder.scalar(q.xZero)
	}
	if weightFits {
		return convolver.convolve(builder.int8Weight(q), bias)
	}
	sums := convolver.correctedSums(q, bias)
	if !q.isScaled {
		return sums
	}
	return builder.requantize(sums, builder.vector(xScaleOperand, anyDim, imageRank, f32),
		builder.vector(wScaleOperand, resultChannelDim, imageRank, f32))
}

// byteConvolver adds byte convolutions of the call's input. It holds the operands that all these convolutions share.
type byteConvolver struct {
	quantBuilder
	scale, resultZero graph.Arg // null if the results are the int32 sums
	xZero             graph.Arg // zero point of the input
}

// convolve adds a byte convolution with the given weight and bias, and returns its result.
func (b *byteConvolver) convolve(weight, bias graph.Arg) graph.Arg {
	attrs := kit.Attrs[*quantConvAttrs](b.Call)
	in := []graph.Arg{b.Call.In[0], weight, bias, b.scale, b.xZero}
	if b.resultZero.Kind != graph.Null {
		in = append(in, b.resultZero)
	}
	return b.Add(conv.ConvBytes, graph.Attrs{"stride": attrs.Stride, "padding": attrs.Padding,
		"dilation": attrs.Dilation, "groups": attrs.Groups}, in...)
}

// full returns a constant tensor of equal elements.
func (builder quantBuilder) full(value int, dtype tensor.DType, size ...int) graph.Arg {
	return builder.Add(view.Full, graph.Attrs{"size": append([]int{}, size...), "fill_value": value, "dtype": dtype})
}

// scalar returns an operand with one element as a 0-dim value.
func (builder quantBuilder) scalar(operand int) graph.Arg {
	const dim, rank = 0, 0
	return builder.BroadcastAlong(builder.Call.In[operand], dim, rank)
}

// imageRank is the number of dimensions [n, c, h, w] of images.
const imageRank = 4

// combinedScale returns the factors by which the sums of each output channel are multiplied: input scale * weight scale
// / result scale.
func (builder quantBuilder) combinedScale(outputs int) graph.Arg {
	// vector returns scales as a vector of float32.
	vector := func(scales int) graph.Arg {
		const dim, rank = 0, 1
		return builder.vector(scales, dim, rank, tensor.Float32)
	}
	scale := builder.Add(pointwise.Mul, nil, vector(xScaleOperand), vector(wScaleOperand))
	scale = builder.Add(pointwise.Div, nil, scale, vector(resultScaleOperand))
	return builder.Add(view.Expand, graph.Attrs{"size": []int{outputs}}, scale)
}

// int8Weight returns the weight minus its zero points as int8. The differences must fit int8. They are exact in
// float32.
func (builder quantBuilder) int8Weight(q *quantConv) graph.Arg {
	weight := builder.Call.In[q.weight]
	if builder.Call.HasOperand(q.wZero) && !magnitudesAtMost(builder.Call.Const(q.wZero), 0) {
		weight = builder.minusZeroPoint(q.weight, q.wZero, weightChannelDim, tensor.Float32)
	}
	return builder.Convert(tensor.Int8, weight)
}

// correctedSums returns the sums for a weight that does not fit int8 after the subtraction of its zero points. It
// convolves with the weight as it is. From each sum it subtracts the zero point of the weight times the sum of the
// inputs in the window:
//
//	sum of x * (w - zero) = sum of x * w - zero * sum of x
//
// An additional output channel with weights of 1 computes the sum of the inputs. If each channel is a group, a
// second convolution computes this sum.
//
// The byte convolution takes only int8 weights. 128 is thus subtracted from a uint8 weight and from its zero point.
func (b *byteConvolver) correctedSums(q *quantConv, bias graph.Arg) graph.Arg {
	const f32, i32 = tensor.Float32, tensor.Int32
	meta := b.Call.Meta(q.weight)
	weight, offset := b.Call.In[q.weight], 0.0 // offset is subtracted from the weight
	if meta.DType == tensor.Uint8 {
		offset = 1 << 7
		weight = b.Convert(tensor.Int8, b.Add(pointwise.Sub, nil, b.Convert(f32, weight), compose.Number(offset)))
	}
	zeroPoint := b.full(-int(offset), i32, 1)
	if b.Call.HasOperand(q.wZero) {
		zeroPoint = b.Convert(i32, b.Add(pointwise.Sub, nil, b.vector(q.wZero, resultChannelDim, imageRank, f32),
			compose.Number(offset)))
	}
	groups, outputs := kit.Attrs[*quantConvAttrs](b.Call).Groups, meta.Shape[0]
	ones := b.full(1, tensor.Int8, append([]int{groups}, meta.Shape[1:]...)...)
	zeroBias := b.full(0, i32, groups)
	var sums, inputSums graph.Arg // inputSums are the sums of the inputs in the windows
	if groups > 1 {
		sums, inputSums = b.convolve(weight, bias), b.convolve(ones, zeroBias)
	} else {
		alongOutputs := graph.Attrs{"dim": 0}
		allSums := b.convolve(b.Add(view.Cat, alongOutputs, weight, ones),
			b.Add(view.Cat, alongOutputs, bias, zeroBias))
		channels := func(start, length int) graph.Arg {
			return b.Add(view.Narrow, graph.Attrs{"dim": 1, "start": start, "length": length}, allSums)
		}
		sums, inputSums = channels(0, outputs), channels(outputs, 1)
	}
	return b.Add(pointwise.Sub, nil, sums, b.Add(pointwise.Mul, nil, inputSums, zeroPoint))
}
