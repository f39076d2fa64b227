package conv

import (
	"errors"
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type convTransposeAttrs struct {
	Stride        []int `attr:"stride" default:"1" doc:"distance between neighbouring windows in the result"`
	Padding       []int `attr:"padding" default:"0" doc:"number of elements removed at both ends of each dimension"`
	OutputPadding []int `attr:"output_padding" default:"0" doc:"number of elements added at the end of each dimension"`
	Groups        int   `attr:"groups" default:"1" doc:"number of groups into which channels are divided; each group is convolved separately"`
	Dilation      []int `attr:"dilation" default:"1" doc:"distance between the elements of the window"`
}

// Transposed convolutions are gradients of convolutions with respect to their input. An element of the input is added,
// times the weight, to a window of the result. In one dimension, the input [a, b] and the weight [1, 2, 3] with stride
// 2 give
//
//	a, 2a, 3a+b, 2b, 3b
//
// In shapes, n is the number of images, c and o are the numbers of channels of the input and of the result, and k is a
// size of the window.
var (
	ConvTranspose1d = convTransposeOp("conv_transpose1d", 1, "[n, c, l] or [c, l]", "[c, o/groups, k]", "[n, o, ol]",
		"ol = (l-1)*stride - 2*padding + dilation*(k-1) + output_padding + 1")
	ConvTranspose2d = convTransposeOp("conv_transpose2d", 2, "[n, c, h, w] or [c, h, w]", "[c, o/groups, kh, kw]",
		"[n, o, oh, ow]", "oh = (h-1)*stride - 2*padding + dilation*(kh-1) + output_padding + 1")
	ConvTranspose3d = convTransposeOp("conv_transpose3d", 3, "[n, c, d, h, w] or [c, d, h, w]",
		"[c, o/groups, kd, kh, kw]", "[n, o, od, oh, ow]", "od = (d-1)*stride - 2*padding + dilation*(kd-1) + "+
			"output_padding + 1")
)

// convTransposeOp defines a transposed convolution. inputDoc, weightDoc, resultDoc and sizeDoc are parts of the
// documentation: the shapes of input, weight and result, and the formula of a result size.
func convTransposeOp(name string, dims int, inputDoc, weightDoc, resultDoc, sizeDoc string) *graph.Op {
	op := transposedConv{name: name, dims: dims}
	inputShape, weightDims := []int{2, 4, 3, 4, 5}[:2+dims], []int{4, 3, 2, 3, 1}[:2+dims]
	return kit.Define[*convTransposeAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name,
			Doc: "Adds each element of the input, times the weight, to a window of the result: `input` " + inputDoc +
				", `weight` " + weightDoc + " and `bias` [o] give " + resultDoc +
				" with " + sizeDoc + ". The result is row-major.",
			Params: []graph.Param{kit.Input, kit.Weight, kit.OptBias},
			Infer: func(c *graph.Call) ([]graph.Result, error) {
				resultType, err := op.result(c)
				return c.NewResult(resultType), err
			},
			Ref: op.ref,
			Examples: []graph.Example{
				{In: []tensor.Meta{tensor.New(tensor.Float32, inputShape...), tensor.New(tensor.Float32, weightDims...),
					tensor.New(tensor.Float32, 3)}},
				{In: []tensor.Meta{tensor.New(tensor.Float64, inputShape[1:]...), tensor.New(tensor.Float64, weightDims...),
					tensor.New(tensor.Float64, 6)},
					Attrs: graph.Attrs{"groups": 2, "stride": 2, "padding": 1, "output_padding": 1}},
			},
		},
		Facts: graph.Facts{
			Parallel: kit.BatchLoopForRank(dims+2, 0),
			Flops: func(c *graph.Call) float64 {
				weight := c.Meta(1)
				if weight.Numel() == 0 {
					return 0
				}
				return 2 * float64(c.Meta(0).Numel()) * float64(weight.Numel()/weight.Shape[0])
			},
		},
		Lowerings: graph.Lowerings{
			Impls:   op.impls(),
			Rewrite: compose.WidenToFloat32,
		},
	})
}

