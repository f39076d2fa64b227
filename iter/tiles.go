package iter

import (
	"slices"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/sorted"
)

// tiles divides an iteration with staged operands into tiles, for the loop of an expression. An operand is staged if
// the loop cannot use it in place. The walk has the dimensions of the iteration, merged where possible, fastest first:
// dimension 0 is along rows. A tile is a range of indices in each dimension of the walk. For each tile, staged inputs
// are copied into blocks, the loop computes the tile, and blocks of staged outputs are copied to memory.
//
// For example, a row-major float32 matrix of 4096x4096 and its transpose are added. The transpose is staged: it is
// contiguous along dimension 1 of the walk. Tiles have 256 elements along dimension 0 and 128 along dimension 1, so
// that a block of the transpose has 128 KiB.
type tiles struct {
	tileDims     []int // the dimensions of the walk along which a tile may have several elements; the first is 0
	loopOrder    []int // the order of the dimensions of the walk in the loop nest over tiles, fastest first
	fullTileSize []int // size of a tile along each dimension of the walk, except for smaller tiles at an end
	// contiguousDim[i] is the index in tileDims of the dimension along which operand i is contiguous; 0 for rows.
	contiguousDim   []int
	blockOffset     []int // blockOffset[i] is the byte offset of the block of operand i, if the operand is staged
	totalBlockBytes int   // size of all blocks
	// transposed is set if the smallest stride of a staged operand is across rows, and below a cache line. Tiles may
	// then be walked in any order.
	transposed bool
}

const (
	// maxTileDims is the maximum number of dimensions of a tile. An operand that is contiguous along another dimension
	// is copied element by element.
	maxTileDims = 3
	// tileBytes is the total size in bytes of all blocks, if operands are transposed. Blocks stay in L2 between the
	// copy and the loop. They are large so that several consecutive cache lines of each page are read and written. On a
	// Zen 5 core with an L2 of 1 MiB, adding [4096,4096] and its transpose takes 7.6 ms with 128 KiB, 8.0 with 64, and
	// 10 with 16.
	tileBytes = 128 << 10
	// smallTileBytes replaces tileBytes for outputs smaller than largeOutput. The sum of [512,512] and its transpose
	// takes 49 us with smallTileBytes, and 53 us with tileBytes.
	smallTileBytes, largeOutput = 32 << 10, 4 << 20
	// tileRow is the length in elements of a tile's rows, if operands are transposed. The length decreases to
	// minTileRow if tiles need many rows.
	tileRow, minTileRow = 256, 64
	// In a tile of three dimensions, rows have row3D elements, and the tile has factor3D times as many elements as
	// other tiles. For example, three operands of 256^3 elements in different orders are added in 24 ms with these
	// values. With rows of 64 elements, or with a factor3D of 1, this takes 28 ms.
	row3D, factor3D = 128, 2
)

// tilesOf plans the tiles of an iteration for its staged operands. It returns nil for an iteration without elements.
func (it *Iterator) tilesOf(staged []bool) *tiles {
	if it.numel == 0 {
		return nil
	}
	plan := &tiles{tileDims: []int{0}, fullTileSize: make([]int, len(it.walkShape)),
		contiguousDim: make([]int, len(it.operands))}
	for d := range plan.fullTileSize {
		plan.fullTileSize[d] = 1
		plan.loopOrder = append(plan.loopOrder, d)
	}
	bytesPerElem, maxElemBytes := 0, 1
	for i := range it.operands {
		if elemBytes := it.operands[i].MemoryDType.Size(); staged[i] {
			bytesPerElem += elemBytes
			maxElemBytes = max(maxElemBytes, elemBytes)
		}
	}
	if it.isOrderFree() {
		plan.findTransposed(it, staged)
	}
	if plan.transposed {
		budget := tileBytes
		if !it.hasLargeOutput() {
			budget = smallTileBytes
		}
		plan.sizeTransposedTiles(it, max(1, budget/bytesPerElem))
		plan.orderTiles(it, staged)
	} else {
		plan.sizeRowTiles(it, max(1, blockBytes/maxElemBytes)) // blockBytes is the size of one block
	}
	plan.placeBlocks(it, staged)
	return plan
}

// isOrderFree reports whether elements may be computed in any order, because no output has several elements at one
// address.
func (it *Iterator) isOrderFree() bool {
	if it.IsReduction() {
		return false
	}
	for dim, size := range it.walkShape {
		for i := range it.outCount {
			if size > 1 && it.byteStride(dim, i) == 0 {
				return false
			}
		}
	}
	return true
}

