package iter

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/tensor"
)

// boxes is the state of a walk by tiles. A box is the part of the walk that a call covers, and consists of tiles.
type boxes struct {
	box, at []int            // by dimension of the walk: size of the box, and index of the tile in it
	extents []int            // by dimension of the walk: size of the tile, smaller at the end of the box
	steps   []int            // by operand: maxInner byte strides of the loop's view of the tile
	span    []int            // by dimension of the walk: size of a task
	memory  []unsafe.Pointer // by operand: address of the tile in memory
	first   []unsafe.Pointer // by operand: address of the tile for the loop, in memory or in a block
}

// tileWalk walks an iteration tile by tile. It copies staged inputs into blocks, without conversion, and blocks of
// staged outputs back.
type tileWalk struct {
	*tiles
	p *Prepared
	c *Cursor
}

func (p *Prepared) newTileWalk(c *Cursor) tileWalk {
	ops, dims, b := len(p.iterator.ops), len(p.iterator.walkShape), &c.boxes
	b.box, b.at, b.extents = sized(b.box, dims), sized(b.at, dims), sized(b.extents, dims)
	b.steps, b.memory, b.first = sized(b.steps, maxInner*ops), sized(b.memory, ops), sized(b.first, ops)
	clear(b.steps)
	c.ptrs, c.strides, c.filled = sized(c.ptrs, ops), sized(c.strides, ops), sized(c.filled, ops)
	if len(c.stage) < p.tiles.blockBytes {
		c.stage = tensor.NewStorage(p.tiles.blockBytes).Bytes()
	}
	return tileWalk{p.tiles, p, c}
}

// walkTiles walks a checked range.
func (p *Prepared) walkTiles(c *Cursor, ptrs []unsafe.Pointer, r Range) error {
	it, w := p.iterator, p.newTileWalk(c)
	if r == it.All() {
		if it.offsets != nil {
			ptrs = it.shifted(c, ptrs)
		}
		copy(c.boxes.box, it.walkShape)
		w.box(ptrs)
		return nil
	}
	return it.steps(c, ptrs, r, func(at []unsafe.Pointer, n0, n1 int) error {
		for d := range c.boxes.box {
			c.boxes.box[d] = 1
		}
		c.boxes.box[0] = n0
		if n1 > 1 {
			c.boxes.box[1] = n1
		}
		w.box(at)
		return nil
	})
}

// walkTask walks one task, whose size c.boxes.span was set by [tiles.spans].
func (p *Prepared) walkTask(c *Cursor, ptrs []unsafe.Pointer, task int) {
	it, b := p.iterator, &c.boxes
	w := p.newTileWalk(c)
	c.start = sized(c.start, len(ptrs))
	copy(c.start, ptrs)
	for i, off := range it.offsets {
		c.start[i] = unsafe.Add(c.start[i], off)
	}
	for d, n := range b.span {
		parts := (it.walkShape[d]-1)/n + 1
		at := task % parts * n
		task /= parts
		b.box[d] = min(n, it.walkShape[d]-at)
		for i := range c.start {
			c.start[i] = unsafe.Add(c.start[i], at*it.walkStrides[d*len(ptrs)+i])
		}
	}
	w.box(c.start)
}

// box walks a box tile by tile. base has the address of the box's first element for each operand.
func (w *tileWalk) box(base []unsafe.Pointer) {
	b := &w.c.boxes
	clear(b.at)
	clear(b.extents)
	for more := true; more; more = w.next() {
		for d, n := range b.box {
			if e := min(w.size[d], n-b.at[d]); e != b.extents[d] {
				b.extents[d] = e
				clear(w.c.filled) // blocks have another layout now
			}
		}
		w.tile(base)
	}
}

// next advances to the next tile of the box. It returns false at the end.
func (w *tileWalk) next() bool {
	b := &w.c.boxes
	for _, d := range w.order {
		if b.at[d] += w.size[d]; b.at[d] < b.box[d] {
			return true
		}
		b.at[d] = 0
	}
	return false
}

