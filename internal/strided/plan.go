package strided

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

// Copy is a copy made ready: tiles over the two dimensions that matter, a along which dst
// is written fastest and b along which src is read fastest, times all others. It is
// immutable.
type Copy struct {
	elem   Elem
	a, b   axis
	outer  []outerAxis
	all    int // elements
	tiles  int
	turned bool // dst is dense along a, src along b, and elements are moved
	staged bool // dst is dense along a, src along b, and tiles are turned in a worker's scratch
	stream bool // dst is written past the caches
}

// axis is a dimension cut into tiles of some length.
type axis struct {
	Axis
	tile, tiles int
}

// outerAxis is a dimension beside a and b, of so many tiles below each of its places; or the tiles of b, where it has
// rows of others between its own.
type outerAxis struct {
	Axis
	below int
	ofB   bool
}

func (x *axis) cut(tile int) {
	x.tile = max(1, min(tile, x.N))
	x.tiles = (x.N + x.tile - 1) / x.tile
}

// cutEvenly cuts the dimension into tiles that are about even, of whole units as far as they go.
func (x *axis) cutEvenly(tile, unit int) {
	if x.cut(tile); x.tiles > 1 {
		x.cut(((x.N+x.tiles-1)/x.tiles + unit - 1) / unit * unit)
	}
}

const (
	// tileElems is the elements of a tile: half of what is worth a chunk, so that chunks of whole
	// tiles are about even.
	tileElems = machine.MoveGrain / 2
	// fewTiles is about how many tiles a small copy is cut into, for several workers, as long as a tile has leastTile
	// elements.
	fewTiles, leastTile = 8, machine.MoveGrain / 16
	// fewRuns is fewTiles of a copy by rows, which is cut into two chunks where it is small.
	fewRuns = 4
	// fewParts is about how many tiles b is cut into whose rows have those of others between them.
	fewParts = 4
	// grainSize is the bytes of the elements that grains are counted in: of smaller ones, a run of as many is less work.
	grainSize = 4
	// panelBytes is how far a tile that is turned goes along dst: a panel of whole cache lines.
	panelBytes = panelTiles * machine.LineBytes
	// stagedRows is the rows of dst that are staged at once, which must stay in L1 or near.
	stagedRows = 128
	// nearSpan is the bytes of dst that stay in L1 beside what is read, whatever their steps.
	nearSpan = 8 << 10
)

// far is the bytes of dst from which on it is written past the caches; tests put another in its place.
var far = machine.FarBytes

// New makes a copy ready. Axes may be in any order; those that are one run on both sides are
// joined. The steps of dst must not be negative.
func New(e Elem, axes []Axis) *Copy {
	p := &Copy{elem: e}
	p.walks(p.arrange(Coalesce(append([]Axis(nil), axes...))))
	return p
}

// Look is [New] of a copy that is only asked what it is like, and never run: it takes no memory, and axes are changed.
func Look(e Elem, axes []Axis) Copy {
	p := Copy{elem: e}
	p.arrange(Coalesce(axes))
	return p
}

// Coalesce drops dimensions of size 1, sorts the others by how far apart their elements lie,
// nearest first in dst, then in src, and joins those that are one run on both sides. It
// works in place.
func Coalesce(axes []Axis) []Axis {
	out := axes[:0]
	for _, x := range axes {
		if x.N == 1 {
			continue
		}
		at := len(out)
		out = append(out, x)
		for ; at > 0 && nearer(x, out[at-1]); at-- {
			out[at] = out[at-1]
		}
		out[at] = x
	}
	k := 0
	for _, x := range out {
		if k > 0 && x.Dst == out[k-1].N*out[k-1].Dst && x.Src == out[k-1].N*out[k-1].Src {
			out[k-1].N *= x.N
			continue
		}
		out[k] = x
		k++
	}
	return out[:k]
}

func nearer(x, y Axis) bool {
	if x.Dst != y.Dst {
		return y.Dst == 0 || x.Dst != 0 && x.Dst < y.Dst
	}
	return abs(x.Src) < abs(y.Src)
}

// Tiles returns the number of tiles, which may be copied in any order and at the same time.
func (p *Copy) Tiles() int { return p.tiles }

// Len returns the number of elements of a tile, at most.
func (p *Copy) Len() int { return p.a.tile * p.b.tile }

// Room returns the bytes of memory, aligned to 8, that a worker needs while it runs.
func (p *Copy) Room() int {
	switch {
	case p.squares():
		return squareRoom
	case !p.staged:
		return 0
	}
	return min(stagedRows, p.b.tile) * p.roomRow()
}

// roomRow is the bytes from row to row of a tile that is staged: a cache line more than it needs,
// so that rows are not a power of two apart there either.
func (p *Copy) roomRow() int { return (p.a.tile*p.elem.Src+63)/64*64 + 64 }