// impls lists the implementations.
func (op transposedConv) impls() []graph.Impl {
	names := [2]string{"direct_nhwc", "direct_planes"}
	if op.dims == 3 {
		names = [2]string{"direct_ndhwc", "direct_ncdhw"}
	}
	const byPixels, byPlanes = false, true
	return []graph.Impl{
		{Name: "spread", Doc: "Multiplies the weight by the input, and adds the resulting windows to the result.",
			Work: op.work, Lower: op.compile, Pack: op.pack},
		op.directImpl(names[0], "Multiplies pixels in place by the packed weight, one convolution with stride 1 for each "+
			"remainder of positions modulo the stride; channels last.", byPixels),
		op.directImpl(names[1], "Multiplies pixels of planes in place by the packed weight, one convolution with stride 1 "+
			"for each remainder of positions modulo the stride; the result is channels-last.", byPlanes),
	}
}

// params returns the attributes of a call, with a number for each of spatialDims dimensions.
func (op transposedConv) params(c *graph.Call, spatialDims int) convParams {
	a := kit.Attrs[*convTransposeAttrs](c)
	padding := perDim(sym.Ints(a.Padding...), spatialDims)
	return convParams{stride: perDim(a.Stride, spatialDims), padding: padding, paddingAfter: padding,
		dilation: perDim(a.Dilation, spatialDims), outputPadding: perDim(a.OutputPadding, spatialDims),
		groups: a.Groups}
}

// result checks a call and returns the type of its row-major result.
func (op transposedConv) result(call *graph.Call) (tensor.Type, error) {
	input, weight := call.Type(0), call.Type(1)
	if rank := input.Rank(); rank != op.dims+1 && rank != op.dims+2 {
		return input, fmt.Errorf("Expected %dD (unbatched) or %dD (batched) input to %s, but got input of size: %s",
			op.dims+1, op.dims+2, op.name, tensor.Sizes(input.Shape))
	}
	isUnbatched := input.Rank() == op.dims+1
	shape := input.Shape
	if isUnbatched {
		shape = append(sym.Ints(1), shape...)
	}
	// params has a number for each spatial dimension of the weight. op.check rejects a weight of the wrong rank.
	params := op.params(call, max(1, weight.Rank()-2))
	if err := op.check(call, &params, shape); err != nil {
		return input, err
	}
	out := make([]sym.Int, 2, 2+op.dims)
	out[0], out[1] = shape[0], weight.Shape[1].Mul(sym.Of(params.groups))
	for axis := range op.dims {
		strideSpan := kit.BoundedSizeProduct(shape[2+axis].Sub(sym.Of(1)), sym.Of(params.stride[axis]))
		windowSpan := kit.BoundedSizeProduct(weight.Shape[2+axis].Sub(sym.Of(1)), sym.Of(params.dilation[axis]))
		border := params.outputPadding[axis] + 1 - 2*kit.KnownSize(params.padding[axis])
		out = append(out, strideSpan.Add(windowSpan).Add(sym.Of(border)))
	}
	if err := op.checkSizes(&params, shape, out); err != nil {
		return input, err
	}
	if err := op.checkDTypes(call); err != nil {
		return input, err
	}
	if isUnbatched {
		out = out[1:]
	}
	resultType := tensor.NewType(input.DType, out...)
	if !isUnbatched && kit.SizeIs(out[0], 0) && tensor.SameSizes(out, input.Shape) {
		resultType = emptyResultType(input) // has the strides of the input, as in PyTorch
	}
	return resultType, resultType.Check()
}

// check mirrors aten's check_shape_forward and the checks of the kernels for transposed convolutions. shape is the
// shape of the input with a batch. PyTorch's messages describe a sequence as an image, hence max(op.dims, 2).
func (op transposedConv) check(call *graph.Call, params *convParams, shape []sym.Int) error {
	weight := call.Type(1)
	if err := params.checkShapes(shape, weight); err != nil {
		return err
	}
	if shape[1].Ne(weight.Shape[0]).Holds() {
		return fmt.Errorf("Given transposed=1, weight of size %s, expected input%s to have %v channels, but got "+
			"%v channels instead", tensor.Sizes(weight.Shape), tensor.Sizes(shape), weight.Shape[0], shape[1])
	}
	channels := weight.Shape[1].Mul(sym.Of(params.groups))
	if biasType := call.Type(2); call.HasOperand(2) && (biasType.Rank() != 1 || biasType.Shape[0].Ne(channels).Holds()) {
		return fmt.Errorf("Given transposed=1, weight of size %s, expected bias to be 1-dimensional with %v "+
			"elements, but got bias of size %s instead", tensor.Sizes(weight.Shape), channels, tensor.Sizes(biasType.Shape))
	}
	for axis := range params.stride {
		switch {
		case params.dilation[axis] <= 0:
			return errors.New("dilation should be greater than zero, but got" + op.formatAttr("dilation", params.dilation, 1))
		case kit.SizeIs(weight.Shape[2+axis], 0) || kit.SizeIs(weight.Shape[1], 0):
			return fmt.Errorf("non-empty weight tensor expected, but got: %s", tensor.Sizes(weight.Shape))
		case kit.SizeIs(shape[2+axis], 0):
			return fmt.Errorf("non-empty %dD or %dD (batch mode) tensor expected for input, but got: %s", max(op.dims, 2)+1,
				max(op.dims, 2)+2, tensor.Sizes(shape))
		}
	}
	return nil
}

