package conv

import (
	"context"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// byteWeight describes the packed weight of a convolution of bytes: the weights in the order of the machine code,
// followed by the int32 sum of each output channel's weights:
//
//	weightBytes bytes                  outChannels int32
//	| weights, and zeros in gaps ... | sum of channel 0 | sum of channel 1 | ... |
//
// The sum times the zero point of the input is subtracted from each result of the channel, because
//
//	sum((x - zero) * w) = sum(x * w) - zero * sum(w)
//
// o is an output channel, c is an input channel, and kh and kw are the row and column of a tap.
type byteWeight struct {
	conv        *convShape
	format      string // name of the packed form
	weightBytes int    // bytes of the weights without the sums
	hasWords    bool   // whether weights are int16, not int8
	// eachChannel visits each output channel o with the byte offset of its packed weights. If blocks overlap, it visits
	// some channels several times.
	eachChannel func(visit func(o, offset int))
	// offset returns the byte offset of a weight from the beginning of its output channel.
	offset func(kh, kw, c int) int
}

// totalBytes returns the number of bytes of weights and sums.
func (w *byteWeight) totalBytes() int { return w.weightBytes + w.conv.outChannels*intBytes }

// offsets returns the byte offsets of an output channel's weights, ordered by tap and then by input channel.
func (w *byteWeight) offsets() []int {
	list := make([]int, 0, w.conv.termsPerOutput())
	for tap := range w.conv.taps() {
		_, kh, kw := w.conv.tap(tap)
		for c := range w.conv.inPerGroup {
			list = append(list, w.offset(kh, kw, c))
		}
	}
	return list
}

// fill packs the weight at address src, which has the given strides in elements. It panics as [graph.Mem.CheckContext]
// does if the context ends.
func (w *byteWeight) fill(m *graph.Mem, dst []int8, src unsafe.Pointer, strides ncdhw) {
	kit.ForEachBlock(m.Context, len(dst), func(begin, end int) { clear(dst[begin:end]) })
	from := *w.conv
	from.weightStride = strides
	srcOffsets, dstOffsets := from.channelsLastTerms(), w.offsets() // of an output channel's weights, in the same order
	sums := unsafe.Slice((*int32)(unsafe.Pointer(&dst[w.weightBytes])), w.conv.outChannels)
	w.eachChannel(func(o, channelOffset int) {
		m.CheckContextAfter(len(srcOffsets))
		row, sum := kit.AddressOf[int8](src, o*strides.n), int32(0)
		for i, offset := range dstOffsets {
			weight := *(*int8)(kit.AddressOf[int8](row, srcOffsets[i]))
			to := &dst[channelOffset+offset]
			*to = weight
			if w.hasWords {
				*(*int16)(unsafe.Pointer(to)) = int16(weight)
			}
			sum += int32(weight)
		}
		sums[o] = sum
	})
}

// packing describes the packed weight to the planner.
func (w *byteWeight) packing() graph.Packing {
	return graph.Packing{Format: w.format, DType: tensor.Int8, Len: w.totalBytes(),
		Fill: func(ctx context.Context, dst, src *tensor.Tensor) {
			const spatialDims = 2
			_, strides := sizesAndStrides(src.Meta, spatialDims)
			w.fill(&graph.Mem{Context: ctx}, kit.ElementsOf[int8](dst.Pointer(), dst.Numel()), src.Pointer(), strides)
		},
		Unpack: func(dst, packed *tensor.Tensor) {
			from := kit.ElementsOf[int8](packed.Pointer(), packed.Numel())
			w.eachChannel(func(o, channelOffset int) {
				kit.EachIndex(dst.Shape[1:], func(index []int) {
					c, kh, kw := index[0], index[1], index[2]
					weight := from[channelOffset+w.offset(kh, kw, c)] // if weights are words, the low byte
					dst.Set(tensor.IntScalar(int64(weight)), o, c, kh, kw)
				})
			})
		}}
}

// scratchBytes returns the number of bytes that the packed weight takes at the beginning of the scratch memory. It is 0
// if the weight was packed when the graph was planned.
func (w *byteWeight) scratchBytes() int {
	if w.conv.call.Packed(bytesWeight) != nil {
		return 0
	}
	return kit.AlignUp(w.totalBytes())
}

// phases returns the phase that packs the weight, unless it was packed when the graph was planned.
func (w *byteWeight) phases() []graph.Phase {
	if w.scratchBytes() == 0 {
		return nil
	}
	return []graph.Phase{{Chunks: 1, Run: func(m *graph.Mem, _ int) error {
		w.fill(m, kit.SliceOf[int8](m.Scratch, 0, w.totalBytes()), m.Ptrs[1+bytesWeight], w.conv.weightStride)
		return nil
	}}}
}

// address returns the address of the packed weight. Ptrs[0] is the result, and operand i is Ptrs[1+i].
func (w *byteWeight) address(m *graph.Mem) unsafe.Pointer {
	if w.scratchBytes() == 0 {
		return m.Ptrs[1+bytesWeight]
	}
	return unsafe.Pointer(unsafe.SliceData(m.Scratch))
}

// initialSums returns a function that maps an output channel to the initial value of its sums: the bias minus zeroPoint
// times the sum of the channel's weights. zeroPoint is the zero point of the input.
func (w *byteWeight) initialSums(m *graph.Mem, zeroPoint int32) func(o int) int32 {
	sums := kit.ElementsOf[int32](kit.AddressOf[int8](w.address(m), w.weightBytes), w.conv.outChannels)
	bias := kit.ElementsOf[int32](m.Ptrs[1+bytesBias], w.conv.outChannels)
	return func(o int) int32 { return bias[o] - zeroPoint*sums[o] }
}

// inputZeroPoint returns the zero point of the input bytes after their exclusive or with signMask. isSigned is set if
// the resulting bytes are signed.
func inputZeroPoint(m *graph.Mem, signMask uint8, isSigned bool) int32 {
	zero := *(*uint8)(m.Ptrs[1+bytesInputZero]) ^ signMask
	if isSigned {
		return int32(int8(zero))
	}
	return int32(zero)
}

// resultZeroPoint returns the zero point of a result of the given dtype. It returns 0 if the results are int32 sums.
func resultZeroPoint(m *graph.Mem, dtype tensor.DType) int32 {
	switch dtype {
	case tensor.Int8:
		return int32(*(*int8)(m.Ptrs[1+bytesResultZero]))
	case tensor.Uint8:
		return int32(*(*uint8)(m.Ptrs[1+bytesResultZero]))
	}
	return 0
}

// copyPaddedRow writes row h of an image, with its padding, to dst, which has the given number of pixels. If h is not a
// row of the image, the whole row is padding. copyPaddedRow sets the padding to the zero point, and calls copyPixels
// for the pixels inside the image.
func (s *convShape) copyPaddedRow(dst []uint8, pixels int, mem *graph.Mem, image, h int, zero uint8,
	copyPixels func(to, from []uint8)) {
	pixelBytes := len(dst) / pixels
	first, end := min(s.w.PadBefore, pixels), min(s.w.PadBefore+s.w.Size, pixels)
	if !s.h.Contains(h) || first >= end {
		fillBytes(dst, zero)
		return
	}
	fillBytes(dst[:first*pixelBytes], zero)
	fillBytes(dst[end*pixelBytes:], zero)
	inputOffset := ((image*s.h.Size+h)*s.w.Size + first - s.w.PadBefore) * s.inChannels
	inside := kit.ElementsOf[uint8](kit.AddressOf[uint8](mem.Ptrs[1+bytesInput], inputOffset), (end-first)*s.inChannels)
	copyPixels(dst[first*pixelBytes:end*pixelBytes], inside)
}

// fillBytes sets all bytes to a value. It doubles the filled range with each copy.
func fillBytes(to []uint8, value uint8) {
	if len(to) == 0 {
		return
	}
	to[0] = value
	for n := 1; n < len(to); n *= 2 {
		copy(to[n:], to[:n])
	}
}
