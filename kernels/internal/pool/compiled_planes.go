package pool

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// compiledPlanes is a pooling of row-major operands by compiled loops over rows. For each row of results, a first loop
// folds (reduces) the rows that the windows cover into one row of worker memory, the folded row. The folded row has
// neutral elements as padding on both sides. A second loop folds the columns of each window in the folded row. If
// windows are 2 elements apart, the second loop loads pairs of an even and an odd element as complex numbers. For
// example, with windows of 2x2 elements that are 2 elements apart, result row 0 of the plane x is computed as
//
//	folded[j] = x[0, j] + x[1, j]
//	result[0, j] = folded[2*j] + folded[2*j+1]    the real and the imaginary part of pair j
//
// The axes are depth, rows and columns (depthAxis, rowAxis, columnAxis). A tap is an element of a window, and maxTaps
// has the maximum numbers of taps of a window by axis. These types are in other files:
//
//	sizedPooling  describes the call: kind, axes, maxTaps, sizes and strides
//	rowLoops      embeds the sizedPooling, and has the two loops (rowsLoop, columnsLoop) and columns
//	columns       describes the windows in a row: `results` windows of `taps` elements. Window i begins at element
//	              first + i*step, and its elements are `dilation` elements apart.
//	loopState     collects the operands of a loop (addOperand), and then calls the loop (call)
type compiledPlanes struct {
	*rowLoops                             // the loops, and the description of the call
	planes, width                  int    // number of planes; elements per row of the operand
	elemBytes                      int    // bytes of an element
	foldedRowStride, paddingBefore int    // distance between folded rows, and padding before each folded row, in elements
	blockRows, batchPlanes         int    // rows of results, and planes, that one unit of work computes
	divisors                       []byte // divisors of averages in the dtype of sums, by depth, row and column of results
	hasOneDivisor                  bool   // whether all results have the same divisor, or no divisor
	state                          graph.PerWorker[loopState]
}

// compilePlanes makes the kernel of a [compiledPlanes]. It returns nil for maxima with indices, for operands or results
// that are not row-major, for windows that newColumns rejects or that do not fit one loop, for too many divisors, and
// without machine code.
func compilePlanes(sized *sizedPooling) (*graph.Kernel, error) {
	if sized.returnsIndices || !sized.meta.IsContiguous() || !sized.results[0].IsContiguous() {
		return nil, nil
	}
	dtype := sized.meta.DType
	windowRows := kit.BoundedProduct(sized.maxTaps[depthAxis], sized.maxTaps[rowAxis]) // at all depths of a window
	planes := &compiledPlanes{planes: sized.batch * sized.channels, width: sized.axes[columnAxis].Size,
		elemBytes: dtype.Size()}
	cols, ok := newColumns(&sized.axes[columnAxis])
	if !ok || !cols.fitOneLoop(dtype) || windowRows == 0 || windowRows > maxLoopTaps {
		return nil, nil
	}
	sumDType := dtype.OpMath()
	if sized.kind == reduceAvg && dtype.IsFloat() && windowRows*cols.taps > maxLoopTaps {
		sumDType = tensor.Float64 // sums of many taps need more bits
	}
	if !planes.setDivisors(sized, sumDType) {
		return nil, nil
	}
	var err error
	planes.rowLoops, err = newRowLoops(sized, sumDType, windowRows, cols, planes.hasOneDivisor)
	if planes.rowLoops == nil || err != nil {
		return nil, err
	}
	planes.layOutRows()
	return planes.kernel(), nil
}

// setDivisors sets the divisors of averages: one number for all results, or one number for each result of a plane. It
// returns false if there would be more than maxDivisors numbers. sumDType is the dtype of sums. Other reductions have
// no divisors, and hasOneDivisor is true.
func (p *compiledPlanes) setDivisors(sized *sizedPooling, sumDType tensor.DType) bool {
	if p.hasOneDivisor = sized.kind != reduceAvg; p.hasOneDivisor {
		return true
	}
	depths, heights := sized.axes[depthAxis].Results, sized.axes[rowAxis].Results
	widths := sized.axes[columnAxis].Results
	p.hasOneDivisor = sized.divisor != 0 || !slices.ContainsFunc(sized.axes[:], func(axis geometry.Axis) bool {
		return !axis.IsUniform(sized.countPadding)
	})
	if p.hasOneDivisor {
		depths, heights, widths = 1, 1, 1
	}
	count := kit.BoundedProduct(depths, heights, widths)
	if count > maxDivisors {
		return false
	}
	divisorBytes := sumDType.Size()
	p.divisors = make([]byte, count*divisorBytes)
	for i := range count {
		area := sized.area(sized.windows(i/widths/heights, i/widths%heights, i%widths))
		sized.putDivisor(p.divisors[i*divisorBytes:], sized.meta.DType, sumDType, area)
	}
	return true
}

// maxDivisors is the maximum length of a table of divisors.
const maxDivisors = 1 << 22

// foldedBytes is the approximate size, in bytes, of the folded rows of a worker. Rows of this size stay in the L1
// cache.
const foldedBytes = 16 << 10

