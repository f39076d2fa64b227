package view

// Values of offset in [clampedColumn].
const (
	onDiagonal    = 0 // column of the diagonal, at which the upper triangle begins in a row
	afterDiagonal = 1 // column after the diagonal, the exclusive end of the lower triangle in a row
)

// clampedColumn returns the column row + diagonal + offset, clamped to [0, cols]. The computation does not overflow for
// any diagonal.
func clampedColumn(row, diagonal, offset, cols int) int {
	return row + min(max(diagonal, -row-offset), cols-row-offset) + offset
}
