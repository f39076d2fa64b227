package gemm

// This file divides the rows of a block into stacks of register tiles (coded.go). For example, with AVX-512 a panel of
// B has 4 vectors: 64 columns of float32. Register tiles of 4 vectors have at most 6 rows. If A is read in place, a
// block of 100 rows has two stacks: 15 tiles of 6 rows, and 2 tiles of 5 rows.

// maxStacks is the maximum number of stacks of a strip: two in whole panels of A, and two in the last panel.
const maxStacks = 4

// tileStack is a column of register tiles of the same height.
type tileStack struct {
	firstRow int // first row of the first tile, relative to the block of rows
	height   int // rows of a tile
	count    int // number of tiles
	rowStep  int // distance between tiles, in rows
}

// stacks divides a block of rows into stacks of register tiles with the given number of vectors. The stacks are the
// first stackCount entries of list. For example, let A be read in place, and let a register tile have at most 14 rows.
// Then 29 rows give a stack of two tiles of 10 rows and a stack of one tile of 9 rows. If A is packed in panels of 12
// rows and a register tile has at most 6 rows, 30 rows give three stacks: the upper halves of two panels, the lower
// halves of both panels, and the last panel of 6 rows.
func (p *Plan) stacks(rows, vectors int) (list [maxStacks]tileStack, stackCount int) {
	heightLimit := p.kernels.maxHeights[vectors]
	add := func(stack tileStack) {
		if stack.count > 0 {
			list[stackCount] = stack
			stackCount++
		}
	}
	if p.a.inPlace {
		height, count, lowerCount := divideEvenly(rows, heightLimit)
		add(tileStack{firstRow: 0, height: height, count: count, rowStep: height})
		add(tileStack{firstRow: count * height, height: height - 1, count: lowerCount, rowStep: height - 1})
		return list, stackCount
	}
	// A stack has the tiles at one position in all whole panels, or a tile of the last panel if this panel has fewer rows.
	panelWidth := p.a.panelWidth
	wholePanels := rows / panelWidth
	for _, panels := range [2]struct{ firstRow, rows, count int }{ // two groups of equal panels
		{firstRow: 0, rows: panelWidth, count: wholePanels},
		{firstRow: wholePanels * panelWidth, rows: rows % panelWidth, count: 1},
	} {
		if panels.rows == 0 || panels.count == 0 {
			continue
		}
		row := panels.firstRow
		height, count, lowerCount := divideEvenly(panels.rows, heightLimit)
		for i := range count + lowerCount {
			if i == count { // the other tiles have one row less
				height--
			}
			add(tileStack{firstRow: row, height: height, count: panels.count, rowStep: panelWidth})
			row += height
		}
	}
	return list, stackCount
}

// tilesPerStrip returns the number of register tiles in a strip.
func (p *Plan) tilesPerStrip() (tiles int) {
	stacks, count := p.stacks(min(p.tileRows, p.rowsPerBlock), p.kernels.vectors(p.b.panelWidth))
	for _, stack := range stacks[:count] {
		tiles += stack.count
	}
	return tiles
}
