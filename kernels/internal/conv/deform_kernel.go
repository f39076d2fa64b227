package conv

import (
	"errors"
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/tensor"
)

// The kernel of deform_conv2d first samples the images and then multiplies matrices. A tap is an element of the window.
// A point is a pixel of the result. A sample is the value of an input channel at the position of a tap for a point. The
// samples of an image are a matrix, named columns. It has a row for each tap of each channel, and a column for each
// point. The result is the product of the weight and this matrix.
//
// For example, an image of 3 channels, a weight [8, 3, 3, 3] and a result of 5x5 points take a 27x25 matrix of
// samples. The weight is an 8x27 matrix, and the product is the 8x25 matrix of the result.

type deformConvAttrs struct {
	Stride       []int `attr:"stride" default:"1" len:"2" doc:"step of the window: [height, width]"`
	Padding      []int `attr:"padding" default:"0" len:"2" doc:"zeros around the image: [height, width]"`
	Dilation     []int `attr:"dilation" default:"1" len:"2" doc:"distance between the elements of the window: [height, width]"`
	Groups       int   `attr:"groups" default:"1" doc:"number of groups into which channels are divided; each group is convolved separately"`
	OffsetGroups int   `attr:"offset_groups" default:"1" doc:"number of groups of input channels with their own offsets and masks"`
}

// The indices of the operands of deform_conv2d after input and weight. Mask and bias are optional.
const (
	deformOffset = 2 + iota
	deformMask
	deformBias
)

// deform describes a call of deform_conv2d with known sizes. The operands of its kernel are row-major.
type deform struct {
	window                      // axes h and w; taps() is the number of taps
	images                  int // number of images
	inChannels, outChannels int
	groups                  int          // number of groups of channels
	inPerGroup              int          // number of input channels per group
	offsetGroups            int          // number of groups of input channels; a group shares offsets and masks
	pointCount              int          // number of points of an image
	dtype                   tensor.DType // of samples and products: float32 or float64
}

// newDeform describes a call.
func newDeform(c *graph.Call) *deform {
	attrs := kit.Attrs[*deformConvAttrs](c)
	inputShape, weightShape, outShape := c.Meta(0).Shape, c.Meta(1).Shape, c.Out[0].Shape
	dtype := tensor.Float32
	if c.Meta(0).DType == tensor.Float64 {
		dtype = tensor.Float64
	}
	axes := newAxes(inputShape, outShape, weightShape[2:], attrs.Stride, attrs.Padding, attrs.Dilation)
	return &deform{window: newWindow(axes), images: inputShape[0], inChannels: inputShape[1],
		outChannels: weightShape[0], inPerGroup: weightShape[1], groups: attrs.Groups, offsetGroups: attrs.OffsetGroups,
		pointCount: outShape[2] * outShape[3], dtype: dtype}
}

// maxProductBytes bounds the intermediate results, in bytes: the samples of a deformable convolution, or the products
// of a transposed convolution.
const maxProductBytes = 32 << 20

// imageRange is a range of images. Their samples are in memory together.
type imageRange struct{ first, count int }

