package conv

import (
	"errors"
	"unsafe"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// convShape describes a call of a convolution, whose sizes are known. Unbatched inputs have n = 1. Strides are in
// elements. A tap is an element of the window, and a term is the product of a tap and an input channel.
//
// For example, an input of 2x6x8x8 and a weight of 4x3x3x3 in two groups give batch 2, inChannels 6, outChannels 4,
// inPerGroup 3, outPerGroup 2 and termsPerOutput 27. If the input is channels-last, inStride is {n: 384, c: 1, h: 48,
// w: 6}.
type convShape struct {
	window
	batch, inChannels, outChannels int // numbers of images, input channels and output channels
	groups                         int
	inPerGroup                     int // number of input channels per group

	inStride, weightStride, outStride ncdhw            // strides of input, weight and result
	biasStride                        int              // stride of the bias, in elements
	hasBias                           bool             // whether the call has a bias
	call                              *graph.Call      // operand 1 is the weight
	epilogue                          *fusion.Epilogue // operations fused after the convolution; nil for none
	phase                             *transposedPhase // for a phase of a transposed convolution (transpose_direct.go)
}

// shape returns the convolution of a call.
func (op convolution) shape(call *graph.Call) *convShape {
	params := op.params(call)
	conv := &convShape{groups: params.groups, call: call, epilogue: fusion.EpilogueOf(call)}
	var inputSize, weightSize ncdhw
	inputSize, conv.inStride = sizesAndStrides(call.Meta(0), op.dims)
	weightSize, conv.weightStride = sizesAndStrides(call.Meta(1), op.dims)
	_, conv.outStride = sizesAndStrides(call.Out[0], op.dims)
	conv.batch, conv.inChannels, conv.outChannels, conv.inPerGroup = inputSize.n, inputSize.c, weightSize.n, weightSize.c
	conv.window = newWindow(newAxes(call.Meta(0).Shape, call.Out[0].Shape, call.Meta(1).Shape[2:], params.stride,
		kit.KnownSizes(params.padding), params.dilation))
	if call.HasOperand(2) {
		conv.hasBias, conv.biasStride = true, call.Meta(2).Strides[0]
	}
	return conv
}

// outPerGroup returns the number of output channels per group.
func (s *convShape) outPerGroup() int { return s.outChannels / s.groups }

// termsPerOutput returns the number of terms of a result.
func (s *convShape) termsPerOutput() int { return s.inPerGroup * s.taps() }

// outStart returns the offset of the first result from the start of the output, in elements. It is not 0 for most
// phases of a transposed convolution.
func (s *convShape) outStart() int {
	if s.phase != nil {
		return s.phase.outStart
	}
	return 0
}

// inSize returns the sizes of the input.
func (s *convShape) inSize() ncdhw { return ncdhw{s.batch, s.inChannels, s.d.Size, s.h.Size, s.w.Size} }

// outSize returns the sizes of the result.
func (s *convShape) outSize() ncdhw {
	return ncdhw{s.batch, s.outChannels, s.d.Results, s.h.Results, s.w.Results}
}

// pixelStride returns the constant distance between neighbouring output pixels of a channel, or false if the distance
// is not constant.
func (s *convShape) pixelStride() (stride int, isConstant bool) {
	return pixelStride(s.outSize(), s.outStride)
}

// outPixelStride returns the constant distance between neighbouring pixels of the result, across rows and images too,
// or 0 if the distance is not constant.
func (s *convShape) outPixelStride() int { return pixelStrideOverImages(s.outSize(), s.outStride) }

// inPixelStride returns the constant distance between neighbouring pixels of the input, or 0 if the distance is not
// constant. In inputs by planes, pixels are adjacent.
func (s *convShape) inPixelStride(byPlanes bool) int {
	if byPlanes {
		return 1
	}
	return pixelStrideOverImages(s.inSize(), s.inStride)
}

// errPixelStride is an internal error, because the planner only chooses layouts with a constant stride of pixels.
var errPixelStride = errors.New("convolution: the pixels of the result have no constant stride")

// biasAt returns the address of the bias, or nil if there is no bias.
func (s *convShape) biasAt(m *graph.Mem) unsafe.Pointer {
	if !s.hasBias {
		return nil
	}
	return m.Ptrs[3]
}

// denseBias returns the address of the bias as contiguous elements, or nil if there is no bias. size is the size of an
// element in bytes. A strided bias is first copied to the beginning of worker memory, where the copy takes
// denseBiasBytes.
func (s *convShape) denseBias(m *graph.Mem, size int) unsafe.Pointer {
	if s.denseBiasBytes(size) == 0 {
		return s.biasAt(m)
	}
	for i := range s.outChannels {
		copy(m.WorkerScratch[i*size:][:size], unsafe.Slice((*byte)(unsafe.Add(m.Ptrs[3], i*s.biasStride*size)), size))
	}
	return unsafe.Pointer(unsafe.SliceData(m.WorkerScratch))
}

// denseBiasBytes returns the bytes of worker memory that denseBias uses.
func (s *convShape) denseBiasBytes(size int) int {
	if !s.hasBias || s.biasStride == 1 {
		return 0
	}
	return kit.AlignUp(s.outChannels * size)
}

// forms implements [graph.Impl.Forms]: it describes the convolution as one nest of loops, for compilers of devices.
func (op convolution) forms(call *graph.Call) ([]graph.Form, error) {
	s := op.shape(call)
	operand := func(i int) graph.ContractionOperand {
		return graph.ContractionOperand{Index: 1 + i, DType: call.Meta(i).DType} // index 0 is the result
	}
	form := &graph.Contraction{Out: graph.ContractionOperand{DType: call.Out[0].DType}, A: operand(0), B: operand(1),
		Alpha: 1}
	if s.hasBias {
		form.HasAdd, form.Add, form.Beta = true, operand(2), 1
	}
	// A loop has the strides of the result (Out), the input (A), the weight (B) and the bias (Add).
	in, out, weight, outPerGroup := s.inStride, s.outStride, s.weightStride, s.outPerGroup()
	form.Loops = []graph.ContractionLoop{
		{Size: s.batch, Out: out.n, A: in.n},
		{Size: s.groups, Out: outPerGroup * out.c, A: s.inPerGroup * in.c, B: outPerGroup * weight.n,
			Add: outPerGroup * s.biasStride},
		{Size: outPerGroup, Out: out.c, B: weight.n, Add: s.biasStride},
		{Size: s.d.Results, Out: out.d, A: s.d.Stride * in.d},
		{Size: s.h.Results, Out: out.h, A: s.h.Stride * in.h},
		{Size: s.w.Results, Out: out.w, A: s.w.Stride * in.w},
		{Size: s.inPerGroup, A: in.c, B: weight.c, Summed: true},
		{Size: s.d.Taps, A: s.d.Dilation * in.d, B: weight.d, Summed: true},
		{Size: s.h.Taps, A: s.h.Dilation * in.h, B: weight.h, Summed: true},
		{Size: s.w.Taps, A: s.w.Dilation * in.w, B: weight.w, Summed: true}}
	// The first tap of the first window is this number of elements before the start of the input.
	form.Before = s.d.PadBefore*in.d + s.h.PadBefore*in.h + s.w.PadBefore*in.w
	for k, axis := range []geometry.Axis{s.d, s.h, s.w} {
		if axis.ReadsPadding() { // loops 3 to 5 are over results, and loops 7 to 9 over taps
			form.Windows = append(form.Windows, graph.ContractionWindow{Result: 3 + k, Tap: 7 + k, Stride: axis.Stride,
				Dilation: axis.Dilation, Before: axis.PadBefore, Size: axis.Size})
		}
	}
	return []graph.Form{form}, nil
}

// flops counts a multiplication and an addition for each result and each weight that contributes to it.
func (op convolution) flops(c *graph.Call) float64 {
	out, weight := c.Out[0], c.Meta(1)
	if weight.Numel() == 0 {
		return 0
	}
	return 2 * float64(out.Numel()) * float64(weight.Numel()/weight.Shape[0])
}

// entryOffsets returns the offset of each group of each image, image by image. The strides are the distances between
// images and between groups. An entry is the product for one group of one image.
func entryOffsets(images, imageStride, groups, groupStride int) []int {
	list := make([]int, 0, images*groups)
	for image := range images {
		for group := range groups {
			list = append(list, image*imageStride+group*groupStride)
		}
	}
	return list
}
