package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// The reference implementations of convolutions and transposed convolutions compute each element of the result by its
// definition: a sum of products of an input element and a weight. A tap is an element of the window. Each product takes
// a pair of an input element and a tap in each spatial dimension ([tapPair]), and an input channel.
//
// For example, a convolution of 6 elements by a window of 3 taps with stride 2 and no padding has these pairs (element,
// tap) for element 1 of the result: (2, 0), (3, 1) and (4, 2). The element is input[2]*weight[0] + input[3]*weight[1] +
// input[4]*weight[2].

// tapPair is the part of a product in one spatial dimension: the index of an input element, and the index of the tap
// that multiplies it.
type tapPair struct{ element, tap int }

// ref is the reference implementation of an ordinary convolution.
func (op convolution) ref(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	resultType, err := op.result(c)
	if err != nil {
		return nil, err
	}
	meta, params, weightShape := kit.KnownMeta(resultType), op.params(c), in[1].Shape
	inPerGroup, outPerGroup := weightShape[1], weightShape[0]/params.groups
	axes := newAxes(in[0].Shape, meta.Shape, weightShape[2:], params.stride, kit.KnownSizes(params.padding),
		params.dilation)
	return reference(meta, in, inPerGroup, axes, pairsOfAxis, func(outChannel, k int) (channel, row, column int) {
		return outChannel/outPerGroup*inPerGroup + k, outChannel, k
	})
}

// pairsOfAxis returns the pairs of an ordinary convolution along an axis, for each index of the result.
func pairsOfAxis(axis *geometry.Axis) [][]tapPair {
	pairs := make([][]tapPair, axis.Results)
	for i := range pairs {
		first, end := axis.TapsOf(i) // the taps inside the input
		for tap := first; tap < end; tap++ {
			pairs[i] = append(pairs[i], tapPair{axis.Position(i, tap), tap})
		}
	}
	return pairs
}

// reference computes a result with the given meta from the operands: input, weight and optionally bias. Each element is
// the sum of its products over inPerGroup input channels, plus the bias.
//
// axes has an axis for each spatial dimension. pairsOf returns the pairs along an axis, for each index of the result.
// channelsOf returns the k-th input channel that an output channel reads. It also returns row and column: the indices
// of this pair of channels in the first two dimensions of the weight.
func reference(meta tensor.Meta, in []*tensor.Tensor, inPerGroup int, axes []geometry.Axis,
	pairsOf func(axis *geometry.Axis) [][]tapPair, channelsOf func(outChannel, k int) (channel, row, column int),
) ([]*tensor.Tensor, error) {
	out := tensor.Zeros(meta.DType, meta.Shape...)
	if out.Numel() == 0 { // an empty result may have axes of any size
		return []*tensor.Tensor{out}, nil
	}
	pairs := make([][][]tapPair, len(axes))
	for d := range axes {
		pairs[d] = pairsOf(&axes[d])
	}
	input, weight := kit.ProductOperandOf(meta.DType, in[0]), kit.ProductOperandOf(meta.DType, in[1])
	channelDim := input.Rank() - len(axes) - 1 // 1 if there is a batch, else 0
	kit.EachIndex(meta.Shape, func(index []int) {
		sum := kit.Accumulator{DType: meta.DType}
		imageStart := input.Offset
		if channelDim > 0 {
			imageStart += index[0] * input.Strides[0]
		}
		for k := range inPerGroup {
			channel, row, column := channelsOf(index[channelDim], k)
			addProducts(&sum, input, weight, imageStart+channel*input.Strides[channelDim],
				weight.Offset+row*weight.Strides[0]+column*weight.Strides[1], pairs, index[channelDim+1:])
		}
		if len(in) > 2 && in[2] != nil {
			sum.Add(in[2].At(index[channelDim]))
		}
		out.Set(sum.Value(), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// addProducts adds the products of one element of the result and one input channel to a sum. resultIndex is the index
// of the element in the spatial dimensions. pairs[d][i] has the pairs along spatial dimension d for index i of the
// result. inputStart is the index in input's storage of the channel's first element. weightStart is the index in
// weight's storage of the window's first tap.
//
// The function adds over the first spatial dimension, and calls itself for the other dimensions. The spatial dimensions
// are the last len(pairs) dimensions of input and weight.
func addProducts(sum *kit.Accumulator, input, weight *kit.ProductOperand, inputStart, weightStart int,
	pairs [][][]tapPair, resultIndex []int) {
	dims := len(pairs)
	inputStride, weightStride := input.Strides[input.Rank()-dims], weight.Strides[weight.Rank()-dims]
	for _, pair := range pairs[0][resultIndex[0]] {
		inputIndex, weightIndex := inputStart+pair.element*inputStride, weightStart+pair.tap*weightStride
		if dims == 1 {
			sum.AddProductAt(input, inputIndex, weight, weightIndex)
		} else {
			addProducts(sum, input, weight, inputIndex, weightIndex, pairs[1:], resultIndex[1:])
		}
	}
}