// findTransposed sets tileDims and contiguousDim: the dimensions along which staged operands have several elements in
// a cache line.
func (t *tiles) findTransposed(it *Iterator, staged []bool) {
	for i := range it.operands {
		dim, bytes := it.smallestStride(i)
		if !staged[i] || dim == 0 || bytes >= machine.LineBytes {
			continue
		}
		index := slices.Index(t.tileDims, dim)
		if index < 0 && len(t.tileDims) < maxTileDims {
			index = len(t.tileDims)
			t.tileDims = append(t.tileDims, dim)
		}
		t.contiguousDim[i], t.transposed = max(index, 0), true
	}
}

// smallestStride returns the dimension of the walk with the smallest nonzero stride of operand i, and this stride in
// bytes.
func (it *Iterator) smallestStride(i int) (dim, bytes int) {
	for walkDim, size := range it.walkShape {
		stride := it.byteStride(walkDim, i)
		if stride = max(stride, -stride); size > 1 && stride != 0 && (bytes == 0 || stride < bytes) {
			dim, bytes = walkDim, stride
		}
	}
	return dim, bytes
}

// hasLargeOutput reports whether an output has at least largeOutput bytes.
func (it *Iterator) hasLargeOutput() bool {
	bytes := 0
	for i := range it.outCount {
		bytes = max(bytes, it.numel*it.operands[i].MemoryDType.Size())
	}
	return bytes >= largeOutput
}

// sizeTransposedTiles sets the tile size for transposed operands. A tile has about elems elements, in whole cache lines
// of each operand.
func (t *tiles) sizeTransposedTiles(it *Iterator, elems int) {
	// A tile has up to maxRow elements along rows, and whole cache lines of lineElems elements along dimension
	// `across`. In the example of tiles, elems is 32768, maxRow 256 and lineElems 16, so that a tile has 128 elements
	// along across.
	const acrossIndex = 1 // in tileDims
	maxRow, across, lineElems := tileRow, t.tileDims[acrossIndex], t.lineElements(it, acrossIndex)
	if len(t.tileDims) == maxTileDims {
		// One cache line along the third dimension, or all of it if it is shorter. elems becomes the number of elements in
		// the other two dimensions.
		maxRow = row3D
		t.fullTileSize[t.tileDims[2]] = min(it.walkShape[t.tileDims[2]], t.lineElements(it, 2))
		elems = max(1, factor3D*elems/t.fullTileSize[t.tileDims[2]])
	}
	// Rows are shortened, in steps of minTileRow, until a tile has at least one cache line along across.
	maxRow = min(maxRow, max(minTileRow, elems/lineElems/minTileRow*minTileRow))
	t.fullTileSize[0] = pieceLength(it.walkShape[0], maxRow)
	t.fullTileSize[across] = pieceLength(it.walkShape[across], max(1, elems/t.fullTileSize[0]/lineElems)*lineElems)
	// If all of across is in a tile, the remaining elements make the rows longer.
	if t.fullTileSize[across] == it.walkShape[across] {
		t.fullTileSize[0] = pieceLength(it.walkShape[0], max(maxRow, elems/t.fullTileSize[across]/maxRow*maxRow))
	}
}

// lineElements returns the number of elements in a cache line along a dimension of a tile (an index of tileDims). It is
// the maximum over the operands that are contiguous along the dimension.
func (t *tiles) lineElements(it *Iterator, tileDim int) int {
	elements := 1
	for i := range it.operands {
		if t.contiguousDim[i] == tileDim {
			stride := it.byteStride(t.tileDims[tileDim], i)
			elements = max(elements, machine.LineBytes/max(stride, -stride))
		}
	}
	return elements
}

// pieceLength returns the length of the pieces into which a length is cut. The pieces are about equal and have at most
// limit elements. If there are several pieces, their length is a multiple of 64 elements. All pieces then start at a
// cache line if the first piece does.
func pieceLength(length, limit int) int {
	if length <= limit {
		return length
	}
	pieces := (length + limit - 1) / limit
	const step = machine.LineBytes // elements: a multiple of a cache line for any element size
	average := (length + pieces - 1) / pieces
	return max(1, min(limit, (average+step-1)/step*step))
}

