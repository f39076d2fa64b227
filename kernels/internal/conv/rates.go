package conv

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// Rates lists the rates of convolutions. A rate is the time of one unit of work. Package calibrate runs the calls of a
// rate to measure it: calls in which the unit takes a large part of the time. A call of conv2d is conv(implementation,
// stride, groups, window size, image, output channels). A call for bytes is bytesCall(stride, groups, window size,
// channels, image size, output channels).
func Rates() []graph.Rate {
	conv := convCall
	return slices.Concat(depthwiseRates(), winogradRates(), []graph.Rate{
		{Name: multiply.RatePackWindow, Unit: "an element of a window that is packed",
			Calls: []graph.RateCall{conv("nhwc", 1, 1, 3, kit.NHWC(1, 64, 28, 28), 32),
				conv("nhwc", 2, 1, 3, kit.NHWC(1, 128, 28, 28), 32), conv("nhwc", 1, 1, 3, kit.NHWC(1, 128, 28, 28), 128)}},
		{Name: multiply.RatePackRun, Unit: "a run of elements that is packed for one tap of a window",
			Calls: []graph.RateCall{conv("nhwc", 2, 1, 3, kit.NHWC(1, 3, 112, 112), 32),
				conv("nhwc", 1, 1, 3, kit.NHWC(1, 16, 28, 28), 32), conv("nhwc", 1, 8, 3, kit.NHWC(1, 64, 28, 28), 64)}},
		{Name: multiply.RatePackTap, Unit: "an element of a window that is packed from planes",
			Calls: []graph.RateCall{conv("nchw", 1, 1, 3, kit.F32(1, 64, 28, 28), 24),
				conv("nchw", 1, 1, 3, kit.F32(1, 32, 56, 56), 32), conv("nchw", 1, 1, 3, kit.F32(1, 128, 28, 28), 128)}},
		{Name: multiply.RatePackMove, Unit: "a run of elements of a plane that is packed for one tap of a window",
			Calls: []graph.RateCall{conv("nchw", 1, 1, 3, kit.F32(1, 64, 7, 7), 24),
				conv("nchw", 1, 1, 3, kit.F32(1, 144, 7, 7), 144), conv("nchw", 1, 8, 3, kit.F32(1, 64, 14, 14), 64)}},
		{Name: multiply.RatePackStep, Unit: "an element of a window whose pixels are strided",
			Calls: []graph.RateCall{conv("nchw", 2, 1, 3, kit.F32(1, 64, 56, 56), 24),
				conv("nchw", 2, 1, 1, kit.F32(1, 64, 56, 56), 24)}},
		{Name: rateDirectTaps, Unit: "a multiply-add of a direct convolution",
			Calls: []graph.RateCall{conv("direct_nhwc", 1, 1, 3, kit.NHWC(1, 64, 28, 28), 64),
				conv("direct_nhwc", 1, 1, 1, kit.NHWC(1, 256, 14, 14), 64),
				conv("direct_nhwc", 2, 1, 3, kit.NHWC(1, 128, 28, 28), 64),
				conv("direct_planes", 2, 1, 7, kit.F32(1, 3, 112, 112), 64)}},
		{Name: rateDirectElements,
			Unit: "a dot product of four bytes, or two words, in a direct convolution",
			Calls: []graph.RateCall{bytesCall(1, 1, 3, 64, 28, 64), bytesCall(1, 1, 1, 256, 14, 64),
				bytesCall(2, 1, 3, 128, 28, 64)}},
		{Name: rateDirectStart, Unit: "the start of a direct convolution",
			Calls: []graph.RateCall{conv("direct_nhwc", 1, 1, 1, kit.NHWC(1, 96, 1, 1), 8),
				conv("direct_nhwc", 1, 1, 1, kit.NHWC(1, 24, 1, 1), 72),
				conv("direct_nhwc", 1, 1, 1, kit.NHWC(1, 480, 1, 1), 120)}},
		{Name: rateDirectTiles, Unit: "the start and the store of a register tile of a direct convolution",
			Calls: []graph.RateCall{conv("direct_nhwc", 1, 1, 1, kit.NHWC(1, 16, 28, 28), 96),
				conv("direct_nhwc", 1, 8, 3, kit.NHWC(1, 64, 28, 28), 64),
				conv("direct_nhwc", 1, 1, 1, kit.NHWC(1, 24, 28, 28), 144)}},
		{Name: rateSpreadAdd, Unit: "a product of a transposed convolution that is added to the result",
			Calls: []graph.RateCall{{Op: "conv_transpose2d", Attrs: graph.Attrs{"stride": 2},
				In: []tensor.Meta{kit.F32(1, 64, 28, 28), kit.F32(64, 32, 2, 2)}, Constant: []int{1}}}},
	})
}

