package pool

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file infers the results of poolings. It makes PyTorch's checks in PyTorch's order, with PyTorch's messages. As
// in PyTorch, sequences are pooled as images of height 1.

// exactMatch is the argument of SuggestMemoryFormat: strides only need to resemble a format, and need not be dense.
const exactMatch = false

// infer checks a call and infers the results. The results of volumes, and of max_pool1d, are row-major. Other results
// have the memory format that the operand's strides suggest.
func (p *pooling) infer(call *graph.Call) ([]graph.Result, error) {
	switch {
	case p.isAdaptive:
		return p.inferAdaptive(call)
	case p.kind == reduceMax && p.dims == 1 && !p.returnsIndices:
		return p.inferMaxPool1d(call)
	}
	return p.inferSliding(call)
}

// inferSliding is infer for windows with strides. max_pool1d has inferMaxPool1d instead.
func (p *pooling) inferSliding(call *graph.Call) ([]graph.Result, error) {
	args, input := p.args(call), call.Type(0)
	allWindows, err := p.slidingWindows(args)
	if err != nil {
		return nil, err
	}
	windows := allWindows[:p.dims]
	if args.divisor != nil && *args.divisor == 0 {
		return nil, errors.New("divisor must be not zero")
	}
	if err := p.checkRank(input); err != nil {
		return nil, err
	}
	if p.dims == 1 {
		input, windows = asImages(input), []geometry.Window{geometry.MissingAxis().Window, allWindows[0]}
	}
	shape, err := p.shape(input, windows, p.hasONNXPadding(args))
	if err != nil {
		return nil, err
	}
	if !p.supports(args, input.DType) {
		return nil, p.dtypeError(input)
	}
	return p.results(call, input, shape)
}

// checkRank rejects operands whose rank or format the op does not support.
func (p *pooling) checkRank(input tensor.Type) error {
	rank := input.Rank()
	switch {
	case p.dims == 1:
		if rank != 2 && rank != 3 {
			return fmt.Errorf("Expected 2 to 3 dimensions, but got %d-dimensional tensor for argument #1 'self' (while "+
				"checking arguments for %s)", rank, strings.TrimSuffix(p.name, "_with_indices"))
		}
		return nil
	case p.dims == 2 && p.kind == reduceAvg && rank < 3:
		_, err := tensor.WrapDim(-3, rank) // fails: PyTorch reads size(-3) first
		return err
	case p.dims == 2 && p.kind == reduceAvg && rank > 4:
		return imageShapeError(input)
	case p.dims == 2 && p.kind == reduceMax && input.SuggestMemoryFormat(exactMatch) == tensor.ChannelsLast3d:
		return errors.New("Unsupport memory format. Supports only ChannelsLast, Contiguous")
	case rank != p.dims+1 && rank != p.dims+2:
		return fmt.Errorf("non-empty %dD or %dD (batch mode) tensor expected for input", p.dims+1, p.dims+2)
	}
	return nil
}

// asImages converts the type of sequences to the type of images of height 1. It inserts a dimension of size 1 before
// the last dimension.
func asImages(sequences tensor.Type) tensor.Type {
	images, err := sequences.Unsqueeze(-2)
	if err != nil {
		panic(err)
	}
	return images
}

// shape checks the windows of images or volumes and returns the shape of the result (pool2d_shape_check,
// pool3d_shape_check).
func (p *pooling) shape(input tensor.Type, windows []geometry.Window, hasONNXPadding bool) ([]sym.Int, error) {
	leadDims := input.Rank() - len(windows)
	shape := slices.Clone(input.Shape)
	for i, window := range windows {
		if err := checkPadding(window, hasONNXPadding); err != nil {
			return nil, err
		}
		shape[leadDims+i] = window.ResultCount(input.Shape[leadDims+i])
	}
	if err := checkPositive(windows); err != nil {
		return nil, err
	}
	if hasONNXPadding {
		return shape, checkCounts(input, shape, leadDims, 0)
	}
	if err := p.checkNotEmpty(input, leadDims); err != nil {
		return nil, err
	}
	if p.kind == reduceAvg && p.dims == 3 {
		if err := checkVolumeSize(input.Shape[leadDims:], windows); err != nil {
			return nil, err
		}
	}
	return shape, checkCounts(input, shape, leadDims, 1)
}

// checkCounts rejects less than `least` windows along a dimension.
func checkCounts(input tensor.Type, shape []sym.Int, leadDims, least int) error {
	for _, n := range shape[leadDims:] {
		if !kit.SizeAtLeast(n, least) {
			return fmt.Errorf("Given input size: (%s). Calculated output size: (%s). Output size is too small",
				joinSizes(input.Shape[leadDims-1:]), joinSizes(shape[leadDims-1:]))
		}
	}
	return nil
}

