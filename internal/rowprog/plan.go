// Package rowprog runs row programs ([expr.RowProgram]) over tensors. A row program computes expressions that fold
// rows, in one or several passes over each row. A softmax, for example, folds the maximum, then the sum, and then
// divides. For later passes, a pass can store rows of elements (RowProgram.Rows) and numbers, one for each row
// (RowProgram.Numbers). Each dimension of the operands is kept or reduced. A row consists of all positions along the
// reduced dimensions, and there is one row for each position along the kept dimensions. For example, a sum of [8, 100]
// over the last dimension has 8 rows of 100 elements.
//
// Loops run along rows or along columns. Along rows, the inner loop follows a reduced dimension and folds into the
// lanes of an accumulator. Along columns, the inner loop follows a kept dimension, and the accumulators of adjacent
// rows are contiguous operands of the loop. A row is then also called a column: for a sum of [100, 8] over the first
// dimension, the inner loop runs over the 8 columns, and each column is a row of 100 elements. Computations once per
// row are loops over the rows of a tile. Operands that are not contiguous along the inner loop are staged: they are
// first copied to memory of the worker.
//
// A tile is a range of rows along the first kept axis. All passes run over a tile before the next tile begins, so that
// the tile stays in the cache between passes. Where possible, passes are fused: one loop runs all passes, each over a
// different tile, or over a different group of rows in a pipeline. A chunk is the unit of parallel work. It is a range
// of tiles. If there are few tiles, it is a part of each row of a tile instead, and a second phase combines the parts
// in order. Tiles and chunks depend only on shapes, strides and dtypes, so results have the same bits for any number of
// workers.
package rowprog

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// Plan is a row program that is compiled for fixed layouts. It is immutable and safe for concurrent use. [New] sorts
// and merges the axes, chooses the direction of loops, divides the rows into tiles, chunks and parts, and compiles the
// passes. For example, a softmax along the last dimension of 8x12x100x100 has one kept axis of 9600 rows, after
// merging, and one reduced axis of 100 elements. Loops run along rows, a tile has at most 64 rows (as many as stay in
// the cache between passes), and a chunk has several tiles.
type Plan struct {
	program       *expr.RowProgram
	outCount      int           // number of outputs
	metas         []tensor.Meta // outputs, operands, and the operand of positions if the expression uses positions
	positions     []int32       // the elements of the operand of positions: 0, 1, 2, ...
	kept, reduced []axis
	rowLen        int // number of elements of a row

	// The loops.

	alongColumns       bool // inner loops run along kept[0]
	columnsPerRow      int  // number of columns into which splitRows divides a row; 1 if rows are not divided
	severalRowsPerCall bool // one call of a loop processes several rows: loops run along rows with one reduced axis
	elementCost        int  // relative time per element: 4 if the expression has an elementary function, otherwise 1

	// The division into tiles, chunks and parts.

	tileLen              int // maximum number of positions along kept[0] in a tile
	tilesAlongFirstKept  int // number of tiles along kept[0], for one position along the other kept axes
	tileCount            int // number of tiles
	tilesPerChunk        int // maximum number of tiles in a chunk
	cutAxis              int // the reduced axis that is cut, or -1
	partLen, partsPerRow int // maximum length of a part along cutAxis; number of parts of a row (1 if rows are not cut)

	// The compiled passes and their memory.

	objects         []object // the memory that loops access: outputs, operands, and buffers of the worker
	stagedCopies    []stagedCopy
	passes          []compiledPass
	partials        []partial  // by fold of the only pass, if rows are cut
	fused           *fusedLoop // nil if passes run one after the other
	passesAtOnce    int        // number of passes in the fused loop; 1 without one
	rowsPerGroup    int        // number of rows that a pass of a pipeline processes together (a group); 0: no pipeline
	needsStoreFence bool       // some loops use unfenced non-temporal stores
	workerBytes     int        // size of the memory of each worker
	scratchBytes    int        // size of the memory that all chunks share
}

// firstKept stands for the axis kept[0] where other numbers are indices of reduced axes.
const firstKept = -1