// orderTiles sets the order of tiles. If an operand has stride 0 along a dimension, the next tile in that dimension
// reuses the operand's block. The dimensions along which most blocks are reused therefore come first. Next come the
// remaining tile dimensions, because consecutive tiles along them touch the same pages of transposed operands. The
// dimension of rows is the last of the tile dimensions.
func (t *tiles) orderTiles(it *Iterator, staged []bool) {
	priority := make([]int, len(t.loopOrder)) // by dimension; the lowest number comes first
	for dim := range priority {
		reused := 0
		for i := it.outCount; i < len(it.operands); i++ {
			if staged[i] && it.byteStride(dim, i) == 0 {
				reused++
			}
		}
		switch {
		case reused > 0:
			priority[dim] = -reused
		case dim == 0: // rows, after the other tile dimensions
			priority[dim] = maxTileDims
		case slices.Contains(t.tileDims, dim):
			priority[dim] = slices.Index(t.tileDims, dim)
		default: // a tile has one element along dim
			priority[dim] = maxTileDims + 1
		}
	}
	sorted.Func(t.loopOrder, func(a, b int) int { return priority[a] - priority[b] })
}

// sizeRowTiles sets the tile size for operands that are not transposed. A tile has at most elems elements: several
// whole rows, or a part of a row.
func (t *tiles) sizeRowTiles(it *Iterator, elems int) {
	if len(t.fullTileSize) == 0 {
		return
	}
	t.fullTileSize[0] = min(it.walkShape[0], elems)
	if len(t.fullTileSize) > 1 {
		t.tileDims = append(t.tileDims, 1)
		t.fullTileSize[1] = max(1, min(it.walkShape[1], elems/t.fullTileSize[0]))
	}
}

// placeBlocks assigns blocks to staged operands. Padding prevents distances between blocks that are powers of two: such
// blocks would compete for a few cache sets.
func (t *tiles) placeBlocks(it *Iterator, staged []bool) {
	elems := 1
	for _, size := range t.fullTileSize {
		elems *= size
	}
	t.blockOffset = make([]int, len(it.operands))
	for i := range it.operands {
		if staged[i] {
			const paddingLines = 3
			t.blockOffset[i] = t.totalBlockBytes
			bytes := elems * it.operands[i].MemoryDType.Size()
			// Whole cache lines, rounded up, and the padding.
			t.totalBlockBytes += ((bytes+machine.LineBytes-1)/machine.LineBytes + paddingLines) * machine.LineBytes
		}
	}
}

// An iteration has at most maxTasks tasks. It has more if tasks would otherwise exceed maxTaskElems elements.
const maxTasks, maxTaskElems = 32, 1 << 20

// appendTaskSize appends the size of a task along each dimension of the walk to taskSize. A task has at least grain
// elements. It is a box of several tiles, which is extended first along the dimensions that come first in
// loopOrder. If there are too few tiles for several workers, a task is a part of a tile.
func (t *tiles) appendTaskSize(it *Iterator, grain int, taskSize []int) []int {
	if grain <= 0 {
		grain = GrainSize
	}
	minTasks := max(1, min(it.numel/grain, max(maxTasks, it.numel/maxTaskElems)))
	taskSize = append(taskSize, t.fullTileSize...)
	// Halve the tasks, which are single tiles so far, while there are fewer than minTasks.
	for last := len(t.tileDims) - 1; last >= 0 && countBoxes(it.walkShape, taskSize) < minTasks; {
		if dim := t.tileDims[last]; taskSize[dim] > machine.LineBytes { // the step of pieceLength
			taskSize[dim] = pieceLength(taskSize[dim], max(machine.LineBytes, taskSize[dim]/2))
		} else {
			last--
		}
	}
	// Extend the tasks along the first dimensions while at least minTasks remain.
	for _, dim := range t.loopOrder {
		tasks := (it.walkShape[dim]-1)/taskSize[dim] + 1
		otherTasks := countBoxes(it.walkShape, taskSize) / tasks
		if otherTasks >= minTasks {
			taskSize[dim] = it.walkShape[dim]
			continue
		}
		if parts := (minTasks-1)/otherTasks + 1; parts < tasks {
			taskSize[dim] *= tasks / parts
		}
		break
	}
	return taskSize
}

// countBoxes returns the number of boxes of the given size that cover a shape.
func countBoxes(shape, size []int) int {
	count := 1
	for d, extent := range shape {
		count *= (extent-1)/size[d] + 1
	}
	return count
}
