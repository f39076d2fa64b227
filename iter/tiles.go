package iter

import (
	"slices"

	"github.com/graphrun/graphrun/internal/machine"
)

// tiles says how the loop of an expression goes over an iteration of which operands are staged: in boxes of the walk,
// for each of which the staged operands are brought into blocks.
type tiles struct {
	inner []int // the dimensions of the walk in which a tile has several elements, that of rows first
	order []int // the dimensions in the order in which tiles follow one another: first that of the next one
	size  []int // elements of a tile along each dimension of the walk
	near  []int // by operand: which of inner, beside rows, its block is copied along
	block []int // by operand: where its block begins
	room  int   // bytes of all blocks
	// turned: operands have cache lines that lie across rows, and tiles may follow one another in any order.
	turned bool
}

const (
	// maxInner bounds the dimensions of a tile. Operands that lie along further ones are copied by single elements.
	maxInner = 3
	// tileBytes is the size of all blocks where operands are turned: they pass from the copy to the loop in L2, and are
	// large, so that several lines that follow one another are read of each page, and written. On a Zen 5 core, whose
	// L2 has 1 MiB, [4096,4096] and its transposed are added in 7.6 ms by 128 KiB, in 8.0 by half of it, in 10 by 16.
	tileBytes = 128 << 10
	// nearBytes is that of iterations whose results have less than farBytes: [512,512] takes 49 us, and 53 by 128 KiB.
	nearBytes, farBytes = 32 << 10, 4 << 20
	// tileRow is the elements of a row of a tile where operands are turned, or less, as far as leastRow, where many are.
	tileRow, leastRow = 256, 64
	// deepRow is that of a tile of three dimensions, which has deepTimes as many elements: of the sum of 256^3 elements in
	// three orders, 24 ms; 28 by rows of 64, or by as many elements as other tiles have.
	deepRow, deepTimes = 128, 2
)

// tilesOf plans the tiles of an iteration for the operands that are staged; nil where nothing is to be done.
func (it *Iterator) tilesOf(staged []bool) *tiles {
	if it.numel == 0 {
		return nil
	}
	t := &tiles{inner: []int{0}, size: make([]int, len(it.walkShape)), near: make([]int, len(it.ops))}
	for d := range t.size {
		t.size[d] = 1
		t.order = append(t.order, d)
	}
	bytes, widest := 0, 1
	for i := range it.ops {
		if n := it.ops[i].held.Size(); staged[i] {
			bytes += n
			widest = max(widest, n)
		}
	}
	if it.anyOrder() {
		t.turn(it, staged)
	}
	if t.turned {
		room := tileBytes
		if !it.large() {
			room = nearBytes
		}
		t.squares(it, max(1, room/bytes))
		t.follow(it, staged)
	} else {
		t.rows(it, max(1, blockBytes/widest))
	}
	t.layBlocks(it, staged)
	return t
}

// large reports whether results leave the nearer caches while they are computed.
func (it *Iterator) large() bool {
	n := 0
	for i := range it.noutputs {
		n = max(n, it.numel*it.ops[i].held.Size())
	}
	return n >= farBytes
}

// anyOrder reports whether the elements may be computed in any order: they have places of their own.
func (it *Iterator) anyOrder() bool {
	if it.flags.reduction {
		return false
	}
	for d, n := range it.walkShape {
		for i := range it.noutputs {
			if n > 1 && it.walkStrides[d*len(it.ops)+i] == 0 {
				return false
			}
		}
	}
	return true
}

// nearest returns the dimension along which the elements of operand i are nearest, and how far apart they are.
func (it *Iterator) nearest(i int) (dim, bytes int) {
	for d, n := range it.walkShape {
		st := it.walkStrides[d*len(it.ops)+i]
		if st = max(st, -st); n > 1 && st != 0 && (bytes == 0 || st < bytes) {
			dim, bytes = d, st
		}
	}
	return dim, bytes
}

// turn finds the dimensions along which staged operands have their cache lines.
func (t *tiles) turn(it *Iterator, staged []bool) {
	for i := range it.ops {
		d, bytes := it.nearest(i)
		if !staged[i] || d == 0 || bytes >= machine.LineBytes {
			continue
		}
		k := slices.Index(t.inner, d)
		if k < 0 && len(t.inner) < maxInner {
			k = len(t.inner)
			t.inner = append(t.inner, d)
		}
		t.near[i], t.turned = max(k, 0), true
	}
}

// rows sets tiles of whole rows, as many as there are among so many elements, or of a part of one.
func (t *tiles) rows(it *Iterator, elems int) {
	if len(t.size) == 0 {
		return
	}
	t.size[0] = min(it.walkShape[0], elems)
	if len(t.size) > 1 {
		t.inner = append(t.inner, 1)
		t.size[1] = max(1, min(it.walkShape[1], elems/t.size[0]))
	}
}