// Tile sizes. They do not depend on the machine, because cutting a row affects the bits of its result. If there are
// fewer than minChunks chunks, rows are divided into parts: at most about maxParts for all rows together.
const (
	minChunks = 16
	maxParts  = 64
	// foldBlock is the number of elements that are folded in a column before the result is added to a total
	// (fold.blockTotals), which bounds the rounding error.
	foldBlock = 256
	// cacheBytes is the approximate size in bytes of a tile that stays in the cache between passes.
	cacheBytes        = 1 << 16
	maxColumns        = 2048 // maximum number of columns of a tile, and of rows if there is one pass
	minColumnsOnePass = 512  // minimum number of columns of a tile with one pass; fewer columns slow down prefetching
	minColumns        = 256  // minimum number of columns of a tile with several passes, even if it exceeds the cache
	maxRows           = 64   // maximum number of rows of a tile with several passes
	maxPointers       = 8    // maximum number of pointers of an unrolled loop over columns; all stay in registers
	// minUnrollStride is the minimum distance in bytes between elements of a column for unrolling. The hardware
	// prefetcher distinguishes several streams only if they are far apart.
	minUnrollStride = 4096
)

// New plans an expression with folds for outputs and operands of equal rank. mask marks the reduced dimensions. An
// operand that is broadcast along a dimension has size 1 or stride 0 there. An output with one element for each row has
// size 1 or stride 0 along the reduced dimensions. Outputs have the full size along kept dimensions.
func New(code *expr.Code, outs, ins []tensor.Meta, mask []bool, direction Direction) (*Plan, error) {
	p := &Plan{outCount: len(outs), metas: append(slices.Clone(outs), ins...), cutAxis: -1, partsPerRow: 1}
	if err := checkOperands(code, p.outCount, p.metas, mask); err != nil {
		return nil, err
	}
	code, err := p.loadPositions(code, mask)
	if err != nil {
		return nil, err
	}
	if err := p.setAxes(mask); err != nil {
		return nil, err
	}
	if p.rowLen == 1 {
		code = code.Unscanned() // a scan of one element is the element
	}
	if p.program, err = code.RowProgram(p.variation()); err != nil {
		return nil, err
	}
	if p.program.Scans() && len(p.reduced) > 1 {
		return nil, errors.New("rowprog: a scan along several dimensions is not supported")
	}
	p.setElementCost()
	p.chooseDirection(direction)
	p.splitRows()
	p.cutTiles()
	if err := p.build(); err != nil {
		return nil, err
	}
	return p, nil
}

// variation marks the operands that do not vary within a row (uniform), and the outputs that do (perElement).
func (p *Plan) variation() (uniform, perElement []bool) {
	uniform, perElement = make([]bool, len(p.metas)-p.outCount), make([]bool, p.outCount)
	for i := range p.metas {
		varies := slices.ContainsFunc(p.reduced, func(a axis) bool { return a.strides[i] != 0 })
		if i < p.outCount {
			perElement[i] = varies
		} else {
			// If rows have no elements, an operand that is not uniform has none either, and its strides may be 0.
			uniform[i-p.outCount] = !varies && (p.metas[i].Numel() > 0 || p.numRows() == 0)
		}
	}
	return uniform, perElement
}

// numRows returns the number of rows.
func (p *Plan) numRows() int { return elementsOf(p.kept) }

// setAxes sets the kept and reduced axes, ordered by ascending stride of the largest operand, and merges adjacent axes
// where possible.
func (p *Plan) setAxes(mask []bool) error {
	shape, err := fullShape(p.metas, len(mask))
	if err != nil {
		return err
	}
	p.kept, p.reduced = axesOf(shape, p.metas, mask)
	p.rowLen = elementsOf(p.reduced)
	largest := p.largestOperand()
	distance := func(a axis) int {
		if stride := a.strides[largest]; stride != 0 {
			return max(stride, -stride)
		}
		return math.MaxInt // axes along which the largest operand is broadcast are last
	}
	byDistance := func(a, b axis) int { return cmp.Compare(distance(a), distance(b)) }
	sorted.Func(p.kept, byDistance)
	sorted.Func(p.reduced, byDistance)
	p.kept, p.reduced = mergeAxes(p.kept, len(p.metas)), mergeAxes(p.reduced, len(p.metas))
	return nil
}

// largestOperand returns the index in metas of the operand with the most elements. Its strides determine the order of
// axes. Without operands, largestOperand returns 0, the first output.
func (p *Plan) largestOperand() int {
	largest, maxElements := 0, -1
	for i := range p.metas {
		if count := p.elementCount(i); i >= p.outCount && count > maxElements {
			largest, maxElements = i, count
		}
	}
	return largest
}

