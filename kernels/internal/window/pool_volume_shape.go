package window

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// poolArgs is the attributes of a pooling over any number of dimensions, as given.
type poolArgs struct {
	kernel, stride, padding, dilation []int

	ceil    bool
	include bool    // averages count the padding
	divisor *int    // divisor_override of averages
	norm    float64 // exponent of poolNorm
}

// axisParams is the parameters of a pooling along one dimension; begin and end are its padding.
type axisParams struct {
	kernel, stride, begin, end, dilation int
	ceil                                 bool
}

// volumePool describes a pooling op over dims dimensions.
type volumePool struct {
	name string
	dims int
	kind poolKind
	args func(c *graph.Call) *poolArgs
}

// asymmetric reports whether the padding lists all begins and then all ends. ONNX needs this form; PyTorch has no
// equivalent.
func (a *poolArgs) asymmetric(dims int) bool { return len(a.padding) == 2*dims }

var poolNumbers = []string{"", "one int", "two ints", "three ints"}

// params returns the parameters of each dimension; single numbers apply to all.
func (p *volumePool) params(a *poolArgs) ([]axisParams, error) {
	form := "%s: %s must either be a single int, or a tuple of " + poolNumbers[min(p.dims, 3)]
	omitted := "%s: %s must either be omitted, a single int, or a tuple of " + poolNumbers[min(p.dims, 3)]
	if p.kind == poolAvg {
		form, omitted = strings.ReplaceAll(form, " either", ""), strings.ReplaceAll(omitted, " either", "")
	}
	out := make([]axisParams, p.dims)
	stride, stated := a.stride, omitted
	if len(stride) == 0 {
		stride, stated = a.kernel, form
	}
	padding := a.padding
	if a.asymmetric(p.dims) {
		padding = padding[:p.dims]
	}
	for _, l := range []struct {
		name, form string
		list       []int
		set        func(s *axisParams, v int)
	}{
		{"kernel_size", form, a.kernel, func(s *axisParams, v int) { s.kernel = v }},
		{"stride", stated, stride, func(s *axisParams, v int) { s.stride = v }},
		{"padding", strings.Replace(form, "must either be", "must be either be", 1), padding, func(s *axisParams, v int) {
			s.begin, s.end = v, v
		}},
		{"dilation", form, a.dilation, func(s *axisParams, v int) { s.dilation = v }},
	} {
		if len(l.list) != 1 && len(l.list) != p.dims {
			return nil, fmt.Errorf(l.form, p.name, l.name)
		}
		for i := range out {
			l.set(&out[i], l.list[min(i, len(l.list)-1)])
		}
	}
	for i := range out {
		if out[i].ceil = a.ceil; a.asymmetric(p.dims) {
			out[i].end = a.padding[p.dims+i]
		}
	}
	return out, nil
}

// size returns the size of the result in a dimension of n elements (pooling_output_shape).
func (s *axisParams) size(n sym.Int, asymmetric bool) (sym.Int, error) {
	switch pad := min(s.begin, s.end); {
	case s.stride == 0:
		return sym.Int{}, errors.New("stride should not be zero")
	case pad < 0:
		return sym.Int{}, fmt.Errorf("pad must be non-negative, but got pad: %d", pad)
	case !asymmetric && pad > s.kernel/2:
		return sym.Int{}, fmt.Errorf("pad should be at most half of kernel size, but got pad=%d and kernel_size=%d",
			pad, s.kernel)
	}
	return pooledSize(n, s.begin+s.end-s.reach()-1, s.begin, s.stride, s.ceil), nil
}

// axes returns the windows of all dimensions.
func (p *volumePool) axes(a *poolArgs, in, out tensor.Meta) ([]poolAxis, error) {
	params, err := p.params(a)
	if err != nil {
		return nil, err
	}
	var axes []poolAxis
	for i := range params {
		axes = append(axes, slidingAxis(params[i], in.Shape[in.Rank()-p.dims+i], out.Shape[out.Rank()-p.dims+i], a.include))
	}
	return axes, nil
}

