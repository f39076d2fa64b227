package strided

import "github.com/graphrun/graphrun/internal/machine"

// Way is how a copy goes over its elements.
type Way uint8

const (
	// Rows: runs that lie one behind another on both sides.
	Rows Way = iota
	// Turned: one side lies along one dimension, the other along another, and tiles are turned in registers.
	Turned
	// Steps: some side has steps in whatever dimension is gone along, or elements are converted.
	Steps
)

// Way tells how the copy goes: by rows of so many elements each, in tiles, or with steps.
func (p *Copy) Way() (way Way, length int) {
	switch {
	case p.turned || p.staged:
		return Turned, 1
	case p.elem.moves && p.a.Dst == p.elem.Dst && p.a.Src == p.elem.Src || p.a.N == 1:
		return Rows, p.a.N
	}
	return Steps, 1
}

// Turning is what the tiles of a copy take beside their bytes.
type Turning struct {
	How   How
	Tiles int
	// Pieces counts, where elements go one by one, the pieces of rows that a tile writes, each to a line of the cache that
	// was driven out since the tile before wrote another piece of it; 0 where lines stay near.
	Pieces int
}

// How is how a tile is turned.
type How uint8

const (
	// InRegisters: tile by tile of registers.
	InRegisters How = iota
	// Woven: three rows with nothing between them, which are put together of vectors.
	Woven
	// Single: element by element, since rows or columns are too few for registers.
	Single
)

const (
	// fewRows is the side of a tile below which Go code takes longer for an element.
	fewRows = 8
	// lastingLines is how many lines of dst that one tile wrote are still in L1 when the next one does.
	lastingLines = 32 << 10 / machine.LineBytes
)

// Turning tells what the tiles of a copy take whose way is [Turned].
func (p *Copy) Turning() Turning {
	t := Turning{How: p.how(), Tiles: p.tiles}
	if t.How == Single && p.b.Dst > machine.LineBytes && p.b.tile > lastingLines {
		t.Pieces = p.all / p.a.tile
	}
	return t
}

func (p *Copy) how() How {
	m := p.matrix(nil, nil, nil, p.a.tile, p.b.tile)
	for i := range turners[m.size] {
		t := &turners[m.size][i]
		if t.rows <= m.na && t.cols <= m.nb && (t.turn != nil || m.stream && t.stream != nil) {
			return InRegisters
		}
	}
	switch {
	case len(turners[m.size]) == 0 && min(m.na, m.nb) >= fewRows:
		return InRegisters
	case hasThree && m.size == 4 && max(m.na, m.nb) >= 16 &&
		(m.nb == 3 && m.srcStep == 12 || m.na == 3 && m.dstStep == 12):
		return Woven
	}
	return Single
}