// checkSizes rejects results without elements. It also rejects an output padding that is at least as large as both the
// stride and the dilation.
func (op transposedConv) checkSizes(params *convParams, in, out []sym.Int) error {
	for axis := range op.dims {
		if params.outputPadding[axis] >= params.stride[axis] && params.outputPadding[axis] >= params.dilation[axis] {
			return errors.New("output padding must be smaller than either stride or dilation, but got" +
				op.formatAttr("output_padding", params.outputPadding, 0) + op.formatAttr("stride", params.stride,
				1) + op.formatAttr("dilation", params.dilation, 1))
		}
	}
	for axis := range op.dims {
		if out[2+axis].Lt(sym.Of(1)).Holds() {
			joined := func(sizes []sym.Int) string {
				return strings.ReplaceAll(strings.Trim(tensor.Sizes(sizes), "[]"), ", ", " x ")
			}
			return fmt.Errorf("Given input size per channel: (%s). Calculated output size per channel: (%s). Output size "+
				"is too small", joined(in[2:]), joined(out[2:]))
		}
	}
	return nil
}

// formatAttr formats an attribute by dimension for PyTorch's messages, in which a sequence is an image of height 1.
// forHeight is the attribute's value for that height.
func (op transposedConv) formatAttr(name string, list []int, forHeight int) string {
	if op.dims == 1 {
		list = []int{forHeight, list[0]}
	}
	text := ""
	for i, axisName := range []string{"depth", "height", "width"}[3-len(list):] {
		text += fmt.Sprintf(" %s_%s: %d", name, axisName, list[i])
	}
	return text
}

// checkDTypes rejects operands of different dtypes, and dtypes that PyTorch does not support.
func (op transposedConv) checkDTypes(call *graph.Call) error {
	dtype := call.Type(0).DType
	for i := 1; i < 3; i++ {
		if got := call.Type(i).DType; call.HasOperand(i) && got != dtype {
			return fmt.Errorf("expected scalar type %s but found %s", dtype.TorchName(), got.TorchName())
		}
	}
	if !dtype.IsFloat() && !dtype.IsComplex() && dtype != tensor.Int64 {
		return kit.NotImplementedBy(fmt.Sprintf("slow_conv_transpose%dd_out_cpu", max(op.dims, 2)), dtype)
	}
	return nil
}

// ref is the reference implementation. Each element of the result is the sum of the products that are added to it.
func (op transposedConv) ref(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	resultType, err := op.result(c)
	if err != nil {
		return nil, err
	}
	resultMeta, params, weightShape := kit.KnownMeta(resultType), op.params(c, op.dims), in[1].Shape
	inPerGroup, outPerGroup := weightShape[0]/params.groups, weightShape[1]
	// This op is the gradient of an ordinary convolution, and these are the axes of that convolution. Its input has the
	// shape of this op's result.
	axes := newAxes(resultMeta.Shape, in[0].Shape, weightShape[2:], params.stride, kit.KnownSizes(params.padding),
		params.dilation)
	// channelsOf returns the k-th input channel that output channel o reads, and the row and column of the weight.
	channelsOf := func(o, k int) (channel, row, column int) {
		channel = o/outPerGroup*inPerGroup + k
		return channel, channel, o % outPerGroup
	}
	return reference(resultMeta, in, inPerGroup, axes, transposedPairs, channelsOf)
}

// transposedPairs returns, for each index of the result along an axis, the pairs of an input element and a tap whose
// product is added there.
func transposedPairs(axis *geometry.Axis) [][]tapPair {
	pairs := make([][]tapPair, axis.Size)
	for tap := range axis.Taps {
		first, end := axis.ResultsOf(tap)
		for windowIndex := first; windowIndex < end; windowIndex++ {
			position := axis.Position(windowIndex, tap)
			pairs[position] = append(pairs[position], tapPair{element: windowIndex, tap: tap})
		}
	}
	return pairs
}
