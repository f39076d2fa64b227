package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// This file describes a convolution of bytes as a convolution of elements, and estimates its cost. An element is a set
// of adjacent input channels of a pixel that one instruction multiplies and sums: eight bytes if the processor
// multiplies matrices of bytes (i8mm), four bytes if it has dot products of bytes, else two 16-bit words. Sums are
// int32.
//
// For example, with elements of four bytes, a pixel of 6 channels is padded with zeros to two elements. A convolution
// of 3x3 windows over 8x8 such pixels, with padding 1, becomes a convolution over 10x10 pixels of two elements, without
// padding.

// Numbers of channels of an element.
const (
	matrixChannels = 8 // bytes, for products of byte matrices
	dotChannels    = 4 // bytes, for dot products
	wordChannels   = 2 // 16-bit words
)

// intBytes is the number of bytes of a sum.
const intBytes = 4

// directDType is passed to functions that use only the size of the dtype of sums. int32 and float32 have 4 bytes.
const directDType = tensor.Float32

// minGroupChannels is the minimum number of output channels of a group. Smaller groups would leave most lanes of a
// vector empty.
const minGroupChannels = 8

// hostElementChannels returns the number of channels of an element on this processor.
func hostElementChannels() int {
	switch {
	case machine.HostFeatures().Has(machine.MatrixBytes):
		return matrixChannels
	case machine.HostFeatures().HasByteDot():
		return dotChannels
	}
	return wordChannels
}

// channelSize returns the bytes of a channel in an element of the given number of channels.
func channelSize(channels int) int {
	if channels == wordChannels {
		return 2
	}
	return 1
}

// elementSize returns the bytes of an element of the given number of channels.
func elementSize(channels int) int { return channels * channelSize(channels) }

// elementConv returns the convolution of elements that has the same sums. An element has the given number of channels.
// The input of the convolution has the padding in its pixels. Input and result are channels-last.
func (s *convShape) elementConv(channels int) *convShape {
	conv := *s
	if s.readsPadding() { // Extent counts the pixels from the first window to the last, with padding
		conv.h.Size, conv.w.Size = s.h.Extent(s.h.Results), s.w.Extent(s.w.Results)
	}
	conv.h.PadBefore, conv.w.PadBefore = 0, 0
	conv.hasBias = true // the initial values of sums (initSums)
	conv.inPerGroup = kit.DivUp(s.inPerGroup, channels)
	conv.inChannels = s.groups * conv.inPerGroup
	if s.spansPixels(channels) { // each row of the window is one tap
		conv.inPerGroup, conv.w.Taps = kit.DivUp(s.w.Taps*s.inPerGroup, channels), 1
	}
	conv.inStride = ncdhw{n: kit.BoundedProduct(conv.h.Size, conv.w.Size, conv.inChannels), c: 1,
		h: kit.BoundedProduct(conv.w.Size, conv.inChannels), w: conv.inChannels}
	conv.outStride = ncdhw{n: s.h.Results * s.w.Results * s.outChannels, c: 1, h: s.w.Results * s.outChannels,
		w: s.outChannels}
	conv.epilogue = nil
	return &conv
}

// spansPixels reports whether an element may span two pixels of a row of the window. Otherwise the channels of each
// pixel are padded to whole elements, which takes more elements if there are few channels. For example, 7 pixels with 3
// channels are 6 elements of four bytes if elements span pixels, and 7 otherwise.
func (s *convShape) spansPixels(channels int) bool {
	return s.groups == 1 && s.w.Dilation == 1 && s.h.Taps > 1 &&
		kit.DivUp(s.w.Taps*s.inPerGroup, channels) < s.w.Taps*kit.DivUp(s.inPerGroup, channels)
}

// needsCopy reports whether images must be copied, because windows reach outside the image or pixels are not whole
// elements.
func (s *convShape) needsCopy(channels int) bool {
	return s.readsPadding() || s.inPerGroup%channels != 0
}

// imageSignMask returns 128 if the machine code reads signed bytes and the images are unsigned, or the reverse.
// Otherwise it returns 0. An exclusive or with 128 converts a byte: it adds 128 to an int8, and subtracts 128 from a
// uint8.
func imageSignMask(c *graph.Call) uint8 {
	isSigned := c.Meta(bytesInput).DType == tensor.Int8
	if tile.ReadsSigned(machine.HostFeatures(), isSigned) != isSigned {
		return 1 << 7
	}
	return 0
}

// bytesWalks implements [graph.Impl.Walks] for direct convolution. The result is channels-last.
func bytesWalks(call *graph.Call, _ []tensor.Order) []graph.Walk {
	order, isSupported := byteConv.order(directByPixels, call.Meta(bytesInput).Rank())
	conv := byteConv.bytesShape(call)
	hasSmallGroups := conv.groups > 1 && (conv.inPerGroup < dotChannels || conv.outPerGroup() < minGroupChannels)
	isEmpty := conv.batch*conv.outChannels*conv.h.Results*conv.w.Results == 0
	if !isSupported || hasSmallGroups || isEmpty || !tile.SupportsIntegers(machine.HostFeatures()) {
		return nil
	}
	channels := hostElementChannels()
	elements := conv.elementConv(channels)
	reach := elements.inputReach(max(elements.inChannels, 1), elementSize(channels))
	if !hasDirectCode(elements, directDType) || reach >= maxReach { // reach bounds displacements in the code
		return nil
	}
	if conv.readsPadding() && !conv.allowsScratch(kit.BoundedProduct(conv.batch, elements.inStride.n)) {
		return nil
	}
	return []graph.Walk{call.WalkInOrder(order)}
}

// bytesWork implements [graph.Impl.Work] for direct convolution.
func bytesWork(call *graph.Call, _ graph.Walk) pricing.Work {
	work := pricing.Work{StartedSteps: 1}
	call.AddStreamed(&work)
	conv := byteConv.bytesShape(call)
	channels := hostElementChannels()
	elements := conv.elementConv(channels)
	if shape := elements.elementShape(channels); shape.usesMatrixUnit {
		elements.unitWork(&work, &shape)
	} else {
		const byPlanes = false
		elements.directWork(&work, rateDirectElements, directDType, byPlanes)
	}
	// Images are copied if bytes are widened to words, if images or pixels are padded, or if the signedness changes.
	if channels == wordChannels || conv.needsCopy(channels) || imageSignMask(call) != 0 {
		imageBytes := conv.inChannels * conv.h.Size * conv.w.Size
		copyBytes := elementSize(channels) * elements.inChannels * elements.h.Size * elements.w.Size
		work.Bytes[pricing.Copied] += float64(conv.batch * (imageBytes + copyBytes))
	}
	work.Flops = byteConv.flops(call)
	return work
}
