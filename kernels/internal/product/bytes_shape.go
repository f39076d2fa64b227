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

// MultipliesBytes reports whether byte products run as machine code on this machine. Without machine code, a byte
// product is slower than the float product that it would replace.
func MultipliesBytes() bool { return tile.SupportsIntegers(machine.Host()) && jit.Available() == nil }

// byteShape is the division of a byte product into register tiles. The product multiplies m x k elements (the rows) by
// k x n elements (the columns). A group is four bytes along the depth k. One instruction multiplies a group of a row by
// a group of a column and sums the products. A group has four elements, which are int8 in columns, and in rows uint8 or
// int8 (see [tile.ReadsSigned]), or two elements as 16-bit words. Other rows and columns are converted by adding or
// subtracting 128. Their zero points are converted in the same way, so that the results do not change. A block is a set
// of columns that a tile computes at once. A panel is a packed block.
type byteShape struct {
	m, n, k       int
	groupElements int  // number of elements of a group: 4 or 2
	groups        int  // number of groups along the depth
	lanes         int  // number of columns of a vector
	vectors       int  // number of vectors of a block
	height        int  // maximum number of rows of a tile
	usesUnit      bool // whether the matrix unit is used
}

const (
	// groupBytes is the number of bytes of a group.
	groupBytes = 4
	// minUnitRows is the minimum number of rows for which the matrix unit is faster than vector instructions.
	minUnitRows = 8
	// maxUnitRowStep bounds the bytes between rows that the matrix unit reads or writes. The code of a tile contains the
	// offsets of its 32 rows, which must be below 2^30 bytes (see package tile).
	maxUnitRowStep = 1 << 25
)

// newByteShape returns the division of a product, which depends on sizes only. rows is the number of rows that are
// multiplied by the same matrix. With few rows, blocks have more vectors, because a tile needs enough independent sums
// to hide the latency of multiplications.
func newByteShape(m, n, k, rows int) byteShape {
	registers, bytes := tile.Registers(machine.Host())
	s := byteShape{m: m, n: n, k: k, groupElements: groupBytes, lanes: bytes / groupBytes}
	otherRegisters := 1 // registers for broadcast operands, or for products before they are added
	if !machine.Host().DotsBytes() {
		s.groupElements, otherRegisters = 2, 2
	}
	s.groups = kit.DivUp(k, s.groupElements)
	if s.groupElements == groupBytes && rows >= minUnitRows && max(n, k)*groupBytes <= maxUnitRowStep &&
		machine.HostWithUnit().Has(machine.MatrixUnit) {
		s.usesUnit, s.height = true, 2*tile.UnitRows
		s.vectors = min(tile.UnitVectors, kit.DivUp(n, s.lanes))
		return s
	}
	maxVectors, perRow := 2, 0 // perRow is the number of registers of a row besides its sums
	switch {
	case tile.ElementsPerLoad(machine.Host(), groupBytes) > 1:
		maxVectors, perRow, otherRegisters = 4, 1, 0
	case registers < 32:
	case rows <= 6: // 4 vectors of 6 rows fit in 32 registers
		maxVectors = 4
	case rows <= 9: // 3 vectors of 9 rows
		maxVectors = 3
	}
	s.vectors = min(maxVectors, kit.DivUp(n, s.lanes))
	s.height = min(tile.DynamicRows, (registers-s.vectors-otherRegisters)/(s.vectors+perRow))
	return s
}

// forRowStride returns the shape for a result with the given row stride, in elements. If the stride is too large for
// the matrix unit, the shape is for vector instructions. The width of panels does not change, so a packed operand is
// valid for either shape.
func (s byteShape) forRowStride(row int) byteShape {
	if s.usesUnit && row > maxUnitRowStep/groupBytes {
		const registers = 32 // a machine with the matrix unit has AVX-512
		s.usesUnit, s.height = false, min(tile.DynamicRows, (registers-s.vectors-1)/s.vectors)
	}
	return s
}

// width returns the number of columns of a block.
func (s *byteShape) width() int { return s.vectors * s.lanes }

// blocks returns the number of blocks of columns.
func (s *byteShape) blocks() int { return kit.DivUp(s.n, s.width()) }

// panelBytes returns the size of a panel.
func (s *byteShape) panelBytes() int { return s.groups * s.width() * groupBytes }

// matrixBytes returns the size of a packed matrix: all panels, followed by an int32 sum for each column.
func (s *byteShape) matrixBytes() int { return s.blocks() * (s.panelBytes() + s.width()*groupBytes) }

// rowBytes returns the size of a packed row.
func (s *byteShape) rowBytes() int { return s.groups * groupBytes }

// bytesContraction describes a call as a contraction, and divides it into tiles. Batch dimensions become rows of one
// matrix if possible.
func bytesContraction(c *graph.Call) (x *contraction, s byteShape, err error) {
	if x, err = productContraction(c, c.Out[0]); err != nil {
		return nil, s, err
	}
	sharedMatrix := storedMatrices(c.Meta(bytesB)) == 1
	rows := x.m
	if sharedMatrix {
		rows *= x.entries()
	}
	if sharedMatrix && x.n > 1 && vectorStride(c, bytesAZero) == 0 {
		x.mergeBatch()
	}
	return x, newByteShape(x.m, x.n, x.k, rows), nil
}

// storedMatrices returns the number of matrices that an operand stores. Broadcasting may repeat them in the batch of
// the product.
func storedMatrices(m tensor.Meta) int { return tensor.Numel(m.Shape[:max(0, m.Rank()-2)]) }

// bytesWalks returns the row-major walk if there is machine code and the products have terms. Users of the result may
// prefer another layout, but tiles only write row-major results.
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

// readBytes is the Read function of byte products. Scales must be contiguous. Matrices that are not row-major are
// transposed when they are packed, which has a cost.
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

// bytesWork returns the cost of byte products in register tiles.
func bytesWork(c *graph.Call, _ graph.Walk) graph.Work {
	w := graph.Work{Steps: 1}
	c.AddStreamed(&w)
	rows := rowMajor(c)
	x, s, err := bytesContraction(rows)
	if err != nil {
		return w
	}
	entries := float64(x.entries())
	multiply.ReclassifyStores(&w, c)
	multiply.ReclassifyPanels(&w, c, bytesB, s.m)
	w.Do(multiply.RateStartStep, 1)
	w.Do(multiply.RateStartProduct, entries)
	if s.usesUnit {
		w.Do(multiply.RateUnitBytes, entries*multiply.UnitByteMACs(s.m, s.n, kit.DivUp(s.groups, tile.UnitTerms)))
	} else {
		w.Do(multiply.RateTileBytes,
			entries*float64(s.m)*float64(kit.DivUp(s.n, s.lanes)*s.lanes)*float64(s.groups*s.groupElements))
	}
	w.Do(multiply.RateTileCall, entries*float64(kit.DivUp(s.m, s.height)*s.blocks()))
	if a := c.Meta(bytesA); s.groupElements < groupBytes || a.DType == tensor.Int8 || s.k%s.groupElements > 0 {
		w.Bytes[graph.Copied] += float64(a.Numel() * (1 + groupBytes/s.groupElements))
	}
	if b := c.Meta(bytesB); !c.Constant(bytesB) {
		w.Bytes[graph.Copied] += float64(b.Numel() * (1 + groupBytes/s.groupElements))
	}
	w.Flops = productFlops(c)
	return w
}