// shape checks the attributes against the operand and returns the shape of the result (pool3d_shape_check).
func (p *volumePool) shape(a *poolArgs, t tensor.Type) ([]sym.Int, error) {
	params, err := p.params(a)
	if err != nil {
		return nil, err
	}
	lead := t.Rank() - p.dims
	shape := slices.Clone(t.Shape)
	small := false
	for i := range params {
		n, err := params[i].size(t.Shape[lead+i], a.asymmetric(p.dims))
		if err != nil {
			return nil, err
		}
		small = small || !kit.AtLeastSize(n, 1)
		shape[lead+i] = n
	}
	if err := p.positive(params); err != nil {
		return nil, err
	}
	for d := t.Rank() - p.dims - 1; d < t.Rank(); d++ {
		if d < 0 || kit.Is(t.Shape[d], 0) {
			return nil, p.empty(t, d)
		}
	}
	if p.kind == poolAvg && p.dims == 3 {
		for i, s := range params {
			if in := t.Shape[lead+i]; !kit.AtLeastSize(in.Add(sym.Of(s.begin+s.end)), s.kernel) {
				return nil, fmt.Errorf("input image (T: %v H: %v W: %v) smaller than kernel size (kT: %d kH: %d kW: %d)",
					t.Shape[lead], t.Shape[lead+1], t.Shape[lead+2], params[0].kernel, params[1].kernel, params[2].kernel)
			}
		}
	}
	if small {
		return nil, fmt.Errorf("Given input size: (%s). Calculated output size: (%s). Output size is too small",
			byX(t.Shape[lead-1:]), byX(shape[lead-1:]))
	}
	return shape, nil
}

// positive rejects windows, steps and dilations that are not positive.
func (p *volumePool) positive(params []axisParams) error {
	letters := []string{"T", "H", "W"}[3-p.dims:]
	for _, l := range []struct {
		what, prefix string
		get          func(s axisParams) int
	}{
		{"kernel size", "k", func(s axisParams) int { return s.kernel }},
		{"stride", "d", func(s axisParams) int { return s.stride }},
		{"dilation", "dilation", func(s axisParams) int { return s.dilation }},
	} {
		ok := true
		text := ""
		for i, s := range params {
			ok = ok && l.get(s) > 0
			text += fmt.Sprintf(" %s%s: %d", l.prefix, letters[i], l.get(s))
		}
		if !ok {
			return fmt.Errorf("%s should be greater than zero, but got%s", l.what, text)
		}
	}
	return nil
}

// empty returns the error for an operand whose dimension d is empty.
func (p *volumePool) empty(t tensor.Type, d int) error {
	name := p.name
	if p.kind == poolMax {
		name = strings.TrimSuffix(name, "_with_indices") + "_with_indices_out_cpu_template"
	}
	return fmt.Errorf("%s(): Expected input's non-batch dimensions to have positive length, but input has a shape of %s "+
		"and non-batch dimension %d has length zero!",
		name, tensor.Sizes(t.Shape), max(0, d-(t.Rank()-p.dims-1)))
}

// byX formats sizes as PyTorch's messages about volumes do.
func byX[S int | sym.Int](sizes []S) string {
	parts := make([]string, len(sizes))
	for i, s := range sizes {
		parts[i] = fmt.Sprint(s)
	}
	return strings.Join(parts, "x")
}

// infer checks a call and infers its results: row-major for volumes; images, and sequences as images of height 1, have
// the format that the operand suggests.
func (p *volumePool) infer(c *graph.Call, indices bool) ([]graph.Result, error) {
	a, t := p.args(c), c.Type(0)
	if r := t.Rank(); r != p.dims+1 && r != p.dims+2 {
		return nil, p.rank(r)
	}
	if a.divisor != nil && *a.divisor == 0 {
		return nil, errors.New("divisor must be not zero")
	}
	shape, err := p.shape(a, t)
	if err != nil {
		return nil, err
	}
	if err := p.supports(a, t.DType); err != nil {
		return nil, err
	}
	out := tensor.NewType(t.DType, shape...)
	switch p.dims {
	case 1:
		out, err = likeLine(t, out)
	case 2:
		out, err = tensor.NewTypeFormat(t.DType, shape, t.SuggestMemoryFormat(false))
	}
	if err != nil {
		return nil, err
	}
	if indices {
		return kit.WithIndices(c, out), nil
	}
	return c.One(out), nil
}

// rank returns the error for an operand of the wrong rank.
func (p *volumePool) rank(rank int) error {
	if p.dims == 1 {
		return check1d(strings.TrimSuffix(p.name, "_with_indices"), rank)
	}
	return fmt.Errorf("non-empty %dD or %dD (batch mode) tensor expected for input", p.dims+1, p.dims+2)
}

