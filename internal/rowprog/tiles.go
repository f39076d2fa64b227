package rowprog

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/machine"
)

// This file divides the rows of a plan into tiles, groups the tiles into chunks, and cuts long rows into parts: see the
// package comment. A row has all positions along the reduced axes, and there is a row for each position along the kept
// axes. kept[0] is the kept axis with the smallest strides. A tile is a range of rows along kept[0], and a chunk is the
// unit of parallel work. A part is a range of the positions of a row. A pass processes all elements of a tile. Its
// inner loop runs along rows or, if alongColumns is set, from row to row along kept[0]; rows are then called columns.
// An operand is staged if it is first copied to a worker's memory.

// Tile sizes. They do not depend on the machine, because cutting a row affects the bits of its result. If there are
// fewer than minChunks chunks, rows are divided into parts: at most about maxParts for all rows together.
const (
	minChunks = 16
	maxParts  = 64
	// cacheBytes is the approximate size in bytes of a tile that stays in the cache between passes.
	cacheBytes        = 1 << 16
	maxColumns        = 2048 // maximum number of columns of a tile, and of rows if there is one pass
	minColumnsOnePass = 512  // minimum number of columns of a tile with one pass; fewer columns slow down prefetching
	minColumns        = 256  // minimum number of columns of a tile with several passes, even if it exceeds the cache
	maxRows           = 64   // maximum number of rows of a tile with several passes
)

// cutTiles divides kept[0] into tiles, groups tiles into chunks, and cuts rows if there are too few chunks.
func (p *Plan) cutTiles() {
	grain := machine.ReduceGrain / p.elementCost // minimum number of elements of a chunk
	length := p.kept[0].length
	// tileLen is a multiple of columnsPerRow, so that all columns of a row are in one tile. columnsPerRow is the number
	// of columns into which splitRows divided each row, or 1.
	p.tileLen = max(p.columnsPerRow, min(p.maxTileLen(grain), length)/p.columnsPerRow*p.columnsPerRow)
	p.tilesAlongFirstKept = (length + p.tileLen - 1) / p.tileLen
	// There are numRows/length positions along the other kept axes.
	p.tileCount = p.tilesAlongFirstKept * p.numRows() / max(1, length)
	p.tilesPerChunk = p.chunkTiles(grain)
	chunks := (p.tileCount + p.tilesPerChunk - 1) / p.tilesPerChunk
	foldsInOnePass := p.isSinglePass() && len(p.program.Passes[0].Folds) > 0
	if p.tileCount > 0 && chunks < minChunks && foldsInOnePass {
		p.cutRows(grain)
	}
}

// chunkTiles returns the maximum number of tiles of a chunk. grain is the minimum number of elements of a chunk.
func (p *Plan) chunkTiles(grain int) int {
	tileElements := p.tileLen * max(p.rowLen, 1)
	count := max(1, grain/tileElements)
	if p.severalRowsPerCall && !p.hasStaged() && len(p.program.Passes) > 1 {
		// The passes may be fused: one loop then runs all of them. Fused passes need many tiles per chunk: at least 24
		// and a 64th of all tiles, but at most a quarter of all tiles and 2^19 elements.
		count = max(count, min(max(24, p.tileCount/64), p.tileCount/4, 1<<19/tileElements))
	}
	return count
}

// maxTileLen returns the maximum number of positions along kept[0] in a tile. grain is the minimum number of elements
// of a chunk.
func (p *Plan) maxTileLen(grain int) int {
	rowBytes := 0 // the bytes of all operands, outputs and stored rows that vary within a row
	for i, meta := range p.metas {
		if p.variesInRow(i) {
			rowBytes += meta.DType.Size() * p.rowLen
		}
	}
	for _, row := range p.program.Rows {
		rowBytes += row.DType.Size() * p.rowLen
	}
	switch rowsInCache := max(1, cacheBytes/max(1, rowBytes)); {
	case p.alongColumns && p.isSinglePass(): // a single pass reuses nothing from the cache
		return min(maxColumns, max(minColumnsOnePass, grain/max(1, p.rowLen)))
	case p.alongColumns:
		return min(maxColumns, max(minColumns, rowsInCache&^31)) // a multiple of 32 columns
	case p.severalRowsPerCall && !p.hasStaged() && p.isSinglePass(): // along rows, here and below
		return min(maxColumns, grain/max(1, p.rowLen))
	case p.severalRowsPerCall && !p.hasStaged():
		return min(maxRows, rowsInCache)
	}
	return 1 // one row, because rows are staged or have several reduced axes
}

// cutRows cuts the longest reduced axis into parts of about grain elements of a tile, unless the tile is too small.
func (p *Plan) cutRows(grain int) {
	tileElements := p.tileLen * max(p.rowLen, 1)
	parts, minCutElements := (tileElements+grain-1)/grain, 2*grain // a tile with fewer elements is not cut
	if p.alongColumns {
		// Along columns, the number of parts is even. Each of two workers then reduces the half of an image that it computed
		// in the preceding convolution, and that is still in its cache. The minimum size is smaller than along rows.
		parts, minCutElements = machine.DivideUnits(p.rowLen, p.tileLen, grain).Chunks, grain/2
	}
	if tileElements < minCutElements {
		return
	}
	p.cutAxis = firstReduced // axes has kept[0], and then the reduced axes
	for axisIndex := p.cutAxis + 1; axisIndex < len(p.axes); axisIndex++ {
		if p.axes[axisIndex].length > p.axes[p.cutAxis].length {
			p.cutAxis = axisIndex
		}
	}
	length := p.axes[p.cutAxis].length
	p.partsPerRow = min(parts, (maxParts+p.tileCount-1)/p.tileCount, length)
	p.partLen = (length + p.partsPerRow - 1) / p.partsPerRow
	// Along rows, a part of the inner axis has a multiple of expr.FoldLanes elements. Rounding may leave fewer parts.
	if p.cutAxis == p.innerAxis() && p.partLen > expr.FoldLanes {
		p.partLen = (p.partLen + expr.FoldLanes - 1) / expr.FoldLanes * expr.FoldLanes
	}
	if p.partsPerRow = (length + p.partLen - 1) / p.partLen; p.partsPerRow < 2 {
		p.cutAxis, p.partsPerRow = 0, 1 // not cut
	}
}

// maxLength returns the maximum number of positions along an axis in a tile.
func (p *Plan) maxLength(axisIndex int) int {
	switch axisIndex {
	case firstKept:
		return p.tileLen
	case p.cutAxis:
		return p.partLen
	}
	return p.axes[axisIndex].length
}
