package reduce

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type batchNormAttrs struct {
	Training bool    `attr:"training" default:"false" doc:"use the statistics of the batch, not running_mean and running_var"`
	Momentum float64 `attr:"momentum" default:"0.1" doc:"has no effect, because running statistics are not updated"`
	Eps      float64 `attr:"eps" default:"1e-5" doc:"number added to the variance"`
	CuDNN    bool    `attr:"cudnn_enabled" default:"true" doc:"has no effect"`
}

// BatchNorm normalizes each channel (dimension 1). Constants such as batchNormWeight (norm_checks.go) are the indices
// of the operands.
var BatchNorm = kit.Define[*batchNormAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "batch_norm",
		Doc: "Normalizes each channel (dimension 1) by running or batch statistics, then multiplies by `weight` and adds " +
			"`bias`. Graphs are pure: running statistics are not updated. The result is channels-last if the strides of " +
			"`input` fit channels-last only, and row-major otherwise.",
		Params: []graph.Param{kit.Input, kit.OptWeight, kit.OptBias, {Name: "running_mean", Optional: true},
			{Name: "running_var", Optional: true}},
		Infer: inferBatchNorm,
		Ref:   batchNormReference,
		Examples: []graph.Example{{In: []tensor.Meta{
			tensor.New(tensor.Float32, 2, 3, 4, 5).WithStrides([]int{60, 1, 15, 3}), tensor.New(tensor.Float32, 3),
			tensor.New(tensor.Float32, 3), tensor.New(tensor.Float32, 3), tensor.New(tensor.Float32, 3)}},
			{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 4)}, Attrs: graph.Attrs{"training": true}}},
	},
	Lowerings: graph.Lowerings{Decompose: decomposeBatchNorm},
})

// batchNormReference is the reference of batch_norm.
func batchNormReference(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	attrs := kit.Attrs[*batchNormAttrs](c)
	for len(in) < batchNormOperands {
		in = append(in, nil)
	}
	mean, variance := in[batchNormMean], in[batchNormVariance]
	if attrs.Training {
		mean, variance = nil, nil
	}
	channel := func(index []int) int { return index[1] }
	out := normReference(in[batchNormInput], attrs.Eps, channel, channel, in[batchNormWeight], in[batchNormBias], mean,
		variance)
	return []*tensor.Tensor{out}, nil
}

// decomposeBatchNorm computes the result from a scale and a shift of each channel, as PyTorch does:
//
//	scale  = weight/sqrt(variance + eps)
//	shift  = bias - (mean - center)*scale
//	result = (input - center)*scale + shift
//
// The center is 0 or, if `training` is set, the rounded mean of the batch. Scale and shift are computed in float64 and
// rounded once. They are constants if the parameters and the statistics are constants.
func decomposeBatchNorm(parts *graph.Parts, call *graph.Call) ([]*graph.Value, error) {
	builder, attrs, input := compose.NewBuilder(parts, call), kit.Attrs[*batchNormAttrs](call), call.Meta(batchNormInput)
	if input.Numel() == 0 {
		return decomposeEmptyBatchNorm(builder)
	}
	const f64 = tensor.Float64
	loopDType := input.DType.OpMath()
	// perChannel broadcasts a vector to the shape of the input, along the channels.
	perChannel := func(vector graph.Arg) graph.Arg {
		const channelDim = 1
		return builder.BroadcastAlong(vector, channelDim, input.Rank())
	}
	mean, scale := batchNormScale(builder, attrs)
	x := call.In[batchNormInput]
	if attrs.Training {
		// Without the center, input*scale and shift nearly cancel if values are far from 0, which loses digits.
		center := builder.Convert(loopDType, mean)
		x = builder.Add(pointwise.Sub, nil, x, perChannel(center))
		mean = builder.Add(pointwise.Sub, nil, mean, builder.Convert(f64, center))
	}
	shift := builder.Add(pointwise.Mul, nil, mean, scale)
	if call.HasOperand(batchNormBias) {
		shift = builder.Add(pointwise.Sub, nil, builder.Convert(f64, call.In[batchNormBias]), shift)
	} else {
		shift = builder.Add(pointwise.Neg, nil, shift)
	}
	scale, shift = builder.Convert(loopDType, scale), builder.Convert(loopDType, shift)
	y := builder.Add(pointwise.Mul, nil, x, perChannel(scale))
	return builder.Result(builder.Add(pointwise.Add, nil, y, perChannel(shift)))
}

