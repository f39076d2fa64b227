package iter

// Accumulating returns the iteration as a later part of a larger reduction, which
// Split32 makes only of operands of gigabytes.
func Accumulating(it *Iterator) *Iterator {
	part := it.part()
	part.accumulate = true
	return part
}
