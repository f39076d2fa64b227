package conv

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/jit/winograd"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// winogradRun is the compiled code and the memory layout of a [winogradConv], which explains the algorithm F(m x m, 3 x
// 3). The fields of winogradConv are the sizes of the convolution. The images are divided into tiles: a tile of m+2 by
// m+2 pixels gives m by m results. A tile is transformed to (m+2)^2 points, and each point of all channels is
// multiplied by a matrix of weights. The products of a tile are transformed back to results. For example, F(4x4, 3x3)
// divides a result of 56x56 pixels into 14x14 tiles with 36 points each.
//
// A section is a sequence of tiles whose points are in memory together. A part is a sequence of tiles of a section that
// a chunk multiplies by a block of weights, for blockChannels output channels. A strip is a sequence of at most
// stripTiles tiles of a part, whose products fit in the registers. In the example, a section may have 42 of the 196
// tiles, and three strips of 14 tiles. A value of type spans is a division into such sequences: span(i) is the i-th of
// them.
//
// With chunkSchedule, points and products are in the worker's memory. With blockSchedule and pointSchedule, sections
// are computed one after another, and their points are in scratch memory, which workers share. With pointSchedule,
// products are shared as well. tileStride is the number of elements from a tile to the next in the memory of a point.
// pointPad is the number of unused bytes after the tiles of a point, which put points into different sets of the L1
// cache.
type winogradRun struct {
	*winogradConv
	weight      packedWeight // if transformsInRun: the weight in panels, not transformed; else unused
	isPacked    bool         // the weight was packed when the graph was planned
	weightBytes int          // bytes of packed weights in scratch memory, before the points; 0 if isPacked

	// The generated code. A winograd.Transform is the code of a transform of one tile, or of a block of weights.
	inputTransforms   map[winograd.Part]*winograd.Transform // from pixels to points, by the part inside the image
	inverseTransforms map[inverseKey]*winograd.Transform    // from the products of a tile to results
	tileCodes         [][]tileCode                          // by the boundary cases of the tile's row and column
	rowCases          []int                                 // by row of tiles: the boundary case
	colCases          []int                                 // by column of tiles: the boundary case
	productCodes      map[int]*jit.Func                     // code that multiplies a strip, by its number of tiles
	windowProducts    *winograd.Products                    // replaces productCodes if transformsInRun
	weightTransform   *winograd.Transform                   // for packPhase; nil if there is none

	// The memory of points and products, and its use.
	pointStride     int // bytes between two points of a section's tiles
	productStride   int // bytes between two points of the products
	blockStride     int // bytes between two blocks of products, with pointSchedule; else 0
	prefetchedLines int // cache lines of the next weights to prefetch per step of the product code
	epilogue        codeEpilogue
	workers         graph.PerWorker[winogradArgs]
}

const (
	// cachedBlockBytes is the maximum size, in bytes, of a block's weights that stay in the L2 cache. Chunks of one
	// strip each can then read the same weights.
	cachedBlockBytes = 768 << 10
	// prefetchBytes is the distance, in bytes, between the weights that are used and the weights that are prefetched.
	prefetchBytes = 8 << 10
)

// kernel generates the code and returns the kernel.
func (w *winogradConv) kernel() (*graph.Kernel, error) {
	r := &winogradRun{winogradConv: w, inputTransforms: map[winograd.Part]*winograd.Transform{},
		inverseTransforms: map[inverseKey]*winograd.Transform{}, productCodes: map[int]*jit.Func{}}
	r.epilogue = newCodeEpilogue(w.conv.epilogue, w.conv.outChannels, winograd.FirstEpilogueOperand)
	if err := r.findWeight(); err != nil {
		return nil, err
	}
	kernel := &graph.Kernel{Code: r.listings}
	kernel.Scratch, kernel.WorkerScratch = r.layOutMemory()
	r.prefetchedLines = r.stripPrefetch()
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
	sectionTiles, partTiles := r.sections.maxTiles(), r.maxPartTiles()
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

// maxPartTiles returns the maximum number of tiles of a part.
func (r *winogradRun) maxPartTiles() (tiles int) {
	for i := range r.sections.count {
		tiles = max(tiles, r.parts(r.sections.span(i)).maxTiles())
	}
	return tiles
}

// stripPrefetch returns the cache lines of the next weights that the product code of a strip prefetches per step. Each
// strip of a section prefetches an equal share, because loading all weights takes longer than one strip.
func (r *winogradRun) stripPrefetch() int {
	minStrips := math.MaxInt // of a section
	for i := range r.sections.count {
		parts, strips := r.parts(r.sections.span(i)), 0
		for k := range parts.count {
			strips += r.strips(parts.span(k)).count
		}
		minStrips = min(minStrips, strips)
	}
	if r.schedule == chunkSchedule || minStrips <= 1 {
		return 0
	}
	linesPerStep := tile.DefaultUnroll * r.blockChannels * floatBytes / machine.LineBytes // lines that a step reads
	return kit.DivUp(linesPerStep, minStrips)
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

// boundaryCase describes a row of tiles, or a column of tiles. All tiles with the same boundary cases of their row and
// column use the same code.
type boundaryCase struct {
	// Rows (or columns) [first, end) of each tile are inside the image; they are numbered 0 to m+1. Both are 0 if the
	// whole tile is in the padding.
	first, end int
	results    int // number of rows (or columns) of each tile's results inside the result: at most m
}

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
		start := i*r.form.M - axis.PadBefore // index in the image of the tile's first row or column
		first, end := max(0, -start), min(r.form.N(), axis.Size-start)
		if first >= end { // the whole tile is in the padding
			first, end = 0, 0
		}
		boundary := boundaryCase{first: first, end: end, results: min(r.form.M, axis.Results-i*r.form.M)}
		index := slices.Index(list, boundary)
		if index < 0 {
			index = len(list)
			list = append(list, boundary)
		}
		caseOf = append(caseOf, index)
	}
	return caseOf, list
}

// compileTile generates the transforms of the tiles with boundary cases row and col.
func (r *winogradRun) compileTile(row, col boundaryCase) (code tileCode, err error) {
	code.rows, code.cols = row.results, col.results
	if row.end > 0 && col.end > 0 { // otherwise the whole tile is in the padding
		code.part = winograd.Part{Row: row.first, RowEnd: row.end, Col: col.first, ColEnd: col.end}
	}
	code.input, err = generateOnce(r.inputTransforms, code.part, func() (*winograd.Transform, error) {
		lastLanes := r.conv.inChannels % winograd.Lanes(r.cpu) // input channels in the last vector; 0 if it is full
		return r.form.CompileInput(r.cpu, code.part, lastLanes)
	})
	if err != nil {
		return code, err
	}
	const firstBlock = 0
	if code.inverse, err = r.compileInverse(row.results, col.results, firstBlock); err != nil {
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
	spec := &tile.Spec{ElemBytes: floatBytes, Rows: tiles, Vectors: r.blockChannels / winograd.Lanes(r.cpu),
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

// strips divides tiles into strips.
func (r *winogradRun) strips(tiles tileSpan) spans { return tiles.splitBySize(r.stripTiles) }

// parts divides a section into parts. With blockSchedule and a block of weights that stays in the L2 cache, a part is
// one strip. Otherwise a part is the whole section, so that the weights are loaded once.
func (r *winogradRun) parts(section tileSpan) spans {
	if r.schedule != blockSchedule || floatBytes*r.form.Points()*r.pointWeights() > cachedBlockBytes {
		return section.divide(1)
	}
	return r.strips(section)
}

// listings returns the generated code. It sorts the code from maps, so that the order is always the same.
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
