package multiply

import "github.com/graphrun/graphrun/internal/jit/tile"

// UnitBytes is the inner kernel of products of bytes on the matrix unit, as profiles name it: a multiplication and an
// addition, of all rows, columns and terms of tiles.
const UnitBytes = "matrix.bytes"

// UnitByteMACs are the multiplications of m rows by n columns on the matrix unit, of so many chunks of terms, those on
// padding included: columns are in whole tiles, and rows of a last tile take as long as half of one at least.
func UnitByteMACs(m, n, chunks int) float64 {
	up := func(n, to int) int { return (n + to - 1) / to * to }
	return float64(up(m, tile.UnitRows/2)) * float64(up(n, tile.UnitRows)) * float64(chunks*4*tile.UnitTerms)
}
