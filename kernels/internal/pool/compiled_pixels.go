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

// carriedBytes is the approximate size, in bytes, of the partial sums between two loops. Sums of this size stay in the
// L1 cache.
const carriedBytes = 16 << 10

// maxRunElements bounds the elements that one call of a loop folds. A call takes at most a few milliseconds.
const maxRunElements = 1 << 24

// loopCallCost is the cost of a call of a loop, in simple operations.
const loopCallCost = 64

// compiledPixels is a pooling by compiled loops over channels, which are contiguous in operand and results. The loops
// fold (reduce) windows; a tap is an element of a window. A run of
// neighbouring results along the last dimension ([geometry.Run]) takes one call of a loop. A row of the loop has the
// channels of one result. If the results of the run are contiguous, a single row has the channels of all of them.
type compiledPixels struct {
	*tapLoops
	elemBytes     int  // bytes of an element
	maxRunResults int  // maximum number of results of a run
	mergeable     bool // whether the pixels of a run are contiguous in operand and result
	state         graph.PerWorker[poolRun]
}

// tapStream is a tap of a run's windows.
type tapStream struct {
	ptr          unsafe.Pointer // address of the tap of the first result
	resultStride int            // distance to the tap of the next result, in bytes
}

// poolRun is the state of a worker that runs the loops of a pooling.
type poolRun struct {
	loops.State
	ptrs         [expr.MaxOperands]unsafe.Pointer // addresses of the operands of the next loop call
	strides      [expr.MaxOperands]int            // their row strides, in bytes
	operandCount int                              // number of operands added so far
	taps         []tapStream                      // taps of the current run of results
	divisor      [8]byte                          // scalar operand of averages, in the dtype of sums
	index        int64                            // scalar operand of maxima with indices: index of the first tap
}

// add adds an operand of the next loop call. first is the address of its first row, and rows are step bytes apart.
func (r *poolRun) add(first unsafe.Pointer, step int) {
	r.ptrs[r.operandCount], r.strides[r.operandCount] = first, step
	r.operandCount++
}

// compilePixels makes the kernel of a [compiledPixels]. It returns nil if there is no machine code, or if channels are
// not contiguous.
func compilePixels(p *poolCall) (*graph.Kernel, error) {
	pixels := &compiledPixels{elemBytes: p.meta.DType.Size()}
	isStrided := p.channels > 1 && p.inStrides[channelDim] != pixels.elemBytes
	for i, result := range p.results {
		isStrided = isStrided || p.channels > 1 && p.outStrides[i][channelDim] != result.DType.Size()
	}
	if isStrided || p.taps == 0 {
		return nil, nil
	}
	var err error
	if pixels.tapLoops, err = newTapLoops(p); pixels.tapLoops == nil || err != nil {
		return nil, err
	}
	pixels.mergeable = !p.indices && p.inStrides[columnDim] == p.channels*pixels.elemBytes &&
		p.outStrides[0][columnDim] == p.inStrides[columnDim]
	pixels.maxRunResults = max(1, maxRunElements/(p.channels*min(p.taps, maxLoopTaps)))
	if !pixels.isSingle && p.kind == poolAvg {
		pixels.maxRunResults = max(1, carriedBytes/(p.channels*pixels.sumDType.Size()))
	}
	return pixels.kernel(), nil
}

// tapIndex returns the index of tap k of a window in the plane, minus the index of the window's first element.
func (p *poolCall) tapIndex(k int) int {
	step := func(d int) int { return max(1, p.axes[d].WindowAt(0).Step) }
	return p.planeIndex(k/(p.maxTaps[1]*p.maxTaps[2])*step(0), k/p.maxTaps[2]%p.maxTaps[1]*step(1), k%p.maxTaps[2]*step(2))
}

