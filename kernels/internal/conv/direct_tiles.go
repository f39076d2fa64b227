package conv

import (
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// This file divides the results of a direct convolution (directConv) into tiles and strips. The registers hold the
// results of a tile: its rows are output pixels, and its columns are the channels of a block. A strip is a sequence of
// tiles in one block. All tiles of a kind have the same code. A directCall (direct.go) computes adjacent tiles of a
// kind: it has the index of the kind in t.specs (direct_specs.go), and the byte offsets of its first tile. There are
// four tilings (direct_shape.go):
//
//	tiling              tile                               strip
//	pointwiseTiling     consecutive pixels                 a range of tiles (t.stripRanges)
//	smallImageTiling    consecutive pixels of an image     a tile
//	rowTiling           pixels of one row                  a row
//	rowPairTiling       pixels of one or two rows          a range of row pairs (t.stripRanges)
//
// The work of a call is counted in multiply-adds, each of a term (a tap and an input channel). On the matrix unit
// (AMX), a term is a group of four bytes, and the multiply-add of two groups counts as one.
//
// For example, rowTiling divides a row of 30 pixels into tiles of 10. With 3x3 windows and padding 1, there are three
// kinds of tiles: the first skips the left column of the window for its first pixel, the last skips the right column
// for its last pixel, and the tile between them has all taps. Their number of window rows is an argument of the call,
// because it is 2 in the first and in the last row of the image.
//
// t.tiles divides the pixels of an image or of a row: tile i has size(i) pixels, from pixel start(i) on. Tiles have at
// most two sizes: t.tilesBySize has the tiles of each size, the longer tiles first. od, oh and ow are the plane, row
// and column of a pixel in the result; kd, kh and kw are the plane, row and column of a tap in the window.

// makeTiles divides an image into tiles (t.tiles) and strips, and makes the spec of each kind of tile (t.specs). The
// calls of a strip are listed when the strip is computed (see appendCalls), so that memory does not grow with the
// image.
func (t *directConv) makeTiles() {
	switch t.shape.tiling {
	case pointwiseTiling:
		t.makePointwiseTiles()
	case smallImageTiling:
		t.makeSmallImageTiles()
	case rowTiling:
		t.makeRowTiles()
	case rowPairTiling:
		t.makeRowPairTiles()
	}
}

// appendCalls appends the calls of a strip.
func (t *directConv) appendCalls(calls []directCall, strip int) []directCall {
	switch t.shape.tiling {
	case pointwiseTiling:
		return t.appendPointwiseCalls(calls, strip)
	case rowPairTiling:
		return t.appendRowPairCalls(calls, strip)
	case smallImageTiling: // each tile has its own kind, whose code has the offsets of the input
		return append(calls, directCall{kind: strip, tiles: 1, out: t.outOffset(t.tiles.start(strip)) * t.outElemBytes})
	}
	return t.appendRowCalls(calls, strip) // rowTiling
}

// stripStart returns the first output pixel of a strip of an image.
func (t *directConv) stripStart(strip int) int {
	switch t.shape.tiling {
	case rowTiling:
		return strip * t.conv.w.Results
	case smallImageTiling:
		return t.tiles.start(strip)
	}
	first, _ := t.stripRanges.ChunkRange(strip) // a tile or a row pair
	if t.shape.tiling == rowPairTiling {
		return min(first*t.pairRows(), t.conv.h.Results) * t.conv.w.Results
	}
	return t.tiles.start(first)
}

// setTiles divides pixels into tiles of at most maxRows pixels.
func (t *directConv) setTiles(pixels, maxRows int) {
	t.tiles = splitEvenly(pixels, maxRows)
	t.tilesBySize = t.tiles.bySize()
}

// makePointwiseTiles makes strips of consecutive pixels. If the input is by pixels, a strip may continue in the next
// image.
func (t *directConv) makePointwiseTiles() {
	conv := t.conv
	pixels := conv.pixelsOut()
	if !t.shape.byPlanes {
		pixels, t.imageCount = pixels*conv.batch, 1
	}
	t.setTiles(pixels, t.maxTileRows())
	stripWork, depth := pointwiseStripMACs, conv.termsPerOutput() // multiply-adds of a strip, and of one result
	if t.shape.usesMatrixUnit {
		stripWork, depth = tile.UnitMinCallGroups, conv.unitDepth() // products of groups
	}
	t.stripRanges = machine.DivideUnits(t.tiles.count, t.shape.rows*t.shape.blockChannels()*depth, stripWork)
	t.stripCount = t.stripRanges.Chunks
	for _, tiles := range t.tilesBySize {
		t.specs = append(t.specs, t.pointwiseSpec(tiles.size))
	}
}

// appendPointwiseCalls appends the calls of a strip: calls for the longer tiles and calls for the shorter tiles.
func (t *directConv) appendPointwiseCalls(calls []directCall, strip int) []directCall {
	first, end := t.stripRanges.ChunkRange(strip)
	maxTiles := t.maxCallTiles()
	for kind, tiles := range t.tilesBySize {
		kindEnd := min(end, tiles.first+tiles.count)
		for i := max(first, tiles.first); i < kindEnd; i += maxTiles {
			pixel := t.tiles.start(i)
			calls = append(calls, directCall{kind: kind, tiles: min(maxTiles, kindEnd-i), in: pixel * t.inPixelBytes,
				out: pixel * t.outPixelBytes()})
		}
	}
	return calls
}

// makeSmallImageTiles makes a strip of each tile of a small image. The pixels of a tile may be in several rows of the
// image.
func (t *directConv) makeSmallImageTiles() {
	t.setTiles(t.conv.h.Results*t.conv.w.Results, t.maxTileRows())
	t.stripCount = t.tiles.count
	for i := range t.tiles.count {
		t.specs = append(t.specs, t.smallImageSpec(t.tiles.start(i), t.tiles.size(i)))
	}
}

// rowTile identifies a kind of tile of a row. pixels is the number of pixels. left and right are the numbers of columns
// of the tile's windows that are outside the image on either side.
type rowTile struct{ pixels, left, right int }

// rowTileAt returns the kind of the tile that has n pixels of an output row, from column ow on.
func (t *directConv) rowTileAt(ow, n int) rowTile {
	start, width := t.conv.w.Begin(ow), t.conv.w.Extent(n) // input columns of the tile's windows
	left, right := -start, start+width-t.conv.w.Size       // columns outside the image, if positive
	// If all columns are outside, the distance to the image does not matter.
	return rowTile{pixels: n, left: min(max(0, left), width), right: min(max(0, right), width)}
}

// makeRowTiles makes a strip of each row of the result, plane by plane. Adjacent tiles of the same kind share a call.
// The calls of each row are copies of t.rowTemplate, with the row's offsets, and with the numbers of planes and rows of
// the window that are inside the image.
func (t *directConv) makeRowTiles() {
	conv := t.conv
	maxTiles := t.maxCallTiles()
	t.setTiles(conv.w.Results, t.maxTileRows())
	t.stripCount = conv.rowsOut()
	kinds := map[rowTile]int{} // indices in t.specs
	for i := range t.tiles.count {
		ow, n := t.tiles.start(i), t.tiles.size(i)
		key := t.rowTileAt(ow, n)
		kind, isKnown := kinds[key]
		if !isKnown {
			kind = len(t.specs)
			kinds[key] = kind
			t.specs = append(t.specs, t.rowSpec(ow, n))
		}
		// The tile belongs to the last call, or to a new call.
		if i > 0 {
			if last := &t.rowTemplate[len(t.rowTemplate)-1]; last.kind == kind && last.tiles < maxTiles {
				last.tiles++
				continue
			}
		}
		t.rowTemplate = append(t.rowTemplate, directCall{kind: kind, tiles: 1, in: conv.w.Begin(ow) * t.inPixelBytes,
			out: ow * t.outPixelBytes()})
	}
}

// appendRowCalls appends the calls of a row of the result.
func (t *directConv) appendRowCalls(calls []directCall, row int) []directCall {
	conv := t.conv
	od, oh := row/conv.h.Results, row%conv.h.Results
	kd, kdEnd := conv.d.TapsOf(od) // planes [kd, kdEnd) of the window are inside the image
	kh, khEnd := conv.h.TapsOf(oh) // and rows [kh, khEnd) of these planes
	// Byte offsets: in the input, of the first tap inside the image; in the result, of the row's first pixel; in the
	// panel of weights, of the first tap inside the image. In a panel, contiguousTerms terms of a tap are adjacent.
	in := (conv.d.Position(od, kd)*conv.h.Size + conv.h.Position(oh, kh)) * conv.w.Size * t.inPixelBytes
	out := t.outOffset(row*conv.w.Results) * t.outElemBytes
	weight := (kd*conv.h.Taps + kh) * conv.w.Taps * t.contiguousTerms() * t.termBytes
	for _, call := range t.rowTemplate {
		call.windowPlanes, call.windowRows = max(0, kdEnd-kd), max(0, khEnd-kh)
		call.in, call.out, call.weight = in+call.in, out+call.out, weight
		calls = append(calls, call)
	}
	return calls
}

// makeRowPairTiles makes strips of row pairs. A row pair is the one or two rows of the result that a tile spans. The
// tiles of a strip in the same columns are computed by one call. If the number of rows is odd, the last pair has one
// row and its own specs.
func (t *directConv) makeRowPairTiles() {
	conv, pairRows := t.conv, t.pairRows()
	t.setTiles(conv.w.Results, t.maxTileRows()/pairRows)
	pairs := kit.DivUp(conv.h.Results, pairRows)
	tilePixels := kit.DivUp(conv.w.Results, t.tiles.count) * pairRows
	// Rows of the unit's registers for all tiles of a pair, including unused rows.
	unitRows := t.tiles.count * kit.DivUp(tilePixels, tile.UnitRows) * tile.UnitRows
	t.stripRanges = machine.DivideUnits(pairs, unitRows*t.shape.blockChannels()*conv.unitDepth(), tile.UnitMinCallGroups)
	t.stripCount = t.stripRanges.Chunks
	lastRows := conv.h.Results % pairRows // rows of a shorter last pair; 0 if there is none
	for _, rows := range []int{pairRows, lastRows} {
		for _, tiles := range t.tilesBySize {
			if rows > 0 {
				t.specs = append(t.specs, t.rowPairSpec(rows, tiles.size))
			}
		}
	}
}

// pairRows returns the number of rows of a row pair: two if the result has two rows, they fit a tile, and each fits a
// register of the matrix unit, which has tile.UnitRows rows. Otherwise a pair has one row.
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
	firstKind, firstLastKind := 0, len(t.tilesBySize)
	calls = t.appendPairs(calls, firstKind, first, wholePairs-first)
	return t.appendPairs(calls, firstLastKind, wholePairs, end-wholePairs)
}

