package iter

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/axes"
	"github.com/graphrun/graphrun/tensor"
)

// reduceMemory is the working memory of a worker during a chunk.
type reduceMemory struct {
	acc           unsafe.Pointer // an accumulator for each result of a unit
	upper         unsafe.Pointer // accumulators of the second level (mergeInterval)
	block         unsafe.Pointer // a block of elements in the dtype of the Fold
	loaderBlock   unsafe.Pointer // a block for the loader
	keptWalker    axes.Walker    // position in the kept axes, except the fastest
	reducedWalker axes.Walker    // position in the reduced axes, except the fastest
}

// memory divides a worker's memory.
func (r *Reducer) memory(worker []byte) reduceMemory {
	g := arena{worker}
	var m reduceMemory
	m.acc, m.upper = g.take(r.unitLen*r.fold.accBytes), g.take(r.unitLen*r.fold.accBytes)
	m.block, m.loaderBlock = g.take(axes.BlockBytes), g.take(axes.BlockBytes)
	m.keptWalker = axes.Walker{Axes: r.keptAxes[1:], Index: g.ints(len(r.keptAxes) - 1)}
	m.reducedWalker = axes.Walker{Axes: r.reducedAxes[1:], Index: g.ints(len(r.reducedAxes) - 1)}
	return m
}

// seekUnit moves the walker of the kept axes to a unit and returns its number of results. A unit is a group of up to
// unitLen adjacent results along the fastest kept axis.
func (r *Reducer) seekUnit(m *reduceMemory, unit int) int {
	m.keptWalker.Seek(unit / r.unitsPerFastestAxis)
	return min(r.unitLen, r.keptAxes[0].N-unit%r.unitsPerFastestAxis*r.unitLen)
}

// reduce folds elements [begin, end) of the reduced range for the n results of a unit, and returns the accumulators.
func (r *Reducer) reduce(m *reduceMemory, in unsafe.Pointer, unit, n, begin, end int) unsafe.Pointer {
	r.fold.init(m.acc, n)
	if begin >= end {
		return m.acc
	}
	base := unsafe.Add(in, r.inOffset+m.keptWalker.Offset+unit%r.unitsPerFastestAxis*r.unitLen*r.keptAxes[0].In)
	if r.byRows {
		for j := range n {
			r.row(m, unsafe.Add(m.acc, j*r.fold.accBytes), unsafe.Add(base, j*r.keptAxes[0].In), begin, end)
		}
		return m.acc
	}
	return r.columns(m, base, n, begin, end)
}

// shortRun is the length in elements below which contiguous runs are first copied to a block, to reduce the number of
// calls of the Fold.
const shortRun = 32

// row folds the elements [begin, end) of one result into acc. src is the address of the result's element at position 0
// of the reduced range. Short contiguous runs are copied into a block until it is full, and then folded together.
func (r *Reducer) row(m *reduceMemory, acc, src unsafe.Pointer, begin, end int) {
	inner := r.reducedAxes[0]
	m.reducedWalker.Seek(begin / inner.N)
	innerIndex := begin % inner.N
	size, filled := r.loader.Size, 0
	for pos := begin; pos < end; {
		runLen := min(inner.N-innerIndex, end-pos)
		run := unsafe.Add(src, m.reducedWalker.Offset+innerIndex*inner.In)
		if r.loader.Direct && inner.In == size && runLen >= shortRun {
			// A long contiguous run is folded in place, after the elements in the block, which are earlier.
			if filled > 0 {
				r.fold.row(acc, m.block, filled, r.firstPosition+pos-filled)
				filled = 0
			}
			for offset := 0; offset < runLen; offset += axes.BlockLen {
				r.fold.row(acc, unsafe.Add(run, offset*size), min(axes.BlockLen, runLen-offset), r.firstPosition+pos+offset)
			}
		} else {
			for offset := 0; offset < runLen; {
				copied := min(runLen-offset, axes.BlockLen-filled)
				r.loader.Load(unsafe.Add(m.block, filled*size), m.loaderBlock, unsafe.Add(run, offset*inner.In), inner.In, copied)
				offset += copied
				if filled += copied; filled == axes.BlockLen {
					r.fold.row(acc, m.block, filled, r.firstPosition+pos+offset-filled)
					filled = 0
				}
			}
		}
		pos += runLen
		innerIndex = 0
		m.reducedWalker.Next()
	}
	if filled > 0 {
		r.fold.row(acc, m.block, filled, r.firstPosition+end-filled)
	}
}

