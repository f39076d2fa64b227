package strided

import (
	"github.com/graphrun/graphrun/internal/machine"
)

// Copy is a planned copy of the elements of src to dst. Its tiles extend over two dimensions: a, the fastest dimension
// of dst, and b, usually the fastest dimension of src. The other dimensions are loops around the tiles. A Copy is
// immutable.
//
// For example, 2 images of 64 channels and 56x56 pixels are copied from NCHW to NHWC. Rows and columns of pixels
// coalesce to one dimension of 3136 pixels. Dimension a is the channels, b is the pixels, and the images are an outer
// dimension. Each tile is a transposition of some channels and pixels.
//
// An [Axis] has a size N and two strides in bytes, Dst and Src; an axis adds tileLen and tileCount, the length and the
// number of its tiles. An [Elem] is moved unchanged or converted. A copy is dense if the elements of a are contiguous
// in dst, and the elements of b are contiguous in src. A row of dst has the elements along a; a long row has at least
// longRow elements.
type Copy struct {
	elem         Elem        // how an element is moved
	axisA, axisB axis        // called a and b in comments
	outer        []outerAxis // the loops around the tiles, innermost first
	elementCount int
	tileCount    int
	transposed   bool // the copy is dense and moves elements: tiles are transposed directly
	staged       bool // the copy is dense, and tiles are transposed in a worker's scratch
	nonTemporal  bool // dst is written by non-temporal stores
}

// outerAxis is a loop around tiles. It runs over a dimension other than a and b or, if isAxisB is set, over the tiles
// of b. A loop over the tiles of b is necessary if rows of other dimensions are between the rows of b in dst. For
// example, a copy reverses the dimensions of src [63, 100, 50]: dst is [50, 100, 63], a has 63 elements, b has 50, and
// 99 other rows are between two rows of b in dst.
type outerAxis struct {
	Axis
	tilesPerIndex int // number of tiles for each index of the loop
	isAxisB       bool
}

const (
	// maxTileElems is the maximum number of elements of a tile. It is half of the desired size of a chunk, so that chunks
	// of whole tiles are nearly equal.
	maxTileElems = machine.MoveGrain / 2
	// targetTiles is the approximate number of tiles of a small copy, so that workers can share it. A tile still has at
	// least minTileElems elements.
	targetTiles, minTileElems = 8, machine.MoveGrain / 16
	// targetRowTiles is targetTiles for a copy of contiguous rows. A small copy of this kind has two chunks.
	targetRowTiles = 4
	// maxShortRows is the greatest number of rows of a tile if rows are short.
	maxShortRows = 1024
	// targetBTiles is the approximate number of tiles of b if rows of other dimensions are between the rows of b.
	targetBTiles = 4
	// grainElemBytes is the size of elements in bytes to which constants such as machine.MoveGrain (elements per
	// chunk) apply. Smaller elements in contiguous rows take less time each.
	grainElemBytes = 4
	// panelBytes is the length of a transposed tile along dst: a panel of whole cache lines.
	panelBytes = panelTiles * machine.LineBytes
	// l1SpanBytes is the number of bytes of dst that are assumed to stay in L1 together with the source, for any strides.
	l1SpanBytes = 8 << 10
)

// minStreamBytes is the minimum size of dst in bytes for non-temporal stores. Tests change it.
var minStreamBytes = machine.NonTemporalMinBytes

// New plans a copy. Axes may be in any order. New coalesces contiguous axes. The strides of dst must not be negative.
func New(elem Elem, axes []Axis) *Copy {
	plan := &Copy{elem: elem}
	plan.addOuter(plan.chooseTiles(Coalesce(append([]Axis(nil), axes...))))
	return plan
}

// Analyze is [New] without allocation, for estimates of costs. The copy must not be run. Analyze changes axes.
func Analyze(elem Elem, axes []Axis) Copy {
	plan := Copy{elem: elem}
	plan.chooseTiles(Coalesce(axes))
	return plan
}

