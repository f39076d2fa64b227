package conv

import (
	"errors"
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// DeformConv2d is torchvision's deform_conv2d: a convolution whose taps, the elements of the window, are shifted by
// offsets. For example, for stride 1 and no padding, tap (1, 2) of pixel (5, 6) of the result is at row 5+1+dy and
// column 6+2+dx of the image, with the offsets dy and dx of this tap and pixel. Channels of an offset group share
// offsets.
var DeformConv2d = kit.Define[*deformConvAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "deform_conv2d",
		Doc: "Convolves images with windows whose elements are shifted: `input` [n, c, h, w], `weight` [o, " +
			"c/groups, kh, kw], `offset` [n, offset_groups*kh*kw*2, oh, ow] and `bias` [o] give [n, o, oh, ow], " +
			"the size that conv2d has. Each element of each window is sampled bilinearly at its position plus its " +
			"offset (y, then x). Pixels outside the image are zeros. `mask` [n, offset_groups*kh*kw, oh, ow] " +
			"scales the samples. The result is row-major.",
		Params: []graph.Param{kit.Input, kit.Weight, {Name: "offset"}, {Name: "mask", Optional: true}, kit.OptBias},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			resultType, err := kit.Attrs[*deformConvAttrs](c).result(c)
			return c.NewResult(resultType), err
		},
		Ref: deformRef,
		Examples: []graph.Example{
			{In: []tensor.Meta{kit.F32(2, 3, 5, 6), kit.F32(4, 3, 3, 3), kit.F32(2, 18, 3, 4), kit.F32(2, 9, 3, 4), kit.F32(4)}},
			{In: []tensor.Meta{kit.NHWC(1, 4, 5, 6), kit.F32(2, 2, 3, 2), kit.F32(1, 24, 3, 3)},
				Attrs: graph.Attrs{"groups": 2, "offset_groups": 2, "stride": 2, "padding": []int{1, 0}}},
		},
	},
	Facts: graph.Facts{
		Parallel:          kit.BatchLoopForRank(4, 0, 2, 3), // over the images of input, offset and mask, all of rank 4
		FixedLayoutReason: "products write plane after plane",
		Flops:             deformFlops,
	},
	Lowerings: graph.Lowerings{Compile: compileDeform},
})

// deformFlops counts the operations of the samples and of the products.
func deformFlops(c *graph.Call) float64 {
	outMeta, weightMeta := c.Out[0], c.Meta(1)
	if outMeta.Numel() == 0 {
		return 0
	}
	// A channel has a sample for each tap of each pixel of the result. A sample takes four products and four sums.
	samples := float64(outMeta.Numel() / weightMeta.Shape[0] * weightMeta.Shape[2] * weightMeta.Shape[3])
	return float64(2*samples*float64(weightMeta.Shape[0]*weightMeta.Shape[1])) +
		float64(8*samples*float64(c.Meta(0).Shape[1]))
}

// result returns the type of the result. It makes the checks of torchvision's deform_conv2d_forward_kernel, in the same
// order. The operands input and weight have the indices 0 and 1; deformOffset, deformMask and deformBias are the
// indices of the other operands.
func (a *deformConvAttrs) result(call *graph.Call) (tensor.Type, error) {
	input, weight := call.Type(0), call.Type(1)
	if err := checkDeformRanks(call); err != nil {
		return input, err
	}
	if err := a.checkWindow(weight); err != nil {
		return input, err
	}
	if err := a.checkChannels(call); err != nil {
		return input, err
	}
	outHeight, outWidth := a.outSize(input, weight)
	if err := checkDeformSizes(call, outHeight, outWidth); err != nil {
		return input, err
	}
	dtype, err := a.resultDType(call)
	if err != nil {
		return input, err
	}
	return kit.FreshType(dtype, []sym.Int{input.Shape[0], weight.Shape[0], outHeight, outWidth})
}

// checkDeformRanks checks that all operands but the bias have rank 4.
func checkDeformRanks(call *graph.Call) error {
	switch {
	case call.Type(0).Rank() != 4:
		return expectedError("input_c.ndimension() == 4")
	case call.Type(deformOffset).Rank() != 4:
		return expectedError("offset_c.ndimension() == 4")
	case call.HasOperand(deformMask) && call.Type(deformMask).Rank() != 4:
		return expectedError("!use_mask || mask_c.ndimension() == 4")
	case call.Type(1).Rank() != 4:
		return expectedError("weight_c.ndimension() == 4")
	}
	return nil
}

// expectedError returns torchvision's error for a condition that does not hold.
func expectedError(condition string) error {
	return errors.New("Expected " + condition + " to be true, but got false.")
}

