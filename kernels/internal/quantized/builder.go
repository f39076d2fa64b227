package quantized

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/tensor"
)

// This file adds the nodes into which quantized ops decompose. A quantized value is an integer q that stands for the
// number (q - zero point) * scale. If no machine code multiplies bytes, products and convolutions of quantized values
// become products and convolutions of floats. minusZeroPoint converts both operands to exactDType. Their product is
// converted by toInt32 or requantize. Sums of products of integers are exact below 2^24 in float32 and below 2^53 in
// float64. Nodes that depend only on a constant weight are evaluated when the graph is planned, and their results are
// packed like any weight.

// quantBuilder builds the nodes into which a call of a quantized op decomposes. Its methods add nodes and return their
// results.
type quantBuilder struct{ *compose.Builder }

// minusZeroPoint returns an operand minus its zero points, in the given dtype. zeroPoints is the index of the operand
// that has the zero points, and this operand may be omitted. The zero points differ along dimension dim.
func (builder quantBuilder) minusZeroPoint(operand, zeroPoints, dim int, dtype tensor.DType) graph.Arg {
	if !builder.Call.HasOperand(zeroPoints) {
		return builder.Convert(dtype, builder.Call.In[operand])
	}
	return builder.Add(pointwise.Sub, nil, builder.Call.In[operand],
		builder.vector(zeroPoints, dim, builder.Call.Meta(operand).Rank(), dtype))
}

// vector converts an operand of at most one dimension to a dtype. The result has its elements along dimension dim, and
// broadcasts to values of the given rank.
func (builder quantBuilder) vector(operand, dim, rank int, dtype tensor.DType) graph.Arg {
	return builder.Convert(dtype, builder.BroadcastAlong(builder.Call.In[operand], dim, max(rank, 1)))
}

// exactDType returns a float dtype in which a sum of terms products is exact. a and b are the byte dtypes of the
// factors.
func exactDType(terms int, a, b tensor.DType) tensor.DType {
	// A product of bytes is less than 2^16.
	if terms<<(8*(a.Size()+b.Size())) <= 1<<24 {
		return tensor.Float32
	}
	return tensor.Float64
}

// toInt32 converts exact sums of products of bytes to int32. terms is the number of products of a sum. Sums beyond
// int32 wrap.
func (builder quantBuilder) toInt32(sums graph.Arg, terms int) graph.Arg {
	if terms > 1<<15 { // the sums may exceed 2^31
		sums = builder.Convert(tensor.Int64, sums)
	}
	return builder.Add(view.To, graph.Attrs{"dtype": tensor.Int32, "memory_format": tensor.Contiguous}, sums)
}

// requantize scales exact sums and quantizes them. aScale and bScale are the scales of the operands that were
// multiplied.
func (builder quantBuilder) requantize(sums, aScale, bScale graph.Arg) graph.Arg {
	const f32 = tensor.Float32
	dtype, rank := builder.Call.Out[0].DType, len(builder.Call.Out[0].Shape)
	scale := builder.Add(pointwise.Div, nil, builder.Add(pointwise.Mul, nil, aScale, bScale),
		builder.vector(resultScaleOperand, 0, 0, f32))
	if rank == 0 {
		scale = builder.BroadcastAlong(scale, 0, 0)
	}
	scaled := builder.Add(pointwise.Mul, nil, builder.Convert(f32, sums), scale)
	return builder.quantize(scaled, builder.BroadcastAlong(builder.Call.In[resultZeroOperand], 0, rank), dtype)
}

// quantize rounds numbers half to even, adds the zero points and saturates to the given dtype. zeroPoints may be null.
// NaN becomes 0. quantize computes in a float dtype that represents every integer of the given dtype exactly: float32
// for integers of up to 16 bits, float64 for 32 bits.
func (builder quantBuilder) quantize(numbers, zeroPoints graph.Arg, dtype tensor.DType) graph.Arg {
	computeDType := tensor.Float32
	if dtype.Size() > 2 {
		computeDType = tensor.Float64
	}
	numbers = builder.Add(pointwise.Round, nil, builder.Convert(computeDType, numbers))
	if zeroPoints.Kind != graph.Null {
		numbers = builder.Add(pointwise.Add, nil, numbers, builder.Convert(computeDType, zeroPoints))
	}
	lower, upper := bounds(dtype)
	numbers = builder.Add(pointwise.NanToNum, graph.Attrs{"nan": 0}, numbers)
	return builder.Convert(dtype, builder.Add(pointwise.Clamp, graph.Attrs{"min": lower, "max": upper}, numbers))
}
