package strided

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

// tileRoutine is a routine that transposes tiles in registers. A tile is `rows` by `cols` elements: `rows` adjacent
// elements in dst, `cols` adjacent elements in src.
type tileRoutine struct {
	rows, cols int
	minCols    int      // minimum number of columns of any routine with these rows
	normal     tileFunc // normal stores; nil if another routine is better
	stream     tileFunc // non-temporal stores, for dst and dstStep in multiples of a cache line; may be nil
	closeRows  tileFunc // for close rows of dst ([matrix.rowsAreClose]) if it is faster there; may be nil
}

// tileFunc transposes n > 0 tiles. Rows of src have the stride srcStep. Rows of dst, which are columns of src, have the
// stride dstStep. Consecutive tiles are srcNext and dstNext bytes apart. after is an address in dst to prefetch,
// usually that of a tile that is written soon.
type tileFunc = func(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

// panelTiles is the number of tiles in a panel. A panel writes adjacent lines of a row of dst, so the TLB entry of the
// row is used several times. It reads few enough rows of src for their TLB entries to remain too.
const panelTiles = 4

// matrix describes a transposition of rows by cols elements, as seen from src: the elements of a row are dense in src,
// and the elements of a column are dense in dst.
type matrix struct {
	dst, src         unsafe.Pointer
	dstStep, srcStep int            // bytes between columns in dst, and between rows in src
	rows, cols, size int            // size is the number of bytes of an element
	nonTemporal      bool           // use non-temporal stores for whole lines
	scratch          unsafe.Pointer // for squares; may be nil
}

// transpose transposes the matrix by tiles. It returns false if no tile fits. Tiles at the ends of rows and columns
// overlap their predecessors, so some elements are written twice.
func (m matrix) transpose() bool {
	for i := range tileRoutines[m.size] {
		if t := &tileRoutines[m.size][i]; t.rows <= m.rows && t.cols <= m.cols && (t.normal != nil || m.canStream(t)) {
			m.transposeTiles(t)
			return true
		}
	}
	n := m.transposeThreeChannels()
	switch {
	case n == 0:
		return false
	case m.cols == 3 && n < m.rows:
		rest := m.submatrix(n, 0, m.rows-n, 3)
		rest.transposeElements()
	case m.rows == 3 && n < m.cols:
		rest := m.submatrix(0, n, 3, m.cols-n)
		rest.transposeElements()
	}
	return true
}

// canStream reports whether the non-temporal stores of a routine can be used.
func (m *matrix) canStream(t *tileRoutine) bool {
	return m.nonTemporal && t.stream != nil && (uintptr(m.dst)|uintptr(m.dstStep))%64 == 0
}

// rowsAreClose reports whether rows of dst are so close that the cache lines of dst need no prefetch. Prefetching lines
// that are written in parts makes a tile up to twice as slow. 3136 rows of 24 float32 take 15 us without prefetching
// and 25 us with it. Rows of 100 float32 take 124 us without prefetching and 93 us with it (Emerald Rapids).
func (m *matrix) rowsAreClose() bool {
	const line = machine.LineBytes
	return m.dstStep < 3*line && (uintptr(m.dst)|uintptr(m.dstStep))%line != 0
}

// transposeElements transposes few elements, one by one.
func (m *matrix) transposeElements() {
	for j := range m.cols {
		movesBySize[m.size](unsafe.Add(m.dst, j*m.dstStep), unsafe.Add(m.src, j*m.size), m.size, m.srcStep, m.rows)
	}
}

func (m matrix) transposeTiles(t *tileRoutine) {
	f := t.normal
	switch {
	case m.canStream(t):
		f = t.stream
	case t.closeRows != nil && m.rowsAreClose():
		f = t.closeRows
	}
	wholeRows, wholeCols := m.rows-m.rows%t.rows, m.cols-m.cols%t.cols
	if wholeRows == t.rows {
		m.transposeTileRow(f, t, wholeCols)
	} else {
		m.transposePanels(f, t, wholeRows, wholeCols)
	}
	if rest := m.cols - wholeCols; rest > 0 {
		m.submatrix(0, m.cols-max(rest, t.minCols), wholeRows, max(rest, t.minCols)).transpose()
	}
	if rest := m.rows - wholeRows; rest > 0 {
		m.submatrix(m.rows-t.rows, 0, t.rows, m.cols).transpose()
	}
}

// transposeTileRow transposes one row of tiles over the given number of columns.
func (m *matrix) transposeTileRow(f tileFunc, t *tileRoutine, cols int) {
	f(cols/t.cols, m.dst, m.dstStep, t.cols*m.dstStep, m.src, m.srcStep, t.cols*m.size, m.nextTile(t, 0, cols))
}

// transposePanels transposes panel by panel, and tile by tile within a panel. If there is scratch, it transposes by
// squares.
func (m *matrix) transposePanels(f tileFunc, t *tileRoutine, rows, cols int) {
	srcNext := t.rows * m.srcStep
	line := machine.LineBytes / m.size
	for i := 0; i < rows; i += panelTiles * t.rows {
		n, j := min(panelTiles, (rows-i)/t.rows), 0
		for ; m.scratch != nil && j+line <= cols; j += line {
			for q := range n {
				m.transposeSquare(f, t, i+q*t.rows, j)
			}
		}
		for ; j < cols; j += t.cols {
			dst, src := m.at(i, j)
			f(n, dst, m.dstStep, t.rows*m.size, src, m.srcStep, srcNext, m.nextTile(t, i, j+t.cols))
		}
	}
}

// squareScratchBytes is the size in bytes of the scratch for a square of at most 64 rows.
const squareScratchBytes = machine.LineBytes * machine.LineBytes

// transposeSquare transposes adjacent tiles of small elements. A tile uses only a part of each cache line of src. The
// stride of rows is often a power of two, so that these lines would evict one another before the next tile reads them.
// Whole lines are therefore first copied to scratch.
func (m *matrix) transposeSquare(f tileFunc, t *tileRoutine, i, j int) {
	const line = machine.LineBytes
	dst, src := m.at(i, j)
	vectorRows(t.rows, m.scratch, line, src, m.srcStep, line, 2*line)
	srcNext := t.cols * m.size
	f(line/srcNext, dst, m.dstStep, t.cols*m.dstStep, m.scratch, line, srcNext, m.nextTile(t, i, j+line))
}

// nextTile returns the address of the tile of dst at (i, j), for prefetching. If (i, j) is outside dst, it returns the
// address of the last tile of those rows instead, because another worker may write the lines outside.
func (m *matrix) nextTile(t *tileRoutine, i, j int) unsafe.Pointer {
	dst, _ := m.at(i, min(j, m.cols-t.cols))
	return dst
}

// at returns the addresses of element (row, col) in dst and src.
func (m *matrix) at(row, col int) (dst, src unsafe.Pointer) {
	return unsafe.Add(m.dst, row*m.size+col*m.dstStep), unsafe.Add(m.src, row*m.srcStep+col*m.size)
}

// submatrix returns rows by cols elements from (row, col) on.
func (m matrix) submatrix(row, col, rows, cols int) matrix {
	m.dst, m.src = m.at(row, col)
	m.rows, m.cols = rows, cols
	return m
}
