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
// sample has two rows of 3*H*W elements.
var GroupNorm = kit.Define[*groupNormAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "group_norm",
		Doc: "Normalizes each group of channels of each sample, then multiplies each channel by `weight` and adds " +
			"`bias`. The result is channels-last if the strides of `input` are, else row-major.",
		Params: []graph.Param{kit.Input, kit.OptWeight, kit.OptBias},
		Infer:  inferGroupNorm,
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			attrs := kit.Attrs[*groupNormAttrs](c)
			in = append(slices.Clone(in), nil, nil)[:3] // input, weight and bias; nil if omitted
			channelsPerGroup := in[0].Shape[1] / attrs.NumGroups
			group := func(index []int) int { return index[0]*attrs.NumGroups + index[1]/channelsPerGroup }
			channel := func(index []int) int { return index[1] }
			var mean, variance *tensor.Tensor // nil: normReference computes them for each group
			return []*tensor.Tensor{normReference(in[0], attrs.Eps, group, channel, in[1], in[2], mean, variance)}, nil
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
// elements and there are at least manyRuns pixels, loops over all channels ([channelNorm]) are faster than compiled
// loops over the rows of each group. The limits were measured.
const (
	shortRun = 8
	manyRuns = 256
)

// groupNormRows returns the expression of group_norm over the operand viewed as [n, groups, c/groups, ...]. A row spans
// all dimensions after the first two. groupNormRows returns nil if rows consist of many short runs. The loops of a
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
