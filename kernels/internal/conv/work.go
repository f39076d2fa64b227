package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// This file estimates costs. "By pixels" means channels-last images, and "by planes" row-major images. A tap is an
// element of the window. Operand 0 is the input, and operand 1 the weight.
//
// A [pricing.Work] counts bytes by kind of access, and units of named rates. AddStreamed counts the bytes of all operands
// and results as accessed during computation. multiply.ReclassifyStores counts the bytes of the result as accessed
// without computation, and multiply.ReclassifyPanels counts bytes of a constant weight as panels. A panel is the block
// of columns that a product reads at a time; its first tile waits for memory. Units of AddUnits overlap with memory
// access, and units of AddUnoverlapped do not.

// The rates of convolutions, by their names in machine profiles. Stored profiles contain the names, so a name stays
// when its constant is renamed. Package multiply has the rates of products.
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
	rateBytesInstruction = "depthwise.bytes"  // an instruction of a register tile of a depthwise convolution of bytes
	rateSpreadAdd        = "spread.add"       // a product of a transposed convolution that is added to the result

	rateDirectTaps     = "direct.taps"  // a multiply-add of float32, in full tiles
	rateDirectElements = "direct.bytes" // a dot product of four bytes, or of two words
	rateDirectStart    = "direct.begin" // start of a direct convolution
	rateDirectTiles    = "direct.tiles" // start and store of a tile
)

// multiResultCost is the time of a multiply-add in Go by pixels, relative to rateGoMAC, if each input channel has
// several output channels.
const multiResultCost = 3

// rowPixels is the maximum number of pixels that an estimate assumes for a move. In a move, the packer copies pixels of
// one row.
const rowPixels = 28

// cachedPixelBytes is the approximate size of an image up to which the L2 cache keeps most of its pixels.
const cachedPixelBytes = 2 * machine.L2Bytes

// work returns the work of an algorithm for a walk (a loop order with layouts of the results). The work of products
// includes the packing of windows.
func (op convolution) work(call *graph.Call, algorithm convAlgorithm, walk graph.Walk) pricing.Work {
	work := pricing.Work{StartedSteps: 1}
	call.AddStreamed(&work)
	if call.Out[0].Numel() == 0 {
		return work
	}
	laidOut := *call // the call with the result's layout in the walk
	laidOut.Out = []tensor.Meta{walk.ResultLayout(0, call.Out[0])}
	conv := op.shape(&laidOut)
	if algorithm == depthwiseByPixels || algorithm == depthwiseByPlanes {
		conv.tapWork(&work, algorithm, call.Out[0].Numel(), multiply.ComputationDType(call))
		return work
	}
	if algorithm.isDirect() {
		conv.directWork(&work, rateDirectTaps, multiply.ComputationDType(call), algorithm == directFromPlanes)
		return work
	}
	multiply.ReclassifyStores(&work, call)
	work.AddUnits(multiply.RateStartStep, 1)
	const weight = 1
	multiply.ReclassifyPanels(&work, call, weight, conv.batch*conv.pixelsOut())
	if !call.IsConstant(weight) {
		work.AddUnits(multiply.RatePackRow, float64(call.Meta(weight).Numel()))
	}
	if algorithm == productByPixels {
		conv.addPixelProduct(&work, call.Out[0])
	} else {
		conv.addPlaneProducts(&work, call.Out[0])
	}
	return work
}

// addPixelProduct adds the cost of productByPixels: one product for each group, and the packing of windows.
func (s *convShape) addPixelProduct(work *pricing.Work, out tensor.Meta) {
	multiply.AddProduct(work, out.DType, float64(s.groups), s.batch*s.pixelsOut(), s.outPerGroup(), s.termsPerOutput())
	work.AddUnits(multiply.RateStartProduct, float64(s.groups))
	if s.outStride.c != 1 {
		multiply.AddScatteredStores(work, out.Numel(), s.termsPerOutput())
	}
	elements := s.windowElements()
	if s.isPointwise() {
		work.AddUnits(multiply.RatePackRow, elements)
		return
	}
	runLength, _ := pixelRun(s)
	work.AddUnits(multiply.RatePackWindow, elements)
	work.AddUnits(multiply.RatePackRun, elements/float64(runLength))
}

