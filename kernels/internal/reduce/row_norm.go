package reduce

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// rowNorm is an op that compileRowNorm compiles. For each element x of a row, with the mean and the variance of the
// row, the op computes
//
//	layerNorm   (x - mean) / sqrt(variance + eps) * weight + bias
//	rmsNorm     x / sqrt(mean of x*x + eps) * weight
type rowNorm uint8

const (
	layerNorm rowNorm = iota
	rmsNorm
)

// compileRowNorm returns a kernel of op with loops in Go. A row spans the last rowDims dimensions of the input. The
// operands of the call are input, weight and, for layer_norm, bias.
func compileRowNorm(c *graph.Call, op rowNorm, rowDims int, eps float64) (*graph.Kernel, error) {
	if c.Meta(0).DType.OpMath() == tensor.Float32 {
		return compileRowNormAs[float32](c, op, rowDims, eps)
	}
	return compileRowNormAs[float64](c, op, rowDims, eps)
}

// compileRowNormAs is compileRowNorm for a computation in T. Operands that have another dtype or are not row-major are
// copied first.
func compileRowNormAs[T float32 | float64](call *graph.Call, op rowNorm, rowDims int,
	eps float64) (*graph.Kernel, error) {
	input := call.Meta(0)
	if input.Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	normalize := normalizeRow[T]
	if op == rmsNorm {
		normalize = scaleRow[T]
	}
	builder, dtype := copies.NewKernelBuilder(call), tensor.DTypeOf[T]()
	rowSize := tensor.Numel(input.Shape[input.Rank()-rowDims:])
	buffers := []kit.Buffer{builder.Result(0, dtype), builder.ToRowMajor(builder.Operand(0), dtype),
		builder.ToRowMajor(builder.Operand(1), dtype), builder.ToRowMajor(builder.Operand(2), dtype)}
	const grain = machine.ReduceGrain / 2 // elements per chunk; the loops read a row more than once
	division := machine.DivideUnits(input.Numel()/rowSize, rowSize, grain)
	phase := graph.Phase{Chunks: division.Chunks, Run: func(mem *graph.Mem, chunk int) error {
		weight, bias := kit.ElementsOf[T](mem.Ptrs[2], rowSize), kit.ElementsOf[T](mem.Ptrs[3], rowSize)
		begin, end := division.ChunkRange(chunk)
		for row := begin; row < end; row++ {
			result, operand := kit.PlaneOf[T](mem.Ptrs[0], row, rowSize), kit.PlaneOf[T](mem.Ptrs[1], row, rowSize)
			normalize(mem, result, operand, weight, bias, eps)
		}
		return nil
	}}
	builder.AddPhases(copies.NoScratch, copies.NoScratch, buffers, phase)
	kernel, err := builder.Kernel()
	if err == nil && input.SameAddresses(call.Out[0]) {
		kernel.InPlace = []graph.InPlace{{Out: 0, In: 0}}
	}
	return kernel, err
}

// normalizeRow writes the layer norm of row x to y. weight and bias may be nil. Mean and variance are computed in
// float64. The rounding error of the mean in T is corrected, as in standardizedRow.
func normalizeRow[T float32 | float64](mem *graph.Mem, y, x, weight, bias []T, eps float64) {
	var sum, squares float64
	const unusedPosition = 0
	kit.ForEachBlock(mem.Context, len(x), func(begin, end int) { folds.SumRow(&sum, x[begin:end], unusedPosition) })
	count := float64(len(x))
	mean := sum / count
	kit.ForEachBlock(mem.Context, len(x), func(begin, end int) { squares += sumOfSquares(x[begin:end], mean) })
	scale := 1 / math.Sqrt(squares/count+eps)
	// (x-mean)*scale = (x-meanT)*scale + (meanT-mean)*scale
	meanT := T(mean)
	scaleT, correction := T(scale), T((float64(meanT)-mean)*scale)
	kit.ForEachBlock(mem.Context, len(x), func(begin, end int) {
		standardize(y[begin:end], x[begin:end], sliceOrNil(weight, begin, end), sliceOrNil(bias, begin, end), meanT, scaleT,
			correction)
	})
}

// standardize writes ((x-mean)*scale + correction)*weight + bias to y. A nil weight stands for factors of 1, and a nil
// bias for terms of 0. The conversions T(...) of products prevent fused multiply-adds.
func standardize[T float32 | float64](y, x, weight, bias []T, mean, scale, correction T) {
	y = y[:len(x)]
	switch {
	case weight != nil && bias != nil:
		weight, bias = weight[:len(x)], bias[:len(x)]
		for i, element := range x {
			y[i] = T((T((element-mean)*scale)+correction)*weight[i]) + bias[i]
		}
		return
	case weight != nil:
		weight = weight[:len(x)]
		for i, element := range x {
			y[i] = (T((element-mean)*scale) + correction) * weight[i]
		}
		return
	}
	for i, element := range x {
		y[i] = T((element-mean)*scale) + correction
	}
	if bias != nil {
		bias = bias[:len(x)]
		for i := range y {
			y[i] += bias[i]
		}
	}
}

// scaleRow writes the RMS norm of row x to y: x*weight / sqrt(mean(x^2) + eps). weight may be nil. There is no bias.
func scaleRow[T float32 | float64](mem *graph.Mem, y, x, weight, _ []T, eps float64) {
	squares := 0.0
	const mean = 0 // the elements themselves are squared, not their deviations
	kit.ForEachBlock(mem.Context, len(x), func(begin, end int) { squares += sumOfSquares(x[begin:end], mean) })
	factor := T(1 / math.Sqrt(squares/float64(len(x))+eps))
	kit.ForEachBlock(mem.Context, len(x), func(begin, end int) {
		multiplyRow(y[begin:end], x[begin:end], sliceOrNil(weight, begin, end), factor)
	})
}

// multiplyRow writes x*factor*weight to y. weight may be nil.
func multiplyRow[T float32 | float64](y, x, weight []T, factor T) {
	y = y[:len(x)]
	if weight == nil {
		for i, element := range x {
			y[i] = element * factor
		}
		return
	}
	weight = weight[:len(x)]
	for i, element := range x {
		y[i] = element * factor * weight[i]
	}
}

// sliceOrNil returns list[begin:end], or nil if list is nil.
func sliceOrNil[T float32 | float64](list []T, begin, end int) []T {
	if list == nil {
		return nil
	}
	return list[begin:end]
}
