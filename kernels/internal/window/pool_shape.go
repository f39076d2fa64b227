package window

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// poolGeometry is the attributes of a pooling over height and width.
type poolGeometry struct {
	kernel, stride, padding, dilation [2]int
	ceil                              bool
}

// pair returns two numbers from a list of one or two. For other lengths it returns the error message.
func pair(v []int, message string) ([2]int, error) {
	switch len(v) {
	case 1:
		return [2]int{v[0], v[0]}, nil
	case 2:
		return [2]int{v[0], v[1]}, nil
	}
	return [2]int{}, errors.New(message)
}

// size returns the size of the output in dimension i (pooling_output_shape).
func (g *poolGeometry) size(i int, in sym.Int) (sym.Int, error) {
	k, pad, params := g.kernel[i], g.padding[i], g.params(i)
	switch {
	case params.stride == 0:
		return sym.Int{}, errors.New("stride should not be zero")
	case pad < 0:
		return sym.Int{}, fmt.Errorf("pad must be non-negative, but got pad: %d", pad)
	case pad > k/2:
		return sym.Int{}, fmt.Errorf("pad should be at most half of kernel size, but got pad=%d and kernel_size=%d", pad, k)
	}
	return pooledSize(in, 2*pad-params.reach()-1, pad, params.stride, g.ceil), nil
}

// pooledSize returns the number of windows whose starts are step apart. more is the difference between the last
// possible start and the size of the dimension; before is the padding at the begin.
func pooledSize(in sym.Int, more, before, step int, ceil bool) sym.Int {
	one, by := sym.Of(1), sym.Of(step)
	if ceil {
		more += step - 1
	}
	out := in.Add(sym.Of(more)).Div(by).Add(one)
	if ceil && out.Sub(one).Mul(by).Ge(in.Add(sym.Of(before))).Holds() {
		// The last window must begin inside the operand or the padding before it.
		out = out.Sub(one)
	}
	return out
}

// shape checks the operand and returns the shape of the output (pool2d_shape_check).
func (g *poolGeometry) shape(t tensor.Type) ([]sym.Int, error) {
	lead := t.Rank() - 2
	in := [2]sym.Int{t.Shape[lead], t.Shape[lead+1]}
	var out [2]sym.Int
	for i := range out {
		n, err := g.size(i, in[i])
		if err != nil {
			return nil, err
		}
		out[i] = n
	}
	switch {
	case g.kernel[0] <= 0 || g.kernel[1] <= 0:
		return nil, fmt.Errorf("kernel size should be greater than zero, but got kH: %d kW: %d", g.kernel[0], g.kernel[1])
	case g.stride[0] <= 0 || g.stride[1] <= 0:
		return nil, fmt.Errorf("stride should be greater than zero, but got dH: %d dW: %d", g.stride[0], g.stride[1])
	case g.dilation[0] <= 0 || g.dilation[1] <= 0:
		return nil, fmt.Errorf("dilation should be greater than zero, but got dilationH: %d dilationW: %d", g.dilation[0],
			g.dilation[1])
	}
	for d, s := range t.Shape {
		if !(d == 0 && t.Rank() == 4) && kit.Is(s, 0) || t.Rank() > 4 {
			return nil, fmt.Errorf("Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:%s",
				tensor.Sizes(t.Shape))
		}
	}
	if !kit.AtLeastSize(out[0], 1) || !kit.AtLeastSize(out[1], 1) {
		planes := t.Shape[lead-1]
		return nil, fmt.Errorf("Given input size: (%vx%vx%v). Calculated output size: (%vx%vx%v). Output size is too small",
			planes, in[0], in[1], planes, out[0], out[1])
	}
	return kit.With(t.Shape, lead, out[0], out[1]), nil
}

// params returns the parameters of one dimension.
func (g *poolGeometry) params(i int) axisParams {
	return axisParams{kernel: g.kernel[i], stride: g.stride[i], begin: g.padding[i], end: g.padding[i],
		dilation: g.dilation[i], ceil: g.ceil}
}

// axes returns the windows of the output's rows and columns; include counts padding in their sizes.
func (g *poolGeometry) axes(in, out tensor.Meta, include bool) []poolAxis {
	axes, lead := make([]poolAxis, 2), in.Rank()-2
	for i := range axes {
		axes[i] = slidingAxis(g.params(i), in.Shape[lead+i], out.Shape[lead+i], include)
	}
	return axes
}

