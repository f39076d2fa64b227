package conv

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// ConvBytes is the convolution of quantized images. It replaces several ops of quantized models and combines their
// constants. A result is
//
//	saturate(round((bias + sum of (input - input_zero_point) * weight) * scale) + zero_point)
//
// For example, a sum of 1000 with the scale 0.01 and the zero point 128 gives the byte 138.
var ConvBytes = kit.Define[*bytesAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "conv2d_bytes",
		Doc: "Convolves quantized images: `input` [n, c, h, w] of uint8 or int8, `weight` [o, c/groups, kh, kw] of " +
			"int8, `bias` [o] of int32, `scale` [o] of float32, and the 0-dim zero points of input and result, " +
			"`input_zero_point` and `zero_point`. The sum of `bias` and (input - input_zero_point) * weight is " +
			"int32 and wraps. The sum is multiplied by `scale`, rounded half to even, offset by `zero_point`, and " +
			"saturated to the dtype of `zero_point`, uint8 or int8. Without `scale` and `zero_point`, the result " +
			"is the int32 sum.",
		Params: []graph.Param{kit.Input, kit.Weight, {Name: "bias"}, {Name: "scale", Optional: true},
			{Name: "input_zero_point"}, {Name: "zero_point", Optional: true}},
		Kind: graph.RequiresLayout, // an implementation reads only some layouts
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			t, err := bytesResult(c)
			return c.NewResult(t), err
		},
		Ref: bytesRef,
		Examples: []graph.Example{
			{In: bytesExample(5, 8, 3, 7, tensor.Uint8), Attrs: graph.Attrs{"padding": 1}},
			{In: bytesExample(9, 3, 3, 20, tensor.Int8), Attrs: graph.Attrs{"padding": []int{2, 0, 1, 1}, "stride": 2}},
			{In: []tensor.Meta{tensor.New(tensor.Uint8, 1, 6, 4, 5), tensor.New(tensor.Int8, 9, 6, 2, 2),
				tensor.New(tensor.Int32, 9), {}, tensor.New(tensor.Uint8)}},
		},
	},
	// If operand 0 has rank 4, there is a parallel loop over the batch: dimension 0 of the result and of operand 0.
	Facts: graph.Facts{Parallel: kit.BatchLoopForRank(4, 0), ImageRole: graph.ImageOp, WritesAnyDenseLayout: true,
		Flops: byteConv.flops},
	Lowerings: graph.Lowerings{
		Impls: []graph.Impl{
			{Name: "direct_nhwc", Doc: "Multiplies bytes of up to eight pixels at a time by the packed weight, in machine " +
				"code generated for the window, and requantizes sums in registers; channels last.",
				Epilogues: true, Walks: bytesWalks, Work: bytesWork, Pack: bytesPack, Lower: lowerBytes, Read: bytesReadWork},
			{Name: "depthwise_nhwc", Doc: "Applies depthwise windows to 64, 32 or 16 channels at a time, multiplies four or " +
				"two rows of the window at once, and requantizes sums in registers; channels last.",
				Epilogues: true, Walks: depthwiseBytesWalks, Work: depthwiseBytesWork, Pack: depthwiseBytesPack,
				Lower: lowerDepthwiseBytes,
				Read:  bytesReadWork},
			{Name: "loops", Doc: "Sums the window of each element of the result in Go.", Work: bytesLoopsWork,
				Lower: lowerBytesLoops},
		},
	},
})

// bytesReadWork implements [graph.Impl.Read] for the implementations in machine code: ok is false if an operand must be
// copied first. The weight is packed, so it may have any layout.
func bytesReadWork(_ *graph.Call, _ graph.Walk, operand int, meta tensor.Meta) (work pricing.Work, ok bool) {
	switch operand {
	case bytesInput:
		return work, byteConv.isChannelsLast(meta)
	case bytesBias, bytesScale:
		return work, meta.IsContiguous()
	}
	return work, true
}

// bytesExample returns the operands of an example with a square image and window. dtype is the dtype of the result.
func bytesExample(size, channels, window, out int, dtype tensor.DType) []tensor.Meta {
	return []tensor.Meta{tensor.New(tensor.Uint8, 2, channels, size, size),
		tensor.New(tensor.Int8, out, channels, window, window), tensor.New(tensor.Int32, out), kit.F32(out),
		tensor.New(tensor.Uint8), tensor.New(dtype)}
}

