package conv

import (
	"sort"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// planeTiles convolves planes (channels of row-major images) by compiled loops. A tile is a rectangle of the output,
// and a tap is an element of the window. The input of a tile is copied to worker memory with zero padding. The copy is
// divided into subgrids by the strides of the window: with strides of 2, they are the four combinations of even or odd
// rows with even or odd columns. Within a subgrid, the elements that a tap multiplies are adjacent in each row. The
// compiled loop treats all rows of a plane's tile as one long row, and so also computes some unused pixels between
// rows.
//
// Planes are computed in batches: one call of the loop computes the tiles at the same position in several planes.
// Worker memory has the subgrids of a batch as [plane][subgrid][row][column], and then its sums as
// [plane][row][column].
//
// Three types are declared elsewhere (depthwise_taps.go, package strided). A rowStream is an operand of a loop: the
// address of its first row, and the distance between rows in bytes. Its rows are the long rows of the planes of a
// batch, so that rowStride is the distance between planes. A tapRun has a worker's rowStreams of all taps. A
// strided.Axis is a dimension of a copy: its size N, and its strides Dst and Src in bytes.
//
// For example, with 3x3 windows and strides of 1, there is one subgrid. For a tile of 4x6 results, it has 6 rows and 8
// columns. Result (r, c) is at index r*rowStride + c of the long row. The element that tap (kh, kw) multiplies for it
// is at index (r+kh)*rowStride + c+kw of the subgrid.
type planeTiles struct {
	conv                   *convShape              // the convolution; h and w are the axes of its window
	elemBytes              int                     // bytes of an element
	sum                    *tapSum                 // compiled loops that sum the taps
	copyRow                *loops.Loop             // copies rows
	splitRow               *loops.Loop             // splits rows into even and odd elements (see split)
	elemCopier             strided.Elem            // copies elements; its loop is not compiled
	rows, cols             int                     // size of an output tile
	tilesDown, tilesAcross int                     // numbers of rows and columns of tiles in a plane
	planesPerBatch         int                     // planes of a batch
	batches                int                     // number of batches of planes in an image
	subgrids               []*subgrid              // of the input of a tile, in the order of worker memory
	rowStride              int                     // stride of rows of subgrids and sums, in elements
	planeStride            int                     // stride of the planes' subgrids in worker memory, in bytes
	tapOffsets             []int                   // by tap: byte offset, in worker memory, of its first row
	outOffset, workerBytes int                     // of worker memory, in bytes: offset of the sums, and size
	workers                graph.PerWorker[tapRun] // arguments of the loops that sum the taps
}

// subgrid describes the elements at (row + i*sh, col + j*sw) of the padded input of a tile, for all i and j. sh and sw
// are the strides of the window.
type subgrid struct {
	row, col int
	offset   int // byte offset of the subgrid in worker memory
	// oddColumns is the subgrid of the odd columns, if this subgrid has the even columns of the same rows, the column
	// stride is 2, and the columns of the image are contiguous. One copy then fills both subgrids (split).
	oddColumns *subgrid
}

// tileRect is the rectangle of the output that a tile covers.
type tileRect struct {
	row, col   int // of the first result
	rows, cols int // at the lower and right border, they may be less than those of other tiles
}

// planeTileBytes is the target size of a tile in worker memory, in bytes. It is less than the L1 cache, which must also
// hold the image rows that are copied into the tile.
const planeTileBytes = 28 << 10

// minTileCols is the minimum width of a tile, in elements: one vector.
const minTileCols = 16

// usesPlaneTiles reports whether planes are convolved by compiled loops over tiles (planeTiles). The smallest tile must
// fit in worker memory.
func (s *convShape) usesPlaneTiles(dtype tensor.DType) bool {
	smallestTile := kit.BoundedProduct(s.h.Extent(1), s.w.Extent(min(s.w.Results, minTileCols)), dtype.Size())
	return hasTapCode(dtype) && smallestTile <= maxTapsBytes
}

// newPlaneTiles divides planes into tiles and compiles the loops. It returns nil if there is no machine code, or if a
// tile exceeds the limit of worker memory.
func newPlaneTiles(conv *convShape, dtype tensor.DType) (*planeTiles, error) {
	if !conv.usesPlaneTiles(dtype) {
		return nil, nil
	}
	t := &planeTiles{conv: conv, elemBytes: dtype.Size(), elemCopier: strided.MoverOf(dtype.Size())}
	var err error
	const isUniform = true // a plane has one bias, and one weight for each tap
	if t.sum, err = newTapSum(dtype, conv.h.Taps*conv.w.Taps, conv.hasBias, isUniform); t.sum == nil || err != nil {
		return nil, err
	}
	if t.copyRow, err = moveLoop(dtype); err != nil {
		return nil, err
	}
	if t.splitRow, err = moveLoop(dtype.ToComplex()); err != nil {
		return nil, err
	}
	t.chooseTileSize()
	if t.assignOffsets(); t.workerBytes > maxTapsBytes {
		return nil, nil
	}
	return t, nil
}

// moveLoop returns a loop that copies rows. For a complex dtype, it writes real and imaginary parts to separate rows.
// This loop also separates the even from the odd elements of a row of floats, if each pair is read as one complex
// number.
func moveLoop(dtype tensor.DType) (*loops.Loop, error) {
	builder := expr.NewBuilder(dtype)
	out := []expr.Output{builder.Real(builder.Load(0))}
	if dtype.IsComplex() {
		out = append(out, builder.Real(builder.LoadImag(0)))
	}
	code, err := builder.Build(out...)
	if err != nil {
		return nil, err
	}
	return loops.New(&expr.Loop{Code: code, Uniform: make([]bool, 1)}, loops.Options{})
}

// chooseTileSize chooses the tile size and the number of planes per tile. Tiles have whole rows if whole rows fit. All
// tiles have about the same size. The choice depends only on constants and the shape, and does not affect the bits of
// results.
func (t *planeTiles) chooseTileSize() {
	conv := t.conv
	maxElements := planeTileBytes / t.elemBytes
	tileElements := func(planes, rows, cols int) int {
		input := kit.BoundedProduct(conv.h.Extent(rows), conv.w.Extent(cols))
		return kit.BoundedProduct(planes, input+kit.BoundedProduct(rows, cols))
	}
	// divideEvenly divides n rows, columns or planes into the fewest pieces of about equal size such that a tile has at
	// most maxElements. elements returns the number of elements of a tile for a size of the pieces.
	divideEvenly := func(n int, elements func(size int) int) (size, pieces int) {
		maxSize := sort.Search(n, func(i int) bool { return elements(i+1) > maxElements })
		size = kit.DivUp(n, kit.DivUp(n, max(maxSize, 1)))
		return size, kit.DivUp(n, size)
	}
	const assumedRows = 4 // the width is chosen for tiles of this height
	t.cols, t.tilesAcross = divideEvenly(conv.w.Results, func(cols int) int {
		if cols <= minTileCols {
			return 0 // accept this width, even if the tile is too large
		}
		return tileElements(1, min(conv.h.Results, assumedRows), cols)
	})
	t.rows, t.tilesDown = divideEvenly(conv.h.Results, func(rows int) int { return tileElements(1, rows, t.cols) })
	macs := kit.BoundedProduct(t.rows, t.cols, conv.outPerGroup(), conv.h.Taps, conv.w.Taps)
	t.planesPerBatch, t.batches = divideEvenly(conv.groups, func(planes int) int {
		if kit.BoundedProduct(planes, macs) > machine.DirectMACGrain { // too many planes for one unit of work
			return maxElements + 1 // reject this number
		}
		return tileElements(planes, t.rows, t.cols)
	})
}

// assignOffsets assigns offsets in worker memory to the subgrids of a tile, to the taps and to the sums.
func (t *planeTiles) assignOffsets() {
	conv := t.conv
	// position returns the row and column of a tap in the padded input of the first result.
	position := func(tap int) (row, col int) {
		return tap / conv.w.Taps * conv.h.Dilation, tap % conv.w.Taps * conv.w.Dilation
	}
	var tapGrids []*subgrid // by tap
	for tap := range conv.h.Taps * conv.w.Taps {
		row, col := position(tap)
		tapGrids = append(tapGrids, t.subgridAt(row%conv.h.Stride, col%conv.w.Stride))
	}
	width := t.neededColumns(t.cols)
	t.chooseRowStride(width)
	gridElements := (t.neededRows(t.rows)-1)*t.rowStride + width
	gridBytes := kit.AlignUp(gridElements*t.elemBytes) + machine.LineBytes // with room for elementsBefore
	line := machine.LineBytes / t.elemBytes                                // elements of a cache line
	for i, grid := range t.subgrids {
		if grid.col == 0 && conv.w.Stride == 2 && conv.inStride.w == 1 {
			grid.oddColumns = t.findSubgrid(grid.row, 1)
		}
		// Image elements start at a cache line, because loading a vector that crosses a line takes twice as long.
		first, _ := t.imageColumns(grid, width)
		elementsBefore := (line - first%line) % line // unused elements before the subgrid
		grid.offset = i*gridBytes + elementsBefore*t.elemBytes
	}
	t.planeStride = len(t.subgrids) * gridBytes
	for tap, grid := range tapGrids {
		row, col := position(tap)
		gridIndex := row/conv.h.Stride*t.rowStride + col/conv.w.Stride // index in the subgrid
		t.tapOffsets = append(t.tapOffsets, grid.offset+gridIndex*t.elemBytes)
	}
	t.outOffset = t.planesPerBatch * t.planeStride
	t.workerBytes = t.outOffset + t.planesPerBatch*t.rows*t.rowStride*t.elemBytes
}

// chooseRowStride sets the stride of the rows of a subgrid, which have `width` columns. If a tile has whole rows, rows
// overlap: the zeros at the right end of a row are also the zeros at the left end of the next row. All rows start at a
// cache line if this lengthens them by at most a seventh.
func (t *planeTiles) chooseRowStride(width int) {
	sharedZeros := width // number of zeros that two rows share
	if t.tilesAcross > 1 {
		sharedZeros = 0
	}
	for _, grid := range t.subgrids {
		if first, end := t.imageColumns(grid, width); first < end {
			sharedZeros = min(sharedZeros, first, width-end)
		}
	}
	t.rowStride = max(t.cols, width-sharedZeros)
	line := machine.LineBytes / t.elemBytes // elements of a cache line
	if aligned := kit.DivUp(t.rowStride, line) * line; aligned-t.rowStride <= t.rowStride/7 {
		t.rowStride = aligned
	}
}

// imageColumns returns the range of columns of a subgrid, of `width` columns, that are inside the image if the tile is
// at the left border. geometry.IndicesInside(start, step, size, count) is the range of all i < count for which start +
// i*step is in [0, size).
func (t *planeTiles) imageColumns(grid *subgrid, width int) (first, end int) {
	axis := &t.conv.w
	return geometry.IndicesInside(grid.col-axis.PadBefore, axis.Stride, axis.Size, width)
}

// subgridAt returns the subgrid whose first element is at (row, col) of the padded plane, where row and col are less
// than the strides of the window. It adds the subgrid if it is missing.
func (t *planeTiles) subgridAt(row, col int) *subgrid {
	grid := t.findSubgrid(row, col)
	if grid == nil {
		grid = &subgrid{row: row, col: col}
		t.subgrids = append(t.subgrids, grid)
	}
	return grid
}

// findSubgrid returns the subgrid whose first element is at (row, col) of the padded plane, or nil.
func (t *planeTiles) findSubgrid(row, col int) *subgrid {
	for _, grid := range t.subgrids {
		if grid.row == row && grid.col == col {
			return grid
		}
	}
	return nil
}

// neededRows returns the number of rows of a subgrid that the taps read for the given number of rows of the output.
func (t *planeTiles) neededRows(rows int) int {
	return rows + (t.conv.h.Taps-1)*t.conv.h.Dilation/t.conv.h.Stride
}

// neededColumns returns the number of columns of a subgrid that the taps read for the given number of columns
// of the output.
func (t *planeTiles) neededColumns(cols int) int {
	return cols + (t.conv.w.Taps-1)*t.conv.w.Dilation/t.conv.w.Stride
}

// kernel returns a kernel that computes tile by tile. A unit of work is one tile of each plane of a batch.
func (t *planeTiles) kernel() *graph.Kernel {
	conv := t.conv
	tiles := t.tilesDown * t.tilesAcross
	units := conv.batch * t.batches * tiles
	division := machine.DivideUnits(units, kit.BoundedProduct(t.planesPerBatch, t.rows, t.cols, conv.outPerGroup(),
		conv.h.Taps, conv.w.Taps), machine.DirectMACGrain)
	return &graph.Kernel{WorkerScratch: t.workerBytes, Phases: []graph.Phase{{Chunks: division.Chunks,
		Run: func(mem *graph.Mem, chunk int) error {
			worker := t.workers.Get(mem)
			worker.reserve(len(t.tapOffsets))
			first, end := division.ChunkRange(chunk)
			for unit := first; unit < end; unit++ {
				// The zeros are the padding. With one tile per plane, the padding is the same in all units.
				if tiles > 1 || unit == first {
					clear(mem.WorkerScratch[:t.outOffset])
				}
				t.computeTile(mem, worker, unit/tiles, unit%tiles)
			}
			worker.release()
			return nil
		}}}}
}

// computeTile computes tile number `tile` of each plane of a batch, for all output channels of these planes. Batches
// are numbered over all images.
func (t *planeTiles) computeTile(mem *graph.Mem, worker *tapRun, batch, tile int) {
	conv := t.conv
	// group is the first group of the batch. A group has one plane of the input.
	image, group := batch/t.batches, batch%t.batches*t.planesPerBatch
	planes := min(t.planesPerBatch, conv.groups-group)
	row, col := tile/t.tilesAcross*t.rows, tile%t.tilesAcross*t.cols
	rect := tileRect{row: row, col: col, rows: min(t.rows, conv.h.Results-row), cols: min(t.cols, conv.w.Results-col)}
	memory := unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))
	firstPlane := unsafe.Add(mem.Ptrs[1], (image*conv.inStride.n+group*conv.inStride.c)*t.elemBytes)
	t.copyInput(worker, memory, firstPlane, planes, rect)
	for tap, offset := range t.tapOffsets {
		worker.inputs[tap] = rowStream{ptr: unsafe.Add(memory, offset), rowStride: t.planeStride}
	}
	rowLen := (rect.rows-1)*t.rowStride + rect.cols // length of the long row, with the unused elements between rows
	// Each output channel of a group is computed for all planes at once.
	firstChannel, endChannel := group*conv.outPerGroup(), (group+1)*conv.outPerGroup()
	for channel := firstChannel; channel < endChannel; channel++ {
		bias := t.bindWeights(mem, worker, channel)
		resultOffset := image*conv.outStride.n + channel*conv.outStride.c + row*conv.outStride.h + col*conv.outStride.w
		out := rowStream{ptr: unsafe.Add(mem.Ptrs[0], resultOffset*t.elemBytes),
			rowStride: conv.outPerGroup() * conv.outStride.c * t.elemBytes} // between the planes of a batch
		rowsAreContiguous := rect.rows == 1 || conv.outStride.h == t.rowStride && rect.cols == t.rowStride
		if conv.outStride.w == 1 && rowsAreContiguous { // the result has the layout of the long row
			t.sum.run(worker, out, bias, rowLen, planes)
			continue
		}
		// Sum in worker memory, and copy without the unused elements.
		sums := rowStream{ptr: unsafe.Add(memory, t.outOffset), rowStride: rect.rows * t.rowStride * t.elemBytes}
		t.sum.run(worker, sums, bias, rowLen, planes)
		t.copy(worker, out.ptr, sums.ptr, strided.Axis{N: rect.cols, Dst: conv.outStride.w * t.elemBytes, Src: t.elemBytes},
			strided.Axis{N: rect.rows, Dst: conv.outStride.h * t.elemBytes, Src: t.rowStride * t.elemBytes},
			strided.Axis{N: planes, Dst: out.rowStride, Src: sums.rowStride})
	}
}

