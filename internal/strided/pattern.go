package strided

import "github.com/graphrun/graphrun/internal/machine"

// This file describes how a planned copy accesses memory, for estimates of costs. It uses these fields of a Copy: axisA
// is the fastest dimension of the destination, and axisB usually the fastest of the source. Tiles extend over both.
// transposed and staged are the two ways to transpose a tile: from source to destination, or in scratch memory from
// which rows are copied.

// Pattern is the access pattern of a copy.
type Pattern uint8

const (
	// Rows means that the elements are contiguous along a row in source and destination.
	Rows Pattern = iota
	// Transposed means that source and destination have different fastest dimensions, as in a copy of a row-major to a
	// channels-last image. Tiles are transposed.
	Transposed
	// Strided means that source or destination is strided along every dimension, or elements are converted.
	Strided
)

// Pattern returns the access pattern of the copy. For Rows it also returns the length of a row in elements.
func (p *Copy) Pattern() (pattern Pattern, length int) {
	switch {
	case p.transposed || p.staged:
		return Transposed, 1
	case p.movesContiguously() || p.axisA.N == 1:
		return Rows, p.axisA.N
	}
	return Strided, 1
}

// Transposition describes the tiles of a transposing copy, for the estimate of its cost.
type Transposition struct {
	Method Method
	Tiles  int
	// LineRewrites is the number of cache lines that are written again after they left L1: a tile with many rows evicts
	// the lines that the next tile continues. It is 0 unless the method is ByElement.
	LineRewrites int
}

// Method is the method of transposing a tile.
type Method uint8

const (
	// ByRegisterTiles loads a small tile into registers, transposes it there and stores it. Without assembly routines,
	// it stands for tiles in Go.
	ByRegisterTiles Method = iota
	// ByInterleaving interleaves vectors of three adjacent rows, for example RGB planes to pixels.
	ByInterleaving
	// ByElement moves element by element, because there are too few rows or columns for a tile in registers.
	ByElement
)

const (
	// minPortableTile is the least side of a tile in Go: smaller tiles take longer per element.
	minPortableTile = 8
	// l1Lines is the number of cache lines in an L1 cache of 32 KiB. A tile that writes more lines of dst evicts its
	// first lines before the next tile writes to them.
	l1Lines = 32 << 10 / machine.LineBytes
)

// Transposition returns the tiles of a copy whose pattern is [Transposed].
func (p *Copy) Transposition() Transposition {
	transposition := Transposition{Method: p.transposeMethod(), Tiles: p.tileCount}
	// Rows of a tile are along axisA, and axisB.Dst bytes apart.
	rowsShareNoLine, exceedsL1 := p.axisB.Dst > machine.LineBytes, p.axisB.tileLen > l1Lines
	if transposition.Method == ByElement && rowsShareNoLine && exceedsL1 {
		transposition.LineRewrites = p.elementCount / p.axisA.tileLen // one line for each row of each tile
	}
	return transposition
}

// plannedRoutines are the tile routines of the instruction set for which plans are made (machine.HostFeatures, which a
// user can set to an instruction set that this processor lacks). plansThreeChannels reports whether that instruction
// set can transpose three channels at once.
var (
	plannedRoutines    = tileRoutinesOf(machine.HostFeatures())
	plansThreeChannels = machine.HostFeatures().Has(machine.Vector512)
)

// transposeMethod returns the method by which tiles are transposed.
func (p *Copy) transposeMethod() Method {
	tile := p.matrix(nil, nil, nil, p.axisA.tileLen, p.axisB.tileLen) // nil: the addresses do not matter
	// Look for a routine in registers that fits the tile, as matrix.transpose does. stream has non-temporal stores.
	for i := range plannedRoutines[tile.elemBytes] {
		routine := &plannedRoutines[tile.elemBytes][i]
		if routine.rows <= tile.rows && routine.cols <= tile.cols &&
			(routine.ordinaryStores != nil || tile.nonTemporal && routine.stream != nil) {
			return ByRegisterTiles
		}
	}
	// The conditions of transposeThreeChannels: three channels of 4 bytes are adjacent, and fill a vector of 16 elements.
	hasThreeChannels := tile.cols == 3 && tile.srcStep == 12 || tile.rows == 3 && tile.dstStep == 12
	fillsVector := tile.elemBytes == 4 && max(tile.rows, tile.cols) >= 16
	switch {
	case len(plannedRoutines[tile.elemBytes]) == 0 && min(tile.rows, tile.cols) >= minPortableTile: // tiles in Go
		return ByRegisterTiles
	case plansThreeChannels && hasThreeChannels && fillsVector:
		return ByInterleaving
	}
	return ByElement
}
