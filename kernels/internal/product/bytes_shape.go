package product

import (
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// byteShape is the division of a product of byte matrices into register tiles. The product multiplies a matrix of m x k
// elements by a matrix of k x n elements. A row is a row of the first matrix or of the result, and a column is a column
// of the second matrix or of the result. A tile is a rectangle of the result whose sums are in registers. A block is
// the range of columns of a tile, and a panel is a packed block of the second matrix.
//
// A group is a sequence of four or eight bytes along the depth k. One instruction multiplies a group of a row by a
// group of a column and sums the products. The elements of a group are bytes, or two 16-bit words. Bytes are int8 in
// columns, and uint8 or int8 in rows (see [tile.ReadsSigned]). Bytes of an operand with the other signedness are
// converted by adding or subtracting 128. The operand's zero points are converted in the same way, so that the results
// do not change.
//
// For example, with AVX-512 and VNNI, a group has four bytes, and a vector has the sums of 16 columns. A tile of 6 rows
// and 4 vectors has the sums of 6 x 64 elements of the result in 24 registers. The tiles below belong to the same
// block.
type byteShape struct {
	m, n, k        int  // rows of the result, columns of the result, depth
	groupBytes     int  // size of a group in bytes: 4, or 8 for products of byte matrices
	groupElements  int  // number of elements of a group: groupBytes, or 2 if they are words
	groups         int  // number of groups along the depth
	lanes          int  // number of columns of a vector
	vectors        int  // number of vectors of a block
	height         int  // maximum number of rows of a tile
	usesMatrixUnit bool // whether the matrix unit is used
}

// newByteShape returns the division of an m x n product of depth k. The division depends on sizes only. rows is the
// number of rows that are multiplied by the same matrix. With few rows, blocks have more vectors, because a tile needs
// enough independent sums to hide the latency of multiplications.
func newByteShape(m, n, k, rows int) byteShape {
	registers, vectorBytes := tile.VectorRegisters(machine.HostFeatures())
	shape := byteShape{m: m, n: n, k: k, groupBytes: 4, groupElements: 4, lanes: vectorBytes / sumBytes}
	otherRegisters := 1 // registers for broadcast rows, or for products before their addition
	switch {
	case machine.HostFeatures().Has(machine.MatrixBytes): // groups of eight bytes
		shape.groupBytes, shape.groupElements = 8, 8
	case !machine.HostFeatures().HasByteDot(): // groups of two words, because no instruction multiplies four bytes
		shape.groupElements, otherRegisters = 2, 2
	}
	shape.groups = kit.DivUp(k, shape.groupElements)
	suitsUnit := shape.groupElements == 4 && rows >= minUnitRows && max(n, k)*sumBytes <= maxUnitRowStep
	if suitsUnit && machine.HostWithUnit().Has(machine.MatrixUnit) {
		shape.usesMatrixUnit, shape.height = true, 2*tile.UnitRows
		shape.vectors = min(tile.UnitVectors, kit.DivUp(n, shape.lanes))
		return shape
	}
	if shape.multipliesMatrices() {
		shape.setMatrixTile(registers-otherRegisters, rows)
	} else {
		shape.setVectorTile(registers, otherRegisters, rows)
	}
	return shape
}

// setMatrixTile chooses the size of tiles for instructions that multiply matrices of bytes. registers is the number of
// registers for sums and for the columns.
func (shape *byteShape) setMatrixTile(registers, rows int) {
	maxVectors := 3
	if rows <= 4 { // 4 vectors of 4 rows fit in 31 registers
		maxVectors = 4
	}
	shape.vectors = min(maxVectors, kit.DivUp(shape.n, shape.lanes))
	columnRegisters := 2 * shape.vectors     // a register has the 8-byte groups of half of a vector's columns
	registersPerRowPair := 2 * shape.vectors // the sums of two rows
	rowPairs := (registers - columnRegisters) / registersPerRowPair
	shape.height = 2 * min(tile.MaxDynamicRows/2, rowPairs)
}

// setVectorTile chooses the size of tiles for other vector instructions. otherRegisters is the number of registers that
// are not for sums or columns.
func (shape *byteShape) setVectorTile(registers, otherRegisters, rows int) {
	maxVectors, groupRegistersPerRow := 2, 0
	switch {
	case tile.ElementsPerLoad(machine.HostFeatures(), shape.groupBytes) > 1: // a row has a register for several groups
		maxVectors, groupRegistersPerRow, otherRegisters = 4, 1, 0
	case registers < 32: // 2 vectors
	case rows <= 6: // 4 vectors of 6 rows fit in 32 registers
		maxVectors = 4
	case rows <= 9: // 3 vectors of 9 rows
		maxVectors = 3
	}
	shape.vectors = min(maxVectors, kit.DivUp(shape.n, shape.lanes))
	shape.setVectorHeight(registers-otherRegisters, groupRegistersPerRow)
}

// setVectorHeight sets the height of tiles from the number of registers for the columns and for the rows. A row has
// sums and groupRegistersPerRow registers for its groups. Code with a dynamic distance between rows supports at most
// tile.MaxDynamicRows rows.
func (shape *byteShape) setVectorHeight(registers, groupRegistersPerRow int) {
	columnRegisters, registersPerRow := shape.vectors, shape.vectors+groupRegistersPerRow
	shape.height = min(tile.MaxDynamicRows, (registers-columnRegisters)/registersPerRow)
}

// forRowStride returns the shape for a result with the given row stride, in elements. If the stride is too large for
// the matrix unit, the shape is for vector instructions. The width of panels does not change, so a packed operand is
// valid for both shapes.
func (shape byteShape) forRowStride(stride int) byteShape {
	if shape.usesMatrixUnit && stride > maxUnitRowStep/sumBytes {
		shape.usesMatrixUnit = false
		const registers, otherRegisters = 32, 1 // a machine with the matrix unit has AVX-512
		const groupRegistersPerRow = 0
		shape.setVectorHeight(registers-otherRegisters, groupRegistersPerRow)
	}
	return shape
}

const (
	// sumBytes is the number of bytes of a sum of products.
	sumBytes = 4
	// maxGroupBytes is the maximum number of bytes of a group.
	maxGroupBytes = 8
	// minUnitRows is the minimum number of rows for which the matrix unit is faster than vector instructions.
	minUnitRows = 8
	// maxUnitRowStep is the maximum distance, in bytes, between rows that the matrix unit reads or writes. The code of
	// a tile contains the offsets of its 32 rows, which must be below 2^30 bytes (see package tile).
	maxUnitRowStep = 1 << 25
)

// usesWords reports whether elements are 16-bit words.
func (shape *byteShape) usesWords() bool { return shape.groupElements < shape.groupBytes }

// multipliesMatrices reports whether tiles multiply 2 by 8 bytes of two rows by 8 by 2 bytes of two columns.
func (shape *byteShape) multipliesMatrices() bool { return shape.groupBytes == 8 }

// width returns the number of columns of a block.
func (shape *byteShape) width() int { return shape.vectors * shape.lanes }

// blocks returns the number of blocks of columns.
func (shape *byteShape) blocks() int { return kit.DivUp(shape.n, shape.width()) }

// panelBytes returns the size of a panel.
func (shape *byteShape) panelBytes() int { return shape.groups * shape.width() * shape.groupBytes }

// matrixBytes returns the size of a packed matrix: all panels, followed by an int32 sum for each column.
func (shape *byteShape) matrixBytes() int {
	return shape.blocks() * (shape.panelBytes() + shape.width()*sumBytes)
}

// rowBytes returns the size of a packed row.
func (shape *byteShape) rowBytes() int { return shape.groups * shape.groupBytes }
