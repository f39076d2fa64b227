package quantised

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/pointwise"
	"github.com/graphrun/graphrun/kernels/view"
	"github.com/graphrun/graphrun/tensor"
)

// Products and convolutions of quantised values are stated as those of floats: sums of products of whole
// numbers are exact in float32 below 2^24, in float64 below 2^53. What depends on a constant weight folds, and is
// packed like any weight.

// exactDType is the dtype in which n products of quantised values add up exactly.
func exactDType(n int, a, b tensor.DType) tensor.DType {
	if n<<(8*(a.Size()+b.Size())) <= 1<<24 {
		return tensor.Float32
	}
	return tensor.Float64
}

// parts adds nodes one after another, until one fails.
type parts struct {
	*graph.Parts
	c   *graph.Call
	err error
}

// add adds a node of one result.
func (p *parts) add(op *graph.Op, a graph.Attrs, in ...graph.Arg) graph.Arg {
	if p.err != nil {
		return graph.Arg{}
	}
	out, err := p.Add(op, a, in...)
	if err != nil {
		p.err = err
		return graph.Arg{}
	}
	return graph.Of(out[0])
}

// to converts to a dtype.
func (p *parts) to(d tensor.DType, x graph.Arg) graph.Arg {
	if p.err != nil || x.Type().DType == d {
		return x
	}
	return p.add(view.To, graph.Attrs{"dtype": d}, x)
}

// along returns operand i as a vector in dtype d, its elements along the dimension that has n others after it. A
// single element is for all.
func (p *parts) along(i, n int, d tensor.DType) graph.Arg {
	shape := []int{-1}
	if p.c.Meta(i).Numel() != 1 {
		for range n {
			shape = append(shape, 1)
		}
	}
	return p.to(d, p.add(view.Reshape, graph.Attrs{"shape": shape}, p.c.In[i]))
}

// less is operand i in dtype d, less the zero points that operand zero holds along the dimension that has n
// others after it. It may be left out.
func (p *parts) less(i, zero, n int, d tensor.DType) graph.Arg {
	if !p.c.Has(zero) {
		return p.to(d, p.c.In[i])
	}
	return p.add(pointwise.Sub, nil, p.c.In[i], p.along(zero, n, d))
}

// whole turns exact sums of n products into int32, which wraps.
func (p *parts) whole(sums graph.Arg, n int) graph.Arg {
	if n > 1<<15 { // the sums may pass 2^31
		sums = p.to(tensor.Int64, sums)
	}
	return p.add(view.To, graph.Attrs{"dtype": tensor.Int32, "memory_format": tensor.Contiguous}, sums)
}

// requantized scales exact sums by a*b/y, where y is the scale that operand 6 holds, and quantises them with the
// zero point in operand 7.
func (p *parts) requantized(sums, a, b graph.Arg) graph.Arg {
	const f = tensor.Float32
	scale := p.add(pointwise.Div, nil, p.add(pointwise.Mul, nil, a, b), p.along(6, 0, f))
	if len(p.c.Out[0].Shape) == 0 {
		scale = p.add(view.Reshape, graph.Attrs{"shape": []int{}}, scale)
	}
	scaled := p.add(pointwise.Mul, nil, p.to(f, sums), scale)
	one := p.add(view.Full, graph.Attrs{"size": []int{}, "fill_value": 1, "dtype": f})
	return p.add(QuantizeLinear, nil, scaled, one, p.c.In[7])
}

// result is what Decompose returns of its last node.
func (p *parts) result(x graph.Arg) ([]*graph.Value, error) {
	return []*graph.Value{x.Value}, p.err
}