// columns computes the accumulators of n adjacent results together: for each position in [begin, end), it folds one
// element into each accumulator. After every mergeInterval positions, the accumulators are merged into accumulators
// of a second level, to bound rounding errors.
func (r *Reducer) columns(m *reduceMemory, base unsafe.Pointer, n, begin, end int) unsafe.Pointer {
	inner, step := r.reducedAxes[0], r.keptAxes[0].In
	m.reducedWalker.Seek(begin / inner.N)
	innerIndex := begin % inner.N
	folded, usesUpper := 0, false
	for pos := begin; pos < end; pos++ {
		elems := r.loader.Run(m.block, m.loaderBlock, unsafe.Add(base, m.reducedWalker.Offset+innerIndex*inner.In), step, n)
		r.fold.columns(m.acc, elems, n, r.firstPosition+pos)
		if innerIndex++; innerIndex == inner.N {
			innerIndex = 0
			m.reducedWalker.Next()
		}
		if folded++; folded == mergeInterval && pos+1 < end {
			if !usesUpper {
				r.fold.init(m.upper, n)
			}
			r.fold.merge(m.upper, m.acc, n)
			r.fold.init(m.acc, n)
			folded, usesUpper = 0, true
		}
	}
	if !usesUpper {
		return m.acc
	}
	r.fold.merge(m.upper, m.acc, n)
	return m.upper
}

// writeResults computes the n results of a unit from the accumulators acc and writes them.
func (r *Reducer) writeResults(m *reduceMemory, ptrs []unsafe.Pointer, acc unsafe.Pointer, unit, n int) {
	if r.resumes {
		acc = r.resume(m, ptrs, acc, unit, n)
	}
	for i := range r.outs {
		out := &r.outs[i]
		dst, step := r.resultAddress(m, ptrs, i, unit)
		if out.sameDType && (step == out.size || n == 1) {
			r.fold.finish[i](dst, acc, n)
			continue
		}
		r.fold.finish[i](m.block, acc, n)
		out.store(dst, m.block, step, out.size, n)
	}
}

// resume returns accumulators that are initialized from the n results of a unit in the outputs, with acc merged into
// them.
func (r *Reducer) resume(m *reduceMemory, ptrs []unsafe.Pointer, acc unsafe.Pointer, unit, n int) unsafe.Pointer {
	merged := m.acc
	if acc == merged {
		merged = m.upper
	}
	r.fold.init(merged, n)
	for i := range r.outs {
		src, step := r.resultAddress(m, ptrs, i, unit)
		r.outs[i].load(m.block, src, r.outs[i].size, step, n)
		r.fold.resume[i](merged, m.block, n)
	}
	r.fold.merge(merged, acc, n)
	return merged
}

// resultAddress returns the address of a unit's first result in output i, and the stride in bytes between results.
func (r *Reducer) resultAddress(m *reduceMemory, ptrs []unsafe.Pointer, i, unit int) (unsafe.Pointer, int) {
	step := r.keptAxes[0].Out[i]
	return unsafe.Add(ptrs[i], r.outs[i].offset+m.keptWalker.Out[i]+unit%r.unitsPerFastestAxis*r.unitLen*step), step
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

func alignUp(n int) int { return (n + tensor.Align - 1) &^ (tensor.Align - 1) }
