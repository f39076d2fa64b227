package conv

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type convTransposeAttrs struct {
	Stride        []int `attr:"stride" default:"1" doc:"distance between neighbouring windows in the result"`
	Padding       []int `attr:"padding" default:"0" doc:"number of elements removed at both ends of each dimension"`
	OutputPadding []int `attr:"output_padding" default:"0" doc:"number of elements added at the end of each dimension"`
	Groups        int   `attr:"groups" default:"1" doc:"number of groups into which channels are divided; each group is convolved separately"`
	Dilation      []int `attr:"dilation" default:"1" doc:"distance between the elements of the window"`
}

// Transposed convolutions are gradients of convolutions with respect to their input. An element of the input is added,
// times the weight, to a window of the result. In one dimension, the input [a, b] and the weight [1, 2, 3] with stride
// 2 give
//
//	a, 2a, 3a+b, 2b, 3b
var (
	ConvTranspose1d = convTransposeOp("conv_transpose1d", 1, "[n, c, l] or [c, l]", "[c, o/groups, k]", "[n, o, ol]",
		"ol = (l-1)*stride - 2*padding + dilation*(k-1) + output_padding + 1")
	ConvTranspose2d = convTransposeOp("conv_transpose2d", 2, "[n, c, h, w] or [c, h, w]", "[c, o/groups, kh, kw]",
		"[n, o, oh, ow]", "oh = (h-1)*stride - 2*padding + dilation*(kh-1) + output_padding + 1")
	ConvTranspose3d = convTransposeOp("conv_transpose3d", 3, "[n, c, d, h, w] or [c, d, h, w]",
		"[c, o/groups, kd, kh, kw]", "[n, o, od, oh, ow]", "od = (d-1)*stride - 2*padding + dilation*(kd-1) + "+
			"output_padding + 1")
)

// convTransposeOp defines a transposed convolution. inputDoc, weightDoc, resultDoc and sizeDoc are parts of the
// documentation: the shapes of input, weight and result, and the formula of a result size.
func convTransposeOp(name string, dims int, inputDoc, weightDoc, resultDoc, sizeDoc string) *graph.Op {
	op := transposedConv{name: name, dims: dims}
	inputShape, weightDims := []int{2, 4, 3, 4, 5}[:2+dims], []int{4, 3, 2, 3, 1}[:2+dims]
	return kit.Define[*convTransposeAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name,
			Doc: "Adds each element of the input, times the weight, to a window of the result: `input` " + inputDoc +
				", `weight` " + weightDoc + " and `bias` [o] give " + resultDoc +
				" with " + sizeDoc + ". The result is row-major.",
			Params: []graph.Param{kit.Input, kit.Weight, kit.OptBias},
			Infer: func(c *graph.Call) ([]graph.Result, error) {
				resultType, err := op.result(c)
				return c.NewResult(resultType), err
			},
			Ref: op.ref,
			Examples: []graph.Example{
				{In: []tensor.Meta{tensor.New(tensor.Float32, inputShape...), tensor.New(tensor.Float32, weightDims...),
					tensor.New(tensor.Float32, 3)}},
				{In: []tensor.Meta{tensor.New(tensor.Float64, inputShape[1:]...), tensor.New(tensor.Float64, weightDims...),
					tensor.New(tensor.Float64, 6)},
					Attrs: graph.Attrs{"groups": 2, "stride": 2, "padding": 1, "output_padding": 1}},
			},
		},
		Facts: graph.Facts{
			Parallel: kit.BatchLoopForRank(dims+2, 0),
			Flops: func(c *graph.Call) float64 {
				weight := c.Meta(1)
				if weight.Numel() == 0 {
					return 0
				}
				return 2 * float64(c.Meta(0).Numel()) * float64(weight.Numel()/weight.Shape[0])
			},
		},
		Lowerings: graph.Lowerings{
			Impls:   op.impls(),
			Rewrite: compose.WidenToFloat32,
		},
	})
}