// arrange picks a and b from coalesced axes and cuts them into tiles. It returns the axes that are left, in the memory
// of all, for [Copy.walks].
func (p *Copy) arrange(rest []Axis) []Axis {
	one := axis{Axis{N: 1}, 1, 1}
	p.a, p.b, p.all = one, one, 1
	for _, x := range rest {
		p.all *= x.N
	}
	take := func(i int) axis {
		x := axis{Axis: rest[i]}
		rest = append(rest[:i], rest[i+1:]...)
		return x
	}
	if len(rest) > 0 {
		p.a = take(0)
	}
	at := -1
	for i, x := range rest {
		if s := abs(x.Src); s > 0 && s < abs(p.a.Src) && (at < 0 || s < abs(rest[at].Src)) {
			at = i
		}
	}
	switch {
	case at >= 0:
		p.b = take(at)
		p.cutTurned(p.between(rest) > 0)
	case len(rest) > 0:
		p.b = take(p.rowsAlong(rest))
		p.cutRows()
	default:
		p.cutRows()
	}
	p.tiles = p.a.tiles * p.b.tiles
	for _, x := range rest {
		p.tiles *= x.N
	}
	p.stream = p.stream && p.bytes() >= far
	return rest
}

// between counts those of other dimensions, nearest in dst first, that are nearer there than b. There are none where
// all that they have between rows of b is whole lines.
func (p *Copy) between(rest []Axis) int {
	n, step := 0, p.b.Dst
	for n < len(rest) && rest[n].Dst > 0 && rest[n].Dst < p.b.Dst {
		step |= rest[n].Dst
		n++
	}
	if step%machine.LineBytes == 0 {
		return 0
	}
	return n
}

// walks has the copy go over the axes beside a and b, too, its tiles numbered as they lie in dst. So a part of them
// that one of several workers has is a part of dst: were rows of one between those of another, each line that has the
// end of a row would go from core to core many times, while both write to it. Two workers, one of whom had the even
// planes of 7 by 7 pixels, took 40 us, one 15.
func (p *Copy) walks(rest []Axis) {
	at, below := p.between(rest), p.a.tiles
	if at == 0 || p.b.tiles == 1 {
		at, below = -1, p.a.tiles*p.b.tiles
	}
	p.outer = make([]outerAxis, 0, len(rest)+1)
	add := func(x Axis, ofB bool) {
		p.outer = append(p.outer, outerAxis{x, below, ofB})
		below *= x.N
	}
	b := Axis{p.b.tiles, p.b.Dst * p.b.tile, p.b.Src * p.b.tile}
	for i, x := range rest {
		if i == at {
			add(b, true)
		}
		add(x, false)
	}
	if at == len(rest) {
		add(b, true)
	}
}

// rowsAlong picks the axis b of a copy by rows. It is the nearest one in dst, so that dst is written in order; a longer
// one where rows are short beside it and all of a times b is not more than a tile, since a tile takes longer to begin
// than a few rows do.
func (p *Copy) rowsAlong(rest []Axis) int {
	at := 0
	if p.a.N*rest[0].N < leastTile {
		for i, x := range rest {
			if x.N > rest[at].N && p.a.N*x.N <= tileElems {
				at = i
			}
		}
	}
	return at
}

// cutTurned cuts tiles where the sides disagree about the fastest dimension: a panel of dst by as much of
// the rows of src as makes a tile; more of dst where those are short. Apart says that b has rows of others between its
// own: then it is cut, so that workers can have parts of it.
func (p *Copy) cutTurned(apart bool) {
	e := &p.elem
	panel, elems := panelBytes/e.Dst, p.tileElems()
	p.a.cutEvenly(max(1, elems/max(1, p.b.N)/panel)*panel, machine.LineBytes/e.Dst)
	if p.b.cut(elems / p.a.tile); apart {
		p.b.cutEvenly(min(p.b.tile, max(leastTile/p.a.tile, (p.b.N+fewParts-1)/fewParts)), machine.LineBytes/e.Src)
	}
	dense := p.a.Dst == e.Dst && p.b.Src == e.Src
	p.turned = dense && e.moves
	p.stream = p.turned
	p.staged = dense && min(p.a.tile, p.b.tile) >= 4 &&
		(!e.moves || turners[e.Dst] == nil && p.b.Dst*p.b.tile > nearSpan)
}

// bytes returns the bytes of dst that are written.
func (p *Copy) bytes() int { return p.elem.Dst * p.all }

// tileElems returns the elements of a tile, at most.
func (p *Copy) tileElems() int {
	if p.runs() {
		return min(p.perGrain(tileElems), max(p.perGrain(leastTile), p.all/fewRuns))
	}
	return min(tileElems, max(leastTile, p.all/fewTiles))
}

// cutRows cuts tiles of long rows; where rows are short and many, more of them.
func (p *Copy) cutRows() {
	if p.a.N < longRow && p.b.N > p.a.N {
		p.a.cut(p.a.N)
		p.b.cutEvenly(min(1024, max(1, p.tileElems()/max(1, p.a.N))), 1)
		return
	}
	elems := p.tileElems()
	p.a.cutEvenly(elems, machine.LineBytes)
	p.b.cutEvenly(elems/p.a.tile, 1)
	p.stream = p.elem.moves && p.a.Dst == p.elem.Dst && p.a.Src == p.elem.Src
}

