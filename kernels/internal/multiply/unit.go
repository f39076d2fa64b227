package multiply

import "github.com/graphrun/graphrun/internal/jit/tile"

// UnitBytes is the name, in profiles, of the inner kernel of byte products on the matrix unit. Its cost is that of one
// multiply-add. The multiply-adds of the padding of tiles count too.
const UnitBytes = "matrix.bytes"

// UnitByteMACs returns the multiply-adds of m rows by n columns on the matrix unit, including padding. chunks is the
// depth in tiles. Columns are padded to whole tiles, and rows to half tiles: a partial last tile takes at least half
// the time of a full one.
func UnitByteMACs(m, n, chunks int) float64 {
	up := func(n, to int) int { return (n + to - 1) / to * to }
	return float64(up(m, tile.UnitRows/2)) * float64(up(n, tile.UnitRows)) * float64(chunks*4*tile.UnitTerms)
}
