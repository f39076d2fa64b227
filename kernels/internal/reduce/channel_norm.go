package reduce

import (
	"math"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// channelNorm is a normalization of an operand [N, C, ...] of any layout in three phases:
//
//  1. The mean and the variance (the statistics) of each channel of each sample are computed.
//  2. From these, three coefficients of each channel of each sample are computed: center, scale and shift.
//  3. A loop over all elements computes y = (x - center)*scale + shift.
//
// For example, a normalization of [2, 6, 4, 4] in 3 groups of channels has statistics and coefficients of the shape [2,
// 6, 1, 1]. Channels 0 and 1 of a sample have the same center.
//
// If groups of channels have common statistics, the second phase merges the statistics of the channels of a group. The
// first phase ignores groups, so that its loops can run across channels that are contiguous in memory.
type channelNorm struct {
	groups int     // number of groups of channels per sample
	eps    float64 // added to the variance
	// indices of the operands with the mean and the variance of each channel, or 0 if they are computed from the input
	meanOperand, varianceOperand int
}

// compile returns the kernel for the operands input, weight and bias of a call. Weight and bias may be omitted.
func (norm *channelNorm) compile(call *graph.Call) (*graph.Kernel, error) {
	input := call.Meta(0)
	if input.Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	builder := copies.NewKernelBuilder(call)
	in := builder.Operand(0)
	coefficients := norm.addCoefficients(builder, norm.addStatistics(builder, in))
	loop, err := affineLoop(input.DType)
	if err != nil {
		return nil, err
	}
	builder.AddKernel("loop", func(c *graph.Call) (*graph.Kernel, error) { return fusion.CompileLoop(loop, c) },
		[]kit.Buffer{builder.StridedResult(0, input.DType)}, append([]kit.Buffer{in}, coefficients...)...)
	kernel, err := builder.Kernel()
	if err == nil && input.SameAddresses(call.Out[0]) {
		kernel.InPlace = []graph.InPlace{{Out: 0, In: 0}}
	}
	return kernel, err
}

// addStatistics adds the first phase. It returns the variance and the mean of each channel in float64. Their shape is
// [N, C, 1, ...], or [C] if the statistics are operands.
func (norm *channelNorm) addStatistics(builder *copies.KernelBuilder, in kit.Buffer) []kit.Buffer {
	if norm.meanOperand != 0 {
		return []kit.Buffer{builder.ToRowMajor(builder.Operand(norm.varianceOperand), tensor.Float64),
			builder.ToRowMajor(builder.Operand(norm.meanOperand), tensor.Float64)}
	}
	meta := in.Meta
	mask := make([]bool, meta.Rank())
	for dim := 2; dim < len(mask); dim++ {
		mask[dim] = true
	}
	const keepDims = true
	shape := rule.ReduceShape(meta.Shape, mask, keepDims)
	out := []kit.Buffer{builder.NewScratch(tensor.Float64, shape...), builder.NewScratch(tensor.Float64, shape...)}
	v := variance{dtype: meta.DType, n: sym.Of(folds.Count(meta.Shape, mask)), returnsMean: true}
	spec := v.spec(mask, keepDims, tensor.Float64, tensor.Float64) // the variance and the mean
	builder.AddKernel("statistics", spec.Compile, out, in)
	return out
}

// addCoefficients adds the second phase. It returns center, scale and shift of each channel. The coefficients are
// computed in float64 and rounded once. shift compensates for the rounding error of center. The shape of each
// coefficient is [N, C, 1, ...]. If the statistics are operands, all samples have the same coefficients, and the shape
// is [1, C, 1, ...].
func (norm *channelNorm) addCoefficients(builder *copies.KernelBuilder, statistics []kit.Buffer) []kit.Buffer {
	input := builder.Call.Meta(0)
	loopDType := input.DType.OpMath()
	shape := slices.Repeat([]int{1}, input.Rank())
	shape[1] = input.Shape[1]
	if norm.meanOperand == 0 {
		shape[0] = input.Shape[0]
	}
	var out []kit.Buffer
	for range 3 { // center, scale and shift
		out = append(out, builder.NewScratch(tensor.Float64, shape...))
	}
	buffers := slices.Concat(out, statistics)
	for _, param := range []int{1, 2} { // weight and bias
		buffers = append(buffers, builder.ToRowMajor(builder.Operand(param), tensor.Float64))
	}
	// A unit of work is a group of channels of a sample.
	groupChannels, samples := shape[1]/norm.groups, shape[0]
	phase := copies.ChunkedPhase(samples*norm.groups, groupChannels, func(mem *graph.Mem, begin, end int) error {
		values := channelValues{channels: shape[1], hasGivenStatistics: norm.meanOperand != 0}
		values.setAddresses(mem.Ptrs, samples)
		for group := begin; group < end; group++ {
			values.setGroup(group*groupChannels, groupChannels, norm.eps, loopDType)
		}
		return nil
	})
	builder.AddPhases(copies.NoScratch, copies.NoScratch, buffers, phase)
	for i, buffer := range out {
		out[i] = builder.ToRowMajor(buffer, loopDType)
	}
	return out
}

// channelValues has the coefficients and statistics at index sample*channels + channel, and the weight and bias at
// index channel. An omitted weight or bias is nil.
type channelValues struct {
	center, scale, shift, variance, mean, weight, bias []float64
	channels                                           int  // channels of a sample
	hasGivenStatistics                                 bool // whether the statistics are operands
}

// setAddresses sets the lists to memory at the given addresses, in the order of the buffers of addCoefficients: center,
// scale, shift, variance, mean, weight, bias.
func (values *channelValues) setAddresses(addresses []unsafe.Pointer, samples int) {
	perSample := []*[]float64{&values.center, &values.scale, &values.shift, &values.variance, &values.mean}
	for i, list := range perSample {
		*list = kit.ElementsOf[float64](addresses[i], samples*values.channels)
	}
	for i, list := range []*[]float64{&values.weight, &values.bias} {
		*list = kit.ElementsOf[float64](addresses[len(perSample)+i], values.channels)
	}
}

// setGroup computes the coefficients of a group of channels. Its channels have the indices [first, first+groupChannels)
// in the lists of coefficients and statistics. loopDType is the dtype of the loop that uses the coefficients.
//
// center is the mean, rounded to loopDType. The loop subtracts center first, because x*scale + shift would lose digits
// by cancellation if the mean is many standard deviations away from 0. If the statistics are operands, center is 0. The
// loop then computes x*scale + shift, as PyTorch does. For infinite coefficients, the two formulas give different
// results.
func (values *channelValues) setGroup(first, groupChannels int, eps float64, loopDType tensor.DType) {
	mean, variance := values.groupStatistics(first, groupChannels)
	center := mean
	switch {
	case values.hasGivenStatistics:
		center = 0
	case loopDType == tensor.Float32:
		center = float64(float32(mean))
	}
	for i := first; i < first+groupChannels; i++ {
		scale, shift := 1/math.Sqrt(variance+eps), 0.0
		if values.weight != nil {
			scale *= values.weight[i%values.channels]
		}
		if values.bias != nil {
			shift = values.bias[i%values.channels]
		}
		// If the statistics are given, the term is PyTorch's mean*scale. Otherwise the term corrects the rounding of
		// center. With an infinite scale, this correction would be infinite or NaN, so it is skipped.
		if values.hasGivenStatistics || !math.IsInf(scale, 0) {
			shift -= float64((mean - center) * scale)
		}
		values.center[i], values.scale[i], values.shift[i] = center, scale, shift
	}
}

// groupStatistics returns the mean and the variance of a group of channels. Its channels have the indices [first,
// first+groupChannels) in the lists of statistics. The variance of the group is the mean of variance[i] + (mean[i] -
// mean of the group)^2 over these channels i. The conversion of a product to float64 prevents a fused multiply-add.
func (values *channelValues) groupStatistics(first, groupChannels int) (mean, variance float64) {
	for _, channelMean := range values.mean[first : first+groupChannels] {
		mean += channelMean
	}
	mean /= float64(groupChannels)
	sum := 0.0
	for i := first; i < first+groupChannels; i++ {
		difference := values.mean[i] - mean
		if values.mean[i] == mean { // the difference of equal infinities is NaN
			difference = 0
		}
		sum += values.variance[i] + float64(difference*difference)
	}
	return mean, sum / float64(groupChannels)
}

// affineLoop returns the loop (x - center)*scale + shift, with the operands x, center, scale and shift. x and the
// result have the given dtype, and all other operands its OpMath dtype. The operands are broadcast.
func affineLoop(dtype tensor.DType) (*graph.Pointwise, error) {
	loopDType := dtype.OpMath()
	builder := expr.NewBuilder(dtype, loopDType, loopDType, loopDType)
	deviation := builder.Emit(expr.Sub, builder.Convert(loopDType, builder.Load(0)), builder.Load(1))
	y := builder.Emit(expr.Mul, deviation, builder.Load(2))
	code, err := builder.Build(folds.Result(builder, folds.Real(builder.Emit(expr.Add, y, builder.Load(3))), dtype))
	return &graph.Pointwise{
		Config: func(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
			out := outs[0]
			if !out.Defined {
				out = rule.UndefinedOutputOf(dtype)
			}
			cfg := rule.New().CheckAllSameDType(false).Output(out)
			for _, arg := range c.In {
				cfg = cfg.Input(arg.Operand())
			}
			return cfg, nil
		},
		Body: func(*graph.Call, *rule.Rule) (rule.Kernel, error) { return rule.Expr(code), nil },
	}, err
}
