package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// This file computes convolutions with small groups by depthwise windows: a vector holds the channels of several
// groups, and each input channel is broadcast to the lanes of its group. For groups of two channels and eight lanes,
// the sums of output channels o0 to o7 are
//
//	o0 += x0*w   o1 += x0*w   o2 += x2*w   o3 += x2*w   ...   first input channel of each group
//	o0 += x1*w   o1 += x1*w   o2 += x3*w   o3 += x3*w   ...   second input channel of each group
//
// for each tap. In the register tiles of direct convolution, a vector holds output channels of one group, so small
// groups would leave most lanes empty.

// usesGroupWindows reports whether direct convolution of channels-last images uses depthwise windows over several
// groups. Such windows are used if they take fewer instructions than the register tiles of direct convolution
// (directShape). The choice depends only on sizes and the instruction set.
func (s *convShape) usesGroupWindows(dtype tensor.DType) bool {
	hasGroups := s.groups > 1 && s.inPerGroup >= 2
	terms := s.termsPerOutput()
	isSupported := !s.isVolumetric() && terms > 0 && terms <= maxBlockTerms
	if !hasGroups || !isSupported || !hasWindowCode(s, dtype) {
		return false
	}
	shape, _ := newWindowShape(s, dtype.Size())
	tileInstructions := float64(shape.vectors * shape.lanes * s.h.Taps * s.w.Taps) // of direct convolution
	return s.groupInstructions(&shape) < tileInstructions
}

// groupInstructions estimates the number of instructions per pixel of the result, for windows inside the image. It
// counts multiplications, and broadcasts of input elements to the lanes of their groups.
func (s *convShape) groupInstructions(shape *windowShape) (instructions float64) {
	cols := min(shape.tile[1], s.w.Results)        // output pixels in a row of a tile
	inputs := min(s.w.Extent(cols), cols*s.w.Taps) // input pixels that they read in an input row
	return float64(shape.vectors*s.inPerGroup*s.h.Taps) * (float64(s.w.Taps) + float64(inputs)/float64(cols))
}

// groupWork adds the work of windows over groups of several channels. A broadcast counts as a multiplication.
func (s *convShape) groupWork(work *pricing.Work, dtype tensor.DType) {
	shape, _ := newWindowShape(s, dtype.Size())
	// The fractions of kernel rows and of kernel columns that are inside the image, averaged over the results.
	rowTapShare := float64(s.h.CountAll()) / float64(s.h.Results) / float64(s.h.Taps)
	colTapShare := float64(s.w.CountAll()) / float64(s.w.Results) / float64(s.w.Taps)
	multiply.ReclassifyStores(work, s.call)
	work.AddUnoverlapped(rateDirectStart, 1)
	if !s.call.IsConstant(1) {
		work.AddUnits(multiply.RatePackRow, float64(s.outChannels*s.termsPerOutput()))
	}
	pixels := float64(s.batch * s.h.Results * s.w.Results)
	const float32Bytes = 4 // rateDirectTaps counts multiply-adds of float32
	work.AddUnits(rateDirectTaps,
		pixels*rowTapShare*colTapShare*s.groupInstructions(&shape)*float64(shape.vectorBytes)/float32Bytes)
	work.AddUnits(rateDirectTiles, pixels*float64(shape.vectors)/float64(shape.tile[0]*shape.tile[1]))
	work.Flops = 2 * pixels * float64(s.outChannels*s.termsPerOutput())
}

// depthwiseWindows makes the kernel of depthwise windows on channels-last images, for groups of one or several
// channels.
func depthwiseWindows(conv *convShape, dtype tensor.DType) (*graph.Kernel, error) {
	weight, err := newPackedWeight(conv.call, conv.windowPanels(dtype))
	if err != nil {
		return nil, err
	}
	windows, err := newDepthwiseWindow(conv, dtype)
	if err != nil {
		return nil, err
	}
	return &graph.Kernel{Phases: append(weight.phases(), windows.phase(weight.address)), Scratch: weight.Scratch,
		WorkerScratch: conv.denseBiasBytes(windows.elemBytes), Code: windows.listings}, nil
}
