package pool

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// compiledPlanes is a pooling of row-major operands by compiled loops over rows. For each row of results, a first loop
// folds (reduces) the rows that its windows cover into one row of worker memory, the folded row, with neutral elements
// as padding on both sides. A second loop folds the columns of each window in the folded row. If windows are 2 elements
// apart, the second loop loads the folded row as complex numbers, which are pairs of an even and an odd element. For
// example, with windows of 2x2 elements that are 2 elements apart, result row 0 of the plane x is computed as
//
//	folded[j] = x[0, j] + x[1, j]
//	result[0, j] = folded[2*j] + folded[2*j+1]    the real and the imaginary part of pair j
//
// The axes are depth, rows and columns. A tap is an element of a window, and maxTaps has the taps of a window by axis.
// A sizedPooling (pool.go) describes the call. A loopState (compiled_pixels.go) collects the operands of a loop, and
// then calls the loop.
type compiledPlanes struct {
	*rowLoops
	planes, width                  int    // number of planes; elements per row of the operand
	elemBytes                      int    // bytes of an element
	foldedRowStride, paddingBefore int    // distance between folded rows, and padding before each folded row, in elements
	blockRows, batchPlanes         int    // rows of results, and planes, that one unit of work computes
	divisors                       []byte // divisors of averages in the dtype of sums, by depth, row and column of results
	hasOneDivisor                  bool   // whether all results have the same divisor, or no divisor
	state                          graph.PerWorker[loopState]
}

// compilePlanes makes the kernel of a [compiledPlanes]. It returns nil if the call is not supported: maxima with
// indices, operands or results that are not row-major, windows that newColumns or newRowLoops rejects, too many
// divisors, or no machine code.
func compilePlanes(sized *sizedPooling) (*graph.Kernel, error) {
	if sized.returnsIndices || !sized.meta.IsContiguous() || !sized.results[0].IsContiguous() {
		return nil, nil
	}
	dtype, windowRows := sized.meta.DType, kit.BoundedProduct(sized.maxTaps[0], sized.maxTaps[1])
	planes := &compiledPlanes{planes: sized.batch * sized.channels, width: sized.axes[2].Size,
		elemBytes: dtype.Size()}
	cols, ok := newColumns(&sized.axes[2])
	if !ok || windowRows == 0 || windowRows > maxLoopTaps {
		return nil, nil
	}
	sumDType := dtype.OpMath()
	if sized.kind == reduceAvg && dtype.IsFloat() && windowRows*cols.taps > maxLoopTaps {
		sumDType = tensor.Float64
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
	depths, heights, widths := sized.axes[0].Results, sized.axes[1].Results, sized.axes[2].Results
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
	lastTap := p.columns.first + (p.columns.results-1)*p.columns.step + (p.columns.taps-1)*p.columns.dilation
	p.foldedRowStride = p.paddingBefore + max(p.width, lastTap+2) + 1 // room for a pair at the last tap
	foldedRowBytes := p.foldedRowStride * p.sumDType.Size()
	p.blockRows = min(p.axes[1].Results, max(1, foldedBytes/foldedRowBytes))
	p.batchPlanes = 1
	if p.blockRows == p.axes[1].Results {
		p.batchPlanes = min(p.planes, max(1, foldedBytes/(foldedRowBytes*p.blockRows)))
	}
}

// kernel returns the kernel. A unit of work is a block of rows of results, at one depth, in a batch of planes. Worker
// memory has a row of neutral elements, followed by the folded rows of a unit.
func (p *compiledPlanes) kernel() *graph.Kernel {
	depths := p.axes[0].Results
	blocks, batches := kit.DivUp(p.axes[1].Results, p.blockRows), kit.DivUp(p.planes, p.batchPlanes)
	units := batches * depths * blocks
	work := p.batchPlanes * p.blockRows * (p.width*p.maxTaps[0]*p.maxTaps[1] + p.columns.results*p.columns.taps)
	division := machine.DivideUnits(units, work, machine.ReduceGrain)
	neutralBytes := kit.AlignUp(p.width * p.elemBytes)
	foldedRowBytes := p.batchPlanes * p.blockRows * p.foldedRowStride * p.sumDType.Size()
	return &graph.Kernel{WorkerScratch: neutralBytes + foldedRowBytes, Code: p.listings,
		Phases: []graph.Phase{{Chunks: division.Chunks, Run: func(mem *graph.Mem, chunk int) error {
			worker := p.state.Get(mem)
			worker.begin(mem)
			p.fillNeutral(p.dtype, mem.WorkerScratch[:p.width*p.elemBytes])
			p.fillNeutral(p.sumDType, mem.WorkerScratch[neutralBytes:][:foldedRowBytes])
			for unit, end := division.ChunkRange(chunk); unit < end; unit++ {
				p.computeBlock(mem, worker, unit/blocks/depths, unit/blocks%depths, unit%blocks*p.blockRows)
			}
			clear(worker.taps[:cap(worker.taps)])
			clear(worker.ptrs[:])
			worker.Release()
			return nil
		}}}}
}

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
		firstRow: firstRow, rows: min(p.blockRows, p.axes[1].Results-firstRow),
		folded: unsafe.Pointer(&mem.WorkerScratch[kit.AlignUp(p.width*p.elemBytes)])}
	p.foldBlockRows(mem, worker, block)
	p.foldBlockColumns(mem, worker, block)
}