// tile computes a tile.
func (w *tileWalk) tile(base []unsafe.Pointer) {
	it, b := w.p.iterator, &w.c.boxes
	for i := range base {
		off := 0
		for d, v := range b.at {
			off += v * it.walkStrides[d*len(base)+i]
		}
		b.memory[i] = unsafe.Add(base[i], off)
		w.setOperand(i)
	}
	w.run()
	for i := range it.noutputs {
		if w.p.staged[i] {
			w.move(i, true)
		}
	}
}

// setOperand sets the address and strides of operand i for the loop, and fills its block if it is staged.
func (w *tileWalk) setOperand(i int) {
	it, c, b := w.p.iterator, w.c, &w.c.boxes
	steps := b.steps[maxInner*i : maxInner*(i+1)]
	if !w.p.staged[i] {
		b.first[i] = b.memory[i]
		for k, d := range w.tileDims {
			steps[k] = it.walkStrides[d*len(it.ops)+i]
		}
		return
	}
	b.first[i] = unsafe.Pointer(&c.stage[w.block[i]])
	step := it.ops[i].Held.Size()
	for k, d := range w.tileDims {
		if k > 0 && i >= it.noutputs && !w.p.joined && it.walkStrides[d*len(it.ops)+i] == 0 {
			steps[k] = 0 // rows are identical
			continue
		}
		steps[k] = step
		step *= b.extents[d]
	}
	if i >= it.noutputs && c.filled[i] != b.memory[i] {
		w.move(i, false)
		c.filled[i] = b.memory[i]
	}
}

// axis returns dimension k of a tile of operand i for the copy to its block.
func (w *tileWalk) axis(i, k int) strided.Axis {
	if k >= len(w.tileDims) {
		return strided.Axis{N: 1}
	}
	d := w.tileDims[k]
	x := strided.Axis{N: w.c.boxes.extents[d], Dst: w.c.boxes.steps[maxInner*i+k],
		Src: w.p.iterator.walkStrides[d*len(w.p.iterator.ops)+i]}
	if x.Dst == 0 {
		x.N = 1
	}
	return x
}

// move copies a tile of operand i into its block, or back.
func (w *tileWalk) move(i int, back bool) {
	row, across, outer := w.axis(i, 0), w.axis(i, 1), w.axis(i, 2)
	if w.contiguousDim[i] == 2 {
		across, outer = outer, across
	}
	block, memory := w.c.boxes.first[i], w.c.boxes.memory[i]
	if back {
		block, memory = memory, block
		row, across, outer = row.Swapped(), across.Swapped(), outer.Swapped()
	}
	e := strided.Move(w.p.iterator.ops[i].Held.Size())
	for k := range outer.N {
		e.Block(unsafe.Add(block, k*outer.Dst), unsafe.Add(memory, k*outer.Src), row, across)
	}
}

// run computes the rows of a tile. Rows that are contiguous in all operands are computed as one row.
func (w *tileWalk) run() {
	c, b := w.c, &w.c.boxes
	n := [maxInner]int{1, 1, 1}
	for k, d := range w.tileDims {
		n[k] = b.extents[d]
	}
	if w.joins(1, n[0]) {
		n[0], n[1] = n[0]*n[1], 1
		if w.joins(2, n[0]) {
			n[0], n[2] = n[0]*n[2], 1
		}
	}
	for k := range n[2] {
		for i, p := range b.first {
			c.ptrs[i], c.strides[i] = unsafe.Add(p, k*b.steps[maxInner*i+2]), b.steps[maxInner*i+1]
		}
		w.p.loop.Run(&c.loops, c.ptrs, c.strides, n[0], n[1])
	}
}

// joins reports whether the step along dimension k of the tile equals n elements for every operand.
func (w *tileWalk) joins(k, n int) bool {
	if k >= len(w.tileDims) {
		return false
	}
	for steps := w.c.boxes.steps; len(steps) > 0; steps = steps[maxInner:] {
		if steps[k] != n*steps[0] {
			return false
		}
	}
	return true
}
