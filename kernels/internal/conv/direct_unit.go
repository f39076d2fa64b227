package conv

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
)

// This file chooses the tiles of direct convolutions of bytes, in particular for the matrix unit of x86 (AMX). A tile
// has some output pixels and the channels of a block. An element is a set of adjacent input channels of a pixel that
// one instruction multiplies and sums (see hostElementChannels): eight, four or two channels.
//
// A tile of the matrix unit has up to 32 pixels, in two parts of 16, and up to two vectors of channels. For a result
// with rows of 14 pixels, for example, a tile is a row pair, that is, two rows of the result: its parts are the 14
// pixels of each row.
//
// The types are declared in other files. A directShape (direct_shape.go) has the limits of a tile: its pixels (rows)
// and its vectors of channels. A directConv (direct.go) is the kernel of a convolution. A tile.Spec describes the code
// of a tile, and a directCall a call of this code for a sequence of tiles. splitEvenly divides pixels into tiles of at
// most two sizes, the longer tiles first. Its kinds have one entry for each size, with the pixels of its tiles (total)
// and their number (count).

// unitPixels is the minimum number of pixels for which the matrix unit is used. Fewer pixels do not amortize the loads
// of the weight.
const unitPixels = 8

// usesMatrixUnit reports whether the matrix unit computes a convolution of elements of four bytes.
func (s *convShape) usesMatrixUnit() bool {
	return machine.HostWithUnit().Has(machine.MatrixUnit) && s.outPerGroup() >= minGroupChannels &&
		s.batch*s.h.Results*s.w.Results >= unitPixels &&
		kit.BoundedProduct(2, s.w.Results, s.outChannels, intBytes) < maxReach // a tile may span two rows of the result
}

// elementShape returns the tiles of a convolution of elements (see elementConv), which have `channels` channels each.
func (s *convShape) elementShape(channels int) directShape {
	const byPlanes = false
	shape := newDirectShape(s, directDType, byPlanes)
	if channels == matrixChannels {
		shape.useByteMatrices(s)
	}
	if channels != dotChannels || !s.usesMatrixUnit() {
		return shape
	}
	shape.usesMatrixUnit = true
	shape.vectors = min(tile.UnitVectors, kit.DivUp(s.outPerGroup(), shape.lanes))
	shape.rows = 2 * tile.UnitRows
	if shape.tiling != pointwiseTiling {
		shape.tiling = rowPairTiling
	}
	return shape
}

// useByteMatrices chooses tiles for instructions that multiply byte matrices, so that they take the fewest
// instructions. A register has the sums of two pixels, and another register their elements. A vector of lanes takes two
// registers of weights.
func (shape *directShape) useByteMatrices(conv *convShape) {
	const maxMatrixVectors = 4
	registers, _ := tile.VectorRegisters(machine.HostFeatures())
	groupVectors, least := kit.DivUp(conv.outPerGroup(), shape.lanes), math.MaxInt
	pixels := conv.w.Results // pixels that are divided into tiles together
	if shape.tiling != rowTiling {
		pixels = conv.pixelsOut()
	}
	// A pair of pixels takes 3 instructions to load its elements (two loads and an interleaving), and 2*vectors to
	// multiply. The weights take 2*vectors.
	tileInstructions := func(pairs, vectors int) int { return pairs*(2*vectors+3) + 2*vectors }
	for vectors := 1; vectors <= min(groupVectors, maxMatrixVectors); vectors++ {
		// The registers hold the weights (2*vectors), the elements of a pair (1) and the sums (vectors for each pair).
		rows, instructions := 2*((registers-2*vectors-1)/vectors/2), 0
		for _, kind := range splitEvenly(pixels, rows).kinds() {
			pairs := kit.DivUp(kind.total/kind.count, 2)
			instructions += kind.count * (groupVectors / vectors) * tileInstructions(pairs, vectors)
			if lastVectors := groupVectors % vectors; lastVectors > 0 { // the last block of the group
				instructions += kind.count * tileInstructions(pairs, lastVectors)
			}
		}
		if instructions < least {
			least, shape.vectors, shape.rows = instructions, vectors, rows
		}
	}
}

// makeRowPairTiles makes strips of row pairs. A row pair is the one or two rows of the result that a tile spans. The
// tiles of a strip in the same columns are computed by one call. If the number of rows is odd, the last pair has one
// row and its own specs.
func (t *directConv) makeRowPairTiles() {
	conv, pairRows := t.conv, t.pairRows()
	t.tiles = splitEvenly(conv.w.Results, t.maxTileRows()/pairRows)
	pairs := kit.DivUp(conv.h.Results, pairRows)
	tilePixels := kit.DivUp(conv.w.Results, t.tiles.count) * pairRows
	// Rows of the unit's registers for all tiles of a pair, including unused rows.
	unitRows := t.tiles.count * kit.DivUp(tilePixels, tile.UnitRows) * tile.UnitRows
	t.stripRanges = machine.DivideUnits(pairs, unitRows*t.shape.blockChannels()*conv.unitDepth(), tile.UnitMinCallGroups)
	t.stripCount = t.stripRanges.Chunks
	lastRows := conv.h.Results % pairRows // rows of a shorter last pair; 0 if there is none
	for _, rows := range []int{pairRows, lastRows} {
		for _, kind := range t.tiles.kinds() {
			if rows > 0 {
				t.specs = append(t.specs, t.rowPairSpec(rows, kind.total/kind.count))
			}
		}
	}
}

