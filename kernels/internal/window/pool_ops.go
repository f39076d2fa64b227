package window

import (
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

func avgPoolOp(d tensor.DType, divisor int) poolOp {
	switch kit.Wide(d) {
	case tensor.Int64:
		return avgPool[int64, int64]{divisor}
	case tensor.Float32:
		return avgPool[float32, float64]{divisor}
	}
	return avgPool[float64, float64]{divisor}
}

// avgPool sums in A; a divisor of 0 stands for the window's area.
type avgPool[T, A int64 | float32 | float64] struct{ divisor int }

func (a avgPool[T, A]) by(area float64) A {
	if a.divisor != 0 {
		return A(a.divisor)
	}
	return divisorOf[A](area)
}

func (a avgPool[T, A]) row(m *graph.Mem, p *pool, dst, _, x unsafe.Pointer, step, top, oh int) {
	y, hs := unsafe.Slice((*T)(dst), p.cols.out), p.rows.at(oh)
	for o := range y {
		if o%volumeLook == volumeLook-1 {
			m.CheckContext()
		}
		ws := p.cols.at(o)
		if hs.start >= hs.end || ws.start >= ws.end {
			y[o] = 0
			continue
		}
		var sum A
		for h := hs.start; h < hs.end; h++ {
			line := unsafe.Slice((*T)(unsafe.Add(x, (h-top)*step)), p.w)
			for _, v := range line[ws.start:ws.end] {
				sum += A(v)
			}
		}
		y[o] = T(sum / a.by(areaOf(1, hs.size, ws.size)))
	}
}

func (a avgPool[T, A]) fold() poolFold { return poolFold{kind: poolAvg, divisor: a.divisor} }

func (avgPool[T, A]) size() int { return 8 }

func (avgPool[T, A]) begin(acc unsafe.Pointer, n, _ int) { clear(unsafe.Slice((*A)(acc), n)) }

func (avgPool[T, A]) take(acc, x unsafe.Pointer, n, _ int) {
	folds.SumColumns(unsafe.Slice((*A)(acc), n), unsafe.Slice((*T)(x), n), 0)
}

func (a avgPool[T, A]) end(dst, _, acc unsafe.Pointer, n int, area float64) {
	y, d := unsafe.Slice((*T)(dst), n), a.by(area)
	for i, s := range unsafe.Slice((*A)(acc), n) {
		y[i] = T(s / d)
	}
}

func avgPoolReference(t *tensor.Tensor, shape []int, axes []poolAxis, divisor int) *tensor.Tensor {
	out := tensor.Zeros(t.DType, shape...)
	eachWindow(t, shape, axes, func(index []int, w *foldedWindow, taps int, area float64) {
		if taps > 0 {
			out.Set(w.result(poolAvg, nil, area, divisor), index...)
		}
	})
	return out
}

type maxPoolAttrs struct {
	KernelSize []int `attr:"kernel_size" doc:"height and width of the window"`
	Stride     []int `attr:"stride" default:"" doc:"steps of the window; default: kernel_size"`
	Padding    []int `attr:"padding" default:"0" doc:"ignored elements on both sides of each dimension, or all begins and then all ends"`
	Dilation   []int `attr:"dilation" default:"1" doc:"distance between elements of the window"`
	CeilMode   bool  `attr:"ceil_mode" default:"false" doc:"round the output size up, so that windows may reach past the end"`
}

func poolExamples(a graph.Attrs) []graph.Example {
	return []graph.Example{
		{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 4, 6)}, Attrs: a},
		{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 4, 6).WithStrides([]int{72, 1, 18, 3})}, Attrs: a},
	}
}

func maxPoolOp(d tensor.DType, indices bool) poolOp {
	switch {
	case kit.Wide(d) == tensor.Float32 && indices:
		return maxIndexPool[float32]{}
	case kit.Wide(d) == tensor.Float32:
		return maxPool[float32]{}
	case indices:
		return maxIndexPool[float64]{}
	}
	return maxPool[float64]{}
}

// maxPool computes maxima without indices.
type maxPool[T float32 | float64] struct{}

func (maxPool[T]) row(m *graph.Mem, p *pool, dst, _, x unsafe.Pointer, step, top, oh int) {
	y, hs := unsafe.Slice((*T)(dst), p.cols.out), p.rows.at(oh)
	least := T(math.Inf(-1))
	for o := range y {
		if o%volumeLook == volumeLook-1 {
			m.CheckContext()
		}
		ws := p.cols.at(o)
		best := least
		for h := hs.start; h < hs.end; h += hs.step {
			line := unsafe.Slice((*T)(unsafe.Add(x, (h-top)*step)), p.w)
			for w := ws.start; w < ws.end; w += ws.step {
				if v := line[w]; v > best || v != v {
					best = v
				}
			}
		}
		y[o] = best
	}
}