// layOutRows sets foldedRowStride and paddingBefore, and chooses blockRows and batchPlanes. The choice depends only on
// sizes and does not affect the bits of results.
func (p *compiledPlanes) layOutRows() {
	p.paddingBefore = max(0, -p.columns.first)
	lastTap := p.columns.first + (p.columns.results-1)*p.columns.step + p.columns.reach()
	// If step is 2, two elements are loaded at the last tap. One more element is not used.
	const pair, spare = 2, 1
	p.foldedRowStride = p.paddingBefore + max(p.width, lastTap+pair) + spare
	foldedRowBytes := p.foldedRowStride * p.sumDType.Size()
	p.blockRows = min(p.axes[rowAxis].Results, max(1, foldedBytes/foldedRowBytes))
	p.batchPlanes = 1
	if p.blockRows == p.axes[rowAxis].Results {
		p.batchPlanes = min(p.planes, max(1, foldedBytes/(foldedRowBytes*p.blockRows)))
	}
}

// kernel returns the kernel. A unit of work is a block of rows of results, at one depth, in a batch of planes. Worker
// memory has a row of neutral elements, followed by the folded rows of a unit.
func (p *compiledPlanes) kernel() *graph.Kernel {
	depths := p.axes[depthAxis].Results
	blocks, batches := kit.DivUp(p.axes[rowAxis].Results, p.blockRows), kit.DivUp(p.planes, p.batchPlanes)
	units := batches * depths * blocks
	// The taps that both loops fold for a result row.
	rowWork := p.width*p.maxTaps[depthAxis]*p.maxTaps[rowAxis] + p.columns.results*p.columns.taps
	work := p.batchPlanes * p.blockRows * rowWork
	division := machine.DivideUnits(units, work, machine.ReduceGrain)
	foldedRowBytes := p.batchPlanes * p.blockRows * p.foldedRowStride * p.sumDType.Size()
	return &graph.Kernel{WorkerScratch: p.neutralBytes() + foldedRowBytes, Code: p.listings,
		Phases: []graph.Phase{{Chunks: division.Chunks, Run: func(mem *graph.Mem, chunk int) error {
			worker := p.state.Get(mem)
			worker.begin(mem)
			p.fillNeutral(p.dtype, mem.WorkerScratch[:p.width*p.elemBytes])
			p.fillNeutral(p.sumDType, mem.WorkerScratch[p.neutralBytes():][:foldedRowBytes])
			for unit, end := division.ChunkRange(chunk); unit < end; unit++ { // units are by batch, depth and block
				p.computeBlock(mem, worker, unit/blocks/depths, unit/blocks%depths, unit%blocks*p.blockRows)
			}
			// The worker's state outlives the run, and must not keep the run's memory alive.
			clear(worker.taps[:cap(worker.taps)])
			clear(worker.ptrs[:])
			worker.Release()
			return nil
		}}}}
}

// neutralBytes returns the size of the row of neutral elements at the start of worker memory.
func (p *compiledPlanes) neutralBytes() int { return kit.AlignUp(p.width * p.elemBytes) }

// planeBlock is a unit of work: some rows of results, at one depth, in each plane of a batch of planes. Its folded rows
// are stored as [plane][row].
type planeBlock struct {
	firstPlane, planes int
	depth              int
	firstRow, rows     int            // rows of results
	folded             unsafe.Pointer // worker memory for the folded rows
}

// computeBlock computes a unit of work: the rows of results from firstRow on.
func (p *compiledPlanes) computeBlock(mem *graph.Mem, worker *loopState, batch, depth, firstRow int) {
	firstPlane := batch * p.batchPlanes
	block := planeBlock{firstPlane: firstPlane, planes: min(p.batchPlanes, p.planes-firstPlane), depth: depth,
		firstRow: firstRow, rows: min(p.blockRows, p.axes[rowAxis].Results-firstRow),
		folded: unsafe.Pointer(&mem.WorkerScratch[p.neutralBytes()])}
	p.foldBlockRows(mem, worker, block)
	p.foldBlockColumns(mem, worker, block)
}

// foldedRow returns the address of the folded row of a result row, after the row's padding. plane is the index of the
// plane in the block.
func (p *compiledPlanes) foldedRow(block planeBlock, plane, resultRow int) unsafe.Pointer {
	row := plane*block.rows + resultRow - block.firstRow
	return unsafe.Add(block.folded, (row*p.foldedRowStride+p.paddingBefore)*p.sumDType.Size())
}