// kernel returns the kernel, which iterates over rows of results.
func (p *compiledPixels) kernel() *graph.Kernel {
	depths, heights := p.axes[0].Results, p.axes[1].Results
	rows := p.batch * depths * heights
	division := machine.DivideUnits(rows, kit.BoundedProduct(p.axes[2].Results, p.channels, p.taps), machine.ReduceGrain)
	neutralBytes := kit.AlignUp(p.channels * p.elemBytes)
	kernel := &graph.Kernel{WorkerScratch: neutralBytes, Code: p.listings}
	if !p.isSingle && p.kind == poolAvg {
		kernel.WorkerScratch += max(carriedBytes, p.channels*p.sumDType.Size())
	}
	kernel.Phases = []graph.Phase{{Chunks: division.Chunks, Run: func(m *graph.Mem, chunk int) error {
		worker := p.state.Of(m)
		worker.begin(m)
		p.fillNeutral(p.dtype, m.WorkerScratch[:p.channels*p.elemBytes])
		for row, end := division.ChunkRange(chunk); row < end; row++ {
			p.computeRow(m, worker, row/heights/depths, row/heights%depths, row%heights)
		}
		clear(worker.taps[:cap(worker.taps)])
		clear(worker.ptrs[:])
		worker.Release()
		return nil
	}}}
	return kernel
}

// computeRow computes a row of results.
func (p *compiledPixels) computeRow(mem *graph.Mem, worker *poolRun, image, depth, row int) {
	columns := &p.axes[2]
	resultAddress := func(i, w int) unsafe.Pointer {
		strides := &p.outStrides[i]
		return unsafe.Add(mem.Ptrs[i], image*strides[batchDim]+depth*strides[depthDim]+row*strides[rowDim]+
			w*strides[columnDim])
	}
	for next := 0; next < columns.Results; {
		run := columns.RunAt(next, p.maxRunResults, p.countPadding)
		next += run.Results
		mem.Count(loopCallCost + p.channels*run.Results)
		windows := p.windows(depth, row, run.First)
		firstPlane, firstRow, firstCol := windows[0].Start, windows[1].Start, windows[2].Start
		offset := image*p.inStrides[batchDim] + firstPlane*p.inStrides[depthDim] + firstRow*p.inStrides[rowDim] +
			firstCol*p.inStrides[columnDim]
		first := unsafe.Add(mem.Ptrs[len(p.results)], offset)
		to := resultAddress(0, run.First)
		if p.kind == poolAvg {
			p.putDivisor(worker.divisor[:], p.dtype, p.sumDType, p.area(windows))
		}
		if !p.isSingle {
			p.runLoops(mem, worker, to, run, first, windows)
			continue
		}
		allInside := p.listTaps(worker, first, windows, run.Step*p.inStrides[columnDim],
			unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch)))
		if p.indices {
			worker.index = int64(p.planeIndex(firstPlane, firstRow, firstCol))
			p.runIndices(mem, worker, to, resultAddress(1, run.First), run)
			continue
		}
		p.runSingle(worker, to, run, allInside)
	}
}

// listTaps lists the taps of a window for one loop. Taps outside the operand read the neutral element. allInside is
// true if all taps are inside the operand.
func (p *compiledPixels) listTaps(worker *poolRun, firstTap unsafe.Pointer, window [maxDims]geometry.Range, step int,
	neutral unsafe.Pointer) (allInside bool) {
	allInside = true
	worker.taps = worker.taps[:0]
	for d := range p.maxTaps[0] {
		for h := range p.maxTaps[1] {
			for k := range p.maxTaps[2] {
				if d >= window[0].Count() || h >= window[1].Count() || k >= window[2].Count() {
					allInside = false
					worker.taps = append(worker.taps, tapStream{neutral, 0})
					continue
				}
				worker.taps = append(worker.taps, tapStream{unsafe.Add(firstTap, p.tapAt(window, d, h, k)), step})
			}
		}
	}
	return allInside
}

// tapAt returns the distance in bytes from the first tap of a window to tap (d, h, k).
func (p *compiledPixels) tapAt(window [maxDims]geometry.Range, d, h, k int) int {
	return d*window[0].Step*p.inStrides[depthDim] + h*window[1].Step*p.inStrides[rowDim] +
		k*window[2].Step*p.inStrides[columnDim]
}