// checkPadding rejects a stride of 0, and negative or too large padding.
func checkPadding(window geometry.Window, hasONNXPadding bool) error {
	switch pad := min(window.PadBefore, window.PadAfter); { // PadBefore and PadAfter differ only in ONNX
	case window.Stride == 0:
		return errors.New("stride should not be zero")
	case pad < 0:
		return fmt.Errorf("pad must be non-negative, but got pad: %d", pad)
	case !hasONNXPadding && pad > window.Taps/2:
		return fmt.Errorf("pad should be at most half of kernel size, but got pad=%d and kernel_size=%d", pad, window.Taps)
	}
	return nil
}

// checkVolumeSize rejects windows that are larger than a padded volume of the given sizes.
func checkVolumeSize(sizes []sym.Int, windows []geometry.Window) error {
	for i, window := range windows {
		if !kit.SizeAtLeast(sizes[i].Add(sym.Of(window.PadBefore+window.PadAfter)), window.Taps) {
			return fmt.Errorf("input image (T: %v H: %v W: %v) smaller than kernel size (kT: %d kH: %d kW: %d)",
				sizes[0], sizes[1], sizes[2], windows[0].Taps, windows[1].Taps, windows[2].Taps)
		}
	}
	return nil
}

// checkPositive rejects taps, strides and dilations that are not positive.
func checkPositive(windows []geometry.Window) error {
	if !slices.ContainsFunc(windows, func(w geometry.Window) bool { return min(w.Taps, w.Stride, w.Dilation) <= 0 }) {
		return nil
	}
	letters := []string{"T", "H", "W"}[3-len(windows):]
	for _, attr := range []struct {
		name, prefix string
		get          func(w geometry.Window) int
	}{
		{"kernel size", "k", func(w geometry.Window) int { return w.Taps }},
		{"stride", "d", func(w geometry.Window) int { return w.Stride }},
		{"dilation", "dilation", func(w geometry.Window) int { return w.Dilation }},
	} {
		areAllPositive, values := true, ""
		for i, w := range windows {
			areAllPositive = areAllPositive && attr.get(w) > 0
			values += fmt.Sprintf(" %s%s: %d", attr.prefix, letters[i], attr.get(w))
		}
		if !areAllPositive {
			return fmt.Errorf("%s should be greater than zero, but got%s", attr.name, values)
		}
	}
	return nil
}

// checkNotEmpty rejects operands with an empty dimension other than the batch.
func (p *pooling) checkNotEmpty(input tensor.Type, firstPooledDim int) error {
	for d := firstPooledDim - 1; d < input.Rank(); d++ {
		switch {
		case !kit.SizeIs(input.Shape[d], 0):
			continue
		case p.dims < 3:
			return imageShapeError(input)
		}
		name := p.name
		if p.kind == reduceMax {
			name += "_with_indices_out_cpu_template"
		}
		return fmt.Errorf("%s(): Expected input's non-batch dimensions to have positive length, but input has a shape of %s "+
			"and non-batch dimension %d has length zero!", name, tensor.Sizes(input.Shape), d-(firstPooledDim-1))
	}
	return nil
}

// imageShapeError is the error for images whose rank is not 3 or 4, and for images with an empty dimension other than
// the batch.
func imageShapeError(input tensor.Type) error {
	return fmt.Errorf("Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:%s",
		tensor.Sizes(input.Shape))
}

// joinSizes formats sizes as "1x2x3".
func joinSizes(sizes []sym.Int) string {
	texts := make([]string, len(sizes))
	for i, s := range sizes {
		texts[i] = fmt.Sprint(s)
	}
	return strings.Join(texts, "x")
}

// supports reports whether the op supports a dtype. PyTorch has no kernels for maxima of integers. Only ONNX has
// separate padding before and after a dimension. Calls with such padding also support integers, but not uint16, uint32
// and uint64.
func (p *pooling) supports(args callAttrs, dtype tensor.DType) bool {
	switch p.kind {
	case reduceMax:
		return dtype.IsFloat() || p.hasONNXPadding(args) && dtype.IsIntegral(false) && !dtype.IsBareUnsigned()
	case reduceAvg:
		return dtype.IsFloat() || dtype == tensor.Int64
	}
	return dtype.IsFloat()
}

// dtypeError is the error for an unsupported dtype. Its message names the kernel that PyTorch would choose for an
// operand of the given type.
func (p *pooling) dtypeError(input tensor.Type) error {
	kernelName := map[reduction]string{reduceMax: "max_pool", reduceAvg: "avg_pool", reduceNorm: p.name}[p.kind]
	if p.isAdaptive {
		kernelName = "adaptive_" + kernelName
	}
	switch {
	case p.kind == reduceNorm: // PyTorch has no kernel for lp_pool
	case p.dims == 3 && p.isAdaptive:
		kernelName += "3d_cpu"
	case p.dims == 3:
		kernelName += map[reduction]string{reduceMax: "3d_with_indices_cpu", reduceAvg: "3d_out_frame"}[p.kind]
	case input.SuggestMemoryFormat(exactMatch) == tensor.ChannelsLast:
		kernelName += "2d_channels_last"
	default:
		kernelName += "2d"
	}
	return kit.NotImplementedBy(kernelName, input.DType)
}

