package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit/winograd"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// This file estimates the cost of a Winograd convolution, which transforms tiles of pixels to points and multiplies at
// each point (see [winogradConv]). A section is a sequence of the batch's tiles whose points are in memory together. A
// strip is a sequence of tiles whose products fit in one register tile.

// The rates of Winograd convolutions, by their names in machine profiles.
const (
	rateWinogradOperand  = "winograd.operand" // an element of a transformed tile
	rateWinogradResult   = "winograd.result"  // an element of a product that is transformed back
	rateWinogradProduct  = "winograd.product" // a multiply-add at a point
	rateWinogradUncached = "winograd.far"     // a byte of weights or points that does not stay in cache
)

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

const (
	// minBusySums is the minimum number of vector sums in a register tile that hides the latency of multiply-adds.
	minBusySums = 8
	// winogradSumCost is the time to start and store a sum, in multiply-adds.
	winogradSumCost = 4
)

// weightTraffic returns the bytes of weights whose loads delay the products. The first strip of a section loads the
// weights of a point at memory speed, and the other strips prefetch the next weights while they multiply. Therefore a
// share of 2/(1+strips) of the weights is assumed to be delayed. Of these bytes, half of those beyond cachedWeightBytes
// are assumed to arrive in time, because they are prefetched during the previous block. With chunkSchedule, only the
// first section loads weights from memory.
func (w *winogradConv) weightTraffic() float64 {
	tiles := w.tileCount()
	if w.chooseSchedule() != chunkSchedule {
		tiles = w.sections().span(0).count
	}
	strips := kit.DivUp(tiles, w.stripTiles)
	bytes := 2 * floatBytes * float64(w.transformedWeights()) / float64(1+strips)
	return (bytes + min(bytes, cachedWeightBytes)) / 2
}

// work returns the work of the memory traffic, the transforms and the products.
func (w *winogradConv) work(call *graph.Call) graph.Work {
	work := graph.Work{StartedSteps: 1}
	call.AddStreamed(&work)
	multiply.ReclassifyStores(&work, call)
	weights, weightBytes := floatBytes*float64(w.transformedWeights()), float64(call.Meta(1).Bytes())
	switch {
	case w.transformsInRun:
		work.AddUnits(rateWinogradProduct, float64(winograd.TransformFMAs*w.blockCount*w.pointWeights()))
	case weightBytes <= work.Bytes[graph.DenseConstants]:
		work.Bytes[graph.DenseConstants] += w.weightTraffic() - weightBytes
	}
	tiles := w.tileCount()
	pointCount := float64(tiles * w.form.Points())
	work.AddUnits(rateWinogradOperand, pointCount*float64(w.tileStride))
	work.AddUnits(rateWinogradResult, pointCount*float64(w.blockCount*w.blockChannels))
	tileSums := float64(min(tiles, w.stripTiles) * w.blockChannels / winograd.Lanes(w.cpu))
	if w.transformsInRun {
		tileSums *= winograd.RowPoints
	}
	work.AddUnits(rateWinogradProduct,
		pointCount*float64((w.conv.inChannels+winogradSumCost)*w.blockCount*w.blockChannels)*max(1, minBusySums/tileSums))
	switch schedule := w.chooseSchedule(); {
	case schedule == chunkSchedule, weights <= cachedWeightBytes, w.transformsInRun:
		// Weights stay in cache, or arrive fast enough.
	case schedule == pointSchedule:
		points, products := w.memoryTraffic()
		work.AddUnits(rateWinogradUncached, float64(points+products))
		fallthrough // the weights are also loaded again for each further section
	case schedule == blockSchedule:
		work.AddUnits(rateWinogradUncached, weights*float64(w.sectionCount(schedule)-1))
	}
	work.Flops = 2 * windowElements * float64(call.Out[0].Numel()) * float64(w.conv.inChannels)
	return work
}
