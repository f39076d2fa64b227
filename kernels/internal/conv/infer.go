package conv

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file infers the types of convolutions, with PyTorch's checks and messages. Method result makes the checks in
// PyTorch's order, computes the shape, and then chooses the memory format (infer_format.go). For example, a
// channels-last input of 1x3x224x224 and a weight of 64x3x7x7 with stride 2 and padding 3 give a channels-last result
// of 1x64x112x112. Operands 0, 1 and 2 are the input, the weight and the optional bias. A padding word is "same" or
// "valid", in place of numbers.

// infer checks a call and determines the type of its result as at::convolution does.
func (op convolution) infer(c *graph.Call) ([]graph.Result, error) {
	t, err := op.result(c)
	if err != nil {
		return nil, err
	}
	return c.NewResult(t), nil
}

// result checks a call and returns the type of its result.
func (op convolution) result(call *graph.Call) (tensor.Type, error) {
	params, input, weight := op.params(call), call.Type(0), call.Type(1)
	if rank := input.Rank(); rank != op.dims+1 && rank != op.dims+2 {
		return input, fmt.Errorf("Expected %dD (unbatched) or %dD (batched) input to %s, but got input of size: %s",
			op.dims+1, op.dims+2, op.name, tensor.Sizes(input.Shape))
	}
	isUnbatched := input.Rank() == op.dims+1
	if isUnbatched {
		var err error
		if input, err = input.Unsqueeze(0); err != nil {
			return input, err
		}
	}
	if err := params.checkPaddingWord(input, weight); err != nil {
		return input, err
	}
	// PyTorch checks the bias of images first, but only if the padding is not a word.
	if op.dims == 2 && params.paddingWord == "" {
		if err := checkBiasDType(call, input); err != nil {
			return input, err
		}
	}
	// If the word "same" needs more padding after a dimension than before it, the input is first padded there.
	params, input, err := params.withSymmetricPadding(input)
	if err != nil {
		return input, err
	}
	if err := params.check(call, input, weight); err != nil {
		return input, err
	}
	shape := params.outShape(input, weight)
	if err := tensor.CheckSizes(input.DType, shape); err != nil {
		return input, err
	}
	out, err := params.batchedResultType(call, input, weight, shape)
	switch {
	case err != nil:
		return input, err
	case isUnbatched:
		return out.Squeeze(0)
	}
	return out, out.Check()
}

// checkBiasDType rejects a bias whose dtype differs from the input's.
func checkBiasDType(c *graph.Call, input tensor.Type) error {
	if bias := c.Type(2); c.HasOperand(2) && bias.DType != input.DType {
		return fmt.Errorf("Input type (%s) and bias type (%s) should be the same", kit.CppName(input.DType),
			kit.CppName(bias.DType))
	}
	return nil
}

// check mirrors aten's check_shape_forward.
func (params convParams) check(c *graph.Call, input, weight tensor.Type) error {
	if err := params.checkShapes(input.Shape, weight); err != nil {
		return err
	}
	if channels := weight.Shape[1].Mul(sym.Of(params.groups)); input.Shape[1].Ne(channels).Holds() {
		return fmt.Errorf("Given groups=%d, weight of size %s, expected input%s to have %v channels, but got %v "+
			"channels instead", params.groups, tensor.Sizes(weight.Shape), tensor.Sizes(input.Shape), channels, input.Shape[1])
	}
	if bias := c.Type(2); c.HasOperand(2) && (bias.Rank() != 1 || bias.Shape[0].Ne(weight.Shape[0]).Holds()) {
		return fmt.Errorf("Given weight of size %s, expected bias to be 1-dimensional with %v elements, but got bias of "+
			"size %s instead", tensor.Sizes(weight.Shape), weight.Shape[0], tensor.Sizes(bias.Shape))
	}
	return params.checkWindow(input, weight)
}

