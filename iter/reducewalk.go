package iter

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/axes"
	"github.com/graphrun/graphrun/tensor"
)

// This file reduces one unit of a [Reducer]: adjacent results along the fastest kept axis. seekUnit moves to the unit,
// reduce folds its elements into accumulators by rows or by columns, and writeResults computes the results from the
// accumulators. For the sums of the rows of a 3x100 operand, foldRow is called three times with 100 elements. For the
// sums of its columns, foldColumns folds three rows into 100 accumulators.

// reduceMemory is the working memory of a worker during a chunk.
type reduceMemory struct {
	acc           unsafe.Pointer // an accumulator for each result of a unit
	upper         unsafe.Pointer // accumulators of the second level (mergeInterval)
	block         unsafe.Pointer // a block of elements in the dtype of the Fold
	loaderBlock   unsafe.Pointer // a block for the loader
	keptWalker    axes.Walker    // position in the kept axes, except the fastest
	reducedWalker axes.Walker    // position in the reduced axes, except the fastest
}

// divideMemory divides a worker's memory.
func (r *Reducer) divideMemory(worker []byte) reduceMemory {
	blocks := arena{worker}
	var m reduceMemory
	m.acc, m.upper = blocks.take(r.unitLen*r.fold.accBytes), blocks.take(r.unitLen*r.fold.accBytes)
	m.block, m.loaderBlock = blocks.take(axes.BlockBytes), blocks.take(axes.BlockBytes)
	m.keptWalker = axes.Walker{Axes: r.keptAxes[1:], Index: blocks.ints(len(r.keptAxes) - 1)}
	m.reducedWalker = axes.Walker{Axes: r.reducedAxes[1:], Index: blocks.ints(len(r.reducedAxes) - 1)}
	return m
}

// seekUnit moves the walker of the kept axes to a unit and returns its number of results.
func (r *Reducer) seekUnit(memory *reduceMemory, unit int) int {
	memory.keptWalker.Seek(unit / r.unitsPerFastestAxis)
	return min(r.unitLen, r.keptAxes[0].Size-r.firstResult(unit))
}

// firstResult returns the index of the first result of a unit along the fastest kept axis.
func (r *Reducer) firstResult(unit int) int { return unit % r.unitsPerFastestAxis * r.unitLen }

// reduce folds elements [begin, end) of the reduced range for the n results of a unit, and returns the accumulators.
func (r *Reducer) reduce(memory *reduceMemory, in unsafe.Pointer, unit, n, begin, end int) unsafe.Pointer {
	r.fold.init(memory.acc, n)
	if begin >= end {
		return memory.acc
	}
	step := r.keptAxes[0].InStride
	base := unsafe.Add(in, r.inOffset+memory.keptWalker.Offset+r.firstResult(unit)*step)
	if r.byRows {
		for j := range n {
			r.foldRow(memory, unsafe.Add(memory.acc, j*r.fold.accBytes), unsafe.Add(base, j*step), begin, end)
		}
		return memory.acc
	}
	return r.foldColumns(memory, base, n, begin, end)
}

// shortRun is the length in elements below which contiguous runs are first copied to a block, to reduce the number of
// calls of the Fold.
const shortRun = 32

// foldRow folds the elements [begin, end) of one result into acc. src is the address of the result's element at
// position 0 of the reduced range. Short contiguous runs are copied into a block until it is full, and then folded
// together.
func (r *Reducer) foldRow(memory *reduceMemory, acc, src unsafe.Pointer, begin, end int) {
	inner := r.reducedAxes[0]
	memory.reducedWalker.Seek(begin / inner.Size)
	innerIndex := begin % inner.Size
	isContiguous := r.loader.Direct && inner.InStride == r.loader.Size
	blockLen := 0 // number of elements in the block, which precede pos
	for pos := begin; pos < end; {
		runLen := min(inner.Size-innerIndex, end-pos)
		run := unsafe.Add(src, memory.reducedWalker.Offset+innerIndex*inner.InStride)
		if isContiguous && runLen >= shortRun {
			r.foldBlock(memory, acc, blockLen, pos)
			blockLen = 0
			r.foldInPlace(acc, run, runLen, pos)
		} else {
			blockLen = r.foldByBlock(memory, acc, run, runLen, pos, blockLen)
		}
		pos += runLen
		innerIndex = 0
		memory.reducedWalker.Next()
	}
	r.foldBlock(memory, acc, blockLen, end)
}

// foldInPlace folds a contiguous run of n elements into acc. The first element has position pos.
func (r *Reducer) foldInPlace(acc, run unsafe.Pointer, n, pos int) {
	for offset := 0; offset < n; offset += axes.BlockLen {
		r.fold.row(acc, unsafe.Add(run, offset*r.loader.Size), min(axes.BlockLen, n-offset), r.firstPosition+pos+offset)
	}
}