// checkWindow checks the size of the window, the stride, the padding and the dilation.
func (a *deformConvAttrs) checkWindow(weight tensor.Type) error {
	checkAtLeast := func(least int, name string, pair []sym.Int) error {
		if !kit.SizeAtLeast(pair[0], least) || !kit.SizeAtLeast(pair[1], least) {
			return fmt.Errorf("%s_h: %v %s_w: %v", name, pair[0], name, pair[1])
		}
		return nil
	}
	if err := checkAtLeast(1, "weight", weight.Shape[2:]); err != nil {
		return err
	}
	if err := checkAtLeast(1, "stride", sym.Ints(a.Stride...)); err != nil {
		return err
	}
	if err := checkAtLeast(0, "pad", sym.Ints(a.Padding...)); err != nil {
		return err
	}
	return checkAtLeast(1, "dilation", sym.Ints(a.Dilation...))
}

// checkChannels checks the groups, and the numbers of channels of all operands but the bias.
func (a *deformConvAttrs) checkChannels(call *graph.Call) error {
	input, weight, offset, mask := call.Type(0), call.Type(1), call.Type(deformOffset), call.Type(deformMask)
	taps := weight.Shape[2].Mul(weight.Shape[3]).Mul(sym.Of(a.OffsetGroups)) // of all offset groups
	offsets := taps.Mul(sym.Of(2))                                           // dy and dx of each tap
	switch {
	case a.Groups < 1 || a.OffsetGroups < 1:
		// PyTorch divides by the groups without a check.
		return errors.New("non-positive groups is not supported")
	case weight.Shape[1].Mul(sym.Of(a.Groups)).Ne(input.Shape[1]).Holds():
		return expectedError("weight_c.size(1) * n_weight_grps == input_c.size(1)")
	case !kit.SizeIs(weight.Shape[0].Mod(sym.Of(a.Groups)), 0):
		return expectedError("weight_c.size(0) % n_weight_grps == 0")
	case offset.Shape[1].Ne(offsets).Holds():
		return fmt.Errorf("offset.shape[1] is not valid: got: %v expected: %v", offset.Shape[1], offsets)
	case call.HasOperand(deformMask) && mask.Shape[1].Ne(taps).Holds():
		return fmt.Errorf("mask.shape[1] is not valid: got: %v expected: %v", mask.Shape[1], taps)
	case !kit.SizeIs(input.Shape[1].Mod(sym.Of(a.OffsetGroups)), 0):
		return expectedError("input_c.size(1) % n_offset_grps == 0")
	}
	return nil
}

// outSize returns the height and width of the result.
func (a *deformConvAttrs) outSize(input, weight tensor.Type) (outHeight, outWidth sym.Int) {
	resultSize := func(axis int) sym.Int {
		// The window has windowSpan + 1 rows or columns. The last window starts at lastStart in the padded image.
		windowSpan := kit.BoundedSizeProduct(weight.Shape[2+axis].Sub(sym.Of(1)), sym.Of(a.Dilation[axis]))
		lastStart := input.Shape[2+axis].Sub(windowSpan).Add(sym.Of(2*a.Padding[axis] - 1))
		return divTruncated(lastStart, a.Stride[axis]).Add(sym.Of(1))
	}
	return resultSize(0), resultSize(1)
}

// divTruncated divides by a positive number and truncates, as C does.
func divTruncated(dividend sym.Int, divisor int) sym.Int {
	if kit.IsNegative(dividend) {
		return dividend.Neg().Div(sym.Of(divisor)).Neg()
	}
	return dividend.Div(sym.Of(divisor))
}

// checkDeformSizes checks that offset and mask have the batch size of the input, and the height and width of the
// result. It also checks that the height and width of the result are positive.
func checkDeformSizes(call *graph.Call, outHeight, outWidth sym.Int) error {
	images := call.Type(0).Shape[0]
	for i, name := range []string{deformOffset: "offset", deformMask: "mask"} { // indexed by operand
		if name == "" || !call.HasOperand(i) {
			continue
		}
		shape := call.Type(i).Shape
		if shape[0].Ne(images).Holds() {
			return errors.New("invalid batch size of " + name)
		}
		if shape[2].Ne(outHeight).Or(shape[3].Ne(outWidth)).Holds() {
			return fmt.Errorf("%s output dims: (%v, %v) - computed output dims: (%v, %v)", name, shape[2], shape[3],
				outHeight, outWidth)
		}
	}
	if outHeight.Le(sym.Int{}).Or(outWidth.Le(sym.Int{})).Holds() {
		return fmt.Errorf("Calculated output size too small - out_h: %v out_w: %v", outHeight, outWidth)
	}
	return nil
}

