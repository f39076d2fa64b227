package conv

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// legacyName returns the name of PyTorch's legacy tensor type of a dtype. PyTorch's convolution errors contain such
// names.
func legacyName(d tensor.DType) string {
	if d == tensor.Bool || d == tensor.BFloat16 || d.IsComplex() {
		return "CPU" + d.TorchName() + "Type"
	}
	return "torch." + d.TorchName() + "Tensor"
}

// suggestedFormat returns the memory format that PyTorch derives from the strides of input and weight.
func suggestedFormat(x, w tensor.Type) tensor.MemoryFormat {
	if x.SuggestMemoryFormat(false) == tensor.ChannelsLast || w.SuggestMemoryFormat(false) == tensor.ChannelsLast {
		return tensor.ChannelsLast
	}
	return tensor.Contiguous
}

// inFormat returns m in memory format f, as PyTorch's Tensor.contiguous(memory_format) does.
func inFormat(m tensor.Type, f tensor.MemoryFormat) tensor.Type {
	if m.Is(f) {
		return m
	}
	return withFormat(m.DType, m.Shape, f)
}

// withFormat returns a new type in memory format f.
func withFormat(d tensor.DType, shape []sym.Int, f tensor.MemoryFormat) tensor.Type {
	m, err := tensor.NewTypeFormat(d, shape, f)
	if err != nil {
		panic("kernels: convolution layouts have rank 4: " + err.Error())
	}
	return m
}

// groupOf returns the type of the first group of slices along dim. Like PyTorch's subtensor, it is the type of a copy
// in the memory format of the tensor.
func groupOf(m tensor.Type, dim, groups int) tensor.Type {
	g, err := m.Narrow(dim, sym.Int{}, m.Shape[dim].Div(sym.Of(groups)))
	if err != nil {
		panic("kernels: channels divide by groups: " + err.Error())
	}
	return inFormat(g, m.SuggestMemoryFormat(false))
}

// emptyBatch returns the type of the result for an input without elements, which has the shape of the input. PyTorch
// multiplies the input by a number and returns a view of the product, so the strides are those of the input.
func emptyBatch(x tensor.Type) tensor.Type {
	isSequence := x.Rank() == 3
	if isSequence {
		x, _ = x.Unsqueeze(2)
	}
	r, err := rule.Binary(rule.Undefined(), rule.OfType(x), rule.OfType(tensor.NewType(x.DType))).Rule()
	if err != nil {
		panic("kernels: a product with a number can be laid out: " + err.Error())
	}
	m := r.Type(0)
	if isSequence {
		m, _ = m.Squeeze(2)
	}
	return m
}

// realPart returns the type of the real part of a complex tensor, as view_as_real(m).select(-1, 0) does.
func realPart(m tensor.Type) tensor.Type {
	st := make([]sym.Int, len(m.Strides))
	for d, s := range m.Strides {
		st[d] = s.Mul(sym.Of(2))
	}
	return tensor.Type{DType: m.DType.ToReal(), Shape: m.Shape, Strides: st}
}

// infer checks a call and determines the type of its result as at::convolution does.
func (v convolution) infer(c *graph.Call) ([]graph.Result, error) {
	t, err := v.result(c)
	if err != nil {
		return nil, err
	}
	return c.One(t), nil
}

