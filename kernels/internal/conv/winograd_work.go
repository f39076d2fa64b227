package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit/winograd"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/pricing"
)

// This file estimates the cost of a Winograd convolution, which transforms tiles of pixels to points and multiplies at
// each point (see [winogradConv]). The tiles of the batch are divided into sections; the points of a section are in
// memory together. A section is divided into strips; the products of a strip fit in one register tile. A block is one
// or two vectors of output channels.

// The rates of Winograd convolutions, by their names in machine profiles.
const (
	rateWinogradOperand  = "winograd.operand" // an element of a transformed tile
	rateWinogradResult   = "winograd.result"  // an element of a product that is transformed back
	rateWinogradProduct  = "winograd.product" // a multiply-add at a point
	rateWinogradUncached = "winograd.far"     // a byte of weights or points that does not stay in cache
)

const (
	// minBusySums is the minimum number of vector sums in a register tile that hides the latency of multiply-adds.
	minBusySums = 8
	// winogradSumCost is the time to start and store a sum, in multiply-adds.
	winogradSumCost = 4
)

// work returns the work of a call: the traffic of operands and results, the loads of weights, the transforms, the
// products, and the traffic of data that do not stay in cache.
func (w *winogradConv) work(call *graph.Call) pricing.Work {
	work := pricing.Work{StartedSteps: 1}
	call.AddStreamed(&work)
	multiply.ReclassifyStores(&work, call)
	w.addWeightWork(call, &work)
	w.addTransformWork(&work)
	w.addProductWork(&work)
	w.addUncachedWork(&work)
	work.Flops = 2 * windowElements * float64(call.Out[0].Numel()) * float64(w.conv.inChannels) // windowElements: 9
	return work
}

// addWeightWork adds the work of transforming the weight in the run. If the weight was transformed when it was packed,
// addWeightWork instead replaces the bytes of the weight by the transformed bytes whose loads delay the products.
func (w *winogradConv) addWeightWork(call *graph.Call, work *pricing.Work) {
	if w.transformsInRun {
		work.AddUnits(rateWinogradProduct, float64(winograd.TransformFMAs*w.blockCount*w.pointWeights()))
		return
	}
	weightBytes := float64(call.Meta(1).Bytes())
	if weightBytes <= work.Bytes[pricing.DenseConstants] { // AddStreamed has counted the weight there
		work.Bytes[pricing.DenseConstants] += w.delayingWeightBytes() - weightBytes
	}
}

// delayingWeightBytes returns the bytes of transformed weights whose loads delay the products. The first strip of a
// section loads the weights of a point at memory speed. The other strips prefetch the next weights while they multiply.
// The estimate is that 2/(1+strips) of the weights delay the products: all weights for one strip, and fewer for more
// strips. Half of the bytes beyond cachedWeightBytes arrive in time, because they are prefetched during the previous
// block.
func (w *winogradConv) delayingWeightBytes() float64 {
	tiles := w.sections.span(0).count
	if w.schedule == chunkSchedule { // the weights are loaded once for all sections and then stay in cache
		tiles = w.tileCount()
	}
	strips := kit.DivUp(tiles, w.stripTiles)
	delaying := 2 * floatBytes * float64(w.transformedWeights()) / float64(1+strips)
	return (delaying + min(delaying, cachedWeightBytes)) / 2 // cachedWeightBytes, and half of the bytes beyond
}

// addTransformWork adds the work of the transforms of tiles to points, and of products back to results.
func (w *winogradConv) addTransformWork(work *pricing.Work) {
	pointCount := float64(w.tileCount() * w.form.Points())               // of all tiles
	work.AddUnits(rateWinogradOperand, pointCount*float64(w.tileStride)) // tileStride: the channels with padding
	work.AddUnits(rateWinogradResult, pointCount*float64(w.blockCount*w.blockChannels))
}

// addProductWork adds the work of the products: multiply-adds, and the start and the store of each sum. Multiply-adds
// wait for each other if a register tile has fewer than minBusySums sums, and then take longer in proportion.
func (w *winogradConv) addProductWork(work *pricing.Work) {
	tiles := w.tileCount()
	pointCount := float64(tiles * w.form.Points())
	sumsPerRegisterTile := float64(min(tiles, w.stripTiles) * w.blockChannels / winograd.Lanes(w.cpu))
	if w.transformsInRun { // a register tile has the sums of a row of points
		sumsPerRegisterTile *= winograd.RowPoints
	}
	macs := pointCount * float64((w.conv.inChannels+winogradSumCost)*w.blockCount*w.blockChannels)
	work.AddUnits(rateWinogradProduct, macs*max(1, minBusySums/sumsPerRegisterTile))
}

// addUncachedWork adds the traffic of points, products and weights that do not stay in cache.
func (w *winogradConv) addUncachedWork(work *pricing.Work) {
	weightBytes := floatBytes * float64(w.transformedWeights())
	if w.schedule == chunkSchedule || weightBytes <= cachedWeightBytes || w.transformsInRun {
		return // the weights stay in cache, or the run transforms them
	}
	if w.schedule == pointSchedule {
		work.AddUnits(rateWinogradUncached, float64(w.memoryTraffic()))
	}
	// Each section after the first loads the weights again.
	work.AddUnits(rateWinogradUncached, weightBytes*float64(w.sections.count-1))
}
