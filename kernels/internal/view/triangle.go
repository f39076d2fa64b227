package view

// Values of offset in [clampedColumn].
const (
	onDiagonal    = 0 // the column of the diagonal, where the upper triangle begins in a row
	afterDiagonal = 1 // the next column, where the lower triangle has ended
)

// clampedColumn returns the column row + diagonal + offset, clamped to [0, cols]. It does not overflow for any
// diagonal.
func clampedColumn(row, diagonal, offset, cols int) int {
	return row + min(max(diagonal, -row-offset), cols-row-offset) + offset
}