// results returns the types of results of the given shape. input is the operand's type, with height 1 if the operand is
// a sequence.
func (p *pooling) results(call *graph.Call, input tensor.Type, shape []sym.Int) ([]graph.Result, error) {
	format := tensor.Contiguous
	if p.dims < 3 {
		format = input.SuggestMemoryFormat(exactMatch)
	}
	out, err := tensor.NewTypeFormat(input.DType, shape, format)
	if err == nil && p.dims == 1 {
		out, err = out.Squeeze(-2)
	}
	if err != nil {
		return nil, err
	}
	if p.returnsIndices {
		return kit.WithIndices(call, out), nil
	}
	return call.NewResult(out), nil
}

// inferMaxPool1d is infer for max_pool1d, which has its own checks and row-major results.
func (p *pooling) inferMaxPool1d(call *graph.Call) ([]graph.Result, error) {
	input, args := call.Type(0), p.args(call)
	rank := input.Rank()
	hasValidRank := rank == 2 || rank == 3
	isEmpty := func(dim int) bool { return !p.hasONNXPadding(args) && kit.SizeIs(input.Shape[dim], 0) }
	if !hasValidRank || isEmpty(rank-1) || isEmpty(rank-2) {
		return nil, errors.New("max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for " +
			"input, but got:" + tensor.Sizes(input.Shape))
	}
	windows, err := p.slidingWindows(args)
	if err != nil {
		return nil, err
	}
	window := windows[0]
	switch pad := min(window.PadBefore, window.PadAfter); {
	case window.Taps <= 0:
		return nil, fmt.Errorf("max_pool1d() kernel_size must be greater than zero, but got %d", window.Taps)
	case window.Stride <= 0:
		return nil, fmt.Errorf("max_pool1d() stride must be greater than zero, but got %d", window.Stride)
	case pad < 0:
		return nil, fmt.Errorf("max_pool1d() padding must be non-negative, but got %d", pad)
	case pad > window.Taps/2 && !p.hasONNXPadding(args):
		return nil, fmt.Errorf("max_pool1d() padding should be at most half of kernel size, but got padding=%d and "+
			"kernel_size=%d", pad, window.Taps)
	case window.Dilation <= 0:
		return nil, fmt.Errorf("max_pool1d() dilation must be greater than zero, but got %d", window.Dilation)
	}
	length := window.ResultCount(input.Shape[rank-1])
	if kit.IsNegative(length) {
		return nil, fmt.Errorf("max_pool1d() Invalid computed output size: %v", length)
	}
	if !p.supports(args, input.DType) {
		return nil, kit.NotImplementedBy("max_pool1d_impl", input.DType)
	}
	return call.NewResult(tensor.NewType(input.DType, kit.ReplaceSizes(input.Shape, rank-1, length)...)), nil
}

// inferAdaptive is infer for adaptive windows.
func (p *pooling) inferAdaptive(call *graph.Call) ([]graph.Result, error) {
	input, size, dims := call.Type(0), p.args(call).output, p.dims
	if dims == 1 { // continue as for images: dims is 2, but p.dims remains 1
		if len(size) != 1 {
			return nil, p.lengthError("output_size", len(size))
		}
		if err := p.checkRank(input); err != nil {
			return nil, err
		}
		input, size, dims = asImages(input), []sym.Int{sym.Of(1), size[0]}, 2
	}
	names := [...][2]string{reduceMax: {"adaptive_max_pool2d", "adaptive_max_pool3d"},
		reduceAvg: {"adaptive_avg_pool2d", "adaptive_avg_pool3d"}}
	name := names[p.kind][dims-2]
	if dims == 2 && len(size) == 1 { // one size for height and width
		size = []sym.Int{size[0], size[0]}
	}
	if err := p.checkOutputSize(name, size, dims); err != nil {
		return nil, err
	}
	// If all output sizes are 1, PyTorch calls mean(). It does not do so for real volumes.
	isGlobal := p.kind == reduceAvg && (dims == 2 || input.DType.IsComplex()) &&
		!slices.ContainsFunc(size, func(n sym.Int) bool { return !kit.SizeIs(n, 1) })
	if isGlobal && dims == 2 {
		return p.inferGlobalAvg(call, input)
	}
	if err := p.checkAdaptive(name, input, dims); err != nil {
		return nil, err
	}
	isAverage2D := p.kind == reduceAvg && dims == 2 // an empty operand may then have any dtype
	isComplexMean := isGlobal && input.DType.IsComplex()
	// IsEmpty is called last, because it may add a guard.
	if !input.DType.IsFloat() && !isComplexMean && !(isAverage2D && kit.IsEmpty(input)) {
		return nil, p.dtypeError(input)
	}
	shape := kit.ReplaceSizes(input.Shape, input.Rank()-dims, size...)
	if _, err := kit.FreshType(input.DType, shape); err != nil {
		return nil, err
	}
	return p.results(call, input, shape)
}

