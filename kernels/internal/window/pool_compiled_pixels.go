package window

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

// compiledPixels is a pooling by compiled loops over channels, which are contiguous in operand and results. A run of
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
	ptrs         [expr.MaxOperands]unsafe.Pointer
	strides      [expr.MaxOperands]int
	operandCount int
	taps         []tapStream
	divisor      [8]byte // scalar operand of averages, in the dtype of sums
	index        int64   // scalar operand of maxima with indices: index of the first tap
}

// add adds an operand at p whose rows are step bytes apart.
func (r *poolRun) add(p unsafe.Pointer, step int) {
	r.ptrs[r.operandCount], r.strides[r.operandCount] = p, step
	r.operandCount++
}

// compilePixels returns no kernel if there is no machine code, or if channels are not contiguous.
func compilePixels(p *pool) (*graph.Kernel, error) {
	x := &compiledPixels{elemBytes: p.meta.DType.Size()}
	strided := p.channels > 1 && p.inStrides[channelDim] != x.elemBytes
	for i, o := range p.results {
		strided = strided || p.channels > 1 && p.outStrides[i][channelDim] != o.DType.Size()
	}
	if strided || p.taps == 0 {
		return nil, nil
	}
	var err error
	if x.tapLoops, err = newTapLoops(p); x.tapLoops == nil || err != nil {
		return nil, err
	}
	x.mergeable = !p.indices && p.inStrides[columnDim] == p.channels*x.elemBytes &&
		p.outStrides[0][columnDim] == p.inStrides[columnDim]
	x.maxRunResults = max(1, maxRunElements/(p.channels*min(p.taps, maxLoopTaps)))
	if !x.isSingle && p.kind == poolAvg {
		x.maxRunResults = max(1, carriedBytes/(p.channels*x.sumDType.Size()))
	}
	return x.kernel(), nil
}

// tapIndex returns the index of tap k of a window in the plane, minus the index of the window's first element.
func (p *pool) tapIndex(k int) int {
	step := func(d int) int { return max(1, p.axes[d].WindowAt(0).Step) }
	return p.planeIndex(k/(p.maxTaps[1]*p.maxTaps[2])*step(0), k/p.maxTaps[2]%p.maxTaps[1]*step(1), k%p.maxTaps[2]*step(2))
}

// kernel returns the kernel, which iterates over rows of results.
func (p *compiledPixels) kernel() *graph.Kernel {
	depths, heights := p.axes[0].Results, p.axes[1].Results
	rows := p.batch * depths * heights
	cut := machine.DivideUnits(rows, kit.BoundedProduct(p.axes[2].Results, p.channels, p.taps), machine.ReduceGrain)
	neutralBytes := kit.AlignUp(p.channels * p.elemBytes)
	k := &graph.Kernel{Worker: neutralBytes, Code: p.listings}
	if !p.isSingle && p.kind == poolAvg {
		k.Worker += max(carriedBytes, p.channels*p.sumDType.Size())
	}
	k.Phases = []graph.Phase{{Chunks: cut.Chunks, Run: func(m *graph.Mem, chunk int) error {
		r := p.state.Of(m)
		r.begin(m)
		p.fillNeutral(p.dtype, m.Worker[:p.channels*p.elemBytes])
		for row, end := cut.Range(chunk); row < end; row++ {
			p.computeRow(m, r, row/heights/depths, row/heights%depths, row%heights)
		}
		clear(r.taps[:cap(r.taps)])
		clear(r.ptrs[:])
		r.Release()
		return nil
	}}}
	return k
}

// computeRow computes a row of results.
func (p *compiledPixels) computeRow(m *graph.Mem, r *poolRun, n, d, h int) {
	columns := &p.axes[2]
	resultAddress := func(i, w int) unsafe.Pointer {
		o := &p.outStrides[i]
		return unsafe.Add(m.Ptrs[i], n*o[0]+d*o[2]+h*o[3]+w*o[4])
	}
	for next := 0; next < columns.Results; {
		run := columns.RunAt(next, p.maxRunResults, p.countPadding)
		next += run.Results
		m.Count(loopCallCost + p.channels*run.Results)
		windows := p.windows(d, h, run.First)
		d0, h0, w0 := windows[0].Start, windows[1].Start, windows[2].Start
		first := unsafe.Add(m.Ptrs[len(p.results)],
			n*p.inStrides[batchDim]+d0*p.inStrides[depthDim]+h0*p.inStrides[rowDim]+w0*p.inStrides[columnDim])
		to := resultAddress(0, run.First)
		if p.kind == poolAvg {
			p.putDivisor(r.divisor[:], p.dtype, p.sumDType, p.area(windows))
		}
		if !p.isSingle {
			p.runLoops(m, r, to, run, first, windows)
			continue
		}
		allInside := p.listTaps(r, first, windows, run.Step*p.inStrides[columnDim],
			unsafe.Pointer(unsafe.SliceData(m.Worker)))
		if p.indices {
			r.index = int64(p.planeIndex(d0, h0, w0))
			p.runIndices(m, r, to, resultAddress(1, run.First), run)
			continue
		}
		p.runSingle(r, to, run, allInside)
	}
}