// batchNormScale adds nodes that compute the mean and the scale of each channel in float64 (see decomposeBatchNorm).
func batchNormScale(builder *compose.Builder, attrs *batchNormAttrs) (mean, scale graph.Arg) {
	const f64 = tensor.Float64
	call, variance := builder.Call, graph.Arg{}
	if attrs.Training {
		dims := []int{0} // all dimensions except the channels
		for dim := 2; dim < call.Meta(batchNormInput).Rank(); dim++ {
			dims = append(dims, dim)
		}
		input := builder.Convert(f64, call.In[batchNormInput])
		const results = 2 // the variance and the mean
		moments := builder.AddMany(results, VarMean, graph.Attrs{"dim": dims, "correction": 0}, input)
		variance, mean = moments[0], moments[1]
	} else {
		mean = builder.Convert(f64, call.In[batchNormMean])
		variance = builder.Convert(f64, call.In[batchNormVariance])
	}
	deviation := builder.Add(pointwise.Sqrt, nil, builder.Add(pointwise.Add, nil, variance, compose.Number(attrs.Eps)))
	if call.HasOperand(batchNormWeight) {
		return mean, builder.Add(pointwise.Div, nil, builder.Convert(f64, call.In[batchNormWeight]), deviation)
	}
	return mean, builder.Add(pointwise.Reciprocal, nil, deviation)
}

// decomposeEmptyBatchNorm computes input*weight[0] + bias[0] for an input without elements, as PyTorch does. Only the
// type of the result matters ([emptyBatchNormType]).
func decomposeEmptyBatchNorm(builder *compose.Builder) ([]*graph.Value, error) {
	y := builder.Add(view.Clone, nil, builder.Call.In[batchNormInput])
	addFirst := func(op *graph.Op, param int) {
		if builder.Call.HasOperand(param) {
			first := builder.Add(view.Select, graph.Attrs{"dim": 0, "index": 0}, builder.Call.In[param])
			y = builder.Add(op, nil, y, first)
		}
	}
	addFirst(pointwise.Mul, batchNormWeight)
	addFirst(pointwise.Add, batchNormBias)
	return builder.Result(y)
}

// inferBatchNorm checks a call in PyTorch's order and infers the result.
func inferBatchNorm(call *graph.Call) ([]graph.Result, error) {
	input := call.Type(batchNormInput)
	if kit.IsEmpty(input) {
		out, err := emptyBatchNormType(call, input)
		return call.NewResult(out), err
	}
	features := sym.Int{}
	if input.Rank() > 1 {
		features = input.Shape[1]
	}
	if err := checkFeatures(call, features, kit.Attrs[*batchNormAttrs](call).Training); err != nil {
		return nil, err
	}
	if input.Rank() < 2 {
		return nil, fmt.Errorf("Expected input to have 2 or more dimensions, got %d", input.Rank())
	}
	if !input.DType.IsFloat() {
		return nil, kit.NotImplementedBy("batch_norm", input.DType)
	}
	if err := checkBatchNormDTypes(call); err != nil {
		return nil, err
	}
	out, err := tensor.NewTypeFormat(input.DType, input.Shape, batchNormFormat(call))
	return call.NewResult(out), err
}

// batchNormFormat returns the memory format of the result. If the input is row-major or channels-last, and the other
// operands are contiguous, PyTorch uses a fast kernel. The result of this kernel is row-major for an input that is in
// both formats (suggest_memory_format_contig).
func batchNormFormat(call *graph.Call) tensor.MemoryFormat {
	input := call.Type(batchNormInput)
	isRowMajor := input.IsContiguous()
	usesFastKernel := isRowMajor || input.IsChannelsLast() || kit.SizeIs(input.Numel(), 1)
	for i := batchNormWeight; i < batchNormOperands; i++ {
		usesFastKernel = usesFastKernel && (!call.HasOperand(i) || call.Type(i).IsContiguous())
	}
	switch {
	case usesFastKernel && isRowMajor:
		return tensor.Contiguous
	case usesFastKernel:
		return tensor.ChannelsLast
	}
	const exactMatch = false
	return input.SuggestMemoryFormat(exactMatch)
}
