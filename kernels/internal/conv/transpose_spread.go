package conv

import (
	"errors"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// spreadKernel is the implementation "spread" of a transposed convolution. It computes a few images at a time. It
// multiplies the transposed weight by the input, which gives a product for each input element, output channel and tap.
// It then sums the overlapping windows of each output channel in the result. For example, an image of 3 channels and
// 5x5 pixels, with 8 output channels and windows of 2x2, is a 3x25 matrix. The transposed weight is a 32x3 matrix, with
// a row for each tap of each output channel. The product is the 32x25 matrix of all windows.
type spreadKernel struct {
	*transposedWindows
	dtype        tensor.DType     // of the sums
	weightPanels *multiply.Panels // the packed form of the weight
	isPacked     bool             // whether the weight is packed
	plan         *gemm.Plan       // multiplies the weight by an image, for one group
	adder        *windowAdder     // sums windows; nil if Go sums them, without machine code
}

// newSpreadKernel returns the kernel of a call whose result has elements.
func newSpreadKernel(c *graph.Call, windows *transposedWindows, dtype tensor.DType) (*spreadKernel, error) {
	s := &spreadKernel{transposedWindows: windows, dtype: dtype, weightPanels: transposedPanels(windows, dtype)}
	var err error
	const weight = 1 // index of the operand
	if s.isPacked, err = multiply.IsPackedIn(c, weight, s.weightPanels); err != nil {
		return nil, err
	}
	if s.plan, err = s.newPlan(); err != nil {
		return nil, err
	}
	if s.imageBytes() > tensor.MaxBytes {
		return nil, errors.New("the windows of one image take more than 2^47 bytes")
	}
	s.adder, err = newWindowAdder(windows, dtype)
	return s, err
}

// newPlan plans the product of the transposed weight, [rows, inPerGroup], and the pixels of an image, [inPerGroup,
// pixels].
func (s *spreadKernel) newPlan() (*gemm.Plan, error) {
	rows, pixels := s.weightRows(), s.inputPixels()
	spec := gemm.Spec{DType: s.dtype, M: rows, N: pixels, K: s.inPerGroup(),
		A: gemm.Operand{RowStride: 1, ColStride: rows}, B: gemm.Operand{RowStride: pixels, ColStride: 1},
		CRowStride: pixels, CColStride: 1}
	if s.isPacked {
		spec.A.Source = gemm.Prepacked
	}
	return gemm.NewPlan(spec)
}

// imageBytes returns the number of bytes of the products of one image.
func (s *spreadKernel) imageBytes() int {
	return kit.BoundedProduct(s.groups, s.weightRows(), s.inputPixels(), s.dtype.Size())
}

// compile implements [graph.Impl.Lower] for the implementation "spread".
func (op transposedConv) compile(c *graph.Call) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	dtype := c.Out[0].DType.OpMath()
	windows, builder := op.windows(c), copies.NewKernelBuilder(c)
	operands := builder.Operands(dtype)
	out := builder.Result(0, dtype)
	s, err := newSpreadKernel(c, windows, dtype)
	if err != nil {
		return nil, err
	}
	if s.adder != nil {
		builder.AddListings(func() []expr.Listing { return []expr.Listing{s.adder.addRow.Listing("windows")} })
	}
	imagesAtOnce := min(s.images, max(1, maxProductBytes/s.imageBytes())) // as many as the limit permits, or one
	products := builder.NewScratch(dtype, imagesAtOnce*s.groups*s.weightRows()*s.inputPixels())
	sumBuffers := []kit.Buffer{out, products}
	if s.hasBias {
		sumBuffers = append(sumBuffers, operands[2])
	}
	for firstImage := 0; firstImage < s.images; firstImage += imagesAtOnce {
		imageCount := min(imagesAtOnce, s.images-firstImage)
		const scratchOffset = 0
		multiplyPhases, scratchBytes, workerBytes := s.multiplier(firstImage, imageCount).Phases(scratchOffset)
		builder.AddPhases(scratchBytes, workerBytes, []kit.Buffer{products, operands[0], operands[1]},
			multiplyPhases...)
		builder.AddPhases(copies.NoScratch, s.adder.workerBytes(), sumBuffers, s.sumPhase(firstImage, imageCount))
	}
	return builder.Kernel()
}