// compileDeform returns the kernel of a call.
func compileDeform(call *graph.Call) (*graph.Kernel, error) {
	if call.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	conv := newDeform(call)
	dtype := conv.dtype
	columnBytes := kit.BoundedProduct(conv.inChannels, conv.taps(), conv.pointCount, dtype.Size()) // of one image
	if columnBytes > tensor.MaxBytes {
		return nil, errors.New("the samples of one image take more than 2^47 bytes")
	}
	imagesAtOnce := min(conv.images, max(1, maxProductBytes/max(1, columnBytes)))

	builder := copies.NewKernelBuilder(call)
	rowMajor := func(operand int) kit.Buffer { return builder.ToRowMajor(builder.Operand(operand), dtype) }
	in, weight, offset, mask := rowMajor(0), rowMajor(1), rowMajor(deformOffset), rowMajor(deformMask)
	bias := builder.Operand(deformBias)
	if bias.IsGiven() {
		bias = builder.ToRowMajor(bias, bias.Meta.DType)
	}
	// The product adds a bias of its own dtype. A bias of another dtype needs a call of the op add, which promotes dtypes.
	productAddsBias := bias.IsGiven() && bias.Meta.DType == dtype
	opAddsBias := bias.IsGiven() && !productAddsBias
	var products kit.Buffer
	if opAddsBias {
		products = builder.NewScratch(dtype, call.Out[0].Shape...)
	} else {
		products = builder.Result(0, dtype)
	}
	columns := builder.NewScratch(dtype, imagesAtOnce, conv.inChannels*conv.taps(), conv.pointCount)
	sampleBuffers := []kit.Buffer{sampledColumns: columns, sampledInput: in, sampledOffset: offset, sampledMask: mask}
	productBuffers := []kit.Buffer{productResult: products, productColumns: columns, productWeight: weight}
	if productAddsBias {
		productBuffers = append(productBuffers, bias)
	}

	for first := 0; first < conv.images; first += imagesAtOnce {
		images := imageRange{first: first, count: min(imagesAtOnce, conv.images-first)}
		phase, workerBytes := conv.samplePhase(images)
		builder.AddPhases(copies.NoScratch, workerBytes, sampleBuffers, phase)
		product, err := conv.product(images, productAddsBias)
		if err != nil {
			return nil, err
		}
		const scratchOffset = 0
		phases, scratch, workerBytes := product.Phases(scratchOffset)
		builder.AddPhases(scratch, workerBytes, productBuffers, phases...)
	}
	if opAddsBias {
		builder.AddCall(pointwise.Add, nil, []kit.Buffer{kit.OutBuffer(call, 0)}, products,
			bias.View(tensor.New(bias.Meta.DType, 1, conv.outChannels, 1, 1)))
	}
	return builder.Kernel()
}

// The indices in Mem.Ptrs of the buffers of the phase that samples.
const (
	sampledColumns = iota
	sampledInput
	sampledOffset
	sampledMask
)

// The indices in Mem.Ptrs of the buffers of the phases that multiply.
const (
	productResult = iota
	productColumns
	productWeight
	productBias
)

// sampleBlock is the maximum number of points of a block. The positions of a tap for a block are computed at once, and
// used for all channels of an offset group.
const sampleBlock = 128

// tapBlock is a unit of work: one tap of a block of points, in all channels of an offset group.
type tapBlock struct {
	group      int // the offset group, counted over all images of the phase
	tap        int
	firstPoint int
}

// samplePhase returns the phase that computes the samples of a range of images, and the size of its worker memory in
// bytes.
func (conv *deform) samplePhase(images imageRange) (phase graph.Phase, workerBytes int) {
	if conv.dtype == tensor.Float64 {
		return sampleColumns[float64](conv, images)
	}
	return sampleColumns[float32](conv, images)
}

// sampleColumns is samplePhase for samples of type T.
func sampleColumns[T float32 | float64](conv *deform, images imageRange) (phase graph.Phase, workerBytes int) {
	blocks := kit.DivUp(conv.pointCount, sampleBlock) // of an image
	channels := conv.inChannels / conv.offsetGroups   // of an offset group
	workerBytes = kit.AlignUp(sampleBlock * int(unsafe.Sizeof(pointSample[T]{})))
	unitCost := sampleBlock * (8 + 4*channels) // estimated: positions and weights once, four pixels per channel
	phase = copies.ChunkedPhase(images.count*conv.offsetGroups*conv.taps()*blocks, unitCost,
		func(mem *graph.Mem, begin, end int) error {
			samples := kit.SliceOf[pointSample[T]](mem.WorkerScratch, 0, sampleBlock)
			for unit := begin; unit < end; unit++ {
				// Units are numbered as [image][offset group][tap][block].
				block := tapBlock{group: unit / blocks / conv.taps(), tap: unit / blocks % conv.taps(),
					firstPoint: unit % blocks * sampleBlock}
				sampleTap(conv, mem, images.first, block, samples)
			}
			return nil
		})
	return phase, workerBytes
}

