package conv

import (
	"slices"

	"github.com/graphrun/graphrun/internal/jit/depthwise"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// This file divides an image into tiles for the kernel depthwiseWindow (depthwise_pixels.go), and lists the calls of
// its code. A tile is a rectangle of results, which stay in registers, for a block of vectors of channels. A strip is
// one row of tiles. A depthwise.Spec describes the code of a tile, with strides in bytes. Tiles at the border of the
// image have other specs, because the code skips taps outside the image.
//
// For example, a result of 8x12 pixels has 2x3 tiles of 4x4 results. A strip has three tiles.

// The sizes of tiles.
const (
	// A tile has 4x4 results if registers suffice.
	tileRows, tileCols = 4, 4
	// Rows of 7 or 14 results have tiles with 7 columns, because 4 columns would divide them unevenly.
	evenSplitCols = 7
	// Windows of more than largeWindowTaps taps have tiles of one row, because unrolled code for several rows would be
	// too long. With more than 16 registers, these tiles have largeWindowCols columns.
	largeWindowTaps = 49
	largeWindowCols = 8
	// Windows with at least minRolledRows rows, all inside the image, are computed by a loop over rows.
	minRolledRows = 5
	// If groups have several channels, groupInputRegisters registers hold input channels, each broadcast to all lanes
	// of its group.
	groupInputRegisters = 4
	// A block has at most blockWeightBytes of weights: half of an L1 cache.
	blockWeightBytes = 16 << 10
)

const (
	// windowCallMACs and windowCallBytes bound the multiply-adds and the bytes of a call. A goroutine cannot be
	// preempted within a call, so a call must not take longer than 50 us. The measured rates are at least 30
	// multiply-adds per nanosecond and 10 bytes per nanosecond.
	windowCallMACs  = 1 << 20 / machine.CallDivisor
	windowCallBytes = 1 << 18 / machine.CallDivisor
	// windowGrain is the approximate number of multiply-adds of a chunk.
	windowGrain = 4 * machine.DirectMACGrain
	// movedElementMACs is the number of multiply-adds that take as long as moving an element.
	movedElementMACs = 8
	// Tiles prefetch the cache lines of their results if there are at least minPrefetchVectors vectors of channels, and
	// at least minPrefetchBytes bytes are read and written.
	minPrefetchVectors = 4
	minPrefetchBytes   = 3 * machine.L2Bytes / 2
	// An image with at most fewStrips strips is divided among workers by channels instead of by strips.
	fewStrips = 2
)

// windowShape describes how a depthwise convolution of a channels-last image is divided: into tiles of results, and
// into blocks of channel vectors. The tiles depend only on sizes and the instruction set, and do not affect the bits
// of results. With vectors of 16 lanes, 100 channels have 7 vectors, which start at the channels 0, 16, ..., 80 and 84:
// the last vector has an overlap of 12 channels.
type windowShape struct {
	elemBytes, vectorBytes   int    // bytes of an element; bytes of a vector
	lanes, vectors           int    // lanes of a vector; number of vectors of all channels
	overlap                  int    // channels that the last vector shares with the previous vector
	tile                     [2]int // rows and columns of a tile
	blockVectors, blockCount int    // vectors per block; number of blocks
}

// newWindowShape chooses the tiles. elemBytes is the number of bytes of an element. It returns false if the channels do
// not fill the shortest vector (16 bytes), or if groups have several channels and a vector would not hold several whole
// groups.
func newWindowShape(conv *convShape, elemBytes int) (shape windowShape, ok bool) {
	registers, maxVectorBytes := depthwise.Registers(machine.HostFeatures())
	shape.elemBytes, shape.vectorBytes = elemBytes, maxVectorBytes
	for shape.vectorBytes > 16 && conv.inChannels*elemBytes < shape.vectorBytes {
		shape.vectorBytes /= 2
	}
	shape.lanes = shape.vectorBytes / elemBytes
	if conv.inChannels < shape.lanes {
		return shape, false
	}
	if conv.inPerGroup > 1 {
		holdsWholeGroups := conv.inPerGroup < shape.lanes && shape.lanes%conv.inPerGroup == 0 // several in a vector
		if !holdsWholeGroups {
			return shape, false
		}
	}
	shape.vectors = kit.DivUp(conv.inChannels, shape.lanes)
	shape.overlap = shape.vectors*shape.lanes - conv.inChannels
	shape.tile = windowTile(conv, registers, maxVectorBytes)
	// The weights of a block have at most blockWeightBytes, unless one vector has more.
	maxVectors := max(1, blockWeightBytes/(conv.termsPerOutput()*shape.vectorBytes))
	shape.blockCount = kit.DivUp(shape.vectors, maxVectors)
	shape.blockVectors = kit.DivUp(shape.vectors, shape.blockCount)
	shape.blockCount = kit.DivUp(shape.vectors, shape.blockVectors) // blocks of equal size may be fewer
	return shape, true
}

// windowTile returns the rows and columns of a tile, for a number of registers of the given size.
func windowTile(conv *convShape, registers, registerBytes int) [2]int {
	avx512, manyRegisters := registerBytes == 64, registers > 16 // AVX-512 and NEON have 32 registers, AVX2 has 16
	hasLargeWindow := conv.h.Taps*conv.w.Taps > largeWindowTaps
	if hasLargeWindow && manyRegisters {
		return [2]int{1, largeWindowCols}
	}
	cols := tileCols
	isEvenSplit := conv.w.Results == evenSplitCols || conv.w.Results == 2*evenSplitCols
	if avx512 && conv.inPerGroup == 1 && isEvenSplit {
		cols = evenSplitCols
	}
	if hasLargeWindow {
		return [2]int{1, cols}
	}
	if conv.inPerGroup > 1 {
		registers -= groupInputRegisters
	}
	// The registers hold the results, the weights of a row of the window, and an element.
	return [2]int{min(tileRows, max(1, (registers-1-conv.w.Taps)/cols)), cols}
}

// starts returns the first channel of each vector.
func (shape *windowShape) starts() []int {
	list := make([]int, shape.vectors)
	for i := range list {
		list[i] = i * shape.lanes
	}
	list[shape.vectors-1] -= shape.overlap
	return list
}

// windowCall is a call of machine code for adjacent tiles of one image and one block.
type windowCall struct {
	code            int // index in depthwiseWindow.specs
	in, out, weight int // byte offsets within the image, its result and the block's weights
	rows            int // number of rows of the window, if the code takes this number as an argument
	tiles           int // number of tiles
}

// axisTile describes a row of tiles or a column of tiles: their extent in one dimension. Tiles of the same kind in both
// dimensions have the same code. For example, for 8 results with 3 taps, stride 1 and padding 1, the tile of results 0
// to 3 has 6 input positions. Position 0 is padding: first is 1, and end is 6.
type axisTile struct {
	start      int // index of the first result
	results    int // number of results
	first, end int // input positions [first, end) inside the image, counted from the first tap of the first window
	kind       int // index of the kind; the axisTiles of a kind differ only in start
}

// axisTiles divides the results of a dimension into n tiles. kinds holds the first tile of each kind.
func axisTiles(axis *geometry.Axis, n int) (list, kinds []axisTile) {
	division := machine.Division{Units: axis.Results, Chunks: n}
	list = make([]axisTile, division.Chunks)
	for i := range list {
		start, next := division.ChunkRange(i)
		first, end := geometry.IndicesInside(axis.Begin(start), 1, axis.Size, axis.Extent(next-start))
		if first >= end { // the whole tile is in the padding
			first, end = 0, 0
		}
		tile := axisTile{start: start, results: next - start, first: first, end: end}
		tile.kind = slices.IndexFunc(kinds, func(kind axisTile) bool {
			return kind.results == tile.results && kind.first == tile.first && kind.end == tile.end
		})
		if tile.kind < 0 {
			tile.kind = len(kinds)
			kinds = append(kinds, tile)
		}
		list[i] = tile
	}
	return list, kinds
}

// makeTiles divides an image into tiles and makes their specs: t.specs, and t.specIndex with the index of a tile's
// spec. The number of strips is even if possible: two workers then each compute one half of the rows. Consecutive steps
// of a program divide images in the same way, so that a worker mostly reads rows that it wrote itself. The calls of a
// strip are listed when the strip is computed (see appendCalls), so that memory does not grow with the image.
func (t *depthwiseWindow) makeTiles() {
	conv, shape := t.conv, &t.windowShape
	var rowKinds, columnKinds []axisTile
	strips := kit.DivUp(conv.h.Results, shape.tile[0])
	if strips > fewStrips {
		strips = min(conv.h.Results, strips+strips%2)
	}
	t.tilesAcross, columnKinds = axisTiles(&conv.w, kit.DivUp(conv.w.Results, shape.tile[1]))
	t.tilesDown, rowKinds = axisTiles(&conv.h, strips)
	for _, down := range rowKinds {
		var indices []int // in t.specs, by kind of column
		for _, across := range columnKinds {
			spec := t.tileSpec(down, across)
			index := slices.IndexFunc(t.specs, func(known *depthwise.Spec) bool { return sameSpec(known, spec) })
			if index < 0 {
				index = len(t.specs)
				t.specs = append(t.specs, spec)
			}
			indices = append(indices, index)
		}
		t.specIndex = append(t.specIndex, indices)
	}
}

// appendCalls appends the calls of a strip. One call computes all adjacent tiles that have the same code.
func (t *depthwiseWindow) appendCalls(calls []windowCall, strip int) []windowCall {
	down, firstCall := t.tilesDown[strip], len(calls)
	for _, across := range t.tilesAcross {
		call := t.tileCall(down, across)
		if last := len(calls) - 1; last >= firstCall && t.isNextTile(&calls[last], &call) &&
			calls[last].tiles < t.maxTiles(down.results*across.results) {
			calls[last].tiles++
			continue
		}
		calls = append(calls, call)
	}
	return calls
}

// isNextTile reports whether the previous call can also compute the tile of a call: the tile has the same code and
// weights, and its addresses continue the addresses of the previous tiles.
func (t *depthwiseWindow) isNextTile(previous, call *windowCall) bool {
	spec := t.specs[call.code]
	return previous.code == call.code && previous.rows == call.rows && previous.weight == call.weight &&
		previous.in+previous.tiles*spec.InTileStep == call.in && previous.out+previous.tiles*spec.OutTileStep == call.out
}

// maxTiles returns the maximum number of tiles of a call, if each tile has the given number of results.
func (t *depthwiseWindow) maxTiles(results int) int {
	conv, shape := t.conv, &t.windowShape
	vectors := results * shape.blockVectors // of results of a tile
	macs := vectors * conv.termsPerOutput() * shape.lanes
	bytes := vectors * shape.vectorBytes * (1 + conv.h.Stride*conv.w.Stride) // of the result and the input
	return max(1, min(windowCallMACs/macs, windowCallBytes/bytes))
}

// tileCall returns the call of one tile. down and across are its row and its column of tiles. If all its taps are in
// the padding, the code reads no input and no weights, and their offsets are 0.
func (t *depthwiseWindow) tileCall(down, across axisTile) windowCall {
	const byPlanes = false
	conv, shape := t.conv, &t.windowShape
	code := t.specIndex[down.kind][across.kind]
	outPixel := down.start*conv.w.Results + across.start
	call := windowCall{code: code, out: outPixel * t.outPixelStride * shape.elemBytes, tiles: 1}
	// The position of the first element that the code reads.
	row, col := conv.h.Begin(down.start)+down.first, conv.w.Begin(across.start)+across.first
	readsInput := down.end > down.first
	if t.specs[code].RowsFromCall { // the code begins at the first row of the window that is inside the image
		first, end := conv.h.TapsOf(down.start) // rows of the window inside the image
		call.rows, call.weight = max(0, end-first), first*conv.w.Taps*shape.vectorBytes
		row = conv.h.Position(down.start, first)
		readsInput = call.rows > 0
	}
	if !readsInput {
		call.weight = 0
		return call
	}
	col = min(max(col, 0), conv.w.Size-1) // col is outside the image only if no column is read
	call.in = (row*conv.w.Size + col) * conv.inPixelStride(byPlanes) * shape.elemBytes
	return call
}

// tileSpec returns the spec of a tile's code. The number of rows of the window is an argument of the call
// (RowsFromCall) if a tile has one row, or if a large window is inside the image.
func (t *depthwiseWindow) tileSpec(down, across axisTile) *depthwise.Spec {
	const byPlanes = false
	conv, shape := t.conv, &t.windowShape
	inPixelBytes, outPixelBytes := conv.inPixelStride(byPlanes)*shape.elemBytes, t.outPixelStride*shape.elemBytes
	spec := &depthwise.Spec{Size: shape.elemBytes, VectorBytes: shape.vectorBytes, Group: conv.inPerGroup,
		Tile: [2]int{down.results, across.results}, Window: [2]int{conv.h.Taps, conv.w.Taps},
		Stride: [2]int{conv.h.Stride, conv.w.Stride}, Dilation: [2]int{conv.h.Dilation, conv.w.Dilation},
		First: [2]int{down.first, across.first}, End: [2]int{down.end, across.end},
		InStride:   [2]int{conv.w.Size * inPixelBytes, inPixelBytes},
		OutStride:  [2]int{conv.w.Results * outPixelBytes, outPixelBytes},
		InTileStep: across.results * conv.w.Stride * inPixelBytes, OutTileStep: across.results * outPixelBytes,
		Bias: conv.hasBias, Epilogue: t.epilogue.Steps, PrefetchResult: t.prefetchesResults()}
	allRowsInside := down.first == 0 && down.end == conv.h.Extent(down.results)
	spec.RowsFromCall = down.results == 1 || allRowsInside && conv.h.Taps >= minRolledRows
	if spec.RowsFromCall {
		spec.First[0], spec.End[0] = 0, 0 // not used by the code
	}
	return spec
}

// prefetchesResults reports whether tiles prefetch the cache lines of their results. Prefetching is faster if input and
// results together exceed the L2 cache, and a pixel has more cache lines than the hardware prefetches.
func (t *depthwiseWindow) prefetchesResults() bool {
	conv, shape := t.conv, &t.windowShape
	moved := (conv.h.Size*conv.w.Size + conv.h.Results*conv.w.Results) * conv.inChannels * shape.elemBytes
	return shape.vectorBytes == machine.LineBytes && shape.vectors >= minPrefetchVectors && moved > minPrefetchBytes
}

// sameSpec compares the fields in which the specs of a convolution's tiles differ.
func sameSpec(a, b *depthwise.Spec) bool {
	return a.Tile == b.Tile && a.First == b.First && a.End == b.End && a.RowsFromCall == b.RowsFromCall &&
		slices.Equal(a.Epilogue, b.Epilogue)
}
