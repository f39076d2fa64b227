package pool

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/axes"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// goPooling is a pooling in Go, for all windows, dtypes and layouts. It folds (reduces) the windows of a vector of
// results at once, tap by tap. A tap is an element of a window. In a pooling by pixels, a vector is a sequence of
// neighbouring channels. In a pooling by planes, a vector is a run of neighbouring results of a row. For example, let a
// row x have windows of 3 elements that are 2 elements apart. Then partial[i] is the reduction of x[2*i], x[2*i+1] and
// x[2*i+2]. Tap 0 of all windows of the vector is folded first, then tap 1, then tap 2.
type goPooling struct {
	*sizedPooling
	vectorDim  int                   // dimension of the vectors: channelDim by pixels, columnDim by planes
	loader     axes.Loader           // converts elements to the dtype of the loops; Direct if they have it already
	converters [2]tensor.ConvertFunc // by output: converts from the dtype of the loops, or copies
	fold       windowFold            // reduction of windows
	maxResults int                   // maximum number of results of a vector
}

// newGoKernel returns the kernel of a pooling in Go, with vectors along dimension vectorDim. A unit of work has all
// results along vectorDim at one index of the other four dimensions. The five dimensions are batch, channel, depth, row
// and column.
func newGoKernel(p *sizedPooling, vectorDim int) *graph.Kernel {
	sizes := [...]int{p.batch, p.channels, p.axes[depthAxis].Results, p.axes[rowAxis].Results,
		p.axes[columnAxis].Results}
	length := sizes[vectorDim]
	sizes[vectorDim] = 1
	dtype, opDType := p.meta.DType, p.meta.DType.OpMath()
	pooled := &goPooling{sizedPooling: p, vectorDim: vectorDim,
		loader:     axes.NewLoader(dtype, dtype, opDType), // from dtype to opDType, without a dtype in between
		fold:       newWindowFold(opDType, &p.foldSpec),
		maxResults: min(length, axes.BlockLen)}
	pooled.converters = [...]tensor.ConvertFunc{tensor.Converter(p.meta.DType, opDType), // values
		tensor.Converter(tensor.Int64, tensor.Int64)} // indices
	division := machine.DivideUnits(tensor.Numel(sizes[:]), kit.BoundedProduct(length, max(1, p.taps)), goGrain)
	return &graph.Kernel{ // vectorAt divides the worker memory
		WorkerScratch: kit.AlignUp(pooled.fold.partialBytes(pooled.maxResults)) + 2*kit.AlignUp(axes.BlockBytes) +
			kit.AlignUp(pooled.maxResults*maxResultBytes),
		Phases: []graph.Phase{{Chunks: division.Chunks, Run: func(mem *graph.Mem, chunk int) error {
			first, end := division.ChunkRange(chunk)
			for next := 0; next < length; { // each vector is computed for all units of the chunk
				vector := pooled.vectorAt(mem, next)
				index := unitIndex(first, &sizes) // index of the first result of the vector
				index[vectorDim] = next
				for range end - first {
					vector.compute(mem, &index)
					nextUnit(&index, &sizes, vectorDim)
				}
				next += vector.count
			}
			return nil
		}}},
	}
}

// goGrain is the approximate number of taps per chunk of a pooling in Go. It is less than the grain of other
// reductions, because a tap costs a few nanoseconds.
const goGrain = machine.ReduceGrain / 2

// maxResultBytes is the maximum size of a result: an index or a float64.
const maxResultBytes = 8

// unitIndex returns the index of element flatIndex, in row-major order, of an array of the given sizes.
func unitIndex(flatIndex int, sizes *[2 + maxDims]int) (index [2 + maxDims]int) {
	for d := len(sizes) - 1; d >= 0; d-- {
		index[d], flatIndex = flatIndex%sizes[d], flatIndex/sizes[d]
	}
	return index
}

// nextUnit advances an index of the given sizes in row-major order. The index in dimension fixedDim does not change.
func nextUnit(index, sizes *[2 + maxDims]int, fixedDim int) {
	for d := len(sizes) - 1; d >= 0; d-- {
		if d == fixedDim {
			continue
		}
		if index[d]++; index[d] < sizes[d] {
			return
		}
		index[d] = 0
	}
}

// resultVector folds the windows of count neighbouring results at once. The window of result i+1 begins stepBytes after
// the window of result i. The indices of their first elements in the plane differ by indexStep, which is 0 for
// neighbouring channels.
type resultVector struct {
	*goPooling
	count, stepBytes, indexStep int
	partials                    unsafe.Pointer          // worker memory for partial results
	block, loadScratch          unsafe.Pointer          // worker memory for converted elements, and for their conversion
	resultScratch               unsafe.Pointer          // worker memory for results
	windows                     [maxDims]geometry.Range // window of the first result along each spatial dimension
}

// vectorAt returns the vector that starts at index first of the dimension of vectors.
func (g *goPooling) vectorAt(mem *graph.Mem, first int) resultVector {
	region := kit.RegionOf(mem.WorkerScratch)
	vector := resultVector{goPooling: g, partials: region.Take(g.fold.partialBytes(g.maxResults)),
		block:       region.Take(axes.BlockBytes),
		loadScratch: region.Take(axes.BlockBytes), resultScratch: region.Take(g.maxResults * maxResultBytes)}
	if g.vectorDim == channelDim {
		vector.count, vector.stepBytes = min(g.maxResults, g.channels-first), g.inStrides[channelDim]
		return vector
	}
	// A run has neighbouring results whose windows have the same number of taps and begin run.Step elements apart.
	run := g.axes[columnAxis].RunAt(first, g.maxResults, g.countPadding)
	if run.Results < minRunResults {
		run.Results = 1
	}
	vector.count, vector.stepBytes, vector.indexStep = run.Results, run.Step*g.inStrides[columnDim], run.Step
	return vector
}

