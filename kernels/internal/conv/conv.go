package conv

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type conv2dAttrs struct {
	Stride   []int            `attr:"stride" default:"1" doc:"step of the window: [height, width]"`
	Padding  graph.IntsOrWord `attr:"padding" default:"0" words:"same|valid" doc:"zeros around the image: [height, width], or [top, left, bottom, right]; valid: no zeros; same: the number that keeps the input size"`
	Dilation []int            `attr:"dilation" default:"1" doc:"distance between the elements of the window: [height, width]"`
	Groups   int              `attr:"groups" default:"1" doc:"number of groups into which channels are divided; each group is convolved separately"`
}

type conv1dAttrs struct {
	Stride   []int            `attr:"stride" default:"1" doc:"step of the window"`
	Padding  graph.IntsOrWord `attr:"padding" default:"0" words:"same|valid" doc:"zeros at both ends, or [begin, end]; valid: no zeros; same: the number that keeps the input size"`
	Dilation []int            `attr:"dilation" default:"1" doc:"distance between the elements of the window"`
	Groups   int              `attr:"groups" default:"1" doc:"number of groups into which channels are divided; each group is convolved separately"`
}

// Conv2d is the cross-correlation of images with a window.
var Conv2d = kit.Define[*conv2dAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "conv2d",
		Doc: "Convolves images: `input` [n, c, h, w] or [c, h, w], `weight` [o, c/groups, kh, kw] and `bias` [o] " +
			"give [n, o, oh, ow] with oh = (h + 2*padding - dilation*(kh-1) - 1)/stride + 1. As in PyTorch the " +
			"window is not flipped. The result is channels-last if the strides of `input` or `weight` suggest that " +
			"memory format, else row-major.",
		Params: []graph.Param{kit.Input, kit.Weight, kit.OptBias},
		Kind:   graph.RequiresLayout, // an implementation reads only some layouts
		Infer:  conv2d.infer,
		Ref:    conv2d.ref,
		Examples: []graph.Example{
			{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 6, 7), tensor.New(tensor.Float32, 4, 3, 3, 3),
				tensor.New(tensor.Float32, 4)},
				Attrs: graph.Attrs{"padding": 1, "stride": []int{2, 1}}},
			{In: []tensor.Meta{kit.NHWC(2, 4, 5, 5), tensor.New(tensor.Float32, 6, 2, 3, 3)}, Attrs: graph.Attrs{"groups": 2}},
			{In: []tensor.Meta{kit.NHWC(1, 4, 5, 5), tensor.New(tensor.Float32, 4, 1, 3, 3)},
				Attrs: graph.Attrs{"groups": 4, "dilation": 2}},
			{In: []tensor.Meta{tensor.New(tensor.Float32, 1, 2, 5, 6), tensor.New(tensor.Float32, 3, 2, 2, 3)},
				Attrs: graph.Attrs{"padding": "same"}},
		},
	},
	// If operand 0 has rank 4, there is a parallel loop over the batch: dimension 0 of the result and of operand 0.
	Facts:     graph.Facts{ConstantsByAddress: true, Parallel: kit.BatchLoopForRank(4, 0), ImageRole: graph.ImageOp, Flops: conv2d.flops},
	Lowerings: graph.Lowerings{Impls: conv2d.impls(), Rewrite: compose.WidenToFloat32},
})

// Conv1d is the cross-correlation of sequences with a window.
var Conv1d = kit.Define[*conv1dAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "conv1d",
		Doc: "Convolves sequences: `input` [n, c, l] or [c, l], `weight` [o, c/groups, k] and `bias` [o] give [n, " +
			"o, ol] with ol = (l + 2*padding - dilation*(k-1) - 1)/stride + 1.",
		Params: []graph.Param{kit.Input, kit.Weight, kit.OptBias},
		Infer:  conv1d.infer,
		Ref:    conv1d.ref,
		Examples: []graph.Example{
			{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 9), tensor.New(tensor.Float32, 4, 3, 3),
				tensor.New(tensor.Float32, 4)}},
			{In: []tensor.Meta{tensor.New(tensor.Float64, 3, 9), tensor.New(tensor.Float64, 3, 1, 2)},
				Attrs: graph.Attrs{"groups": 3, "stride": 2}},
		},
	},
	Facts:     graph.Facts{ConstantsByAddress: true, Parallel: kit.BatchLoopForRank(3, 0), Flops: conv1d.flops},
	Lowerings: graph.Lowerings{Impls: conv1d.impls(), Rewrite: compose.WidenToFloat32},
})