// checkOutputSize rejects invalid values of the attribute output_size. Messages begin with name. Messages about
// negative sizes always begin with adaptive_avg_pool2d, as in PyTorch.
func (p *pooling) checkOutputSize(name string, size []sym.Int, dims int) error {
	switch {
	case len(size) != dims && p.kind == reduceMax:
		return fmt.Errorf("%s(): internal error: output_size.size() must be %d", name, dims)
	case len(size) != dims:
		return fmt.Errorf("%s: output_size must be %d", name, dims)
	case p.kind == reduceAvg && slices.ContainsFunc(size, kit.IsNegative):
		return fmt.Errorf("adaptive_avg_pool2d: elements of output_size must be greater than or equal to 0 but received {%s}",
			strings.Trim(tensor.Sizes(size), "[]"))
	}
	return nil
}

// checkAdaptive rejects operands whose rank is neither dims+1 nor dims+2, and operands with an empty dimension other
// than the batch. Messages begin with name.
func (p *pooling) checkAdaptive(name string, input tensor.Type, dims int) error {
	firstDim, colon := 1, ":"
	if p.kind == reduceAvg && dims == 2 { // PyTorch does not check the channels, and its message has no colon
		firstDim, colon = input.Rank()-2, ""
	}
	if input.Rank() != dims+1 && input.Rank() != dims+2 {
		return fmt.Errorf("%s(): Expected %dD or %dD tensor, but got%s %s", name, dims+1, dims+2, colon,
			tensor.Sizes(input.Shape))
	}
	for d := firstDim; d < input.Rank(); d++ {
		if kit.SizeIs(input.Shape[d], 0) {
			return fmt.Errorf("%s(): Expected input to have non-zero size for non-batch dimensions, but input has sizes %s "+
				"with dimension %d being empty", name, tensor.Sizes(input.Shape), d)
		}
	}
	return nil
}

// inferGlobalAvg infers the average of whole planes. PyTorch computes this average as a mean over the last two
// dimensions, which supports ranks of at least 2 and complex values. The result has channels-last strides if the
// operand is channels-last.
func (p *pooling) inferGlobalAvg(call *graph.Call, input tensor.Type) ([]graph.Result, error) {
	for _, d := range []int{-1, -2} {
		if _, err := tensor.WrapDim(d, input.Rank()); err != nil {
			return nil, err
		}
	}
	if !input.DType.IsFloat() && !input.DType.IsComplex() {
		return nil, fmt.Errorf("mean(): could not infer output dtype. Input dtype must be either a floating point or "+
			"complex dtype. Got: %s", input.DType.TorchName())
	}
	if input.Rank() < 2 {
		return nil, errors.New("dim 0 appears multiple times in the list of dims")
	}
	one := sym.Of(1)
	out := tensor.NewType(input.DType, kit.ReplaceSizes(input.Shape, input.Rank()-2, one, one)...)
	if input.SuggestMemoryFormat(exactMatch) == tensor.ChannelsLast {
		out.Strides = []sym.Int{input.Shape[1], one, input.Shape[1], input.Shape[1]}
	}
	if p.dims == 2 {
		return call.NewResult(out), nil
	}
	out, err := out.Squeeze(-2)
	return call.NewResult(out), err
}

// lengthError is the error for an attribute that is a list of unsupported length n.
func (p *pooling) lengthError(attr string, n int) error {
	requirement := "must either be"
	switch {
	case p.dims == 1 && attr == "stride":
		return fmt.Errorf("%s() stride must be an int, list of ints or tuple of ints of size 1 but got size %d", p.name, n)
	case p.dims == 1:
		return fmt.Errorf("%s() argument '%s' should contain one int (got %d)", p.name, attr, n)
	case p.kind == reduceAvg && p.dims == 3:
		requirement = "must be"
	case p.kind == reduceMax && attr == "padding":
		requirement = "must be either be"
	case p.kind == reduceMax && attr == "dilation":
		requirement = "must be either"
	}
	if attr == "stride" {
		requirement += " omitted,"
	}
	number := []string{"two", "three"}[p.dims-2]
	return fmt.Errorf("%s: %s %s a single int, or a tuple of %s ints", p.name, attr, requirement, number)
}
