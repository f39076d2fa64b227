package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// The rates of convolutions, by their names in machine profiles. Package multiply has the rates of products.
const (
	ratePlanesMAC        = "depthwise.planes" // a multiply-add, by planes
	ratePlanesElement    = "depthwise.tile"   // an element of a plane that is copied to a tile
	ratePlanesRow        = "depthwise.row"    // a row of a plane that is copied to a tile
	ratePlanesPlane      = "depthwise.plane"  // a plane that is copied to tiles
	ratePixelsMAC        = "depthwise.pixels" // a multiply-add, by pixels
	ratePixelsUnaligned  = "depthwise.ragged" // extra cost of a multiply-add if pixels are not aligned to cache lines
	ratePixelsUncached   = "depthwise.far"    // a byte of pixels beyond the capacity of the L2 cache
	rateGoMAC            = "depthwise.go"     // a multiply-add in Go, by planes or with several results per channel
	rateGoChannelsMAC    = "depthwise.lanes"  // a multiply-add in Go, along channels
	rateBytesInstruction = "depthwise.bytes"  // an instruction of a tile of bytes
	rateSpreadAdd        = "spread.add"       // a product of a transposed convolution that is added to the result
)

// multiResultCost is a factor for the time of multiply-adds in Go by pixels, if an input channel has several output
// channels instead of one.
const multiResultCost = 3

// rowPixels is the maximum number of pixels that one move of the packer is assumed to copy, for estimates.
const rowPixels = 28

// cachedPixelBytes is the approximate size of the pixels that the L2 cache holds.
const cachedPixelBytes = 2 * machine.L2Bytes

// work estimates the cost of an algorithm. The cost of products includes the packing of windows.
func (v convolution) work(c *graph.Call, a convAlgorithm, walk graph.Walk) graph.Work {
	w := graph.Work{Steps: 1}
	c.AddStreamed(&w)
	if c.Out[0].Numel() == 0 {
		return w
	}
	planned := *c
	planned.Out = []tensor.Meta{walk.ResultLayout(0, c.Out[0])}
	s, d := v.shape(&planned), c.Out[0].DType
	pixels := s.n * s.pixelsOut()
	if a == depthwiseByPixels || a == depthwiseByPlanes {
		s.tapWork(&w, a, c.Out[0].Numel(), multiply.ComputationDType(c))
		return w
	}
	if a.isDirect() {
		s.directWork(&w, rateDirectTaps, multiply.ComputationDType(c), a == directFromPlanes)
		return w
	}
	elements := s.windowElements()
	multiply.ReclassifyStores(&w, c)
	w.Do(multiply.RateStartStep, 1)
	multiply.ReclassifyPanels(&w, c, 1, pixels)
	if !c.Constant(1) {
		w.Do(multiply.RatePackRow, float64(c.Meta(1).Numel()))
	}
	if a == convByPixels {
		multiply.AddProduct(&w, d, float64(s.groups), pixels, s.outPerGroup(), s.termsPerOutput())
		w.Do(multiply.RateStartProduct, float64(s.groups))
		if s.outStride.c != 1 {
			multiply.AddScatter(&w, c.Out[0].Numel(), s.termsPerOutput())
		}
		if s.isPointwise() {
			w.Do(multiply.RatePackRow, elements)
			return w
		}
		run, _ := pixelRun(s)
		w.Do(multiply.RatePackWindow, elements)
		w.Do(multiply.RatePackRun, elements/float64(run))
		return w
	}
	multiply.AddProduct(&w, d, float64(s.n*s.groups), s.outPerGroup(), s.pixelsOut(), s.termsPerOutput())
	w.Do(multiply.RateStartProduct, float64(s.n*s.groups))
	if pixel, _ := s.pixelStride(); pixel != 1 {
		multiply.AddScatter(&w, c.Out[0].Numel(), s.termsPerOutput())
	}
	switch {
	case s.isPointwise():
		w.Do(multiply.RatePackCol, elements)
		return w
	case s.w.Stride != 1:
		w.Do(multiply.RatePackStep, elements)
	default:
		w.Do(multiply.RatePackTap, elements)
	}
	w.Do(multiply.RatePackMove, elements/float64(min(s.w.Results, rowPixels)))
	return w
}

// windowElements returns the number of elements in the windows of all results and groups.
func (s *convShape) windowElements() float64 {
	return float64(s.n*s.pixelsOut()) * float64(s.taps()) * float64(s.inChannels)
}

// tapWork adds the cost of a depthwise convolution.
func (s *convShape) tapWork(w *graph.Work, a convAlgorithm, outputs int, d tensor.DType) {
	taps := float64(s.h.Taps * s.w.Taps)
	sizeFactor := float64(d.Size()) / 4 // relative to float32
	w.Flops = 2 * taps * float64(outputs)
	switch {
	case a == depthwiseByPlanes && s.usesPlaneTiles(d):
		w.Do(ratePlanesMAC, sizeFactor*taps*float64(outputs))
		w.Do(ratePlanesElement, sizeFactor*float64(s.n*s.inChannels*s.h.Size*s.w.Size))
		w.Do(ratePlanesRow, float64(s.n*s.inChannels*s.h.Size))
		w.Do(ratePlanesPlane, float64(s.n*s.inChannels))
	case a == depthwiseByPixels && hasWindowCode(s, d):
		s.windowWork(w, d.Size())
	case a == depthwiseByPixels && s.outChannels == s.inChannels:
		w.Do(rateGoChannelsMAC, taps*float64(outputs))
	case a == depthwiseByPixels:
		w.Do(rateGoMAC, multiResultCost*taps*float64(outputs))
	default:
		w.Do(rateGoMAC, taps*float64(outputs))
	}
}

// windowWork adds the cost of depthwise machine code by pixels: multiply-adds of whole vectors, for the taps inside the
// image. Tiles do not read memory sequentially, so this time is added to the time of memory accesses.
func (s *convShape) windowWork(w *graph.Work, size int) {
	f, _ := newWindowShape(s, size)
	macs := float64(s.h.CountAll()) * float64(s.w.CountAll()) *
		float64(s.n*f.vectors*f.lanes) * float64(size) / 4
	w.DoUnoverlapped(ratePixelsMAC, macs)
	if s.inChannels*size%machine.LineBytes != 0 {
		w.DoUnoverlapped(ratePixelsUnaligned, macs)
	}
	if bytes := s.inChannels * size * (s.h.Size*s.w.Size + s.h.Results*s.w.Results) * s.n; bytes > cachedPixelBytes {
		w.DoUnoverlapped(ratePixelsUncached, float64(bytes-cachedPixelBytes))
	}
}

// pixelRun returns the length of the runs of elements that are contiguous in a channels-last image and in a window. A
// run has the channels of one pixel. If wholeRows is true, it has the channels of a whole row of the window.
func pixelRun(s *convShape) (run int, wholeRows bool) {
	if s.groups == 1 && s.w.Dilation == 1 && s.inChannels < rowChannels {
		return s.w.Taps * s.inChannels, true
	}
	return s.inPerGroup, false
}
