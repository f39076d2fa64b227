package pool

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// carriedBytes is the approximate size, in bytes, of the partial sums that one loop leaves for the next loop. Sums of
// this size stay in the L1 cache.
const carriedBytes = 16 << 10

// maxRunElements bounds the elements that one call of a loop folds, so that a call takes at most a few milliseconds.
const maxRunElements = 1 << 24

// loopCallCost is the approximate cost of a call of a loop, in the unit of [graph.Mem.CheckContextAfter].
const loopCallCost = 64

// compiledPixels is a pooling by compiled loops over channels, which are contiguous in operand and results. The loops
// fold (reduce) windows; a tap is an element of a window. One call of a loop computes a run of neighbouring results
// along the last dimension ([geometry.Run]). A row of the loop has the channels of one result. If the pixels of the run
// are contiguous in operand and result, a single row has the channels of the whole run. Small windows are folded by a
// single loop (isSingle), large windows by several loops of tapsPerLoop taps.
type compiledPixels struct {
	*tapLoops
	elemBytes     int  // bytes of an element
	maxRunResults int  // maximum number of results of a run
	mergeable     bool // whether adjacent pixels of a row are contiguous in operand and result
	state         graph.PerWorker[loopState]
}

// tapStream gives the addresses of one tap for all results of a run.
type tapStream struct {
	ptr          unsafe.Pointer // address of the tap of the first result
	resultStride int            // distance to the tap of the next result, in bytes
}

// loopState is the state of a worker that runs the loops of a pooling.
type loopState struct {
	loops.State
	ptrs         [expr.MaxOperands]unsafe.Pointer // addresses of the operands of the next loop call
	strides      [expr.MaxOperands]int            // their row strides, in bytes
	operandCount int                              // number of operands added so far
	taps         []tapStream                      // taps of the current run of results
	divisor      [8]byte                          // scalar operand of averages, in the dtype of sums
	index        int64                            // scalar operand of maxima with indices: index of the first tap
}

// add adds an operand of the next loop call. first is the address of its first row, and rows are rowStride bytes apart.
func (s *loopState) add(first unsafe.Pointer, rowStride int) {
	s.ptrs[s.operandCount], s.strides[s.operandCount] = first, rowStride
	s.operandCount++
}

// compilePixels makes the kernel of a [compiledPixels]. It returns nil if channels are not contiguous, if no window has
// a tap inside the operand, or if newTapLoops returns nil.
func compilePixels(p *sizedPooling) (*graph.Kernel, error) {
	pixels := &compiledPixels{elemBytes: p.meta.DType.Size()}
	isContiguous := p.channels <= 1 || p.inStrides[channelDim] == pixels.elemBytes
	for i, result := range p.results {
		isContiguous = isContiguous && (p.channels <= 1 || p.outStrides[i][channelDim] == result.DType.Size())
	}
	if !isContiguous || p.taps == 0 {
		return nil, nil
	}
	var err error
	if pixels.tapLoops, err = newTapLoops(p); pixels.tapLoops == nil || err != nil {
		return nil, err
	}
	pixels.mergeable = !p.indices && p.inStrides[columnDim] == p.channels*pixels.elemBytes &&
		p.outStrides[0][columnDim] == p.inStrides[columnDim]
	pixels.maxRunResults = max(1, maxRunElements/(p.channels*min(p.taps, maxLoopTaps)))
	if !pixels.isSingle && p.kind == reduceAvg {
		pixels.maxRunResults = max(1, carriedBytes/(p.channels*pixels.sumDType.Size()))
	}
	return pixels.kernel(), nil
}

// tapIndex returns the index of tap k of a window in the plane, minus the index of the window's first element.
func (p *sizedPooling) tapIndex(k int) int {
	dilation := func(axis int) int { return max(1, p.axes[axis].WindowAt(0).Step) }
	return p.planeIndex(k/(p.maxTaps[1]*p.maxTaps[2])*dilation(0), k/p.maxTaps[2]%p.maxTaps[1]*dilation(1),
		k%p.maxTaps[2]*dilation(2))
}

