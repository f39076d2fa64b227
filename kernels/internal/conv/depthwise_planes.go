package conv

import (
	"sort"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// planeTiles convolves planes (channels of row-major images) by compiled loops. A tile is a rectangle of the output,
// and a tap is an element of the window. The input of a tile is copied to worker memory with zero padding, in subgrids
// (see [subgridLayout]). With strides of 2, for example, the four subgrids have the even or odd rows and the even or
// odd columns. In a subgrid, the elements that a tap multiplies are adjacent in each row. The compiled loop treats all
// rows of a plane's tile as one long row, and so also computes some unused pixels between rows.
//
// Planes are computed in batches: one call of the loop computes the tiles at the same position in several planes.
// Worker memory has the subgrids of a batch as [plane][subgrid][row][column], and then its sums as
// [plane][row][column].
//
// Three types are declared elsewhere (depthwise_taps.go, package strided). A rowStream is an operand of a loop: the
// address of its first row, and the distance between rows in bytes. Its rows are the long rows of the planes of a
// batch, so that rowStride is the distance between planes. A tapRun has a worker's rowStreams of all taps. A
// strided.Axis is a dimension of a copy: its size N, and its strides Dst and Src in bytes.
type planeTiles struct {
	conv                   *convShape              // the convolution; h and w are the axes of its window
	elemBytes              int                     // bytes of an element
	sum                    *tapSum                 // compiled loops that sum the taps
	mover                  *rowMover               // copies rows to and from worker memory
	rows, cols             int                     // size of an output tile
	tilesDown, tilesAcross int                     // numbers of rows and columns of tiles in a plane
	planesPerBatch         int                     // planes of a batch
	batches                int                     // number of batches of planes in an image
	subgridLayout                                  // of the input of a tile
	outOffset, workerBytes int                     // of worker memory, in bytes: offset of the sums, and size
	workers                graph.PerWorker[tapRun] // arguments of the loops that sum the taps
}

// tileRect is the rectangle of the output that a tile covers.
type tileRect struct {
	row, col   int // of the first result
	rows, cols int // tiles at the lower and right border may be smaller than other tiles
}

// planeTileBytes is the target size of a tile in worker memory, in bytes. It is less than the L1 cache, which must also
// hold the image rows that are copied into the tile.
const planeTileBytes = 28 << 10

// minTileCols is the minimum width of a tile, in elements: one vector.
const minTileCols = 16

// usesPlaneTiles reports whether planes are convolved by compiled loops over tiles (planeTiles). The smallest tile must
// fit in worker memory.
func (s *convShape) usesPlaneTiles(dtype tensor.DType) bool {
	// Extent(n) is the number of input rows, or columns, of n results.
	smallestTile := kit.BoundedProduct(s.h.Extent(1), s.w.Extent(min(s.w.Results, minTileCols)), dtype.Size())
	return hasTapCode(dtype) && smallestTile <= maxTapsBytes
}

// newPlaneTiles divides planes into tiles and compiles the loops. It returns nil if there is no machine code, or if a
// tile exceeds the limit of worker memory.
func newPlaneTiles(conv *convShape, dtype tensor.DType) (*planeTiles, error) {
	if !conv.usesPlaneTiles(dtype) {
		return nil, nil
	}
	t := &planeTiles{conv: conv, elemBytes: dtype.Size()}
	var err error
	const isUniform = true // a plane has one bias, and one weight for each tap
	if t.sum, err = newTapSum(dtype, conv.h.Taps*conv.w.Taps, conv.hasBias, isUniform); t.sum == nil || err != nil {
		return nil, err
	}
	if t.mover, err = newRowMover(dtype); err != nil {
		return nil, err
	}
	t.chooseTileSize()
	t.subgridLayout = newSubgridLayout(conv, t.elemBytes, t.rows, t.cols)
	t.outOffset = t.planesPerBatch * t.planeStride
	t.workerBytes = t.outOffset + t.planesPerBatch*t.rows*t.rowStride*t.elemBytes
	if t.workerBytes > maxTapsBytes {
		return nil, nil
	}
	return t, nil
}

// chooseTileSize chooses the tile size and the number of planes per batch. Tiles have whole rows if whole rows fit. All
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
	// most maxElements, in all planes of a batch. elements(size) is the number of elements if a piece has this size.
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
		t.mover.copy(worker, out.ptr, sums.ptr,
			strided.Axis{N: rect.cols, Dst: conv.outStride.w * t.elemBytes, Src: t.elemBytes},
			strided.Axis{N: rect.rows, Dst: conv.outStride.h * t.elemBytes, Src: t.rowStride * t.elemBytes},
			strided.Axis{N: planes, Dst: out.rowStride, Src: sums.rowStride})
	}
}

// bindWeights sets worker.weights to the weights of an output channel, and returns its bias. In each rowStream, a row
// belongs to a plane of the batch. The rows are for the same output channel of consecutive groups.
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
	for _, grid := range t.subgrids {
		if !grid.isFilledBySplit { // the call for the even columns also copies the odd columns
			t.copySubgrid(worker, grid, memory, plane, planes, rect)
		}
	}
}

// copySubgrid is copyInput for a subgrid and its oddColumns. geometry.IndicesInside(start, step, size, count) is the
// range of all i < count for which start + i*step is in [0, size): the rows or columns that are inside the plane.
func (t *planeTiles) copySubgrid(worker *tapRun, grid *subgrid, memory, plane unsafe.Pointer, planes int,
	rect tileRect) {
	conv := t.conv
	top, left := conv.h.Begin(rect.row), conv.w.Begin(rect.col) // of the input, in the plane; negative in the padding
	firstRow, endRow := geometry.IndicesInside(top+grid.row, conv.h.Stride, conv.h.Size, gridSize(&conv.h, rect.rows))
	if firstRow >= endRow {
		return
	}
	planeAxis := strided.Axis{N: planes, Dst: t.planeStride, Src: conv.inStride.c * t.elemBytes}
	down := strided.Axis{N: endRow - firstRow, Dst: t.rowStride * t.elemBytes,
		Src: conv.h.Stride * conv.inStride.h * t.elemBytes}
	to := unsafe.Add(memory, grid.offset+firstRow*t.rowStride*t.elemBytes)
	from := unsafe.Add(plane, (top+grid.row+firstRow*conv.h.Stride)*conv.inStride.h*t.elemBytes)
	if grid.oddColumns != nil { // the columns of the plane are contiguous
		const step = 1
		first, end := geometry.IndicesInside(left, step, conv.w.Size, conv.w.Extent(rect.cols))
		if first < end { // split writes the even columns to `to` and the odd columns to `odd`
			odd := unsafe.Add(to, grid.oddColumns.offset-grid.offset)
			t.mover.split(worker, to, odd, unsafe.Add(from, (left+first)*t.elemBytes), first, end, down, planeAxis)
		}
		return
	}
	firstCol, endCol := geometry.IndicesInside(left+grid.col, conv.w.Stride, conv.w.Size, gridSize(&conv.w, rect.cols))
	if firstCol < endCol {
		first := unsafe.Add(from, (left+grid.col+firstCol*conv.w.Stride)*conv.inStride.w*t.elemBytes)
		across := strided.Axis{N: endCol - firstCol, Dst: t.elemBytes,
			Src: conv.w.Stride * conv.inStride.w * t.elemBytes}
		t.mover.copy(worker, unsafe.Add(to, firstCol*t.elemBytes), first, across, down, planeAxis)
	}
}
