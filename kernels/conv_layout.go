package kernels

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// infer checks a call and lays out its result as at::convolution does.
func (v convolution) infer(c *graph.Call) ([]graph.Result, error) {
	m, err := v.result(c)
	if err != nil {
		return nil, err
	}
	return graph.New1(m.Type()), nil
}

func (v convolution) result(c *graph.Call) (tensor.Meta, error) {
	p, x, w := v.params(c), c.Meta(0), c.Meta(1)
	if r := x.Rank(); r != v.dims+1 && r != v.dims+2 {
		return x, fmt.Errorf("Expected %dD (unbatched) or %dD (batched) input to %s, but got input of size: %s", v.dims+1, v.dims+2, v.name, tensor.ListString(x.Shape))
	}
	unbatched := x.Rank() == v.dims+1
	if unbatched {
		var err error
		if x, err = x.Unsqueeze(0); err != nil {
			return x, err
		}
	}
	if err := p.checkWord(x, w); err != nil {
		return x, err
	}
	if err := v.checkBias(c, x); err != nil && p.word == "" {
		return x, err
	}
	p, x, err := p.evened(x)
	if err != nil {
		return x, err
	}
	if err := p.check(c, x, w); err != nil {
		return x, err
	}
	shape := p.outShape(x, w)
	out := tensor.New(x.DType, shape...)
	if x.Shape[0] != 0 && x.Shape[1] != 0 {
		if err := p.serves(c, x, w); err != nil {
			return x, err
		}
		out = p.layOut(x, w, shape)
	} else if slices.Equal(shape, x.Shape) {
		out = emptyBatch(x)
	}
	if unbatched {
		return out.Squeeze(0)
	}
	return out, out.Check()
}

// check is check_shape_forward.
func (p convParams) check(c *graph.Call, x, w tensor.Meta) error {
	dims := w.Rank() - 2
	if dims < 1 {
		return errors.New("weight should have at least three dimensions")
	}
	if p.groups <= 0 {
		return errors.New("non-positive groups is not supported")
	}
	for _, l := range []struct {
		name string
		list []int
	}{{"stride", p.stride}, {"padding", p.padding}, {"dilation", p.dilation}} {
		if len(l.list) != dims && len(l.list) != 1 {
			return fmt.Errorf("expected %s to be a single integer value or a list of %d values to match the convolution dimensions, but got %s=%s", l.name, dims, l.name, tensor.ListString(l.list))
		}
	}
	for d := range len(p.stride) {
		switch {
		case p.padding[d] < 0 || p.end[d] < 0:
			return errors.New("negative padding is not supported")
		case p.stride[d] <= 0:
			return errors.New("non-positive stride is not supported")
		case p.dilation[d] <= 0:
			return fmt.Errorf("dilation should be greater than zero, but got %s", tensor.ListString(p.dilation))
		}
	}
	ws, g := tensor.ListString(w.Shape), p.groups
	switch {
	case x.Rank() != w.Rank():
		return fmt.Errorf("Expected %d-dimensional input for %d-dimensional weight %s, but got %d-dimensional input of size %s instead", w.Rank(), w.Rank(), ws, x.Rank(), tensor.ListString(x.Shape))
	case w.Shape[0] < g:
		return fmt.Errorf("Given groups=%d, expected weight to be at least %d at dimension 0, but got weight of size %s instead", g, g, ws)
	case w.Shape[0]%g != 0:
		return fmt.Errorf("Given groups=%d, expected weight to be divisible by %d at dimension 0, but got weight of size [%s] instead", g, g, ws)
	case x.Shape[1] != w.Shape[1]*g:
		return fmt.Errorf("Given groups=%d, weight of size %s, expected input%s to have %d channels, but got %d channels instead", g, ws, tensor.ListString(x.Shape), w.Shape[1]*g, x.Shape[1])
	}
	if b := c.Meta(2); c.Has(2) && (b.Rank() != 1 || b.Shape[0] != w.Shape[0]) {
		return fmt.Errorf("Given weight of size %s, expected bias to be 1-dimensional with %d elements, but got bias of size %s instead", ws, w.Shape[0], tensor.ListString(b.Shape))
	}
	return p.checkWindow(x, w)
}

// checkWindow refuses a window larger than the padded image.
func (p convParams) checkWindow(x, w tensor.Meta) error {
	var have, want []string
	fits := true
	for d := range len(p.stride) {
		a, b := x.Shape[2+d]+p.padding[d]+p.end[d], p.dilation[d]*(w.Shape[2+d]-1)+1
		fits = fits && a >= b
		have, want = append(have, fmt.Sprint(a)), append(want, fmt.Sprint(b))
	}
	if !fits {
		return fmt.Errorf("Calculated padded input size per channel: (%s). Kernel size: (%s). Kernel size can't be greater than actual input size", strings.Join(have, " x "), strings.Join(want, " x "))
	}
	for d := range len(p.stride) {
		switch {
		case x.Shape[2+d] == 0 && x.Shape[0] != 0 && x.Shape[1] != 0:
			return fmt.Errorf("Only zero batch or zero channel inputs are supported, but got input shape: %s", tensor.ListString(x.Shape))
		case w.Shape[2+d] == 0:
			return fmt.Errorf("kernel size should be greater than zero, but got weight of size %s", tensor.ListString(w.Shape))
		}
	}
	return nil
}

