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
	"github.com/graphrun/graphrun/kernels/internal/geometry"
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
	tileCodes         [][]tileCode                          // by the boundary cases of the tile's row and column
	rowCases          []int                                 // by row of tiles: the boundary case
	colCases          []int                                 // by column of tiles: the boundary case
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

// boundaryCase says which of the N() rows of a tile of the image are inside the image, from first to end, and how many
// of the M rows of the tile's results are inside the result; or which columns are. All rows of tiles with the same
// boundary case use the same code, and so do columns.
type boundaryCase struct{ first, end, results int }

// tileCode is the code of the tiles with given boundary cases of their row and column.
type tileCode struct {
	part                 winograd.Part // the part of the tile that is inside the image
	rows, cols           int           // the numbers of rows and columns of the results that are inside the result
	input                *winograd.Transform
	inverse, lastInverse *winograd.Transform // for the blocks of output channels; lastInverse is for the last block
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

// compile generates the transforms of tiles and of the weight, and the product code of all strip sizes.
func (r *winogradRun) compile() (err error) {
	if err := r.compileTiles(); err != nil {
		return err
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
		if _, err := generateOnce(r.productCodes, tiles, compile); err != nil {
			return err
		}
	}
	return nil
}

// compileTiles generates the transforms of tiles, for each combination of boundary cases.
func (r *winogradRun) compileTiles() (err error) {
	var rows, cols []boundaryCase
	r.rowCases, rows = r.boundaryCases(r.tilesDown, &r.conv.h)
	r.colCases, cols = r.boundaryCases(r.tilesAcross, &r.conv.w)
	r.tileCodes = make([][]tileCode, len(rows))
	for i, row := range rows {
		r.tileCodes[i] = make([]tileCode, len(cols))
		for k, col := range cols {
			if r.tileCodes[i][k], err = r.compileTile(row, col); err != nil {
				return err
			}
		}
	}
	return nil
}

// boundaryCases lists the boundary cases of n rows or columns of tiles. caseOf has the index of each row's or column's
// case in the list.
func (r *winogradRun) boundaryCases(n int, axis *geometry.Axis) (caseOf []int, list []boundaryCase) {
	for i := range n {
		var c boundaryCase
		start := i*r.form.M - axis.PadBefore // index in the image of the tile's first row or column
		if first, end := max(0, -start), min(r.form.N(), axis.Size-start); first < end {
			c.first, c.end = first, end
		}
		c.results = min(r.form.M, axis.Results-i*r.form.M)
		index := slices.Index(list, c)
		if index < 0 {
			index = len(list)
			list = append(list, c)
		}
		caseOf = append(caseOf, index)
	}
	return caseOf, list
}

// compileTile generates the transforms of the tiles with boundary cases row and col.
func (r *winogradRun) compileTile(row, col boundaryCase) (code tileCode, err error) {
	code.rows, code.cols = row.results, col.results
	if row.end > 0 && col.end > 0 {
		code.part = winograd.Part{Row: row.first, RowEnd: row.end, Col: col.first, ColEnd: col.end}
	}
	code.input, err = generateOnce(r.inputTransforms, code.part, func() (*winograd.Transform, error) {
		return r.form.CompileInput(r.cpu, code.part, r.conv.inChannels%winograd.Lanes(r.cpu))
	})
	if err != nil {
		return code, err
	}
	if code.inverse, err = r.compileInverse(row.results, col.results, 0); err != nil {
		return code, err
	}
	code.lastInverse, err = r.compileInverse(row.results, col.results, r.blockCount-1)
	return code, err
}

// compileInverse returns the inverse transform for a block of output channels and for tiles with the given numbers of
// rows and columns inside the result.
func (r *winogradRun) compileInverse(rows, cols, block int) (*winograd.Transform, error) {
	key := inverseKey{rows: rows, cols: cols, lastLanes: r.channels(block) % winograd.Lanes(r.cpu)}
	return generateOnce(r.inverseTransforms, key, func() (*winograd.Transform, error) {
		return r.form.CompileOutput(r.cpu, rows, cols, r.conv.hasBias, r.epilogue.Steps, key.lastLanes)
	})
}

// generateOnce returns the code with the given key. If the map has none, it generates the code and stores it.
func generateOnce[K comparable, T any](codes map[K]*T, key K, generate func() (*T, error)) (code *T, err error) {
	if codes[key] == nil {
		codes[key], err = generate()
	}
	return codes[key], err
}

// compileProduct generates the code that multiplies a strip of tiles by a block of weights, point by point. The rows of
// its register tile are the strip's tiles.
func (r *winogradRun) compileProduct(tiles int) (*jit.Func, error) {
	spec := &tile.Spec{ElemBytes: 4, Rows: tiles, Vectors: r.blockChannels / winograd.Lanes(r.cpu),
		PrefetchDistance: prefetchBytes, PrefetchedLines: r.prefetchedLines,
		Runs:  []tile.Run{{InStep: floatBytes, VecStep: floatBytes * r.blockChannels, Terms: r.conv.inChannels}},
		Tiles: tile.Loop{InStep: tile.Dynamic, VecStep: tile.Dynamic, OutStep: tile.Dynamic}}
	for i := range tiles {
		spec.In = append(spec.In, i*r.tileStride*floatBytes)
		spec.Out = append(spec.Out, i*r.blockChannels*floatBytes)
	}
	return tile.Compile(spec, r.cpu)
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