// impls lists the implementations.
func (op transposedConv) impls() []graph.Impl {
	names := [2]string{"direct_nhwc", "direct_planes"}
	if op.dims == 3 {
		names = [2]string{"direct_ndhwc", "direct_ncdhw"}
	}
	const byPixels, byPlanes = false, true
	return []graph.Impl{
		{Name: "spread", Doc: "Multiplies the weight by the input, and adds the resulting windows to the result.",
			Work: op.work, Lower: op.compile, Pack: op.pack},
		op.directImpl(names[0], "Multiplies pixels in place by the packed weight, one convolution with stride 1 for each "+
			"remainder of positions modulo the stride; channels last.", byPixels),
		op.directImpl(names[1], "Multiplies pixels of planes in place by the packed weight, one convolution with stride 1 "+
			"for each remainder of positions modulo the stride; the result is channels-last.", byPlanes),
	}
}

// compile makes the kernel of the implementation "spread", which computes a few images at a time. It multiplies the
// transposed weight by the input, which gives a product for each input element, output channel and tap. It then sums
// the overlapping windows in the result.
func (op transposedConv) compile(c *graph.Call) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	dtype := c.Out[0].DType.OpMath() // of sums
	windows, builder := op.windows(c), copies.NewKernelBuilder(c)
	operands := builder.Operands(dtype)
	out := builder.Result(0, dtype)
	inputPixels, rows := windows.inputPixels(), windows.weightRows()
	panels := transposedPanels(windows, dtype)
	isPacked, err := multiply.IsPackedIn(c, 1, panels)
	if err != nil {
		return nil, err
	}
	plan, err := transposedPlan(dtype, rows, inputPixels, windows.inPerGroup(), isPacked)
	if err != nil {
		return nil, err
	}
	windowBytes := kit.BoundedProduct(windows.groups, rows, inputPixels, dtype.Size())
	if windowBytes > tensor.MaxBytes {
		return nil, errors.New("the windows of one image take more than 2^47 bytes")
	}
	imagesAtOnce := min(windows.images, max(1, maxProductBytes/windowBytes))
	products := builder.NewScratch(dtype, imagesAtOnce*windows.groups*rows*inputPixels)
	adder, err := newWindowAdder(windows, dtype)
	if err != nil {
		return nil, err
	}
	adderBytes, addChannels := adder.workerBytes(), channelAdders[dtype]
	if adder != nil {
		builder.AddListings(func() []expr.Listing { return []expr.Listing{adder.addRow.Listing("windows")} })
	}
	for firstImage := 0; firstImage < windows.images; firstImage += imagesAtOnce {
		imageCount := min(imagesAtOnce, windows.images-firstImage)
		multiplier := windows.multiplier(plan, dtype, firstImage, imageCount)
		if isPacked {
			multiplier.A = panels.PackedOffsets(multiplier.A)
		}
		phases, scratchBytes, workerBytes := multiplier.Phases(0)
		builder.AddPhases(scratchBytes, workerBytes, []kit.Buffer{products, operands[0], operands[1]}, phases...)
		buffers := []kit.Buffer{out, products}
		if windows.hasBias {
			buffers = append(buffers, operands[2])
		}
		channelCost := kit.BoundedProduct(inputPixels, windows.taps()) + windows.resultPixels()
		builder.AddPhases(0, adderBytes, buffers, copies.ChunkedPhase(imageCount*windows.outChannels, channelCost,
			func(mem *graph.Mem, begin, end int) error {
				addChannels(windows, adder, mem, firstImage*windows.outChannels, begin, end)
				return nil
			}))
	}
	return builder.Kernel()
}

// multiplier returns the products of the weight and the images [firstImage, firstImage+imageCount). Its A has the
// offsets of a weight that is not packed.
func (s *transposedWindows) multiplier(plan *gemm.Plan, dtype tensor.DType, firstImage,
	imageCount int) *multiply.Multiplier {
	inputPixels, inPerGroup, rows := s.inputPixels(), s.inPerGroup(), s.weightRows()
	return &multiply.Multiplier{Plan: plan, Entries: imageCount * s.groups,
		MACs: kit.BoundedProduct(rows, inputPixels, inPerGroup),
		A:    entryOffsets(imageCount, 0, s.groups, inPerGroup*rows),
		B:    entryOffsets(imageCount, s.inChannels*inputPixels, s.groups, inPerGroup*inputPixels),
		C:    entryOffsets(imageCount, s.groups*rows*inputPixels, s.groups, rows*inputPixels),
		Bind: func(mem *graph.Mem, job *multiply.Job) {
			job.C, job.A = mem.Ptrs[0], mem.Ptrs[2]
			job.B = unsafe.Add(mem.Ptrs[1], firstImage*s.inChannels*inputPixels*dtype.Size())
		}}
}