// appendPairs appends a call for each tile of a row pair. The call computes this tile in `pairs` row pairs from
// firstPair on. firstKind is the kind of the longer tiles.
func (t *directConv) appendPairs(calls []directCall, firstKind, firstPair, pairs int) []directCall {
	if pairs <= 0 {
		return calls
	}
	conv, firstRow := t.conv, firstPair*t.pairRows()
	for kind, tiles := range t.tilesBySize {
		for i := tiles.first; i < tiles.first+tiles.count; i++ {
			column := t.tiles.start(i) // of the result
			calls = append(calls, directCall{kind: firstKind + kind, tiles: pairs, windowRows: conv.h.Taps,
				in:  (firstRow*conv.h.Stride*conv.w.Size + column*conv.w.Stride) * t.inPixelBytes,
				out: (firstRow*conv.w.Results + column) * t.outPixelBytes()})
		}
	}
	return calls
}

// inChannelBytes returns the stride of the input's channels, in bytes.
func (t *directConv) inChannelBytes() int {
	if t.shape.byPlanes {
		return t.conv.pixelsIn() * t.inElemBytes
	}
	return t.inElemBytes
}

// outPixelBytes returns the stride of the pixels of a row of the result, in bytes.
func (t *directConv) outPixelBytes() int { return t.outPixelStride * t.outElemBytes }

// maxCallTiles returns the maximum number of tiles of a call. A call must be short, because a goroutine cannot be
// preempted within it.
func (t *directConv) maxCallTiles() int {
	return max(1, t.maxCallMACs()/(t.shape.rows*t.shape.blockChannels()*t.conv.termsPerOutput()))
}

// maxTileRows returns the maximum number of rows of a tile, which are pixels.
func (t *directConv) maxTileRows() int {
	return min(t.shape.rows, max(1, t.maxCallMACs()/(t.shape.blockChannels()*t.conv.termsPerOutput())))
}

// maxCallMACs returns the maximum number of multiply-adds of a call, or of products of elements on the matrix unit.
func (t *directConv) maxCallMACs() int {
	if t.shape.usesMatrixUnit {
		return tile.UnitCallGroups
	}
	return directCallMACs * t.shape.lanes / 16 // directCallMACs is for vectors of 16 lanes
}