// multiplier returns the products of the weight and the images [firstImage, firstImage+imageCount). An entry is the
// product for one group of one image.
func (s *spreadKernel) multiplier(firstImage, imageCount int) *multiply.Multiplier {
	inputPixels, inPerGroup, rows := s.inputPixels(), s.inPerGroup(), s.weightRows()
	// offsetsOf returns the offset of a matrix for each entry. The offsets of the images are multiples of imageStride.
	offsetsOf := func(imageStride, groupStride int) []int {
		return entryOffsets(imageCount, imageStride, s.groups, groupStride)
	}
	weightOffsets := offsetsOf(0, inPerGroup*rows) // all images have the same weight
	if s.isPacked {
		weightOffsets = s.weightPanels.PackedOffsets(weightOffsets)
	}
	return &multiply.Multiplier{Plan: s.plan, Entries: imageCount * s.groups,
		MACs: kit.BoundedProduct(rows, inputPixels, inPerGroup),
		A:    weightOffsets,
		B:    offsetsOf(s.inChannels*inputPixels, inPerGroup*inputPixels),
		C:    offsetsOf(s.groups*rows*inputPixels, rows*inputPixels),
		Bind: func(mem *graph.Mem, job *multiply.Job) {
			job.C, job.A = mem.Ptrs[0], mem.Ptrs[2]
			job.B = unsafe.Add(mem.Ptrs[1], firstImage*s.inChannels*inputPixels*s.dtype.Size())
		}}
}

// sumPhase returns the phase that sums the windows of the images [firstImage, firstImage+imageCount).
func (s *spreadKernel) sumPhase(firstImage, imageCount int) graph.Phase {
	channelCost := kit.BoundedProduct(s.inputPixels(), s.taps()) + s.resultPixels()
	sum, firstChannel := sumChannelsOf[s.dtype], firstImage*s.outChannels
	return copies.ChunkedPhase(imageCount*s.outChannels, channelCost, func(mem *graph.Mem, begin, end int) error {
		sum(s, mem, firstChannel, begin, end)
		return nil
	})
}

// sumChannelsOf has the instance of sumChannels for each dtype of sums.
var sumChannelsOf = map[tensor.DType]func(s *spreadKernel, mem *graph.Mem, firstChannel, begin, end int){
	tensor.Int64: sumChannels[int64], tensor.Float32: sumChannels[float32], tensor.Float64: sumChannels[float64],
	tensor.Complex64: sumChannels[complex64], tensor.Complex128: sumChannels[complex128],
}

// sumChannels sums the windows of channels [begin, end) of the images that were multiplied together. The channels of
// all images have one numbering. With 3 output channels, channel 4 is channel 1 of the second image. The same channel
// has the number firstChannel+4 in the result, which has all images of the batch.
func sumChannels[T int64 | float32 | float64 | complex64 | complex128](s *spreadKernel, mem *graph.Mem, firstChannel,
	begin, end int) {
	channelElements, productElements := s.resultPixels(), s.inputPixels()*s.taps()
	for channel := begin; channel < end; channel++ {
		var bias T
		if s.hasBias {
			bias = kit.ElementsOf[T](mem.Ptrs[2], s.outChannels)[channel%s.outChannels]
		}
		if s.adder != nil { // T is float32 or float64, so realOf keeps the value
			s.adder.sumChannel(mem, kit.AddressOf[T](mem.Ptrs[0], (firstChannel+channel)*channelElements),
				kit.AddressOf[T](mem.Ptrs[1], channel*productElements),
				unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch)), realOf(bias))
			continue
		}
		sumChannelInGo(mem, s.transposedWindows, kit.PlaneOf[T](mem.Ptrs[0], firstChannel+channel, channelElements),
			kit.PlaneOf[T](mem.Ptrs[1], channel, productElements), bias)
	}
}

// transposedPanels returns the panels of the transposed weight. A group's matrix has a row for each tap of each output
// channel, and a column (depth) for each input channel. The matrix is stored by columns: its row stride is 1.
func transposedPanels(windows *transposedWindows, dtype tensor.DType) *multiply.Panels {
	rows, depth := windows.weightRows(), windows.inPerGroup()
	const imageCount, imageStride = 1, 0
	groupOffsets := entryOffsets(imageCount, imageStride, windows.groups, depth*rows)
	rowStride, columnStride := 1, rows
	return multiply.MatrixPanels(dtype, gemm.PanelRows(dtype), rows, rowStride, depth, columnStride, groupOffsets)
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

// work implements [graph.Impl.Work]: the work of the products and of the sums of windows. AddStreamed counts the bytes
// of all operands and results as sequential access.
func (op transposedConv) work(call *graph.Call, _ graph.Walk) pricing.Work {
	work := pricing.Work{StartedSteps: 1}
	call.AddStreamed(&work)
	if call.Out[0].Numel() == 0 {
		return work
	}
	windows := op.windows(call)
	inputPixels, rows := windows.inputPixels(), windows.weightRows()
	const weight = 1
	multiply.ReclassifyPanels(&work, call, weight, inputPixels) // counts bytes of the weight as panels
	multiply.ReclassifyStores(&work, call)                      // counts bytes of the result as copied
	work.AddUnits(multiply.RateStartStep, 1)
	multiply.AddProduct(&work, call.Out[0].DType, float64(windows.images*windows.groups), rows, inputPixels,
		windows.inPerGroup())
	work.AddUnits(multiply.RateStartProduct, float64(windows.images*windows.groups))
	work.AddUnits(rateSpreadAdd, float64(windows.images*windows.groups)*float64(rows)*float64(inputPixels))
	return work
}
