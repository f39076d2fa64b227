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

// partialSumBytes is the approximate size, in bytes, of the partial sums that one loop leaves for the next loop. Sums
// of this size stay in the L1 cache.
const partialSumBytes = 16 << 10

// maxRunElements bounds the elements that one call of a loop folds, so that a call takes at most a few milliseconds.
const maxRunElements = 1 << 24

// loopCallCost is the approximate cost of a call of a loop, in the unit of [graph.Mem.CheckContextAfter].
const loopCallCost = 64

// compiledPixels is a pooling by compiled loops over channels, which are contiguous in operand and results. One call of
// a loop computes a run: neighbouring results along the last dimension ([geometry.Run]). A loop row has the channels of
// one result. If the pixels of the run are contiguous in operand and result, a single loop row has the channels of the
// whole run. Windows of up to maxLoopTaps taps are folded by a single loop (hasSingleLoop), larger windows by several
// loops of tapsPerPartialLoop taps.
//
// For example, an average over 3x3 windows of an image with 64 channels takes one call for a run of 16 results. The
// loop has the 9 taps as operands, and 16 loop rows of 64 elements.
//
// The embedded tapLoops has the loops: firstLoop folds the first taps of a window, nextLoop folds more taps into
// partial results, and divideLoop divides sums. Its sizedPooling describes the call. The axes are depthAxis, rowAxis
// and columnAxis. Three lists are indexed by axis: axes, maxTaps (maximum numbers of taps of a window), and the result
// of windows.
type compiledPixels struct {
	*tapLoops
	elemBytes           int  // bytes of an element
	maxRunResults       int  // maximum number of results of a run
	pixelsAreContiguous bool // whether horizontally adjacent pixels are contiguous in operand and result
	state               graph.PerWorker[loopState]
}

// compilePixels makes the kernel of a [compiledPixels]. It returns nil if channels are not contiguous, if no window has
// a tap inside the operand, or if the loops cannot be compiled (newTapLoops).
func compilePixels(p *sizedPooling) (*graph.Kernel, error) {
	pixels := &compiledPixels{elemBytes: p.meta.DType.Size()}
	if !p.hasContiguousChannels() || p.taps == 0 {
		return nil, nil
	}
	var err error
	if pixels.tapLoops, err = newTapLoops(p); pixels.tapLoops == nil || err != nil {
		return nil, err
	}
	pixels.pixelsAreContiguous = !p.returnsIndices && p.inStrides[columnDim] == p.channels*pixels.elemBytes &&
		p.outStrides[0][columnDim] == p.inStrides[columnDim]
	pixels.maxRunResults = max(1, maxRunElements/(p.channels*min(p.taps, maxLoopTaps)))
	if !pixels.hasSingleLoop && p.kind == reduceAvg {
		pixels.maxRunResults = max(1, partialSumBytes/(p.channels*pixels.sumDType.Size()))
	}
	return pixels.kernel(), nil
}

// hasContiguousChannels reports whether the channels of a pixel are contiguous in operand and results.
func (p *sizedPooling) hasContiguousChannels() bool {
	if p.channels <= 1 {
		return true
	}
	for i, result := range p.results {
		if p.outStrides[i][channelDim] != result.DType.Size() {
			return false
		}
	}
	return p.inStrides[channelDim] == p.meta.DType.Size()
}

// kernel returns the kernel, which iterates over result rows. The results of a row differ only in the column. Worker
// memory has the neutral elements of all channels, followed by partial sums if there are several loops.
func (p *compiledPixels) kernel() *graph.Kernel {
	depths, heights := p.axes[depthAxis].Results, p.axes[rowAxis].Results
	resultRows := p.batch * depths * heights
	division := machine.DivideUnits(resultRows, kit.BoundedProduct(p.axes[columnAxis].Results, p.channels, p.taps),
		machine.ReduceGrain)
	neutralBytes := kit.AlignUp(p.channels * p.elemBytes)
	kernel := &graph.Kernel{WorkerScratch: neutralBytes, Code: p.listings}
	if !p.hasSingleLoop && p.kind == reduceAvg {
		kernel.WorkerScratch += max(partialSumBytes, p.channels*p.sumDType.Size())
	}
	kernel.Phases = []graph.Phase{{Chunks: division.Chunks, Run: func(mem *graph.Mem, chunk int) error {
		worker := p.state.Get(mem)
		worker.begin(mem)
		p.fillNeutral(p.dtype, mem.WorkerScratch[:p.channels*p.elemBytes])
		for resultRow, end := division.ChunkRange(chunk); resultRow < end; resultRow++ {
			p.computeResultRow(mem, worker, resultRow/heights/depths, resultRow/heights%depths, resultRow%heights)
		}
		// The worker's state outlives the run, and must not keep the run's memory alive.
		clear(worker.taps[:cap(worker.taps)])
		clear(worker.ptrs[:])
		worker.Release()
		return nil
	}}}
	return kernel
}

