package reduce

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type groupNormAttrs struct {
	NumGroups int     `attr:"num_groups" doc:"number of groups of channels"`
	Eps       float64 `attr:"eps" default:"1e-5" doc:"number added to the variance"`
	CuDNN     bool    `attr:"cudnn_enabled" default:"true" doc:"has no effect"`
}

// GroupNorm normalizes groups of channels of each sample. For an input of shape [N, 6, H, W] and two groups, each
// sample has two rows to normalize, of 3*H*W elements.
var GroupNorm = kit.Define[*groupNormAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "group_norm",
		Doc: "Normalizes each group of channels of each sample, then multiplies each channel by `weight` and adds " +
			"`bias`. The result is channels-last if the strides of `input` are, else row-major.",
		Params: []graph.Param{kit.Input, kit.OptWeight, kit.OptBias},
		Infer:  inferGroupNorm,
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			attrs := kit.Attrs[*groupNormAttrs](c)
			in = append(slices.Clone(in), nil, nil)[:3]
			channelsPerGroup := in[0].Shape[1] / attrs.NumGroups
			group := func(index []int) int { return index[0]*attrs.NumGroups + index[1]/channelsPerGroup }
			channel := func(index []int) int { return index[1] }
			return []*tensor.Tensor{normReference(in[0], attrs.Eps, group, channel, in[1], in[2], nil, nil)}, nil
		},
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 4, 3, 3).WithStrides([]int{36, 1, 12, 4}),
			tensor.New(tensor.Float32, 4), tensor.New(tensor.Float32, 4)}, Attrs: graph.Attrs{"num_groups": 2}}},
	},
	Facts: graph.Facts{WritesAnyDenseLayout: true, FlopsPerElement: graph.ElementFlops{Simple: 2.5}},
	Lowerings: graph.Lowerings{
		Rows: groupNormRows,
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			attrs := kit.Attrs[*groupNormAttrs](c)
			if kernel, err := compileSuitedRows(c, groupNormRows); kernel != nil || err != nil {
				return kernel, err
			}
			return (&channelNorm{groups: attrs.NumGroups, eps: attrs.Eps}).compile(c)
		},
	},
})

// In a channels-last operand, each pixel has one contiguous run of channels per group. If runs have less than shortRun
// elements and there are at least manyRuns pixels, loops over all channels ([channelNorm]) were measured to be faster
// than compiled loops over the rows of each group.
const (
	shortRun = 8
	manyRuns = 256
)

// groupNormRows returns the expression of group_norm over the operand viewed as [n, groups, c/groups, ...]. A row has
// all dimensions except the first two. groupNormRows returns nil if rows consist of many short runs; the loops of a
// channelNorm then have longer runs, because the channels of all groups are contiguous.
func groupNormRows(c *graph.Call) (*graph.Rows, error) {
	attrs, input := kit.Attrs[*groupNormAttrs](c), c.Meta(0)
	runLength, runs := input.Shape[1]/attrs.NumGroups, tensor.Numel(input.Shape[2:])
	isChannelsLast, areShort := input.Strides[1] == 1, runLength > 1 && runLength < shortRun
	if isChannelsLast && areShort && runs >= manyRuns {
		return nil, nil
	}
	return sampleNormRows(c, attrs.NumGroups, attrs.Eps)
}

// sampleNormRows returns the normalization of an operand [n, c, ...] as an expression. A row has c/groups channels of a
// sample, at all positions. groups 0 stands for rows of one channel.
func sampleNormRows(c *graph.Call, groups int, eps float64) (*graph.Rows, error) {
	const params = 2 // weight and bias
	builder, loaded, operands, mask := normOperands(c, c.Meta(0).Rank()-2, params)
	shape, channelsPerRow := c.Meta(0).Shape, 1
	if groups != 0 {
		// The mask is for [n, groups, c/groups, ...]: the channels of a group are part of the row.
		mask = slices.Insert(mask, 2, true)
		channelsPerRow = shape[1] / groups
	}
	y := affineNormRow(builder, loaded, float64(channelsPerRow*tensor.Numel(shape[2:])), eps)
	rows, err := singleResultRows(builder, mask, operands, y, c.Meta(0).DType)
	if err != nil {
		return nil, err
	}
	rows.ChannelGroups = groups
	rows.Channels = make([]bool, len(operands)) // by operand: whether it has one element for each channel
	for i, operand := range operands {
		rows.Channels[i] = operand > 0 // weight and bias
	}
	return rows, nil
}

