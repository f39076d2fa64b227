package iter

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/tensor"
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

// tileState is the state of a walk by tiles. The walk is the loop nest over the coalesced dimensions of an iteration. A
// box is a range of indices in each dimension of the walk. [tileWalk.computeBox] computes a box, tile by tile. Indices
// and sizes count elements.
type tileState struct {
	// These slices are indexed by dimension of the walk.

	boxSize   []int // size of the box
	tileIndex []int // index in the box of the current tile's first element
	tileSize  []int // size of the current tile, which is smaller at the end of the box
	taskSize  []int // size of a task, the box that a worker computes at once

	// These slices are indexed by operand. computeTile sets them for the current tile.

	tileStrides []int            // byte strides with which the loop accesses the tile, maxTileDims for each operand
	memoryAddr  []unsafe.Pointer // address of the tile in memory
	loopAddr    []unsafe.Pointer // address at which the loop accesses the tile, in memory or in a block
}

// tileWalk computes an iteration tile by tile. A staged operand, which the loop cannot use in place, has a block, a
// small buffer of the worker. The tile of an input is copied to its block before the loop runs, and the tile of an
// output from its block afterwards. These copies keep the dtype in memory; conversions are part of the loop. The type
// [tiles] chooses the size and the order of tiles. A [Cursor] is the state of a worker. Its filledFrom has, by operand,
// the address of the tile that the block contains, or nil; its ptrs and strides are arguments of the loop.
type tileWalk struct {
	*tiles
	prepared *Prepared
	cursor   *Cursor
}

// newTileWalk returns a walk with the memory of cursor c, enlarged if necessary.
func (p *Prepared) newTileWalk(c *Cursor) tileWalk {
	operandCount, dimCount, state := len(p.iterator.operands), len(p.iterator.walkShape), &c.tileState
	state.boxSize, state.tileIndex = withLen(state.boxSize, dimCount), withLen(state.tileIndex, dimCount)
	state.tileSize = withLen(state.tileSize, dimCount)
	state.tileStrides = withLen(state.tileStrides, maxTileDims*operandCount)
	state.memoryAddr, state.loopAddr = withLen(state.memoryAddr, operandCount), withLen(state.loopAddr, operandCount)
	clear(state.tileStrides)
	c.ptrs, c.strides, c.filledFrom = withLen(c.ptrs, operandCount), withLen(c.strides, operandCount),
		withLen(c.filledFrom, operandCount)
	if len(c.blockMemory) < p.tiles.totalBlockBytes {
		c.blockMemory = tensor.NewStorage(p.tiles.totalBlockBytes).Bytes()
	}
	return tileWalk{tiles: p.tiles, prepared: p, cursor: c}
}

// walkTiles computes a range that the caller has checked to be in the iteration.
func (p *Prepared) walkTiles(c *Cursor, ptrs []unsafe.Pointer, r Range) error {
	it, walk := p.iterator, p.newTileWalk(c)
	if r == it.All() {
		if it.offsets != nil { // it is a part of another iteration
			ptrs = it.partAddresses(c, ptrs)
		}
		copy(c.tileState.boxSize, it.walkShape)
		walk.computeBox(ptrs)
		return nil
	}
	return it.eachStep(c, ptrs, r, func(addrs []unsafe.Pointer, rowLen, rowCount int) error {
		for d := range c.tileState.boxSize {
			c.tileState.boxSize[d] = 1
		}
		c.tileState.boxSize[0] = rowLen
		if rowCount > 1 {
			c.tileState.boxSize[1] = rowCount
		}
		walk.computeBox(addrs)
		return nil
	})
}

// walkTask computes one task. The caller has set c.tileState.taskSize ([tiles.appendTaskSize]).
func (p *Prepared) walkTask(c *Cursor, ptrs []unsafe.Pointer, task int) {
	it, state := p.iterator, &c.tileState
	walk := p.newTileWalk(c)
	c.firstAddrs = withLen(c.firstAddrs, len(ptrs))
	copy(c.firstAddrs, ptrs)
	for i, offset := range it.offsets {
		c.firstAddrs[i] = unsafe.Add(c.firstAddrs[i], offset)
	}
	// The tasks are numbered like the elements of an array of boxes whose fastest dimension is dimension 0.
	for d, size := range state.taskSize {
		boxCount := (it.walkShape[d]-1)/size + 1
		begin := task % boxCount * size
		task /= boxCount
		state.boxSize[d] = min(size, it.walkShape[d]-begin)
		for i := range c.firstAddrs {
			c.firstAddrs[i] = unsafe.Add(c.firstAddrs[i], begin*it.byteStride(d, i))
		}
	}
	walk.computeBox(c.firstAddrs)
}

// computeBox computes a box of size w.cursor.tileState.boxSize. base has, for each operand, the address of the box's
// first element.
func (w *tileWalk) computeBox(base []unsafe.Pointer) {
	state := &w.cursor.tileState
	clear(state.tileIndex)
	clear(state.tileSize)
	for hasTile := true; hasTile; hasTile = w.nextTile() {
		for d, n := range state.boxSize {
			if size := min(w.fullTileSize[d], n-state.tileIndex[d]); size != state.tileSize[d] {
				state.tileSize[d] = size
				clear(w.cursor.filledFrom) // refill all blocks, because their layout depends on the tile size
			}
		}
		w.computeTile(base)
	}
}