// squares sets tiles of about so many elements, of whole cache lines of operands that are turned as far as they reach.
func (t *tiles) squares(it *Iterator, elems int) {
	row, across, line := tileRow, t.inner[1], t.line(it, 1)
	if len(t.inner) == maxInner {
		row = deepRow
		t.size[t.inner[2]] = min(it.walkShape[t.inner[2]], t.line(it, 2))
		elems = max(1, deepTimes*elems/t.size[t.inner[2]])
	}
	row = min(row, max(leastRow, elems/line/leastRow*leastRow))
	t.size[0] = evenly(it.walkShape[0], row)
	t.size[across] = evenly(it.walkShape[across], max(1, elems/t.size[0]/line)*line)
	if t.size[across] == it.walkShape[across] {
		t.size[0] = evenly(it.walkShape[0], max(row, elems/t.size[across]/row*row))
	}
}

// evenly returns the length of about equal pieces of n elements that have at most so many, of a multiple of 64 where n
// is cut: rows that begin at a cache line go on at one, whatever their elements.
func evenly(n, most int) int {
	if n <= most {
		return n
	}
	pieces := (n + most - 1) / most
	const step = machine.LineBytes
	return max(1, min(most, ((n+pieces-1)/pieces+step-1)/step*step))
}

// line returns the elements of a cache line along dimension k of a tile, of those that have most.
func (t *tiles) line(it *Iterator, k int) int {
	n := 1
	for i := range it.ops {
		if t.near[i] == k {
			st := it.walkStrides[t.inner[k]*len(it.ops)+i]
			n = max(n, machine.LineBytes/max(st, -st))
		}
	}
	return n
}

// follow sets the order of tiles. A block is as it was where the operand does not move: so first come the dimensions
// that move fewest staged operands. Then those across rows, along which operands that are turned go on in their pages.
func (t *tiles) follow(it *Iterator, staged []bool) {
	rank := make([]int, len(t.order))
	for d := range rank {
		still := 0
		for i := it.noutputs; i < len(it.ops); i++ {
			if staged[i] && it.walkStrides[d*len(it.ops)+i] == 0 {
				still++
			}
		}
		switch {
		case still > 0:
			rank[d] = -still
		case d == 0:
			rank[d] = maxInner
		case slices.Contains(t.inner, d):
			rank[d] = slices.Index(t.inner, d)
		default:
			rank[d] = maxInner + 1
		}
	}
	slices.SortStableFunc(t.order, func(a, b int) int { return rank[a] - rank[b] })
}

// layBlocks gives staged operands their blocks. These begin some lines further each than a power of two apart, where
// they would share few sets of a cache.
func (t *tiles) layBlocks(it *Iterator, staged []bool) {
	elems := 1
	for _, n := range t.size {
		elems *= n
	}
	t.block = make([]int, len(it.ops))
	for i := range it.ops {
		if staged[i] {
			const lines = 3
			t.block[i] = t.room
			bytes := elems * it.ops[i].held.Size()
			t.room += ((bytes+machine.LineBytes-1)/machine.LineBytes + lines) * machine.LineBytes
		}
	}
}

const (
	// fewTasks is how many tasks tiles are joined to at most, bigTask the elements of a task from which on there are more.
	fewTasks, bigTask = 32, 1 << 20
)

// spans appends the elements of a task along each dimension of the walk, for tasks of grain elements or more: tiles
// along the first dimensions of their order, or parts of tiles where these are too few for several workers.
func (t *tiles) spans(it *Iterator, grain int, span []int) []int {
	if grain <= 0 {
		grain = GrainSize
	}
	want := max(1, min(it.numel/grain, max(fewTasks, it.numel/bigTask)))
	span = append(span, t.size...)
	for k := len(t.inner) - 1; k >= 0 && count(it.walkShape, span) < want; {
		if d := t.inner[k]; span[d] > machine.LineBytes {
			span[d] = evenly(span[d], max(machine.LineBytes, span[d]/2))
		} else {
			k--
		}
	}
	for _, d := range t.order {
		n := (it.walkShape[d]-1)/span[d] + 1
		others := count(it.walkShape, span) / n
		if others >= want {
			span[d] = it.walkShape[d]
			continue
		}
		if parts := (want-1)/others + 1; parts < n {
			span[d] *= n / parts
		}
		break
	}
	return span
}

// count returns the number of boxes of a size in a shape.
func count(shape, size []int) int {
	n := 1
	for d, s := range shape {
		n *= (s-1)/size[d] + 1
	}
	return n
}
