package conv

import (
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
)

// This file orders the work of a direct convolution. A block is a group of output channels that are computed together,
// and a panel is the packed weight of a block. A tile is the set of results that the registers hold at once, and a
// strip is a sequence of tiles in one block.

const (
	// smallWeightBytes is the maximum size, in bytes, of a small weight. A small weight and the input of a strip stay
	// in the L2 cache together while all blocks of the strip are computed.
	smallWeightBytes = 1 << 16
	// bandInputBytes is the maximum size, in bytes, of the input of a band. It stays in the L2 cache while all blocks of
	// a large weight are computed. A weight of more bytes is evicted from the cache between two images.
	bandInputBytes = 1 << 20
	// prefetchDistanceBytes is how far ahead of their use weights are prefetched, in bytes.
	prefetchDistanceBytes = 8 << 10
	// minStripPixels is the minimum number of pixels per strip for which multiplying takes longer than loading the
	// weight.
	minStripPixels = 16
	// maxPrefetchedLines bounds the cache lines that each iteration of the loop over terms prefetches.
	maxPrefetchedLines = 4
)

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
	strips := t.stripCount
	t.order = multiply.StripOrder{Images: t.imageCount, Blocks: t.blockCount(), Strips: strips, BandStrips: 1}
	if t.hasLargeWeight() {
		if t.bandsSpanImages = t.imageCount > 1 && t.blockCount()*t.panelBytes() > bandInputBytes; t.bandsSpanImages {
			t.order.Images, t.order.Strips = 1, t.imageCount*strips
		}
		// Bytes of one element in each of the images that a band may span.
		batchBytes := conv.batch / t.order.Images * t.inElemBytes
		read, written := batchBytes*conv.inChannels*conv.pixelsIn(), batchBytes*conv.outChannels*conv.pixelsOut()
		bands := kit.DivUp(read, bandInputBytes)
		if t.blockCount()*t.panelBytes() <= read+written {
			bands = max(2, bands)
		}
		t.order.BandStrips = kit.DivUp(t.order.Strips, bands)
		tiles := t.tiles.count
		if t.shape.tiling == rowTiling {
			tiles *= strips
		}
		iterations := max(1, tiles*t.order.BandStrips/strips*conv.termsPerOutput()/tile.DefaultUnroll)
		t.prefetchLines = min(maxPrefetchedLines, kit.DivUp(kit.DivUp(t.panelBytes(), machine.LineBytes), iterations))
		t.stripPrefetchBytes = kit.DivUp(t.panelBytes(), t.order.BandStrips)
	} else if t.shape.tiling == pointwiseTiling && !t.shape.byPlanes &&
		conv.batch*conv.pixelsIn()*t.pixelBytes() > cachedPixelBytes {
		t.prefetchesImage = true
		lines := kit.DivUp(t.maxTileRows()*t.pixelBytes(), machine.LineBytes)
		t.prefetchLines = min(maxPrefetchedLines, kit.DivUp(lines, max(1, conv.inPerGroup/tile.DefaultUnroll)))
	}
	pixels := conv.batch * conv.pixelsOut() / max(1, t.imageCount*strips)
	grain := machine.MACGrain
	if t.shape.usesMatrixUnit {
		grain *= tile.UnitGrain
	}
	t.order.Divide(kit.BoundedProduct(max(pixels, minStripPixels), t.shape.blockChannels(), conv.termsPerOutput()), grain)
}
