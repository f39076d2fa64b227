package conv

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/jit/winograd"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// winogradRun is the compiled code and the memory layout of a [winogradConv], which explains the algorithm. A tile of
// pixels is transformed to points. A section is a sequence of the batch's tiles whose points are in memory together. A
// part is a sequence of tiles of a section that a chunk multiplies by a block of weights. A strip is a sequence of
// tiles of a part whose products fit in one register tile.
//
// With chunkSchedule, points and products are in the worker's memory. With the other schedules, sections are computed
// one after another, and their points are in scratch memory, which workers share. With pointSchedule, products are
// shared as well. The phases of the kernel are:
//
//	chunkSchedule:  pack the weight; compute all sections, one per chunk
//	blockSchedule:  pack the weight; for each section: transform, multiply and transform back
//	pointSchedule:  pack the weight; for each section: transform, multiply, transform back
type winogradRun struct {
	*winogradConv
	sections    spans
	schedule    winogradSchedule
	weight      packedWeight // the panels of the weight if transformsInRun, else unused
	isPacked    bool         // the weight was packed when the graph was planned
	weightBytes int          // bytes of packed weights in scratch memory, before the points; 0 if isPacked

	inputTransforms   map[winograd.Part]*winograd.Transform // by the part of the tile inside the image
	inverseTransforms map[inverseKey]*winograd.Transform    // from the products of a tile to results
	productCodes      map[int]*jit.Func                     // code that multiplies a strip, by its number of tiles
	windowProducts    *winograd.Products                    // replaces productCodes if transformsInRun
	weightTransform   *winograd.Transform                   // for packPhase; nil if there is none

	pointStride     int // bytes between two points of a section's tiles
	productStride   int // bytes between two points of the products
	blockStride     int // bytes between two blocks of products, with pointSchedule; else 0
	prefetchedLines int // cache lines of the next weights to prefetch per step of the product code
	epilogue        codeEpilogue
	workers         graph.PerWorker[winogradArgs]
}

// inverseKey identifies the code of an inverse transform. rows and cols are the rows and columns of the tile that are
// inside the result. lastLanes is the number of output channels in the last vector of a block, or 0 if this vector is
// full.
type inverseKey struct{ rows, cols, lastLanes int }

// winogradArgs are a worker's arguments of the generated code.
type winogradArgs struct {
	transform, product jit.Args
	epilogue           fusion.EpilogueRun
}

// release removes the addresses of a run, so that the worker does not keep its memory alive.
func (a *winogradArgs) release() {
	clear(a.transform.Ptr[:])
	clear(a.product.Ptr[:])
	a.epilogue.Release()
}

const (
	// transformGrain is the number of transformed elements per chunk of a transform.
	transformGrain = 1 << 15
	// pointMACs is the number of multiply-adds per chunk of pointSchedule.
	pointMACs = 1 << 19
	// winogradCallMACs bounds the multiply-adds of one call of product code. A goroutine cannot be preempted within a
	// call, so a call must not take longer than 50 us.
	winogradCallMACs = 1 << 20 / machine.CallDivisor
	// cachedBlockBytes is the maximum size, in bytes, of a block's weights that stay in the L2 cache. Chunks of one strip
	// each can then read the same weights.
	cachedBlockBytes = 768 << 10
	// prefetchBytes is how far ahead of their use weights are prefetched, in bytes.
	prefetchBytes = 8 << 10
)

// kernel generates the code and returns the kernel.
func (w *winogradConv) kernel() (*graph.Kernel, error) {
	r := &winogradRun{winogradConv: w, sections: w.sections(), schedule: w.chooseSchedule(),
		inputTransforms: map[winograd.Part]*winograd.Transform{}, inverseTransforms: map[inverseKey]*winograd.Transform{},
		productCodes: map[int]*jit.Func{}}
	r.epilogue = newCodeEpilogue(w.conv.epilogue, w.conv.outChannels, winograd.FirstEpilogueOperand)
	if err := r.findWeight(); err != nil {
		return nil, err
	}
	kernel := &graph.Kernel{Code: r.listings}
	kernel.Scratch, kernel.WorkerScratch = r.layOutMemory()
	if err := r.compile(); err != nil {
		return nil, err
	}
	kernel.Phases = r.phases()
	return kernel, nil
}

// findWeight sets weight, isPacked and weightBytes.
func (r *winogradRun) findWeight() (err error) {
	if r.transformsInRun {
		r.weight, err = newPackedWeight(r.conv.call, r.panels())
		r.isPacked, r.weightBytes = r.weight.packedBefore, r.weight.Scratch
		return err
	}
	if r.isPacked, err = r.packedPoints(); !r.isPacked {
		r.weightBytes = kit.AlignUp(floatBytes * r.transformedWeights())
	}
	return err
}

