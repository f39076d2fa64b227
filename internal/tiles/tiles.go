// Package tiles copies elements between two layouts of the same shape, tile by tile, such
// that the lines of both sides stay in the cache where the sides disagree about the fastest
// dimension. It works on addresses and byte steps, and knows nothing of operands.
package tiles

import (
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// Axis is a dimension of a copy: its size, and the steps in bytes on both sides. A step of
// src may be 0 or negative.
type Axis struct{ N, Dst, Src int }

// axis is a dimension cut into tiles of some length.
type axis struct{ n, dst, src, tile, tiles int }

func (x *axis) cut(tile int) {
	x.tile = max(1, min(tile, x.n))
	x.tiles = (x.n + x.tile - 1) / x.tile
}

// Copy is a copy made ready: tiles over the two dimensions that matter, a along which dst
// is written fastest and b along which src is read fastest, times all others. It is
// immutable.
type Copy struct {
	to, from tensor.DType
	a, b     axis
	outer    []axis
	row      tensor.ConvertFunc
	alongB   bool          // rows run along b, because it is the longer one
	turn     transposeFunc // not nil: dst is dense along a, src along b
	tiles    int
}

const (
	tileSide = 128   // of a tile where dst and src disagree about the fastest dimension
	rowTile  = 16384 // elements of a tile where they agree
)

// New makes a copy from elements of dtype src to elements of dtype dst ready, converted as
// tensor.Converter does. Axes may stand in any order; they should be coalesced. The two
// sides must not overlap, but for the same elements of the same dtype.
func New(dst, src tensor.DType, axes []Axis) *Copy {
	p := &Copy{to: dst, from: src, row: Mover(dst, src)}
	p.arrange(axes)
	p.tiles = p.a.tiles * p.b.tiles
	for _, x := range p.outer {
		p.tiles *= x.n
	}
	return p
}

// Tiles returns the number of tiles, which may be copied in any order and at the same time.
func (p *Copy) Tiles() int { return p.tiles }

// Len returns the number of elements of a tile, at most.
func (p *Copy) Len() int { return p.a.tile * p.b.tile }

// Room returns the bytes of memory that a worker needs while it runs.
func (p *Copy) Room() int {
	if p.turn == nil {
		return 0
	}
	return tileSide * tileSide * p.to.Size()
}

// Mover returns the loop over a row. Equal dtypes are moved as they are; the converter
// from bool to bool would look at every byte.
func Mover(dst, src tensor.DType) tensor.ConvertFunc {
	if dst == tensor.Bool && src == tensor.Bool {
		return tensor.Converter(tensor.Uint8, tensor.Uint8)
	}
	return tensor.Converter(dst, src)
}

// arrange picks a and b from the axes and cuts them into tiles.
func (p *Copy) arrange(axes []Axis) {
	one := axis{n: 1, tile: 1, tiles: 1}
	p.a, p.b = one, one
	var rest []axis
	for _, x := range axes {
		if x.N > 1 {
			rest = append(rest, axis{n: x.N, dst: x.Dst, src: x.Src})
		}
	}
	take := func(key func(x axis) int) (axis, bool) {
		at := -1
		for i, x := range rest {
			if k := key(x); k > 0 && (at < 0 || k < key(rest[at])) {
				at = i
			}
		}
		if at < 0 {
			return one, false
		}
		x := rest[at]
		rest = append(rest[:at:at], rest[at+1:]...)
		return x, true
	}
	p.a, _ = take(func(x axis) int { return x.dst })
	bySrc := func(x axis) int { return max(x.src, -x.src) }
	b, differ := take(func(x axis) int {
		if s := bySrc(x); s < bySrc(p.a) {
			return s
		}
		return 0
	})
	if differ {
		p.b = b
		p.cutSquare()
	} else {
		p.b, _ = take(func(x axis) int { return x.dst })
		p.cutRows()
	}
	p.outer = rest
}

// cutSquare cuts tiles in which the lines of both sides stay in the cache.
func (p *Copy) cutSquare() {
	ta, tb := min(tileSide, p.a.n), min(tileSide, p.b.n)
	if ta < tileSide {
		tb = min(p.b.n, tileSide*tileSide/ta)
	} else if tb < tileSide {
		ta = min(p.a.n, tileSide*tileSide/tb)
	}
	p.a.cut(ta)
	p.b.cut(tb)
	p.alongB = tb > ta
	size := p.to.Size()
	if p.to == p.from && p.a.dst == size && p.b.src == size && min(ta, tb) >= 4 {
		p.turn = transposers[size]
	}
}

// cutRows cuts tiles of long rows; where rows are short and many, they are walked across.
func (p *Copy) cutRows() {
	if p.a.n < 16 && p.b.n > p.a.n {
		p.alongB = true
		p.a.cut(p.a.n)
		p.b.cut(1024)
		return
	}
	p.a.cut(rowTile)
	p.b.cut(rowTile / p.a.tile)
}

// Run copies tiles [from, to). dst and src are the addresses of the elements at index 0 of
// all axes; room is memory of Room bytes.
func (p *Copy) Run(dst, src unsafe.Pointer, room []byte, from, to int) {
	for t := from; t < to; t++ {
		ia, r := t%p.a.tiles, t/p.a.tiles
		ib, r := r%p.b.tiles, r/p.b.tiles
		ia, ib = ia*p.a.tile, ib*p.b.tile
		d, s := ia*p.a.dst+ib*p.b.dst, ia*p.a.src+ib*p.b.src
		for i := range p.outer {
			x := &p.outer[i]
			k := r % x.n
			r /= x.n
			d, s = d+k*x.dst, s+k*x.src
		}
		p.tile(room, unsafe.Add(dst, d), unsafe.Add(src, s), min(p.a.tile, p.a.n-ia), min(p.b.tile, p.b.n-ib))
	}
}

// tile copies na by nb elements.
func (p *Copy) tile(room []byte, dst, src unsafe.Pointer, na, nb int) {
	switch {
	case p.turn != nil:
		p.turn(unsafe.Pointer(unsafe.SliceData(room)), dst, src, p.b.dst, p.a.src, na, nb)
	case p.alongB:
		for i := range na {
			p.row(unsafe.Add(dst, i*p.a.dst), unsafe.Add(src, i*p.a.src), p.b.dst, p.b.src, nb)
		}
	default:
		for j := range nb {
			p.row(unsafe.Add(dst, j*p.b.dst), unsafe.Add(src, j*p.b.src), p.a.dst, p.a.src, na)
		}
	}
}