// computeResultRow computes the results at (depth, row) of an image, in all columns and channels. image is an index in
// the batch. A window has one range for each axis: depth, rows and columns.
func (p *compiledPixels) computeResultRow(mem *graph.Mem, worker *loopState, image, depth, row int) {
	columns := &p.axes[columnAxis]
	resultAddress := func(output, column int) unsafe.Pointer {
		strides := &p.outStrides[output]
		return unsafe.Add(mem.Ptrs[output], image*strides[batchDim]+depth*strides[depthDim]+row*strides[rowDim]+
			column*strides[columnDim])
	}
	for next := 0; next < columns.Results; {
		run := columns.RunAt(next, p.maxRunResults, p.countPadding)
		next += run.Results
		mem.CheckContextAfter(loopCallCost + p.channels*run.Results)
		window := p.windows(depth, row, run.First) // of the first result of the run
		// The first tap of this window:
		tapDepth, tapRow, tapColumn := window[depthAxis].Start, window[rowAxis].Start, window[columnAxis].Start
		offset := image*p.inStrides[batchDim] + tapDepth*p.inStrides[depthDim] + tapRow*p.inStrides[rowDim] +
			tapColumn*p.inStrides[columnDim]
		firstTap := unsafe.Add(mem.Ptrs[len(p.results)], offset) // the operand follows the results in mem.Ptrs
		dst := resultAddress(0, run.First)
		if p.kind == reduceAvg {
			p.putDivisor(worker.divisor[:], p.dtype, p.sumDType, p.area(window))
		}
		if !p.hasSingleLoop {
			p.foldInSeveralLoops(mem, worker, dst, run, firstTap, window)
			continue
		}
		allInside := p.listTaps(worker, firstTap, window, run.Step*p.inStrides[columnDim],
			unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch)))
		if p.returnsIndices {
			worker.index = int64(p.planeIndex(tapDepth, tapRow, tapColumn))
			p.foldWithIndices(mem, worker, dst, resultAddress(1, run.First), run)
		} else {
			p.foldInOneLoop(worker, dst, run, allInside)
		}
	}
}

// listTaps lists the taps of the windows of a run in worker.taps. window is the window of the first result, and
// firstTap is the address of its first tap. resultStride is the distance in bytes between the windows of neighbouring
// results. Taps outside the operand read the neutral element. The result reports whether all taps are inside the
// operand.
func (p *compiledPixels) listTaps(worker *loopState, firstTap unsafe.Pointer, window [maxDims]geometry.Range,
	resultStride int, neutral unsafe.Pointer) (allInside bool) {
	allInside = true
	worker.taps = worker.taps[:0]
	for windowDepth := range p.maxTaps[depthAxis] {
		for windowRow := range p.maxTaps[rowAxis] {
			for windowColumn := range p.maxTaps[columnAxis] {
				isInside := windowDepth < window[depthAxis].Count() && windowRow < window[rowAxis].Count() &&
					windowColumn < window[columnAxis].Count()
				if !isInside {
					allInside = false
					worker.taps = append(worker.taps, tapStream{neutral, 0})
					continue
				}
				worker.taps = append(worker.taps,
					tapStream{unsafe.Add(firstTap, p.tapOffset(window, windowDepth, windowRow, windowColumn)), resultStride})
			}
		}
	}
	return allInside
}

// tapOffset returns the distance in bytes from the first tap of a window to the tap with the given indices in the
// window.
func (p *compiledPixels) tapOffset(window [maxDims]geometry.Range, windowDepth, windowRow, windowColumn int) int {
	return windowDepth*window[depthAxis].Step*p.inStrides[depthDim] +
		windowRow*window[rowAxis].Step*p.inStrides[rowDim] +
		windowColumn*window[columnAxis].Step*p.inStrides[columnDim]
}

// foldInOneLoop computes a run of results at address dst by one loop. The operands are the taps in worker.taps.
func (p *compiledPixels) foldInOneLoop(worker *loopState, dst unsafe.Pointer, run geometry.Run, allInside bool) {
	worker.addOperand(dst, p.outStrides[0][columnDim])
	for _, tap := range worker.taps {
		worker.addOperand(tap.ptr, tap.resultStride)
	}
	if p.kind == reduceAvg {
		worker.addOperand(unsafe.Pointer(&worker.divisor), 0)
	}
	if allInside && p.pixelsAreContiguous && run.Step == 1 {
		const oneRow = 1
		worker.call(p.firstLoop, p.channels*run.Results, oneRow)
		return
	}
	worker.call(p.firstLoop, p.channels, run.Results)
}