// chooseTiles selects a and b from coalesced axes and cuts them into tiles. It returns the axes that remain, in the
// memory of the argument.
func (p *Copy) chooseTiles(remaining []Axis) []Axis {
	oneElement := axis{Axis: Axis{N: 1}, tileLen: 1, tileCount: 1}
	p.axisA, p.axisB, p.elementCount = oneElement, oneElement, 1
	for _, dim := range remaining {
		p.elementCount *= dim.N
	}
	take := func(i int) axis {
		dim := axis{Axis: remaining[i]}
		remaining = append(remaining[:i], remaining[i+1:]...)
		return dim
	}
	if len(remaining) > 0 { // sorted by the stride in dst
		p.axisA = take(0)
	}
	fastest := p.fastestInSrc(remaining)
	switch {
	case fastest >= 0: // src has another fastest dimension
		p.axisB = take(fastest)
		hasRowsBetween := p.dimsBetween(remaining) > 0
		p.cutTransposed(hasRowsBetween)
		p.selectTransposition()
	case len(remaining) > 0:
		p.axisB = take(p.selectAxisB(remaining))
		p.cutRows()
	default: // at most one dimension
		p.cutRows()
	}
	p.tileCount = p.axisA.tileCount * p.axisB.tileCount
	for _, dim := range remaining {
		p.tileCount *= dim.N
	}
	p.nonTemporal = p.nonTemporal && p.bytes() >= minStreamBytes // set by selectTransposition or cutRows
	return remaining
}

// fastestInSrc returns the index of the axis with the smallest nonzero stride in src, or -1 if that is axis a.
func (p *Copy) fastestInSrc(others []Axis) int {
	fastest, minStride := -1, abs(p.axisA.Src)
	for i, dim := range others {
		if stride := abs(dim.Src); stride > 0 && stride < minStride {
			fastest, minStride = i, stride
		}
	}
	return fastest
}

// dimsBetween returns the number of dimensions, other than a, with a smaller stride in dst than b. They are the first
// of otherAxes, which are sorted, and their rows are between the rows of b. If these strides and the stride of b are
// whole cache lines, dimsBetween returns 0, because workers then never write to the same line.
func (p *Copy) dimsBetween(otherAxes []Axis) int {
	count, strideBits := 0, p.axisB.Dst
	for count < len(otherAxes) && otherAxes[count].Dst > 0 && otherAxes[count].Dst < p.axisB.Dst {
		strideBits |= otherAxes[count].Dst
		count++
	}
	if strideBits%machine.LineBytes == 0 { // all strides are multiples of LineBytes, a power of two
		return 0
	}
	return count
}

// selectAxisB selects the axis b for a copy by rows, and returns its index. Usually b is the axis with the smallest
// stride in dst, so that dst is written in order. If rows are short, b is the longest axis for which one tile can
// contain all of a and b. Starting a tile costs more than copying a few short rows.
func (p *Copy) selectAxisB(candidates []Axis) int {
	selected := 0
	if p.axisA.N*candidates[0].N < minTileElems {
		for i, dim := range candidates {
			if dim.N > candidates[selected].N && p.axisA.N*dim.N <= maxTileElems {
				selected = i
			}
		}
	}
	return selected
}

// cutTransposed sets the sizes of tiles for a transposition. Along a, a tile has the length of a panel (panelBytes), so
// that tiles start at cache lines if rows of dst do. Along b, the tile then has the maximum number of elements. If all
// of b fits, the tile has the maximum number of panels along a. If hasRowsBetween is set, rows of other dimensions are
// between the rows of b in dst. Then b is also cut, so that workers can share its tiles. The second argument of
// cutEvenly is the unit of tile lengths.
func (p *Copy) cutTransposed(hasRowsBetween bool) {
	panelLen, maxElems := panelBytes/p.elem.DstSize, p.tileElemLimit()
	maxLenA := maxElems / max(1, p.axisB.N) // of a tile with all of b
	panelsPerTile := max(1, maxLenA/panelLen)
	p.axisA.cutEvenly(panelsPerTile*panelLen, machine.LineBytes/p.elem.DstSize)
	p.axisB.cut(maxElems / p.axisA.tileLen)
	if hasRowsBetween {
		minLenB, targetLenB := minTileElems/p.axisA.tileLen, (p.axisB.N+targetBTiles-1)/targetBTiles
		maxLenB := max(minLenB, targetLenB)
		p.axisB.cutEvenly(min(p.axisB.tileLen, maxLenB), machine.LineBytes/p.elem.SrcSize)
	}
}

