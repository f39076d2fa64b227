package strided

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

// turner is a routine that transposes tiles in registers: rows elements that are dense in dst, cols that
// are dense in src.
type turner struct {
	rows, cols int
	least      int      // the least columns of those with as many rows
	turn       turnFunc // to anywhere; nil where another is better then
	stream     turnFunc // past the caches, to dst and dstStep that are multiples of a cache line; may be nil
	near       turnFunc // to rows of dst that are near, as [matrix.near] tells, if turn is not for these; may be nil
}

// turnFunc transposes n tiles. Rows of src lie srcStep bytes apart, rows of dst, each of which is a column
// of src, dstStep; the next tile begins srcNext and dstNext bytes after the last one. after is where a tile of dst
// begins that is written soon behind these, or any of dst. n is positive.
type turnFunc = func(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

// panelTiles is the number of tiles that are written side by side before the next columns are: lines that
// follow one another in each row of dst are written while its page is at hand, and src is read along few
// enough rows that theirs are, too.
const panelTiles = 4

// matrix is what is transposed: na elements dense in dst by nb elements dense in src, of some size.
type matrix struct {
	dst, src         unsafe.Pointer
	dstStep, srcStep int // from one of nb to the next in dst, from one of na to the next in src
	na, nb, size     int
	stream           bool           // write past the caches where lines are whole
	room             unsafe.Pointer // for squares; may be nil
}

// turn transposes by tiles, and reports whether there are some that fit. Tiles at the ends of rows and
// columns overlap those before them, where as much is written once more.
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

// past reports whether tiles are written past the caches.
func (m *matrix) past(t *turner) bool {
	return m.stream && t.stream != nil && (uintptr(m.dst)|uintptr(m.dstStep))%64 == 0
}

// near reports whether rows of dst lie so near one another that its lines come without being asked for. To ask for
// lines that are written in pieces makes a tile take up to twice as long then: 3136 rows of 24 float32 take 15 us where
// nothing is asked for, else 25; those of 100 take 124, else 93 (Emerald Rapids).
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

// along transposes a row of tiles over nb columns.
func (m *matrix) along(f turnFunc, t *turner, nb int) {
	f(nb/t.cols, m.dst, m.dstStep, t.cols*m.dstStep, m.src, m.srcStep, t.cols*m.size, m.after(t, 0, nb))
}

// panels goes along a panel tile by tile, or, where there is room, by squares.
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

// squareRoom is the room in which a square of at most 64 rows is brought together.
const squareRoom = machine.LineBytes * machine.LineBytes

// square transposes tiles side by side that each take a part of a cache line of every row of src, as those of one
// and two bytes do. Where rows are a power of two apart, their lines push one another out of the cache before
// the next part: so they come together first.
func (m *matrix) square(f turnFunc, t *turner, i, j int) {
	const line = machine.LineBytes
	dst, src := m.at(i, j)
	vectorRows(t.rows, m.room, line, src, m.srcStep, line, 2*line)
	right := t.cols * m.size
	f(line/right, dst, m.dstStep, t.cols*m.dstStep, m.room, line, right, m.after(t, i, j+line))
}

// after returns where the tile at (i, j) of dst begins, or, where there is none, the last whole one of those rows: no
// line outside of dst is asked for, since another worker may write it.
func (m *matrix) after(t *turner, i, j int) unsafe.Pointer {
	dst, _ := m.at(i, min(j, m.nb-t.cols))
	return dst
}

// at returns the addresses of element (a, b).
func (m *matrix) at(a, b int) (dst, src unsafe.Pointer) {
	return unsafe.Add(m.dst, a*m.size+b*m.dstStep), unsafe.Add(m.src, a*m.srcStep+b*m.size)
}

// part is the matrix from (a, b) on of some size.
func (m matrix) part(a, b, na, nb int) matrix {
	m.dst, m.src = m.at(a, b)
	m.na, m.nb = na, nb
	return m
}
