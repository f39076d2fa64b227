package window

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type adaptivePoolAttrs struct {
	OutputSize []sym.Int `attr:"output_size" doc:"height and width of the result"`
}

// AdaptiveAvgPool2d averages windows that divide the operand evenly among the results.
var AdaptiveAvgPool2d = kit.Define[adaptivePoolAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "adaptive_avg_pool2d",
		Doc: "Averages windows that divide an operand [N, C, H, W] or [C, H, W] evenly among output_size results. " +
			"The result has the memory format that the operand suggests.",
		Params: []graph.Param{kit.Self}, Kind: graph.Requires,
		Infer: inferAdaptiveAvg,
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			t, size := in[0], outputNumbers(c)
			if size == [2]int{1, 1} && (t.DType.IsComplex() || t.Rank() != 3 && t.Rank() != 4 || t.Numel() == 0) {
				s := adaptiveMean(t.Meta, 2)
				return s.Reference(t), nil
			}
			axes := adaptiveAxes(t.Meta, size[:]...)
			shape := kit.NumbersOf(adaptiveShape(t.Meta.Type(), outputSize(c)))
			return []*tensor.Tensor{avgPoolReference(t, shape, axes, 0)}, nil
		},
		Examples: poolExamples(graph.Attrs{"output_size": []int{2, 2}}),
	},
	Facts: graph.Facts{ImageRole: graph.ImageOp},
	Lowerings: graph.Lowerings{
		Impls: poolImpls(poolWork{poolAvg, adaptiveArea(constDims(2))}, func(c *graph.Call,
			by poolWalk) (*graph.Kernel, error) {
			m, size := c.Meta(0), outputNumbers(c)
			if c.Out[0].Numel() == 0 {
				return &graph.Kernel{}, nil
			}
			if m.DType.IsComplex() || m.Rank() != 3 && m.Rank() != 4 || m.Numel() == 0 {
				return adaptiveMean(m, 2).Compile(c)
			}
			return newPool(c, by, adaptiveAxes(m, size[:]...), avgPoolOp(m.DType, 0))
		}),
	},
})

// AdaptiveMaxPool2d takes the maximum of such windows, and its index.
var AdaptiveMaxPool2d = kit.Define[adaptivePoolAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "adaptive_max_pool2d",
		Doc: "Takes the maximum, and its index in the plane, of windows that divide the operand evenly among " +
			"output_size results. Both results have the memory format that the operand suggests.",
		Params: []graph.Param{kit.Self}, Kind: graph.Requires, Outputs: []string{"out", "indices"},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			a, t := kit.Attrs[adaptivePoolAttrs](c), c.Type(0)
			const name = "adaptive_max_pool2d(): "
			if t.Rank() != 3 && t.Rank() != 4 {
				return nil, errors.New(name + "Expected 3D or 4D tensor, but got: " + tensor.Sizes(t.Shape))
			}
			if err := checkNotEmpty(name, t, 1); err != nil {
				return nil, err
			}
			if len(a.OutputSize) != 2 && len(a.OutputSize) != 1 {
				return nil, errors.New(name + "internal error: output_size.size() must be 2")
			}
			size := outputSize(c)
			if kit.Negative(size[0]) || kit.Negative(size[1]) {
				return nil, fmt.Errorf("Trying to create tensor with negative dimension %v: %s", size[0].Min(size[1]),
					tensor.Sizes(adaptiveShape(t, size)))
			}
			if !t.DType.IsFloat() {
				return nil, poolDTypeError("adaptive_max_pool2d", t)
			}
			return poolResults(c, t, adaptiveShape(t, size), t.DType, true)
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			size := outputNumbers(c)
			return maxPoolReference(in[0], kit.NumbersOf(adaptiveShape(in[0].Meta.Type(), outputSize(c))),
				adaptiveAxes(in[0].Meta, size[:]...)), nil
		},
		Examples: poolExamples(graph.Attrs{"output_size": []int{2, 2}}),
	},
	Facts: graph.Facts{ImageRole: graph.ImageOp},
	Lowerings: graph.Lowerings{
		Impls: poolImpls(poolWork{poolMax, adaptiveArea(constDims(2))}, func(c *graph.Call,
			by poolWalk) (*graph.Kernel, error) {
			m, size := c.Meta(0), outputNumbers(c)
			return newPool(c, by, adaptiveAxes(m, size[:]...), maxPoolOp(m.DType, true))
		}),
	},
})

// outputSize returns output_size; one number stands for both dimensions.
func outputSize(c *graph.Call) [2]sym.Int {
	v := kit.Attrs[adaptivePoolAttrs](c).OutputSize
	return [2]sym.Int{v[0], v[len(v)-1]}
}

func outputNumbers(c *graph.Call) [2]int {
	size := outputSize(c)
	return [2]int{kit.NumberOf(size[0]), kit.NumberOf(size[1])}
}

func inferAdaptiveAvg(c *graph.Call) ([]graph.Result, error) {
	a := kit.Attrs[adaptivePoolAttrs](c)
	if len(a.OutputSize) != 1 && len(a.OutputSize) != 2 {
		return nil, errors.New("adaptive_avg_pool2d: output_size must be 2")
	}
	return inferAdaptiveTo(c, c.Type(0), outputSize(c))
}