// nextTile advances to the next tile of the box. It returns false at the end.
func (w *tileWalk) nextTile() bool {
	state := &w.cursor.tileState
	for _, d := range w.loopOrder {
		if state.tileIndex[d] += w.fullTileSize[d]; state.tileIndex[d] < state.boxSize[d] {
			return true
		}
		state.tileIndex[d] = 0
	}
	return false
}

// computeTile computes the current tile.
func (w *tileWalk) computeTile(base []unsafe.Pointer) {
	iterator, state := w.prepared.iterator, &w.cursor.tileState
	for i := range base {
		offset := 0
		for d, index := range state.tileIndex {
			offset += index * iterator.byteStride(d, i)
		}
		state.memoryAddr[i] = unsafe.Add(base[i], offset)
		w.setOperand(i)
	}
	w.runLoop()
	for i := range iterator.outCount {
		if w.prepared.staged[i] {
			w.moveBlock(i, toMemory)
		}
	}
}

// setOperand sets the address and strides of operand i for the loop, and fills its block if it is staged.
func (w *tileWalk) setOperand(i int) {
	it, c, state := w.prepared.iterator, w.cursor, &w.cursor.tileState
	strides := state.tileStrides[maxTileDims*i : maxTileDims*(i+1)]
	if !w.prepared.staged[i] {
		state.loopAddr[i] = state.memoryAddr[i]
		for k, d := range w.tileDims {
			strides[k] = it.byteStride(d, i)
		}
		return
	}
	state.loopAddr[i] = unsafe.Pointer(&c.blockMemory[w.blockOffset[i]])
	stride := it.operands[i].MemoryDType.Size()
	isInput := i >= it.outCount
	// The dimensions of the tile follow one another in the block, without gaps. If joinsRows is set, the loop computes
	// the tile as a single row, so the block needs all rows.
	for k, d := range w.tileDims {
		isBroadcast := it.byteStride(d, i) == 0
		if k > 0 && isInput && isBroadcast && !w.prepared.joinsRows {
			strides[k] = 0 // the rows are identical, so the block has one of them
			continue
		}
		strides[k] = stride
		stride *= state.tileSize[d]
	}
	if isInput && c.filledFrom[i] != state.memoryAddr[i] {
		w.moveBlock(i, toBlock)
		c.filledFrom[i] = state.memoryAddr[i]
	}
}

// axis returns dimension k of a tile of operand i for the copy to its block.
func (w *tileWalk) axis(i, k int) strided.Axis {
	if k >= len(w.tileDims) {
		return strided.Axis{N: 1}
	}
	d := w.tileDims[k]
	axis := strided.Axis{N: w.cursor.tileState.tileSize[d], Dst: w.cursor.tileState.tileStrides[maxTileDims*i+k],
		Src: w.prepared.iterator.byteStride(d, i)}
	if axis.Dst == 0 { // the block has one of the identical rows (setOperand)
		axis.N = 1
	}
	return axis
}

// moveDirection is the direction of a copy between a block and memory.
type moveDirection bool

const (
	toBlock  moveDirection = false
	toMemory moveDirection = true
)

// moveBlock copies the current tile of operand i from memory into its block, or from the block to memory.
func (w *tileWalk) moveBlock(i int, direction moveDirection) {
	row, across, outer := w.axis(i, 0), w.axis(i, 1), w.axis(i, 2)
	if w.contiguousDim[i] == 2 { // CopyBlock transposes, so it needs the dimension that is contiguous in memory
		across, outer = outer, across
	}
	dst, src := w.cursor.tileState.loopAddr[i], w.cursor.tileState.memoryAddr[i]
	if direction == toMemory {
		dst, src = src, dst
		row, across, outer = row.Swapped(), across.Swapped(), outer.Swapped()
	}
	mover := strided.MoverOf(w.prepared.iterator.operands[i].MemoryDType.Size())
	for k := range outer.N {
		mover.CopyBlock(unsafe.Add(dst, k*outer.Dst), unsafe.Add(src, k*outer.Src), row, across)
	}
}

// runLoop computes the rows of a tile. Rows that are contiguous in all operands are computed as one row.
func (w *tileWalk) runLoop() {
	c, state := w.cursor, &w.cursor.tileState
	sizes := [maxTileDims]int{1, 1, 1} // along rows, across rows, and along the third dimension
	for k, d := range w.tileDims {
		sizes[k] = state.tileSize[d]
	}
	// Join the rows of dimension 1, and then the rows of dimension 2, if each row begins where the previous one ends.
	if w.followsRow(1, sizes[0]) {
		sizes[0], sizes[1] = sizes[0]*sizes[1], 1
		if w.followsRow(2, sizes[0]) {
			sizes[0], sizes[2] = sizes[0]*sizes[2], 1
		}
	}
	for k := range sizes[2] {
		for i, addr := range state.loopAddr {
			strides := state.tileStrides[maxTileDims*i : maxTileDims*(i+1)]
			c.ptrs[i], c.strides[i] = unsafe.Add(addr, k*strides[2]), strides[1]
		}
		w.prepared.loop.Run(&c.loops, c.ptrs, c.strides, sizes[0], sizes[1])
	}
}

// followsRow reports whether the next row along dimension k of the tile begins directly after a row of rowLen elements,
// in every operand.
func (w *tileWalk) followsRow(k, rowLen int) bool {
	if k >= len(w.tileDims) {
		return false
	}
	for strides := w.cursor.tileState.tileStrides; len(strides) > 0; strides = strides[maxTileDims:] {
		if strides[k] != rowLen*strides[0] {
			return false
		}
	}
	return true
}
