package pool

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// pooling describes a pooling op over the last dims dimensions, 1 to 3. The operand has a channel dimension before the
// pooled dimensions, and may have a batch dimension before the channels.
type pooling struct {
	name           string                        // name in error messages
	dims           int                           // number of pooled dimensions
	kind           reduction                     // reduction
	returnsIndices bool                          // whether the op also returns the indices of maxima
	isAdaptive     bool                          // whether windows divide the operand evenly among the results
	args           func(c *graph.Call) callAttrs // decodes the attributes of a call
}

// callAttrs has the attributes of a call of any pooling. A list of one number applies to all dimensions.
type callAttrs struct {
	kernel, stride, padding, dilation []int     // attributes of sliding windows
	output                            []sym.Int // sizes of the result, for adaptive windows

	ceilMode     bool    // whether output sizes are rounded up
	countPadding bool    // whether averages count the padding
	divisor      *int    // divisor_override of averages
	exponent     float64 // p of the p-norm, for reduceNorm
}

// compile makes the kernel of a call. A kernel by pixels computes all channels of a position at once. A kernel by
// planes computes each channel separately.
func (p *pooling) compile(c *graph.Call, order visitOrder) (*graph.Kernel, error) {
	if operand := c.Meta(0); p.isMean(operand) && c.Out[0].Numel() > 0 {
		return p.mean(operand).Compile(c)
	}
	axes, err := p.callAxes(c)
	if err != nil {
		return nil, err
	}
	return newKernel(c, order, p.fold(p.args(c)), axes)
}

// reference computes a pooling by its definition.
func (p *pooling) reference(call *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	results, err := p.infer(call)
	if err != nil {
		return nil, err
	}
	operand, shape := in[0], kit.KnownSizes(results[0].Type.Shape)
	if p.isMean(operand.Meta) && tensor.Numel(shape) > 0 {
		return p.mean(operand.Meta).Reference(operand), nil
	}
	axes, err := p.axes(p.args(call), operand.Shape, shape)
	if err != nil {
		return nil, err
	}
	return foldReference(operand, shape, axes, p.fold(p.args(call))), nil
}

// isMean reports whether a pooling is computed as a mean over the last dims dimensions of the operand, because the
// kernels of poolings do not support the operand. In PyTorch, an adaptive average to size 1 is such a mean. Therefore
// it supports complex numbers, empty operands and other ranks. For other sizes, inference accepts such operands only if
// the result is empty.
func (p *pooling) isMean(operand tensor.Meta) bool {
	return p.isAdaptive && p.kind == reduceAvg &&
		(operand.DType.IsComplex() || operand.Rank() != p.dims+1 && operand.Rank() != p.dims+2 || operand.Numel() == 0)
}

// mean returns the mean over the last dims dimensions.
func (p *pooling) mean(operand tensor.Meta) *folds.Spec {
	mask := make([]bool, operand.Rank())
	for d := range p.dims {
		mask[operand.Rank()-1-d] = true
	}
	count := float64(folds.Count(operand.Shape, mask)) // averaged elements
	return &folds.Spec{Mask: mask, Keepdim: true, Cast: operand.DType, Outs: []tensor.DType{operand.DType},
		Computation: func() folds.Computation { return folds.Summing(operand.DType, count) }}
}

// fold returns the reduction with its attributes.
func (p *pooling) fold(args callAttrs) foldSpec {
	fold := foldSpec{kind: p.kind, returnsIndices: p.returnsIndices, countPadding: args.countPadding,
		exponent: args.exponent}
	if args.divisor != nil {
		fold.divisor = *args.divisor
	}
	return fold
}

// callAxes returns the pooled dimensions of a call.
func (p *pooling) callAxes(c *graph.Call) ([]geometry.Axis, error) {
	return p.axes(p.args(c), c.Meta(0).Shape, c.Out[0].Shape)
}

// axes returns the pooled dimensions. in and out are the shapes of the operand and of the result.
func (p *pooling) axes(args callAttrs, in, out []int) ([]geometry.Axis, error) {
	axes := make([]geometry.Axis, p.dims)
	in, out = in[len(in)-p.dims:], out[len(out)-p.dims:]
	if p.isAdaptive {
		for i := range axes {
			axes[i] = geometry.AdaptiveAxis(in[i], out[i])
		}
		return axes, nil
	}
	windows, err := p.slidingWindows(args)
	for i := range axes {
		axes[i] = geometry.Axis{Window: windows[i], Size: in[i], Results: out[i]}
	}
	return axes, err
}

// slidingWindows returns the windows that the attributes describe. Only the first dims windows are set.
func (p *pooling) slidingWindows(args callAttrs) (windows [maxDims]geometry.Window, err error) {
	stride, before, after := args.stride, args.padding, args.padding
	if len(stride) == 0 {
		stride = args.kernel
	}
	if p.hasONNXPadding(args) {
		before, after = args.padding[:p.dims], args.padding[p.dims:]
	}
	for _, attr := range [...]struct {
		name string
		list []int
	}{
		{"kernel_size", args.kernel}, {"stride", stride}, {"padding", before}, {"padding", after},
		{"dilation", args.dilation},
	} {
		if len(attr.list) != 1 && len(attr.list) != p.dims {
			return windows, p.lengthError(attr.name, len(attr.list))
		}
	}
	for i := range p.dims {
		windows[i] = geometry.Window{Taps: forDim(args.kernel, i), Stride: forDim(stride, i), PadBefore: forDim(before, i),
			PadAfter: forDim(after, i), Dilation: forDim(args.dilation, i), CeilMode: args.ceilMode}
	}
	return windows, nil
}

// hasONNXPadding reports whether the padding has ONNX's form: first the padding before each dimension, then the padding
// after each dimension. PyTorch has no equivalent. Calls with such padding also accept sizes of 0 and no windows.
func (p *pooling) hasONNXPadding(args callAttrs) bool { return len(args.padding) == 2*p.dims }

// forDim returns the number of a list for a dimension. A list of one number applies to all dimensions.
func forDim(list []int, dim int) int { return list[min(dim, len(list)-1)] }

// typicalTaps estimates the number of taps of a window, for costs.
func (p *pooling) typicalTaps(c *graph.Call) float64 {
	axes, err := p.callAxes(c)
	if err != nil {
		panic("pool: inference accepted a pooling with invalid attributes: " + err.Error())
	}
	taps := 1.0
	for i := range axes {
		taps *= float64(axes[i].TypicalCount())
	}
	return taps
}
