package compose

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/tensor"
)

// WidenToFloat32 rewrites an op on 16-bit floats as conversions of the operands to float32, the same op in float32, and
// a conversion of the result. The bits of the result do not change, because the op computes in float32 and rounds once.
// After the rewrite, conversions of constants can be folded. Other conversions can be fused with the nodes that compute
// the operands or use the result.
func WidenToFloat32(into *graph.Parts, c *graph.Call, a graph.Around) (r graph.Rewrite, err error) {
	d := c.Out[0].DType
	widened := d.OpMath()
	if d != tensor.Float16 && d != tensor.BFloat16 || into.Whole() == nil {
		return r, nil
	}
	p := NewBuilder(into, c)
	in := make([]graph.Arg, len(c.In))
	for i, x := range c.In {
		if in[i] = x; x.Kind == graph.TensorArg {
			in[i] = p.reuseConversion(widened, x, a)
		}
	}
	if p.err != nil {
		return r, p.err
	}
	out, err := into.Again(into.Whole(), in...)
	if err != nil {
		return r, err
	}
	r.Why = "sums of " + d.String() + " are computed in " + widened.String()
	r.Results, err = p.Result(p.Convert(d, graph.Of(out[0])))
	return r, err
}

// reuseConversion returns x in dtype d. It reuses a conversion of x that was made for another node.
func (p *Builder) reuseConversion(d tensor.DType, x graph.Arg, a graph.Around) graph.Arg {
	if a.ComputedFrom != nil {
		for _, v := range a.ComputedFrom(x.Value) {
			if v.Node.Op == view.To && v.Type.DType == d && v.Meta.Offset == 0 && v.Meta.SameLayout(x.Meta()) {
				return graph.Of(v)
			}
		}
	}
	return p.Convert(d, x)
}