// pairRows returns the number of rows of a row pair: two if the result has two and they fit a tile, else one.
func (t *directConv) pairRows() int {
	if t.conv.w.Results > tile.UnitRows || 2*t.conv.w.Results > t.maxTileRows() {
		return 1
	}
	return min(2, t.conv.h.Results)
}

// appendRowPairCalls appends the calls of a strip: first the calls for whole row pairs, then the calls for a shorter
// last pair.
func (t *directConv) appendRowPairCalls(calls []directCall, strip int) []directCall {
	first, end := t.stripRanges.ChunkRange(strip)
	wholePairs := min(end, t.conv.h.Results/t.pairRows())
	// t.specs has the kinds of tiles of whole pairs, and then the kinds of the last pair.
	firstKind, firstLastKind := 0, len(t.tiles.kinds())
	calls = t.appendPairs(calls, firstKind, first, wholePairs-first)
	return t.appendPairs(calls, firstLastKind, wholePairs, end-wholePairs)
}

// appendPairs appends a call for each tile of a row pair. The call computes this tile in `pairs` row pairs from
// firstPair on. kind is the kind of the longer tiles, and kind+1 that of the shorter tiles.
func (t *directConv) appendPairs(calls []directCall, kind, firstPair, pairs int) []directCall {
	conv, firstRow := t.conv, firstPair*t.pairRows()
	for i := 0; i < t.tiles.count && pairs > 0; i++ {
		if i > 0 && t.tiles.size(i) < t.tiles.size(i-1) { // the first of the shorter tiles
			kind++
		}
		column := t.tiles.start(i) // of the result
		calls = append(calls, directCall{kind: kind, tiles: pairs, windowRows: conv.h.Taps,
			in:  (firstRow*conv.h.Stride*conv.w.Size + column*conv.w.Stride) * t.inPixelBytes,
			out: (firstRow*conv.w.Results + column) * t.outPixelBytes()})
	}
	return calls
}

// rowPairSpec returns the spec of a tile that has n pixels in each of one or two rows of the result. Images have been
// padded, so all taps are inside the image.
func (t *directConv) rowPairSpec(rows, n int) *tile.Spec {
	conv, spec := t.conv, t.newSpec(rows*n)
	for i := range rows * n {
		row, col := i/n, i%n
		spec.In = append(spec.In, (row*conv.h.Stride*conv.w.Size+col*conv.w.Stride)*t.inPixelBytes)
		spec.Out = append(spec.Out, (row*conv.w.Results+col)*t.outPixelBytes())
	}
	spec.Tiles = tile.Loop{InStep: rows * conv.h.Stride * conv.w.Size * t.inPixelBytes,
		OutStep: rows * conv.w.Results * t.outPixelBytes()}
	const in, vec = 0, 0 // the loop over window rows adds the offsets of a row
	t.addWindowRow(spec, in, vec, func(_, _ int) bool { return true })
	spec.Loops = []tile.Loop{t.windowRowLoop()}
	return spec
}

// unitInstructions returns the number of instructions of the matrix unit that multiply the terms of a pixel. One
// instruction multiplies up to tile.UnitTerms adjacent terms. If there is neither dilation nor several groups, the
// terms of a row of the window are adjacent.
func (s *convShape) unitInstructions() int {
	if s.w.Dilation == 1 && s.groups == 1 {
		return s.h.Taps * kit.DivUp(s.w.Taps*s.inPerGroup, tile.UnitTerms)
	}
	return s.h.Taps * s.w.Taps * kit.DivUp(s.inPerGroup, tile.UnitTerms)
}

// unitDepth returns the number of terms of a pixel, including the unused terms of instructions that multiply fewer than
// tile.UnitTerms.
func (s *convShape) unitDepth() int { return s.unitInstructions() * tile.UnitTerms }

// unitWork adds the work of a convolution on the matrix unit.
func (s *convShape) unitWork(work *graph.Work, shape *directShape) {
	t := &directConv{conv: s, shape: *shape, elemBytes: intBytes, inElemBytes: dotChannels}
	pixels, halfTiles := s.batch*s.h.Results*s.w.Results, 0 // halfTiles: number of parts of up to UnitRows pixels
	if shape.tiling == pointwiseTiling {
		halfTiles = splitEvenly(pixels, tile.UnitRows).count
	} else {
		halfTiles = s.batch * s.h.Results * splitEvenly(s.w.Results, tile.UnitRows).count
	}
	multiply.ReclassifyStores(work, s.call)
	multiply.ReclassifyPanels(work, s.call, 1, s.batch*s.pixelsOut())
	work.AddUnoverlapped(rateDirectStart, 1)
	if !s.call.IsConstant(1) {
		work.AddUnits(multiply.RatePackRow, float64(s.outChannels*s.termsPerOutput()))
	}
	macs := multiply.UnitByteMACs(kit.DivUp(pixels, halfTiles), s.outPerGroup(), s.unitInstructions())
	work.AddUnits(multiply.RateUnitBytes, float64(halfTiles*s.groups)*macs)
	work.AddUnits(rateDirectTiles, float64(kit.DivUp(halfTiles, 2)*t.blockCount()))
	work.Flops = 2 * float64(pixels*s.outChannels) * float64(s.termsPerOutput())
}
