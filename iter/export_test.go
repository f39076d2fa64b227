package iter

import "unsafe"

// EachBlock walks the blocks of any iteration, reductions too.
func EachBlock(it *Iterator, ptrs []unsafe.Pointer, f func(n int) error) error {
	return it.forBlocks(new(Cursor), ptrs, it.All(), it.passesRows(), func(_ []unsafe.Pointer, n int) error {
		return f(n)
	})
}

// Accumulating returns the iteration as a later part of a larger reduction, which
// Split32 makes only of operands of gigabytes.
func Accumulating(it *Iterator) *Iterator {
	part := it.copyForPart()
	part.hasEarlierPart = true
	return part
}

// Tiles tells the dimensions of the walk along which tiles of a kernel lie, in which order tiles follow one another,
// and how large they are; nil where operands are not turned.
func Tiles(p Prepared) (inner, order, size []int) {
	if p.tiles == nil || !p.tiles.transposed {
		return nil, nil, nil
	}
	return p.tiles.tileDims, p.tiles.loopOrder, p.tiles.fullTileSize
}