// selectTransposition selects how tiles are transposed, after they are cut: directly (transposed) or in scratch
// (staged). Otherwise CopyBlock copies them. Tiles are staged if elements are converted. They are also staged if they
// exceed L1 and no assembly routine (plannedRoutines) transposes elements of this size.
func (p *Copy) selectTransposition() {
	elem := &p.elem
	isDense := p.axisA.Dst == elem.DstSize && p.axisB.Src == elem.SrcSize
	p.transposed = isDense && elem.copiesUnchanged
	p.nonTemporal = p.transposed
	exceedsL1 := p.axisB.Dst*p.axisB.tileLen > l1SpanBytes
	needsStaging := !elem.copiesUnchanged || plannedRoutines[elem.DstSize] == nil && exceedsL1
	const minStagedSide = 4 // of a tile
	p.staged = isDense && needsStaging && min(p.axisA.tileLen, p.axisB.tileLen) >= minStagedSide
}

// cutRows sets the sizes of tiles for a copy by rows. Only tiles of short rows are limited to maxShortRows.
func (p *Copy) cutRows() {
	if p.axisA.N < longRow && p.axisB.N > p.axisA.N {
		p.axisA.cut(p.axisA.N)
		rowsPerTile := max(1, p.tileElemLimit()/max(1, p.axisA.N))
		p.axisB.cutEvenly(min(maxShortRows, rowsPerTile), 1)
		return
	}
	maxElems := p.tileElemLimit()
	p.axisA.cutEvenly(maxElems, machine.LineBytes)
	p.axisB.cutEvenly(maxElems/p.axisA.tileLen, 1)
	p.nonTemporal = p.movesContiguously()
}

// movesContiguously reports whether elements are moved unchanged, and rows along a are contiguous on both sides.
func (p *Copy) movesContiguously() bool {
	return p.elem.copiesUnchanged && p.axisA.Dst == p.elem.DstSize && p.axisA.Src == p.elem.SrcSize
}

// tileElemLimit returns the limit on the elements of a tile by which a and b are cut.
func (p *Copy) tileElemLimit() int {
	if p.movesLongRows() {
		return min(p.scaleGrain(maxTileElems), max(p.scaleGrain(minTileElems), p.elementCount/targetRowTiles))
	}
	return min(maxTileElems, max(minTileElems, p.elementCount/targetTiles))
}

// movesLongRows reports whether movesContiguously holds and rows are long.
func (p *Copy) movesLongRows() bool { return p.movesContiguously() && p.axisA.N >= longRow }

// scaleGrain returns the number of contiguous elements of the copy that take as long as n elements of grainElemBytes
// bytes: 4*n elements of one byte, but only n elements of 4 or more bytes.
func (p *Copy) scaleGrain(n int) int { return n * max(1, grainElemBytes/p.elem.DstSize) }

// addOuter adds the loops over the other axes. Tiles are numbered in the order of dst, so that a worker's range of
// tiles is a range of dst. If rows of several workers were interleaved, the cache lines at the ends of rows would move
// between cores many times. Two workers that copied alternate planes of 7 by 7 pixels took 40 us, and a single worker
// 15 us.
func (p *Copy) addOuter(otherAxes []Axis) {
	// The loop over the tiles of b is outside of the loops over the dimensions between its rows, which are the first of
	// otherAxes. Without such dimensions, copyPlane loops over the tiles of b.
	between, tilesInside := p.dimsBetween(otherAxes), p.axisA.tileCount
	p.outer = make([]outerAxis, 0, len(otherAxes)+1)
	for _, dim := range otherAxes[:between] {
		p.outer = append(p.outer, outerAxis{Axis: dim})
	}
	if b := &p.axisB; between > 0 && b.tileCount != 1 {
		tilesOfB := Axis{N: b.tileCount, Dst: b.Dst * b.tileLen, Src: b.Src * b.tileLen}
		p.outer = append(p.outer, outerAxis{Axis: tilesOfB, isAxisB: true})
	} else {
		tilesInside *= b.tileCount
	}
	for _, dim := range otherAxes[between:] {
		p.outer = append(p.outer, outerAxis{Axis: dim})
	}
	for i := range p.outer {
		p.outer[i].tilesPerIndex = tilesInside
		tilesInside *= p.outer[i].N
	}
}

// Tiles returns the number of tiles, which may be copied in any order and concurrently.
func (p *Copy) Tiles() int { return p.tileCount }

// MaxTileElems returns the maximum number of elements of a tile.
func (p *Copy) MaxTileElems() int { return p.axisA.tileLen * p.axisB.tileLen }

// Grain returns the number of elements of a chunk.
func (p *Copy) Grain() int {
	if p.movesLongRows() {
		return p.scaleGrain(machine.MoveGrain)
	}
	return machine.MoveGrain
}

// bytes returns the size of dst in bytes.
func (p *Copy) bytes() int { return p.elem.DstSize * p.elementCount }
