package conv

import (
	"math"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// This file bounds the memory that machine code addresses, and the scratch memory of kernels. A tile is the set of
// results that the registers hold at once.

// maxReach bounds the distances, in bytes, between elements that one call of machine code accesses. Displacements in
// machine code have 32 bits, and a displacement may be the sum of two distances.
const maxReach = math.MaxInt32 / 4

// tileRowsBound is an upper bound for the number of pixels of a tile.
const tileRowsBound = 64

// inputReach returns an upper bound for the distance, in bytes, between two input elements of one window. pixelStride
// is the distance of neighbouring pixels in elements, and size the size of an element in bytes.
func (s *convShape) inputReach(pixelStride, size int) int {
	return kit.BoundedProduct(s.maxDistance(), pixelStride, size)
}

// outputReach returns an upper bound for the distance, in bytes, between two results of one tile. The pixels of a tile
// may be in two rows.
func (s *convShape) outputReach(size int) int {
	rows := min(tileRowsBound, kit.BoundedProduct(s.batch, s.pixelsOut()))
	if s.w.Results <= tileRowsBound {
		rows *= 2
	}
	return kit.BoundedProduct(rows, max(s.outPixelStride(), s.outChannels), size)
}

// allowsScratch reports whether a kernel may use the given number of elements of scratch memory. Up to alwaysAllowed
// elements are always allowed. More are allowed if the input and its windows together have at least 1/maxRatio as many
// elements, so that data bounds the memory.
func (s *convShape) allowsScratch(elements int) bool {
	const alwaysAllowed, maxRatio = 1 << 22, 16
	data := kit.BoundedProduct(s.batch, s.inChannels, s.pixelsIn()) +
		kit.BoundedProduct(s.batch, s.pixelsOut(), s.taps(), s.inChannels)
	return elements <= max(alwaysAllowed, kit.BoundedProduct(maxRatio, data))
}

// usesPlaneTiles reports whether planes are convolved by compiled loops over tiles (see planeTiles). The smallest tile
// must fit in worker memory.
func (s *convShape) usesPlaneTiles(dtype tensor.DType) bool {
	smallestTile := kit.BoundedProduct(s.h.Extent(1), s.w.Extent(min(s.w.Results, minTileCols)), dtype.Size())
	return hasTapCode(dtype) && smallestTile <= maxTapsBytes
}