// addPlaneProducts adds the cost of productByPlanes: one product for each group of each image, and the packing of
// windows.
func (s *convShape) addPlaneProducts(work *pricing.Work, out tensor.Meta) {
	multiply.AddProduct(work, out.DType, float64(s.batch*s.groups), s.outPerGroup(), s.pixelsOut(), s.termsPerOutput())
	work.AddUnits(multiply.RateStartProduct, float64(s.batch*s.groups))
	if pixel, _ := s.pixelStride(); pixel != 1 { // pixels are the columns of the products
		multiply.AddScatteredStores(work, out.Numel(), s.termsPerOutput())
	}
	elements := s.windowElements()
	switch {
	case s.isPointwise(): // windows of one pixel: elements of planes
		work.AddUnits(multiply.RatePackCol, elements)
		return
	case s.w.Stride != 1: // elements of windows, from strided pixels
		work.AddUnits(multiply.RatePackStep, elements)
	default: // elements of windows, from adjacent pixels
		work.AddUnits(multiply.RatePackTap, elements)
	}
	// A move copies a run of elements for one tap.
	work.AddUnits(multiply.RatePackMove, elements/float64(min(s.w.Results, rowPixels)))
}

// windowElements returns the number of elements in the windows of all results and groups.
func (s *convShape) windowElements() float64 {
	return float64(s.batch*s.pixelsOut()) * float64(s.taps()) * float64(s.inChannels)
}

// tapWork adds the cost of a depthwise convolution with the given number of results (outputs).
func (s *convShape) tapWork(work *pricing.Work, algorithm convAlgorithm, outputs int, dtype tensor.DType) {
	taps := float64(s.h.Taps * s.w.Taps)
	sizeFactor := float64(dtype.Size()) / 4 // relative to float32
	work.Flops = 2 * taps * float64(outputs)
	switch {
	case algorithm == depthwiseByPlanes && s.usesPlaneTiles(dtype): // machine code, as in the next case
		work.AddUnits(ratePlanesMAC, sizeFactor*taps*float64(outputs))
		work.AddUnits(ratePlanesElement, sizeFactor*float64(s.batch*s.inChannels*s.h.Size*s.w.Size))
		work.AddUnits(ratePlanesRow, float64(s.batch*s.inChannels*s.h.Size))
		work.AddUnits(ratePlanesPlane, float64(s.batch*s.inChannels))
	case algorithm == depthwiseByPixels && hasWindowCode(s, dtype):
		s.windowWork(work, dtype.Size())
	case algorithm == depthwiseByPixels && s.outChannels == s.inChannels: // loops in Go, here and below
		work.AddUnits(rateGoChannelsMAC, taps*float64(outputs))
	case algorithm == depthwiseByPixels: // several results per channel
		work.AddUnits(rateGoMAC, multiResultCost*taps*float64(outputs))
	default: // by planes
		work.AddUnits(rateGoMAC, taps*float64(outputs))
	}
}

// windowWork adds the cost of depthwise machine code by pixels: multiply-adds of whole vectors, for the taps inside the
// image. Tiles do not read memory sequentially, so arithmetic and memory accesses do not overlap: their times are
// added.
func (s *convShape) windowWork(work *pricing.Work, elemBytes int) {
	shape, _ := newWindowShape(s, elemBytes)
	macs := float64(s.h.CountAll()) * float64(s.w.CountAll()) *
		float64(s.batch*shape.vectors*shape.lanes) * float64(elemBytes) / 4 // relative to float32
	work.AddUnoverlapped(ratePixelsMAC, macs)
	if s.inChannels*elemBytes%machine.LineBytes != 0 {
		work.AddUnoverlapped(ratePixelsUnaligned, macs)
	}
	pixels := s.batch * (s.h.Size*s.w.Size + s.h.Results*s.w.Results)
	if bytes := s.inChannels * elemBytes * pixels; bytes > cachedPixelBytes {
		work.AddUnoverlapped(ratePixelsUncached, float64(bytes-cachedPixelBytes))
	}
}

// pixelRun returns the length of the runs of elements that are contiguous in a channels-last image and in a window. A
// run has the channels of one pixel. If isWholeRow is true, it has the channels of a whole row of the window.
func pixelRun(conv *convShape) (runLength int, isWholeRow bool) {
	if conv.groups == 1 && conv.w.Dilation == 1 && conv.inChannels < minPixelChannels {
		return conv.w.Taps * conv.inChannels, true
	}
	return conv.inPerGroup, false
}

// directWork adds the work of a direct convolution. rate is the name of the rate of its multiply-adds.
func (s *convShape) directWork(work *pricing.Work, rate string, dtype tensor.DType, byPlanes bool) {
	if !byPlanes && rate == rateDirectTaps && s.usesGroupWindows(dtype) {
		// Groups of few channels: depthwise windows over several groups take fewer instructions than register tiles.
		s.groupWork(work, dtype)
		return
	}
	multiply.ReclassifyStores(work, s.call)
	const weight = 1
	multiply.ReclassifyPanels(work, s.call, weight, s.batch*s.pixelsOut())
	work.AddUnoverlapped(rateDirectStart, 1)
	if !s.call.IsConstant(weight) {
		work.AddUnits(multiply.RatePackRow, float64(s.outChannels*s.termsPerOutput()))
	}
	s.tileWork(work, rate, dtype, byPlanes)
}

