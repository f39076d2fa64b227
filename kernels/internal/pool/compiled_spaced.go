package pool

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// compiledSpaced computes maxima of row-major operands by compiled loops over the results of rows, for windows that
// compiledPlanes does not support: any distance between windows, and any number of taps. The rows of the operand are
// first copied to worker memory. A row is divided into groups of columns.step elements, such that each window begins
// with a group. The copy is transposed: phase k has element k of each group. Thus the same tap of neighbouring windows
// is contiguous. For example, with windows of 4 elements that are 3 elements apart, a row x is copied and folded as
//
//	phase 0: x0 x3 x6 ...    phase 1: x1 x4 x7 ...    phase 2: x2 x5 x8 ...
//	result[i] = max(phase0[i], phase1[i], phase2[i], phase0[i+1])
//
// Neutral elements replace the elements of groups that are outside the operand. A line is a row. If no window has
// padding to the left or right, a line is all adjacent rows of a unit of work (joinsRows), because one long
// transposition is faster than many short ones. The embedded tapLoops folds the taps of a window in row-major order, in
// one loop or in several loops, so that results have the same bits as those of goPooling.
//
// A unit of work is a block of neighbouring results in a block of rows, at one depth, in each plane of a batch.
type compiledSpaced struct {
	*tapLoops
	columns                              columns
	mover                                strided.Elem
	elemBytes                            int
	planes                               int  // number of planes
	batchPlanes, blockRows, blockResults int  // planes, rows of results, and results of a row that a unit computes
	inputRows                            int  // maximum number of rows of the operand at one depth that a unit reads
	joinsRows                            bool // whether a line has all inputRows rows, not one row
	lines, groups                        int  // maximum number of lines at one depth of a plane, and of groups in a line
	phases                               int  // number of phases that have taps
	state                                graph.PerWorker[loopState]
}

// minResultsOfLargeWindows is the minimum number of results of a row for windows of more than maxLoopTaps taps. A loop
// computes a vector of results at once, so few results cost as much as a full vector. goPooling computes single
// results.
const minResultsOfLargeWindows = 4

// These limits bound the memory of a worker, and the time between two checks of the context.
const (
	maxListedTaps  = 1 << 16 // maximum number of taps of a window
	maxCopiedBytes = 1 << 20 // maximum size, in bytes, of the copied rows of a unit
)

// compileSpaced makes the kernel of a [compiledSpaced]. It supports only maxima without indices. It returns nil for all
// other calls, for operands or results that are not row-major, for windows that are not equally spaced, for large
// windows with few results, for too many taps, for too large copies, and without machine code.
func compileSpaced(sized *sizedPooling) (*graph.Kernel, error) {
	cols, ok := newColumns(&sized.axes[columnAxis])
	isTooLarge := sized.taps > maxListedTaps ||
		sized.taps > maxLoopTaps && cols.results < minResultsOfLargeWindows
	if !ok || isTooLarge || sized.kind != reduceMax || sized.returnsIndices || sized.taps == 0 ||
		cols.taps != sized.maxTaps[columnAxis] || !sized.meta.IsContiguous() || !sized.results[0].IsContiguous() {
		return nil, nil
	}
	taps, err := newTapLoops(sized)
	if taps == nil || err != nil {
		return nil, err
	}
	spaced := &compiledSpaced{tapLoops: taps, columns: cols, planes: sized.batch * sized.channels,
		elemBytes: sized.meta.DType.Size(), mover: strided.MoverOf(sized.meta.DType.Size())}
	if spaced.chooseBlocks(); spaced.phases*spaced.phaseBytes() > maxCopiedBytes {
		return nil, nil
	}
	return spaced.kernel(), nil
}

// copiedBytes is the approximate size, in bytes, of the copied rows of a unit. Rows of this size stay in the L1 cache.
const copiedBytes = 16 << 10

