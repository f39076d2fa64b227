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

// goGrain is the approximate number of taps per chunk of a pooling in Go. It is less than the grain of other
// reductions, because a tap costs a few nanoseconds.
const goGrain = machine.ReduceGrain / 2

// minRunResults is the minimum number of neighbouring results of a row whose windows are folded together, with one call
// for each tap. Fewer windows are folded one by one, because these calls would cost more than they save.
const minRunResults = 4

// goPooling is a pooling in Go, for all windows, dtypes and layouts. It folds (reduces) the windows of a vector of
// results at once, tap by tap. A tap is an element of a window. In a pooling by pixels, a vector is a sequence of
// neighbouring channels. In a pooling by planes, a vector is a run of neighbouring results of a row.
type goPooling struct {
	*sizedPooling
	vectorDim  int                   // dimension of the vectors: channelDim by pixels, columnDim by planes
	load       axes.Loader           // converts elements to the dtype of the loops; load.Direct: no conversion is needed
	store      [2]tensor.ConvertFunc // by output: converts from the dtype of the loops, or copies
	fold       windowFold            // reduction of windows
	maxResults int                   // maximum number of results of a vector
}

// newGoKernel returns the kernel of a pooling in Go, with vectors along dimension vectorDim. A unit of work is all
// results along vectorDim at one index of the other dimensions. The five dimensions are batch, channel, depth, row and
// column.
func newGoKernel(p *sizedPooling, vectorDim int) *graph.Kernel {
	sizes := [...]int{p.batch, p.channels, p.axes[0].Results, p.axes[1].Results, p.axes[2].Results}
	length := sizes[vectorDim]
	sizes[vectorDim] = 1
	opDType := p.meta.DType.OpMath()
	pooled := &goPooling{sizedPooling: p, vectorDim: vectorDim, load: axes.NewLoader(p.meta.DType, p.meta.DType, opDType),
		fold: newWindowFold(opDType, &p.foldSpec), maxResults: min(length, axes.BlockLen)}
	pooled.store = [...]tensor.ConvertFunc{tensor.Converter(p.meta.DType, opDType), // values
		tensor.Converter(tensor.Int64, tensor.Int64)} // indices
	division := machine.DivideUnits(tensor.Numel(sizes[:]), kit.BoundedProduct(length, max(1, p.taps)), goGrain)
	return &graph.Kernel{
		WorkerScratch: kit.AlignUp(pooled.fold.size(pooled.maxResults)) + 2*kit.AlignUp(axes.BlockBytes) +
			kit.AlignUp(pooled.maxResults*8),
		Phases: []graph.Phase{{Chunks: division.Chunks, Run: func(mem *graph.Mem, chunk int) error {
			first, end := division.ChunkRange(chunk)
			for next := 0; next < length; {
				vector := pooled.vectorAt(mem, next)
				index, rest := [len(sizes)]int{}, first // index of the first result of the vector
				for d := len(sizes) - 1; d >= 0; d-- {
					index[d], rest = rest%sizes[d], rest/sizes[d]
				}
				index[vectorDim] = next
				for range end - first {
					vector.compute(mem, &index)
					nextUnit(&index, &sizes, vectorDim)
				}
				next += vector.n
			}
			return nil
		}}},
	}
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

// resultVector folds the windows of n neighbouring results at once. The window of result i+1 begins `step` bytes after
// the window of result i. The indices of their first elements in the plane differ by indexStep, which is 0 for
// neighbouring channels.
type resultVector struct {
	*goPooling
	n, step, indexStep int
	partials           unsafe.Pointer          // worker memory for partial results
	block, loadScratch unsafe.Pointer          // worker memory for a block of converted elements, and for their conversion
	out                unsafe.Pointer          // worker memory for results
	windows            [maxDims]geometry.Range // window of the first result along each spatial dimension
}

// vectorAt returns the vector that starts at index first of the dimension of vectors.
func (g *goPooling) vectorAt(m *graph.Mem, first int) resultVector {
	region := kit.RegionOf(m.WorkerScratch)
	vector := resultVector{goPooling: g, partials: region.Take(g.fold.size(g.maxResults)),
		block:       region.Take(axes.BlockBytes),
		loadScratch: region.Take(axes.BlockBytes), out: region.Take(g.maxResults * 8)}
	if g.vectorDim == channelDim {
		vector.n, vector.step = min(g.maxResults, g.channels-first), g.inStrides[channelDim]
		return vector
	}
	run := g.axes[2].RunAt(first, g.maxResults, g.countPadding)
	if run.Results < minRunResults {
		run.Results = 1
	}
	vector.n, vector.step, vector.indexStep = run.Results, run.Step*g.inStrides[columnDim], run.Step
	return vector
}

// compute computes the results of the vector. index is the index of the first result: batch, channel, depth, row and
// column.
func (f *resultVector) compute(mem *graph.Mem, index *[2 + maxDims]int) {
	f.windows = f.sizedPooling.windows(index[depthDim], index[rowDim], index[columnDim])
	depthRange, rowRange := &f.windows[0], &f.windows[1]
	f.fold.begin(f.partials, f.n, f.planeIndex(depthRange.Start, rowRange.Start, f.windows[2].Start), f.indexStep)
	channel := unsafe.Add(mem.Ptrs[len(f.results)],
		index[batchDim]*f.inStrides[batchDim]+index[channelDim]*f.inStrides[channelDim])
	for d := depthRange.Start; d < depthRange.End; d += depthRange.Step {
		if f.n == 1 && f.load.Direct {
			f.foldPlane(channel, d)
			continue
		}
		for h := rowRange.Start; h < rowRange.End; h += rowRange.Step {
			f.foldRow(unsafe.Add(channel, d*f.inStrides[depthDim]+h*f.inStrides[rowDim]), f.planeIndex(d, h, 0))
		}
	}
	mem.CheckContextAfter(2 * f.n * f.taps)
	for i := range f.results {
		offset := 0
		for d, stride := range f.sizedPooling.outStrides[i] {
			offset += index[d] * stride
		}
		f.writeOutput(i, unsafe.Add(mem.Ptrs[i], offset))
	}
}

// foldPlane folds the taps of a single window at one depth. channel is the address of the channel's first element.
func (f *resultVector) foldPlane(channel unsafe.Pointer, depth int) {
	rowRange, columnRange := &f.windows[1], &f.windows[2]
	rows, columns := rowRange.Count(), columnRange.Count()
	if rows*columns == 0 {
		return
	}
	rowStride, columnStride := f.inStrides[rowDim], f.inStrides[columnDim]
	first := unsafe.Add(channel, depth*f.inStrides[depthDim]+rowRange.Start*rowStride+columnRange.Start*columnStride)
	taps := tapGrid{rows: rows, rowStep: rowRange.Step * rowStride, rowIndexStep: f.planeIndex(0, rowRange.Step, 0),
		columns: columns, columnStep: columnRange.Step * columnStride, columnIndexStep: columnRange.Step}
	f.fold.foldWindow(f.partials, first, taps, f.planeIndex(depth, rowRange.Start, columnRange.Start))
}

// foldRow folds the taps of one row of the operand. row is the address of the row, and index the index of its first
// element in the plane.
func (f *resultVector) foldRow(row unsafe.Pointer, index int) {
	columnRange, columnStride := &f.windows[2], f.inStrides[columnDim]
	if f.load.Direct {
		for w := columnRange.Start; w < columnRange.End; w += columnRange.Step {
			f.fold.foldTap(f.partials, unsafe.Add(row, w*columnStride), f.n, f.step, index+w, f.indexStep)
		}
		return
	}
	// In a pooling by planes, all elements from the first window to the last are converted at once if they fit in a
	// block.
	span := (f.n-1)*f.indexStep + columnRange.End - columnRange.Start
	if f.vectorDim == columnDim && span > 0 && span <= axes.BlockLen {
		f.load.Load(f.block, f.loadScratch, unsafe.Add(row, columnRange.Start*columnStride), columnStride, span)
		for w := columnRange.Start; w < columnRange.End; w += columnRange.Step {
			from := unsafe.Add(f.block, (w-columnRange.Start)*f.load.Size)
			f.fold.foldTap(f.partials, from, f.n, f.indexStep*f.load.Size, index+w, f.indexStep)
		}
		return
	}
	for w := columnRange.Start; w < columnRange.End; w += columnRange.Step {
		f.load.Load(f.block, f.loadScratch, unsafe.Add(row, w*columnStride), f.step, f.n)
		f.fold.foldTap(f.partials, f.block, f.n, f.load.Size, index+w, f.indexStep)
	}
}

// writeOutput writes an output, the values (0) or the indices (1), to address to. If the output's dtype is not the
// dtype of the loops, or its elements are not contiguous, the results are first written to worker memory.
func (f *resultVector) writeOutput(output int, to unsafe.Pointer) {
	step, size := f.sizedPooling.outStrides[output][f.vectorDim], tensor.Int64.Size()
	if output == 0 {
		size = f.load.Size
	}
	dst, inPlace := to, (f.load.Direct || output > 0) && (step == size || f.n == 1)
	if !inPlace {
		dst = f.out
	}
	switch {
	case output > 0:
		f.fold.indices(dst, f.partials, f.n)
	case f.kind == reduceAvg:
		f.fold.end(dst, f.partials, f.n, f.area(f.windows))
	default:
		f.fold.end(dst, f.partials, f.n, 1)
	}
	if !inPlace {
		f.store[output](to, dst, step, size, f.n)
	}
}