// foldByBlock copies a run of n elements, beginning at position pos, to the block after its blockLen elements. Whenever
// the block is full, it is folded into acc. The result is the number of elements in the block.
func (r *Reducer) foldByBlock(memory *reduceMemory, acc, run unsafe.Pointer, n, pos, blockLen int) int {
	step := r.reducedAxes[0].InStride
	for offset := 0; offset < n; {
		copied := min(n-offset, axes.BlockLen-blockLen)
		r.loader.Load(unsafe.Add(memory.block, blockLen*r.loader.Size), memory.loaderBlock,
			unsafe.Add(run, offset*step), step, copied)
		offset += copied
		if blockLen += copied; blockLen == axes.BlockLen {
			r.foldBlock(memory, acc, blockLen, pos+offset)
			blockLen = 0
		}
	}
	return blockLen
}

// foldBlock folds the n elements of the block into acc. Their positions are end-n to end-1.
func (r *Reducer) foldBlock(memory *reduceMemory, acc unsafe.Pointer, n, end int) {
	if n > 0 {
		r.fold.row(acc, memory.block, n, r.firstPosition+end-n)
	}
}

// foldColumns computes the accumulators of n adjacent results together: for each position in [begin, end), it folds one
// element into each accumulator. After every mergeInterval positions, the accumulators are merged into accumulators
// of a second level, to bound rounding errors.
func (r *Reducer) foldColumns(memory *reduceMemory, base unsafe.Pointer, n, begin, end int) unsafe.Pointer {
	inner, step := r.reducedAxes[0], r.keptAxes[0].InStride
	memory.reducedWalker.Seek(begin / inner.Size)
	innerIndex := begin % inner.Size
	folded := 0        // number of elements in each accumulator of the first level
	usesUpper := false // the second level has elements
	for pos := begin; pos < end; pos++ {
		first := unsafe.Add(base, memory.reducedWalker.Offset+innerIndex*inner.InStride)
		// elems are the elements in place, or copies in memory.block.
		elems := r.loader.Run(memory.block, memory.loaderBlock, first, step, n)
		r.fold.columns(memory.acc, elems, n, r.firstPosition+pos)
		if innerIndex++; innerIndex == inner.Size {
			innerIndex = 0
			memory.reducedWalker.Next()
		}
		if folded++; folded == mergeInterval && pos+1 < end {
			if !usesUpper {
				r.fold.init(memory.upper, n)
			}
			r.fold.merge(memory.upper, memory.acc, n)
			r.fold.init(memory.acc, n)
			folded, usesUpper = 0, true
		}
	}
	if !usesUpper {
		return memory.acc
	}
	r.fold.merge(memory.upper, memory.acc, n)
	return memory.upper
}

// writeResults computes the n results of a unit from the accumulators acc and writes them.
func (r *Reducer) writeResults(memory *reduceMemory, ptrs []unsafe.Pointer, acc unsafe.Pointer, unit, n int) {
	if r.resumes {
		acc = r.resume(memory, ptrs, acc, unit, n)
	}
	for i := range r.outs {
		out := &r.outs[i]
		dst, step := r.resultAddress(memory, ptrs, i, unit)
		if out.sameDType && (step == out.size || n == 1) { // the results are contiguous
			r.fold.finish[i](dst, acc, n)
			continue
		}
		r.fold.finish[i](memory.block, acc, n)
		out.store(dst, memory.block, step, out.size, n)
	}
}

// resume returns accumulators that are initialized from the n results of a unit in the outputs, and into which acc is
// merged.
func (r *Reducer) resume(memory *reduceMemory, ptrs []unsafe.Pointer, acc unsafe.Pointer, unit, n int) unsafe.Pointer {
	merged := memory.acc
	if acc == merged { // the second level is then free: acc has all elements
		merged = memory.upper
	}
	r.fold.init(merged, n)
	for i := range r.outs {
		src, step := r.resultAddress(memory, ptrs, i, unit)
		r.outs[i].load(memory.block, src, r.outs[i].size, step, n)
		r.fold.resume[i](merged, memory.block, n)
	}
	r.fold.merge(merged, acc, n)
	return merged
}

// resultAddress returns the address of a unit's first result in output i, and the stride in bytes between results.
func (r *Reducer) resultAddress(memory *reduceMemory, ptrs []unsafe.Pointer, i, unit int) (unsafe.Pointer, int) {
	step := r.keptAxes[0].OutStrides[i]
	offset := r.outs[i].offset + memory.keptWalker.OutOffsets[i] + r.firstResult(unit)*step
	return unsafe.Add(ptrs[i], offset), step
}

// arena divides memory into parts aligned to cache lines. free is the remaining memory.
type arena struct{ free []byte }

// take returns the address of the next `bytes` bytes.
func (g *arena) take(bytes int) unsafe.Pointer {
	start := unsafe.Pointer(unsafe.SliceData(g.free))
	g.free = g.free[alignUp(bytes):]
	return start
}

// ints returns the next memory as a slice of n integers.
func (g *arena) ints(n int) []int { return unsafe.Slice((*int)(g.take(n*8)), n) }

// alignUp rounds a number of bytes up to the alignment of the arena.
func alignUp(n int) int { return (n + tensor.Align - 1) &^ (tensor.Align - 1) }