// checkShapes makes the checks of aten's check_shape_forward that ordinary and transposed convolutions share. shape is
// the shape of the input with a batch dimension.
func (params convParams) checkShapes(shape []sym.Int, weight tensor.Type) error {
	dims := weight.Rank() - 2
	if dims < 1 {
		return errors.New("weight should have at least three dimensions")
	}
	if params.groups <= 0 {
		return errors.New("non-positive groups is not supported")
	}
	checkLength := func(name string, length int, text func() string) error {
		if length == dims || length == 1 {
			return nil
		}
		return fmt.Errorf("expected %s to be a single integer value or a list of %d values to match the convolution "+
			"dimensions, but got %s=%s", name, dims, name, text())
	}
	if err := cmp.Or(
		checkLength("stride", len(params.stride), func() string { return tensor.ListString(params.stride) }),
		checkLength("padding", len(params.padding), func() string { return tensor.Sizes(params.padding) }),
		checkLength("dilation", len(params.dilation),
			func() string { return tensor.ListString(params.dilation) })); err != nil {
		return err
	}
	if params.outputPadding != nil {
		text := func() string { return tensor.ListString(params.outputPadding) }
		if err := checkLength("output_padding", len(params.outputPadding), text); err != nil {
			return err
		}
	}
	return params.checkValues(shape, weight)
}

// checkValues checks the values of the attributes, and the ranks and groups, after checkShapes has checked the lengths
// of the attributes. Only transposed convolutions have an outputPadding.
func (params convParams) checkValues(shape []sym.Int, weight tensor.Type) error {
	hasBelow := func(list []int, least int) bool {
		return slices.ContainsFunc(list, func(n int) bool { return n < least })
	}
	switch groups := sym.Of(params.groups); {
	case slices.ContainsFunc(params.padding, kit.IsNegative) || slices.ContainsFunc(params.paddingAfter, kit.IsNegative):
		return errors.New("negative padding is not supported")
	case hasBelow(params.outputPadding, 0):
		return errors.New("negative output_padding is not supported")
	case hasBelow(params.stride, 1):
		return errors.New("non-positive stride is not supported")
	case params.outputPadding == nil && hasBelow(params.dilation, 1):
		return fmt.Errorf("dilation should be greater than zero, but got %s", tensor.ListString(params.dilation))
	case len(shape) != weight.Rank():
		return fmt.Errorf("Expected %d-dimensional input for %d-dimensional weight %s, but got %d-dimensional input of "+
			"size %s instead", weight.Rank(), weight.Rank(), tensor.Sizes(weight.Shape), len(shape), tensor.Sizes(shape))
	case weight.Shape[0].Lt(groups).Holds():
		return fmt.Errorf("Given groups=%d, expected weight to be at least %d at dimension 0, but got weight of "+
			"size %s instead", params.groups, params.groups, tensor.Sizes(weight.Shape))
	case !kit.SizeIs(weight.Shape[0].Mod(groups), 0):
		return fmt.Errorf("Given groups=%d, expected weight to be divisible by %d at dimension 0, but got weight of size "+
			"[%s] instead", params.groups, params.groups, tensor.Sizes(weight.Shape))
	}
	return nil
}

// checkWindow rejects a window larger than the padded image.
func (params convParams) checkWindow(input, weight tensor.Type) error {
	fits := sym.BoolOf(true)
	for d := range len(params.stride) {
		least := params.windowExtent(weight, d)
		if params.hasONNXPadding { // for no windows
			least = least.Sub(sym.Of(params.stride[d]))
		}
		fits = fits.And(params.paddedSize(input, d).Ge(least))
	}
	if !fits.Holds() {
		var paddedSizes, windowSizes []string
		for d := range len(params.stride) {
			paddedSizes = append(paddedSizes, params.paddedSize(input, d).String())
			windowSizes = append(windowSizes, params.windowExtent(weight, d).String())
		}
		return fmt.Errorf("Calculated padded input size per channel: (%s). Kernel size: (%s). Kernel size can't be greater "+
			"than actual input size", strings.Join(paddedSizes, " x "), strings.Join(windowSizes, " x "))
	}
	for d := range len(params.stride) {
		switch {
		case !params.hasONNXPadding && kit.SizeIs(input.Shape[2+d], 0) && !kit.SizeIs(input.Shape[0], 0) &&
			!kit.SizeIs(input.Shape[1], 0):
			return fmt.Errorf("Only zero batch or zero channel inputs are supported, but got input shape: %s",
				tensor.Sizes(input.Shape))
		case kit.SizeIs(weight.Shape[2+d], 0):
			return fmt.Errorf("kernel size should be greater than zero, but got weight of size %s", tensor.Sizes(weight.Shape))
		}
	}
	return nil
}

// paddedSize returns the size of an input dimension with its padding.
func (params convParams) paddedSize(input tensor.Type, d int) sym.Int {
	return input.Shape[2+d].Add(params.padding[d].Add(params.paddingAfter[d]))
}