// checkBias refuses a bias of another dtype, which PyTorch does for images only at the
// start.
func (v convolution) checkBias(c *graph.Call, x tensor.Meta) error {
	if b := c.Meta(2); c.Has(2) && v.dims == 2 && b.DType != x.DType {
		return fmt.Errorf("Input type (%s) and bias type (%s) should be the same", cppName(x.DType), cppName(b.DType))
	}
	return nil
}

// outShape returns [n, o, ...]; without input channels there are none in the output either
// (calc_output_size).
func (p convParams) outShape(x, w tensor.Meta) []int {
	shape := []int{x.Shape[0], w.Shape[0]}
	if x.Shape[1] == 0 {
		shape[1] = 0
	}
	for d := range len(p.stride) {
		shape = append(shape, (x.Shape[2+d]+p.padding[d]+p.end[d]-p.dilation[d]*(w.Shape[2+d]-1)-1)/p.stride[d]+1)
	}
	return shape
}

func (p convParams) dilated() bool {
	for _, d := range p.dilation {
		if d != 1 {
			return true
		}
	}
	return false
}

// serves refuses the dtypes that no CPU kernel of PyTorch takes, and a weight of another
// dtype, in the words of the kernel that PyTorch would have chosen.
func (p convParams) serves(c *graph.Call, x, w tensor.Meta) error {
	d, same := x.DType, x.DType == w.DType
	sameBias := !c.Has(2) || c.Meta(2).DType == d
	switch {
	case !same && d.IsComplex():
		return fmt.Errorf("Input type (%s) and weight type (%s) should be the same", legacyName(d), legacyName(w.DType))
	case !sameBias && d.IsComplex():
		return fmt.Errorf("Input type (%s) and bias type (%s) should be the same", legacyName(d), legacyName(c.Meta(2).DType))
	case !same && p.usesMKLDNN(x, w):
		return fmt.Errorf("Input type (%s) and weight type (%s) should be the same or input should be a MKLDNN tensor and weight is a dense tensor", legacyName(d), legacyName(w.DType))
	case !sameBias && p.usesMKLDNN(x, w):
		return fmt.Errorf("Input type (%s) and bias type (%s) should be the same or input should be a MKLDNN tensor and bias is a dense tensor", legacyName(d), legacyName(c.Meta(2).DType))
	case p.dilated() && !(d.IsFloat() || d.IsComplex() || d == tensor.Int64):
		return fmt.Errorf("\"slow_conv_dilated<>\" not implemented for '%s'", d.TorchName())
	case (d == tensor.Bool || d.IsBareUnsigned()) && len(p.stride) == 3:
		return fmt.Errorf("\"compute_columns3d\" not implemented for '%s'", d.TorchName())
	case d == tensor.Bool || d.IsBareUnsigned():
		return fmt.Errorf("\"slow_conv2d_cpu\" not implemented for '%s'", d.TorchName())
	case !same:
		return fmt.Errorf("expected scalar type %s but found %s", d.TorchName(), w.DType.TorchName())
	}
	return nil
}

// usesMKLDNN is ConvParams::use_mkldnn for one thread. Layouts depend on it in one case
// only: groups of one channel each, computed one by one.
func (p convParams) usesMKLDNN(x, w tensor.Meta) bool {
	if x.DType == tensor.BFloat16 {
		return true
	}
	dims := len(p.stride)
	plain := !p.dilated()
	large := true
	for d := range dims {
		plain = plain && p.stride[d] == 1 && w.Shape[2+d] == 1
		large = large && dims > 1 && w.Shape[2+d] > 3
	}
	return x.DType == tensor.Float32 && (!plain || x.Shape[0] >= 16) &&
		(p.groups > 1 || large || x.Shape[0] > 1 || x.Numel() > 20480)
}

// legacyName is the name of a tensor type in the messages of convolutions.
func legacyName(d tensor.DType) string {
	if d == tensor.Bool || d == tensor.BFloat16 || d.IsComplex() {
		return "CPU" + d.TorchName() + "Type"
	}
	return "torch." + d.TorchName() + "Tensor"
}

