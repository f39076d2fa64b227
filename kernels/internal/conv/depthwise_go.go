package conv

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// This file has depthwise convolutions in Go, for dtypes and processors that the machine code (planeTiles,
// depthwiseWindow) does not support. They read the input in place: each output channel has only one input channel, so
// packing windows would not be faster. A tap is an element of the window. In the loops, mem.Ptrs has the addresses of
// the result, the input, the weight and the bias. The conversion T(x*y) of a product forbids a fused multiply-add.
//
// The implementation by planes computes a row of one channel, window row by window row:
//
//	out[:] = bias; for each row of the window: out[i] += w0*in[i] + w1*in[i+1] + w2*in[i+2] for all i
//
// The implementation by pixels computes all channels of a pixel, tap by tap.

// number lists the element types of convolutions in Go.
type number interface {
	uint8 | int8 | int16 | int32 | int64 | float32 | float64 | complex64 | complex128
}

// depthwiseLoops has the loops in Go for a dtype.
type depthwiseLoops struct {
	// computePlaneRow computes one row of one plane of the result. row is an index over the rows of all planes of all
	// images.
	computePlaneRow func(conv *convShape, mem *graph.Mem, row int)
	// computePixelRow computes one row of the result in all channels. weight is packed. row is an index over the rows of
	// all images.
	computePixelRow func(conv *convShape, mem *graph.Mem, weight unsafe.Pointer, row int)
}

// depthwiseByDType has the loops by dtype of the computation.
var depthwiseByDType = map[tensor.DType]depthwiseLoops{
	tensor.Uint8: newDepthwiseLoops[uint8](), tensor.Int8: newDepthwiseLoops[int8](),
	tensor.Int16: newDepthwiseLoops[int16](),
	tensor.Int32: newDepthwiseLoops[int32](), tensor.Int64: newDepthwiseLoops[int64](),
	tensor.Float32: newDepthwiseLoops[float32](), tensor.Float64: newDepthwiseLoops[float64](),
	tensor.Complex64: newDepthwiseLoops[complex64](), tensor.Complex128: newDepthwiseLoops[complex128](),
}

// newDepthwiseLoops returns the loops for elements of type T.
func newDepthwiseLoops[T number]() depthwiseLoops {
	return depthwiseLoops{computePlaneRow: computePlaneRow[T], computePixelRow: computePixelRow[T]}
}

// depthwiseLoopsFor returns the loops of a dtype.
func depthwiseLoopsFor(dtype tensor.DType) (depthwiseLoops, error) {
	loops, ok := depthwiseByDType[dtype]
	if !ok {
		return loops, fmt.Errorf("no convolution of %v", dtype)
	}
	return loops, nil
}

// depthwiseKernelByPlanes makes the kernel of the implementation by planes. Its operands may have any strides.
func depthwiseKernelByPlanes(conv *convShape) (*graph.Kernel, error) {
	dtype := conv.call.Out[0].DType
	if tiles, err := newPlaneTiles(conv, dtype); err != nil {
		return nil, err
	} else if tiles != nil {
		return tiles.kernel(), nil
	}
	loops, err := depthwiseLoopsFor(dtype)
	if err != nil {
		return nil, err
	}
	rows, rowMACs := conv.batch*conv.outChannels*conv.h.Results, conv.w.Results*conv.h.Taps*conv.w.Taps
	phase := rowPhase(rows, rowMACs, func(mem *graph.Mem, row int) { loops.computePlaneRow(conv, mem, row) })
	return &graph.Kernel{Phases: []graph.Phase{phase}}, nil
}

// rowPhase returns a phase that calls computeRow for each row. rowMACs is the number of multiply-adds per row.
func rowPhase(rows, rowMACs int, computeRow func(mem *graph.Mem, row int)) graph.Phase {
	rowsPerChunk := max(1, machine.DirectMACGrain/max(1, rowMACs))
	return graph.Phase{Chunks: kit.DivUp(rows, rowsPerChunk), Run: func(mem *graph.Mem, chunk int) error {
		for row := chunk * rowsPerChunk; row < min(rows, (chunk+1)*rowsPerChunk); row++ {
			computeRow(mem, row)
		}
		return nil
	}}
}

