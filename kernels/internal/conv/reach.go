package conv

import (
	"math"

	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// This file bounds the memory that machine code addresses, and the scratch memory of kernels. A tile is the set of
// results that the registers hold at once.

// maxReach bounds the distances, in bytes, between elements that one call of machine code accesses. Displacements in
// machine code have 32 bits. A displacement may be the sum of two distances, and the bound has a factor of 2 in
// reserve.
const maxReach = math.MaxInt32 / 4

// maxTilePixels is an upper bound for the number of output pixels of a tile.
const maxTilePixels = 64

// inputReach returns an upper bound for the distance, in bytes, between two input elements of one window. pixelStride
// is the distance of neighbouring pixels in elements, and size the size of an element in bytes.
func (s *convShape) inputReach(pixelStride, size int) int {
	return kit.BoundedProduct(s.maxDistance(), pixelStride, size)
}

// outputReach returns an upper bound for the distance, in bytes, between two results of one tile. The pixels of a tile
// are consecutive, or they are in two short rows of the result (rowPairTiling). Two rows of up to maxTilePixels pixels
// have up to 2*maxTilePixels pixels.
func (s *convShape) outputReach(size int) int {
	pixels := min(maxTilePixels, kit.BoundedProduct(s.batch, s.pixelsOut()))
	if s.w.Results <= maxTilePixels {
		pixels *= 2
	}
	return kit.BoundedProduct(pixels, max(s.outPixelStride(), s.outChannels), size)
}

// allowsScratch reports whether a kernel may use the given number of elements of scratch memory. Up to alwaysAllowed
// elements are always allowed. The limit is otherwise maxRatio times the number of elements of the input and of all its
// windows, so that data bounds the memory.
func (s *convShape) allowsScratch(elements int) bool {
	const alwaysAllowed, maxRatio = 1 << 22, 16
	data := kit.BoundedProduct(s.batch, s.inChannels, s.pixelsIn()) +
		kit.BoundedProduct(s.batch, s.pixelsOut(), s.taps(), s.inChannels)
	return elements <= max(alwaysAllowed, kit.BoundedProduct(maxRatio, data))
}
