package kernels

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type adaptivePoolAttrs struct {
	OutputSize []sym.Int `attr:"output_size" doc:"height and width of the result"`
}

// AdaptiveAvgPool2d averages windows that share the operand out among the results.
var AdaptiveAvgPool2d = define[adaptivePoolAttrs](graph.Op{
	Images: graph.ImageOp,
	Name:   "adaptive_avg_pool2d",
	Doc:    "Averages windows that share an operand [N, C, H, W] or [C, H, W] out among results of output_size.",
	Params: []graph.Param{self}, Kind: graph.Requires,
	Infer: inferAdaptiveAvg,
	Impls: poolImpls(func(c *graph.Call, by poolWalk) (*graph.Kernel, error) {
		m, size := c.Meta(0), outputNumbers(c)
		if c.Out[0].Numel() == 0 {
			return &graph.Kernel{}, nil
		}
		if m.DType.IsComplex() || m.Rank() != 3 && m.Rank() != 4 || m.Numel() == 0 {
			return adaptiveMean(m, 2).compile(c)
		}
		rows, cols := adaptiveWindows(m, size)
		return newPool(c, by, rows, cols, avgPoolOp(m.DType, 0)), nil
	}),
	Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		t, size := in[0], outputNumbers(c)
		if size == [2]int{1, 1} && (t.DType.IsComplex() || t.Rank() != 3 && t.Rank() != 4 || t.Numel() == 0) {
			s := adaptiveMean(t.Meta, 2)
			return s.reference(t), nil
		}
		rows, cols := adaptiveWindows(t.Meta, size)
		shape := numbersOf(adaptiveShape(t.Meta.Type(), outputSize(c)))
		return []*tensor.Tensor{avgPoolReference(t, shape, rows, cols, 0)}, nil
	},
	Examples: poolExamples(graph.Attrs{"output_size": []int{2, 2}}),
})

// AdaptiveMaxPool2d takes the greatest element of such windows, and its index.
var AdaptiveMaxPool2d = define[adaptivePoolAttrs](graph.Op{
	Images: graph.ImageOp,
	Name:   "adaptive_max_pool2d",
	Doc:    "Takes the greatest element, and its index in the plane, of windows that share the operand out among results of output_size.",
	Params: []graph.Param{self}, Kind: graph.Requires, Outputs: []string{"out", "indices"},
	Infer: func(c *graph.Call) ([]graph.Result, error) {
		a, t := attrs[adaptivePoolAttrs](c), c.Type(0)
		const name = "adaptive_max_pool2d(): "
		if t.Rank() != 3 && t.Rank() != 4 {
			return nil, errors.New(name + "Expected 3D or 4D tensor, but got: " + tensor.Sizes(t.Shape))
		}
		if err := noneEmpty(name, t, 1); err != nil {
			return nil, err
		}
		if len(a.OutputSize) != 2 && len(a.OutputSize) != 1 {
			return nil, errors.New(name + "internal error: output_size.size() must be 2")
		}
		size := outputSize(c)
		if negative(size[0]) || negative(size[1]) {
			return nil, fmt.Errorf("Trying to create tensor with negative dimension %v: %s", size[0].Min(size[1]), tensor.Sizes(adaptiveShape(t, size)))
		}
		if !t.DType.IsFloat() {
			return nil, poolNotServed("adaptive_max_pool2d", t)
		}
		return poolResults(t, adaptiveShape(t, size), t.DType, true)
	},
	Impls: poolImpls(func(c *graph.Call, by poolWalk) (*graph.Kernel, error) {
		m := c.Meta(0)
		rows, cols := adaptiveWindows(m, outputNumbers(c))
		return newPool(c, by, rows, cols, maxPoolOp(m.DType, true)), nil
	}),
	Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		rows, cols := adaptiveWindows(in[0].Meta, outputNumbers(c))
		return maxPoolReference(in[0], numbersOf(adaptiveShape(in[0].Meta.Type(), outputSize(c))), rows, cols), nil
	},
	Examples: poolExamples(graph.Attrs{"output_size": []int{2, 2}}),
})

// outputSize takes one number for both dimensions.
func outputSize(c *graph.Call) [2]sym.Int {
	v := attrs[adaptivePoolAttrs](c).OutputSize
	return [2]sym.Int{v[0], v[len(v)-1]}
}