// bindWeights sets worker.weights to the weights of an output channel, and returns its bias. Each rowStream has the
// numbers of all planes of a batch: the same output channel of consecutive groups.
func (t *planeTiles) bindWeights(mem *graph.Mem, worker *tapRun, channel int) (bias rowStream) {
	conv := t.conv
	weights := unsafe.Add(mem.Ptrs[2], channel*conv.weightStride.n*t.elemBytes)
	for tap := range t.tapOffsets {
		tapOffset := tap/conv.w.Taps*conv.weightStride.h + tap%conv.w.Taps*conv.weightStride.w
		worker.weights[tap] = rowStream{ptr: unsafe.Add(weights, tapOffset*t.elemBytes),
			rowStride: conv.outPerGroup() * conv.weightStride.n * t.elemBytes}
	}
	if conv.hasBias {
		bias = rowStream{ptr: unsafe.Add(mem.Ptrs[3], channel*conv.biasStride*t.elemBytes),
			rowStride: conv.outPerGroup() * conv.biasStride * t.elemBytes}
	}
	return bias
}

// copyInput copies the input elements of a tile to the subgrids, for several planes. memory is the address of the first
// plane's subgrids, and plane the address of the first plane of the input. copyInput does not write the padding around
// the elements.
func (t *planeTiles) copyInput(worker *tapRun, memory, plane unsafe.Pointer, planes int, rect tileRect) {
	conv := t.conv
	top, left := conv.h.Begin(rect.row), conv.w.Begin(rect.col) // position in the plane
	planeAxis := strided.Axis{N: planes, Dst: t.planeStride, Src: conv.inStride.c * t.elemBytes}
	for _, grid := range t.subgrids {
		firstRow, endRow := geometry.IndicesInside(top+grid.row, conv.h.Stride, conv.h.Size, t.neededRows(rect.rows))
		firstCol, endCol := geometry.IndicesInside(left+grid.col, conv.w.Stride, conv.w.Size, t.neededColumns(rect.cols))
		if firstRow >= endRow {
			continue
		}
		down := strided.Axis{N: endRow - firstRow, Dst: t.rowStride * t.elemBytes,
			Src: conv.h.Stride * conv.inStride.h * t.elemBytes}
		to := unsafe.Add(memory, grid.offset+firstRow*t.rowStride*t.elemBytes)
		from := unsafe.Add(plane, (top+grid.row+firstRow*conv.h.Stride)*conv.inStride.h*t.elemBytes)
		switch {
		case grid.oddColumns != nil:
			t.split(worker, to, unsafe.Add(to, grid.oddColumns.offset-grid.offset), from, left, conv.w.Extent(rect.cols),
				down, planeAxis)
		case firstCol < endCol && !t.isFilledBySplit(grid):
			first := unsafe.Add(from, (left+grid.col+firstCol*conv.w.Stride)*conv.inStride.w*t.elemBytes)
			across := strided.Axis{N: endCol - firstCol, Dst: t.elemBytes, Src: conv.w.Stride * conv.inStride.w * t.elemBytes}
			t.copy(worker, unsafe.Add(to, firstCol*t.elemBytes), first, across, down, planeAxis)
		}
	}
}

