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

// rowNorm is an op that compileRowNorm compiles.
type rowNorm uint8

const (
	layerNorm rowNorm = iota
	rmsNorm
)

// compileRowNorm returns a kernel of op with loops in Go. Rows have the last dims dimensions of the input. The operands
// of the call are input, weight and, for layer_norm, bias.
func compileRowNorm(c *graph.Call, op rowNorm, dims int, eps float64) (*graph.Kernel, error) {
	if c.Meta(0).DType.OpMath() == tensor.Float32 {
		return compileRowNormAs[float32](c, op, dims, eps)
	}
	return compileRowNormAs[float64](c, op, dims, eps)
}

// compileRowNormAs is compileRowNorm for a computation in T. Operands that have another dtype or are not row-major are
// copied first.
func compileRowNormAs[T float32 | float64](call *graph.Call, op rowNorm, dims int, eps float64) (*graph.Kernel, error) {
	input := call.Meta(0)
	if input.Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	normalize := normalizeRow[T]
	if op == rmsNorm {
		normalize = scaleRow[T]
	}
	builder, d := copies.NewKernelBuilder(call), tensor.DTypeOf[T]()
	n := tensor.Numel(input.Shape[input.Rank()-dims:])
	buffers := []kit.Buffer{builder.Result(0, d), builder.ToRowMajor(builder.Operand(0), d),
		builder.ToRowMajor(builder.Operand(1), d),
		builder.ToRowMajor(builder.Operand(2), d)}
	division := machine.DivideUnits(input.Numel()/n, n, machine.ReduceGrain/2)
	phase := graph.Phase{Chunks: division.Chunks, Run: func(mem *graph.Mem, chunk int) error {
		weight, bias := kit.ElementsOf[T](mem.Ptrs[2], n), kit.ElementsOf[T](mem.Ptrs[3], n)
		begin, end := division.ChunkRange(chunk)
		for row := begin; row < end; row++ {
			normalize(mem, kit.PlaneOf[T](mem.Ptrs[0], row, n), kit.PlaneOf[T](mem.Ptrs[1], row, n), weight, bias, eps)
		}
		return nil
	}}
	builder.AddPhases(copies.NoScratch, copies.NoScratch, buffers, phase)
	k, err := builder.Kernel()
	if err == nil && input.SameAddresses(call.Out[0]) {
		k.InPlace = []graph.InPlace{{Out: 0, In: 0}}
	}
	return k, err
}

// normalizeRow writes the layer norm of row x to y. Weight w and bias b may be nil. Mean and variance are computed in
// float64. The rounding error of the mean in T is corrected, as in standardizedRow.
func normalizeRow[T float32 | float64](mem *graph.Mem, y, x, w, b []T, eps float64) {
	var sum, squares float64
	kit.ForEachBlock(mem.Context, len(x), func(begin, end int) { folds.SumRow(&sum, x[begin:end], 0) })
	n := float64(len(x))
	mean := sum / n
	kit.ForEachBlock(mem.Context, len(x), func(begin, end int) { squares += sumOfSquares(x[begin:end], mean) })
	scale := 1 / math.Sqrt(squares/n+eps)
	// (x-mean)*scale = (x-meanT)*scale + (meanT-mean)*scale
	meanT := T(mean)
	scaleT, correction := T(scale), T((float64(meanT)-mean)*scale)
	kit.ForEachBlock(mem.Context, len(x), func(begin, end int) {
		standardize(y[begin:end], x[begin:end], sliceOrNil(w, begin, end), sliceOrNil(b, begin, end), meanT, scaleT,
			correction)
	})
}

// scaleRow writes the RMS norm of row x to y: x*w / sqrt(mean(x^2) + eps). w may be nil. There is no bias.
func scaleRow[T float32 | float64](m *graph.Mem, y, x, w, _ []T, eps float64) {
	squares := 0.0
	kit.ForEachBlock(m.Context, len(x), func(begin, end int) { squares += sumOfSquares(x[begin:end], 0) })
	factor := T(1 / math.Sqrt(squares/float64(len(x))+eps))
	kit.ForEachBlock(m.Context, len(x), func(begin, end int) {
		multiplyRow(y[begin:end], x[begin:end], sliceOrNil(w, begin, end), factor)
	})
}

// multiplyRow writes x*factor*w to y. w may be nil.
func multiplyRow[T float32 | float64](y, x, w []T, factor T) {
	y = y[:len(x)]
	if w == nil {
		for i, e := range x {
			y[i] = e * factor
		}
		return
	}
	w = w[:len(x)]
	for i, e := range x {
		y[i] = e * factor * w[i]
	}
}

// sliceOrNil returns v[begin:end], or nil if v is nil.
func sliceOrNil[T float32 | float64](v []T, begin, end int) []T {
	if v == nil {
		return nil
	}
	return v[begin:end]
}

// standardize writes ((x-mean)*scale + correction)*w + b to y. w and b may be nil, which stands for factors of 1 and
// terms of 0. The conversions T(...) of products prevent fused multiply-adds.
func standardize[T float32 | float64](y, x, w, b []T, mean, scale, correction T) {
	y = y[:len(x)]
	switch {
	case w != nil && b != nil:
		w, b = w[:len(x)], b[:len(x)]
		for i, v := range x {
			y[i] = T((T((v-mean)*scale)+correction)*w[i]) + b[i]
		}
		return
	case w != nil:
		w = w[:len(x)]
		for i, v := range x {
			y[i] = (T((v-mean)*scale) + correction) * w[i]
		}
		return
	}
	for i, v := range x {
		y[i] = T((v-mean)*scale) + correction
	}
	if b != nil {
		b = b[:len(x)]
		for i := range y {
			y[i] += b[i]
		}
	}
}