// poolDTypeError is the error for an unsupported dtype, with the name of the kernel that PyTorch would choose for the
// layout.
func poolDTypeError(name string, t tensor.Type) error {
	if t.SuggestMemoryFormat(false) == tensor.ChannelsLast {
		name += "_channels_last"
	}
	return kit.NotImplementedBy(name, t.DType)
}

// poolResults returns results in the format that the operand suggests; d is the dtype of the first.
func poolResults(c *graph.Call, t tensor.Type, shape []sym.Int, d tensor.DType, indices bool) ([]graph.Result, error) {
	out, err := tensor.NewTypeFormat(d, shape, t.SuggestMemoryFormat(false))
	if indices {
		return kit.WithIndices(c, out), err
	}
	return c.One(out), err
}

// checkNotEmpty rejects sizes of 0 from dimension first on.
func checkNotEmpty(name string, t tensor.Type, first int) error {
	for d := first; d < t.Rank(); d++ {
		if kit.Is(t.Shape[d], 0) {
			return fmt.Errorf("%sExpected input to have non-zero size for non-batch dimensions, but input has sizes %s with "+
				"dimension %d being empty",
				name, tensor.Sizes(t.Shape), d)
		}
	}
	return nil
}

func adaptiveShape(t tensor.Type, size [2]sym.Int) []sym.Int {
	return kit.With(t.Shape, t.Rank()-2, size[:]...)
}

func inferAdaptiveTo(c *graph.Call, t tensor.Type, size [2]sym.Int) ([]graph.Result, error) {
	if kit.Negative(size[0]) || kit.Negative(size[1]) {
		return nil, fmt.Errorf("adaptive_avg_pool2d: elements of output_size must be greater than or equal to 0 but "+
			"received {%v, %v}", size[0], size[1])
	}
	if kit.Is(size[0], 1) && kit.Is(size[1], 1) {
		return inferGlobalAvg(c, t)
	}
	const name = "adaptive_avg_pool2d(): "
	if t.Rank() != 3 && t.Rank() != 4 {
		return nil, errors.New(name + "Expected 3D or 4D tensor, but got " + tensor.Sizes(t.Shape))
	}
	if err := checkNotEmpty(name, t, t.Rank()-2); err != nil {
		return nil, err
	}
	if !t.DType.IsFloat() && !kit.Empty(t) {
		return nil, poolDTypeError("adaptive_avg_pool2d", t)
	}
	return poolResults(c, t, adaptiveShape(t, size), t.DType, false)
}

// inferGlobalAvg infers the average of whole planes. PyTorch computes it as a mean over the last two dimensions, which
// supports any rank and complex values, and gives it channels-last strides.
func inferGlobalAvg(c *graph.Call, t tensor.Type) ([]graph.Result, error) {
	for _, d := range []int{-1, -2} {
		if _, err := tensor.WrapDim(d, t.Rank()); err != nil {
			return nil, err
		}
	}
	if !t.DType.IsFloat() && !t.DType.IsComplex() {
		return nil, fmt.Errorf("mean(): could not infer output dtype. Input dtype must be either a floating point or "+
			"complex dtype. Got: %s", t.DType.TorchName())
	}
	if t.Rank() < 2 {
		return nil, errors.New("dim 0 appears multiple times in the list of dims")
	}
	one := sym.Of(1)
	out := tensor.NewType(t.DType, adaptiveShape(t, [2]sym.Int{one, one})...)
	if t.SuggestMemoryFormat(false) == tensor.ChannelsLast {
		out.Strides = []sym.Int{t.Shape[1], one, t.Shape[1], t.Shape[1]}
	}
	return c.One(out), nil
}

// adaptiveAxes returns the windows of adaptive pooling over the last dimensions of m.
func adaptiveAxes(m tensor.Meta, size ...int) []poolAxis {
	axes, lead := make([]poolAxis, len(size)), m.Rank()-len(size)
	for i := range axes {
		axes[i] = adaptiveAxis(m.Shape[lead+i], size[i])
	}
	return axes
}

// lineOf is [planar] for types whose sizes may be unknown.
func lineOf(t tensor.Type) tensor.Type {
	p, err := t.Unsqueeze(-2)
	if err != nil {
		panic(err)
	}
	return p
}

func check1d(name string, rank int) error {
	if rank != 2 && rank != 3 {
		return fmt.Errorf("Expected 2 to 3 dimensions, but got %d-dimensional tensor for argument #1 'self' (while "+
			"checking arguments for %s)", rank, name)
	}
	return nil
}
