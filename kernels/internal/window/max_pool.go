package window

import (
	"errors"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// MaxPool2d takes the maximum of each window; NaN propagates.
var (
	MaxPool2d = maxPool2dOp("max_pool2d", "Takes the maximum of each window of an operand [N, C, H, W] "+
		"or [C, H, W]. The result has the memory format that the operand suggests.", nil)
	MaxPool2dWithIndices = maxPool2dOp("max_pool2d_with_indices", "Takes the maximum of each window and its "+
		"index in the plane. The results have the memory format that the operand suggests.", []string{"out", "indices"})
)

func maxPool2dOp(name, doc string, outputs []string) *graph.Op {
	volume := &volumePool{name: "max_pool2d", dims: 2, kind: poolMax, args: func(c *graph.Call) *poolArgs {
		return kit.Attrs[maxPoolAttrs](c).args()
	}}
	return kit.Define[maxPoolAttrs](volume.extend(graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, Params: []graph.Param{kit.Self}, Kind: graph.Requires, Outputs: outputs,
			Infer: func(c *graph.Call) ([]graph.Result, error) {
				g, err := maxPoolGeometry(c)
				if err != nil {
					return nil, err
				}
				t := c.Type(0)
				if t.SuggestMemoryFormat(false) == tensor.ChannelsLast3d {
					return nil, errors.New("Unsupport memory format. Supports only ChannelsLast, Contiguous")
				}
				if r := t.Rank(); r != 3 && r != 4 {
					return nil, errors.New("non-empty 3D or 4D (batch mode) tensor expected for input")
				}
				shape, err := g.shape(t)
				if err != nil {
					return nil, err
				}
				if !t.DType.IsFloat() {
					return nil, poolDTypeError("max_pool2d", t)
				}
				return poolResults(c, t, shape, t.DType, outputs != nil)
			},
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				g, err := maxPoolGeometry(c)
				if err != nil {
					return nil, err
				}
				sizes, err := g.shape(in[0].Meta.Type())
				if err != nil {
					return nil, err
				}
				shape := kit.NumbersOf(sizes)
				axes := g.axes(in[0].Meta, tensor.New(tensor.Float32, shape...), true)
				return maxPoolReference(in[0], shape, axes)[:max(1, len(outputs))], nil
			},
			Examples: poolExamples(graph.Attrs{"kernel_size": []int{2, 2}}),
		},
		Facts: graph.Facts{ImageRole: graph.ImageOp},
		Lowerings: graph.Lowerings{
			Impls: poolImpls(poolWork{poolMax, volume.windowArea}, volume.lowerWith(func(c *graph.Call,
				by poolWalk) (*graph.Kernel, error) {
				g, err := maxPoolGeometry(c)
				if err != nil {
					return nil, err
				}
				return newPool(c, by, g.axes(c.Meta(0), c.Out[0], true), maxPoolOp(c.Meta(0).DType, outputs != nil))
			})),
		},
	}))
}

func maxPoolGeometry(c *graph.Call) (g poolGeometry, err error) {
	a := kit.Attrs[maxPoolAttrs](c)
	if g.kernel, err = pair(a.KernelSize, "max_pool2d: kernel_size must either be a single int, or a tuple "+
		"of two ints"); err != nil {
		return g, err
	}
	if g.stride = g.kernel; len(a.Stride) > 0 {
		if g.stride, err = pair(a.Stride, "max_pool2d: stride must either be omitted, a single int, or a tuple "+
			"of two ints"); err != nil {
			return g, err
		}
	}
	if g.padding, err = pair(a.Padding, "max_pool2d: padding must be either be a single int, or a tuple "+
		"of two ints"); err != nil {
		return g, err
	}
	g.ceil = a.CeilMode
	g.dilation, err = pair(a.Dilation, "max_pool2d: dilation must be either a single int, or a tuple of two ints")
	return g, err
}