// transposedPlan plans the product of the transposed weight, [rows, depth], and the pixels of an image, [depth,
// pixels].
func transposedPlan(dtype tensor.DType, rows, pixels, depth int, isPacked bool) (*gemm.Plan, error) {
	spec := gemm.Spec{DType: dtype, M: rows, N: pixels, K: depth, A: gemm.Operand{RowStride: 1, ColStride: rows},
		B: gemm.Operand{RowStride: pixels, ColStride: 1}, CRowStride: pixels, CColStride: 1}
	if isPacked {
		spec.A.Source = gemm.Prepacked
	}
	return gemm.NewPlan(spec)
}

// channelAdders has the instance of addChannels for each dtype of sums.
var channelAdders = map[tensor.DType]func(windows *transposedWindows, adder *windowAdder, mem *graph.Mem, first, begin,
	end int){
	tensor.Int64: addChannels[int64], tensor.Float32: addChannels[float32], tensor.Float64: addChannels[float64],
	tensor.Complex64: addChannels[complex64], tensor.Complex128: addChannels[complex128],
}

// addChannels sums the windows of channels [begin, end) of some images. The channels of all images of the batch are
// numbered together; first is the number of the first channel of these images.
func addChannels[T int64 | float32 | float64 | complex64 | complex128](windows *transposedWindows, adder *windowAdder,
	mem *graph.Mem, first, begin, end int) {
	channelElements, windowElements := windows.resultPixels(), windows.inputPixels()*windows.taps()
	for channel := begin; channel < end; channel++ {
		var bias T
		if windows.hasBias {
			bias = kit.ElementsOf[T](mem.Ptrs[2], windows.outChannels)[channel%windows.outChannels]
		}
		if adder != nil {
			adder.sumChannel(mem, kit.AddressOf[T](mem.Ptrs[0], (first+channel)*channelElements),
				kit.AddressOf[T](mem.Ptrs[1], channel*windowElements), unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch)),
				realOf(bias))
			continue
		}
		addWindows(mem, windows, kit.PlaneOf[T](mem.Ptrs[0], first+channel, channelElements),
			kit.PlaneOf[T](mem.Ptrs[1], channel, windowElements), bias)
	}
}

// transposedPanels returns the panels of the transposed weight. The rows of this matrix are the taps of a group's
// output channels.
func transposedPanels(windows *transposedWindows, dtype tensor.DType) *multiply.Panels {
	rows, depth := windows.weightRows(), windows.inPerGroup()
	return multiply.MatrixPanels(dtype, gemm.PanelRows(dtype), rows, 1, depth, rows,
		entryOffsets(1, 0, windows.groups, depth*rows))
}

// pack implements [graph.Impl.Pack]: operand 1, a constant weight, is packed.
func (op transposedConv) pack(c *graph.Call, i int) (p graph.Packing, ok bool) {
	if i != 1 || !c.Meta(1).IsContiguous() || c.Out[0].Numel() == 0 {
		return p, false
	}
	dtype := c.Out[0].DType.OpMath()
	if dtype != tensor.Float32 && dtype != tensor.Float64 {
		return p, false
	}
	return multiply.PackingOf(transposedPanels(op.windows(c), dtype)), true
}

// windows returns the geometry of a call.
func (op transposedConv) windows(c *graph.Call) *transposedWindows {
	params := op.params(c, op.dims)
	input, weight, out := c.Meta(0), c.Meta(1), c.Out[0]
	windows := &transposedWindows{images: 1, inChannels: weight.Shape[0], outChannels: weight.Shape[1] * params.groups,
		groups: params.groups, hasBias: c.HasOperand(2)}
	if input.Rank() == op.dims+2 {
		windows.images = input.Shape[0]
	}
	windows.window = newWindow(newAxes(out.Shape, input.Shape, weight.Shape[2:], params.stride,
		kit.KnownSizes(params.padding), params.dilation))
	return windows
}

