package strided

import "github.com/graphrun/graphrun/internal/machine"

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
	case p.elem.copiesUnchanged && p.axisA.Dst == p.elem.DstSize && p.axisA.Src == p.elem.SrcSize || p.axisA.N == 1:
		return Rows, p.axisA.N
	}
	return Strided, 1
}

// Transposition describes the tiles of a transposing copy, for the estimate of its cost.
type Transposition struct {
	Method Method
	Tiles  int
	// LineRewrites is the number of times that an element-wise tile writes to a cache line that has left L1 since
	// the previous tile wrote to it.
	LineRewrites int
}

// Method is the method of transposing a tile.
type Method uint8

const (
	// ByRegisterTiles loads a small tile into registers, transposes it there and stores it.
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
	if transposition.Method == ByElement && p.axisB.Dst > machine.LineBytes && p.axisB.tileLen > l1Lines {
		transposition.LineRewrites = p.elementCount / p.axisA.tileLen // the rows of all tiles
	}
	return transposition
}

// plannedRoutines are the tile routines of the instruction set for which plans are made. plansThreeChannels reports
// whether this set can transpose three channels at once. The processor may lack the set: see [machine.RunError].
var (
	plannedRoutines    = tileRoutinesOf(machine.HostFeatures())
	plansThreeChannels = machine.HostFeatures().Has(machine.Vector512)
)

// transposeMethod returns the method by which tiles are transposed.
func (p *Copy) transposeMethod() Method {
	tile := p.matrix(nil, nil, nil, p.axisA.tileLen, p.axisB.tileLen)
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
	case len(plannedRoutines[tile.elemBytes]) == 0 && min(tile.rows, tile.cols) >= minPortableTile:
		return ByRegisterTiles
	case plansThreeChannels && hasThreeChannels && fillsVector:
		return ByInterleaving
	}
	return ByElement
}
