package iter

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/tensor"
)

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
