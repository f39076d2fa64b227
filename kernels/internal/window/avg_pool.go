package window

import (
	"errors"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type avgPoolAttrs struct {
	KernelSize      []int `attr:"kernel_size" doc:"height and width of the window"`
	Stride          []int `attr:"stride" default:"" doc:"steps of the window; default: kernel_size"`
	Padding         []int `attr:"padding" default:"0" doc:"zeros on both sides of each dimension, or [top, left, bottom, right]"`
	Dilation        []int `attr:"dilation" default:"1" doc:"distance between elements of the window; not in PyTorch"`
	CeilMode        bool  `attr:"ceil_mode" default:"false" doc:"round the output size up, so that windows may reach past the end"`
	CountIncludePad bool  `attr:"count_include_pad" default:"true" doc:"count the padding in the divisor"`
	DivisorOverride *int  `attr:"divisor_override" default:"none" range:"int64" doc:"divisor to use instead of the size of the window"`
}

// AvgPool2d averages each window. Sums are float64, or in the compute dtype for small windows; sums of int64 are int64.
var AvgPool2d = kit.Define[avgPoolAttrs](avgPool2dVolume.extend(graph.Op{
	Semantics: graph.Semantics{
		Name: "avg_pool2d",
		Doc: "Averages each window of an operand [N, C, H, W] or [C, H, W]. int64 is the only supported integer dtype. " +
			"The result has the memory format that the operand suggests.",
		Params: []graph.Param{kit.Self}, Kind: graph.Requires,
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			g, err := avgGeometry(c)
			if err != nil {
				return nil, err
			}
			t := c.Type(0)
			if t.Rank() < 3 {
				_, err := tensor.WrapDim(-3, t.Rank())
				return nil, err
			}
			shape, err := g.shape(t)
			if err != nil {
				return nil, err
			}
			if !t.DType.IsFloat() && t.DType != tensor.Int64 {
				return nil, poolDTypeError("avg_pool2d", t)
			}
			return poolResults(c, t, shape, t.DType, false)
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			g, err := avgGeometry(c)
			if err != nil {
				return nil, err
			}
			sizes, err := g.shape(in[0].Meta.Type())
			if err != nil {
				return nil, err
			}
			shape := kit.NumbersOf(sizes)
			a := kit.Attrs[avgPoolAttrs](c)
			axes := g.axes(in[0].Meta, tensor.New(tensor.Float32, shape...), a.CountIncludePad)
			return []*tensor.Tensor{avgPoolReference(in[0], shape, axes, avgDivisor(a))}, nil
		},
		Examples: poolExamples(graph.Attrs{"kernel_size": []int{2, 2}}),
	},
	Facts: graph.Facts{ImageRole: graph.ImageOp},
	Lowerings: graph.Lowerings{
		Impls: poolImpls(poolWork{poolAvg, avgPool2dVolume.windowArea},
			avgPool2dVolume.lowerWith(func(c *graph.Call, by poolWalk) (*graph.Kernel, error) {
				g, err := avgGeometry(c)
				if err != nil {
					return nil, err
				}
				a := kit.Attrs[avgPoolAttrs](c)
				return newPool(c, by, g.axes(c.Meta(0), c.Out[0], a.CountIncludePad),
					avgPoolOp(c.Meta(0).DType, avgDivisor(a)))
			})),
	},
}))

var avgPool2dVolume = &volumePool{name: "avg_pool2d", dims: 2, kind: poolAvg, args: func(c *graph.Call) *poolArgs {
	a := kit.Attrs[avgPoolAttrs](c)
	return &poolArgs{kernel: a.KernelSize, stride: a.Stride, padding: a.Padding, dilation: a.Dilation, ceil: a.CeilMode,
		include: a.CountIncludePad, divisor: a.DivisorOverride}
}}

func avgGeometry(c *graph.Call) (g poolGeometry, err error) {
	a := kit.Attrs[avgPoolAttrs](c)
	if g.kernel, err = pair(a.KernelSize, "avg_pool2d: kernel_size must either be a single int, or a tuple "+
		"of two ints"); err != nil {
		return g, err
	}
	if g.stride = g.kernel; len(a.Stride) > 0 {
		if g.stride, err = pair(a.Stride, "avg_pool2d: stride must either be omitted, a single int, or a tuple "+
			"of two ints"); err != nil {
			return g, err
		}
	}
	if g.padding, err = pair(a.Padding, "avg_pool2d: padding must either be a single int, or a tuple of two ints"); err !=
		nil {
		return g, err
	}
	if a.DivisorOverride != nil && *a.DivisorOverride == 0 {
		return g, errors.New("divisor must be not zero")
	}
	g.dilation, g.ceil = [2]int{1, 1}, a.CeilMode
	return g, nil
}

// avgDivisor returns divisor_override, or 0 if it is not set.
func avgDivisor(a *avgPoolAttrs) int {
	if a.DivisorOverride != nil {
		return *a.DivisorOverride
	}
	return 0
}