// elementCount returns the number of distinct elements of an output or operand, given by its index in metas.
func (p *Plan) elementCount(i int) int {
	count := 1
	for _, list := range [][]axis{p.kept, p.reduced} {
		for _, dim := range list {
			if dim.strides[i] != 0 {
				count *= dim.length
			}
		}
	}
	return count
}

// setElementCost sets elementCost.
func (p *Plan) setElementCost() {
	p.elementCost = 1
	for _, inst := range p.program.Code.Insts {
		isExpensive := !inst.Op.Primitive() && inst.Op != expr.Reduce // such as exp
		if isExpensive {
			p.elementCost = 4
		}
	}
}

// cutTiles divides kept[0] into tiles, groups tiles into chunks, and cuts rows if there are too few chunks.
func (p *Plan) cutTiles() {
	grain := machine.ReduceGrain / p.elementCost // minimum number of elements of a chunk
	length := p.kept[0].length
	// A multiple of columnsPerRow, so that the columns of a row stay in one tile.
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
		// Fused passes need many tiles per chunk: at least 24 and a 64th of all tiles, but at most a quarter of all tiles and
		// 2^19 elements.
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
	case p.alongColumns && p.isSinglePass():
		return min(maxColumns, max(minColumnsOnePass, grain/max(1, p.rowLen)))
	case p.alongColumns:
		return min(maxColumns, max(minColumns, rowsInCache&^31)) // a multiple of 32 columns
	case p.severalRowsPerCall && !p.hasStaged() && p.isSinglePass():
		return min(maxColumns, grain/max(1, p.rowLen)) // a single pass reuses nothing from the cache
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
	for axisIndex, candidate := range p.reduced {
		if p.cutAxis < 0 || candidate.length > p.reduced[p.cutAxis].length {
			p.cutAxis = axisIndex
		}
	}
	length := p.reduced[p.cutAxis].length
	p.partsPerRow = min(parts, (maxParts+p.tileCount-1)/p.tileCount, length)
	p.partLen = (length + p.partsPerRow - 1) / p.partsPerRow
	// Along rows, a part of the inner axis has a multiple of expr.FoldLanes elements. Rounding may leave fewer parts.
	if !p.alongColumns && p.cutAxis == 0 && p.partLen > expr.FoldLanes {
		p.partLen = (p.partLen + expr.FoldLanes - 1) / expr.FoldLanes * expr.FoldLanes
	}
	if p.partsPerRow = (length + p.partLen - 1) / p.partLen; p.partsPerRow < 2 {
		p.cutAxis, p.partsPerRow = -1, 1
	}
}

// isUsedInPlace reports whether loops use output or operand i in place. An output must be contiguous along the inner
// axis, and an operand contiguous or constant, unless the axis has length 1. Other outputs and operands are staged.
func (p *Plan) isUsedInPlace(i int) bool {
	inner := p.reduced[0]
	if p.alongColumns {
		inner = p.kept[0]
	}
	return inner.length == 1 || inner.strides[i] == p.metas[i].DType.Size() || inner.strides[i] == 0 && i >= p.outCount
}

// variesInRow reports whether output or operand i varies within a row.
func (p *Plan) variesInRow(i int) bool {
	if i < p.outCount {
		return p.program.PerElement[i]
	}
	return !p.program.Uniform[i-p.outCount]
}

// hasNonTemporalStores reports whether an output is written with non-temporal stores: it varies within a row, is
// written in place, and exceeds the caches. Each element of such an output must be written only once. Stored rows are
// then in the worker's memory instead of the output, unless they are scanned.
func (p *Plan) hasNonTemporalStores(output int) bool {
	meta := p.metas[output]
	return p.program.PerElement[output] && p.isUsedInPlace(output) &&
		meta.Numel()*meta.DType.Size() >= machine.NonTemporalMinBytes
}

// hasStaged reports whether some output or operand that varies within a row is staged.
func (p *Plan) hasStaged() bool {
	for i := range p.metas {
		if p.variesInRow(i) && !p.isUsedInPlace(i) {
			return true
		}
	}
	return false
}

// maxLength returns the maximum number of positions along an axis in a tile.
func (p *Plan) maxLength(axisIndex int) int {
	switch axisIndex {
	case firstKept:
		return p.tileLen
	case p.cutAxis:
		return p.partLen
	}
	return p.reduced[axisIndex].length
}

// innerAxis returns the axis of a loop's inner dimension: firstKept, or the index of a reduced axis.
func (p *Plan) innerAxis() int {
	if p.alongColumns {
		return firstKept
	}
	return 0
}