// isFilledBySplit reports whether split fills the subgrid together with the even columns of the same rows.
func (t *planeTiles) isFilledBySplit(grid *subgrid) bool {
	even := t.findSubgrid(grid.row, 0)
	return even != nil && even.oddColumns == grid
}

// split copies the columns [left, left+width) of the plane, except columns outside the plane, in pairs. Columns at even
// distances from left are copied to address even, all other columns to address odd. For example, with left -1 and width
// 5, the columns 1 and 3 are copied to even[1] and even[2], and the columns 0 and 2 to odd[0] and odd[1]. down and
// planeAxis describe rows and planes.
func (t *planeTiles) split(worker *tapRun, even, odd, from unsafe.Pointer, left, width int, down,
	planeAxis strided.Axis) {
	first, end := geometry.IndicesInside(left, 1, t.conv.w.Size, width)
	if first >= end {
		return
	}
	to := [2]unsafe.Pointer{even, odd}
	pairs := (end - first) / 2
	// The addresses of the first and of the second column of the first pair.
	firstTo := unsafe.Add(to[first%2], first/2*t.elemBytes)
	secondTo := unsafe.Add(to[(first+1)%2], (first+1)/2*t.elemBytes)
	from = unsafe.Add(from, (left+first)*t.elemBytes)
	down, planeAxis = mergeAxes(down, planeAxis)
	for i := range planeAxis.N {
		worker.ptrs[0], worker.ptrs[1] = unsafe.Add(firstTo, i*planeAxis.Dst), unsafe.Add(secondTo, i*planeAxis.Dst)
		worker.ptrs[2] = unsafe.Add(from, i*planeAxis.Src)
		worker.strides[0], worker.strides[1], worker.strides[2] = down.Dst, down.Dst, down.Src
		t.splitRow.Run(&worker.State, worker.ptrs[:3], worker.strides[:3], pairs, down.N)
	}
	if last := end - 1; (end-first)%2 == 1 {
		t.copy(worker, unsafe.Add(to[last%2], last/2*t.elemBytes), unsafe.Add(from, (last-first)*t.elemBytes),
			strided.Axis{N: 1, Dst: t.elemBytes, Src: t.elemBytes}, down, planeAxis)
	}
}

