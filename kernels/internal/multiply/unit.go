package multiply

import "github.com/graphrun/graphrun/internal/jit/tile"

// UnitBytes is the inner kernel of byte products on the matrix unit, by its name in profiles: one multiply-add, of all
// rows, columns and terms of tiles.
const UnitBytes = "matrix.bytes"

// UnitByteMACs returns the multiplications of m rows by n columns on the matrix unit, for chunks of terms, including
// padding: columns fill whole tiles, and the rows of a last tile take at least half the time of a tile.
func UnitByteMACs(m, n, chunks int) float64 {
	up := func(n, to int) int { return (n + to - 1) / to * to }
	return float64(up(m, tile.UnitRows/2)) * float64(up(n, tile.UnitRows)) * float64(chunks*4*tile.UnitTerms)
}