// chooseBlocks sets the sizes of a unit and of its copied rows.
func (s *compiledSpaced) chooseBlocks() {
	for tap := range s.columns.taps {
		s.phases = max(s.phases, tap*s.columns.dilation%s.columns.step+1)
	}
	lastGroup := s.columns.reach() / s.columns.step // of a window
	const minResults = 64                           // of a block
	s.blockResults = min(s.columns.results, max(minResults, copiedBytes/(s.phases*s.elemBytes)-lastGroup))
	s.groups = s.blockResults + lastGroup
	rows, depthTaps := &s.axes[rowAxis], s.maxTaps[depthAxis]
	bytesOf := func(resultRows int) int {
		return kit.BoundedProduct(depthTaps, rows.MaxSpan(resultRows), s.phases, s.groups, s.elemBytes)
	}
	s.blockRows = rows.Results
	// Rows of results in the padding copy nothing, so bytesOf does not bound their number. The size of the results
	// does.
	for s.blockRows > 1 && max(bytesOf(s.blockRows), s.blockRows*s.blockResults*s.elemBytes) > copiedBytes {
		s.blockRows = kit.DivUp(s.blockRows, 2)
	}
	s.inputRows = rows.MaxSpan(s.blockRows)
	s.batchPlanes = 1
	if s.blockRows == rows.Results && s.blockResults == s.columns.results {
		s.batchPlanes = min(s.planes, max(1, copiedBytes/bytesOf(s.blockRows)))
	}
	s.lines = s.inputRows
	if s.joinsRows = s.canJoinRows(); s.joinsRows {
		joined, step := s.inputRows*s.axes[columnAxis].Size, s.columns.step
		s.lines, s.groups, s.phases = 1, kit.DivUp(joined, step), min(step, joined)
	}
}

// canJoinRows reports whether no window has padding to the left or right, a unit has whole rows, and windows that are
// rows.Stride rows apart have the same phases.
func (s *compiledSpaced) canJoinRows() bool {
	rows, width, step := &s.axes[rowAxis], s.axes[columnAxis].Size, s.columns.step
	lastElement := (s.columns.results-1)*step + s.columns.reach() // if the first window is inside the row
	strideKeepsPhases := s.blockRows == 1 || !rows.Adaptive && rows.Stride*width%step == 0
	return s.inputRows > 1 && s.columns.first == 0 && lastElement < width && s.blockResults == s.columns.results &&
		strideKeepsPhases
}

// kernel returns the kernel. Worker memory has a row of neutral elements, followed by the copied rows of a unit.
func (s *compiledSpaced) kernel() *graph.Kernel {
	sizes := [...]int{kit.DivUp(s.planes, s.batchPlanes), s.axes[depthAxis].Results,
		kit.DivUp(s.axes[rowAxis].Results, s.blockRows), kit.DivUp(s.columns.results, s.blockResults)}
	work := kit.BoundedProduct(s.batchPlanes, s.blockRows, s.blockResults, s.taps+s.columns.step)
	division := machine.DivideUnits(sizes[0]*sizes[1]*sizes[2]*sizes[3], work, machine.ReduceGrain)
	return &graph.Kernel{WorkerScratch: s.neutralBytes() + s.phases*s.phaseBytes(), Code: s.listings,
		Phases: []graph.Phase{{Chunks: division.Chunks, Run: func(mem *graph.Mem, chunk int) error {
			worker := s.state.Get(mem)
			worker.begin(mem)
			s.fillNeutral(s.dtype, mem.WorkerScratch[:s.neutralBytes()])
			for unit, end := division.ChunkRange(chunk); unit < end; unit++ {
				columnBlock, rest := unit%sizes[3], unit/sizes[3]
				rowBlock, rest := rest%sizes[2], rest/sizes[2]
				u := s.unitAt(mem, rest/sizes[1], rest%sizes[1], rowBlock, columnBlock)
				s.computeUnit(mem, worker, &u)
			}
			// The worker's state outlives the run, and must not keep the run's memory alive.
			clear(worker.taps[:cap(worker.taps)])
			clear(worker.ptrs[:])
			worker.Release()
			return nil
		}}}}
}

// neutralBytes returns the size of the row of neutral elements at the start of worker memory.
func (s *compiledSpaced) neutralBytes() int { return kit.AlignUp(s.blockResults * s.elemBytes) }

// lineBytes, depthBytes, planeBytes and phaseBytes return distances in bytes between copied elements, which are stored
// as [phase][plane][depth][line][group].
func (s *compiledSpaced) lineBytes() int  { return s.groups * s.elemBytes }
func (s *compiledSpaced) depthBytes() int { return s.lines * s.lineBytes() }
func (s *compiledSpaced) planeBytes() int { return s.maxTaps[depthAxis] * s.depthBytes() }
func (s *compiledSpaced) phaseBytes() int { return s.batchPlanes * s.planeBytes() }

// rowsBytes returns the distance in bytes between equal columns of copied rows that are the given number of rows apart.
// If rows are joined, the rows must have the same phases (haveSamePhases).
func (s *compiledSpaced) rowsBytes(rows int) int {
	if s.joinsRows {
		return rows * s.axes[columnAxis].Size / s.columns.step * s.elemBytes
	}
	return rows * s.lineBytes()
}