// bytesRef is the reference implementation. Its float64 sums are exact.
func bytesRef(call *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	result, err := bytesResult(call)
	if err != nil {
		return nil, err
	}
	input := subtractZeroPoint(in[bytesInput], in[bytesInputZero].At().Float())
	weight := subtractZeroPoint(in[bytesWeight], 0) // only converts to float64
	sums, err := byteConv.ref(asFloatCall(call, tensor.Float64), []*tensor.Tensor{input, weight})
	if err != nil {
		return nil, err
	}
	resultMeta := kit.KnownMeta(result)
	out, resultZero := tensor.Zeros(resultMeta.DType, resultMeta.Shape...), 0.0
	if call.HasOperand(bytesResultZero) {
		resultZero = in[bytesResultZero].At().Float()
	}
	kit.EachIndex(resultMeta.Shape, func(index []int) {
		channel := index[1]
		sum := int32(int64(sums[0].At(index...).Float())) + int32(in[bytesBias].At(channel).Int()) // wraps to 32 bits
		if resultMeta.DType == tensor.Int32 {
			out.Set(tensor.IntScalar(int64(sum)), index...)
			return
		}
		scale := float32(in[bytesScale].At(channel).Float())
		out.Set(tensor.IntScalar(multiply.Requantize(resultMeta.DType, sum, scale, resultZero)), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// subtractZeroPoint returns the elements minus the zero point, as float64.
func subtractZeroPoint(operand *tensor.Tensor, zeroPoint float64) *tensor.Tensor {
	difference := tensor.Zeros(tensor.Float64, operand.Shape...)
	kit.EachIndex(operand.Shape, func(index []int) {
		difference.Set(tensor.FloatScalar(operand.At(index...).Float()-zeroPoint), index...)
	})
	return difference
}

// bytesLoopsWork returns the work of the loops in Go.
func bytesLoopsWork(c *graph.Call, _ graph.Walk) pricing.Work {
	work := pricing.Work{StartedSteps: 1}
	c.AddStreamed(&work)
	work.Flops = byteConv.flops(c)
	work.AddUnits(rateGoMAC, bytesMACRatio*float64(work.Flops)/2) // a multiply-add is two operations
	return work
}

// bytesMACRatio is the time of a multiply-add of bytes in Go, relative to a multiply-add of floats.
const bytesMACRatio = 2

// lowerBytesLoops implements [graph.Impl.Lower] by loops in Go. A chunk computes a plane of the result. In a run,
// Ptrs[0] is the address of the result, and Ptrs[1+i] the address of operand i.
func lowerBytesLoops(call *graph.Call) (*graph.Kernel, error) {
	conv, dtype := byteConv.bytesShape(call), call.Out[0].DType
	if call.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	biasStride, scaleStride := call.Meta(bytesBias).Strides[0], 0
	if dtype != tensor.Int32 {
		scaleStride = call.Meta(bytesScale).Strides[0]
	}
	return &graph.Kernel{Phases: []graph.Phase{{Chunks: conv.batch * conv.outChannels,
		Run: func(mem *graph.Mem, chunk int) error {
			outChannel := chunk % conv.outChannels
			bias := *(*int32)(kit.AddressOf[int32](mem.Ptrs[1+bytesBias], outChannel*biasStride))
			scale := float32(0)
			if dtype != tensor.Int32 {
				scale = *(*float32)(kit.AddressOf[float32](mem.Ptrs[1+bytesScale], outChannel*scaleStride))
			}
			conv.computeBytesPlane(mem, chunk/conv.outChannels, outChannel, bias, scale)
			return nil
		}}}}, nil
}

// computeBytesPlane computes an output channel of an image. bias and scale belong to this channel.
func (s *convShape) computeBytesPlane(mem *graph.Mem, image, outChannel int, bias int32, scale float32) {
	dtype := s.call.Out[0].DType
	input := kit.AddressOf[uint8](mem.Ptrs[1+bytesInput],
		image*s.inStride.n+outChannel/s.outPerGroup()*s.inPerGroup*s.inStride.c)
	signMask := unsignedMask(s.call.Meta(bytesInput).DType)
	weight := kit.AddressOf[int8](mem.Ptrs[1+bytesWeight], outChannel*s.weightStride.n)
	inputZero := int32(*(*uint8)(mem.Ptrs[1+bytesInputZero]) ^ signMask)
	resultZero := float64(resultZeroPoint(mem, dtype))
	for i := range s.h.Results * s.w.Results {
		oh, ow := i/s.w.Results, i%s.w.Results
		sum := bias + s.bytesSum(mem, input, weight, signMask, inputZero, oh, ow)
		resultOffset := image*s.outStride.n + outChannel*s.outStride.c + oh*s.outStride.h + ow*s.outStride.w
		if dtype == tensor.Int32 {
			*(*int32)(kit.AddressOf[int32](mem.Ptrs[0], resultOffset)) = sum
			continue
		}
		result := uint8(multiply.Requantize(dtype, sum, scale, resultZero))
		*(*uint8)(kit.AddressOf[uint8](mem.Ptrs[0], resultOffset)) = result
	}
}

// bytesSum returns the sum of the window of the result at row oh and column ow. input is the address of the group's
// first channel of an image, and weight the address of the output channel's weights. The exclusive or of an input byte
// with signMask makes the byte unsigned; zeroPoint is the zero point of the unsigned bytes. kh and kw are the row and
// column of a tap, and ih and iw are the row and column of its pixel.
func (s *convShape) bytesSum(m *graph.Mem, input, weight unsafe.Pointer, signMask uint8, zeroPoint int32,
	oh, ow int) (sum int32) {
	for kh := range s.h.Taps {
		for kw := range s.w.Taps {
			m.CheckContextAfter(2 + s.inPerGroup)
			ih, iw := s.h.Position(oh, kh), s.w.Position(ow, kw)
			if !s.h.Contains(ih) || !s.w.Contains(iw) {
				continue
			}
			for k := range s.inPerGroup {
				element := *(*uint8)(kit.AddressOf[uint8](input, k*s.inStride.c+ih*s.inStride.h+iw*s.inStride.w))
				tapOffset := k*s.weightStride.c + kh*s.weightStride.h + kw*s.weightStride.w
				sum += (int32(element^signMask) - zeroPoint) * int32(*(*int8)(kit.AddressOf[int8](weight, tapOffset)))
			}
		}
	}
	return sum
}

// unsignedMask returns the mask that converts a byte of a dtype to an unsigned byte by exclusive or. For int8, the
// exclusive or adds 128.
func unsignedMask(dtype tensor.DType) uint8 {
	if dtype == tensor.Int8 {
		return 1 << 7
	}
	return 0
}