// foldedRow returns the address of the folded row of a result row, after the row's padding. plane is the index of the
// plane in the block.
func (p *compiledPlanes) foldedRow(block planeBlock, plane, resultRow int) unsafe.Pointer {
	row := plane*block.rows + resultRow - block.firstRow
	return unsafe.Add(block.folded, (row*p.foldedRowStride+p.paddingBefore)*p.sumDType.Size())
}

// foldBlockRows computes the folded rows of a block, for each run of result rows with the same number of rows per
// window.
func (p *compiledPlanes) foldBlockRows(mem *graph.Mem, worker *loopState, block planeBlock) {
	in := unsafe.Add(mem.Ptrs[1], block.firstPlane*p.planeElements*p.elemBytes)
	planeBytes, foldedRowBytes := p.planeElements*p.elemBytes, p.foldedRowStride*p.sumDType.Size()
	blockEnd := block.firstRow + block.rows
	for runStart := block.firstRow; runStart < blockEnd; {
		const countPadding = false // divisors are applied to columns
		run := p.axes[1].RunAt(runStart, blockEnd-runStart, countPadding)
		end := runStart + run.Results
		if block.planes > run.Results { // a call of the loop folds one row in all planes
			const firstPlane = 0
			for resultRow := runStart; resultRow < end; resultRow++ {
				dst := rowStream{p.foldedRow(block, firstPlane, resultRow), block.rows * foldedRowBytes}
				p.foldRows(mem, worker, in, block.depth, resultRow, dst, planeBytes, block.planes)
			}
		} else { // a call folds all rows in one plane
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
	depthResults := p.axes[1].Results * p.columns.results // results of a plane at one depth
	firstResult := (block.firstPlane*p.axes[0].Results+block.depth)*depthResults + block.firstRow*p.columns.results
	out := unsafe.Add(mem.Ptrs[0], firstResult*p.elemBytes)
	firstWindow := unsafe.Add(p.foldedRow(block, 0, block.firstRow), p.columns.first*p.sumDType.Size())
	// If there are several planes and one depth, a batch has all rows of its planes (layOutRows).
	resultsAreAdjacent := block.planes == 1 || p.axes[0].Results == 1
	if p.hasOneDivisor && resultsAreAdjacent {
		const row = 0 // unused, because there is one divisor
		p.foldColumns(worker, out, firstWindow, block.depth, row, block.planes*block.rows)
		return
	}
	for i := range block.planes {
		p.foldColumns(worker, unsafe.Add(out, i*p.axes[0].Results*depthResults*p.elemBytes),
			unsafe.Add(firstWindow, i*block.rows*p.foldedRowStride*p.sumDType.Size()), block.depth, block.firstRow,
			block.rows)
	}
}

// rowStream is a sequence of rows in memory.
type rowStream struct {
	ptr         unsafe.Pointer // address of the first row
	strideBytes int            // distance between the addresses of rows, in bytes
}

// foldRows computes count folded rows by one call of rowsLoop: of the result row at (depth, row), and of the count-1
// result rows after it in the plane, or at the same place in the next planes. Their windows are stepBytes apart in the
// operand. in is the address of the plane. Neutral elements replace the missing rows of a window.
func (p *compiledPlanes) foldRows(mem *graph.Mem, worker *loopState, in unsafe.Pointer, depth, row int, dst rowStream,
	stepBytes, count int) {
	depthRange, rowRange := p.axes[0].WindowAt(depth), p.axes[1].WindowAt(row)
	neutral := unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))
	mem.CheckContextAfter(loopCallCost + p.width*count)
	worker.addOperand(dst.ptr, dst.strideBytes) // the result, followed by the operands of the loop
	for tapDepth := range p.maxTaps[0] {
		for tapRow := range p.maxTaps[1] {
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

// foldColumns folds the windows of some folded rows into as many rows of results at address dst. src is the address of
// the first window in the first folded row. depth and row are the indices of the first row of results, which select
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
		worker.addOperand(unsafe.Pointer(&p.divisors[(depth*p.axes[1].Results+row)*step]), step)
	}
	worker.call(p.columnsLoop, p.columns.results, rows)
}

// columns describes equally spaced windows of a row. Window i begins at element first + i*step and has `taps` elements,
// which are dilation elements apart. There are `results` windows. Elements outside the row are padding.
type columns struct{ first, step, taps, dilation, results int }

// newColumns describes the windows of an axis. It returns false if they are not equally spaced, or if the loops do not
// support them.
func newColumns(axis *geometry.Axis) (c columns, ok bool) {
	c = columns{step: 1, dilation: 1, results: axis.Results}
	first := axis.WindowAt(0)
	switch {
	case axis.Results == 1:
		c.first, c.taps, c.dilation = first.Start, first.Count(), max(1, first.Step)
	case axis.Adaptive:
		if axis.Size%axis.Results != 0 {
			return c, false
		}
		c.taps, c.step = first.Count(), first.Count()
	default:
		c.first, c.taps, c.step, c.dilation = -axis.PadBefore, axis.Taps, axis.Stride, axis.Dilation
	}
	// A loop has at most maxLoopTaps operands, and an operand has at most two taps, a pair. Folded rows with their padding
	// must not be much longer than the rows of operand and results.
	isTooLong := c.taps > 2*maxLoopTaps ||
		kit.BoundedProduct(c.taps-1, c.dilation)+max(-c.first, 0) > 4*(axis.Size+axis.Results)
	return c, c.taps > 0 && !isTooLong && (c.step == 1 || c.step == 2)
}

// operands returns, for each operand of columnsLoop, its offset in elements from the first element of a window. If step
// is 1, operand i has tap i of each window. If step is 2, an operand has pairs, and two taps may share a pair.
func (c *columns) operands() (list []int) {
	for tap := range c.taps {
		offset := tap * c.dilation / c.step * c.step // of the tap or, if step is 2, of its pair
		if len(list) == 0 || list[len(list)-1] != offset {
			list = append(list, offset)
		}
	}
	return list
}

// rowLoops has the loops of a pooling by planes. rowsLoop folds the rows of windows into a folded row, and columnsLoop
// folds the columns of windows in this row.
type rowLoops struct {
	*sizedPooling
	dtype, sumDType       tensor.DType // dtypes of elements and sums
	columns               columns
	rowsLoop, columnsLoop *loops.Loop
}

// newRowLoops compiles the loops of a pooling by planes. It returns nil for norms, for windows with too many taps, for
// integers with a step of 2, and where there is no machine code. hasOneDivisor is set if all averages have the same
// divisor.
func newRowLoops(sized *sizedPooling, sumDType tensor.DType, windowRows int, cols columns,
	hasOneDivisor bool) (*rowLoops, error) {
	compiled := &rowLoops{sizedPooling: sized, dtype: sized.meta.DType, sumDType: sumDType, columns: cols}
	hasManyTaps := max(windowRows, len(cols.operands())) > maxLoopTaps
	hasIntegerPairs := cols.step > 1 && !sumDType.IsFloat() // only pairs of floats can be read as complex numbers
	if !loops.CodeAvailable() || sized.kind == reduceNorm || hasManyTaps || hasIntegerPairs {
		return nil, nil
	}
	rowsExpr, err := compiled.newRowsLoop(windowRows)
	if err != nil {
		return nil, err
	}
	columnsExpr, err := compiled.newColumnsLoop(hasOneDivisor)
	if err != nil {
		return nil, err
	}
	if compiled.rowsLoop, err = loops.New(rowsExpr, loops.Options{}); err != nil || !compiled.rowsLoop.Compiled() {
		return nil, err
	}
	compiled.columnsLoop, err = loops.New(columnsExpr, loops.Options{})
	if err != nil || !compiled.columnsLoop.Compiled() {
		return nil, err
	}
	return compiled, nil
}

// newRowsLoop returns a loop that folds the given number of rows.
func (r *rowLoops) newRowsLoop(windowRows int) (*expr.Loop, error) {
	builder := expr.NewBuilder(slices.Repeat([]tensor.DType{r.dtype}, windowRows)...)
	folded := builder.Convert(r.sumDType, builder.Load(0))
	if r.kind == reduceAvg {
		folded = builder.Emit(expr.Add, builder.Const(r.sumDType, 0), folded) // -0 becomes 0, as in a sum that starts at 0
	}
	for row := 1; row < windowRows; row++ {
		folded = r.combine(builder, folded, builder.Convert(r.sumDType, builder.Load(row)))
	}
	code, err := builder.Build(builder.Real(folded))
	return &expr.Loop{Code: code, Uniform: make([]bool, windowRows)}, err
}

// newColumnsLoop returns a loop that folds the columns of windows in folded rows. For averages, the last operand is the
// divisor or its inverse (see multipliesByInverse). It is uniform, a scalar, if hasOneDivisor is set.
func (r *rowLoops) newColumnsLoop(hasOneDivisor bool) (*expr.Loop, error) {
	offsets := r.columns.operands()
	operandDType := r.sumDType
	if r.columns.step == 2 {
		operandDType = r.sumDType.ToComplex() // a pair
	}
	in := slices.Repeat([]tensor.DType{operandDType}, len(offsets))
	isUniform := make([]bool, len(offsets))
	if r.kind == reduceAvg {
		in, isUniform = append(in, r.sumDType), append(isUniform, hasOneDivisor)
	}
	builder := expr.NewBuilder(in...)
	tap := func(tapIndex int) expr.Value {
		column := tapIndex * r.columns.dilation
		operand, _ := slices.BinarySearch(offsets, column/r.columns.step*r.columns.step)
		if r.columns.step == 2 && column%2 == 1 {
			return builder.LoadImag(operand)
		}
		return builder.Load(operand)
	}
	folded := tap(0)
	for tapIndex := 1; tapIndex < r.columns.taps; tapIndex++ {
		folded = r.combine(builder, folded, tap(tapIndex))
	}
	if r.kind == reduceAvg {
		divide := expr.Div
		if multipliesByInverse(r.dtype, r.sumDType) {
			divide = expr.Mul
		}
		folded = builder.Emit(divide, folded, builder.Load(len(offsets)))
	}
	code, err := builder.Build(builder.Real(builder.Convert(r.dtype, folded)))
	return &expr.Loop{Code: code, Uniform: isUniform}, err
}

// combine returns the maximum or the sum of two values.
func (r *rowLoops) combine(builder *expr.Builder, x, y expr.Value) expr.Value {
	if r.kind == reduceMax {
		return builder.Emit(expr.Max, y, x)
	}
	return builder.Emit(expr.Add, x, y)
}

// listings returns the machine code of the loops.
func (r *rowLoops) listings() []expr.Listing {
	return []expr.Listing{r.rowsLoop.Listing("rows of windows"), r.columnsLoop.Listing("columns of windows")}
}