// sampleTap computes the samples of a block. firstImage is the first image of the phase. samples is temporary memory.
func sampleTap[T float32 | float64](conv *deform, mem *graph.Mem, firstImage int, block tapBlock,
	samples []pointSample[T]) {
	samples = samples[:min(sampleBlock, conv.pointCount-block.firstPoint)]
	locateSamples(conv, mem, firstImage, block, samples)
	channels := conv.inChannels / conv.offsetGroups
	// Channels are counted over all images of the phase.
	for channel := block.group * channels; channel < (block.group+1)*channels; channel++ {
		var plane []T // nil if the image has no pixels
		if mem.Ptrs[sampledInput] != nil {
			plane = kit.PlaneOf[T](mem.Ptrs[sampledInput], firstImage*conv.inChannels+channel, conv.h.Size*conv.w.Size)
		}
		row := kit.PlaneOf[T](mem.Ptrs[sampledColumns], channel*conv.taps()+block.tap, conv.pointCount)
		samplePoints(row[block.firstPoint:], plane, conv.w.Size, samples)
	}
}

// pointSample describes how a sample is interpolated between four pixels. The pixels are in the order upper left, upper
// right, lower left, lower right.
type pointSample[T float32 | float64] struct {
	upperLeft int     // row-major index of the upper left pixel in the image
	inside    [4]bool // whether each pixel is inside the image
	allInside bool    // whether all pixels are inside the image
	weight    [4]T    // bilinear weight of each pixel
	factor    T       // from the mask; 1 if there is no mask
}

// locateSamples computes the fields of the samples of a block: positions, weights and mask factors. An offset group has
// two offsets for each tap and point: first the vertical offsets of all points, then the horizontal offsets.
func locateSamples[T float32 | float64](conv *deform, mem *graph.Mem, firstImage int, block tapBlock,
	samples []pointSample[T]) {
	tap := (firstImage*conv.offsetGroups+block.group)*conv.taps() + block.tap // counted over all groups of all images
	offsets := kit.PlaneOf[T](mem.Ptrs[sampledOffset], tap, 2*conv.pointCount)
	offsetsY, offsetsX := offsets[block.firstPoint:conv.pointCount], offsets[conv.pointCount+block.firstPoint:]
	_, tapRow, tapCol := conv.tap(block.tap)
	outRow, outCol := block.firstPoint/conv.w.Results, block.firstPoint%conv.w.Results
	for i := range samples {
		samples[i] = newPointSample(conv.h.Size, conv.w.Size, T(conv.h.Position(outRow, tapRow))+offsetsY[i],
			T(conv.w.Position(outCol, tapCol))+offsetsX[i])
		if outCol++; outCol == conv.w.Results {
			outRow, outCol = outRow+1, 0
		}
	}
	if mem.Ptrs[sampledMask] != nil {
		mask := kit.PlaneOf[T](mem.Ptrs[sampledMask], tap, conv.pointCount)[block.firstPoint:]
		for i := range samples {
			samples[i].factor = mask[i]
		}
	}
}