// listTaps lists the taps of a window for one loop. Taps outside the operand read the neutral element. allInside is
// true if all taps are inside the operand.
func (p *compiledPixels) listTaps(r *poolRun, firstTap unsafe.Pointer, w [maxDims]geometry.Range, step int,
	neutral unsafe.Pointer) (allInside bool) {
	allInside = true
	r.taps = r.taps[:0]
	for d := range p.maxTaps[0] {
		for h := range p.maxTaps[1] {
			for k := range p.maxTaps[2] {
				if d >= w[0].Count() || h >= w[1].Count() || k >= w[2].Count() {
					allInside = false
					r.taps = append(r.taps, tapStream{neutral, 0})
					continue
				}
				r.taps = append(r.taps, tapStream{unsafe.Add(firstTap, p.tapAt(w, d, h, k)), step})
			}
		}
	}
	return allInside
}

// tapAt returns the distance in bytes from the first tap of a window to tap (d, h, k).
func (p *compiledPixels) tapAt(w [maxDims]geometry.Range, d, h, k int) int {
	return d*w[0].Step*p.inStrides[depthDim] + h*w[1].Step*p.inStrides[rowDim] + k*w[2].Step*p.inStrides[columnDim]
}

// begin prepares r for a chunk. It removes the operands of an interrupted chunk.
func (r *poolRun) begin(m *graph.Mem) { r.operandCount, r.Context = 0, m.Context }

// run calls a loop over n1 rows of n0 elements, with the operands that were added to r.
func (r *poolRun) run(l *loops.Loop, n0, n1 int) {
	l.Run(&r.State, r.ptrs[:r.operandCount], r.strides[:r.operandCount], n0, n1)
	r.operandCount = 0
}

// runSingle computes a run of results by one loop.
func (p *compiledPixels) runSingle(r *poolRun, to unsafe.Pointer, run geometry.Run, allInside bool) {
	r.add(to, p.outStrides[0][columnDim])
	for _, t := range r.taps {
		r.add(t.ptr, t.resultStride)
	}
	if p.kind == poolAvg {
		r.add(unsafe.Pointer(&r.divisor), 0)
	}
	if allInside && p.mergeable && run.Step == 1 {
		r.run(p.firstLoop, p.channels*run.Results, 1)
		return
	}
	r.run(p.firstLoop, p.channels, run.Results)
}

// runIndices computes a run of maxima and their indices. The index of the first tap is a scalar operand and differs
// from result to result, so each result takes one call.
func (p *compiledPixels) runIndices(m *graph.Mem, r *poolRun, to, index unsafe.Pointer, run geometry.Run) {
	for i := range run.Results {
		r.add(unsafe.Add(to, i*p.outStrides[0][columnDim]), 0)
		r.add(unsafe.Add(index, i*p.outStrides[1][columnDim]), 0)
		for _, t := range r.taps {
			r.add(unsafe.Add(t.ptr, i*t.resultStride), 0)
		}
		r.add(unsafe.Pointer(&r.index), 0)
		m.Count(loopCallCost + p.channels*len(r.taps))
		r.run(p.firstLoop, p.channels, 1)
		r.index += int64(run.Step)
	}
}

// runLoops computes a run of results by several loops. Each loop folds tapsPerLoop elements of the windows, which begin
// at from. The last loop reads the neutral element in place of missing elements.
func (p *compiledPixels) runLoops(m *graph.Mem, r *poolRun, to unsafe.Pointer, run geometry.Run, from unsafe.Pointer,
	w [maxDims]geometry.Range) {
	carried, step := to, p.outStrides[0][columnDim]
	if p.kind == poolAvg {
		carried, step = unsafe.Pointer(&m.Worker[kit.AlignUp(p.channels*p.elemBytes)]), p.channels*p.sumDType.Size()
	}
	rowTaps, columnTaps := w[1].Count(), w[2].Count()
	tapCount := w[0].Count() * rowTaps * columnTaps
	for first := 0; first < tapCount || first == 0; first += tapsPerLoop {
		l := p.firstLoop
		r.add(carried, step)
		if first > 0 {
			l = p.nextLoop
			r.add(carried, step)
		}
		for t := first; t < first+tapsPerLoop; t++ {
			if t >= tapCount {
				r.add(unsafe.Pointer(unsafe.SliceData(m.Worker)), 0)
				continue
			}
			r.add(unsafe.Add(from, p.tapAt(w, t/columnTaps/rowTaps, t/columnTaps%rowTaps, t%columnTaps)),
				run.Step*p.inStrides[columnDim])
		}
		m.Count(loopCallCost + tapsPerLoop*p.channels*run.Results)
		r.run(l, p.channels, run.Results)
	}
	if p.kind == poolAvg {
		r.add(to, p.outStrides[0][columnDim])
		r.add(carried, step)
		r.add(unsafe.Pointer(&r.divisor), 0)
		r.run(p.divideLoop, p.channels, run.Results)
	}
}
