package strided

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

// turner is a routine that transposes tiles in registers: rows elements dense in dst by cols elements dense
// in src.
type turner struct {
	rows, cols int
	least      int      // the least number of columns of routines with as many rows
	turn       turnFunc // normal stores; nil if another routine is better
	stream     turnFunc // non-temporal stores, for dst and dstStep in multiples of a cache line; may be nil
	near       turnFunc // for close rows of dst ([matrix.near]) if turn does not suit them; may be nil
}

// turnFunc transposes n > 0 tiles. Rows of src have stride srcStep, rows of dst (columns of src) stride
// dstStep; consecutive tiles are srcNext and dstNext bytes apart. after is the address of a tile of dst that
// is written soon, to prefetch, or any address in dst.
type turnFunc = func(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

// panelTiles is the number of tiles in a panel: adjacent lines of each row of dst are written while its page
// is in the TLB, and src is read along few enough rows for their pages to be, too.
const panelTiles = 4

// matrix is the operand of a transposition: na elements dense in dst by nb elements dense in src.
type matrix struct {
	dst, src         unsafe.Pointer
	dstStep, srcStep int // strides of nb in dst and of na in src
	na, nb, size     int
	stream           bool           // use non-temporal stores for whole lines
	room             unsafe.Pointer // scratch for squares; may be nil
}

// turn transposes by tiles, and reports whether any fit. Tiles at the ends of rows and columns overlap their
// predecessors, and write some elements twice.
func (m matrix) turn() bool {
	for i := range turners[m.size] {
		if t := &turners[m.size][i]; t.rows <= m.na && t.cols <= m.nb && (t.turn != nil || m.past(t)) {
			m.tiles(t)
			return true
		}
	}
	n := m.three()
	switch {
	case n == 0:
		return false
	case m.nb == 3 && n < m.na:
		rest := m.part(n, 0, m.na-n, 3)
		rest.plain()
	case m.na == 3 && n < m.nb:
		rest := m.part(0, n, 3, m.nb-n)
		rest.plain()
	}
	return true
}

// past reports whether a routine's non-temporal stores are used.
func (m *matrix) past(t *turner) bool {
	return m.stream && t.stream != nil && (uintptr(m.dst)|uintptr(m.dstStep))%64 == 0
}

// near reports whether rows of dst are so close that its lines need no prefetch. Prefetching lines that are
// written in pieces makes a tile up to twice as slow: 3136 rows of 24 float32 take 15 us without, 25 with it;
// rows of 100 take 124 without, 93 with it (Emerald Rapids).
func (m *matrix) near() bool {
	const line = machine.LineBytes
	return m.dstStep < 3*line && (uintptr(m.dst)|uintptr(m.dstStep))%line != 0
}

// plain transposes few elements.
func (m *matrix) plain() {
	for j := range m.nb {
		movers[m.size](unsafe.Add(m.dst, j*m.dstStep), unsafe.Add(m.src, j*m.size), m.size, m.srcStep, m.na)
	}
}

func (m matrix) tiles(t *turner) {
	f := t.turn
	switch {
	case m.past(t):
		f = t.stream
	case t.near != nil && m.near():
		f = t.near
	}
	na, nb := m.na-m.na%t.rows, m.nb-m.nb%t.cols
	if na == t.rows {
		m.along(f, t, nb)
	} else {
		m.panels(f, t, na, nb)
	}
	if rest := m.nb - nb; rest > 0 {
		m.part(0, m.nb-max(rest, t.least), na, max(rest, t.least)).turn()
	}
	if rest := m.na - na; rest > 0 {
		m.part(m.na-t.rows, 0, t.rows, m.nb).turn()
	}
}

// along transposes one row of tiles over nb columns.
func (m *matrix) along(f turnFunc, t *turner, nb int) {
	f(nb/t.cols, m.dst, m.dstStep, t.cols*m.dstStep, m.src, m.srcStep, t.cols*m.size, m.after(t, 0, nb))
}

// panels transposes panel by panel, tile by tile; with room, by squares.
func (m *matrix) panels(f turnFunc, t *turner, na, nb int) {
	down := t.rows * m.srcStep
	line := machine.LineBytes / m.size
	for i := 0; i < na; i += panelTiles * t.rows {
		n, j := min(panelTiles, (na-i)/t.rows), 0
		for ; m.room != nil && j+line <= nb; j += line {
			for q := range n {
				m.square(f, t, i+q*t.rows, j)
			}
		}
		for ; j < nb; j += t.cols {
			dst, src := m.at(i, j)
			f(n, dst, m.dstStep, t.rows*m.size, src, m.srcStep, down, m.after(t, i, j+t.cols))
		}
	}
}

// squareRoom is the scratch for a square of at most 64 rows.
const squareRoom = machine.LineBytes * machine.LineBytes

// square transposes adjacent tiles that each use a part of a cache line of every row of src, as tiles of one-
// and two-byte elements do. If rows are a power of two apart, their lines would evict one another before the
// next part, so they are first gathered in room.
func (m *matrix) square(f turnFunc, t *turner, i, j int) {
	const line = machine.LineBytes
	dst, src := m.at(i, j)
	vectorRows(t.rows, m.room, line, src, m.srcStep, line, 2*line)
	right := t.cols * m.size
	f(line/right, dst, m.dstStep, t.cols*m.dstStep, m.room, line, right, m.after(t, i, j+line))
}

// after returns the address of the tile at (i, j) of dst, or of the last tile of those rows: lines outside
// dst are not prefetched, because another worker may write them.
func (m *matrix) after(t *turner, i, j int) unsafe.Pointer {
	dst, _ := m.at(i, min(j, m.nb-t.cols))
	return dst
}

// at returns the addresses of element (a, b).
func (m *matrix) at(a, b int) (dst, src unsafe.Pointer) {
	return unsafe.Add(m.dst, a*m.size+b*m.dstStep), unsafe.Add(m.src, a*m.srcStep+b*m.size)
}

// part returns the submatrix of na by nb elements at (a, b).
func (m matrix) part(a, b, na, nb int) matrix {
	m.dst, m.src = m.at(a, b)
	m.na, m.nb = na, nb
	return m
}