// layOutMemory sets the strides of points and products, and returns the sizes in bytes of the memory for weights,
// points and products: scratch is shared by all workers, and each worker has workerScratch.
func (r *winogradRun) layOutMemory() (scratch, workerScratch int) {
	sectionTiles, partTiles := r.sizeParts()
	r.pointStride = sectionTiles*r.tileStride*floatBytes + pointPad
	r.productStride = partTiles*r.blockChannels*floatBytes + pointPad
	points := r.form.Points()
	switch r.schedule {
	case chunkSchedule:
		return r.weightBytes, kit.AlignUp(points*r.productStride) + points*r.pointStride
	case blockSchedule:
		return r.weightBytes + points*r.pointStride, points * r.productStride
	}
	// With pointSchedule, scratch memory has the products of all blocks.
	r.blockStride = sectionTiles * r.blockChannels * floatBytes
	r.productStride = r.blockCount*r.blockStride + pointPad
	return r.weightBytes + points*(r.pointStride+r.productStride), 0
}

// phases lists the phases of the kernel. The first phase packs the weight if it is not packed. The following
// phases compute section by section.
func (r *winogradRun) phases() (list []graph.Phase) {
	switch {
	case r.transformsInRun:
		list = r.weight.phases()
	case !r.isPacked:
		list = append(list, r.packPhase())
	}
	if r.schedule == chunkSchedule {
		return append(list, r.chunkPhase())
	}
	for i := range r.sections.count {
		section := r.sections.span(i)
		list = append(list, r.transformPhase(section))
		if r.schedule == pointSchedule {
			list = append(list, r.pointsPhase(section), r.inversePhase(section))
		} else {
			list = append(list, r.multiplyPhase(section))
		}
	}
	return list
}

// sizeParts returns the maximum number of tiles per section and per part. It also sets r.prefetchedLines. Each strip of
// a section prefetches an equal share of the next weights, because loading all weights takes longer than one strip.
func (r *winogradRun) sizeParts() (sectionTiles, partTiles int) {
	minStrips := math.MaxInt
	for i := range r.sections.count {
		parts, strips := r.parts(r.sections.span(i)), 0
		partTiles = max(partTiles, parts.maxTiles())
		for k := range parts.count {
			strips += r.strips(parts.span(k)).count
		}
		minStrips = min(minStrips, strips)
	}
	if r.schedule != chunkSchedule && minStrips > 1 {
		r.prefetchedLines = kit.DivUp(tile.DefaultUnroll*r.blockChannels*floatBytes/machine.LineBytes, minStrips)
	}
	return r.sections.maxTiles(), partTiles
}

// compile generates the transforms of all distinct tiles and of the weight, and the product code of all strip sizes.
func (r *winogradRun) compile() (err error) {
	conv := r.conv
	for _, tileRow := range r.distinctTiles(r.tilesDown, conv.h.PadBefore, conv.h.Size, conv.h.Results) {
		for _, tileCol := range r.distinctTiles(r.tilesAcross, conv.w.PadBefore, conv.w.Size, conv.w.Results) {
			if err := r.compileTile(tileRow, tileCol); err != nil {
				return err
			}
		}
	}
	if r.transformsInRun {
		r.windowProducts, err = winograd.CompileProducts(r.cpu, r.tileCount())
		return err
	}
	if !r.isPacked {
		if r.weightTransform, err = r.form.CompileWeights(r.cpu); err != nil {
			return err
		}
	}
	for i := range r.sections.count {
		parts := r.parts(r.sections.span(i))
		for k := range parts.count {
			if err := r.compileProducts(r.strips(parts.span(k))); err != nil {
				return err
			}
		}
	}
	return nil
}

// compileProducts generates the product code of the strips of a part.
func (r *winogradRun) compileProducts(strips spans) error {
	for i := range strips.count {
		tiles := strips.span(i).count
		compile := func() (*jit.Func, error) { return r.compileProduct(tiles) }
		if err := generateOnce(r.productCodes, tiles, compile); err != nil {
			return err
		}
	}
	return nil
}

// distinctTiles returns one index for each boundary case among n rows or columns of tiles. The tiles of a boundary case
// have the same parts inside the image and inside the result. pad, size and results are the padding before the image,
// and the sizes of the image and of the result, along the dimension.
func (r *winogradRun) distinctTiles(n, pad, size, results int) (list []int) {
	type boundaryCase struct{ first, end, results int } // the parts inside the image and inside the result
	isListed := map[boundaryCase]bool{}
	for i := range n {
		first, end := r.insideImage(i, pad, size)
		key := boundaryCase{first: first, end: end, results: min(r.form.M, results-i*r.form.M)}
		if !isListed[key] {
			isListed[key] = true
			list = append(list, i)
		}
	}
	return list
}

// insideImage returns the range of the form.N() rows or columns of tile i that are inside the image. It returns 0 and 0
// if the tile is outside the image.
func (r *winogradRun) insideImage(i, pad, size int) (first, end int) {
	start := i*r.form.M - pad // index in the image of the tile's first row or column
	if first, end = max(0, -start), min(r.form.N(), size-start); first >= end {
		return 0, 0
	}
	return first, end
}