// haveSamePhases reports whether the elements of a column have the same phase in copied rows that are the given number
// of rows apart.
func (s *compiledSpaced) haveSamePhases(rows int) bool {
	return !s.joinsRows || rows*s.axes[columnAxis].Size%s.columns.step == 0
}

// spacedUnit is a unit of work of a compiledSpaced.
type spacedUnit struct {
	firstPlane, planes   int
	depth                int            // of the results
	depths               geometry.Range // of the operand
	firstRow, rows       int            // rows of results
	inputFrom, inputEnd  int            // rows of the operand
	firstResult, results int            // results of a row
	copied               unsafe.Pointer // worker memory for the copied rows
}

// unitAt returns a unit of work, given the indices of its batch, depth and blocks.
func (s *compiledSpaced) unitAt(mem *graph.Mem, batch, depth, rowBlock, columnBlock int) spacedUnit {
	u := spacedUnit{firstPlane: batch * s.batchPlanes, depth: depth, depths: s.axes[depthAxis].WindowAt(depth),
		firstRow: rowBlock * s.blockRows, firstResult: columnBlock * s.blockResults,
		copied: unsafe.Pointer(&mem.WorkerScratch[s.neutralBytes()])}
	u.planes = min(s.batchPlanes, s.planes-u.firstPlane)
	u.rows = min(s.blockRows, s.axes[rowAxis].Results-u.firstRow)
	u.results = min(s.blockResults, s.columns.results-u.firstResult)
	u.inputFrom, u.inputEnd = s.axes[rowAxis].Span(u.firstRow, u.firstRow+u.rows)
	return u
}

// computeUnit copies the rows of a unit and folds its windows. It divides rows into runs ([geometry.Run]): the windows
// of a run have the same number of rows inside the operand, and begin run.Step rows apart. With padding, run.Step may
// differ from the stride.
func (s *compiledSpaced) computeUnit(mem *graph.Mem, worker *loopState, u *spacedUnit) {
	s.copyRows(mem, u)
	rowResults := s.columns.results * s.elemBytes // bytes of a row of results
	planeResults := s.axes[depthAxis].Results * s.axes[rowAxis].Results * rowResults
	out := unsafe.Add(mem.Ptrs[0], u.firstPlane*planeResults+u.depth*s.axes[rowAxis].Results*rowResults+
		u.firstResult*s.elemBytes)
	for resultRow, end := u.firstRow, u.firstRow+u.rows; resultRow < end; {
		const countPadding = false // maxima have no divisors
		run := s.axes[rowAxis].RunAt(resultRow, end-resultRow, countPadding)
		runOut := unsafe.Add(out, resultRow*rowResults)
		// The variant with fewer calls is chosen: a call folds one row in all planes, or all rows in one plane.
		if u.planes > run.Results || !s.haveSamePhases(run.Step) {
			const firstPlane = 0
			for i := range run.Results {
				s.listTaps(mem, worker, u, firstPlane, resultRow+i, s.planeBytes())
				s.fold(mem, worker, rowStream{unsafe.Add(runOut, i*rowResults), planeResults}, u.results, u.planes)
			}
		} else {
			for i := range u.planes {
				s.listTaps(mem, worker, u, i, resultRow, s.rowsBytes(run.Step))
				s.fold(mem, worker, rowStream{unsafe.Add(runOut, i*planeResults), rowResults}, u.results, run.Results)
			}
		}
		resultRow += run.Results
	}
}

// copyRows copies the rows of the operand that a unit reads.
func (s *compiledSpaced) copyRows(mem *graph.Mem, u *spacedUnit) {
	step, width, rows := s.columns.step, s.axes[columnAxis].Size, u.inputEnd-u.inputFrom
	line := spacedLine{begin: s.columns.first + u.firstResult*step, width: width,
		groups: u.results + s.columns.reach()/step}
	lines := rows
	if s.joinsRows {
		lines, line.width, line.groups = 1, rows*width, kit.DivUp(rows*width, step)
	}
	for plane := range u.planes {
		for tapDepth := range u.depths.Count() {
			first := s.planeIndex(u.depths.Start+tapDepth*u.depths.Step, u.inputFrom, 0)
			src := unsafe.Add(mem.Ptrs[1], ((u.firstPlane+plane)*s.planeElements+first)*s.elemBytes)
			dst := unsafe.Add(u.copied, plane*s.planeBytes()+tapDepth*s.depthBytes())
			for i := range lines {
				s.copyLine(mem, unsafe.Add(dst, i*s.lineBytes()), unsafe.Add(src, i*width*s.elemBytes), line)
			}
		}
	}
}