// result checks a call and returns the type of its result.
func (v convolution) result(c *graph.Call) (tensor.Type, error) {
	p, x, w := v.params(c), c.Type(0), c.Type(1)
	if r := x.Rank(); r != v.dims+1 && r != v.dims+2 {
		return x, fmt.Errorf("Expected %dD (unbatched) or %dD (batched) input to %s, but got input of size: %s", v.dims+1,
			v.dims+2, v.name, tensor.Sizes(x.Shape))
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
	if err := v.checkBias(c, x); err != nil && p.paddingWord == "" {
		return x, err
	}
	p, x, err := p.withSymmetricPadding(x)
	if err != nil {
		return x, err
	}
	if err := p.check(c, x, w); err != nil {
		return x, err
	}
	shape := p.outShape(x, w)
	if err := tensor.CheckSizes(x.DType, shape); err != nil {
		return x, err
	}
	var out tensor.Type
	switch {
	case !kit.SizeIs(x.Shape[0], 0) && !kit.SizeIs(x.Shape[1], 0):
		if err := p.checkDTypes(c, x, w); err != nil {
			return x, err
		}
		out = p.resultType(x, w, shape)
	case tensor.SameSizes(shape, x.Shape):
		out = emptyBatch(x)
	default:
		out = tensor.NewType(x.DType, shape...)
	}
	if unbatched {
		return out.Squeeze(0)
	}
	return out, out.Check()
}

// checkShapes makes the checks of aten's check_shape_forward that ordinary and transposed convolutions share. shape is
// the shape of the input with a batch dimension.
func (p convParams) checkShapes(shape []sym.Int, w tensor.Type) error {
	dims := w.Rank() - 2
	if dims < 1 {
		return errors.New("weight should have at least three dimensions")
	}
	if p.groups <= 0 {
		return errors.New("non-positive groups is not supported")
	}
	checkLength := func(name string, length int, text func() string) error {
		if length == dims || length == 1 {
			return nil
		}
		return fmt.Errorf("expected %s to be a single integer value or a list of %d values to match the convolution "+
			"dimensions, but got %s=%s", name, dims, name, text())
	}
	if err := cmp.Or(
		checkLength("stride", len(p.stride), func() string { return tensor.ListString(p.stride) }),
		checkLength("padding", len(p.padding), func() string { return tensor.Sizes(p.padding) }),
		checkLength("dilation", len(p.dilation), func() string { return tensor.ListString(p.dilation) })); err != nil {
		return err
	}
	if p.outputPadding != nil {
		text := func() string { return tensor.ListString(p.outputPadding) }
		if err := checkLength("output_padding", len(p.outputPadding), text); err != nil {
			return err
		}
	}
	below := func(list []int, least int) bool {
		return slices.ContainsFunc(list, func(n int) bool { return n < least })
	}
	switch g := sym.Of(p.groups); {
	case slices.ContainsFunc(p.padding, kit.IsNegative) || slices.ContainsFunc(p.paddingAfter, kit.IsNegative):
		return errors.New("negative padding is not supported")
	case below(p.outputPadding, 0):
		return errors.New("negative output_padding is not supported")
	case below(p.stride, 1):
		return errors.New("non-positive stride is not supported")
	case p.outputPadding == nil && below(p.dilation, 1):
		return fmt.Errorf("dilation should be greater than zero, but got %s", tensor.ListString(p.dilation))
	case len(shape) != w.Rank():
		return fmt.Errorf("Expected %d-dimensional input for %d-dimensional weight %s, but got %d-dimensional input of "+
			"size %s instead", w.Rank(), w.Rank(), tensor.Sizes(w.Shape), len(shape), tensor.Sizes(shape))
	case w.Shape[0].Lt(g).Holds():
		return fmt.Errorf("Given groups=%d, expected weight to be at least %d at dimension 0, but got weight of "+
			"size %s instead", p.groups, p.groups, tensor.Sizes(w.Shape))
	case !kit.SizeIs(w.Shape[0].Mod(g), 0):
		return fmt.Errorf("Given groups=%d, expected weight to be divisible by %d at dimension 0, but got weight of size "+
			"[%s] instead", p.groups, p.groups, tensor.Sizes(w.Shape))
	}
	return nil
}

// check mirrors aten's check_shape_forward.
func (p convParams) check(c *graph.Call, x, w tensor.Type) error {
	if err := p.checkShapes(x.Shape, w); err != nil {
		return err
	}
	if channels := w.Shape[1].Mul(sym.Of(p.groups)); x.Shape[1].Ne(channels).Holds() {
		return fmt.Errorf("Given groups=%d, weight of size %s, expected input%s to have %v channels, but got %v "+
			"channels instead", p.groups, tensor.Sizes(w.Shape), tensor.Sizes(x.Shape), channels, x.Shape[1])
	}
	if b := c.Type(2); c.Has(2) && (b.Rank() != 1 || b.Shape[0].Ne(w.Shape[0]).Holds()) {
		return fmt.Errorf("Given weight of size %s, expected bias to be 1-dimensional with %v elements, but got bias of "+
			"size %s instead", tensor.Sizes(w.Shape), w.Shape[0], tensor.Sizes(b.Shape))
	}
	return p.checkWindow(x, w)
}

// checkWindow rejects a window larger than the padded image.
func (p convParams) checkWindow(x, w tensor.Type) error {
	fits := sym.Truth(true)
	for d := range len(p.stride) {
		fits = fits.And(p.paddedSize(x, d).Ge(p.windowExtent(w, d)))
	}
	if !fits.Holds() {
		var have, want []string
		for d := range len(p.stride) {
			have, want = append(have, p.paddedSize(x, d).String()), append(want, p.windowExtent(w, d).String())
		}
		return fmt.Errorf("Calculated padded input size per channel: (%s). Kernel size: (%s). Kernel size can't be greater "+
			"than actual input size", strings.Join(have, " x "), strings.Join(want, " x "))
	}
	for d := range len(p.stride) {
		switch {
		case kit.SizeIs(x.Shape[2+d], 0) && !kit.SizeIs(x.Shape[0], 0) && !kit.SizeIs(x.Shape[1], 0):
			return fmt.Errorf("Only zero batch or zero channel inputs are supported, but got input shape: %s",
				tensor.Sizes(x.Shape))
		case kit.SizeIs(w.Shape[2+d], 0):
			return fmt.Errorf("kernel size should be greater than zero, but got weight of size %s", tensor.Sizes(w.Shape))
		}
	}
	return nil
}

// paddedSize returns the size of an input dimension with its padding.
func (p convParams) paddedSize(x tensor.Type, d int) sym.Int {
	return x.Shape[2+d].Add(p.padding[d].Add(p.paddingAfter[d]))
}

// windowExtent returns the distance from the first tap to the last tap of a window, plus 1.
func (p convParams) windowExtent(w tensor.Type, d int) sym.Int {
	return kit.BoundedSizeProduct(sym.Of(p.dilation[d]), w.Shape[2+d].Sub(sym.Of(1))).Add(sym.Of(1))
}

// checkBias rejects a bias of another dtype. For images, PyTorch makes this check before all other checks.
func (v convolution) checkBias(c *graph.Call, x tensor.Type) error {
	if b := c.Type(2); c.Has(2) && v.dims == 2 && b.DType != x.DType {
		return fmt.Errorf("Input type (%s) and bias type (%s) should be the same", kit.CppName(x.DType), kit.CppName(b.DType))
	}
	return nil
}

// outShape returns the shape [n, o, ...] of the result. If the input has no channels, o is 0 (calc_output_size).
func (p convParams) outShape(x, w tensor.Type) []sym.Int {
	shape := make([]sym.Int, 2, 2+len(p.stride))
	shape[0], shape[1] = x.Shape[0], w.Shape[0]
	if kit.SizeIs(x.Shape[1], 0) {
		shape[1] = sym.Int{}
	}
	for d := range len(p.stride) {
		shape = append(shape, p.paddedSize(x, d).Sub(p.windowExtent(w, d)).Div(sym.Of(p.stride[d])).Add(sym.Of(1)))
	}
	return shape
}

func (p convParams) isDilated() bool {
	for _, d := range p.dilation {
		if d != 1 {
			return true
		}
	}
	return false
}

// checkDTypes rejects dtypes that no CPU kernel of PyTorch accepts, and weights and biases of another dtype. The
// message is the message of the kernel that PyTorch would choose.
func (p convParams) checkDTypes(c *graph.Call, x, w tensor.Type) error {
	d, sameWeight := x.DType, x.DType == w.DType
	sameBias := !c.Has(2) || c.Type(2).DType == d
	switch {
	case !sameWeight && d.IsComplex():
		return fmt.Errorf("Input type (%s) and weight type (%s) should be the same", legacyName(d), legacyName(w.DType))
	case !sameBias && d.IsComplex():
		return fmt.Errorf("Input type (%s) and bias type (%s) should be the same", legacyName(d), legacyName(c.Type(2).DType))
	case !sameWeight && p.usesMKLDNN(x, w):
		return fmt.Errorf("Input type (%s) and weight type (%s) should be the same or input should be a MKLDNN tensor and "+
			"weight is a dense tensor", legacyName(d), legacyName(w.DType))
	case !sameBias && p.usesMKLDNN(x, w):
		return fmt.Errorf("Input type (%s) and bias type (%s) should be the same or input should be a MKLDNN tensor and "+
			"bias is a dense tensor", legacyName(d), legacyName(c.Type(2).DType))
	case p.isDilated() && !(d.IsFloat() || d.IsComplex() || d == tensor.Int64):
		return fmt.Errorf("\"slow_conv_dilated<>\" not implemented for '%s'", d.TorchName())
	case (d == tensor.Bool || d.IsBareUnsigned()) && len(p.stride) == 3:
		return fmt.Errorf("\"compute_columns3d\" not implemented for '%s'", d.TorchName())
	case d == tensor.Bool || d.IsBareUnsigned():
		return fmt.Errorf("\"slow_conv2d_cpu\" not implemented for '%s'", d.TorchName())
	case !sameWeight:
		return fmt.Errorf("expected scalar type %s but found %s", d.TorchName(), w.DType.TorchName())
	}
	return nil
}

// usesMKLDNN mirrors ConvParams::use_mkldnn for one thread. The layout of the result depends on this choice if there
// are several groups: PyTorch's other kernels compute the groups one by one and concatenate the parts.
func (p convParams) usesMKLDNN(x, w tensor.Type) bool {
	if x.DType != tensor.Float32 {
		return x.DType == tensor.BFloat16
	}
	dims := len(p.stride)
	pointwise := !p.isDilated()
	for d := 0; pointwise && d < dims; d++ {
		pointwise = p.stride[d] == 1 && kit.SizeIs(w.Shape[2+d], 1)
	}
	if pointwise && x.Shape[0].Lt(sym.Of(16)).Holds() {
		return false
	}
	large := dims > 1
	for d := 0; large && p.groups == 1 && d < dims; d++ {
		large = w.Shape[2+d].Gt(sym.Of(3)).Holds()
	}
	return p.groups > 1 || large || x.Shape[0].Gt(sym.Of(1)).Or(x.Numel().Gt(sym.Of(20480))).Holds()
}

// resultType returns the type of a batched, non-empty result. The result is channels-last if the strides of input or
// weight suggest this format, else row-major.
func (p convParams) resultType(x, w tensor.Type, shape []sym.Int) tensor.Type {
	if len(shape) == 5 {
		return tensor.NewType(x.DType, shape...)
	}
	if x.DType.IsComplex() {
		return p.complexResultType(x, w, shape)
	}
	if len(shape) == 4 {
		return p.resultType2d(x, w, shape, p.groups == 1 || p.usesMKLDNN(x, w))
	}
	// A sequence is convolved as an image of height 1, from a row-major input.
	if !x.IsContiguous() {
		x = x.RowMajor()
	}
	oneCall := p.groups == 1 || p.usesMKLDNN(x, w)
	x, _ = x.Unsqueeze(2)
	w, _ = w.Unsqueeze(2)
	out := p.resultType2d(x, w, []sym.Int{shape[0], shape[1], sym.Of(1), shape[2]}, oneCall)
	out, _ = out.Squeeze(2)
	return out
}

// resultType2d chooses the format twice, as PyTorch does: in determine_backend_memory_format and in the backend. The
// choices can differ, because the strides of an operand can be ambiguous after the operand is copied to channels-last.
// allGroups is set if PyTorch computes all groups in one call.
func (p convParams) resultType2d(x, w tensor.Type, shape []sym.Int, allGroups bool) tensor.Type {
	f := suggestedFormat(x, w)
	x, w = inFormat(x, f), inFormat(w, f)
	if allGroups {
		return withFormat(x.DType, shape, suggestedFormat(x, w))
	}
	// Other kernels compute each group separately and concatenate the parts, which keeps their format.
	xg, wg := groupOf(x, 1, p.groups), groupOf(w, 0, p.groups)
	part := []sym.Int{shape[0], shape[1].Div(sym.Of(p.groups)), shape[2], shape[3]}
	return withFormat(x.DType, shape, withFormat(x.DType, part, suggestedFormat(xg, wg)).SuggestMemoryFormat(false))
}

// complexResultType mirrors complex_convolution, which convolves the real parts (a), the imaginary parts (b) and the
// sums of both parts (c). The result is (a - b) + i*(c - a - b).
func (p convParams) complexResultType(x, w tensor.Type, shape []sym.Int) tensor.Type {
	xr, wr := realPart(x), realPart(w)
	a := p.resultType(xr, wr, shape)
	c := p.resultType(kit.SumType(xr, xr), kit.SumType(wr, wr), shape)
	out := kit.SumType(kit.SumType(a, a), kit.SumType(kit.SumType(c, a), a))
	return out.WithDType(x.DType)
}
