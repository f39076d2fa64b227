package window

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// volumePixels is a pooling over up to three dimensions that folds the elements of a window for all channels at once.
// Operand and results may have any strides, in elements: batch, channel, and three spatial dimensions.
type volumePixels struct {
	*volume
	n, c  int
	xs    [5]int
	ys    [2][5]int // of the results: values and, if asked for, indices
	block int       // channels that are folded at once
}

// newVolumePixels requires an operand with a batch dimension.
func newVolumePixels(m tensor.Meta, outs []kit.Buffer, axes []poolAxis) *volumePixels {
	dims := len(axes)
	strides := func(m tensor.Meta) (st [5]int) {
		copy(st[:2], m.Strides[:2])
		copy(st[5-dims:], m.Strides[2:])
		return st
	}
	p := &volumePixels{volume: newVolume(m, axes), n: m.Shape[0], c: m.Shape[1], xs: strides(m),
		block: min(m.Shape[1], folds.BlockLen)}
	for i, o := range outs {
		p.ys[i] = strides(o.Meta)
	}
	return p
}

// pixel is the position of a result: the offsets of its first channel in operand and results, and its windows.
type pixel struct {
	x          int
	y          [2]int
	ds, hs, ws window
}

// phase calls f for every position of the results.
func (p *volumePixels) phase(f func(m *graph.Mem, at pixel)) graph.Phase {
	sizes := [3]int{p.axes[0].out, p.axes[1].out, p.axes[2].out}
	area := p.c
	for d := range p.axes {
		area = mulBounded(area, max(1, p.axes[d].most()))
	}
	return copies.CutUnits(p.n*product3(sizes), area, func(m *graph.Mem, begin, end int) error {
		for u := begin; u < end; u++ {
			w, h, d := u%sizes[2], u/sizes[2]%sizes[1], u/sizes[2]/sizes[1]%sizes[0]
			n := u / product3(sizes)
			at := pixel{x: n * p.xs[0], ds: p.axes[0].at(d), hs: p.axes[1].at(h), ws: p.axes[2].at(w)}
			for i, s := range p.ys {
				at.y[i] = n*s[0] + d*s[2] + h*s[3] + w*s[4]
			}
			f(m, at)
		}
		return nil
	})
}

func product3(v [3]int) int { return v[0] * v[1] * v[2] }

// each visits the elements of a window with their offsets in the operand and their indices in the plane.
func (p *volumePixels) each(at *pixel, f func(x, index int)) {
	for d := at.ds.start; d < at.ds.end; d += at.ds.step {
		for h := at.hs.start; h < at.hs.end; h += at.hs.step {
			base, line := at.x+d*p.xs[2]+h*p.xs[3], p.line(d, h)
			for w := at.ws.start; w < at.ws.end; w += at.ws.step {
				f(base+w*p.xs[4], line+w)
			}
		}
	}
}

// maxPixels is maxVolume for all channels of a position at once. Partial maxima and their indices are in the worker's
// memory.
func maxPixels[T volumeElement](p *volumePixels, least T, indices bool) (ph graph.Phase, worker int) {
	values := kit.AlignUp(p.block * int(unsafe.Sizeof(least)))
	return p.phase(func(m *graph.Mem, at pixel) {
		src := m.Ptrs[len(m.Ptrs)-1]
		for c := 0; c < p.c; c += p.block {
			n := min(p.block, p.c-c)
			best, where := kit.SliceOf[T](m.Worker, 0, n), kit.SliceOf[int64](m.Worker, values, n)
			first := int64(p.line(at.ds.start, at.hs.start) + at.ws.start)
			for i := range best {
				best[i], where[i] = least, first
			}
			p.each(&at, func(x, index int) {
				foldMax(best, where, kit.Elem[T](src, x+c*p.xs[1]), p.xs[1], int64(index))
			})
			scatter(kit.Elem[T](m.Ptrs[0], at.y[0]+c*p.ys[0][1]), best, p.ys[0][1])
			if indices {
				scatter(kit.Elem[int64](m.Ptrs[1], at.y[1]+c*p.ys[1][1]), where, p.ys[1][1])
			}
		}
	}), values + kit.AlignUp(8*p.block)
}

// foldMax folds elements that are step apart into the partial maxima; NaN propagates.
func foldMax[T volumeElement](best []T, where []int64, src unsafe.Pointer, step int, index int64) {
	where = where[:len(best)]
	if step == 1 {
		for i, e := range unsafe.Slice((*T)(src), len(best)) {
			if e > best[i] || e != e {
				best[i], where[i] = e, index
			}
		}
		return
	}
	for i := range best {
		if e := *(*T)(kit.Elem[T](src, i*step)); e > best[i] || e != e {
			best[i], where[i] = e, index
		}
	}
}

// scatter writes values with a stride of step elements.
func scatter[T volumeElement](dst unsafe.Pointer, v []T, step int) {
	if step == 1 {
		copy(unsafe.Slice((*T)(dst), len(v)), v)
		return
	}
	for i, e := range v {
		*(*T)(kit.Elem[T](dst, i*step)) = e
	}
}

// sumPixels is sumVolume for all channels of a position at once. Additions have the same order.
func sumPixels[T volumeElement, A int64 | float64](p *volumePixels, f func(T) A,
	g func(sum A, area float64) T) (ph graph.Phase, worker int) {
	return p.phase(func(m *graph.Mem, at pixel) {
		area := areaOf(at.ds.size, at.hs.size, at.ws.size)
		for c := 0; c < p.c; c += p.block {
			sums := kit.SliceOf[A](m.Worker, 0, min(p.block, p.c-c))
			clear(sums)
			p.each(&at, func(x, _ int) {
				foldSum(sums, kit.Elem[T](m.Ptrs[1], x+c*p.xs[1]), p.xs[1], f)
			})
			y := kit.Elem[T](m.Ptrs[0], at.y[0]+c*p.ys[0][1])
			for i, s := range sums {
				*(*T)(kit.Elem[T](y, i*p.ys[0][1])) = g(s, area)
			}
		}
	}), kit.AlignUp(8 * p.block)
}

// foldSum adds f of elements that are step apart; nil stands for the conversion to A.
func foldSum[T volumeElement, A int64 | float64](sums []A, src unsafe.Pointer, step int, f func(T) A) {
	switch {
	case f != nil:
		for i := range sums {
			sums[i] += f(*(*T)(kit.Elem[T](src, i*step)))
		}
	case step == 1:
		for i, e := range unsafe.Slice((*T)(src), len(sums)) {
			sums[i] += A(e)
		}
	default:
		for i := range sums {
			sums[i] += A(*(*T)(kit.Elem[T](src, i*step)))
		}
	}
}
