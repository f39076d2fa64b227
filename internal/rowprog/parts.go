package rowprog

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/strided"
)

// This file divides rows into columns. A row may consist of short runs of adjacent elements, such as the channels of a
// group in a channels-last image. The elements at one position of all runs then form a column. The number of columns of
// a row is the number of elements of a run. Loops run along columns, and the folds of a row's columns are combined
// afterwards.
//
// For example, group_norm of [1,64,64,64] in 32 groups has rows of 4096 runs of 2 channels, so that each row has 2
// columns. Compared with copying rows to contiguous memory, it takes a quarter of the time.

const (
	// maxColumnsPerRow is the maximum number of columns of a row. With more columns, rows are faster: two groups of 64
	// channels take 0.31 ms by columns and 0.25 ms by rows.
	maxColumnsPerRow = 32
	// minElementsPerColumn is the minimum number of elements of a column. Combining shorter columns would cost the same
	// time as folding them.
	minElementsPerColumn = 8
)

// hasColumnRuns reports whether rows consist of short runs of adjacent elements, and the runs of adjacent rows are
// adjacent in all outputs and operands. The columns of all rows then form one axis.
func (p *Plan) hasColumnRuns() bool {
	keptAxis, reducedAxis := p.kept[0], p.reduced[0]
	if p.rowLen == 0 || p.program.Scans() || keptAxis.length == 1 || len(p.reduced) < 2 {
		return false
	}
	if reducedAxis.length > maxColumnsPerRow || p.rowLen < minElementsPerColumn*reducedAxis.length {
		return false
	}
	if largest := p.largestOperand(); reducedAxis.strides[largest] != p.metas[largest].DType.Size() {
		return false
	}
	for i := range p.metas {
		if keptAxis.strides[i] != reducedAxis.length*reducedAxis.strides[i] { // the next row's run is not adjacent
			return false
		}
	}
	return true
}

// splitRows sets columnsPerRow. If loops run along columns and rows consist of runs, it replaces rows by their columns.
// It moves the axis along a run from the reduced axes to kept[0].
func (p *Plan) splitRows() {
	p.columnsPerRow = 1
	if !p.alongColumns || !p.hasColumnRuns() {
		return
	}
	keptAxis, reducedAxis := &p.kept[0], p.reduced[0]
	p.columnsPerRow = reducedAxis.length
	keptAxis.length, keptAxis.strides = keptAxis.length*reducedAxis.length, reducedAxis.strides
	p.reduced, p.rowLen = p.reduced[1:], p.rowLen/reducedAxis.length
}

// combineColumnFolds combines the fold results of the columns of each row, and stores the combined result for each of
// these columns.
func (p *Plan) combineColumnFolds(state *State, t tile, pass *compiledPass) {
	if p.columnsPerRow == 1 {
		return
	}
	for k := range pass.folds {
		rowFold := &pass.folds[k]
		size, rows := p.objects[rowFold.result].size, t.positions/p.columnsPerRow
		elem := strided.MoverOf(size)
		// The totals are not needed any more, so the transposed results may take their memory.
		results, transposed := state.tileBase[rowFold.result], state.tileBase[rowFold.blockTotals]
		// transposed[column][row] = results[row][column]
		elem.CopyBlock(transposed, results, strided.Axis{N: rows, Dst: size, Src: p.columnsPerRow * size},
			strided.Axis{N: p.columnsPerRow, Dst: rows * size, Src: size})
		// Join columns 1, 2, ... to column 0 of all rows.
		p.runLoop(state, rowFold.joinLoop, []unsafe.Pointer{transposed, transposed, unsafe.Add(transposed, rows*size)},
			[]int{0, 0, rows * size}, rows, p.columnsPerRow-1)
		// results[row][column] = transposed[0][row]
		elem.CopyBlock(results, transposed, strided.Axis{N: p.columnsPerRow, Dst: size},
			strided.Axis{N: rows, Dst: p.columnsPerRow * size, Src: size})
	}
}