// kernel returns the kernel, which iterates over rows of results. Worker memory has the neutral elements of all
// channels, followed by partial sums if there are several loops.
func (p *compiledPixels) kernel() *graph.Kernel {
	depths, heights := p.axes[0].Results, p.axes[1].Results
	rows := p.batch * depths * heights
	division := machine.DivideUnits(rows, kit.BoundedProduct(p.axes[2].Results, p.channels, p.taps), machine.ReduceGrain)
	neutralBytes := kit.AlignUp(p.channels * p.elemBytes)
	kernel := &graph.Kernel{WorkerScratch: neutralBytes, Code: p.listings}
	if !p.isSingle && p.kind == reduceAvg {
		kernel.WorkerScratch += max(carriedBytes, p.channels*p.sumDType.Size())
	}
	kernel.Phases = []graph.Phase{{Chunks: division.Chunks, Run: func(mem *graph.Mem, chunk int) error {
		worker := p.state.Get(mem)
		worker.begin(mem)
		p.fillNeutral(p.dtype, mem.WorkerScratch[:p.channels*p.elemBytes])
		for row, end := division.ChunkRange(chunk); row < end; row++ {
			p.computeRow(mem, worker, row/heights/depths, row/heights%depths, row%heights)
		}
		// The worker's state outlives the run. It must not keep the memory of the run alive.
		clear(worker.taps[:cap(worker.taps)])
		clear(worker.ptrs[:])
		worker.Release()
		return nil
	}}}
	return kernel
}

// computeRow computes the row of results at (depth, row) for an index of the batch, image.
func (p *compiledPixels) computeRow(mem *graph.Mem, worker *loopState, image, depth, row int) {
	columns := &p.axes[2]
	resultAddress := func(output, column int) unsafe.Pointer {
		strides := &p.outStrides[output]
		return unsafe.Add(mem.Ptrs[output], image*strides[batchDim]+depth*strides[depthDim]+row*strides[rowDim]+
			column*strides[columnDim])
	}
	for next := 0; next < columns.Results; {
		run := columns.RunAt(next, p.maxRunResults, p.countPadding)
		next += run.Results
		mem.CheckContextAfter(loopCallCost + p.channels*run.Results)
		windows := p.windows(depth, row, run.First)
		firstPlane, firstRow, firstCol := windows[0].Start, windows[1].Start, windows[2].Start
		offset := image*p.inStrides[batchDim] + firstPlane*p.inStrides[depthDim] + firstRow*p.inStrides[rowDim] +
			firstCol*p.inStrides[columnDim]
		firstTap := unsafe.Add(mem.Ptrs[len(p.results)], offset) // the operand follows the results in mem.Ptrs
		dst := resultAddress(0, run.First)
		if p.kind == reduceAvg {
			p.putDivisor(worker.divisor[:], p.dtype, p.sumDType, p.area(windows))
		}
		if !p.isSingle {
			p.runLoops(mem, worker, dst, run, firstTap, windows)
			continue
		}
		allInside := p.listTaps(worker, firstTap, windows, run.Step*p.inStrides[columnDim],
			unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch)))
		if p.indices {
			worker.index = int64(p.planeIndex(firstPlane, firstRow, firstCol))
			p.runIndices(mem, worker, dst, resultAddress(1, run.First), run)
			continue
		}
		p.runSingle(worker, dst, run, allInside)
	}
}

// listTaps lists the taps of the windows of a run in worker.taps. window is the window of the first result, firstTap
// the address of its first tap, and resultStride the distance between the windows of neighbouring results in bytes.
// Taps outside the operand read the neutral element. allInside is true if all taps are inside the operand.
func (p *compiledPixels) listTaps(worker *loopState, firstTap unsafe.Pointer, window [maxDims]geometry.Range,
	resultStride int, neutral unsafe.Pointer) (allInside bool) {
	allInside = true
	worker.taps = worker.taps[:0]
	for depth := range p.maxTaps[0] {
		for row := range p.maxTaps[1] {
			for column := range p.maxTaps[2] {
				if depth >= window[0].Count() || row >= window[1].Count() || column >= window[2].Count() {
					allInside = false
					worker.taps = append(worker.taps, tapStream{neutral, 0})
					continue
				}
				worker.taps = append(worker.taps,
					tapStream{unsafe.Add(firstTap, p.tapOffset(window, depth, row, column)), resultStride})
			}
		}
	}
	return allInside
}

// tapOffset returns the distance in bytes from the first tap of a window to the tap with the given indices in the
// window.
func (p *compiledPixels) tapOffset(window [maxDims]geometry.Range, depth, row, column int) int {
	return depth*window[0].Step*p.inStrides[depthDim] + row*window[1].Step*p.inStrides[rowDim] +
		column*window[2].Step*p.inStrides[columnDim]
}

