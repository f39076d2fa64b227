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

// BatchNorm normalizes each channel (dimension 1). Its operands are input, weight, bias, running_mean and running_var;
// all except input are optional.
var BatchNorm = kit.Define[*batchNormAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "batch_norm",
		Doc: "Normalizes each channel (dimension 1) by running or batch statistics, then multiplies by `weight` and adds " +
			"`bias`. Graphs are pure: running statistics are not updated. The result is channels-last if the strides of " +
			"`input` are, and row-major if they fit both formats or neither.",
		Params: []graph.Param{kit.Input, kit.OptWeight, kit.OptBias, {Name: "running_mean", Optional: true},
			{Name: "running_var", Optional: true}},
		Infer: inferBatchNorm,
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			attrs := kit.Attrs[*batchNormAttrs](c)
			for len(in) < 5 {
				in = append(in, nil)
			}
			runningMean, runningVar := in[3], in[4]
			if attrs.Training {
				runningMean, runningVar = nil, nil
			}
			channel := func(index []int) int { return index[1] }
			out := normReference(in[0], attrs.Eps, channel, channel, in[1], in[2], runningMean, runningVar)
			return []*tensor.Tensor{out}, nil
		},
		Examples: []graph.Example{{In: []tensor.Meta{
			tensor.New(tensor.Float32, 2, 3, 4, 5).WithStrides([]int{60, 1, 15, 3}), tensor.New(tensor.Float32, 3),
			tensor.New(tensor.Float32, 3), tensor.New(tensor.Float32, 3), tensor.New(tensor.Float32, 3)}},
			{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 4)}, Attrs: graph.Attrs{"training": true}}},
	},
	Lowerings: graph.Lowerings{Decompose: decomposeBatchNorm},
})

// decomposeBatchNorm computes input*scale + shift, as PyTorch does, with scale = weight/sqrt(variance + eps) and
// shift = bias - mean*scale. With the statistics of a batch, it computes (input - center)*scale + shift; center is the
// rounded mean, and shift = bias - (mean - center)*scale. Scale and shift of each channel are computed in float64 and
// rounded once. They are constants if the parameters and the statistics are constants.
func decomposeBatchNorm(parts *graph.Parts, call *graph.Call) ([]*graph.Value, error) {
	builder, attrs, input := compose.NewBuilder(parts, call), kit.Attrs[*batchNormAttrs](call), call.Meta(0)
	if input.Numel() == 0 {
		return decomposeEmptyBatchNorm(builder)
	}
	const f64 = tensor.Float64
	loopDType := input.DType.OpMath()
	mean, scale := batchNormScale(builder, attrs)
	x := call.In[0]
	if attrs.Training {
		// Without the center, input*scale and shift nearly cancel if values are far from zero, which loses digits.
		center := builder.Convert(loopDType, mean)
		x = builder.Add(pointwise.Sub, nil, x, builder.BroadcastAlong(center, 1, input.Rank()))
		mean = builder.Add(pointwise.Sub, nil, mean, builder.Convert(f64, center))
	}
	shift := builder.Add(pointwise.Mul, nil, mean, scale)
	if call.HasOperand(2) {
		shift = builder.Add(pointwise.Sub, nil, builder.Convert(f64, call.In[2]), shift)
	} else {
		shift = builder.Add(pointwise.Neg, nil, shift)
	}
	scale, shift = builder.Convert(loopDType, scale), builder.Convert(loopDType, shift)
	y := builder.Add(pointwise.Mul, nil, x, builder.BroadcastAlong(scale, 1, input.Rank()))
	return builder.Result(builder.Add(pointwise.Add, nil, y, builder.BroadcastAlong(shift, 1, input.Rank())))
}

// batchNormScale adds nodes that compute the mean and the scale of each channel, weight/sqrt(variance + eps), in
// float64.
func batchNormScale(builder *compose.Builder, attrs *batchNormAttrs) (mean, scale graph.Arg) {
	const f64 = tensor.Float64
	call, variance := builder.Call, graph.Arg{}
	if attrs.Training {
		dims := []int{0} // all dimensions except that of the channels
		for dim := 2; dim < call.Meta(0).Rank(); dim++ {
			dims = append(dims, dim)
		}
		moments := builder.AddMany(2, VarMean, graph.Attrs{"dim": dims, "correction": 0}, builder.Convert(f64, call.In[0]))
		variance, mean = moments[0], moments[1]
	} else {
		mean, variance = builder.Convert(f64, call.In[3]), builder.Convert(f64, call.In[4])
	}
	deviation := builder.Add(pointwise.Sqrt, nil, builder.Add(pointwise.Add, nil, variance, compose.Number(attrs.Eps)))
	if call.HasOperand(1) {
		return mean, builder.Add(pointwise.Div, nil, builder.Convert(f64, call.In[1]), deviation)
	}
	return mean, builder.Add(pointwise.Reciprocal, nil, deviation)
}

// decomposeEmptyBatchNorm computes input*weight[0] + bias[0] for an input without elements, as PyTorch does. Only the
// type of the result matters ([emptyBatchNormType]).
func decomposeEmptyBatchNorm(builder *compose.Builder) ([]*graph.Value, error) {
	y := builder.Add(view.Clone, nil, builder.Call.In[0])
	for i, op := range []*graph.Op{pointwise.Mul, pointwise.Add} {
		if param := 1 + i; builder.Call.HasOperand(param) {
			first := builder.Add(view.Select, graph.Attrs{"dim": 0, "index": 0}, builder.Call.In[param])
			y = builder.Add(op, nil, y, first)
		}
	}
	return builder.Result(y)
}

// inferBatchNorm checks a call in PyTorch's order and infers the result.
func inferBatchNorm(call *graph.Call) ([]graph.Result, error) {
	input := call.Type(0)
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

// batchNormFormat returns the memory format of the result. If all operands are dense, PyTorch has a faster kernel with
// its own choice of the format (suggest_memory_format_contig): an input that is in both formats gives a row-major
// result.
func batchNormFormat(call *graph.Call) tensor.MemoryFormat {
	input := call.Type(0)
	isRowMajor := input.IsContiguous()
	areAllDense := isRowMajor || input.IsChannelsLast() || kit.SizeIs(input.Numel(), 1)
	for i := 1; i < 5; i++ {
		areAllDense = areAllDense && (!call.HasOperand(i) || call.Type(i).IsContiguous())
	}
	switch {
	case areAllDense && isRowMajor:
		return tensor.Contiguous
	case areAllDense:
		return tensor.ChannelsLast
	}
	return input.SuggestMemoryFormat(false)
}