// layOut lays out the result of a batched convolution with elements: channels-last if
// either the input or the weight has such strides, else row-major.
func (p convParams) layOut(x, w tensor.Meta, shape []int) tensor.Meta {
	if len(shape) == 5 {
		return tensor.New(x.DType, shape...)
	}
	if x.DType.IsComplex() {
		return p.layOutComplex(x, w, shape)
	}
	if len(shape) == 4 {
		return p.layOut2d(x, w, shape, p.usesMKLDNN(x, w))
	}
	// One dimension is computed as two, of height 1, on a row-major input.
	if !x.IsContiguous() {
		x = tensor.New(x.DType, x.Shape...)
	}
	mkldnn := p.usesMKLDNN(x, w)
	x, _ = x.Unsqueeze(2)
	w, _ = w.Unsqueeze(2)
	out := p.layOut2d(x, w, []int{shape[0], shape[1], 1, shape[2]}, mkldnn)
	out, _ = out.Squeeze(2)
	return out
}

// layOut2d takes the decision twice, as PyTorch does (determine_backend_memory_format, and
// the backend itself): strides that suggested channels-last may be ambiguous once the
// operand has been copied to that format.
func (p convParams) layOut2d(x, w tensor.Meta, shape []int, mkldnn bool) tensor.Meta {
	f := suggested(x, w)
	x, w = inFormat(x, f), inFormat(w, f)
	if p.groups == 1 || mkldnn {
		return withFormat(x.DType, shape, suggested(x, w))
	}
	// Other kernels compute group by group and join by cat, which keeps the format of the
	// parts.
	xg, wg := groupOf(x, 1, p.groups), groupOf(w, 0, p.groups)
	part := []int{shape[0], shape[1] / p.groups, shape[2], shape[3]}
	return withFormat(x.DType, shape, withFormat(x.DType, part, suggested(xg, wg)).SuggestMemoryFormat(false))
}

func suggested(x, w tensor.Meta) tensor.MemoryFormat {
	if x.SuggestMemoryFormat(false) == tensor.ChannelsLast || w.SuggestMemoryFormat(false) == tensor.ChannelsLast {
		return tensor.ChannelsLast
	}
	return tensor.Contiguous
}

// inFormat is Tensor.contiguous(memory_format).
func inFormat(m tensor.Meta, f tensor.MemoryFormat) tensor.Meta {
	if m.Is(f) {
		return m
	}
	return withFormat(m.DType, m.Shape, f)
}

func withFormat(d tensor.DType, shape []int, f tensor.MemoryFormat) tensor.Meta {
	m, err := tensor.NewFormat(d, shape, f)
	if err != nil {
		panic("kernels: convolution layouts have rank 4: " + err.Error())
	}
	return m
}

// groupOf is subtensor: the first of the groups, copied to the format of the whole.
func groupOf(m tensor.Meta, dim, groups int) tensor.Meta {
	g, err := m.Narrow(dim, 0, m.Shape[dim]/groups)
	if err != nil {
		panic("kernels: channels divide by groups: " + err.Error())
	}
	return inFormat(g, m.SuggestMemoryFormat(false))
}

// emptyBatch lays out a result of the input's shape without elements: PyTorch views the
// product of the input and a number as the result, and a view of the same shape keeps the
// strides.
func emptyBatch(x tensor.Meta) tensor.Meta {
	line := x.Rank() == 3
	if line {
		x, _ = x.Unsqueeze(2)
	}
	t, err := laidOut(iter.Binary(iter.Undefined(), iter.Of(x), iter.Of(tensor.New(x.DType))))
	m := ofNumbers(t)
	if err != nil {
		panic("kernels: a product with a number can be laid out: " + err.Error())
	}
	if line {
		m, _ = m.Squeeze(2)
	}
	return m
}

// layOutComplex follows complex_convolution: three real convolutions a, b and c of parts
// and their sums, joined by the pointwise (a - b) + i*(c - a - b).
func (p convParams) layOutComplex(x, w tensor.Meta, shape []int) tensor.Meta {
	xr, wr := partOf(x), partOf(w)
	a := p.layOut(xr, wr, shape)
	c := p.layOut(pointwiseMeta(xr, xr), pointwiseMeta(wr, wr), shape)
	out := pointwiseMeta(pointwiseMeta(a, a), pointwiseMeta(pointwiseMeta(c, a), a))
	return out.WithDType(x.DType)
}

// partOf is view_as_real(m).select(-1, 0).
func partOf(m tensor.Meta) tensor.Meta {
	st := make([]int, len(m.Strides))
	for d, s := range m.Strides {
		st[d] = 2 * s
	}
	return tensor.Meta{DType: m.DType.ToReal(), Shape: m.Shape, Strides: st}
}

// pointwiseMeta is the layout of a sum.
func pointwiseMeta(a, b tensor.Meta) tensor.Meta {
	it, err := iter.Binary(iter.Undefined(), iter.Of(a), iter.Of(b)).Build()
	if err != nil {
		panic("kernels: parts of a complex convolution have one shape: " + err.Error())
	}
	return it.Output()
}
