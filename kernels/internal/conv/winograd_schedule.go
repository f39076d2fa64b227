package conv

import "github.com/graphrun/graphrun/kernels/internal/kit"

// This file chooses the order in which a Winograd convolution computes its tiles (see [winogradConv]). A tile is
// transformed to points, which have an element for each channel. At each point, the tiles are multiplied by the
// transformed weights; the results are the products. The tiles of the batch are divided into sections, whose points are
// in memory together. For example, 784 tiles of 36 points and 64 channels have 7 MB of points. With chunkSchedule, they
// are divided into 28 sections of 28 tiles, so that the points of a section stay in the L2 cache.

// winogradSchedule is the order in which the tiles, points and blocks of a section are computed.
type winogradSchedule uint8

const (
	// chunkSchedule: one worker does all the work of a section, in memory of its own. The weights stay in cache or
	// arrive fast enough.
	chunkSchedule winogradSchedule = iota
	// blockSchedule: all workers share the points of a section, which stay in cache. The weights stream from memory once
	// per section, one block of output channels after another.
	blockSchedule
	// pointSchedule: neither points nor weights stay in cache. Weights, points and products stream from memory once,
	// point by point. This schedule is also used for weights in cache if there is a single section, because workers can
	// share the points of that section.
	pointSchedule
)

const (
	// cachedWeightBytes is the maximum size of transformed weights that stay in the L2 cache, together with
	// cachedPointBytes of points.
	cachedWeightBytes = 1 << 20
	cachedPointBytes  = 256 << 10
	// streamedWeightBytes is the maximum size of weights that are read from the L3 cache without delaying the products.
	// The points and products of a section stay in L2; the weights do not.
	streamedWeightBytes = 5 << 20
	// sharedPointBytes bounds the points of a section of blockSchedule. These points stay in L2 while the weights stream
	// from memory.
	sharedPointBytes = 5 << 18
	// pointsSectionBytes bounds the points and products of a section of pointSchedule, which do not stay in L2.
	pointsSectionBytes = 16 << 20
	// minSections is the minimum number of sections of chunkSchedule, so that all workers are busy. There are fewer if
	// there are too few tiles.
	minSections = 16
)

// chooseSchedule chooses the schedule with the least traffic beyond the caches.
func (w *winogradConv) chooseSchedule() winogradSchedule {
	weightBytes := floatBytes * w.transformedWeights()
	switch hasSeveralSections := w.sectionCount(chunkSchedule) > 1; {
	case w.transformsInRun: // a few tiles: the weights stream from memory, and the points stay in cache
		return blockSchedule
	case hasSeveralSections && weightBytes <= streamedWeightBytes: // each worker has a section
		return chunkSchedule
	case weightBytes <= cachedWeightBytes: // a single section
		return pointSchedule
	}
	// The weights are read once per section. With pointSchedule, points and products are also written and read.
	blockTraffic := weightBytes * w.sectionCount(blockSchedule)
	pointTraffic := weightBytes*w.sectionCount(pointSchedule) + w.memoryTraffic()
	if blockTraffic <= pointTraffic {
		return blockSchedule
	}
	return pointSchedule
}

// sectionCount returns the number of sections of a schedule.
func (w *winogradConv) sectionCount(schedule winogradSchedule) int {
	tiles, maxTiles := w.tileCount(), 0 // maxTiles: tiles whose bytes are within the bound of a section
	switch schedule {
	case chunkSchedule:
		maxTiles = cachedPointBytes / w.pointBytes()
	case blockSchedule:
		maxTiles = sharedPointBytes / w.pointBytes()
	case pointSchedule:
		maxTiles = pointsSectionBytes / (w.pointBytes() + w.productBytes())
	}
	sections := kit.DivUp(tiles, max(w.stripTiles, maxTiles)) // a section has at least one strip
	if schedule == chunkSchedule {
		for sections < minSections && tiles >= 2*sections*w.stripTiles {
			sections *= 2
		}
	}
	return sections
}

// pointBytes returns the bytes of the points of a tile.
func (w *winogradConv) pointBytes() int { return floatBytes * w.form.Points() * w.tileStride }

// productBytes returns the bytes of the products of a tile, of all output channels.
func (w *winogradConv) productBytes() int {
	return floatBytes * w.form.Points() * w.blockCount * w.blockChannels
}

// memoryTraffic returns the bytes of points and products that pointSchedule writes to memory and reads back.
func (w *winogradConv) memoryTraffic() int {
	return 2 * w.tileCount() * (w.pointBytes() + w.productBytes())
}

// tileSpan is a range of the batch's tiles, which are numbered in the order of images, rows and columns.
type tileSpan struct{ first, count int }

// spans is a division of a span into count spans of nearly equal size.
type spans struct {
	whole tileSpan
	count int
}

// span returns span i.
func (s spans) span(i int) tileSpan {
	first := i * s.whole.count / s.count
	return tileSpan{first: s.whole.first + first, count: (i+1)*s.whole.count/s.count - first}
}

// maxTiles returns the number of tiles of the largest span.
func (s spans) maxTiles() int {
	if s.count == 0 {
		return 0
	}
	return kit.DivUp(s.whole.count, s.count)
}

// splitBySize divides tiles into the fewest spans of at most maxTiles tiles.
func (t tileSpan) splitBySize(maxTiles int) spans { return t.divide(kit.DivUp(t.count, maxTiles)) }

// divide divides tiles into count spans.
func (t tileSpan) divide(count int) spans { return spans{whole: t, count: count} }