// outerAxis returns the axis of a loop's outer dimension: firstKept, or the index of a reduced axis. If the index is
// len(p.reduced), the dimension has size 1.
func (p *Plan) outerAxis() int {
	switch {
	case p.alongColumns:
		return 0
	case p.severalRowsPerCall:
		return firstKept
	}
	return 1
}

// firstOtherAxis returns the index of the first reduced axis that is neither the inner nor the outer dimension of
// loops.
func (p *Plan) firstOtherAxis() int {
	if p.alongColumns || p.severalRowsPerCall {
		return 1
	}
	return 2
}

// Phases returns the number of phases. A phase begins when all chunks of the previous phase have ended.
func (p *Plan) Phases() int {
	if p.tileCount == 0 {
		return 0
	}
	return min(p.partsPerRow, 2)
}

// Chunks returns the number of chunks of a phase. Chunks may run in any order and concurrently. Their number depends
// only on shapes, strides and dtypes.
func (p *Plan) Chunks(phase int) int {
	switch {
	case phase > 0:
		return p.tileCount
	case p.partsPerRow > 1:
		return p.tileCount * p.partsPerRow
	}
	return (p.tileCount + p.tilesPerChunk - 1) / p.tilesPerChunk
}

// Scratch returns the size in bytes of the memory that all chunks share. The memory must be 64-byte aligned and need
// not be initialized.
func (p *Plan) Scratch() int { return p.scratchBytes }

// WorkerScratch returns the size in bytes of the memory of each worker. The conditions of [Plan.Scratch] apply.
func (p *Plan) WorkerScratch() int { return p.workerBytes }

// Program returns the row program that the plan runs.
func (p *Plan) Program() *expr.RowProgram { return p.program }

// ElementNS estimates the time in nanoseconds to process one element in all passes, with operands in the L1 cache. It
// returns 0 if a loop is not machine code.
func (p *Plan) ElementNS() (ns float64) {
	if !p.Compiled() {
		return 0
	}
	for i := range p.passes {
		if loop := p.passes[i].loop; loop != nil {
			ns += loop.ElementNS()
		}
	}
	return ns
}

// Compiled reports whether all loops are machine code.
func (p *Plan) Compiled() bool {
	for i := range p.passes {
		pass := &p.passes[i]
		if pass.loop != nil && !pass.loop.Compiled() || pass.perRow != nil && !pass.perRow.Compiled() {
			return false
		}
	}
	return true
}

// ByColumns reports whether inner loops run along a kept dimension.
func (p *Plan) ByColumns() bool { return p.alongColumns }

// InPlace returns pairs of an output and an operand that may have the same memory. Their elements have the same
// addresses, and no pass reads the operand after the first pass that writes the output. (Within a pass, a loop reads an
// element before it writes it.)
func (p *Plan) InPlace() [][2]int {
	var pairs [][2]int
	for output := range p.outCount {
		if !p.program.PerElement[output] {
			continue
		}
		written := p.firstWrite(output)
		for i, meta := range p.callerMetas()[p.outCount:] {
			if meta.DType.Size() == p.metas[output].DType.Size() && meta.SameAddresses(p.metas[output]) &&
				p.lastRead(output) <= written {
				pairs = append(pairs, [2]int{output, i})
			}
		}
	}
	return pairs
}

// firstWrite returns the index of the first pass that writes to an output, or to a stored row in the output's memory.
// It returns 0 if no pass does.
func (p *Plan) firstWrite(output int) int {
	for k := range p.program.Passes {
		for _, place := range p.program.Passes[k].Out {
			isOutput := place.Kind == expr.AtOutput && place.N == output
			if isOutput || place.Kind == expr.AtRow && p.program.Rows[place.N].Out == output {
				return k
			}
		}
	}
	return 0
}

// lastRead returns the index of the last pass that reads an operand with the layout of the output. It considers all
// operands with this layout, because any of them may share the output's memory. A read after the loop of pass k
// (PerRowIn) counts as a read by pass k+1, because the loop has already written its outputs.
func (p *Plan) lastRead(output int) int {
	last := 0
	for k, pass := range p.program.Passes {
		for passesLater, list := range [2][]expr.Place{pass.In, pass.PerRowIn} { // the index is 1 for PerRowIn
			for _, place := range list {
				if place.Kind == expr.AtOperand && p.metas[p.outCount+place.N].SameAddresses(p.metas[output]) {
					last = max(last, k+passesLater)
				}
			}
		}
	}
	return last
}