// params returns the attributes of a call whose weight has dims spatial dimensions.
func (op transposedConv) params(c *graph.Call, dims int) convParams {
	a := kit.Attrs[*convTransposeAttrs](c)
	padding := perDim(sym.Ints(a.Padding...), dims)
	return convParams{stride: perDim(a.Stride, dims), padding: padding, paddingAfter: padding,
		dilation: perDim(a.Dilation, dims), outputPadding: perDim(a.OutputPadding, dims), groups: a.Groups}
}

// result checks a call and returns the type of its row-major result.
func (op transposedConv) result(call *graph.Call) (tensor.Type, error) {
	input, weight := call.Type(0), call.Type(1)
	if rank := input.Rank(); rank != op.dims+1 && rank != op.dims+2 {
		return input, fmt.Errorf("Expected %dD (unbatched) or %dD (batched) input to %s, but got input of size: %s",
			op.dims+1, op.dims+2, op.name, tensor.Sizes(input.Shape))
	}
	isUnbatched := input.Rank() == op.dims+1
	shape := input.Shape
	if isUnbatched {
		shape = append(sym.Ints(1), shape...)
	}
	params := op.params(call, max(1, weight.Rank()-2))
	if err := op.check(call, &params, shape); err != nil {
		return input, err
	}
	out := make([]sym.Int, 2, 2+op.dims)
	out[0], out[1] = shape[0], weight.Shape[1].Mul(sym.Of(params.groups))
	for axis := range op.dims {
		strideSpan := kit.BoundedSizeProduct(shape[2+axis].Sub(sym.Of(1)), sym.Of(params.stride[axis]))
		window := kit.BoundedSizeProduct(weight.Shape[2+axis].Sub(sym.Of(1)), sym.Of(params.dilation[axis]))
		border := params.outputPadding[axis] + 1 - 2*kit.KnownSize(params.padding[axis])
		out = append(out, strideSpan.Add(window).Add(sym.Of(border)))
	}
	if err := op.checkSizes(&params, shape, out); err != nil {
		return input, err
	}
	if err := op.checkDTypes(call); err != nil {
		return input, err
	}
	if isUnbatched {
		out = out[1:]
	}
	resultType := tensor.NewType(input.DType, out...)
	if !isUnbatched && kit.SizeIs(out[0], 0) && tensor.SameSizes(out, input.Shape) {
		resultType = emptyResultType(input)
	}
	return resultType, resultType.Check()
}

// check mirrors aten's check_shape_forward and the checks of the kernels for transposed convolutions.
func (op transposedConv) check(call *graph.Call, params *convParams, shape []sym.Int) error {
	weight := call.Type(1)
	if err := params.checkShapes(shape, weight); err != nil {
		return err
	}
	if shape[1].Ne(weight.Shape[0]).Holds() {
		return fmt.Errorf("Given transposed=1, weight of size %s, expected input%s to have %v channels, but got "+
			"%v channels instead", tensor.Sizes(weight.Shape), tensor.Sizes(shape), weight.Shape[0], shape[1])
	}
	channels := weight.Shape[1].Mul(sym.Of(params.groups))
	if biasType := call.Type(2); call.HasOperand(2) && (biasType.Rank() != 1 || biasType.Shape[0].Ne(channels).Holds()) {
		return fmt.Errorf("Given transposed=1, weight of size %s, expected bias to be 1-dimensional with %v "+
			"elements, but got bias of size %s instead", tensor.Sizes(weight.Shape), channels, tensor.Sizes(biasType.Shape))
	}
	for axis := range params.stride {
		switch {
		case params.dilation[axis] <= 0:
			return errors.New("dilation should be greater than zero, but got" + op.formatAttr("dilation", params.dilation, 1))
		case kit.SizeIs(weight.Shape[2+axis], 0) || kit.SizeIs(weight.Shape[1], 0):
			return fmt.Errorf("non-empty weight tensor expected, but got: %s", tensor.Sizes(weight.Shape))
		case kit.SizeIs(shape[2+axis], 0):
			return fmt.Errorf("non-empty %dD or %dD (batch mode) tensor expected for input, but got: %s", max(op.dims, 2)+1,
				max(op.dims, 2)+2, tensor.Sizes(shape))
		}
	}
	return nil
}

