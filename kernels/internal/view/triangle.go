package view

// clampedColumn returns the column row + diagonal + offset, clamped to [0, cols]. With offset 0 it is the column of the
// diagonal, where the upper triangle begins in this row. With offset 1 it is the next column, where the lower triangle
// has ended. It does not overflow for any diagonal.
func clampedColumn(row, diagonal, offset, cols int) int {
	return row + min(max(diagonal, -row-offset), cols-row-offset) + offset
}