// foldWithIndices computes a run of maxima at address dst, and their indices at address dstIndices. The index of the
// first tap is a scalar operand. It differs between results, so each result takes one call. A call has one loop row, so
// the distances between loop rows do not matter.
func (p *compiledPixels) foldWithIndices(mem *graph.Mem, worker *loopState, dst, dstIndices unsafe.Pointer,
	run geometry.Run) {
	const loopRowStride, loopRows = 0, 1
	for i := range run.Results {
		worker.addOperand(unsafe.Add(dst, i*p.outStrides[0][columnDim]), loopRowStride)
		worker.addOperand(unsafe.Add(dstIndices, i*p.outStrides[1][columnDim]), loopRowStride)
		for _, tap := range worker.taps {
			worker.addOperand(unsafe.Add(tap.ptr, i*tap.resultStride), loopRowStride)
		}
		worker.addOperand(unsafe.Pointer(&worker.index), loopRowStride)
		mem.CheckContextAfter(loopCallCost + p.channels*len(worker.taps))
		worker.call(p.firstLoop, p.channels, loopRows)
		worker.index += int64(run.Step)
	}
}

// foldInSeveralLoops computes a run of results at address dst by several loops. Each loop folds tapsPerPartialLoop taps
// of each window. window is the window of the first result, and firstTap is the address of its first tap. In the last
// loop, neutral elements replace missing taps.
func (p *compiledPixels) foldInSeveralLoops(mem *graph.Mem, worker *loopState, dst unsafe.Pointer, run geometry.Run,
	firstTap unsafe.Pointer, window [maxDims]geometry.Range) {
	// The results hold the partial maxima. Partial sums are in worker memory.
	partials, partialStride := dst, p.outStrides[0][columnDim]
	if p.kind == reduceAvg {
		partials = unsafe.Pointer(&mem.WorkerScratch[kit.AlignUp(p.channels*p.elemBytes)])
		partialStride = p.channels * p.sumDType.Size()
	}
	rowTaps, columnTaps := window[rowAxis].Count(), window[columnAxis].Count()
	tapCount := window[depthAxis].Count() * rowTaps * columnTaps
	// A window without taps also takes one loop, which writes the neutral elements.
	for first := 0; first < tapCount || first == 0; first += tapsPerPartialLoop {
		loop := p.firstLoop
		worker.addOperand(partials, partialStride) // the loop's result
		if first > 0 {
			loop = p.nextLoop
			worker.addOperand(partials, partialStride) // the operand: the partial result
		}
		for tap := first; tap < first+tapsPerPartialLoop; tap++ {
			if tap >= tapCount {
				worker.addOperand(unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch)), 0)
				continue
			}
			offset := p.tapOffset(window, tap/columnTaps/rowTaps, tap/columnTaps%rowTaps, tap%columnTaps)
			worker.addOperand(unsafe.Add(firstTap, offset), run.Step*p.inStrides[columnDim])
		}
		mem.CheckContextAfter(loopCallCost + tapsPerPartialLoop*p.channels*run.Results)
		worker.call(loop, p.channels, run.Results)
	}
	if p.kind == reduceAvg {
		worker.addOperand(dst, p.outStrides[0][columnDim])
		worker.addOperand(partials, partialStride)
		worker.addOperand(unsafe.Pointer(&worker.divisor), 0)
		worker.call(p.divideLoop, p.channels, run.Results)
	}
}

// tapIndex returns the distance, in elements of a plane (the pixels of one channel), from the first element of a window
// to its tap k.
func (p *sizedPooling) tapIndex(k int) int {
	dilation := func(axis int) int { return max(1, p.axes[axis].WindowAt(0).Step) }
	rows, columns := p.maxTaps[rowAxis], p.maxTaps[columnAxis] // of a window
	return p.planeIndex(k/(rows*columns)*dilation(depthAxis), k/columns%rows*dilation(rowAxis),
		k%columns*dilation(columnAxis))
}

// loopState is the state of a worker that runs the loops of a pooling.
type loopState struct {
	loops.State
	ptrs         [expr.MaxOperands]unsafe.Pointer // addresses of the operands of the next loop call
	strides      [expr.MaxOperands]int            // distances between loop rows of the operands, in bytes
	operandCount int                              // number of operands added so far
	taps         []tapStream                      // taps of the current run of results
	divisor      [8]byte                          // scalar operand of averages, in the dtype of sums
	index        int64                            // scalar operand of maxima with indices: index of the first tap
}

// begin prepares the state for a chunk. It discards operands that an interrupted chunk has added.
func (s *loopState) begin(mem *graph.Mem) { s.operandCount, s.Context = 0, mem.Context }

// addOperand adds an operand of the next loop call. first is the address of its first loop row, and loopRowStride the
// distance between its loop rows in bytes.
func (s *loopState) addOperand(first unsafe.Pointer, loopRowStride int) {
	s.ptrs[s.operandCount], s.strides[s.operandCount] = first, loopRowStride
	s.operandCount++
}

// call calls a loop over loopRows rows of rowLength elements each, with the operands that were added. It then removes
// these operands.
func (s *loopState) call(loop *loops.Loop, rowLength, loopRows int) {
	loop.Run(&s.State, s.ptrs[:s.operandCount], s.strides[:s.operandCount], rowLength, loopRows)
	s.operandCount = 0
}

// tapStream gives the addresses of one tap for all results of a run.
type tapStream struct {
	ptr          unsafe.Pointer // address of the tap of the first result
	resultStride int            // distance to the tap of the next result, in bytes
}
