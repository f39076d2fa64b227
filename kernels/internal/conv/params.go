package conv

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
)

// convolution describes a convolution op over dims spatial dimensions: 1 for sequences, 2 for images, 3 for volumes.
type convolution struct {
	name   string
	dims   int
	params func(c *graph.Call) convParams // returns the attributes of a call
}

// convParams has the attributes of a call of a convolution, ordinary or transposed. A list has a number for each
// spatial dimension. For example, a conv2d call with stride 2, padding [1, 0], dilation 1 and groups 4 has stride [2
// 2], padding [1 0], paddingAfter [1 0], dilation [1 1] and groups 4.
type convParams struct {
	stride, dilation []int
	padding          []sym.Int // padding before the first element of each dimension
	paddingAfter     []sym.Int // padding after the last element of each dimension
	paddingWord      string    // padding if it is given as a word, "same" or "valid"; else empty
	outputPadding    []int     // output_padding of a transposed convolution; nil for an ordinary convolution
	groups           int       // number of groups of channels
	hasONNXPadding   bool      // padding is given before and after each dimension: sizes of 0 and no windows are accepted
}

// newConvParams returns the attributes of an ordinary convolution. The given lists have one number for all dimensions,
// or a number for each dimension. padding may also have 2*dims numbers, as in ONNX: the padding before each dimension,
// followed by the padding after each dimension.
func newConvParams(call *graph.Call, dims int, stride []int, padding graph.IntsOrWord, dilation []int,
	groups int) convParams {
	params := convParams{stride: perDim(stride, dims), groups: groups, paddingWord: padding.Word}
	// An equal dilation shares the list of stride, which saves an allocation. No code modifies the lists.
	if params.dilation = params.stride; !slices.Equal(dilation, stride) {
		params.dilation = perDim(dilation, dims)
	}
	amounts := padding.Ints
	if params.paddingWord != "" {
		// 2*dims numbers, as ONNX's padding
		amounts = wordPadding(params.paddingWord, call.Type(1), params.dilation, dims) // operand 1 is the weight
	}
	if len(amounts) == 2*dims {
		params.padding, params.paddingAfter = amounts[:dims], amounts[dims:]
		params.hasONNXPadding = params.paddingWord == ""
	} else {
		params.padding = perDim(amounts, dims)
		params.paddingAfter = params.padding
	}
	return params
}

// perDim returns a list of one number with the number repeated n times, and other lists unchanged. Inference rejects a
// list whose length is neither 1 nor n.
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