// compileTile generates the transforms that tile (tileRow, tileCol) needs.
func (r *winogradRun) compileTile(tileRow, tileCol int) error {
	inputPart := r.tilePart(tileRow, tileCol)
	if err := generateOnce(r.inputTransforms, inputPart, func() (*winograd.Transform, error) {
		return r.form.CompileInput(r.cpu, inputPart, r.conv.inChannels%winograd.Lanes(r.cpu))
	}); err != nil {
		return err
	}
	for _, block := range []int{0, r.blockCount - 1} { // the last block may have fewer channels
		code := r.inverseKey(tileRow, tileCol, block)
		if err := generateOnce(r.inverseTransforms, code, func() (*winograd.Transform, error) {
			return r.form.CompileOutput(r.cpu, code.rows, code.cols, r.conv.hasBias, r.epilogue.Steps, code.lastLanes)
		}); err != nil {
			return err
		}
	}
	return nil
}

// generateOnce generates code and stores it in the map, unless the map already has code for the key.
func generateOnce[K comparable, T any](codes map[K]*T, key K, generate func() (*T, error)) (err error) {
	if codes[key] == nil {
		codes[key], err = generate()
	}
	return err
}

// compileProduct generates the code that multiplies a strip of tiles by a block of weights, point by point. The rows of
// its register tile are the strip's tiles.
func (r *winogradRun) compileProduct(tiles int) (*jit.Func, error) {
	spec := &tile.Spec{ElemBytes: 4, Rows: tiles, Vectors: r.blockChannels / winograd.Lanes(r.cpu),
		PrefetchDistance: prefetchBytes, PrefetchedLines: r.prefetchedLines,
		Runs:  []tile.Run{{InStep: floatBytes, VecStep: floatBytes * r.blockChannels, Terms: r.conv.inChannels}},
		Tiles: tile.Loop{In: tile.Dynamic, Vec: tile.Dynamic, Out: tile.Dynamic}}
	for i := range tiles {
		spec.In = append(spec.In, i*r.tileStride*floatBytes)
		spec.Out = append(spec.Out, i*r.blockChannels*floatBytes)
	}
	return tile.Compile(spec, r.cpu)
}

// tilePart returns the part of tile (tileRow, tileCol) that is inside the image.
func (r *winogradRun) tilePart(tileRow, tileCol int) winograd.Part {
	var inputPart winograd.Part
	inputPart.Row, inputPart.RowEnd = r.insideImage(tileRow, r.conv.h.PadBefore, r.conv.h.Size)
	inputPart.Col, inputPart.ColEnd = r.insideImage(tileCol, r.conv.w.PadBefore, r.conv.w.Size)
	if inputPart.Row >= inputPart.RowEnd || inputPart.Col >= inputPart.ColEnd {
		return winograd.Part{}
	}
	return inputPart
}

// inverseKey returns the key of the inverse transform for tile (tileRow, tileCol) and a block of output channels.
func (r *winogradRun) inverseKey(tileRow, tileCol, block int) inverseKey {
	conv, m := r.conv, r.form.M
	return inverseKey{rows: min(m, conv.h.Results-tileRow*m), cols: min(m, conv.w.Results-tileCol*m),
		lastLanes: r.channels(block) % winograd.Lanes(r.cpu)}
}

// channels returns the number of output channels of a block.
func (r *winogradRun) channels(block int) int {
	return min(r.blockChannels, r.conv.outChannels-block*r.blockChannels)
}

// strips divides tiles into strips. The products of a strip fit in one register tile.
func (w *winogradConv) strips(t tileSpan) spans { return t.splitBySize(w.stripTiles) }

// parts divides a section into the parts that chunks multiply. With blockSchedule and a block of weights that stays in
// the L2 cache, a part is one strip. Otherwise a part is the whole section, so that the weights are loaded once.
func (r *winogradRun) parts(section tileSpan) spans {
	w := r.winogradConv
	if r.schedule != blockSchedule || floatBytes*w.form.Points()*w.pointWeights() > cachedBlockBytes {
		return section.divide(1)
	}
	return w.strips(section)
}

// listings returns the generated code.
func (r *winogradRun) listings() (list []expr.Listing) {
	tileCounts := slices.Collect(maps.Keys(r.productCodes))
	sorted.Ints(tileCounts)
	for _, tiles := range tileCounts {
		list = append(list, expr.Listing{Name: fmt.Sprintf("products of %d tiles, point by point", tiles),
			Assembly: r.productCodes[tiles].Listing})
	}
	if r.windowProducts != nil {
		list = append(list, expr.Listing{Name: r.windowProducts.Name(), Assembly: r.windowProducts.Listing})
	}
	if r.weightTransform != nil {
		list = append(list, expr.Listing{Name: r.weightTransform.Name(), Assembly: r.weightTransform.Listing})
	}
	for _, transforms := range [][]*winograd.Transform{slices.Collect(maps.Values(r.inputTransforms)),
		slices.Collect(maps.Values(r.inverseTransforms))} {
		sorted.Func(transforms, func(a, b *winograd.Transform) int { return cmp.Compare(a.Name(), b.Name()) })
		for _, t := range transforms {
			list = append(list, expr.Listing{Name: t.Name(), Assembly: t.Listing})
		}
	}
	return list
}
