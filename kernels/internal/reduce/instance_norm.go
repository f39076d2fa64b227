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

type instanceNormAttrs struct {
	UseInputStats bool    `attr:"use_input_stats" default:"true" doc:"use the statistics of the input, not running_mean and running_var"`
	Momentum      float64 `attr:"momentum" default:"0.1" doc:"has no effect, because running statistics are not updated"`
	Eps           float64 `attr:"eps" default:"1e-5" doc:"number added to the variance"`
	CuDNN         bool    `attr:"cudnn_enabled" default:"true" doc:"has no effect"`
	AcceptEmpty   bool    `attr:"accept_empty" default:"false" doc:"accept no samples and no channels, as ONNX does"`
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
			in = append(slices.Clone(in), nil, nil, nil, nil)[:batchNormOperands] // nil if omitted
			runningMean, runningVar := in[batchNormMean], in[batchNormVariance]
			if attrs.UseInputStats {
				runningMean, runningVar = nil, nil
			}
			group := func(index []int) int { return index[0]*in[0].Shape[1] + index[1] }
			channel := func(index []int) int { return index[1] }
			return []*tensor.Tensor{normReference(in[0], attrs.Eps, group, channel, in[batchNormWeight],
				in[batchNormBias], runningMean, runningVar)}, nil
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
	if !attrs.AcceptEmpty && kit.IsEmpty(input) {
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
// sample that has the channels of all samples. Weight and bias are repeated for each sample, so they are empty if there
// are no samples.
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
	oneSample.Offset = sym.Int{} // the result is not a view of the input
	if oneSample, err = emptyBatchNormType(call, oneSample); err != nil {
		return nil, err
	}
	out, err := oneSample.View(input.Shape)
	return call.NewResult(out), err
}