// runs reports whether elements lie one behind another along a on both sides, are moved, and are not few.
func (p *Copy) runs() bool {
	return p.elem.moves && p.a.Dst == p.elem.Dst && p.a.Src == p.elem.Src && p.a.N >= longRow
}

// perGrain is how many elements of a run are as much work as n of grainSize bytes. More bytes count as one element all
// the same, as they do in loops that compute.
func (p *Copy) perGrain(n int) int { return n * max(1, grainSize/p.elem.Dst) }

// Grain returns the elements that are worth a chunk.
func (p *Copy) Grain() int {
	if p.runs() {
		return p.perGrain(machine.MoveGrain)
	}
	return machine.MoveGrain
}

// Run copies tiles [from, to). dst and src are the addresses of the elements at index 0 of
// all axes; room is memory of Room bytes.
func (p *Copy) Run(dst, src unsafe.Pointer, room []byte, from, to int) {
	p.walk(len(p.outer), room, dst, src, p.b.N, from, to)
	if p.stream {
		fence()
	}
}

// walk copies tiles [from, to) of the first outer axes, for so many places of b. It divides where it begins, not for
// every tile: divisions take longer than a small tile does.
func (p *Copy) walk(outer int, room []byte, dst, src unsafe.Pointer, nb, from, to int) {
	if outer == 0 {
		p.plane(room, dst, src, nb, from, to)
		return
	}
	x, k := &p.outer[outer-1], 0
	if from >= x.below {
		k = from / x.below
		from, to = from-k*x.below, to-k*x.below
	}
	for ; from < to; k++ {
		if x.ofB {
			nb = min(p.b.tile, p.b.N-k*p.b.tile)
		}
		p.walk(outer-1, room, unsafe.Add(dst, k*x.Dst), unsafe.Add(src, k*x.Src), nb, from, min(to, x.below))
		from, to = 0, to-x.below
	}
}

// plane copies tiles [from, to) of a and of so many places of b.
func (p *Copy) plane(room []byte, dst, src unsafe.Pointer, nb, from, to int) {
	a, b := &p.a, &p.b
	ia, ib := 0, 0
	if from > 0 {
		ia, ib = from%a.tiles, from/a.tiles
	}
	for ; from < to; from++ {
		i, j := ia*a.tile, ib*b.tile
		p.tile(room, unsafe.Add(dst, i*a.Dst+j*b.Dst), unsafe.Add(src, i*a.Src+j*b.Src), min(a.tile, a.N-i),
			min(b.tile, nb-j))
		if ia++; ia == a.tiles {
			ia, ib = 0, ib+1
		}
	}
}

// tile copies na by nb elements.
func (p *Copy) tile(room []byte, dst, src unsafe.Pointer, na, nb int) {
	a, b := Axis{na, p.a.Dst, p.a.Src}, Axis{nb, p.b.Dst, p.b.Src}
	switch {
	case p.staged:
		for j := 0; j < nb; j += stagedRows {
			b.N = min(stagedRows, nb-j)
			p.turnStaged(room, unsafe.Add(dst, j*b.Dst), unsafe.Add(src, j*b.Src), a, b)
		}
	case p.turned && p.matrix(room, dst, src, na, nb).turn():
	case p.stream && !p.turned && passRows(dst, src, na*p.elem.Dst, b):
	default:
		p.elem.Block(dst, src, a, b)
	}
}

// matrix is a tile as what is turned.
func (p *Copy) matrix(room []byte, dst, src unsafe.Pointer, na, nb int) matrix {
	m := matrix{dst: dst, src: src, dstStep: p.b.Dst, srcStep: p.a.Src, na: na, nb: nb, size: p.elem.Dst,
		stream: p.stream}
	if p.squares() {
		m.room = unsafe.Pointer(unsafe.SliceData(room))
	}
	return m
}

// squares reports whether elements, which are bytes, are turned square by square.
func (p *Copy) squares() bool {
	return p.turned && p.elem.Dst == 1 && vectorRows != nil && p.a.Src%machine.LineBytes == 0
}

// turnStaged turns a tile in room, from where it goes to dst row by row: rows of large arrays are a power of two
// apart, so that the lines of a tile written directly would push one another out of the cache before they are full.
func (p *Copy) turnStaged(room []byte, dst, src unsafe.Pointer, a, b Axis) {
	size := p.elem.Src
	at, row := unsafe.Pointer(unsafe.SliceData(room)), p.roomRow()
	blocks[size](at, src, Axis{a.N, size, a.Src}, Axis{b.N, row, size})
	for j := range b.N {
		p.elem.Row(unsafe.Add(dst, j*b.Dst), unsafe.Add(at, j*row), p.elem.Dst, size, a.N)
	}
}