// begin prepares the state for a chunk. It discards operands that an interrupted chunk has added.
func (s *loopState) begin(mem *graph.Mem) { s.operandCount, s.Context = 0, mem.Context }

// run calls a loop over the given number of rows of n elements each, with the operands that were added. It then removes
// these operands.
func (s *loopState) run(loop *loops.Loop, n, rows int) {
	loop.Run(&s.State, s.ptrs[:s.operandCount], s.strides[:s.operandCount], n, rows)
	s.operandCount = 0
}

// runSingle computes a run of results at address dst by one loop.
func (p *compiledPixels) runSingle(worker *loopState, dst unsafe.Pointer, run geometry.Run, allInside bool) {
	worker.add(dst, p.outStrides[0][columnDim])
	for _, tap := range worker.taps {
		worker.add(tap.ptr, tap.resultStride)
	}
	if p.kind == reduceAvg {
		worker.add(unsafe.Pointer(&worker.divisor), 0)
	}
	if allInside && p.mergeable && run.Step == 1 {
		worker.run(p.firstLoop, p.channels*run.Results, 1)
		return
	}
	worker.run(p.firstLoop, p.channels, run.Results)
}

// runIndices computes a run of maxima at address dst, and of their indices at address dstIndices. The index of the
// first tap is a scalar operand and differs from result to result, so each result takes one call.
func (p *compiledPixels) runIndices(mem *graph.Mem, worker *loopState, dst, dstIndices unsafe.Pointer,
	run geometry.Run) {
	for i := range run.Results {
		worker.add(unsafe.Add(dst, i*p.outStrides[0][columnDim]), 0)
		worker.add(unsafe.Add(dstIndices, i*p.outStrides[1][columnDim]), 0)
		for _, tap := range worker.taps {
			worker.add(unsafe.Add(tap.ptr, i*tap.resultStride), 0)
		}
		worker.add(unsafe.Pointer(&worker.index), 0)
		mem.CheckContextAfter(loopCallCost + p.channels*len(worker.taps))
		worker.run(p.firstLoop, p.channels, 1)
		worker.index += int64(run.Step)
	}
}

// runLoops computes a run of results at address dst by several loops. Each loop folds tapsPerLoop taps of each window.
// firstTap is the address of the first tap of the first result, whose window is given. In the last loop, neutral
// elements replace missing taps.
func (p *compiledPixels) runLoops(mem *graph.Mem, worker *loopState, dst unsafe.Pointer, run geometry.Run,
	firstTap unsafe.Pointer, window [maxDims]geometry.Range) {
	// The results hold the partial maxima. Partial sums are in worker memory.
	carried, carriedStride := dst, p.outStrides[0][columnDim]
	if p.kind == reduceAvg {
		carried = unsafe.Pointer(&mem.WorkerScratch[kit.AlignUp(p.channels*p.elemBytes)])
		carriedStride = p.channels * p.sumDType.Size()
	}
	rowTaps, columnTaps := window[1].Count(), window[2].Count()
	tapCount := window[0].Count() * rowTaps * columnTaps
	for first := 0; first < tapCount || first == 0; first += tapsPerLoop {
		loop := p.firstLoop
		worker.add(carried, carriedStride) // the loop's result
		if first > 0 {
			loop = p.nextLoop
			worker.add(carried, carriedStride) // the operand: the partial result
		}
		for tap := first; tap < first+tapsPerLoop; tap++ {
			if tap >= tapCount {
				worker.add(unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch)), 0)
				continue
			}
			offset := p.tapOffset(window, tap/columnTaps/rowTaps, tap/columnTaps%rowTaps, tap%columnTaps)
			worker.add(unsafe.Add(firstTap, offset), run.Step*p.inStrides[columnDim])
		}
		mem.CheckContextAfter(loopCallCost + tapsPerLoop*p.channels*run.Results)
		worker.run(loop, p.channels, run.Results)
	}
	if p.kind == reduceAvg {
		worker.add(dst, p.outStrides[0][columnDim])
		worker.add(carried, carriedStride)
		worker.add(unsafe.Pointer(&worker.divisor), 0)
		worker.run(p.divideLoop, p.channels, run.Results)
	}
}
