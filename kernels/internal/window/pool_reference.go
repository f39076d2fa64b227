package window

import (
	"math"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// volumeReference is the reference implementation of poolings. For a dimension and a result, taps returns the begin of
// the window, the indices of its elements in the operand, and its factor of the divisor of averages. If indices is set,
// the indices of maxima are a second result.
func volumeReference(t *tensor.Tensor, shape []int, dims int, kind poolKind, a *poolArgs, indices bool,
	taps func(d, o int) (first int, at []int, size int)) []*tensor.Tensor {
	out := []*tensor.Tensor{tensor.Zeros(t.DType, shape...)}
	if indices {
		out = append(out, tensor.Zeros(tensor.Int64, shape...))
	}
	lead := t.Rank() - dims
	kit.EachIndex(shape, func(index []int) {
		var elements [][]int
		counts, area, begin := make([]int, dims), 1.0, 0
		for d := range dims {
			first, at, size := taps(d, index[lead+d])
			begin = begin*t.Shape[lead+d] + first
			elements, area, counts[d] = append(elements, at), area*float64(size), len(at)
		}
		src := append([]int(nil), index...)
		w := newFoldedWindow(t.DType, begin)
		kit.EachIndex(counts, func(k []int) {
			flat := 0
			for d := range dims {
				src[lead+d] = elements[d][k[d]]
				flat = flat*t.Shape[lead+d] + src[lead+d]
			}
			w.take(t.At(src...), flat, kind, a)
		})
		divisor := 0
		if a != nil && a.divisor != nil {
			divisor = *a.divisor
		}
		out[0].Set(w.result(kind, a, area, divisor), index...)
		if indices {
			out[1].Set(tensor.IntScalar(int64(w.where)), index...)
		}
	})
	return out
}

// foldedWindow accumulates the elements of a window. Integers are exact.
type foldedWindow struct {
	integers  bool
	best, sum tensor.Scalar
	where     int
}

func newFoldedWindow(d tensor.DType, first int) *foldedWindow {
	if !d.IsIntegral(true) {
		return &foldedWindow{best: tensor.FloatScalar(math.Inf(-1)), sum: tensor.FloatScalar(0), where: first}
	}
	least := int64(0)
	if d != tensor.Uint8 && d != tensor.Bool {
		least = -1 << (8*d.Size() - 1)
	}
	return &foldedWindow{integers: true, best: tensor.IntScalar(least), sum: tensor.IntScalar(0), where: first}
}

func (w *foldedWindow) take(e tensor.Scalar, at int, kind poolKind, a *poolArgs) {
	if w.integers {
		if e.Int() > w.best.Int() {
			w.best, w.where = e, at
		}
		w.sum = tensor.IntScalar(w.sum.Int() + e.Int())
		return
	}
	f := e.Float()
	if f > w.best.Float() || f != f {
		w.best, w.where = e, at
	}
	if kind == poolNorm {
		f = math.Pow(math.Abs(f), a.norm)
	}
	w.sum = tensor.FloatScalar(w.sum.Float() + f)
}

// result returns the element of the result; a divisor of 0 stands for the area.
func (w *foldedWindow) result(kind poolKind, a *poolArgs, area float64, divisor int) tensor.Scalar {
	area = max(area, 1)
	by := divisorOf[int64](area)
	if divisor != 0 {
		area, by = float64(divisor), int64(divisor)
	}
	switch {
	case kind == poolMax:
		return w.best
	case kind == poolNorm:
		return tensor.FloatScalar(math.Pow(w.sum.Float(), 1/a.norm))
	case w.integers:
		return tensor.IntScalar(w.sum.Int() / by)
	}
	return tensor.FloatScalar(w.sum.Float() / area)
}