var (
	conv2d = convolution{name: "conv2d", dims: 2, params: func(c *graph.Call) convParams {
		a := kit.Attrs[*conv2dAttrs](c)
		return newConvParams(c, 2, a.Stride, a.Padding, a.Dilation, a.Groups)
	}}
	conv1d = convolution{name: "conv1d", dims: 1, params: func(c *graph.Call) convParams {
		a := kit.Attrs[*conv1dAttrs](c)
		return newConvParams(c, 1, a.Stride, a.Padding, a.Dilation, a.Groups)
	}}
)

type conv3dAttrs struct {
	Stride   []int            `attr:"stride" default:"1" doc:"step of the window: [depth, height, width]"`
	Padding  graph.IntsOrWord `attr:"padding" default:"0" words:"same|valid" doc:"zeros around the volume: [depth, height, width], or [front, top, left, back, bottom, right]; valid: no zeros; same: the number that keeps the input size"`
	Dilation []int            `attr:"dilation" default:"1" doc:"distance between the elements of the window: [depth, height, width]"`
	Groups   int              `attr:"groups" default:"1" doc:"number of groups into which channels are divided; each group is convolved separately"`
}

var conv3d = convolution{name: "conv3d", dims: 3, params: func(c *graph.Call) convParams {
	a := kit.Attrs[*conv3dAttrs](c)
	return newConvParams(c, 3, a.Stride, a.Padding, a.Dilation, a.Groups)
}}

// Conv3d is the cross-correlation of volumes with a window.
var Conv3d = kit.Define[*conv3dAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "conv3d",
		Doc: "Convolves volumes: `input` [n, c, d, h, w] or [c, d, h, w], `weight` [o, c/groups, kd, kh, kw] and " +
			"`bias` [o] give [n, o, od, oh, ow] with od = (d + 2*padding - dilation*(kd-1) - 1)/stride + 1. The " +
			"result is row-major.",
		Params: []graph.Param{kit.Input, kit.Weight, kit.OptBias},
		Infer:  conv3d.infer,
		Ref:    conv3d.ref,
		Examples: []graph.Example{
			{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 4, 5, 6), tensor.New(tensor.Float32, 4, 3, 2, 3, 3),
				tensor.New(tensor.Float32, 4)},
				Attrs: graph.Attrs{"padding": 1, "stride": []int{2, 1, 1}}},
			{In: []tensor.Meta{tensor.New(tensor.Float32, 4, 3, 5, 4), tensor.New(tensor.Float32, 4, 2, 2, 1, 3)},
				Attrs: graph.Attrs{"groups": 2, "padding": []int{0, 1, 1, 1, 0, 0}}},
		},
	},
	Facts:     graph.Facts{ConstantsByAddress: true, Parallel: kit.BatchLoopForRank(5, 0), Flops: conv3d.flops},
	Lowerings: graph.Lowerings{Impls: conv3d.impls(), Rewrite: compose.WidenToFloat32},
})

// InBytes returns the attributes of a [ConvBytes] call with the windows of a conv2d call. imageDType and weightDType
// are the dtypes of the images and weights of the ConvBytes call. InBytes returns false if the ConvBytes call has no
// machine code, or if a sum of its products could overflow int32 (maxBytesTerms).
func InBytes(call *graph.Call, imageDType, weightDType tensor.DType) (graph.Attrs, bool) {
	if call == nil || call.Type(0).Rank() != 4 || call.Type(1).Rank() != 4 || len(call.Out) != 1 ||
		tensor.Numel(call.Meta(1).Shape[1:]) > maxBytesTerms {
		return nil, false
	}
	if _, ok := call.Attrs.(*conv2dAttrs); !ok {
		return nil, false
	}
	params := conv2d.params(call)
	var padding []int
	for _, size := range slices.Concat(params.padding, params.paddingAfter) {
		amount, isKnown := size.Known()
		if !isKnown {
			return nil, false
		}
		padding = append(padding, amount)
	}
	attrs := graph.Attrs{"stride": params.stride, "padding": padding, "dilation": params.dilation, "groups": params.groups}
	decoded, err := ConvBytes.Schema.Decode(attrs, nil)
	if err != nil {
		return nil, false
	}
	bytesCall := kit.DelegatedCall(call, decoded, tensor.NewType(imageDType, call.Type(0).Shape...),
		tensor.NewType(weightDType, call.Type(1).Shape...))
	return attrs, len(bytesWalks(bytesCall, nil)) > 0 || len(depthwiseBytesWalks(bytesCall, nil)) > 0
}
