package multiply

import "github.com/graphrun/graphrun/internal/jit/tile"

// RateUnitBytes is the rate of byte products on the matrix unit, by its name in machine profiles. It is the time of one
// multiply-add. Multiply-adds of the padding of tiles are counted.
const RateUnitBytes = "matrix.bytes"

// UnitByteMACs returns the multiply-adds of m rows by n columns on the matrix unit, including padding. chunks is the
// depth in tiles. Columns are padded to whole tiles. Rows are padded to half tiles, because a partial last tile takes
// at least half the time of a full tile.
func UnitByteMACs(m, n, chunks int) float64 {
	up := func(n, to int) int { return (n + to - 1) / to * to }
	return float64(up(m, tile.UnitRows/2)) * float64(up(n, tile.UnitRows)) * float64(chunks*4*tile.UnitTerms)
}
