package reduce

import "github.com/graphrun/graphrun/kernels/internal/kit"

// lineBlocks divides the lines of a row-major array [outer, lineLength, inner] into blocks of at most columnUnit
// adjacent lines. In the array, consecutive elements of a line are `inner` elements apart. For example, along dimension
// 1 of [2, 3, 600], there are 2 groups of 600 adjacent lines. Each group has three blocks, with 256, 256 and 88 lines.
type lineBlocks struct {
	lineLength, inner int
	perGroup          int // number of blocks of a group, which has `inner` adjacent lines
	count             int // number of all blocks
}

// newLineBlocks returns the blocks of an array with the given number of elements.
func newLineBlocks(elements, lineLength, inner int) lineBlocks {
	perGroup := kit.DivUp(inner, columnUnit)
	return lineBlocks{lineLength, inner, perGroup, elements / (lineLength * inner) * perGroup}
}

// maxElements returns the maximum number of elements of a block.
func (b lineBlocks) maxElements() int { return b.lineLength * min(b.inner, columnUnit) }

// position returns the array index of the first element of a block, and the number of lines of the block.
func (b lineBlocks) position(block int) (first, lines int) {
	outer, firstLine := block/b.perGroup, block%b.perGroup*columnUnit
	return outer*b.lineLength*b.inner + firstLine, min(columnUnit, b.inner-firstLine)
}