// spacedLine describes a line of copied elements: one row or several joined rows with width elements. Group 0 begins at
// element begin, which is negative if the line begins with padding.
type spacedLine struct{ begin, width, groups int }

// firstInside returns the first group whose element of the given phase has at least the given index in the line.
func (l *spacedLine) firstInside(index, phase, step int) int {
	return min(kit.DivUp(max(index-l.begin-phase, 0), step), l.groups)
}

// copyLine copies a line of the operand at address src. dst is the address of its phase 0.
func (s *compiledSpaced) copyLine(mem *graph.Mem, dst, src unsafe.Pointer, line spacedLine) {
	step := s.columns.step
	mem.CheckContextAfter(line.groups * s.phases)
	// The elements of groups from `whole` to wholeEnd-1 are all inside the line.
	whole := line.firstInside(0, 0, step)
	wholeEnd := max(whole, line.firstInside(line.width, s.phases-1, step))
	if whole < wholeEnd {
		s.mover.CopyBlock(unsafe.Add(dst, whole*s.elemBytes), unsafe.Add(src, (line.begin+whole*step)*s.elemBytes),
			strided.Axis{N: wholeEnd - whole, Dst: s.elemBytes, Src: step * s.elemBytes},
			strided.Axis{N: s.phases, Dst: s.phaseBytes(), Src: s.elemBytes})
	}
	if whole == 0 && wholeEnd == line.groups {
		return
	}
	neutral := unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))
	for phase := range s.phases {
		mem.CheckContextAfter(line.groups - (wholeEnd - whole))
		inside, end := line.firstInside(0, phase, step), line.firstInside(line.width, phase, step)
		for group := 0; group < line.groups; group++ {
			if group == whole && whole < wholeEnd { // already copied
				if group = wholeEnd; group == line.groups {
					break
				}
			}
			from := neutral
			if group >= inside && group < end {
				from = unsafe.Add(src, (line.begin+group*step+phase)*s.elemBytes)
			}
			kit.CopyElement(unsafe.Add(dst, phase*s.phaseBytes()+group*s.elemBytes), from, s.elemBytes)
		}
	}
}

// listTaps lists the taps of the windows of a row of results in worker.taps, in row-major order, and then neutral
// elements up to a multiple of tapsPerLoop. plane is the index of the first loop row's plane in the unit, and
// loopRowStride the distance between loop rows in the copied rows.
func (s *compiledSpaced) listTaps(mem *graph.Mem, worker *loopState, u *spacedUnit, plane, resultRow,
	loopRowStride int) {
	rowRange := s.axes[rowAxis].WindowAt(resultRow)
	worker.taps = worker.taps[:0]
	for tapDepth := range u.depths.Count() {
		for tapRow := range rowRange.Count() {
			row, windowStart := rowRange.Start+tapRow*rowRange.Step-u.inputFrom, 0
			if s.joinsRows {
				row, windowStart = 0, row*s.axes[columnAxis].Size
			}
			line := unsafe.Add(u.copied, plane*s.planeBytes()+tapDepth*s.depthBytes()+row*s.lineBytes())
			for tap := range s.columns.taps {
				element := windowStart + tap*s.columns.dilation // of the line
				group, phase := element/s.columns.step, element%s.columns.step
				worker.taps = append(worker.taps,
					tapStream{unsafe.Add(line, phase*s.phaseBytes()+group*s.elemBytes), loopRowStride})
			}
		}
	}
	for len(worker.taps) == 0 || len(worker.taps)%s.tapsPerLoop > 0 {
		worker.taps = append(worker.taps, tapStream{unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch)), 0})
	}
}

// fold folds the taps of worker.taps into rows of results. Each loop folds tapsPerLoop taps. The results hold the
// partial maxima.
func (s *compiledSpaced) fold(mem *graph.Mem, worker *loopState, dst rowStream, results, rows int) {
	for first := 0; first < len(worker.taps); first += s.tapsPerLoop {
		loop := s.firstLoop
		worker.addOperand(dst.ptr, dst.strideBytes) // the result
		if first > 0 {
			loop = s.nextLoop
			worker.addOperand(dst.ptr, dst.strideBytes) // the operand: the partial maximum
		}
		for _, tap := range worker.taps[first : first+s.tapsPerLoop] {
			worker.addOperand(tap.ptr, tap.resultStride)
		}
		mem.CheckContextAfter(loopCallCost + s.tapsPerLoop*results*rows)
		worker.call(loop, results, rows)
	}
}