// computePlaneRow computes a row of one plane of the result.
func computePlaneRow[T number](conv *convShape, mem *graph.Mem, row int) {
	outRow, channel, image := row%conv.h.Results, row/conv.h.Results%conv.outChannels, row/conv.h.Results/conv.outChannels
	out := kit.AddressOf[T](mem.Ptrs[0], image*conv.outStride.n+channel*conv.outStride.c+outRow*conv.outStride.h)
	plane := kit.AddressOf[T](mem.Ptrs[1], image*conv.inStride.n+channel/conv.outPerGroup()*conv.inStride.c)
	weights := kit.AddressOf[T](mem.Ptrs[2], channel*conv.weightStride.n)
	var bias T
	if conv.hasBias {
		bias = *(*T)(kit.AddressOf[T](mem.Ptrs[3], channel*conv.biasStride))
	}
	for column := range conv.w.Results {
		*(*T)(kit.AddressOf[T](out, column*conv.outStride.w)) = bias
	}
	for tapRow := range conv.h.Taps {
		if inRow := conv.h.Position(outRow, tapRow); conv.h.Contains(inRow) {
			addWindowRow[T](conv, out, kit.AddressOf[T](plane, inRow*conv.inStride.h),
				kit.AddressOf[T](weights, tapRow*conv.weightStride.h))
		}
	}
}

// addWindowRow adds the products of one row of the window to an output row. in is an input row, and weights the row of
// the window.
func addWindowRow[T number](conv *convShape, out, in, weights unsafe.Pointer) {
	weight := func(tap int) T { return *(*T)(kit.AddressOf[T](weights, tap*conv.weightStride.w)) }
	isContiguous := conv.outStride.w == 1 && conv.inStride.w == 1
	if conv.w.Taps == 3 && conv.w.Dilation == 1 && isContiguous {
		// One loop computes the results whose three taps are all inside the image. The other results are computed tap
		// by tap.
		first, _ := conv.w.ResultsOf(0) // the first result whose tap 0 is inside
		_, end := conv.w.ResultsOf(2)   // the end of the results whose tap 2 is inside
		if first < end {
			for tap := range conv.w.Taps {
				addTap[T](conv, out, in, weight(tap), tap, 0, first)
			}
			addThreeTaps(unsafe.Slice((*T)(kit.AddressOf[T](out, first)), end-first),
				kit.AddressOf[T](in, conv.w.Begin(first)), conv.w.Stride, weight(0), weight(1), weight(2))
			for tap := range conv.w.Taps {
				addTap[T](conv, out, in, weight(tap), tap, end, conv.w.Results)
			}
			return
		}
	}
	for tap := range conv.w.Taps {
		addTap[T](conv, out, in, weight(tap), tap, 0, conv.w.Results)
	}
}

// addThreeTaps adds the products of three neighbouring taps to each output. in is the address of the first output's
// window, and the windows of neighbouring outputs are stride elements apart.
func addThreeTaps[T number](out []T, in unsafe.Pointer, stride int, w0, w1, w2 T) {
	elements := unsafe.Slice((*T)(in), (len(out)-1)*stride+3)
	if stride == 1 {
		x0, x1, x2 := elements[:len(out)], elements[1:][:len(out)], elements[2:][:len(out)]
		for i := range out {
			out[i] += T(w0*x0[i]) + T(w1*x1[i]) + T(w2*x2[i])
		}
		return
	}
	for i := range out {
		window := elements[i*stride:][:3]
		out[i] += T(w0*window[0]) + T(w1*window[1]) + T(w2*window[2])
	}
}

// addTap adds the products of a tap of a window row to the results [begin, limit) of an output row. It skips results
// for which the tap is in the padding.
func addTap[T number](conv *convShape, out, in unsafe.Pointer, weight T, tap, begin, limit int) {
	firstColumn := conv.w.Position(begin, tap)
	first, end := geometry.IndicesInside(firstColumn, conv.w.Stride, conv.w.Size, limit-begin)
	for i := first; i < end; i++ {
		pixel := (*T)(kit.AddressOf[T](in, (firstColumn+i*conv.w.Stride)*conv.inStride.w))
		*(*T)(kit.AddressOf[T](out, (begin+i)*conv.outStride.w)) += T(weight * *pixel)
	}
}

// depthwiseKernelByPixels makes the kernel of the implementation by pixels. The kernel computes all channels of a pixel
// at a time. The weight is packed in the order (kh, kw, channel).
func depthwiseKernelByPixels(conv *convShape) (*graph.Kernel, error) {
	dtype := conv.call.Out[0].DType
	if hasWindowCode(conv, dtype) {
		return depthwiseWindows(conv, dtype)
	}
	weight, err := newPackedWeight(conv.call, panelsFor(conv, depthwiseByPixels, dtype))
	if err != nil {
		return nil, err
	}
	loops, err := depthwiseLoopsFor(dtype)
	if err != nil {
		return nil, err
	}
	conv.epilogue.Defer() // a phase after the kernel applies the epilogue
	phase := rowPhase(conv.batch*conv.h.Results, conv.w.Results*conv.outChannels*conv.taps(),
		func(mem *graph.Mem, row int) { loops.computePixelRow(conv, mem, weight.address(mem), row) })
	return &graph.Kernel{Phases: append(weight.phases(), phase), Scratch: weight.Scratch}, nil
}