// tileWork adds the work of the register tiles of a direct convolution. It has no case for rowPairTiling, which only
// the matrix unit uses: bytesWork calls unitWork instead.
func (s *convShape) tileWork(work *pricing.Work, rate string, dtype tensor.DType, byPlanes bool) {
	shape := newDirectShape(s, dtype, byPlanes)
	groups, images := float64(s.groups), s.batch
	var tiles, cycles float64
	switch pixels := s.pixelsOut(); shape.tiling {
	case pointwiseTiling: // windows of one pixel: a tile has consecutive pixels of an image or, by pixels, of the batch
		if !byPlanes {
			images, pixels = 1, s.batch*pixels
		}
		const taps = 1
		tiles, cycles = s.tileCycles(&shape, splitEvenly(pixels, shape.rows), groups*float64(images), taps)
	case smallImageTiling: // a tile has consecutive pixels of an image
		tiles, cycles = s.tileCycles(&shape, splitEvenly(pixels, shape.rows), groups*float64(images), s.meanTaps())
	case rowTiling: // a tile has pixels of one row of the result
		tiles, cycles = s.tileCycles(&shape, splitEvenly(s.w.Results, shape.rows), groups*float64(images*s.rowsOut()),
			s.meanTaps())
	}
	if byPlanes && shape.tiling == rowTiling { // an inner loop for each channel and each row of the window
		cycles += float64(tiles * float64(s.inPerGroup*s.d.Taps*s.h.Taps) * loopCycles)
	}
	pagesPerPlane := float64(min(s.pixelsIn()*dtype.Size(), pageBytes)) / pageBytes // small planes share a page
	if byPlanes && float64(s.inPerGroup)*pagesPerPlane > tlbPages {
		cycles += float64(tiles * float64(s.inPerGroup) * pageMissCycles)
	}
	work.AddUnits(rate, 2*cycles*float64(shape.lanes*dtype.Size()/4)) // the rate is for lanes of 4 bytes
	work.AddUnits(rateDirectTiles, tiles)
	work.Flops += float64(2 * float64(s.batch*s.outChannels*s.pixelsOut()) * float64(s.termsPerOutput()))
}

// tileCycles returns the number of tiles, and the number of cycles of their multiply-adds, for a division into tiles
// that occurs `repetitions` times. taps is the mean number of taps per result. A cycle executes two multiply-adds of
// vectors.
func (s *convShape) tileCycles(shape *directShape, division pieces, repetitions, taps float64) (tiles, cycles float64) {
	wholeBlocks, lastChannels := s.outPerGroup()/shape.blockChannels(), s.outPerGroup()%shape.blockChannels()
	for _, equalTiles := range division.bySize() {
		rows := equalTiles.size
		addBlocks := func(blocks, channels int) {
			vectors := kit.DivUp(channels, shape.lanes)
			tileCount := float64(repetitions * float64(equalTiles.count*blocks))
			tiles += tileCount
			// The greatest of three times counts: of the multiplications (two per cycle), of the loads, and of a tile
			// with few sums, in which a multiply-add waits for the previous multiply-add of the same sum.
			cycles += float64(tileCount * taps * float64(s.inPerGroup) *
				max(float64(rows*vectors)/2, float64(rows+vectors)/loadsPerCycle, sumLatency))
		}
		addBlocks(wholeBlocks, shape.blockChannels())
		addBlocks(min(lastChannels, 1), lastChannels) // a smaller block, unless lastChannels is 0
	}
	return tiles, cycles
}

const (
	// loadsPerCycle is the number of loads that a tile executes per cycle. Processors can start two, but tiles of one
	// vector of channels, which load as often as they multiply, take a fifth longer with AVX2 and with AVX-512.
	loadsPerCycle = 1.67
	// loopCycles is the time that each iteration of an inner loop of few terms takes in addition to its multiply-adds.
	// By pixels, an iteration has the taps and channels of a row of the window, so this time does not matter there.
	loopCycles = 3
)

// The TLB of a core holds tlbPages pages of pageBytes, and a miss takes pageMissCycles. A tile reads a row of every
// plane, so the pages of many planes exceed the TLB.
const (
	pageBytes      = 4096
	tlbPages       = 112
	pageMissCycles = 6
)
