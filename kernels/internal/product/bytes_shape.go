package product

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// MultipliesBytes reports whether products of bytes are machine code here, so that it is better to state products of
// integers as such than as those of floats.
func MultipliesBytes() bool { return machine.Instructions() >= machine.AVX2 && jit.Available() == nil }

// byteShape is how a product of bytes is cut into register tiles. Four bytes at a time are a group of the depth: of
// bytes without sign in the rows' operand and with one in the other, or of two words each. Bytes come to that by
// another zero point.
type byteShape struct {
	m, n, k int
	per     int  // elements of a group
	groups  int  // of the depth
	lanes   int  // columns of a vector
	vectors int  // of a block of columns
	height  int  // rows of a tile, at most
	unit    bool // the matrix unit multiplies
}

const (
	groupBytes = 4 // of a group
	// byteUnitRows is from how many rows on the matrix unit multiplies.
	byteUnitRows = 8
	// byteUnitStep bounds the bytes between rows that the matrix unit reads or writes: the code of a tile contains the
	// distances of all its 32 rows, each below 2^30 bytes (see package tile).
	byteUnitStep = 1 << 25
)

// newByteShape chooses by sizes alone: of few rows there are more vectors, so that as many sums wait for
// multiplications as those take.
func newByteShape(m, n, k, rows int) byteShape {
	s := byteShape{m: m, n: n, k: k, per: groupBytes, lanes: 8}
	registers := 16
	if machine.Instructions() == machine.AVX512 {
		s.lanes, registers = 16, 32
	}
	beside := 1 // registers of what is broadcast, and of products that are not added yet
	if !machine.Instructions().MultipliesBytes() {
		s.per, beside = 2, 2
	}
	s.groups = kit.DivUp(k, s.per)
	if s.per == groupBytes && rows >= byteUnitRows && max(n, k)*groupBytes <= byteUnitStep &&
		machine.MultipliesMatrices() {
		s.unit, s.height = true, 2*tile.UnitRows
		s.vectors = min(tile.UnitVectors, kit.DivUp(n, s.lanes))
		return s
	}
	most := 2
	switch {
	case registers < 32:
	case rows <= 6:
		most = 4
	case rows <= 9:
		most = 3
	}
	s.vectors = min(most, kit.DivUp(n, s.lanes))
	s.height = min(tile.DynamicRows, (registers-s.vectors-beside)/s.vectors)
	return s
}

// writing returns the shape for a result with rows that are row elements apart. If that exceeds the matrix unit's
// reach, vector instructions multiply. Panels keep their width, so that packed operands fit both.
func (s byteShape) writing(row int) byteShape {
	if s.unit && row > byteUnitStep/groupBytes {
		const registers = 32 // of AVX-512, which comes with the unit
		s.unit, s.height = false, min(tile.DynamicRows, (registers-s.vectors-1)/s.vectors)
	}
	return s
}

func (s *byteShape) width() int  { return s.vectors * s.lanes }
func (s *byteShape) blocks() int { return kit.DivUp(s.n, s.width()) }

// panelBytes are those of a block of columns, and matrixBytes those of all, with the sum of each column behind them, as
// int32.
func (s *byteShape) panelBytes() int  { return s.groups * s.width() * groupBytes }
func (s *byteShape) matrixBytes() int { return s.blocks() * (s.panelBytes() + s.width()*groupBytes) }

// rowBytes are those of a row of the other operand that is packed.
func (s *byteShape) rowBytes() int { return s.groups * groupBytes }

// bytesContraction reads a call: what batch dimensions can be more rows of one matrix is.
func bytesContraction(c *graph.Call) (x *contraction, s byteShape, err error) {
	if x, err = productOf(c, c.Out[0]); err != nil {
		return nil, s, err
	}
	one := ownMatrices(c.Meta(bytesB)) == 1
	rows := x.m
	if one {
		rows *= x.entries()
	}
	if one && x.n > 1 && perIndex(c, bytesAZero) == 0 {
		x.fold()
	}
	return x, newByteShape(x.m, x.n, x.k, rows), nil
}

// ownMatrices is how many matrices an operand has.
func ownMatrices(m tensor.Meta) int { return tensor.Numel(m.Shape[:max(0, m.Rank()-2)]) }

// bytesWalks: there must be machine code, and something to add up. Rows of the result lie one behind another, whatever
// goes on with it would have.
func bytesWalks(c *graph.Call, _ []tensor.Order) []graph.Walk {
	a := c.Meta(bytesA)
	if !MultipliesBytes() || c.Out[0].Numel() == 0 || a.Shape[a.Rank()-1] == 0 {
		return nil
	}
	if m := c.Out[0]; !m.IsContiguous() {
		return []graph.Walk{c.InOrder(tensor.RowMajorOrder(m.Rank()))}
	}
	return []graph.Walk{{}}
}

// readBytes: numbers of columns lie together. Matrices that lie otherwise than row by row are turned when they are
// packed.
func readBytes(c *graph.Call, _ graph.Walk, i int, m tensor.Meta) (w graph.Work, ok bool) {
	switch {
	case i == bytesScale:
		return w, m.IsContiguous()
	case i > bytesB || m.IsContiguous() || c.Constant(i):
		return w, true
	}
	w.Bytes[graph.Tiled] = float64(2 * m.Numel())
	return w, true
}

func bytesWork(c *graph.Call, _ graph.Walk) graph.Work {
	w := graph.Work{Steps: 1}
	c.Streamed(&w)
	rows := rowMajor(c)
	x, s, err := bytesContraction(rows)
	if err != nil {
		return w
	}
	entries := float64(x.entries())
	multiply.Stored(&w, c)
	multiply.Paneled(&w, c, bytesB, s.m)
	w.Do(multiply.Start, 1)
	w.Do(multiply.Begin, entries)
	if s.unit {
		w.Do(multiply.UnitBytes, entries*multiply.UnitByteMACs(s.m, s.n, kit.DivUp(s.groups, tile.UnitTerms)))
	} else {
		w.Do(multiply.TileBytes, entries*float64(s.m)*float64(kit.DivUp(s.n, s.lanes)*s.lanes)*float64(s.groups*s.per))
	}
	w.Do(multiply.TileCall, entries*float64(kit.DivUp(s.m, s.height)*s.blocks()))
	if a := c.Meta(bytesA); s.per < groupBytes || a.DType == tensor.Int8 || s.k%s.per > 0 {
		w.Bytes[graph.Copied] += float64(a.Numel() * (1 + groupBytes/s.per))
	}
	if b := c.Meta(bytesB); !c.Constant(bytesB) {
		w.Bytes[graph.Copied] += float64(b.Numel() * (1 + groupBytes/s.per))
	}
	w.Flops = productFlops(c)
	return w
}