// begin prepares the state for a chunk. It removes operands that an interrupted chunk has left.
func (r *poolRun) begin(m *graph.Mem) { r.operandCount, r.Context = 0, m.Context }

// run calls a loop over rows of n elements, with the operands that were added.
func (r *poolRun) run(loop *loops.Loop, n, rows int) {
	loop.Run(&r.State, r.ptrs[:r.operandCount], r.strides[:r.operandCount], n, rows)
	r.operandCount = 0
}

// runSingle computes a run of results by one loop.
func (p *compiledPixels) runSingle(worker *poolRun, to unsafe.Pointer, run geometry.Run, allInside bool) {
	worker.add(to, p.outStrides[0][columnDim])
	for _, tap := range worker.taps {
		worker.add(tap.ptr, tap.resultStride)
	}
	if p.kind == poolAvg {
		worker.add(unsafe.Pointer(&worker.divisor), 0)
	}
	if allInside && p.mergeable && run.Step == 1 {
		worker.run(p.firstLoop, p.channels*run.Results, 1)
		return
	}
	worker.run(p.firstLoop, p.channels, run.Results)
}

// runIndices computes a run of maxima and their indices. The index of the first tap is a scalar operand and differs
// from result to result, so each result takes one call.
func (p *compiledPixels) runIndices(m *graph.Mem, worker *poolRun, to, index unsafe.Pointer, run geometry.Run) {
	for i := range run.Results {
		worker.add(unsafe.Add(to, i*p.outStrides[0][columnDim]), 0)
		worker.add(unsafe.Add(index, i*p.outStrides[1][columnDim]), 0)
		for _, tap := range worker.taps {
			worker.add(unsafe.Add(tap.ptr, i*tap.resultStride), 0)
		}
		worker.add(unsafe.Pointer(&worker.index), 0)
		m.Count(loopCallCost + p.channels*len(worker.taps))
		worker.run(p.firstLoop, p.channels, 1)
		worker.index += int64(run.Step)
	}
}

// runLoops computes a run of results by several loops. Each loop folds tapsPerLoop elements of each window. from is the
// address of the first element of the first window. The last loop reads the neutral element in place of missing
// elements.
func (p *compiledPixels) runLoops(mem *graph.Mem, worker *poolRun, to unsafe.Pointer, run geometry.Run,
	from unsafe.Pointer, window [maxDims]geometry.Range) {
	carried, step := to, p.outStrides[0][columnDim]
	if p.kind == poolAvg {
		carried, step = unsafe.Pointer(&mem.WorkerScratch[kit.AlignUp(p.channels*p.elemBytes)]), p.channels*p.sumDType.Size()
	}
	rowTaps, columnTaps := window[1].Count(), window[2].Count()
	tapCount := window[0].Count() * rowTaps * columnTaps
	for first := 0; first < tapCount || first == 0; first += tapsPerLoop {
		loop := p.firstLoop
		worker.add(carried, step)
		if first > 0 {
			loop = p.nextLoop
			worker.add(carried, step)
		}
		for tap := first; tap < first+tapsPerLoop; tap++ {
			if tap >= tapCount {
				worker.add(unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch)), 0)
				continue
			}
			worker.add(unsafe.Add(from, p.tapAt(window, tap/columnTaps/rowTaps, tap/columnTaps%rowTaps, tap%columnTaps)),
				run.Step*p.inStrides[columnDim])
		}
		mem.Count(loopCallCost + tapsPerLoop*p.channels*run.Results)
		worker.run(loop, p.channels, run.Results)
	}
	if p.kind == poolAvg {
		worker.add(to, p.outStrides[0][columnDim])
		worker.add(carried, step)
		worker.add(unsafe.Pointer(&worker.divisor), 0)
		worker.run(p.divideLoop, p.channels, run.Results)
	}
}