func outputNumbers(c *graph.Call) [2]int {
	size := outputSize(c)
	return [2]int{numberOf(size[0]), numberOf(size[1])}
}

// noneEmpty refuses sizes of 0 from dimension first on.
func noneEmpty(name string, t tensor.Type, first int) error {
	for d := first; d < t.Rank(); d++ {
		if is(t.Shape[d], 0) {
			return fmt.Errorf("%sExpected input to have non-zero size for non-batch dimensions, but input has sizes %s with dimension %d being empty",
				name, tensor.Sizes(t.Shape), d)
		}
	}
	return nil
}

func adaptiveShape(t tensor.Type, size [2]sym.Int) []sym.Int {
	return with(t.Shape, t.Rank()-2, size[:]...)
}

func inferAdaptiveAvg(c *graph.Call) ([]graph.Result, error) {
	a := attrs[adaptivePoolAttrs](c)
	if len(a.OutputSize) != 1 && len(a.OutputSize) != 2 {
		return nil, errors.New("adaptive_avg_pool2d: output_size must be 2")
	}
	return inferAdaptiveTo(c.Type(0), outputSize(c))
}

func inferAdaptiveTo(t tensor.Type, size [2]sym.Int) ([]graph.Result, error) {
	if negative(size[0]) || negative(size[1]) {
		return nil, fmt.Errorf("adaptive_avg_pool2d: elements of output_size must be greater than or equal to 0 but received {%v, %v}", size[0], size[1])
	}
	if is(size[0], 1) && is(size[1], 1) {
		return inferGlobalAvg(t)
	}
	const name = "adaptive_avg_pool2d(): "
	if t.Rank() != 3 && t.Rank() != 4 {
		return nil, errors.New(name + "Expected 3D or 4D tensor, but got " + tensor.Sizes(t.Shape))
	}
	if err := noneEmpty(name, t, t.Rank()-2); err != nil {
		return nil, err
	}
	if !t.DType.IsFloat() && !empty(t) {
		return nil, poolNotServed("adaptive_avg_pool2d", t)
	}
	return poolResults(t, adaptiveShape(t, size), t.DType, false)
}

// inferGlobalAvg: to size 1 by 1 PyTorch takes the mean over the last two dimensions, of
// any rank and of complex values too, and gives it channels-last strides.
func inferGlobalAvg(t tensor.Type) ([]graph.Result, error) {
	for _, d := range []int{-1, -2} {
		if _, err := tensor.WrapDim(d, t.Rank()); err != nil {
			return nil, err
		}
	}
	if !t.DType.IsFloat() && !t.DType.IsComplex() {
		return nil, fmt.Errorf("mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: %s", t.DType.TorchName())
	}
	if t.Rank() < 2 {
		return nil, errors.New("dim 0 appears multiple times in the list of dims")
	}
	one := sym.Of(1)
	out := tensor.NewType(t.DType, adaptiveShape(t, [2]sym.Int{one, one})...)
	if t.SuggestMemoryFormat(false) == tensor.ChannelsLast {
		out.Strides = []sym.Int{t.Shape[1], one, t.Shape[1], t.Shape[1]}
	}
	return graph.New1(out), nil
}

// adaptiveMean is the mean over the last dims dimensions.
func adaptiveMean(m tensor.Meta, dims int) *reduceSpec {
	mask := make([]bool, m.Rank())
	for d := range dims {
		mask[m.Rank()-1-d] = true
	}
	n := float64(reduceCount(m.Shape, mask))
	return &reduceSpec{mask: mask, keepdim: true, cast: m.DType, outs: []tensor.DType{m.DType},
		fold: func() *iter.Fold { return sumFold(m.DType, n) }, ref: refSum(m.DType, n)}
}

// adaptiveWindows: result o takes the elements from floor(o*in/out) to
// ceil((o+1)*in/out).
func adaptiveWindows(m tensor.Meta, size [2]int) (rows, cols []window) {
	side := func(in, out int) []window {
		w := make([]window, out)
		for o := range w {
			start, end := o*in/out, ((o+1)*in+out-1)/out
			w[o] = window{start, end, 1, end - start}
		}
		return w
	}
	lead := m.Rank() - 2
	return side(m.Shape[lead], size[0]), side(m.Shape[lead+1], size[1])
}