// convCall returns a call of an implementation of conv2d with a constant weight, and with padding that keeps the size
// of the image if stride is 1. size is the width and height of the window, and out the number of output channels.
func convCall(impl string, stride, groups, size int, image tensor.Meta, out int) graph.RateCall {
	weight := kit.F32(out, image.Shape[1]/groups, size, size)
	return graph.RateCall{Op: "conv2d", Attrs: graph.Attrs{"stride": stride, "padding": size / 2, "groups": groups},
		In: []tensor.Meta{image, weight}, Constant: []int{1}, Impl: impl}
}

// bytesCall returns a call of conv2d_bytes, direct or depthwise. Its operands are the image, weight, bias, scale, and
// the zero points of image and result; all but the image are constant. size is the width and height of the window, and
// side the width and height of the image.
func bytesCall(stride, groups, size, channels, side, out int) graph.RateCall {
	impl := "direct_nhwc"
	if groups > 1 {
		impl = "depthwise_nhwc"
	}
	image := kit.NHWC(1, channels, side, side)
	image.DType = tensor.Uint8
	return graph.RateCall{Op: "conv2d_bytes", Attrs: graph.Attrs{"stride": stride, "padding": size / 2, "groups": groups},
		In: []tensor.Meta{image, tensor.New(tensor.Int8, out, channels/groups, size, size), tensor.New(tensor.Int32, out),
			kit.F32(out), tensor.New(tensor.Uint8), tensor.New(tensor.Uint8)}, Constant: []int{1, 2, 3, 4, 5},
		Impl: impl}
}

