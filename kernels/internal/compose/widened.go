package compose

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/tensor"
)

// WidenToFloat32 rewrites an op on 16-bit floats as conversions of the operands to float32, the same op in float32, and
// a conversion of the result. The bits of the result do not change, because the op computes in float32 and rounds once.
// The rewrite allows conversions of constants to be folded, and other conversions to be fused with adjacent nodes. For
// other dtypes the rewrite is empty, and the node stays.
func WidenToFloat32(parts *graph.Parts, c *graph.Call, context graph.RewriteContext) (rewrite graph.Rewrite,
	err error) {
	dtype := c.Out[0].DType
	widened := dtype.OpMath()
	if dtype != tensor.Float16 && dtype != tensor.BFloat16 || parts.ReplacedNode() == nil {
		return rewrite, nil
	}
	builder := NewBuilder(parts, c)
	in := make([]graph.Arg, len(c.In))
	for i, x := range c.In {
		if in[i] = x; x.Kind == graph.TensorArg {
			in[i] = builder.reuseConversion(widened, x, context)
		}
	}
	if builder.err != nil {
		return rewrite, builder.err
	}
	out, err := parts.Repeat(parts.ReplacedNode(), in...)
	if err != nil {
		return rewrite, err
	}
	rewrite.Why = "sums of " + dtype.String() + " are computed in " + widened.String()
	rewrite.Results, err = builder.Result(builder.Convert(dtype, graph.ArgOf(out[0])))
	return rewrite, err
}

// reuseConversion converts x to dtype. If another `to` node has already converted x to dtype in the same layout,
// reuseConversion returns the result of that node.
func (builder *Builder) reuseConversion(dtype tensor.DType, x graph.Arg, context graph.RewriteContext) graph.Arg {
	if context.ComputedFrom != nil { // it lists the values that earlier rewrites have computed from x
		for _, v := range context.ComputedFrom(x.Value) {
			if v.Node.Op.Base() == view.To && v.Type.DType == dtype && v.Meta.Offset == 0 && v.Meta.SameLayout(x.Meta()) {
				return graph.ArgOf(v)
			}
		}
	}
	return builder.Convert(dtype, x)
}
