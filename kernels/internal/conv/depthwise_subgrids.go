package conv

import (
	"slices"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// subgridLayout is the layout in which [planeTiles] copies the padded input of a tile to memory: divided into subgrids
// by the strides of the window. With strides of 2, the subgrids are the four combinations of even or odd rows with even
// or odd columns. The elements that a tap, an element of the window, multiplies for the results of a row are then
// adjacent.
//
// For example, with 3x3 windows and strides of 1, there is one subgrid. For a tile of 4x6 results, it has 6 rows and 8
// columns. Result (r, c) is at index r*rowStride + c of the output. The element that tap (kh, kw) multiplies for this
// result is at index (r+kh)*rowStride + c+kw of the subgrid. So the elements of a tap have the layout of the results.
// They begin at the tap's offset in tapOffsets.
type subgridLayout struct {
	subgrids    []*subgrid // in the order of memory
	rowStride   int        // stride of rows of subgrids and results, in elements
	planeStride int        // stride of the planes' subgrids, in bytes
	tapOffsets  []int      // by tap: byte offset of the element that it multiplies for the first result
}

// subgrid describes the elements at (row + i*sh, col + j*sw) of the padded input of a tile, for all i and j. sh and sw
// are the strides of the window.
type subgrid struct {
	row, col int
	offset   int // byte offset of the subgrid in memory
	// oddColumns is set if the column stride is 2, the columns of the image are contiguous, and this subgrid has the
	// even columns. It is then the subgrid of the odd columns of the same rows, and one copy fills both subgrids
	// (rowMover.split).
	oddColumns      *subgrid
	isFilledBySplit bool // whether this is the oddColumns of another subgrid
}

// newSubgridLayout returns the layout for tiles of the given size.
func newSubgridLayout(conv *convShape, elemBytes, rows, cols int) (layout subgridLayout) {
	for _, row := range gridStarts(&conv.h) {
		for _, col := range gridStarts(&conv.w) {
			layout.subgrids = append(layout.subgrids, &subgrid{row: row, col: col})
		}
	}
	width := gridSize(&conv.w, cols)
	line := machine.LineBytes / elemBytes // elements of a cache line
	layout.chooseRowStride(&conv.w, cols, width, line)
	gridElements := (gridSize(&conv.h, rows)-1)*layout.rowStride + width
	gridBytes := kit.AlignUp(gridElements*elemBytes) + machine.LineBytes // with room for elementsBefore
	for i, grid := range layout.subgrids {
		if grid.col == 0 && conv.w.Stride == 2 && conv.inStride.w == 1 {
			if grid.oddColumns = layout.find(grid.row, 1); grid.oddColumns != nil {
				grid.oddColumns.isFilledBySplit = true
			}
		}
		// Image elements start at a cache line, because loading a vector that crosses a line takes twice as long.
		first, _ := grid.imageColumns(&conv.w, width)
		elementsBefore := (line - first%line) % line // unused elements before the subgrid
		grid.offset = i*gridBytes + elementsBefore*elemBytes
	}
	layout.planeStride = len(layout.subgrids) * gridBytes
	for kh := range conv.h.Taps {
		for kw := range conv.w.Taps {
			row, col := kh*conv.h.Dilation, kw*conv.w.Dilation // in the padded input of the first result
			grid := layout.find(row%conv.h.Stride, col%conv.w.Stride)
			gridIndex := row/conv.h.Stride*layout.rowStride + col/conv.w.Stride // in the subgrid
			layout.tapOffsets = append(layout.tapOffsets, grid.offset+gridIndex*elemBytes)
		}
	}
	return layout
}

// gridStarts returns the first rows, or the first columns, of all subgrids that taps read.
func gridStarts(axis *geometry.Axis) (starts []int) {
	for tap := range axis.Taps {
		if start := tap * axis.Dilation % axis.Stride; !slices.Contains(starts, start) {
			starts = append(starts, start)
		}
	}
	return starts
}

// gridSize returns the number of rows, or of columns, of a subgrid that the taps read for the given number of results.
func gridSize(axis *geometry.Axis, results int) int {
	return results + (axis.Taps-1)*axis.Dilation/axis.Stride
}

// chooseRowStride sets the stride of the rows of subgrids, which have `width` columns for tiles of cols results. If a
// tile has whole rows, rows overlap: the zeros at the right end of a row are also the zeros at the left end of the next
// row. For example, rows of 8 columns with a zero at each end have the stride 7. All rows start at a cache line, of
// `line` elements, if this lengthens them by at most a seventh.
func (layout *subgridLayout) chooseRowStride(axis *geometry.Axis, cols, width, line int) {
	sharedZeros := width // number of zeros that two rows share
	if cols < axis.Results {
		sharedZeros = 0
	}
	for _, grid := range layout.subgrids {
		if first, end := grid.imageColumns(axis, width); first < end {
			sharedZeros = min(sharedZeros, first, width-end)
		}
	}
	layout.rowStride = max(cols, width-sharedZeros) // the rows of results have the same stride
	if aligned := kit.DivUp(layout.rowStride, line) * line; aligned-layout.rowStride <= layout.rowStride/7 {
		layout.rowStride = aligned
	}
}

// imageColumns returns the range of columns of a subgrid, of `width` columns, that are inside the image if the tile is
// at the left border. geometry.IndicesInside(start, step, size, count) is the range of all i < count for which start +
// i*step is in [0, size).
func (grid *subgrid) imageColumns(axis *geometry.Axis, width int) (first, end int) {
	return geometry.IndicesInside(grid.col-axis.PadBefore, axis.Stride, axis.Size, width)
}

// find returns the subgrid whose first element is at (row, col) of the padded plane, or nil.
func (layout *subgridLayout) find(row, col int) *subgrid {
	for _, grid := range layout.subgrids {
		if grid.row == row && grid.col == col {
			return grid
		}
	}
	return nil
}