// foldBlockRows computes the folded rows of a block. It divides the result rows into runs ([geometry.Run]): the windows
// of a run have the same number of rows inside the operand, and begin run.Step rows apart.
func (p *compiledPlanes) foldBlockRows(mem *graph.Mem, worker *loopState, block planeBlock) {
	in := unsafe.Add(mem.Ptrs[1], block.firstPlane*p.planeElements*p.elemBytes)
	planeBytes, foldedRowBytes := p.planeElements*p.elemBytes, p.foldedRowStride*p.sumDType.Size()
	blockEnd := block.firstRow + block.rows
	for runStart := block.firstRow; runStart < blockEnd; {
		const countPadding = false // divisors are applied to columns
		run := p.axes[rowAxis].RunAt(runStart, blockEnd-runStart, countPadding)
		end := runStart + run.Results
		if block.planes > run.Results { // needs fewer calls: one call folds one row in all planes
			const firstPlane = 0
			for resultRow := runStart; resultRow < end; resultRow++ {
				dst := rowStream{p.foldedRow(block, firstPlane, resultRow), block.rows * foldedRowBytes}
				p.foldRows(mem, worker, in, block.depth, resultRow, dst, planeBytes, block.planes)
			}
		} else { // one call folds all rows in one plane
			for i := range block.planes {
				dst := rowStream{p.foldedRow(block, i, runStart), foldedRowBytes}
				p.foldRows(mem, worker, unsafe.Add(in, i*planeBytes), block.depth, runStart, dst,
					run.Step*p.width*p.elemBytes, run.Results)
			}
		}
		runStart = end
	}
}

// foldBlockColumns computes the results of a block from its folded rows.
func (p *compiledPlanes) foldBlockColumns(mem *graph.Mem, worker *loopState, block planeBlock) {
	depthResults := p.axes[rowAxis].Results * p.columns.results // results of a plane at one depth
	depths := p.axes[depthAxis].Results
	firstResult := (block.firstPlane*depths+block.depth)*depthResults + block.firstRow*p.columns.results
	out := unsafe.Add(mem.Ptrs[0], firstResult*p.elemBytes)
	const firstPlane = 0 // of the block
	firstWindow := unsafe.Add(p.foldedRow(block, firstPlane, block.firstRow), p.columns.first*p.sumDType.Size())
	// A batch of several planes has all rows of these planes (layOutRows), so its results are adjacent if there is one
	// depth.
	resultsAreAdjacent := block.planes == 1 || depths == 1
	if p.hasOneDivisor && resultsAreAdjacent {
		const row = 0 // unused, because there is one divisor
		p.foldColumns(worker, out, firstWindow, block.depth, row, block.planes*block.rows)
		return
	}
	for i := range block.planes {
		p.foldColumns(worker, unsafe.Add(out, i*depths*depthResults*p.elemBytes),
			unsafe.Add(firstWindow, i*block.rows*p.foldedRowStride*p.sumDType.Size()), block.depth, block.firstRow,
			block.rows)
	}
}

// rowStream is a sequence of rows in memory.
type rowStream struct {
	ptr         unsafe.Pointer // address of the first row
	strideBytes int            // distance between the addresses of rows, in bytes
}

// foldRows computes count folded rows by one call of rowsLoop, and stores them at dst. The first folded row belongs to
// the result row at (depth, row) of the plane at address in. The windows of the next folded row begin stepBytes further
// in the operand: lower in the same plane, or at the same place in the next plane. Neutral elements replace the missing
// rows of a window.
func (p *compiledPlanes) foldRows(mem *graph.Mem, worker *loopState, in unsafe.Pointer, depth, row int, dst rowStream,
	stepBytes, count int) {
	depthRange, rowRange := p.axes[depthAxis].WindowAt(depth), p.axes[rowAxis].WindowAt(row)
	neutral := unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))
	mem.CheckContextAfter(loopCallCost + p.width*count)
	worker.addOperand(dst.ptr, dst.strideBytes) // the result, followed by the operands of the loop
	for tapDepth := range p.maxTaps[depthAxis] {
		for tapRow := range p.maxTaps[rowAxis] {
			if tapDepth < depthRange.Count() && tapRow < rowRange.Count() {
				first := p.planeIndex(depthRange.Start+tapDepth*depthRange.Step, rowRange.Start+tapRow*rowRange.Step, 0)
				worker.addOperand(unsafe.Add(in, first*p.elemBytes), stepBytes)
			} else {
				worker.addOperand(neutral, 0)
			}
		}
	}
	worker.call(p.rowsLoop, p.width, count)
}

// foldColumns folds the windows of each folded row into a row of results at address dst. src is the address of the
// first window in the first folded row. depth and row are the indices of the first row of results, which select
// divisors.
func (p *compiledPlanes) foldColumns(worker *loopState, dst, src unsafe.Pointer, depth, row, rows int) {
	sumBytes := p.sumDType.Size()
	worker.addOperand(dst, p.columns.results*p.elemBytes)
	for _, offset := range p.columns.operands() {
		worker.addOperand(unsafe.Add(src, offset*sumBytes), p.foldedRowStride*sumBytes)
	}
	switch {
	case p.kind != reduceAvg: // there is no divisor
	case p.hasOneDivisor:
		worker.addOperand(unsafe.Pointer(&p.divisors[0]), 0)
	default:
		step := p.columns.results * sumBytes
		worker.addOperand(unsafe.Pointer(&p.divisors[(depth*p.axes[rowAxis].Results+row)*step]), step)
	}
	worker.call(p.columnsLoop, p.columns.results, rows)
}