// mergeAxes assigns two axes to the rows of a loop call and to repeated calls. If the axes have a common stride, they
// are merged into the rows of one call. Otherwise the longer axis becomes the rows.
func mergeAxes(rows, calls strided.Axis) (strided.Axis, strided.Axis) {
	switch {
	case calls.N == 1 || calls.Dst == rows.N*rows.Dst && calls.Src == rows.N*rows.Src:
		rows.N *= calls.N
		calls.N = 1
	case calls.N > rows.N:
		return calls, rows
	}
	return rows, calls
}

// copy copies the rows of several planes. An axis has the number of elements, rows or planes, and their strides.
func (t *planeTiles) copy(worker *tapRun, dst, src unsafe.Pointer, cols, rows, planes strided.Axis) {
	rows, planes = mergeAxes(rows, planes)
	elementsAreContiguous := cols.Dst == t.elemBytes && cols.Src == t.elemBytes
	usesLoop := elementsAreContiguous && cols.N*t.elemBytes < machine.LineBytes // for short rows
	for i := range planes.N {
		to, from := unsafe.Add(dst, i*planes.Dst), unsafe.Add(src, i*planes.Src)
		if !usesLoop {
			t.elemCopier.CopyBlock(to, from, cols, rows)
			continue
		}
		worker.ptrs[0], worker.ptrs[1] = to, from
		worker.strides[0], worker.strides[1] = rows.Dst, rows.Src
		t.copyRow.Run(&worker.State, worker.ptrs[:2], worker.strides[:2], cols.N, rows.N)
	}
}