// depthwiseRates lists the rates of depthwise convolutions.
func depthwiseRates() []graph.Rate {
	conv := convCall
	// Windows have 3 x 3 taps except in fiveByFive; c is the number of channels and groups, and side the number of rows.
	planes := func(stride, c, side int) graph.RateCall {
		return conv("depthwise_planes", stride, c, 3, kit.F32(1, c, side, side), c)
	}
	pixels := func(stride, c, side int) graph.RateCall {
		return conv("depthwise_nhwc", stride, c, 3, kit.NHWC(1, c, side, side), c)
	}
	fiveByFive := func(stride, c int) graph.RateCall {
		return conv("depthwise_nhwc", stride, c, 5, kit.NHWC(1, c, 14, 14), c)
	}
	bytes := func(stride, size, c, side int) graph.RateCall { return bytesCall(stride, c, size, c, side, c) }
	severalOutputs := graph.RateCall{Op: "conv2d", Attrs: graph.Attrs{"padding": 1, "groups": 32}, Constant: []int{1},
		In: []tensor.Meta{kit.NHWC(1, 32, 28, 28), kit.F32(64, 1, 3, 3)}, Impl: "depthwise_nhwc"}
	// Integers have no machine code.
	integers := func(impl string, image tensor.Meta) graph.RateCall {
		c := conv(impl, 1, image.Shape[1], 3, image, image.Shape[1])
		c.In[1].DType = tensor.Int32
		return c
	}
	int32Image := kit.NHWC(1, 64, 28, 28)
	int32Image.DType = tensor.Int32
	return []graph.Rate{
		{Name: ratePlanesMAC, Unit: "a multiply-add of a depthwise convolution, by planes",
			Calls: []graph.RateCall{planes(1, 64, 56), conv("depthwise_planes", 1, 64, 7, kit.F32(1, 64, 28, 28), 64)}},
		{Name: ratePlanesElement, Unit: "an element of a plane that is copied to a tile",
			Calls: []graph.RateCall{planes(2, 64, 56), planes(2, 96, 112)}},
		{Name: ratePlanesRow, Unit: "a row of a plane that is copied to a tile", Calls: []graph.RateCall{planes(2, 192, 28)}},
		{Name: ratePlanesPlane, Unit: "a plane of a depthwise convolution",
			Calls: []graph.RateCall{planes(1, 576, 7), planes(2, 576, 14)}},
		{Name: ratePixelsMAC, Unit: "a multiply-add of a depthwise convolution, by pixels",
			Calls: []graph.RateCall{pixels(1, 384, 14), pixels(1, 192, 28), pixels(2, 192, 28), fiveByFive(1, 96),
				fiveByFive(1, 576), fiveByFive(2, 288)}},
		{Name: ratePixelsUnaligned, Unit: "extra cost of a multiply-add if pixels are not aligned to cache lines",
			Calls: []graph.RateCall{pixels(1, 58, 28), pixels(1, 88, 28), pixels(1, 120, 14)}},
		{Name: ratePixelsUncached, Unit: "a byte of pixels beyond the capacity of the L2 cache",
			Calls: []graph.RateCall{pixels(1, 144, 56), pixels(1, 32, 112), pixels(2, 96, 112)}},
		{Name: rateBytesInstruction, Unit: "an instruction of a tile of a depthwise convolution of bytes",
			Calls: []graph.RateCall{bytes(1, 3, 192, 28), bytes(1, 3, 384, 14), bytes(2, 3, 192, 28), bytes(1, 5, 672, 14)}},
		{Name: rateGoMAC, Unit: "a multiply-add of a depthwise convolution in Go",
			Calls: []graph.RateCall{severalOutputs, integers("depthwise_planes", tensor.New(tensor.Int32, 1, 64, 28, 28))}},
		{Name: rateGoChannelsMAC, Unit: "a multiply-add of a depthwise convolution in Go, along channels",
			Calls: []graph.RateCall{integers("depthwise_nhwc", int32Image), pixels(1, 192, 28), fiveByFive(1, 96)}},
	}
}

// winogradRates lists the rates of Winograd convolutions, with the calls that package calibrate runs to measure them.
func winogradRates() []graph.Rate {
	rateCall := func(impl string, channels, imageSize, outChannels int) graph.RateCall {
		return graph.RateCall{Op: "conv2d", Attrs: graph.Attrs{"padding": 1}, Constant: []int{1}, Impl: impl,
			In: []tensor.Meta{kit.NHWC(1, channels, imageSize, imageSize), kit.F32(outChannels, channels, 3, 3)}}
	}
	return []graph.Rate{
		{Name: rateWinogradOperand, Unit: "an element of a tile that is transformed to a point",
			Calls: []graph.RateCall{rateCall("winograd4", 128, 28, 16),
				rateCall("winograd2", 64, 28, 32)}},
		{Name: rateWinogradResult, Unit: "an element of a point that is transformed back",
			Calls: []graph.RateCall{rateCall("winograd4", 16, 28, 128),
				rateCall("winograd2", 16, 28, 64)}},
		{Name: rateWinogradProduct, Unit: "a multiply-add at a point",
			Calls: []graph.RateCall{rateCall("winograd4", 64, 56, 64),
				rateCall("winograd4", 128, 28, 128),
				rateCall("winograd2", 96, 28, 96)}},
		{Name: rateWinogradUncached, Unit: "a byte of weights or points that does not stay in cache",
			Calls: []graph.RateCall{rateCall("winograd2", 512, 7, 512),
				rateCall("winograd4", 256, 14, 256)}},
	}
}
