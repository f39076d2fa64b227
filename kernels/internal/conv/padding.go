package conv

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// The strings that aten's convolutions accept as padding (overloads such as conv2d.padding).
const (
	paddingSame  = "same"
	paddingValid = "valid"
)

// wordPadding returns the padding for a word: the padding before each dimension, followed by the padding after each
// dimension. The total for "same" is dilation*(size-1); if it is odd, the padding after the dimension is larger by 1.
// The padding is 0 for "valid", and for calls that checkPaddingWord rejects.
func wordPadding(word string, weight tensor.Type, dilation []int, dims int) []sym.Int {
	padding := make([]sym.Int, 2*dims)
	if word != paddingSame || weight.Rank() != dims+2 || len(dilation) != dims {
		return padding
	}
	for d := range dims {
		total := kit.BoundedSizeProduct(sym.Of(dilation[d]), weight.Shape[2+d].Sub(sym.Of(1)))
		if kit.KnownSize(total) >= kit.MaxProduct {
			continue // checkWindow rejects the window
		}
		padding[d] = total.Div(sym.Of(2))
		padding[dims+d] = total.Sub(padding[d])
	}
	return padding
}

// checkPaddingWord makes the checks of aten's _convolution_mode and _convolution_same. PyTorch makes them before it
// computes the padding.
func (params convParams) checkPaddingWord(input, weight tensor.Type) error {
	if params.paddingWord != paddingSame {
		return nil
	}
	dims := weight.Rank() - 2
	switch {
	case dims < 1:
		return errors.New("weight should have at least three dimensions")
	case input.Rank() != weight.Rank():
		return fmt.Errorf("Expected %d-dimensional input for %d-dimensional weight%s, but got %d-dimensional input of "+
			"size %s instead", weight.Rank(), weight.Rank(), tensor.Sizes(weight.Shape), input.Rank(), tensor.Sizes(input.Shape))
	case len(params.stride) != dims:
		return fmt.Errorf("stride cannot broadcast to %d dimensions", dims)
	case len(params.dilation) != dims:
		return fmt.Errorf("dilation cannot broadcast to %d dimensions", dims)
	case slices.ContainsFunc(params.stride, func(s int) bool { return s != 1 }):
		return errors.New("padding='same' is not supported for strided convolutions")
	}
	return nil
}

// withSymmetricPadding mirrors _convolution_same. If the padding after a dimension is larger than the padding before
// it, PyTorch pads a copy of the input there, and then uses equal padding on both sides. The function returns
// the type of this copy and the parameters for convolving it. Both determine the layout of the result. The kernels read
// the original input.
func (params convParams) withSymmetricPadding(input tensor.Type) (convParams, tensor.Type, error) {
	if params.paddingWord != paddingSame || tensor.SameSizes(params.padding, params.paddingAfter) {
		return params, input, nil
	}
	shape := slices.Clone(input.Shape)
	for d, begin := range params.padding {
		shape[2+d] = shape[2+d].Add(params.paddingAfter[d]).Sub(begin)
	}
	params.paddingAfter = params.padding
	input, err := tensor.NewTypeFormat(input.DType, shape, input.SuggestMemoryFormat(false))
	return params, input, err
}
