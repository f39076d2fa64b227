package conv

import (
	"slices"

	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
)

// This file divides the results of a direct convolution (directConv) into tiles and strips. The registers hold the
// results of a tile: its rows are output pixels, and its columns are the channels of a block. A strip is a sequence of
// tiles in one block. All tiles of a kind have the same code, and a directCall computes adjacent tiles of a kind.
//
// A tile.Spec describes the code of a kind. Distances and offsets are in bytes:
//   - In and Out are the offsets of the tile's rows in the input and in the result. Vec stands for the panel, the
//     packed weight of a block.
//   - Runs are sequences of terms at constant distances, InStep in the input and VecStep in the panel. A term is the
//     product of one tap (an element of the window) and one input channel.
//   - Loops are around the runs. The number of iterations, Trips, is an argument of the call if it is tile.Dynamic.
//   - Tiles has the distances between the tiles of a call.
//
// A directCall (direct.go) has the index of its kind in t.specs, and byte offsets for its first tile. A value of type
// pieces divides pixels into tiles of at most two sizes, the longer tiles first. Its method kinds returns one value of
// pieces for each size, so that total/count is this size. t.stripRanges divides the tiles of an image (or its row
// pairs) into strips.
//
// The plane, row and column of a tap in the window are kd, kh and kw; od, oh and ow are the plane, row and column of a
// pixel in the result.
//
// For example, rowTiling divides a row of 30 pixels into tiles of 10. With 3x3 windows and padding 1, there are three
// kinds of tiles: the first skips the left column of the window for its first pixel, the last skips the right column
// for its last pixel, and the tile between them has all taps. Their number of window rows is an argument of the call,
// because it is 2 in the first and in the last row of the image.

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
	case smallImageTiling:
		return append(calls, directCall{kind: strip, tiles: 1, out: t.outOffset(t.tiles.start(strip)) * t.outElemBytes})
	}
	return t.appendRowCalls(calls, strip)
}

// stripStart returns the first output pixel of a strip of an image.
func (t *directConv) stripStart(strip int) int {
	if t.shape.tiling == rowTiling {
		return strip * t.conv.w.Results
	}
	first, _ := t.stripRanges.ChunkRange(strip)
	if t.shape.tiling == rowPairTiling {
		return min(first*t.pairRows(), t.conv.h.Results) * t.conv.w.Results
	}
	return t.tiles.start(first)
}

// makePointwiseTiles makes strips of consecutive pixels. If the input is by pixels, a strip may continue in the next
// image.
func (t *directConv) makePointwiseTiles() {
	conv := t.conv
	pixels := conv.pixelsOut()
	if !t.shape.byPlanes {
		pixels, t.imageCount = pixels*conv.batch, 1
	}
	t.tiles = splitEvenly(pixels, t.maxTileRows())
	stripMACs, depth := pointwiseStripMACs, conv.termsPerOutput()
	if t.shape.usesMatrixUnit {
		stripMACs, depth = tile.UnitMinCallGroups, conv.unitDepth()
	}
	t.stripRanges = machine.DivideUnits(t.tiles.count, t.shape.rows*t.shape.blockChannels()*depth, stripMACs)
	t.stripCount = t.stripRanges.Chunks
	for _, kind := range t.tiles.kinds() {
		t.specs = append(t.specs, t.pointwiseSpec(kind.total/kind.count))
	}
}

// appendPointwiseCalls appends the calls of a strip: calls for the longer tiles and calls for the shorter tiles, if
// any.
func (t *directConv) appendPointwiseCalls(calls []directCall, strip int) []directCall {
	first, end := t.stripRanges.ChunkRange(strip)
	longerTiles := t.tiles.total % t.tiles.count // the longer tiles come first, and are kind 0
	if longerTiles == 0 {                        // all tiles have the same size, and are kind 0
		longerTiles = t.tiles.count
	}
	maxTiles := t.maxCallTiles()
	for i := first; i < end; {
		kind, kindEnd := 0, min(end, longerTiles) // kindEnd is the end of the strip's tiles of this kind
		if i >= longerTiles {
			kind, kindEnd = 1, end
		}
		count, pixel := min(maxTiles, kindEnd-i), t.tiles.start(i)
		calls = append(calls, directCall{kind: kind, tiles: count, in: pixel * t.inPixelBytes,
			out: pixel * t.outPixelBytes()})
		i += count
	}
	return calls
}

