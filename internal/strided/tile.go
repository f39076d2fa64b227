package strided

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

// tileRoutine is a routine that transposes tiles in registers. A tile is `rows` by `cols` elements of a [matrix]. Each
// column of the tile is `rows` adjacent elements in dst, and each row is `cols` adjacent elements in src.
type tileRoutine struct {
	rows, cols     int
	minCols        int      // columns of the narrowest routine with the same number of rows
	ordinaryStores tileFunc // nil if another routine is faster
	stream         tileFunc // with non-temporal stores, for dst and dstStep in multiples of a cache line; may be nil
	closeRows      tileFunc // for close rows of dst ([matrix.rowsAreClose]) if it is faster there; may be nil
}

// tileFunc transposes n > 0 tiles. Rows of src have the stride srcStep. Rows of dst, which are columns of src, have the
// stride dstStep. Consecutive tiles are srcNext bytes apart in src and dstNext bytes apart in dst. after is an address
// in dst to prefetch, usually the start of the next tile.
type tileFunc = func(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

// panelTiles is the number of tiles in a panel. A panel writes adjacent lines of a row of dst, so the TLB entry of the
// row is used several times. A panel reads few rows of src, so the next panel, which reads the same rows, finds their
// TLB entries.
const panelTiles = 4

// matrix describes a transposition of rows by cols elements. The elements of a row are dense in src, and the
// elements of a column are dense in dst:
//
//	dst[col*dstStep + row*elemBytes] = src[row*srcStep + col*elemBytes]
type matrix struct {
	dst, src              unsafe.Pointer
	dstStep, srcStep      int            // bytes between columns of the matrix in dst, and between its rows in src
	rows, cols, elemBytes int            // elemBytes is the size of an element in bytes
	nonTemporal           bool           // use non-temporal stores for whole lines
	scratch               unsafe.Pointer // squareScratchBytes bytes for transposeSquare; may be nil
}

// transpose transposes the matrix by tiles. It returns false if no tile fits. Tiles at the ends of rows and columns
// overlap their predecessors, so some elements are written twice.
func (m matrix) transpose() bool {
	for i := range tileRoutines[m.elemBytes] { // routines with more rows come first
		routine := &tileRoutines[m.elemBytes][i]
		fits := routine.rows <= m.rows && routine.cols <= m.cols
		if fits && (routine.ordinaryStores != nil || m.canStream(routine)) {
			m.transposeTiles(routine)
			return true
		}
	}
	// A matrix with three rows or columns is an image with three channels. transposed is the number of elements of each
	// channel that were transposed.
	transposed := m.transposeThreeChannels()
	switch {
	case transposed == 0:
		return false
	case m.cols == 3 && transposed < m.rows: // the remaining elements of the channels
		remainder := m.submatrix(transposed, 0, m.rows-transposed, 3)
		remainder.transposeElements()
	case m.rows == 3 && transposed < m.cols: // the remaining elements of the channels
		remainder := m.submatrix(0, transposed, 3, m.cols-transposed)
		remainder.transposeElements()
	}
	return true
}

// transposeTiles transposes whole tiles by a routine, and the remaining columns and rows by other routines:
//
//	+-------------------+------+
//	| whole tiles       | cols |
//	+-------------------+------+
//	| rows                     |
//	+--------------------------+
//
// The remaining columns and rows are widened to the size of a tile, and then overlap the whole tiles.
func (m matrix) transposeTiles(routine *tileRoutine) {
	transposeFunc := routine.ordinaryStores
	switch {
	case m.canStream(routine):
		transposeFunc = routine.stream
	case routine.closeRows != nil && m.rowsAreClose():
		transposeFunc = routine.closeRows
	}
	wholeRows, wholeCols := m.rows-m.rows%routine.rows, m.cols-m.cols%routine.cols
	if wholeRows == routine.rows {
		m.transposeTileRow(transposeFunc, routine, wholeCols)
	} else {
		m.transposePanels(transposeFunc, routine, wholeRows, wholeCols)
	}
	if remainingCols := m.cols - wholeCols; remainingCols > 0 {
		cols := max(remainingCols, routine.minCols)
		m.submatrix(0, m.cols-cols, wholeRows, cols).transpose()
	}
	if remainingRows := m.rows - wholeRows; remainingRows > 0 {
		m.submatrix(m.rows-routine.rows, 0, routine.rows, m.cols).transpose()
	}
}

// transposeTileRow transposes one row of tiles over the given number of columns.
func (m *matrix) transposeTileRow(transposeFunc tileFunc, routine *tileRoutine, cols int) {
	tiles, dstNext, srcNext := cols/routine.cols, routine.cols*m.dstStep, routine.cols*m.elemBytes
	transposeFunc(tiles, m.dst, m.dstStep, dstNext, m.src, m.srcStep, srcNext, m.nextTile(routine, 0, cols))
}

// transposePanels transposes panel by panel, and tile by tile within a panel. If m.scratch is set, it transposes by
// squares (see transposeSquare).
func (m *matrix) transposePanels(transposeFunc tileFunc, routine *tileRoutine, rows, cols int) {
	// Tiles of a panel are below one another in src.
	dstNext, srcNext := routine.rows*m.elemBytes, routine.rows*m.srcStep
	line := machine.LineBytes / m.elemBytes // columns of a square
	for i := 0; i < rows; i += panelTiles * routine.rows {
		tiles, j := min(panelTiles, (rows-i)/routine.rows), 0
		for ; m.scratch != nil && j+line <= cols; j += line {
			for tile := range tiles {
				m.transposeSquare(transposeFunc, routine, i+tile*routine.rows, j)
			}
		}
		for ; j < cols; j += routine.cols {
			dst, src := m.addresses(i, j)
			after := m.nextTile(routine, i, j+routine.cols)
			transposeFunc(tiles, dst, m.dstStep, dstNext, src, m.srcStep, srcNext, after)
		}
	}
}

// squareScratchBytes is the size in bytes of the scratch for a square of at most 64 rows.
const squareScratchBytes = machine.LineBytes * machine.LineBytes

// transposeSquare transposes the adjacent tiles of small elements that begin at (i, j). A tile uses only a part of each
// cache line of src. The stride of rows is often a power of two, so that these lines would evict one another before the
// next tile reads them. Whole lines are therefore first copied to scratch.
func (m *matrix) transposeSquare(transposeFunc tileFunc, routine *tileRoutine, i, j int) {
	const line = machine.LineBytes
	dst, src := m.addresses(i, j)
	vectorRows(routine.rows, m.scratch, line, src, m.srcStep, line, 2*line) // copies lines, and prefetches 2 lines ahead
	dstNext, srcNext := routine.cols*m.dstStep, routine.cols*m.elemBytes
	tiles := line / srcNext
	transposeFunc(tiles, dst, m.dstStep, dstNext, m.scratch, line, srcNext, m.nextTile(routine, i, j+line))
}

// transposeElements transposes elements one by one, for matrices that are too small for tiles.
func (m *matrix) transposeElements() {
	for j := range m.cols {
		movesBySize[m.elemBytes](unsafe.Add(m.dst, j*m.dstStep), unsafe.Add(m.src, j*m.elemBytes), m.elemBytes, m.srcStep,
			m.rows)
	}
}

// canStream reports whether the non-temporal stores of a routine can be used.
func (m *matrix) canStream(routine *tileRoutine) bool {
	isAligned := (uintptr(m.dst)|uintptr(m.dstStep))%machine.LineBytes == 0
	return m.nonTemporal && routine.stream != nil && isAligned
}

// rowsAreClose reports whether rows of dst are so close that the cache lines of dst need no prefetch. Prefetching lines
// that are written in parts makes a tile up to twice as slow. 3136 rows of 24 float32 take 15 us without prefetching
// and 25 us with it. Rows of 100 float32 take 124 us without prefetching and 93 us with it (Emerald Rapids).
func (m *matrix) rowsAreClose() bool {
	const line = machine.LineBytes
	return m.dstStep < 3*line && (uintptr(m.dst)|uintptr(m.dstStep))%line != 0
}

// nextTile returns the address of the tile of dst at (i, j), for prefetching. If (i, j) is outside dst, it returns the
// address of the last tile of these rows instead, because another worker may write the cache lines outside dst.
func (m *matrix) nextTile(routine *tileRoutine, i, j int) unsafe.Pointer {
	dst, _ := m.addresses(i, min(j, m.cols-routine.cols))
	return dst
}

// submatrix returns the matrix of rows by cols elements that begins at (row, col).
func (m matrix) submatrix(row, col, rows, cols int) matrix {
	m.dst, m.src = m.addresses(row, col)
	m.rows, m.cols = rows, cols
	return m
}

// addresses returns the addresses of element (row, col) in dst and src.
func (m *matrix) addresses(row, col int) (dst, src unsafe.Pointer) {
	return unsafe.Add(m.dst, row*m.elemBytes+col*m.dstStep), unsafe.Add(m.src, row*m.srcStep+col*m.elemBytes)
}