// minRunResults is the minimum number of neighbouring results of a row whose windows are folded together, with one call
// for each tap. Fewer windows are folded one by one, because these calls would cost more than they save.
const minRunResults = 4

// compute computes the results of the vector. index is the index of the first result: batch, channel, depth, row and
// column.
func (v *resultVector) compute(mem *graph.Mem, index *[2 + maxDims]int) {
	v.windows = v.sizedPooling.windows(index[depthDim], index[rowDim], index[columnDim])
	depthRange, rowRange := &v.windows[depthAxis], &v.windows[rowAxis]
	firstTap := v.planeIndex(depthRange.Start, rowRange.Start, v.windows[columnAxis].Start)
	v.fold.begin(v.partials, v.count, firstTap, v.indexStep)
	channel := unsafe.Add(mem.Ptrs[len(v.results)],
		index[batchDim]*v.inStrides[batchDim]+index[channelDim]*v.inStrides[channelDim])
	for depth := depthRange.Start; depth < depthRange.End; depth += depthRange.Step {
		if v.count == 1 && v.loader.Direct {
			v.foldPlane(channel, depth)
			continue
		}
		for row := rowRange.Start; row < rowRange.End; row += rowRange.Step {
			v.foldRow(unsafe.Add(channel, depth*v.inStrides[depthDim]+row*v.inStrides[rowDim]), v.planeIndex(depth, row, 0))
		}
	}
	mem.CheckContextAfter(2 * v.count * v.taps) // a tap counts as two steps
	for i := range v.results {
		offset := 0
		for d, stride := range v.sizedPooling.outStrides[i] {
			offset += index[d] * stride
		}
		v.writeOutput(i, unsafe.Add(mem.Ptrs[i], offset))
	}
}

// foldPlane folds the taps of a single window at one depth. channel is the address of the channel's first element.
func (v *resultVector) foldPlane(channel unsafe.Pointer, depth int) {
	rowRange, columnRange := &v.windows[rowAxis], &v.windows[columnAxis]
	rows, columns := rowRange.Count(), columnRange.Count()
	if rows*columns == 0 {
		return
	}
	rowStride, columnStride := v.inStrides[rowDim], v.inStrides[columnDim]
	first := unsafe.Add(channel, depth*v.inStrides[depthDim]+rowRange.Start*rowStride+columnRange.Start*columnStride)
	taps := tapGrid{rows: rows, rowStep: rowRange.Step * rowStride, rowIndexStep: v.planeIndex(0, rowRange.Step, 0),
		columns: columns, columnStep: columnRange.Step * columnStride, columnIndexStep: columnRange.Step}
	v.fold.foldWindow(v.partials, first, taps, v.planeIndex(depth, rowRange.Start, columnRange.Start))
}

// foldRow folds the taps of one row of the operand. row is the address of the row, and index the index of its first
// element in the plane.
func (v *resultVector) foldRow(row unsafe.Pointer, index int) {
	columnRange, columnStride := &v.windows[columnAxis], v.inStrides[columnDim]
	if v.loader.Direct {
		for column := columnRange.Start; column < columnRange.End; column += columnRange.Step {
			v.fold.foldTap(v.partials, unsafe.Add(row, column*columnStride), v.count, v.stepBytes, index+column, v.indexStep)
		}
		return
	}
	// In a pooling by planes, all elements from the first window to the last are converted at once if they fit in a
	// block.
	taps := columnRange.Count()
	elements := (v.count-1)*v.indexStep + (taps-1)*columnRange.Step + 1
	if v.vectorDim == columnDim && taps > 0 && elements > 0 && elements <= axes.BlockLen {
		v.loader.Load(v.block, v.loadScratch, unsafe.Add(row, columnRange.Start*columnStride), columnStride, elements)
		for column := columnRange.Start; column < columnRange.End; column += columnRange.Step {
			from := unsafe.Add(v.block, (column-columnRange.Start)*v.loader.Size)
			v.fold.foldTap(v.partials, from, v.count, v.indexStep*v.loader.Size, index+column, v.indexStep)
		}
		return
	}
	for column := columnRange.Start; column < columnRange.End; column += columnRange.Step {
		v.loader.Load(v.block, v.loadScratch, unsafe.Add(row, column*columnStride), v.stepBytes, v.count)
		v.fold.foldTap(v.partials, v.block, v.count, v.loader.Size, index+column, v.indexStep)
	}
}

// writeOutput writes an output, the values (0) or the indices (1), to address to. If the output's dtype is not the
// dtype of the loops, or its elements are not contiguous, the results are first written to worker memory.
func (v *resultVector) writeOutput(output int, to unsafe.Pointer) {
	step, size := v.sizedPooling.outStrides[output][v.vectorDim], tensor.Int64.Size()
	if output == 0 {
		size = v.loader.Size
	}
	dst, writesDirectly := to, (v.loader.Direct || output > 0) && (step == size || v.count == 1)
	if !writesDirectly {
		dst = v.resultScratch
	}
	switch {
	case output > 0:
		v.fold.writeIndices(dst, v.partials, v.count)
	case v.kind == reduceAvg:
		v.fold.writeResults(dst, v.partials, v.count, v.area(v.windows))
	default:
		const unusedArea = 1
		v.fold.writeResults(dst, v.partials, v.count, unusedArea)
	}
	if !writesDirectly {
		v.converters[output](to, dst, step, size, v.count)
	}
}