// pointwiseSpec returns the spec of a tile of consecutive pixels of a pointwise convolution.
func (t *directConv) pointwiseSpec(rows int) *tile.Spec {
	spec := t.newSpec(rows)
	for i := range rows {
		spec.In, spec.Out = append(spec.In, i*t.inPixelBytes), append(spec.Out, i*t.outPixelBytes())
	}
	spec.Tiles = tile.Loop{InStep: rows * t.inPixelBytes, OutStep: rows * t.outPixelBytes()}
	spec.Runs = []tile.Run{{Terms: t.conv.inPerGroup, InStep: t.inChannelBytes(), VecStep: t.termBytes,
		Block: t.sums.termsPerBlock}}
	return spec
}

// makeSmallImageTiles makes a strip of each tile of a small image. The pixels of a tile may be in several rows of the
// image.
func (t *directConv) makeSmallImageTiles() {
	t.tiles = splitEvenly(t.conv.h.Results*t.conv.w.Results, t.maxTileRows())
	t.stripCount = t.tiles.count
	t.stripRanges = machine.Division{Units: t.stripCount, Chunks: t.stripCount}
	for i := range t.tiles.count {
		t.specs = append(t.specs, t.smallImageSpec(t.tiles.start(i), t.tiles.size(i)))
	}
}

// smallImageSpec returns the spec of a tile of n consecutive pixels, from pixel `first` on.
func (t *directConv) smallImageSpec(first, n int) *tile.Spec {
	conv, spec := t.conv, t.newSpec(n)
	for i := range n {
		oh, ow := (first+i)/conv.w.Results, (first+i)%conv.w.Results
		spec.In = append(spec.In, (conv.h.Begin(oh)*conv.w.Size+conv.w.Begin(ow))*t.inPixelBytes)
		spec.Out = append(spec.Out, (t.outOffset(first+i)-t.outOffset(first))*t.outElemBytes)
	}
	for kh := range conv.h.Taps {
		t.addWindowRow(spec, kh*conv.h.Dilation*conv.w.Size*t.inPixelBytes, kh*conv.w.Taps*t.contiguousTerms()*t.termBytes,
			func(kw, i int) bool {
				oh, ow := (first+i)/conv.w.Results, (first+i)%conv.w.Results
				return conv.h.Contains(conv.h.Position(oh, kh)) && conv.w.Contains(conv.w.Position(ow, kw))
			})
	}
	spec.Loops = t.withChannelLoop()
	return spec
}

// rowTile identifies a kind of tile of a row. pixels is the number of pixels. left and right are the numbers of columns
// of the tile's windows that are outside the image on either side.
type rowTile struct{ pixels, left, right int }

// rowTileAt returns the kind of the tile that has n pixels of an output row, from column ow on.
func (t *directConv) rowTileAt(ow, n int) rowTile {
	start, width := t.conv.w.Begin(ow), t.conv.w.Extent(n) // input columns of the tile's windows
	left, right := -start, start+width-t.conv.w.Size       // columns outside the image, if positive
	return rowTile{pixels: n, left: min(max(0, left), width), right: min(max(0, right), width)}
}

