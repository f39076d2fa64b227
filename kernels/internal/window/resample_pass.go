package window

import (
	"context"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

const (
	// minRowElements is the minimum number of contiguous elements that become a row of a compiled loop.
	minRowElements = 8
	// maxSumTaps is the maximum number of taps that one loop sums. A sum of more taps takes several loops.
	maxSumTaps = 4
	// minLongRow is the minimum number of elements of a row that takes a call of a loop for itself. Shorter rows share
	// calls.
	minLongRow = 1024
	// maxSharedRows is the maximum number of shorter rows with the same weights that share a call. More rows would evict
	// one another from the cache.
	maxSharedRows = 8
	// gatheredTapOps is the approximate cost of a tap in loops over single elements, in graph.GoSimple operations.
	gatheredTapOps = 7
	// rowTapOps is the approximate cost of a tap in loops over rows, in graph.LoopSimple operations of float32. Memory
	// access dominates the cost.
	rowTapOps = 22
	// loopCallRuns is the approximate cost of calling a loop, in units of graph.LoopRun.
	loopCallRuns = 6
	// tabulatedTapMoves is the approximate cost of computing a tap of a table, in elements of a copy.
	tabulatedTapMoves = 16
)

// resamplePass resamples one dimension of a dense array [outer, inSize, inner] into an array [outer, outSize, inner]. A
// row has `inner` contiguous elements. For example, the pass that doubles the height of an image [3, 32, 48] has outer
// 3, inSize 32, outSize 64 and inner 48. Each row of the result is a weighted sum of rows of the operand: the taps.
//
// Compiled loops sum rows of at least minRowElements elements, up to maxSumTaps taps at once (phase). Shorter rows are
// summed element by element in Go (gatherPhase).
type resamplePass[T float32 | float64] struct {
	axisPass
	src, dst     kit.Buffer
	staticTable  tapTable[T]             // the table of taps if axisTaps.hasStaticTable
	tableOffset  int                     // otherwise the offset in scratch memory of the table, in bytes
	outsideValue T                       // result at indices without taps
	maxCallRows  int                     // maximum number of rows that share a call of a loop
	startSum     [maxSumTaps]*loops.Loop // by number of taps - 1: sums weighted taps
	addToSum     [maxSumTaps]*loops.Loop // by number of taps - 1: adds weighted taps to the result
	state        graph.PerWorker[loopState]
}

// axisPass has the geometry of a pass.
type axisPass struct {
	outer, inSize, inner int       // sizes of the operand
	taps                 *axisTaps // taps of the resampled dimension, with outSize
}

// loopState is the state of a worker that runs the loops of a pass. The arguments of a loop are the result, then a row
// of elements and a weight for each tap, and then, if the loop adds to a sum, this sum.
type loopState struct {
	loops.State
	ptrs       [2 + 2*maxSumTaps]unsafe.Pointer // addresses of the first rows
	rowStrides [2 + 2*maxSumTaps]int            // distances between rows in bytes
}

// resampleKernel returns the kernel of weighted sums. It copies the operand to a dense array in the order of the
// result, resamples one dimension after another, and converts the result.
func resampleKernel[T float32 | float64](resample *resampling, call *graph.Call) (*graph.Kernel, error) {
	dtype, order := tensor.DTypeOf[T](), resampleOrder(call.Out[0])
	kernel := &passKernel{dtype: dtype}
	operand, err := permuted(kit.InBuffer(call, 0), order)
	if err != nil {
		return nil, err
	}
	result, err := permuted(kit.OutBuffer(call, 0), order)
	if err != nil {
		return nil, err
	}
	current := operand
	if operand.Meta.DType != dtype || !operand.Meta.IsContiguous() {
		current = kernel.newScratch(operand.Meta.Shape)
		kernel.addCopy(current, operand)
	}
	writesResult := result.Meta.DType == dtype && result.Meta.IsContiguous() // whether the last pass writes the result
	passes := resample.passes(current.Meta.Shape, order)
	for i, geometry := range passes {
		pass := &resamplePass[T]{axisPass: geometry, src: current, outsideValue: T(resample.outsideValue),
			maxCallRows: rowsPerCall(geometry.outer, geometry.inner)}
		pass.tabulate(&kernel.Kernel)
		if i == len(passes)-1 && writesResult {
			pass.dst = result
		} else {
			pass.dst = kernel.newScratch([]int{geometry.outer, geometry.taps.outSize, geometry.inner})
		}
		if err := pass.compileLoops(); err != nil {
			return nil, err
		}
		kernel.Phases = append(kernel.Phases, pass.phase())
		current = pass.dst
	}
	if !writesResult {
		current.Meta = tensor.New(dtype, result.Meta.Shape...)
		kernel.addCopy(result, current)
	}
	return &kernel.Kernel, nil
}

// passes returns the passes over an array whose dimensions are stored in the given order. storedShape[i] is the size of
// dimension order[i].
func (r *resampling) passes(storedShape, order []int) (list []axisPass) {
	current, shape := slices.Clone(storedShape), make([]int, len(storedShape))
	for i, d := range order {
		shape[d] = storedShape[i]
	}
	for _, d := range r.passOrder(shape) {
		i := slices.Index(order, d)
		list = append(list, axisPass{outer: tensor.Numel(current[:i]), inSize: current[i],
			inner: tensor.Numel(current[i+1:]), taps: r.taps[d]})
		current[i] = r.taps[d].outSize
	}
	return list
}

// passOrder returns the dimensions that change, in the order of their passes. Shrinking dimensions precede growing
// dimensions, which minimizes work. Each pass rounds, so the order of passes affects results. The order does not depend
// on the layout, so that results do not depend on the layout either.
func (r *resampling) passOrder(shape []int) (list []int) {
	for d, taps := range r.taps {
		if taps != nil && taps.outSize < shape[d] {
			list = append(list, d)
		}
	}
	for d, taps := range slices.Backward(r.taps) {
		if taps != nil && taps.outSize >= shape[d] {
			list = append(list, d)
		}
	}
	return list
}

// rowsPerCall returns the maximum number of rows that share a call of a loop. Rows have `inner` elements.
func rowsPerCall(outer, inner int) int {
	if inner >= minLongRow {
		return 1
	}
	return max(1, min(outer, maxSharedRows))
}

// tabulate lists the taps in a table, or adds a phase to the kernel that lists the taps in scratch memory.
func (p *resamplePass[T]) tabulate(kernel *graph.Kernel) {
	outSize, entries := p.taps.outSize, p.taps.outSize*p.taps.maxTaps
	if p.taps.hasStaticTable() {
		p.staticTable = tapTable[T]{stride: p.taps.maxTaps, counts: make([]int, outSize), elements: make([]int, entries),
			weights: make([]T, entries)}
		p.staticTable.fill(p.taps, 0, outSize)
		return
	}
	p.tableOffset = kernel.Scratch
	// The counts, then the elements, then the weights.
	kernel.Scratch += kit.AlignUp(8*(outSize+entries) + int(unsafe.Sizeof(p.outsideValue))*entries)
	kernel.Phases = append(kernel.Phases, copies.ChunkedPhase(outSize, tabulatedTapMoves*p.taps.maxTaps,
		func(mem *graph.Mem, begin, end int) error {
			table := p.tapsOf(mem)
			table.fill(p.taps, begin, end)
			return nil
		}))
}

// tapsOf returns the table of taps.
func (p *resamplePass[T]) tapsOf(mem *graph.Mem) tapTable[T] {
	if p.taps.hasStaticTable() {
		return p.staticTable
	}
	outSize, entries := p.taps.outSize, p.taps.outSize*p.taps.maxTaps
	return tapTable[T]{stride: p.taps.maxTaps, counts: kit.SliceOf[int](mem.Scratch, p.tableOffset, outSize),
		elements: kit.SliceOf[int](mem.Scratch, p.tableOffset+8*outSize, entries),
		weights:  kit.SliceOf[T](mem.Scratch, p.tableOffset+8*(outSize+entries), entries)}
}

// resampleOrder returns the order of dimensions, slowest first, of the arrays between passes.
func resampleOrder(out tensor.Meta) []int {
	if order, ok := tensor.OrderOf(out); ok {
		return order.Dims()
	}
	return tensor.RowMajorOrder(out.Rank()).Dims()
}

// permuted returns a view of a value with its dimensions in the given order.
func permuted(value kit.Buffer, order []int) (kit.Buffer, error) {
	meta, err := value.Meta.Permute(order)
	value.Meta = meta
	return value, err
}

// passKernel is a kernel to which phases and scratch memory are added. dtype is the dtype of the sums.
type passKernel struct {
	graph.Kernel
	dtype tensor.DType
}

// newScratch adds a dense array of the given shape to the scratch memory.
func (k *passKernel) newScratch(shape []int) kit.Buffer {
	buffer := kit.ScratchBuffer(k.Scratch, tensor.New(k.dtype, shape...))
	k.Scratch += kit.AlignUp(buffer.Meta.Bytes())
	return buffer
}

// addCopy adds a phase that copies and converts.
func (k *passKernel) addCopy(dst, src kit.Buffer) {
	phase, workerBytes := copies.Phase(copies.Job{Dst: dst, Src: src})
	k.Phases, k.WorkerScratch = append(k.Phases, phase), max(k.WorkerScratch, workerBytes)
}

// compileLoops compiles the loops of a pass over rows.
func (p *resamplePass[T]) compileLoops() (err error) {
	if p.inner < minRowElements {
		return nil
	}
	dtype := tensor.DTypeOf[T]()
	for i := range min(p.taps.maxTaps, maxSumTaps) {
		if p.startSum[i], err = sumLoop(dtype, i+1, false); err != nil {
			return err
		}
		if p.taps.maxTaps > maxSumTaps { // a sum may take several loops
			if p.addToSum[i], err = sumLoop(dtype, i+1, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// sumLoop compiles a loop that sums weighted taps. Operand 2k is an element of tap k, and operand 2k+1 its weight. If
// addsToSum is true, the loop adds the taps to a sum, which is the last operand.
func sumLoop(dtype tensor.DType, taps int, addsToSum bool) (*loops.Loop, error) {
	operands := 2 * taps
	if addsToSum {
		operands++
	}
	builder := expr.NewBuilder(slices.Repeat([]tensor.DType{dtype}, operands)...)
	isScalar, sum := make([]bool, operands), expr.None
	if addsToSum {
		sum = builder.Load(2 * taps)
	}
	for tap := range taps {
		isScalar[2*tap+1] = true
		product := builder.Emit(expr.Mul, builder.Load(2*tap), builder.Load(2*tap+1))
		if sum == expr.None {
			sum = product
		} else {
			sum = builder.Emit(expr.Add, sum, product)
		}
	}
	code, err := builder.Build(builder.Real(sum))
	if err != nil {
		return nil, err
	}
	return loops.New(&expr.Loop{Code: code, Uniform: isScalar}, loops.Options{})
}

// phase returns the phase of the pass. A unit of work computes the results at one index of the resampled dimension, for
// p.maxCallRows outer indices.
func (p *resamplePass[T]) phase() graph.Phase {
	if p.inner < minRowElements {
		return p.gatherPhase()
	}
	outSize := p.taps.outSize
	units := kit.DivUp(p.outer, p.maxCallRows) * outSize
	unitsPerChunk := max(1, machine.MoveGrain/max(1, kit.BoundedProduct(p.inner*p.maxCallRows, p.taps.maxTaps)))
	return graph.Phase{Chunks: kit.DivUp(units, unitsPerChunk), Run: func(mem *graph.Mem, chunk int) error {
		src, dst, table := p.src.Address(mem), p.dst.Address(mem), p.tapsOf(mem)
		state := p.state.Get(mem)
		state.Context = mem.Context
		for unit := chunk * unitsPerChunk; unit < min(units, (chunk+1)*unitsPerChunk); unit++ {
			outer, index := unit/outSize*p.maxCallRows, unit%outSize
			p.sumRows(state, &table, kit.AddressOf[T](dst, (outer*outSize+index)*p.inner),
				kit.AddressOf[T](src, outer*p.inSize*p.inner), index, min(p.maxCallRows, p.outer-outer))
		}
		clear(state.ptrs[:])
		state.Release()
		return nil
	}}
}

// sumRows computes the results at one index of the resampled dimension for `rows` consecutive outer indices. dst is the
// address of the first result, and src the address of the operand's first row for the first outer index. Each result is
// a weighted sum of rows of the operand.
func (p *resamplePass[T]) sumRows(state *loopState, table *tapTable[T], dst, src unsafe.Pointer, index, rows int) {
	begin, outSize := index*table.stride, p.taps.outSize
	end := begin + table.counts[index]
	if begin == end {
		for row := range rows {
			result := unsafe.Slice((*T)(kit.AddressOf[T](dst, row*outSize*p.inner)), p.inner)
			for i := range result {
				result[i] = p.outsideValue
			}
		}
		return
	}
	size := int(unsafe.Sizeof(p.outsideValue))
	dstStride, srcStride := outSize*p.inner*size, p.inSize*p.inner*size
	for firstTap := begin; firstTap < end; {
		taps := min(end-firstTap, maxSumTaps)
		state.ptrs[0], state.rowStrides[0] = dst, dstStride
		for tap := range taps {
			state.ptrs[1+2*tap] = kit.AddressOf[T](src, table.elements[firstTap+tap]*p.inner)
			state.rowStrides[1+2*tap] = srcStride
			state.ptrs[2+2*tap], state.rowStrides[2+2*tap] = unsafe.Pointer(&table.weights[firstTap+tap]), 0
		}
		loop, args := p.startSum[taps-1], 1+2*taps
		if firstTap > begin {
			loop = p.addToSum[taps-1]
			state.ptrs[args], state.rowStrides[args] = dst, dstStride
			args++
		}
		loop.Run(&state.State, state.ptrs[:args], state.rowStrides[:args], p.inner, rows)
		firstTap += taps
	}
}

// gatherPhase returns the phase of a pass over rows that are too short for compiled loops.
func (p *resamplePass[T]) gatherPhase() graph.Phase {
	outSize := p.taps.outSize
	units := p.outer * outSize
	unitsPerChunk := max(1, machine.GatherGrain/max(1, kit.BoundedProduct(p.inner, p.taps.maxTaps)))
	return graph.Phase{Chunks: kit.DivUp(units, unitsPerChunk), Run: func(mem *graph.Mem, chunk int) error {
		table := p.tapsOf(mem)
		p.gather(mem.Context, &table, p.src.Address(mem), p.dst.Address(mem), chunk*unitsPerChunk,
			min(units, (chunk+1)*unitsPerChunk))
		return nil
	}}
}

// gather computes the rows of the result from begin to end-1, one element after another. Row outer*outSize + index is
// the result at an outer index and an index of the resampled dimension, whose output size is outSize.
func (p *resamplePass[T]) gather(
	ctx context.Context, table *tapTable[T], operand, result unsafe.Pointer, begin, end int,
) {
	outSize := p.taps.outSize
	for row := begin; row < end; {
		outer, index := row/outSize, row%outSize
		src := unsafe.Slice((*T)(kit.AddressOf[T](operand, outer*p.inSize*p.inner)), p.inSize*p.inner)
		endIndex := min(outSize, index+end-row)
		dst := unsafe.Slice((*T)(kit.AddressOf[T](result, row*p.inner)), (endIndex-index)*p.inner)
		for i := range p.inner {
			p.gatherLine(ctx, table, dst[i:], src[i:], index, endIndex)
		}
		row += endIndex - index
	}
}

// gatherLine computes the results at indices [index, end) of the resampled dimension, for one outer and one inner
// index. dst begins at the first result, and src at the operand's first element. Neighbouring elements of both are
// p.inner elements apart.
func (p *resamplePass[T]) gatherLine(ctx context.Context, table *tapTable[T], dst, src []T, index, end int) {
	inner, position := p.inner, 0
	for ; index < end; index++ {
		firstTap := index * table.stride
		endTap := firstTap + table.counts[index]
		elements, weights := table.elements[firstTap:endTap], table.weights[firstTap:endTap]
		switch len(elements) {
		case 0:
			dst[position] = p.outsideValue
		case 1:
			dst[position] = weights[0] * src[elements[0]*inner]
		case 2:
			dst[position] = T(weights[0]*src[elements[0]*inner]) + T(weights[1]*src[elements[1]*inner])
		default:
			var sum T
			for tap, weight := range weights {
				if tap%kit.CheckEvery == kit.CheckEvery-1 {
					interrupt.Check(ctx)
				}
				sum += T(weight * src[elements[tap]*inner])
			}
			dst[position] = sum
		}
		position += inner
	}
}

// addWork adds the work of the passes to the given work. shape is the shape of the operand, and out is the result with
// its layout.
func (r *resampling) addWork(work *graph.Work, shape []int, out tensor.Meta) {
	if out.Numel() == 0 || out.Rank() == 0 {
		return
	}
	if r.mayBeSelection() {
		work.AddUnits(resizeElement, float64(out.Numel()))
		return
	}
	order := resampleOrder(out)
	var storedShape []int
	for _, d := range order {
		storedShape = append(storedShape, shape[d])
	}
	size := float64(resampleDType(out.DType).Size())
	passes := r.passes(storedShape, order)
	for i, pass := range passes {
		rows := float64(pass.outer) * float64(pass.taps.outSize)
		taps, _ := pass.taps.estimate()
		elements := float64(rows * float64(pass.inner))
		work.Flops += 2 * float64(elements*taps)
		if i < len(passes)-1 {
			work.Bytes[graph.Dense] += float64(2 * elements * size)
		}
		if pass.inner < minRowElements {
			work.AddUnits(graph.GoSimple, elements*taps*gatheredTapOps)
			continue
		}
		work.AddUnits(graph.LoopSimple, elements*taps*rowTapOps*size/4)
		work.AddUnoverlapped(graph.LoopRun, loopCallRuns*rows/float64(rowsPerCall(pass.outer, pass.inner)))
	}
}

// mayBeSelection reports whether each result is likely a copy of one element, as in mode nearest. It is an estimate for
// costs; [resampling.isSelection] is exact.
func (r *resampling) mayBeSelection() bool {
	for _, taps := range r.taps {
		if taps == nil {
			continue
		}
		if _, isSelection := taps.estimate(); !isSelection {
			return false
		}
	}
	return true
}
