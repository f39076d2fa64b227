package reduce

import (
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/axes"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// rowNorm normalizes rows: a row has all elements of the normalized axes at a position of the kept ones. Rows that are
// not contiguous are gathered first, and results scattered.
type rowNorm[T float32 | float64] struct {
	kept, row []axes.Axis
	n         int
	rows      int
	eps       float64
	ld        axes.Loader
	out       tensor.Meta
	store     tensor.ConvertFunc
	packed    bool // elements of a row are contiguous in the result
	normalize func(m *graph.Mem, y, x, w, b []T, eps float64)
	// params are weight and bias: in place if possible, or gathered into scratch memory.
	params [2]normParam
}

type normParam struct {
	given, copied bool
	meta          tensor.Meta
	at            int // offset in scratch memory
}

// newRowNorm normalizes over the last dims dimensions. Operands 1 and 2 are weight and bias, if given.
func newRowNorm[T float32 | float64](c *graph.Call, dims int, eps float64,
	normalize func(m *graph.Mem, y, x, w, b []T, eps float64)) *graph.Kernel {
	m, loops := c.Meta(0), c.Meta(0).DType.OpMath()
	mask := make([]bool, m.Rank())
	for d := m.Rank() - dims; d < m.Rank(); d++ {
		mask[d] = true
	}
	l := &rowNorm[T]{eps: eps, out: c.Out[0], normalize: normalize,
		ld: axes.NewLoader(m.DType, m.DType, loops), store: tensor.Converter(m.DType, loops)}
	l.kept, l.row = axes.Split(axes.Dims(m, c.Out...), mask, true)
	l.n, l.rows = axes.Numel(l.row), axes.Numel(l.kept)
	l.packed = packedOut(l.row, c.Out[0].DType.Size())
	k := &graph.Kernel{}
	if m.Numel() == 0 {
		return k
	}
	if m.SameAddresses(c.Out[0]) {
		k.InPlace = []graph.InPlace{{Out: 0, In: 0}}
	}
	size := loops.Size()
	k.Worker = 2*kit.AlignUp(8*(len(l.kept)+len(l.row))) + axes.BlockBytes + 2*kit.AlignUp(l.n*size)
	copies := false
	for i := range l.params {
		p := &l.params[i]
		*p = normParam{given: c.Has(i + 1), meta: c.Meta(i + 1), at: k.Scratch}
		if p.given && (p.meta.DType != loops || !p.meta.IsContiguous()) {
			p.copied, copies = true, true
			k.Scratch += kit.AlignUp(l.n * size)
		}
	}
	if copies {
		k.Phases = append(k.Phases, graph.Phase{Chunks: 2, Run: func(m *graph.Mem, chunk int) error {
			l.copyParam(m, chunk)
			return nil
		}})
	}
	perChunk := max(1, machine.ReduceGrain/2/l.n)
	chunks := kit.DivUp(l.rows, perChunk)
	k.Phases = append(k.Phases, graph.Phase{Chunks: chunks, Run: func(m *graph.Mem, chunk int) error {
		l.run(m, chunk*perChunk, min((chunk+1)*perChunk, l.rows))
		return nil
	}})
	return k
}

// copyParam gathers weight (0) or bias (1) into scratch memory.
func (l *rowNorm[T]) copyParam(m *graph.Mem, i int) {
	p := &l.params[i]
	if !p.copied {
		return
	}
	var z T
	size, last := int(unsafe.Sizeof(z)), p.meta.Rank()-1
	cv := tensor.Converter(tensor.DTypeOf[T](), p.meta.DType)
	at, n := p.at, p.meta.Shape[last]
	step := p.meta.Strides[last] * p.meta.DType.Size()
	tensor.Meta{Shape: p.meta.Shape[:last], Strides: p.meta.Strides[:last]}.Walk(func(off int) {
		cv(unsafe.Pointer(&m.Scratch[at]), unsafe.Add(m.Ptrs[2+i], off*p.meta.DType.Size()), size, step, n)
		at += n * size
	})
}

func (l *rowNorm[T]) param(m *graph.Mem, i int) []T {
	switch p := &l.params[i]; {
	case !p.given:
		return nil
	case p.copied:
		return unsafe.Slice((*T)(unsafe.Pointer(&m.Scratch[p.at])), l.n)
	}
	return unsafe.Slice((*T)(m.Ptrs[2+i]), l.n)
}

func (l *rowNorm[T]) run(m *graph.Mem, begin, end int) {
	r := kit.RegionOf(m.Worker)
	kept := axes.Walker{Axes: l.kept, At: r.Ints(len(l.kept))}
	inner := axes.Walker{Axes: l.row[1:], At: r.Ints(len(l.row) - 1)}
	tmp := r.Take(folds.BlockLen * 16)
	buf, res := r.Take(l.n*l.ld.Size), r.Take(l.n*l.ld.Size)
	w, b := l.param(m, 0), l.param(m, 1)
	for i := begin; i < end; i++ {
		kept.Seek(i)
		x := unsafe.Slice((*T)(l.load(&inner, buf, tmp, unsafe.Add(m.Ptrs[1], kept.Off))), l.n)
		dst := unsafe.Add(m.Ptrs[0], kept.Out[0])
		y := res
		if l.ld.Direct && l.packed {
			y = dst
		}
		l.normalize(m, unsafe.Slice((*T)(y), l.n), x, w, b, l.eps)
		if y != dst {
			l.deliver(&inner, dst, y)
		}
	}
}

// deliver copies a row of results to its destination.
func (l *rowNorm[T]) deliver(w *axes.Walker, dst, y unsafe.Pointer) {
	if l.packed {
		l.store(dst, y, l.out.DType.Size(), l.ld.Size, l.n)
		return
	}
	k := l.row[0]
	for at := 0; at < l.n; at += k.N {
		w.Seek(at / k.N)
		l.store(unsafe.Add(dst, w.Out[0]), unsafe.Add(y, at*l.ld.Size), k.Out[0], l.ld.Size, k.N)
	}
}

// packedOut reports whether the elements that the axes visit are contiguous in the first output.
func packedOut(v []axes.Axis, size int) bool {
	for _, a := range v {
		if a.N != 1 && a.Out[0] != size {
			return false
		}
		size *= a.N
	}
	return true
}

// load returns the row at src as one block: in place, or copied to buf.
func (l *rowNorm[T]) load(w *axes.Walker, buf, tmp, src unsafe.Pointer) unsafe.Pointer {
	k := l.row[0]
	if l.ld.Direct && len(l.row) == 1 && (k.In == l.ld.Size || k.N == 1) {
		return src
	}
	w.Seek(0)
	for at := 0; at < l.n; at += k.N {
		run := unsafe.Add(src, w.Off)
		for i := 0; i < k.N; i += folds.BlockLen {
			l.ld.Load(unsafe.Add(buf, (at+i)*l.ld.Size), tmp, unsafe.Add(run, i*k.In), k.In, min(folds.BlockLen, k.N-i))
		}
		w.Next()
	}
	return buf
}

// normalizeRow computes mean and variance in float64. The rounding error of the mean in T is added to the
// quotient, as in standardRow.
func normalizeRow[T float32 | float64](m *graph.Mem, y, x, w, b []T, eps float64) {
	var sum, squares float64
	kit.Blocks(m.Context, len(x), func(begin, end int) { folds.SumRow(&sum, x[begin:end], 0) })
	n := float64(len(x))
	mu := sum / n
	kit.Blocks(m.Context, len(x), func(begin, end int) { squares += folds.Squares(x[begin:end], mu) })
	scale := 1 / math.Sqrt(squares/n+eps)
	mean := T(mu)
	f, rest := T(scale), T((float64(mean)-mu)*scale)
	kit.Blocks(m.Context, len(x), func(begin, end int) {
		standardize(y[begin:end], x[begin:end], partOf(w, begin, end), partOf(b, begin, end), mean, f, rest)
	})
}

// partOf returns a part of a weight or bias, which may be nil.
func partOf[T float32 | float64](v []T, begin, end int) []T {
	if v == nil {
		return nil
	}
	return v[begin:end]
}

// standardize writes ((x-mean)*f+rest)*w + b; w and b may be nil.
func standardize[T float32 | float64](y, x, w, b []T, mean, f, rest T) {
	y = y[:len(x)]
	switch {
	case w != nil && b != nil:
		w, b = w[:len(x)], b[:len(x)]
		for i, v := range x {
			y[i] = ((v-mean)*f+rest)*w[i] + b[i]
		}
		return
	case w != nil:
		w = w[:len(x)]
		for i, v := range x {
			y[i] = ((v-mean)*f + rest) * w[i]
		}
		return
	}
	for i, v := range x {
		y[i] = (v-mean)*f + rest
	}
	if b != nil {
		b = b[:len(x)]
		for i := range y {
			y[i] += b[i]
		}
	}
}