// newPointSample returns the sample at (y, x), without the mask. The sample is 0 if its position is at least one pixel
// outside the image. NaN coordinates give NaN.
func newPointSample[T float32 | float64](height, width int, y, x T) pointSample[T] {
	sample := pointSample[T]{factor: 1}
	switch {
	case y != y || x != x: // NaN
		for i := range sample.weight {
			sample.weight[i] = T(math.NaN())
		}
		return sample
	case y <= -1 || y >= T(height) || x <= -1 || x >= T(width):
		return sample
	}
	upper, left := int(math.Floor(float64(y))), int(math.Floor(float64(x)))
	dy, dx := y-T(upper), x-T(left)
	sample.upperLeft = upper*width + left
	upperInside, lowerInside, leftInside, rightInside := upper >= 0, upper+1 < height, left >= 0, left+1 < width
	sample.inside = [4]bool{upperInside && leftInside, upperInside && rightInside, lowerInside && leftInside,
		lowerInside && rightInside}
	sample.allInside = upperInside && lowerInside && leftInside && rightInside
	sample.weight = [4]T{(1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx}
	return sample
}

// samplePoints writes the samples of a block in one channel to dst. plane has the pixels of the channel, in rows of the
// given width.
func samplePoints[T float32 | float64](dst, plane []T, width int, samples []pointSample[T]) {
	dst = dst[:len(samples)]
	for i := range samples {
		sample := &samples[i]
		if sample.allInside {
			upper, lower := plane[sample.upperLeft:sample.upperLeft+2], plane[sample.upperLeft+width:sample.upperLeft+width+2]
			dst[i] = sample.factor * (T(sample.weight[0]*upper[0]) + T(sample.weight[1]*upper[1]) +
				T(sample.weight[2]*lower[0]) + T(sample.weight[3]*lower[1]))
			continue
		}
		var sum T
		for k, isInside := range sample.inside {
			var pixel T
			if isInside { // pixel k is in row k/2 and column k%2 of the 2x2 pixels
				pixel = plane[sample.upperLeft+k/2*width+k%2]
			}
			sum += T(sample.weight[k] * pixel)
		}
		dst[i] = sample.factor * sum
	}
}

// product returns the products of the weight and the columns of a range of images: one product for each group of each
// image.
func (conv *deform) product(images imageRange, addsBias bool) (*multiply.Multiplier, error) {
	// The matrices of a group are the weight A [M, K], the columns B [K, N] and the result C [M, N].
	outPerGroup, depth := conv.outChannels/conv.groups, conv.inPerGroup*conv.taps()
	spec := gemm.Spec{DType: conv.dtype, M: outPerGroup, N: conv.pointCount, K: depth,
		A: gemm.Operand{RowStride: depth, ColStride: 1}, B: gemm.Operand{RowStride: conv.pointCount, ColStride: 1},
		CRowStride: conv.pointCount, CColStride: 1}
	if addsBias {
		spec.Bias, spec.BiasStride = gemm.BiasRows, 1
	}
	plan, err := gemm.NewPlan(spec)
	if err != nil {
		return nil, err
	}
	// An entry is the product for one group of one image. A, B, C and Bias list the offset of each entry's matrix.
	// entryOffsets computes the offsets from the stride of images and the stride of groups.
	columnElements := conv.inChannels * conv.taps() * conv.pointCount // of an image
	outElements := conv.outChannels * conv.pointCount                 // of an image
	const sharedByImages = 0                                          // stride of images in weight and bias
	multiplier := &multiply.Multiplier{Plan: plan, Entries: images.count * conv.groups,
		MACs: kit.BoundedProduct(outPerGroup, conv.pointCount, depth),
		A:    entryOffsets(images.count, sharedByImages, conv.groups, outPerGroup*depth),
		B:    entryOffsets(images.count, columnElements, conv.groups, depth*conv.pointCount),
		C:    entryOffsets(images.count, outElements, conv.groups, outPerGroup*conv.pointCount),
		Bias: entryOffsets(images.count, sharedByImages, conv.groups, outPerGroup)}
	multiplier.Bind = func(mem *graph.Mem, job *multiply.Job) {
		job.A, job.B = mem.Ptrs[productWeight], mem.Ptrs[productColumns]
		job.C = unsafe.Add(mem.Ptrs[productResult], images.first*outElements*conv.dtype.Size())
		if addsBias {
			job.Bias = mem.Ptrs[productBias]
		}
	}
	return multiplier, nil
}
