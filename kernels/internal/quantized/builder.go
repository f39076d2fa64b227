package quantized

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/tensor"
)

// This file adds the nodes into which quantized ops decompose. Products and convolutions of quantized values decompose
// into float products and convolutions. Sums of products of integers are exact below 2^24 in float32 and below 2^53 in
// float64. Nodes that depend only on a constant weight are evaluated when the graph is planned, and their results are
// packed like any weight.

// exactDType returns the dtype in which n products of quantized values are summed exactly.
func exactDType(n int, a, b tensor.DType) tensor.DType {
	if n<<(8*(a.Size()+b.Size())) <= 1<<24 {
		return tensor.Float32
	}
	return tensor.Float64
}

// quantBuilder builds the nodes into which a call of a quantized op decomposes.
type quantBuilder struct{ *compose.Builder }

// vector returns operand i in dtype d. It is a view that has its elements along dimension dim and broadcasts over the
// other dimensions of values of the given rank.
func (p quantBuilder) vector(i, dim, rank int, d tensor.DType) graph.Arg {
	return p.Convert(d, p.BroadcastAlong(p.Call.In[i], dim, max(rank, 1)))
}

// minusZeroPoint returns operand i minus its zero points, in dtype d. zero is the index of the operand that has the
// zero points along dimension dim. This operand may be omitted.
func (p quantBuilder) minusZeroPoint(i, zero, dim int, d tensor.DType) graph.Arg {
	if !p.Call.Has(zero) {
		return p.Convert(d, p.Call.In[i])
	}
	return p.Add(pointwise.Sub, nil, p.Call.In[i], p.vector(zero, dim, p.Call.Meta(i).Rank(), d))
}

// toInt32 converts exact sums of n products to int32. Sums beyond int32 wrap.
func (p quantBuilder) toInt32(sums graph.Arg, n int) graph.Arg {
	if n > 1<<15 { // the sums may exceed 2^31
		sums = p.Convert(tensor.Int64, sums)
	}
	return p.Add(view.To, graph.Attrs{"dtype": tensor.Int32, "memory_format": tensor.Contiguous}, sums)
}

// requantize scales exact sums and quantizes them. a and b are the scales of the operands that were multiplied.
func (p quantBuilder) requantize(sums, a, b graph.Arg) graph.Arg {
	const f = tensor.Float32
	d, rank := p.Call.Out[0].DType, len(p.Call.Out[0].Shape)
	scale := p.Add(pointwise.Div, nil, p.Add(pointwise.Mul, nil, a, b), p.vector(resultScaleOperand, 0, 0, f))
	if rank == 0 {
		scale = p.BroadcastAlong(scale, 0, 0)
	}
	scaled := p.Add(pointwise.Mul, nil, p.Convert(f, sums), scale)
	return p.quantize(scaled, p.BroadcastAlong(p.Call.In[resultZeroOperand], 0, rank), d)
}

// quantize rounds x half to even, adds the zero points and saturates to dtype d. zero may be null. NaN becomes 0. The
// dtype of the computation represents every integer of d exactly: float32 for up to 16 bits, float64 for 32 bits.
func (p quantBuilder) quantize(x, zero graph.Arg, d tensor.DType) graph.Arg {
	f := tensor.Float32
	if d.Size() > 2 {
		f = tensor.Float64
	}
	x = p.Add(pointwise.Round, nil, p.Convert(f, x))
	if zero.Kind != graph.Null {
		x = p.Add(pointwise.Add, nil, x, p.Convert(f, zero))
	}
	lower, upper := bounds(d)
	x = p.Add(pointwise.NanToNum, graph.Attrs{"nan": 0}, x)
	return p.Convert(d, p.Add(pointwise.Clamp, graph.Attrs{"min": lower, "max": upper}, x))
}