// computePixelRow computes a row of the result in all channels.
func computePixelRow[T number](conv *convShape, mem *graph.Mem, weight unsafe.Pointer, row int) {
	weights := kit.ElementsOf[T](weight, conv.h.Taps*conv.w.Taps*conv.outChannels)
	imageElements := conv.h.Size * conv.w.Size * conv.inChannels
	image := kit.AddressOf[T](mem.Ptrs[1], row/conv.h.Results*imageElements)
	for outCol := range conv.w.Results {
		out := unsafe.Slice((*T)(kit.AddressOf[T](mem.Ptrs[0], (row*conv.w.Results+outCol)*conv.outChannels)),
			conv.outChannels)
		fillBias(out, conv.biasAt(mem), conv.biasStride)
		addWindow(conv, out, image, weights, row%conv.h.Results, outCol)
	}
}

// fillBias sets the channels of an output pixel to the bias, or to 0 if bias is nil. stride is in elements.
func fillBias[T number](out []T, bias unsafe.Pointer, stride int) {
	if bias == nil {
		clear(out)
		return
	}
	for i := range out {
		out[i] = *(*T)(kit.AddressOf[T](bias, i*stride))
	}
}

// addWindow adds the products of all taps of the window to one output pixel, in all channels.
func addWindow[T number](conv *convShape, out []T, image unsafe.Pointer, weights []T, outRow, outCol int) {
	inCol := conv.w.Begin(outCol)
	// Columns [first, end) of the window are inside the image.
	first, end := conv.w.TapsOf(outCol)
	hasOneOutput := conv.outChannels == conv.inChannels // one output channel for each input channel
	for tapRow := range conv.h.Taps {
		inRow := conv.h.Position(outRow, tapRow)
		if !conv.h.Contains(inRow) || first >= end {
			continue
		}
		firstPixel := inRow*conv.w.Size + inCol // index of the pixel of tap column 0, which may be in the padding
		tapCol := first
		for ; hasOneOutput && tapCol+3 <= end; tapCol += 3 { // three taps at a time
			pixel := kit.AddressOf[T](image, (firstPixel+tapCol*conv.w.Dilation)*conv.inChannels)
			firstWeight := (tapRow*conv.w.Taps + tapCol) * conv.outChannels
			addThreePixels(out, unsafe.Slice((*T)(pixel), 2*conv.w.Dilation*conv.inChannels+conv.inChannels),
				conv.w.Dilation*conv.inChannels, weights[firstWeight:firstWeight+3*conv.outChannels])
		}
		for ; tapCol < end; tapCol++ {
			address := kit.AddressOf[T](image, (firstPixel+tapCol*conv.w.Dilation)*conv.inChannels)
			pixel := unsafe.Slice((*T)(address), conv.inChannels)
			addPixel(out, pixel, weights[(tapRow*conv.w.Taps+tapCol)*conv.outChannels:][:conv.outChannels],
				conv.outPerGroup())
		}
	}
}

// addThreePixels adds three pixels, each times its weights. The pixels are pixelStep elements apart.
func addThreePixels[T number](out, pixels []T, pixelStep int, weights []T) {
	channels := len(out)
	x0, x1, x2 := pixels[:channels], pixels[pixelStep:][:channels], pixels[2*pixelStep:][:channels]
	w0, w1, w2 := weights[:channels], weights[channels:][:channels], weights[2*channels:][:channels]
	for i := range out {
		out[i] += T(x0[i]*w0[i]) + T(x1[i]*w1[i]) + T(x2[i]*w2[i])
	}
}

// addPixel adds one pixel times its weights. Each input channel has outPerGroup output channels.
func addPixel[T number](out, pixel, weights []T, outPerGroup int) {
	weights = weights[:len(out)]
	if outPerGroup == 1 {
		pixel = pixel[:len(out)]
		for i := range out {
			out[i] += T(pixel[i] * weights[i])
		}
		return
	}
	for i := range out {
		out[i] += T(pixel[i/outPerGroup] * weights[i])
	}
}