func (maxPool[T]) fold() poolFold { return poolFold{kind: poolMax} }

func (maxPool[T]) size() int { return int(unsafe.Sizeof(T(0))) }

func (maxPool[T]) begin(acc unsafe.Pointer, n, _ int) {
	a, least := unsafe.Slice((*T)(acc), n), T(math.Inf(-1))
	for i := range a {
		a[i] = least
	}
}

func (maxPool[T]) take(acc, x unsafe.Pointer, n, _ int) {
	a, v := unsafe.Slice((*T)(acc), n), unsafe.Slice((*T)(x), n)
	for i := range a {
		if v[i] > a[i] || v[i] != v[i] {
			a[i] = v[i]
		}
	}
}

func (maxPool[T]) end(dst, _, acc unsafe.Pointer, n int, _ float64) {
	copy(unsafe.Slice((*T)(dst), n), unsafe.Slice((*T)(acc), n))
}

// maxIndexPool also computes indices; among several NaNs, the last one's, as in PyTorch.
type maxIndexPool[T float32 | float64] struct{}

func (maxIndexPool[T]) row(m *graph.Mem, p *pool, dst, index, x unsafe.Pointer, step, top, oh int) {
	y, at := unsafe.Slice((*T)(dst), p.cols.out), unsafe.Slice((*int64)(index), p.cols.out)
	hs, least := p.rows.at(oh), T(math.Inf(-1))
	for o := range y {
		if o%volumeLook == volumeLook-1 {
			m.CheckContext()
		}
		ws := p.cols.at(o)
		best, where := least, hs.start*p.w+ws.start
		for h := hs.start; h < hs.end; h += hs.step {
			line := unsafe.Slice((*T)(unsafe.Add(x, (h-top)*step)), p.w)
			for w := ws.start; w < ws.end; w += ws.step {
				if v := line[w]; v > best || v != v {
					best, where = v, h*p.w+w
				}
			}
		}
		y[o], at[o] = best, int64(where)
	}
}

// indexedMax is a maximum and its index, initially that of the first element of the window.
type indexedMax[T float32 | float64] struct {
	v T
	i int64
}

func (maxIndexPool[T]) fold() poolFold { return poolFold{kind: poolMax} }

func (maxIndexPool[T]) size() int { return int(unsafe.Sizeof(indexedMax[T]{})) }

func (maxIndexPool[T]) begin(acc unsafe.Pointer, n, first int) {
	a, none := unsafe.Slice((*indexedMax[T])(acc), n), indexedMax[T]{T(math.Inf(-1)), int64(first)}
	for i := range a {
		a[i] = none
	}
}

func (maxIndexPool[T]) take(acc, x unsafe.Pointer, n, at int) {
	a, v := unsafe.Slice((*indexedMax[T])(acc), n), unsafe.Slice((*T)(x), n)
	for i := range a {
		if v[i] > a[i].v || v[i] != v[i] {
			a[i] = indexedMax[T]{v[i], int64(at)}
		}
	}
}

func (maxIndexPool[T]) end(dst, index, acc unsafe.Pointer, n int, _ float64) {
	y, at := unsafe.Slice((*T)(dst), n), unsafe.Slice((*int64)(index), n)
	for i, s := range unsafe.Slice((*indexedMax[T])(acc), n) {
		y[i], at[i] = s.v, s.i
	}
}

func maxPoolReference(t *tensor.Tensor, shape []int, axes []poolAxis) []*tensor.Tensor {
	out, indices := tensor.Zeros(t.DType, shape...), tensor.Zeros(tensor.Int64, shape...)
	eachWindow(t, shape, axes, func(index []int, w *foldedWindow, _ int, _ float64) {
		out.Set(w.best, index...)
		indices.Set(tensor.IntScalar(int64(w.where)), index...)
	})
	return []*tensor.Tensor{out, indices}
}

// eachWindow calls f for every index of the output with its folded window, the number of its elements, and its area
// with padding.
func eachWindow(t *tensor.Tensor, shape []int, axes []poolAxis,
	f func(index []int, w *foldedWindow, taps int, area float64)) {
	lead := t.Rank() - 2
	kit.EachIndex(shape, func(index []int) {
		hs, ws := axes[0].at(index[lead]), axes[1].at(index[lead+1])
		folded, taps := newFoldedWindow(t.DType, hs.start*t.Shape[lead+1]+ws.start), 0
		src := append([]int(nil), index...)
		for h := hs.start; h < hs.end; h += hs.step {
			for w := ws.start; w < ws.end; w += ws.step {
				src[lead], src[lead+1] = h, w
				folded.take(t.At(src...), h*t.Shape[lead+1]+w, poolMax, nil)
				taps++
			}
		}
		f(index, folded, taps, areaOf(1, hs.size, ws.size))
	})
}