// checkSizes rejects results without elements. It also rejects an output padding that is neither smaller than the
// stride nor smaller than the dilation.
func (op transposedConv) checkSizes(params *convParams, in, out []sym.Int) error {
	for axis := range op.dims {
		if params.outputPadding[axis] >= params.stride[axis] && params.outputPadding[axis] >= params.dilation[axis] {
			return errors.New("output padding must be smaller than either stride or dilation, but got" +
				op.formatAttr("output_padding", params.outputPadding, 0) + op.formatAttr("stride", params.stride,
				1) + op.formatAttr("dilation", params.dilation, 1))
		}
	}
	for axis := range op.dims {
		if out[2+axis].Lt(sym.Of(1)).Holds() {
			joined := func(sizes []sym.Int) string {
				return strings.ReplaceAll(strings.Trim(tensor.Sizes(sizes), "[]"), ", ", " x ")
			}
			return fmt.Errorf("Given input size per channel: (%s). Calculated output size per channel: (%s). Output size "+
				"is too small", joined(in[2:]), joined(out[2:]))
		}
	}
	return nil
}

// formatAttr formats an attribute by dimension for PyTorch's messages, in which a sequence is an image of height 1.
// forHeight is the attribute's value for that height.
func (op transposedConv) formatAttr(name string, list []int, forHeight int) string {
	if op.dims == 1 {
		list = []int{forHeight, list[0]}
	}
	text := ""
	for i, axisName := range []string{"depth", "height", "width"}[3-len(list):] {
		text += fmt.Sprintf(" %s_%s: %d", name, axisName, list[i])
	}
	return text
}

// checkDTypes rejects operands of different dtypes, and dtypes that PyTorch does not support.
func (op transposedConv) checkDTypes(call *graph.Call) error {
	dtype := call.Type(0).DType
	for i := 1; i < 3; i++ {
		if got := call.Type(i).DType; call.HasOperand(i) && got != dtype {
			return fmt.Errorf("expected scalar type %s but found %s", dtype.TorchName(), got.TorchName())
		}
	}
	if !dtype.IsFloat() && !dtype.IsComplex() && dtype != tensor.Int64 {
		return kit.NotImplementedBy(fmt.Sprintf("slow_conv_transpose%dd_out_cpu", max(op.dims, 2)), dtype)
	}
	return nil
}

// ref is the reference implementation. Each element of the result is the sum of the products that are added to it.
func (op transposedConv) ref(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	resultType, err := op.result(c)
	if err != nil {
		return nil, err
	}
	resultMeta, params, weightShape := kit.KnownMeta(resultType), op.params(c, op.dims), in[1].Shape
	inPerGroup, outPerGroup := weightShape[0]/params.groups, weightShape[1]
	axes := newAxes(resultMeta.Shape, in[0].Shape, weightShape[2:], params.stride, kit.KnownSizes(params.padding),
		params.dilation)
	return reference(resultMeta, in, inPerGroup, axes, func(axis *geometry.Axis) [][]tapPair {
		pairs := make([][]tapPair, axis.Size)
		for tap := range axis.Taps {
			first, end := axis.ResultsOf(tap)
			for windowIndex := first; windowIndex < end; windowIndex++ {
				position := axis.Position(windowIndex, tap)
				pairs[position] = append(pairs[position], tapPair{windowIndex, tap})
			}
		}
		return pairs
	}, func(o, k int) (channel, row, column int) {
		channel = o/outPerGroup*inPerGroup + k
		return channel, channel, o % outPerGroup
	})
}

// work returns the work of the products and of the sums of windows.
func (op transposedConv) work(call *graph.Call, _ graph.Walk) graph.Work {
	work := graph.Work{StartedSteps: 1}
	call.AddStreamed(&work)
	if call.Out[0].Numel() == 0 {
		return work
	}
	windows := op.windows(call)
	inputPixels, rows := windows.inputPixels(), windows.weightRows()
	multiply.ReclassifyPanels(&work, call, 1, inputPixels)
	multiply.ReclassifyStores(&work, call)
	work.AddUnits(multiply.RateStartStep, 1)
	multiply.AddProduct(&work, call.Out[0].DType, float64(windows.images*windows.groups), rows, inputPixels,
		windows.inPerGroup())
	work.AddUnits(multiply.RateStartProduct, float64(windows.images*windows.groups))
	work.AddUnits(rateSpreadAdd, float64(windows.images*windows.groups)*float64(rows)*float64(inputPixels))
	return work
}