// makeRowTiles makes a strip of each row of the result, plane by plane. Adjacent tiles of the same kind share a call.
// The calls of each row are copies of t.rowTemplate, with the row's offsets, and with the numbers of planes and rows of
// the window that are inside the image.
func (t *directConv) makeRowTiles() {
	conv := t.conv
	maxTiles := t.maxCallTiles()
	t.tiles, t.stripCount = splitEvenly(conv.w.Results, t.maxTileRows()), conv.rowsOut()
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
	// The offsets of the row: its first tap in the input, its first pixel in the result, and this tap in the panel.
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

// rowSpec returns the spec of a tile that has n pixels of an output row, from column ow on.
func (t *directConv) rowSpec(ow, n int) *tile.Spec {
	conv, spec := t.conv, t.newSpec(n)
	for i := range n {
		spec.In, spec.Out = append(spec.In, i*conv.w.Stride*t.inPixelBytes), append(spec.Out, i*t.outPixelBytes())
	}
	spec.Tiles = tile.Loop{InStep: n * conv.w.Stride * t.inPixelBytes, OutStep: n * t.outPixelBytes()}
	const in, vec = 0, 0 // the loop over window rows adds the offsets of a row
	t.addWindowRow(spec, in, vec, func(kw, i int) bool { return conv.w.Contains(conv.w.Position(ow+i, kw)) })
	windowRows := t.windowRowLoop()
	spec.Loops = t.withChannelLoop(windowRows)
	if t.shape.loopsOverDepth {
		planeBytes := conv.d.Dilation * conv.h.Size * conv.w.Size * t.inPixelBytes
		windowPlanes := tile.Loop{InStep: planeBytes, VecStep: conv.h.Taps * windowRows.VecStep, Trips: tile.Dynamic}
		spec.Loops = slices.Insert(spec.Loops, len(spec.Loops)-1, windowPlanes)
	}
	return spec
}

// windowRowLoop returns the loop over the rows of the window. Their number is an argument of the call.
func (t *directConv) windowRowLoop() tile.Loop {
	conv := t.conv
	return tile.Loop{InStep: conv.h.Dilation * conv.w.Size * t.inPixelBytes,
		VecStep: conv.w.Taps * t.contiguousTerms() * t.termBytes, Trips: tile.Dynamic}
}

// withChannelLoop returns the loops of a spec. If the input is by planes, the inner loops are in a loop over channels.
func (t *directConv) withChannelLoop(inner ...tile.Loop) []tile.Loop {
	if !t.shape.byPlanes {
		return inner
	}
	channels := tile.Loop{InStep: t.inChannelBytes(), VecStep: t.conv.taps() * t.termBytes, Trips: t.conv.inPerGroup,
		Block: t.sums.channelsPerBlock}
	return append([]tile.Loop{channels}, inner...)
}

// addWindowRow adds the runs of a row of the window to a spec. in and vec are the byte offsets of the row's first term
// in the input and in the panel. isInside reports whether tap kw is inside the image for a row of the tile. Adjacent
// taps form one run if they are inside the image for the same rows of the tile. A run has no taps that are outside for
// all rows. Sums are divided into blocks of terms (t.sums). With run.Block, a block ends after each run.Block terms and
// at the end of the run; 0 means that the run does not end a block.
func (t *directConv) addWindowRow(spec *tile.Spec, in, vec int, isInside func(kw, row int) bool) {
	conv := t.conv
	firstRun := len(spec.Runs) // of the row
	step := t.inChannelBytes()
	if t.shape.byPlanes {
		step = conv.w.Dilation * t.inPixelBytes
	}
	for kw := range conv.w.Taps {
		rowBits := uint32(0) // bit set of the rows of the tile for which the tap is inside the image
		for i := range spec.Rows {
			if isInside(kw, i) {
				rowBits |= 1 << i
			}
		}
		// The terms of the tap.
		run := tile.Run{In: in + kw*conv.w.Dilation*t.inPixelBytes, Vec: vec + kw*t.contiguousTerms()*t.termBytes,
			InStep: step, VecStep: t.termBytes, Terms: t.contiguousTerms(), Rows: rowBits, Block: t.sums.termsPerBlock}
		if last := len(spec.Runs) - 1; last >= firstRun && canMergeRuns(&spec.Runs[last], &run) {
			spec.Runs[last].Terms += run.Terms
		} else if rowBits != 0 {
			spec.Runs = append(spec.Runs, run)
		}
		if !t.sums.endsAfter(kw, conv.w.Taps) { // the block continues with the next tap
			continue
		}
		if last := len(spec.Runs) - 1; last >= firstRun && spec.Runs[last].Block == 0 {
			spec.Runs[last].Block = spec.Runs[last].Terms // the run is one block
		}
	}
}

// canMergeRuns reports whether run b can be merged into run a. Run b must have the rows of a and begin at the term
// after a. Both runs must divide sums into blocks of the same length, and a block must end at the end of a.
func canMergeRuns(a, b *tile.Run) bool {
	return a.Rows == b.Rows && a.In+a.Terms*a.InStep == b.In && a.Vec+a.Terms*a.VecStep == b.Vec &&
		a.Block == b.Block && (a.Block == 0 || a.Terms%a.Block == 0)
}

// newSpec returns the spec of a tile with the given number of rows. The caller adds the offsets of the rows and the
// runs.
func (t *directConv) newSpec(rows int) *tile.Spec {
	spec := &tile.Spec{ElemBytes: t.elemBytes, Rows: rows}
	if !t.shape.usesMatrixUnit { // the loads of the matrix unit have many cache lines; prefetching does not speed them up
		spec.PrefetchDistance = prefetchDistanceBytes
	}
	return spec
}

// contiguousTerms returns the number of terms of one tap that are adjacent in a panel.
func (t *directConv) contiguousTerms() int {
	if t.shape.byPlanes {
		return 1
	}
	return t.conv.inPerGroup
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

// maxCallTiles returns the maximum number of tiles of a call.
func (t *directConv) maxCallTiles() int {
	return max(1, t.maxCallMACs()/(t.shape.rows*t.shape.blockChannels()*t.conv.termsPerOutput()))
}

// maxTileRows returns the maximum number of rows of a tile.
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