// resultDType checks dtypes and returns the dtype of the result. As in PyTorch, dtypes are not checked for an empty
// batch, and a bias of another dtype is promoted as in add.
func (a *deformConvAttrs) resultDType(call *graph.Call) (tensor.DType, error) {
	dtype, weight := call.Type(0).DType, call.Type(1)
	if kit.SizeIs(call.Type(0).Shape[0], 0) {
		return dtype, nil
	}
	if !dtype.IsFloat() || dtype == tensor.BFloat16 {
		return dtype, kit.NotImplementedBy("deformable_im2col", dtype)
	}
	for i := deformOffset; i <= deformMask; i++ {
		if operandDType := call.Type(i).DType; call.HasOperand(i) && operandDType != dtype {
			return dtype, fmt.Errorf("expected scalar type %s but found %s", dtype.TorchName(), operandDType.TorchName())
		}
	}
	switch {
	case weight.DType != dtype:
		return dtype, errors.New("mat1 and mat2 must have the same dtype")
	case dtype == tensor.Float16:
		return dtype, kit.NotImplementedBy("addmm_impl_cpu_", dtype)
	case !call.HasOperand(deformBias):
		return dtype, nil
	}
	biasType := call.Type(deformBias)
	if biasType.Numel().Ne(weight.Shape[0]).Holds() {
		return dtype, fmt.Errorf("shape '[1, %v, 1, 1]' is invalid for input of size %v", weight.Shape[0], biasType.Numel())
	}
	return tensor.Promote(dtype, biasType.DType)
}

// deformRef is the reference implementation.
func deformRef(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	attrs := kit.Attrs[*deformConvAttrs](c)
	resultType, err := attrs.result(c)
	meta := kit.KnownMeta(resultType)
	if err != nil || meta.Numel() == 0 {
		return []*tensor.Tensor{tensor.Zeros(meta.DType, meta.Shape...)}, err
	}
	for len(in) <= deformBias {
		in = append(in, nil)
	}
	bias := in[deformBias]
	if bias != nil {
		bias = bias.CopyTo(tensor.New(bias.DType, bias.Numel())) // as a vector; attrs.result accepts any shape
	}
	out := tensor.Zeros(meta.DType, meta.Shape...)
	kit.EachIndex(meta.Shape, func(index []int) {
		sum, outChannel := attrs.sumOfWindow(in, index), index[1]
		switch {
		case bias == nil:
			out.Set(tensor.FloatScalar(sum), index...)
		case meta.DType.IsComplex():
			out.Set(tensor.ComplexScalar(complex(sum, 0)+bias.At(outChannel).Complex()), index...)
		default:
			out.Set(tensor.FloatScalar(sum+bias.At(outChannel).Float()), index...)
		}
	})
	return []*tensor.Tensor{out}, nil
}

// sumOfWindow returns the result at an index, without the bias: the sum of all samples of the window, each multiplied
// by its mask and its weight.
func (a *deformConvAttrs) sumOfWindow(in []*tensor.Tensor, index []int) float64 {
	input, weight, offset, mask := in[0], in[1], in[deformOffset], in[deformMask]
	image, outChannel, outRow, outCol := index[0], index[1], index[2], index[3]
	weightWidth, taps, outPerGroup := weight.Shape[3], weight.Shape[2]*weight.Shape[3], weight.Shape[0]/a.Groups
	sum := 0.0
	kit.EachIndex(weight.Shape[1:], func(term []int) {
		channelInGroup, kh, kw := term[0], term[1], term[2]
		channel := outChannel/outPerGroup*weight.Shape[1] + channelInGroup
		tap := channel/(input.Shape[1]/a.OffsetGroups)*taps + kh*weightWidth + kw // counted over all offset groups
		row := shiftCoordinate(input.DType, outRow*a.Stride[0]-a.Padding[0]+kh*a.Dilation[0],
			offset.At(image, 2*tap, outRow, outCol).Float())
		col := shiftCoordinate(input.DType, outCol*a.Stride[1]-a.Padding[1]+kw*a.Dilation[1],
			offset.At(image, 2*tap+1, outRow, outCol).Float())
		sample := bilinearSample(input, image, channel, row, col)
		if mask != nil {
			sample *= mask.At(image, tap, outRow, outCol).Float()
		}
		sum += float64(sample * weight.At(outChannel, channelInGroup, kh, kw).Float())
	})
	return sum
}

// shiftCoordinate returns index + offset, rounded to the dtype.
func shiftCoordinate(dtype tensor.DType, index int, offset float64) float64 {
	if dtype == tensor.Float32 {
		return float64(float32(index) + float32(offset))
	}
	return float64(index) + offset
}

// bilinearSample returns the bilinear sample of a channel at a position. Pixels outside the image are 0.
func bilinearSample(input *tensor.Tensor, image, channel int, row, col float64) float64 {
	if row != row || col != col {
		return math.NaN()
	}
	sample := 0.0
	for _, corner := range [][2]float64{{0, 0}, {0, 1}, {1, 0}, {1, 1}} { // the four pixels around the position
		pixelRow, pixelCol := math.Floor(row)+corner[0], math.Floor(col)+corner[1]
		if pixelRow >= 0 && pixelRow < float64(input.Shape[2]) && pixelCol >= 0 && pixelCol < float64(input.Shape[3]) {
			sample += float64((1 - math.Abs(row-pixelRow)) * (1 - math.Abs(col-pixelCol)) * input.At(image, channel,
				int(pixelRow), int(pixelCol)).Float())
		}
	}
	return sample
}
