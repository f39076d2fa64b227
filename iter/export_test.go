package iter

import "unsafe"

// EachBlock walks the blocks of any iteration, reductions too.
func EachBlock(it *Iterator, ptrs []unsafe.Pointer, f func(n int) error) error {
	return it.forBlocks(new(Cursor), ptrs, it.All(), it.rowsContiguous(), func(_ []unsafe.Pointer, n int) error {
		return f(n)
	})
}

// Accumulating returns the iteration as a later part of a larger reduction, which
// Split32 makes only of operands of gigabytes.
func Accumulating(it *Iterator) *Iterator {
	part := it.part()
	part.accumulate = true
	return part
}