// supports rejects dtypes without loops. The maximum of integers is supported only with ONNX's form of padding, since
// PyTorch has no kernels for it.
func (p *volumePool) supports(a *poolArgs, d tensor.DType) error {
	switch {
	case d.IsFloat(), p.kind == poolAvg && d == tensor.Int64:
		return nil
	case p.kind == poolMax && d.IsIntegral(false) && !d.IsBareUnsigned() && a.asymmetric(p.dims):
		return nil
	}
	return kit.NotImplementedBy(p.label(), d)
}

// label returns PyTorch's name of the kernel.
func (p *volumePool) label() string {
	switch {
	case p.kind == poolMax && p.dims == 3:
		return "max_pool3d_with_indices_cpu"
	case p.kind == poolMax:
		return "max_pool2d"
	case p.kind == poolAvg && p.dims == 3:
		return "avg_pool3d_out_frame"
	case p.kind == poolAvg:
		return "avg_pool2d"
	}
	return p.name
}

// compile makes the kernel with a walk.
func (p *volumePool) compile(c *graph.Call, by poolWalk) (*graph.Kernel, error) {
	a := p.args(c)
	axes, err := p.axes(a, c.Meta(0), c.Out[0])
	if err != nil {
		return nil, err
	}
	return volumeKernel(c, by, p.kind, a, axes)
}

// ref is the reference implementation; it computes positions from the attributes only.
func (p *volumePool) ref(c *graph.Call, in []*tensor.Tensor, indices bool) ([]*tensor.Tensor, error) {
	a, t := p.args(c), in[0]
	params, err := p.params(a)
	if err != nil {
		return nil, err
	}
	sizes, err := p.shape(a, t.Meta.Type())
	if err != nil {
		return nil, err
	}
	shape := kit.NumbersOf(sizes)
	return volumeReference(t, shape, p.dims, p.kind, a, indices, func(d, o int) (first int, at []int, size int) {
		s, n := params[d], t.Shape[t.Rank()-p.dims+d]
		start, step := o*s.stride-s.begin, s.dilation
		skipped := 0
		if start < 0 {
			skipped = kit.DivUp(-start, step)
		}
		first = start + skipped*step
		for i := first; i < n && skipped+len(at) < s.kernel; i += step {
			at = append(at, i)
		}
		if !a.include {
			return first, at, len(at)
		}
		return first, at, min(s.kernel, kit.DivUp(n+s.end-start, step))
	}), nil
}

// needsVolume reports whether the kernels for images do not support a call: its padding is asymmetric, or it is a
// dilated average.
func (p *volumePool) needsVolume(c *graph.Call) bool {
	a := p.args(c)
	return a.asymmetric(p.dims) || p.kind == poolAvg && slices.ContainsFunc(a.dilation, func(d int) bool { return d != 1 })
}

// extend makes an op with its own kernels support asymmetric padding, and the other calls that those kernels reject, by
// the kernels for volumes.
func (p *volumePool) extend(o graph.Op) graph.Op {
	inner := o
	o.Infer = func(c *graph.Call) ([]graph.Result, error) {
		if p.needsVolume(c) {
			return p.infer(c, len(o.Outputs) > 1)
		}
		return inner.Infer(c)
	}
	o.Ref = func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		if p.needsVolume(c) {
			return p.ref(c, in, len(o.Outputs) > 1)
		}
		return inner.Ref(c, in)
	}
	return o
}

// lowerWith returns the compile function of an extended op: compile for the calls it supports, else the volume's.
func (p *volumePool) lowerWith(compile poolCompile) poolCompile {
	return func(c *graph.Call, by poolWalk) (*graph.Kernel, error) {
		if p.needsVolume(c) {
			return p.compile(c, by)
		}
		return compile(c, by)
	}
}

// likeLine returns the layout of sequences as images of height 1, in the format that t suggests.
func likeLine(t, out tensor.Type) (tensor.Type, error) {
	last := out.Rank() - 1
	p, err := tensor.NewTypeFormat(t.DType, slices.Insert(slices.Clone(out.Shape), last, sym.Of(1)),
		lineOf(t).SuggestMemoryFormat(false))
	if err != nil {
		return p, err
	}
	return p.Squeeze(-2)
}