// inferGroupNorm checks a call in PyTorch's order and infers the result.
func inferGroupNorm(call *graph.Call) ([]graph.Result, error) {
	attrs, input := kit.Attrs[*groupNormAttrs](call), call.Type(0)
	if input.Rank() == 0 {
		return nil, errors.New("Dimension specified as 0 but tensor has no dimensions")
	}
	if _, err := tensor.WrapDim(1, input.Rank()); err != nil {
		return nil, err
	}
	switch {
	case attrs.NumGroups <= 0:
		return nil, fmt.Errorf("Expected num groups to be greater than 0, got %d", attrs.NumGroups)
	case !kit.SizeIs(input.Shape[1].Mod(sym.Of(attrs.NumGroups)), 0):
		return nil, fmt.Errorf("Expected number of channels in input to be divisible by num_groups, but got input of shape "+
			"%s and num_groups=%d", tensor.Sizes(input.Shape), attrs.NumGroups)
	}
	for i, name := range []string{"weight", "bias"} {
		param := call.Type(i + 1)
		if call.HasOperand(i+1) && (param.Rank() != 1 || param.Shape[0].Ne(input.Shape[1]).Holds()) {
			return nil, fmt.Errorf("Expected %s to be a vector of size equal to the number of channels in input, but got %s "+
				"of shape %s and input of shape %s", name, name, tensor.Sizes(param.Shape), tensor.Sizes(input.Shape))
		}
	}
	if !input.DType.IsFloat() {
		return nil, kit.NotImplementedBy("GroupNormKernelImpl", input.DType)
	}
	if err := checkNormDTypes(call, 1, 2); err != nil { // weight and bias
		return nil, err
	}
	// PyTorch makes the operand contiguous in the format that its strides suggest. The result has the format that the
	// strides of this copy suggest.
	const exactMatch = false
	format := input.SuggestMemoryFormat(exactMatch)
	if !input.Is(format) {
		strides, err := format.SymbolicStrides(input.Shape)
		if err != nil {
			return nil, err
		}
		input = input.WithStrides(strides)
	}
	out, err := tensor.NewTypeFormat(input.DType, input.Shape, input.SuggestMemoryFormat(exactMatch))
	return call.NewResult(out), err
}

type instanceNormAttrs struct {
	UseInputStats bool    `attr:"use_input_stats" default:"true" doc:"use the statistics of the input, not running_mean and running_var"`
	Momentum      float64 `attr:"momentum" default:"0.1" doc:"has no effect, because running statistics are not updated"`
	Eps           float64 `attr:"eps" default:"1e-5" doc:"number added to the variance"`
	CuDNN         bool    `attr:"cudnn_enabled" default:"true" doc:"has no effect"`
}

