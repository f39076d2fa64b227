package view

// clampedColumn returns row + diagonal + offset, clamped to [0, cols]. It does not overflow for any diagonal.
func clampedColumn(row, diagonal, offset, cols int) int {
	return row + min(max(diagonal, -row-offset), cols-row-offset) + offset
}