// windowExtent returns the distance from the first tap to the last tap of a window, plus 1.
func (params convParams) windowExtent(weight tensor.Type, d int) sym.Int {
	return kit.BoundedSizeProduct(sym.Of(params.dilation[d]), weight.Shape[2+d].Sub(sym.Of(1))).Add(sym.Of(1))
}

// outShape returns the shape [n, o, ...] of the result. If the input has no channels, o is 0 (calc_output_size).
func (params convParams) outShape(input, weight tensor.Type) []sym.Int {
	shape := make([]sym.Int, 2, 2+len(params.stride))
	shape[0], shape[1] = input.Shape[0], weight.Shape[0]
	if kit.SizeIs(input.Shape[1], 0) {
		shape[1] = sym.Int{}
	}
	for d := range len(params.stride) {
		lastStart := params.paddedSize(input, d).Sub(params.windowExtent(weight, d)) // greatest start of a window
		shape = append(shape, lastStart.Div(sym.Of(params.stride[d])).Add(sym.Of(1)))
	}
	return shape
}

// batchedResultType returns the type of a result of the given shape. PyTorch checks dtypes only if the input has images
// and channels.
func (params convParams) batchedResultType(call *graph.Call, input, weight tensor.Type, shape []sym.Int) (tensor.Type,
	error) {
	switch {
	case !kit.SizeIs(input.Shape[0], 0) && !kit.SizeIs(input.Shape[1], 0):
		if err := params.checkDTypes(call, input, weight); err != nil {
			return input, err
		}
		return params.nonEmptyResultType(input, weight, shape), nil
	case tensor.SameSizes(shape, input.Shape):
		return emptyResultType(input), nil
	}
	return tensor.NewType(input.DType, shape...), nil
}

// checkDTypes rejects dtypes that no CPU kernel of PyTorch accepts, and weights and biases whose dtype differs from the
// input's. The message is the message of the kernel that PyTorch would choose.
func (params convParams) checkDTypes(call *graph.Call, input, weight tensor.Type) error {
	dtype, weightMatches := input.DType, input.DType == weight.DType
	biasMatches := !call.HasOperand(2) || call.Type(2).DType == dtype
	switch {
	case !weightMatches && dtype.IsComplex():
		return fmt.Errorf("Input type (%s) and weight type (%s) should be the same", legacyName(dtype),
			legacyName(weight.DType))
	case !biasMatches && dtype.IsComplex():
		return fmt.Errorf("Input type (%s) and bias type (%s) should be the same", legacyName(dtype),
			legacyName(call.Type(2).DType))
	case !weightMatches && params.usesMKLDNN(input, weight):
		return fmt.Errorf("Input type (%s) and weight type (%s) should be the same or input should be a MKLDNN tensor and "+
			"weight is a dense tensor", legacyName(dtype), legacyName(weight.DType))
	case !biasMatches && params.usesMKLDNN(input, weight):
		return fmt.Errorf("Input type (%s) and bias type (%s) should be the same or input should be a MKLDNN tensor and "+
			"bias is a dense tensor", legacyName(dtype), legacyName(call.Type(2).DType))
	case params.isDilated() && !(dtype.IsFloat() || dtype.IsComplex() || dtype == tensor.Int64):
		return fmt.Errorf("\"slow_conv_dilated<>\" not implemented for '%s'", dtype.TorchName())
	case (dtype == tensor.Bool || dtype.IsBareUnsigned()) && len(params.stride) == 3:
		return fmt.Errorf("\"compute_columns3d\" not implemented for '%s'", dtype.TorchName())
	case dtype == tensor.Bool || dtype.IsBareUnsigned():
		return fmt.Errorf("\"slow_conv2d_cpu\" not implemented for '%s'", dtype.TorchName())
	case !weightMatches:
		return fmt.Errorf("expected scalar type %s but found %s", dtype.TorchName(), weight.DType.TorchName())
	}
	return nil
}

// isDilated reports whether a dilation is not 1.
func (params convParams) isDilated() bool {
	for _, d := range params.dilation {
		if d != 1 {
			return true
		}
	}
	return false
}

// legacyName returns the name of PyTorch's legacy tensor type of a dtype. PyTorch's convolution errors contain such
// names.
func legacyName(dtype tensor.DType) string {
	if dtype == tensor.Bool || dtype == tensor.BFloat16 || dtype.IsComplex() {
		return "CPU" + dtype.TorchName() + "Type"
	}
	return "torch." + dtype.TorchName() + "Tensor"
}
