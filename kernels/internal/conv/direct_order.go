package conv

import (
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
)

// This file orders the work of a direct convolution: the strips of all blocks. A block is a group of output channels
// that are computed together, and a panel is the packed weight of a block. A tile is the set of results that the
// registers hold at once, and a strip is a sequence of tiles in one block. For example, a result of 64 channels and
// 56x56 pixels may have two blocks of 32 channels, with a strip for each of 56 rows. With bands of 28 strips, the order
// is: strips 0 to 27 of block 0, strips 0 to 27 of block 1, strips 28 to 55 of block 0, strips 28 to 55 of block 1.

const (
	// smallWeightBytes is the maximum size, in bytes, of a small weight. A small weight and the input of a strip stay
	// in the L2 cache together while all blocks of the strip are computed.
	smallWeightBytes = 1 << 16
	// bandInputBytes is the maximum size, in bytes, of the input of a band, so that the input stays in the L2 cache
	// while all blocks of a large weight are computed. The same limit applies to the weight of all blocks: a weight of
	// more bytes is evicted from the cache between two images.
	bandInputBytes = 1 << 20
	// prefetchDistanceBytes is how far ahead of their use weights are prefetched, in bytes.
	prefetchDistanceBytes = 8 << 10
	// minStripPixels is the minimum number of pixels per strip for which multiplying takes longer than loading the
	// weight.
	minStripPixels = 16
	// maxPrefetchedLines bounds the cache lines that each iteration of the loop over terms prefetches.
	maxPrefetchedLines = 4
)

// chooseOrder chooses the order of blocks and strips (see [multiply.StripOrder]), and the memory that the code
// prefetches.
//
// The bands are computed one after another. A band is a sequence of strips for which all blocks are computed together.
// If the weight stays in cache, a band is one strip. Otherwise a band is a sequence of strips whose input stays in
// cache. If the image has more bytes than the weight, a band is at most half of the image, so that two workers divide
// the rows between them and not the channels. If the weight exceeds the L2 cache, a band may span several images.
//
// With a large weight, each strip prefetches an equal part of the weight of the next block. Without this, the first
// tile of the next block would wait until its whole panel is loaded. With a small weight and an image larger than the
// L2 cache, each tile prefetches the pixels of the next tile. The hardware prefetcher does not follow all rows that a
// tile reads.
func (t *directConv) chooseOrder() {
	conv := t.conv
	t.order = multiply.StripOrder{Images: t.imageCount, Blocks: t.blockCount(), Strips: t.stripCount, BandStrips: 1}
	if t.hasLargeWeight() {
		t.chooseBands()
		t.prefetchWeights()
	} else if t.shape.tiling == pointwiseTiling && !t.shape.byPlanes { // windows of one pixel, channels-last images
		if batchBytes := conv.batch * conv.pixelsIn() * t.inPixelBytes; batchBytes > cachedPixelBytes {
			t.prefetchPixels()
		}
	}
	// A chunk is the work that a worker takes at a time. It has enough units (a unit is one strip of one block) for the
	// multiply-adds of one grain. stripPixels is the mean number of pixels of a strip.
	stripPixels := conv.batch * conv.pixelsOut() / max(1, t.imageCount*t.stripCount)
	grain := machine.MACGrain
	if t.shape.usesMatrixUnit {
		grain *= tile.UnitGrain
	}
	stripMACs := kit.BoundedProduct(max(stripPixels, minStripPixels), t.shape.blockChannels(), conv.termsPerOutput())
	t.order.Divide(stripMACs, grain)
}

// chooseBands chooses the number of strips of a band for a large weight.
func (t *directConv) chooseBands() {
	conv := t.conv
	weightBytes := t.blockCount() * t.panelBytes()
	t.bandsSpanImages = t.imageCount > 1 && weightBytes > bandInputBytes
	if t.bandsSpanImages {
		t.order.Images, t.order.Strips = 1, t.imageCount*t.stripCount // number the strips of all images together
	}
	images := conv.batch / t.order.Images // number of images that a band may span
	readBytes := images * conv.inChannels * conv.pixelsIn() * t.inElemBytes
	writtenBytes := images * conv.outChannels * conv.pixelsOut() * t.inElemBytes // with the input's element size
	bands := kit.DivUp(readBytes, bandInputBytes)
	if weightBytes <= readBytes+writtenBytes {
		bands = max(2, bands) // for two workers
	}
	t.order.BandStrips = kit.DivUp(t.order.Strips, bands)
}

// prefetchWeights lets the strips of a band prefetch the panel of the next block. It distributes the cache lines of the
// panel over the iterations of the loops over terms, in all tiles of the band.
func (t *directConv) prefetchWeights() {
	tiles := t.tiles.count // of an image; with rowPairTiling, of one row pair
	if t.shape.tiling == rowTiling {
		tiles *= t.stripCount // a strip is a row, and t.tiles are the tiles of one row
	}
	bandTiles := tiles * t.order.BandStrips / t.stripCount
	iterations := max(1, bandTiles*t.conv.termsPerOutput()/tile.DefaultUnroll)
	lines := kit.DivUp(t.panelBytes(), machine.LineBytes)
	t.prefetchLines = min(maxPrefetchedLines, kit.DivUp(lines, iterations))
	t.stripPrefetchBytes = kit.DivUp(t.panelBytes(), t.order.BandStrips)
}

// prefetchPixels lets each tile prefetch the pixels of the next tile.
func (t *directConv) prefetchPixels() {
	t.prefetchesImage = true
	lines := kit.DivUp(t.maxTileRows()*t.inPixelBytes, machine.LineBytes)
	t.prefetchLines = min(maxPrefetchedLines, kit.DivUp(lines, max(1, t.conv.inPerGroup/tile.DefaultUnroll)))
}

// blockCount returns the number of blocks of output channels in all groups.
func (t *directConv) blockCount() int {
	return t.conv.groups * kit.DivUp(t.conv.outPerGroup(), t.shape.blockChannels())
}

// panelBytes returns the bytes of a block's weight.
func (t *directConv) panelBytes() int { return t.conv.termsPerOutput() * t.termBytes }

// panelStart returns the byte offset of a block's weight.
func (t *directConv) panelStart(block int) int {
	if phase := t.conv.phase; phase != nil { // a panel has the terms of all phases of a transposed convolution
		return (block*phase.panelTerms + phase.firstTerm) * t.termBytes
	}
	return block * t.panelBytes()
}

// hasLargeWeight reports whether the weight is too large to stay in the L2 cache.
func (t *directConv) hasLargeWeight() bool { return t.blockCount()*t.panelBytes() > smallWeightBytes }
