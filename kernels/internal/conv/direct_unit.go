package conv

import (
	"math"

	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/pricing"
)

// This file chooses the tiles of direct convolutions of bytes, in particular for the matrix unit of x86 (AMX). A tile
// has some output pixels and the channels of a block. An element is a set of adjacent input channels of a pixel that
// one instruction multiplies and sums (see hostElementChannels): eight bytes for products of byte matrices
// (matrixChannels), four bytes for dot products and for the matrix unit (dotChannels), or two words.
//
// A tile of the matrix unit has up to 32 pixels, in two parts of 16, and up to two vectors of channels. For a result
// with rows of 14 pixels, for example, a tile is a row pair, that is, two rows of the result: its parts are the 14
// pixels of each row.
//
// A directShape (direct_shape.go) has the limits of a tile: its pixels (rows) and its vectors of channels. splitEvenly
// divides pixels into tiles of at most two sizes, and bySize returns the number of tiles of each size.

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

// useByteMatrices chooses tiles for instructions that multiply byte matrices (SMMLA of arm64), so that they take the
// fewest instructions. An instruction adds products to one register of sums, of two pixels and two channels. Its
// operands are the elements of the two pixels, and the weights of the two channels. A vector of lanes has four
// channels. It therefore takes two registers of weights, and two registers of sums for each pair of pixels.
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
		// Registers hold the weights (2*vectors), the elements of a pair (1) and the sums (2*vectors for each pair).
		maxPairs := (registers - 2*vectors - 1) / (2 * vectors)
		rows, instructions := 2*maxPairs, 0
		for _, tiles := range splitEvenly(pixels, rows).bySize() {
			pairs := kit.DivUp(tiles.size, 2)
			instructions += tiles.count * (groupVectors / vectors) * tileInstructions(pairs, vectors)
			if lastVectors := groupVectors % vectors; lastVectors > 0 { // the last block of the group
				instructions += tiles.count * tileInstructions(pairs, lastVectors)
			}
		}
		if instructions < least {
			least, shape.vectors, shape.rows = instructions, vectors, rows
		}
	}
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
func (s *convShape) unitWork(work *pricing.Work, shape *directShape) {
	pixels, halfTiles := s.batch*s.h.Results*s.w.Results, 0 // halfTiles: number of parts of up to UnitRows pixels
	if shape.tiling == pointwiseTiling {
		halfTiles = splitEvenly(pixels, tile.UnitRows).count
	} else {
		halfTiles = s.batch * s.h.Results * splitEvenly(s.w.Results, tile.UnitRows).count
	}
	multiply.ReclassifyStores(work, s.call)
	const weight = 1 // operand
	multiply.ReclassifyPanels(work, s.call, weight, s.batch*s.pixelsOut())
	work.AddUnoverlapped(rateDirectStart, 1) // one start of a direct convolution
	if !s.call.IsConstant(weight) {
		work.AddUnits(multiply.RatePackRow, float64(s.outChannels*s.termsPerOutput()))
	}
	halfTilePixels := kit.DivUp(pixels, halfTiles)
	macs := multiply.UnitByteMACs(halfTilePixels, s.outPerGroup(), s.unitInstructions())
	work.AddUnits(multiply.RateUnitBytes, float64(halfTiles*s.groups)*macs)
	t := &directConv{conv: s, shape: *shape, elemBytes: intBytes, inElemBytes: dotChannels}
	work.AddUnits(rateDirectTiles, float64(kit.DivUp(halfTiles, 2)*t.blockCount()))
	work.Flops = 2 * float64(pixels*s.outChannels) * float64(s.termsPerOutput())
}
