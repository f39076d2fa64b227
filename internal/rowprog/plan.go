// Package rowprog runs row programs ([expr.RowProgram]) over tensors. A row program computes expressions that fold
// (reduce) rows, in one or several passes over each row. A softmax, for example, folds the maximum, then the sum, and
// then divides. For later passes, a pass can store rows of elements (RowProgram.Rows) and numbers, one for each row
// (RowProgram.Numbers). Each dimension of the operands is kept or reduced. A row consists of all positions along the
// reduced dimensions, and there is one row for each position along the kept dimensions. For example, a sum of [8, 100]
// over the last dimension has 8 rows of 100 elements.
//
// Loops run along rows or along columns. Along rows, the inner loop follows a reduced dimension and folds into the
// lanes of an accumulator. Along columns, the inner loop follows a kept dimension. It reads and writes the accumulators
// of adjacent rows, which are contiguous. A row is then also called a column: for a sum of [100, 8] over the first
// dimension, the inner loop runs over the 8 columns, and each column is a row of 100 elements. Computations once per
// row are loops over several rows. Operands that are not contiguous along the inner loop are staged: they are first
// copied to memory of the worker.
//
// The work is divided into these units:
//
//	tile    a range of rows along the first kept axis. All passes run over a tile before the next tile begins, so
//	        that the tile stays in the cache between passes.
//	chunk   the unit of parallel work: a range of tiles, or, if there are few tiles, a part of each row of a tile
//	part    a range of the positions of a row, if rows are cut. A second phase combines the parts in order.
//
// Tiles and chunks depend only on shapes, strides and dtypes, so results have the same bits for any number of workers.
//
// Where possible, passes are fused: one loop runs all passes. While its first pass is at a tile, its second pass is at
// the tile before it. A pipeline is a fused loop whose passes proceed by groups of one or two rows instead of tiles.
package rowprog

import (
	"errors"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// Plan is a row program that is compiled for fixed layouts. It is immutable and safe for concurrent use. [New] sorts
// and merges the axes, chooses the direction of loops, divides the rows into tiles, chunks and parts, and compiles the
// passes. For example, a softmax along the last dimension of 8x12x100x100 has one kept axis of 9600 rows, after
// merging, and one reduced axis of 100 elements. Loops run along rows, a tile has at most 64 rows, which stay in the
// cache between passes, and a chunk has several tiles.
type Plan struct {
	program       *expr.RowProgram
	outCount      int           // number of outputs
	metas         []tensor.Meta // outputs, operands, and the operand of positions if the expression uses positions
	positions     []int32       // the elements of the operand of positions: 0, 1, 2, ...
	kept, reduced []axis        // the fastest axis first
	axes          []axis        // the axes of loops: kept[0], then the reduced axes
	rowLen        int           // number of elements of a row

	// The loops.

	alongColumns       bool // inner loops run along kept[0]
	columnsPerRow      int  // columns into which splitRows divides a row (of short contiguous runs); 1: not divided
	severalRowsPerCall bool // one call of a loop processes several rows: loops run along rows with one reduced axis
	elementCost        int  // relative time per element: 4 if the expression has an elementary function, otherwise 1

	// The division into tiles, chunks and parts.

	tileLen              int // maximum number of positions along kept[0] in a tile
	tilesAlongFirstKept  int // number of tiles along kept[0], for one position along the other kept axes
	tileCount            int // number of tiles
	tilesPerChunk        int // maximum number of tiles in a chunk
	cutAxis              int // index in axes of the axis that is cut; 0 if rows are not cut
	partLen, partsPerRow int // maximum length of a part along cutAxis; number of parts of a row (1 if rows are not cut)

	// The compiled passes and their memory.

	objects         []object // the memory that loops access: outputs, operands, and buffers of the worker
	stagedCopies    []stagedCopy
	passes          []compiledPass
	partials        []partial  // if rows are cut: the folds of parts; there is one pass, and index k is its fold k
	fused           *fusedLoop // nil if passes run one after the other
	passesAtOnce    int        // number of passes in the fused loop; 1 without one
	rowsPerGroup    int        // number of rows that a pass of a pipeline processes together (a group); 0: no pipeline
	needsStoreFence bool       // some loops use unfenced non-temporal stores
	workerBytes     int        // size of the memory of each worker
	scratchBytes    int        // size of the memory that all chunks share
}

// New plans an expression with folds for outputs and operands of equal rank. mask marks the reduced dimensions. An
// operand that is broadcast along a dimension has size 1 or stride 0 there. An output with one element for each row has
// size 1 or stride 0 along the reduced dimensions. Outputs have the full size along kept dimensions.
func New(code *expr.Code, outs, ins []tensor.Meta, mask []bool, direction Direction) (*Plan, error) {
	p := &Plan{outCount: len(outs), metas: append(slices.Clone(outs), ins...), partsPerRow: 1}
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
	p.axes = append([]axis{p.kept[0]}, p.reduced...)
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
			// If rows have no elements, an operand is empty. Its strides of 0 then do not show that it is uniform.
			uniform[i-p.outCount] = !varies && (p.metas[i].Numel() > 0 || p.numRows() == 0)
		}
	}
	return uniform, perElement
}

// numRows returns the number of rows.
func (p *Plan) numRows() int { return elementsOf(p.kept) }

// setElementCost sets elementCost.
func (p *Plan) setElementCost() {
	p.elementCost = 1
	isExpensive := func(inst expr.Inst) bool { return !inst.Op.Primitive() && inst.Op != expr.Reduce } // such as exp
	if slices.ContainsFunc(p.program.Code.Insts, isExpensive) {
		p.elementCost = 4
	}
}

// isUsedInPlace reports whether loops use output or operand i in place. An output must be contiguous along the inner
// axis, and an operand contiguous or constant, unless the axis has length 1. Other outputs and operands are staged.
func (p *Plan) isUsedInPlace(i int) bool {
	inner := &p.axes[p.innerAxis()]
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
// written in place, and exceeds the caches. Each element of such an output must be written only once. The rows that
// passes store for later passes are then not in the output but in the worker's memory, unless they are scanned.
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
