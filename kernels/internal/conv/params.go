package conv

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// convParams has the attributes of a convolution, ordinary or transposed.
type convParams struct {
	stride, dilation      []int
	padding, paddingAfter []sym.Int // padding before each dimension, and after each dimension
	outputPadding         []int     // output_padding of a transposed convolution; nil for an ordinary convolution
	groups                int
	paddingWord           string // padding if it is given as a word, "same" or "valid"; else empty
}

// newConvParams returns attributes in which single numbers are repeated for all dimensions. A padding of 2*dims numbers
// has the padding before each dimension, followed by the padding after each dimension. ONNX needs this form. PyTorch
// does not have it.
func newConvParams(call *graph.Call, dims int, stride []int, padding graph.IntsOrWord, dilation []int,
	groups int) convParams {
	params := convParams{stride: perDim(stride, dims), groups: groups, paddingWord: padding.Word}
	// No code modifies the lists, so dilation may share the list of stride.
	if params.dilation = params.stride; !slices.Equal(dilation, stride) {
		params.dilation = perDim(dilation, dims)
	}
	amounts := padding.Ints
	if params.paddingWord != "" {
		amounts = wordPadding(params.paddingWord, call.Type(1), params.dilation, dims)
	}
	if len(amounts) == 2*dims {
		params.padding, params.paddingAfter = amounts[:dims], amounts[dims:]
	} else {
		params.padding = perDim(amounts, dims)
		params.paddingAfter = params.padding
	}
	return params
}

// perDim repeats a single number n times, as PyTorch does for int[2]. It returns other lists unchanged.
func perDim[T any](list []T, n int) []T {
	if len(list) != 1 {
		return list
	}
	out := make([]T, n)
	for i := range out {
		out[i] = list[0]
	}
	return out
}

// convolution describes a convolution op over dims spatial dimensions.
type convolution struct {
	name   string
	dims   int
	params func(c *graph.Call) convParams // returns the attributes of a call
}

// ref computes the result by its definition, with the function [reference].
func (op convolution) ref(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	resultType, err := op.result(c)
	if err != nil {
		return nil, err
	}
	meta, params, weightShape := kit.KnownMeta(resultType), op.params(c), in[1].Shape
	inPerGroup, outPerGroup := weightShape[1], weightShape[0]/params.groups
	axes := newAxes(in[0].Shape, meta.Shape, weightShape[2:], params.stride, kit.KnownSizes(params.padding),
		params.dilation)
	return reference(meta, in, inPerGroup, axes, func(a *geometry.Axis) [][]tapPair {
		pairs := make([][]tapPair, a.Results)
		for o := range pairs {
			first, end := a.TapsOf(o)
			for k := first; k < end; k++ {
				pairs[o] = append(pairs[o], tapPair{a.Position(o, k), k})
			}
		}
		return pairs
	}, func(o, k int) (channel, row, column int) { return o/outPerGroup*inPerGroup + k, o, k })
}

// reference computes a result with the given meta, by definition: each element is a sum of products over inPerGroup
// input channels, plus the bias in[2] if it is given.
//
// pairsOf lists the products along one axis, for each index of the result. channelsOf returns the k-th input channel
// that output channel o reads, and the first two indices of the weight, row and column, for this pair of channels.
func reference(meta tensor.Meta, in []*tensor.Tensor, inPerGroup int, axes []geometry.Axis,
	pairsOf func(a *geometry.Axis) [][]tapPair, channelsOf func(o, k int) (channel, row, column int)) ([]*tensor.Tensor,
	error) {
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

// tapPair is a product along one spatial dimension: the index of an input element, and the index of the tap that
// multiplies it.
type tapPair struct{ element, tap int }

// addProducts adds the products of one element of the result and one input channel to a sum. resultIndex is the index
// of the element in the spatial dimensions, which are the last len(pairs) dimensions of the result, input and weight.
// pairs[d][i] lists the products along spatial dimension d for index i of the result. inputStart is the storage index
// of the channel's first element, and weightStart that of the window's first tap.
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

// maxProductBytes bounds the intermediate results, in bytes. They are the products of a transposed convolution before
// they are summed, or the samples of a deformable convolution before they are multiplied.
const maxProductBytes = 32 << 20
