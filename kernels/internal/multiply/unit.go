package multiply

import "github.com/graphrun/graphrun/internal/jit/tile"

// RateUnitBytes is the name, in machine profiles, of the time of one multiply-add of bytes on the matrix unit.
// Multiply-adds of the padding of tiles are counted.
const RateUnitBytes = "matrix.bytes"

// UnitByteMACs returns the multiply-adds of m rows by n columns on the matrix unit, including padding. depthTiles is
// the depth in tiles. Columns are padded to whole tiles of tile.UnitRows columns. Rows are padded to half tiles,
// because a partial last tile takes at least half the time of a full tile: 17 rows of a unit with tiles of 16 rows
// count as 24.
func UnitByteMACs(m, n, depthTiles int) float64 {
	const termBytes = 4 // the unit multiplies four bytes of a row by four bytes of a column as one term
	roundUp := func(count, multiple int) int { return (count + multiple - 1) / multiple * multiple }
	return float64(roundUp(m, tile.UnitRows/2)) * float64(roundUp(n, tile.UnitRows)) *
		float64(depthTiles*termBytes*tile.UnitTerms)
}
