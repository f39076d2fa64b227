package iter

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/axes"
	"github.com/graphrun/graphrun/tensor"
)

// reduceMemory is the working memory of a worker during a chunk.
type reduceMemory struct {
	acc, upper, buf, tmp unsafe.Pointer
	kept, along          axes.Walker
}

func (r *Reducer) memory(worker []byte) reduceMemory {
	g := region{worker}
	var m reduceMemory
	m.acc, m.upper = g.take(r.unit*r.f.size), g.take(r.unit*r.f.size)
	m.buf, m.tmp = g.take(axes.BlockBytes), g.take(axes.BlockBytes)
	m.kept = axes.Walker{Axes: r.kept[1:], At: g.ints(len(r.kept) - 1)}
	m.along = axes.Walker{Axes: r.along[1:], At: g.ints(len(r.along) - 1)}
	return m
}

// seekUnit moves the walker of the kept axes to unit u and returns the number of results in the unit.
func (r *Reducer) seekUnit(m *reduceMemory, u int) int {
	m.kept.Seek(u / r.pieces)
	return min(r.unit, r.kept[0].N-u%r.pieces*r.unit)
}

// reduce folds the elements begin to end of the reduced range for the n results of unit u, and returns the
// accumulators.
func (r *Reducer) reduce(m *reduceMemory, in unsafe.Pointer, u, n, begin, end int) unsafe.Pointer {
	r.f.init(m.acc, n)
	if begin >= end {
		return m.acc
	}
	base := unsafe.Add(in, r.inAt+m.kept.Off+u%r.pieces*r.unit*r.kept[0].In)
	if r.rows {
		for j := range n {
			r.row(m, unsafe.Add(m.acc, j*r.f.size), unsafe.Add(base, j*r.kept[0].In), begin, end)
		}
		return m.acc
	}
	return r.columns(m, base, n, begin, end)
}

// shortRun is the number of elements below which even contiguous runs are gathered into blocks, to save calls of the
// Fold.
const shortRun = 32

// row computes one result. Short runs are gathered until they fill a block.
func (r *Reducer) row(m *reduceMemory, acc, src unsafe.Pointer, begin, end int) {
	inner := r.along[0]
	m.along.Seek(begin / inner.N)
	i := begin % inner.N
	size, filled := r.ld.Size, 0
	for p := begin; p < end; {
		k := min(inner.N-i, end-p)
		run := unsafe.Add(src, m.along.Off+i*inner.In)
		if r.ld.Direct && inner.In == size && k >= shortRun {
			if filled > 0 {
				r.f.row(acc, m.buf, filled, r.first+p-filled)
				filled = 0
			}
			for b := 0; b < k; b += axes.BlockLen {
				r.f.row(acc, unsafe.Add(run, b*size), min(axes.BlockLen, k-b), r.first+p+b)
			}
		} else {
			for b := 0; b < k; {
				c := min(k-b, axes.BlockLen-filled)
				r.ld.Load(unsafe.Add(m.buf, filled*size), m.tmp, unsafe.Add(run, b*inner.In), inner.In, c)
				b += c
				if filled += c; filled == axes.BlockLen {
					r.f.row(acc, m.buf, filled, r.first+p+b-filled)
					filled = 0
				}
			}
		}
		p += k
		i = 0
		m.along.Next()
	}
	if filled > 0 {
		r.f.row(acc, m.buf, filled, r.first+end-filled)
	}
}

// columns folds the elements begin to end of n adjacent results, one element of each at a time. After every columnLevel
// elements, the sums are merged into the next level, to bound rounding errors.
func (r *Reducer) columns(m *reduceMemory, base unsafe.Pointer, n, begin, end int) unsafe.Pointer {
	inner, step := r.along[0], r.kept[0].In
	m.along.Seek(begin / inner.N)
	i := begin % inner.N
	added, levels := 0, false
	for p := begin; p < end; p++ {
		x := r.ld.Run(m.buf, m.tmp, unsafe.Add(base, m.along.Off+i*inner.In), step, n)
		r.f.columns(m.acc, x, n, r.first+p)
		if i++; i == inner.N {
			i = 0
			m.along.Next()
		}
		if added++; added == columnLevel && p+1 < end {
			if !levels {
				r.f.init(m.upper, n)
			}
			r.f.merge(m.upper, m.acc, n)
			r.f.init(m.acc, n)
			added, levels = 0, true
		}
	}
	if !levels {
		return m.acc
	}
	r.f.merge(m.upper, m.acc, n)
	return m.upper
}

// finish writes the n results of unit u.
func (r *Reducer) finish(m *reduceMemory, ptrs []unsafe.Pointer, acc unsafe.Pointer, u, n int) {
	if r.resumes {
		acc = r.resume(m, ptrs, acc, u, n)
	}
	for i := range r.outs {
		o := &r.outs[i]
		dst, step := r.resultAddress(m, ptrs, i, u)
		if o.plain && (step == o.size || n == 1) {
			r.f.finish[i](dst, acc, n)
			continue
		}
		r.f.finish[i](m.buf, acc, n)
		o.store(dst, m.buf, step, o.size, n)
	}
}

// resume returns accumulators that are initialized from the outputs, with acc merged into them.
func (r *Reducer) resume(m *reduceMemory, ptrs []unsafe.Pointer, acc unsafe.Pointer, u, n int) unsafe.Pointer {
	into := m.acc
	if acc == into {
		into = m.upper
	}
	r.f.init(into, n)
	for i := range r.outs {
		src, step := r.resultAddress(m, ptrs, i, u)
		r.outs[i].load(m.buf, src, r.outs[i].size, step, n)
		r.f.resume[i](into, m.buf, n)
	}
	r.f.merge(into, acc, n)
	return into
}

// resultAddress returns the address of the first result of unit u in output i, and the stride in bytes between results.
func (r *Reducer) resultAddress(m *reduceMemory, ptrs []unsafe.Pointer, i, u int) (unsafe.Pointer, int) {
	step := r.kept[0].Out[i]
	return unsafe.Add(ptrs[i], r.outs[i].at+m.kept.Out[i]+u%r.pieces*r.unit*step), step
}

// region divides a worker's memory into parts aligned to cache lines.
type region struct{ b []byte }

func (g *region) take(n int) unsafe.Pointer {
	p := unsafe.Pointer(unsafe.SliceData(g.b))
	g.b = g.b[alignUp(n):]
	return p
}

func (g *region) ints(n int) []int { return unsafe.Slice((*int)(g.take(n*8)), n) }

func alignUp(n int) int { return (n + tensor.Align - 1) &^ (tensor.Align - 1) }