// InstanceNorm normalizes each channel of each sample. The result is row-major. Its operands are the operands of
// batch_norm: input, weight, bias, running_mean and running_var, with indices such as batchNormWeight.
var InstanceNorm = kit.Define[*instanceNormAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "instance_norm",
		Doc: "Normalizes each channel of each sample, then multiplies it by `weight` and adds `bias`. The result is " +
			"row-major.",
		Params: []graph.Param{kit.Input, kit.OptWeight, kit.OptBias, {Name: "running_mean", Optional: true},
			{Name: "running_var", Optional: true}},
		Infer: inferInstanceNorm,
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			attrs := kit.Attrs[*instanceNormAttrs](c)
			in = append(slices.Clone(in), nil, nil, nil, nil)[:batchNormOperands]
			runningMean, runningVar := in[batchNormMean], in[batchNormVariance]
			if attrs.UseInputStats {
				runningMean, runningVar = nil, nil
			}
			group := func(index []int) int { return index[0]*in[0].Shape[1] + index[1] }
			channel := func(index []int) int { return index[1] }
			return []*tensor.Tensor{normReference(in[0], attrs.Eps, group, channel, in[1], in[2], runningMean, runningVar)}, nil
		},
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 4, 4)}}},
	},
	Facts: graph.Facts{WritesAnyDenseLayout: true, FlopsPerElement: graph.ElementFlops{Simple: 2.5}},
	Lowerings: graph.Lowerings{
		Rows: instanceNormRows,
		Compile: func(call *graph.Call) (*graph.Kernel, error) {
			attrs := kit.Attrs[*instanceNormAttrs](call)
			if kernel, err := compileSuitedRows(call, instanceNormRows); kernel != nil || err != nil {
				return kernel, err
			}
			norm := &channelNorm{groups: call.Meta(0).Shape[1], eps: attrs.Eps}
			if !attrs.UseInputStats {
				norm.meanOperand, norm.varianceOperand = batchNormMean, batchNormVariance
			}
			return norm.compile(call)
		},
	},
})

// instanceNormRows returns the expression over rows of one channel. It returns nil if the statistics are operands,
// because then no row is reduced.
func instanceNormRows(c *graph.Call) (*graph.Rows, error) {
	attrs := kit.Attrs[*instanceNormAttrs](c)
	if !attrs.UseInputStats {
		return nil, nil
	}
	const oneChannelPerRow = 0
	return sampleNormRows(c, oneChannelPerRow, attrs.Eps)
}

// inferInstanceNorm checks a call in PyTorch's order and infers the row-major result.
func inferInstanceNorm(call *graph.Call) ([]graph.Result, error) {
	attrs, input := kit.Attrs[*instanceNormAttrs](call), call.Type(0)
	hasStatistics := call.HasOperand(batchNormMean) && call.HasOperand(batchNormVariance)
	if !attrs.UseInputStats && !hasStatistics {
		return nil, errors.New("Expected running_mean and running_var to be defined when use_input_stats is false")
	}
	if input.Rank() < 2 {
		return nil, fmt.Errorf("Expected input to have 2 or more dimensions, got %d", input.Rank())
	}
	if kit.IsEmpty(input) {
		return emptyInstanceNorm(call)
	}
	if err := checkFeatures(call, input.Shape[1], attrs.UseInputStats); err != nil {
		return nil, err
	}
	if !input.DType.IsFloat() {
		return nil, kit.NotImplementedBy("batch_norm", input.DType)
	}
	if err := checkBatchNormDTypes(call); err != nil {
		return nil, err
	}
	return call.NewResult(input.RowMajor()), nil
}

// emptyInstanceNorm infers the result for an input without elements. PyTorch then computes a batch_norm of a single
// sample that has the channels of all samples, with weight and bias repeated for each sample. Weight and bias are thus
// empty if there are no samples.
func emptyInstanceNorm(call *graph.Call) ([]graph.Result, error) {
	input := call.Type(0)
	hasParams := call.HasOperand(batchNormWeight) || call.HasOperand(batchNormBias)
	if hasParams && kit.SizeIs(input.Shape[0], 0) {
		return nil, errors.New("select(): index 0 out of range for tensor of size [0] at dimension 0")
	}
	oneSample, err := input.View(append([]sym.Int{sym.Of(1), input.Shape[0].Mul(input.Shape[1])}, input.Shape[2:]...))
	if err != nil {
		return nil, err
	}
	oneSample.Offset = sym.Int{}
	if oneSample, err = emptyBatchNormType(call, oneSample); err != nil {
		return nil, err
	}
	out, err := oneSample.View(input.Shape)
	return call.NewResult(out), err
}
